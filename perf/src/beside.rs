//! What goes on beside the watchers, on threads of its own, from the first measured moment to the last: the probes of
//! `/livez` and the clients that read; and what they found.

use crate::args::Mixture;
use crate::http::{Caller, Connection};
use crate::latency::Latency;
use crate::object::Recipe;
use crate::probe::{Probe, Probed};
use crate::reader::{Read, Reader};
use crate::siege::{Besieged, Besiegers};
use crate::units::{show_count, show_ns};
use serde::Serialize;
use std::fmt;
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};

/// Threads at work.
#[derive(Debug)]
pub(crate) struct Beside {
    probes: Vec<(bool, JoinHandle<Probed>)>,
    readers: Vec<JoinHandle<Read>>,
    besiegers: Option<Besiegers>,
}

/// One kind of call. Absent in the report when there was none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Calls {
    pub(crate) answered: u64,
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) max_ns: u64,
}

/// What was found beside the watchers.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct BesideReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) livez_fresh: Option<Calls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) livez_kept: Option<Calls>,
    /// How late the probes woke: part of the above, and this generator's doing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) livez_client_delay_p99_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lists: Option<Calls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gets: Option<Calls>,
    /// Of all these calls: answered wrong, or not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) calls_failed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) calls_first_fault: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) besieged: Option<Besieged>,
}

impl Beside {
    pub(crate) fn start(
        mixture: &Mixture,
        address: SocketAddr,
        caller: &Caller,
        recipe: &Recipe,
        from_ns: u64,
        end_ns: u64,
    ) -> Self {
        let probe = |fresh| {
            let probe = Probe { address, caller: caller.clone(), fresh, from_ns, end_ns };
            (fresh, thread::spawn(move || probe.run()))
        };
        let reader = |number| {
            let server = Connection::new(address, caller.clone());
            let reader = Reader { server, recipe: recipe.clone(), number, from_ns, end_ns };
            thread::spawn(move || reader.run())
        };
        Self {
            probes: if mixture.probe { [true, false].map(probe).into() } else { Vec::new() },
            readers: (0..mixture.readers).map(reader).collect(),
            besiegers: mixture
                .siege
                .map(|siege| Besiegers::start(siege, address, caller, recipe, from_ns, end_ns)),
        }
    }

    /// Waits for the end of all, which is a matter of the last answer.
    pub(crate) fn end(self) -> Result<BesideReport, String> {
        let mut report = BesideReport::default();
        let (mut late, mut failed, mut fault) = (Latency::new(), 0, None);
        let (probing, reading) = (!self.probes.is_empty(), !self.readers.is_empty());
        for (fresh, probe) in self.probes {
            let probed = probe.join().map_err(|_| "a probe panicked".to_owned())?;
            late.add(&probed.late.pairs());
            failed += probed.failed;
            fault = fault.or(probed.first_fault);
            let calls = Some(Calls::from(&probed.latency));
            if fresh { report.livez_fresh = calls } else { report.livez_kept = calls }
        }
        let mut read = Read::new();
        for reader in self.readers {
            read.add(reader.join().map_err(|_| "a reader panicked".to_owned())?);
        }
        if probing {
            report.livez_client_delay_p99_ns = Some(late.at(0.99));
        }
        if reading {
            report.lists = Some(Calls::from(&read.lists));
            report.gets = Some(Calls::from(&read.gets));
        }
        if probing || reading {
            report.calls_failed = Some(failed + read.failed);
            report.calls_first_fault = fault.or(read.first_fault);
        }
        report.besieged = self.besiegers.map(Besiegers::end).transpose()?;
        Ok(report)
    }
}

impl From<&Latency> for Calls {
    fn from(latency: &Latency) -> Self {
        Self {
            answered: latency.count(),
            p50_ns: latency.at(0.5),
            p99_ns: latency.at(0.99),
            max_ns: latency.max(),
        }
    }
}

impl BesideReport {
    /// Every call was answered as it should be.
    pub(crate) fn is_clean(&self) -> bool {
        self.calls_failed.is_none_or(|failed| failed == 0)
    }
}

impl fmt::Display for BesideReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            ("/livez, fresh", self.livez_fresh),
            ("/livez, kept", self.livez_kept),
            ("LISTs", self.lists),
            ("GETs", self.gets),
        ];
        for (name, calls) in kinds {
            let Some(calls) = calls else { continue };
            let [p50, p99, max] = [calls.p50_ns, calls.p99_ns, calls.max_ns].map(show_ns);
            let answered = show_count(calls.answered);
            writeln!(out, "  {name:<16}{answered} answered: p50 {p50}  p99 {p99}  max {max}")?;
        }
        if let Some(ns) = self.livez_client_delay_p99_ns {
            let delay = show_ns(ns);
            writeln!(out, "  {:<16}of which the probe itself woke late by p99 {delay}", "")?;
        }
        if let (Some(failed @ 1..), Some(why)) = (self.calls_failed, &self.calls_first_fault) {
            writeln!(out, "  {:<16}{}, first: {why}", "calls failed", show_count(failed))?;
        }
        Ok(())
    }
}
