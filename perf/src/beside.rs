//! What goes on beside the watchers, on threads of its own, from the first measured moment to the last: the probes of
//! `/livez`, the clients that read, the hostile ones; and what they found.

use crate::hostile::{Found, HostileClients};
use crate::latency::Latency;
use crate::object::Recipe;
use crate::options::Load;
use crate::probe::{Probe, Probed};
use crate::reader::{Read, Reader};
use crate::target::Target;
use crate::writer::Span;
use serde::Serialize;
use std::thread::{self, JoinHandle};

#[derive(Debug)]
pub(crate) struct Beside {
    probes: Vec<(bool, JoinHandle<Probed>)>,
    readers: Vec<JoinHandle<Read>>,
    hostile: Option<HostileClients>,
}

/// One kind of call. Absent in the report when there was none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Calls {
    pub(crate) answered: u64,
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) max_ns: u64,
}

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
    pub(crate) besieged: Option<Found>,
}

impl Beside {
    pub(crate) fn start(args: &Load, target: &Target, recipe: &Recipe, span: Span) -> Self {
        let (from_ns, end_ns) = (span.measure_from_ns, span.end_ns);
        let probe = |fresh| {
            let probe = Probe { target: target.clone(), fresh, from_ns, end_ns };
            (fresh, thread::spawn(move || probe.run()))
        };
        let reader = |number| {
            let reader = Reader { server: target.connect(), recipe: recipe.clone(), number, from_ns, end_ns };
            thread::spawn(move || reader.run())
        };
        let hostile = |hostile| HostileClients::start(hostile, target, recipe, from_ns, end_ns);
        Self {
            probes: if args.probe { [true, false].map(probe).into() } else { Vec::new() },
            readers: (0..args.mixture.readers).map(reader).collect(),
            hostile: args.mixture.hostile.map(hostile),
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
        let mut read = Read::default();
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
        report.besieged = self.hostile.map(HostileClients::end).transpose()?;
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
