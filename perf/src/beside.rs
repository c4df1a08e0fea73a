//! What goes on beside the watchers, on threads of its own, from the first measured moment to the last: the probes of
//! `/livez`, the clients that read, the hostile ones; and what they found.

use crate::calls::{Calls, probe, read};
use crate::hostile::{Found, HostileClients};
use crate::latency::Latency;
use crate::object::Recipe;
use crate::options::Load;
use crate::target::Target;
use crate::writer::Span;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::thread::{self, JoinHandle};

#[derive(Debug)]
pub(crate) struct Beside {
    calls: Vec<JoinHandle<Calls>>,
    hostile: Option<HostileClients>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct BesideReport {
    /// Number and latencies by kind of call.
    #[serde(flatten)]
    pub(crate) answered: BTreeMap<&'static str, Value>,
    /// How late the probes woke: part of the above, and this generator's doing.
    pub(crate) livez_client_delay_p99_ns: Option<u64>,
    /// Of all these calls: answered wrong, or not at all.
    pub(crate) calls_failed: Option<u64>,
    pub(crate) calls_first_fault: Option<String>,
    pub(crate) besieged: Option<Found>,
}

impl Beside {
    pub(crate) fn start(args: &Load, target: &Target, recipe: &Recipe, span: Span) -> Self {
        let (from_ns, end_ns) = (span.measure_from_ns, span.end_ns);
        let probe = |fresh| {
            let target = target.clone();
            thread::spawn(move || probe(&target, fresh, from_ns..end_ns))
        };
        let reader = |number| {
            let (target, recipe) = (target.clone(), recipe.clone());
            thread::spawn(move || read(&target, &recipe, number, from_ns..end_ns))
        };
        let hostile = |hostile| HostileClients::start(hostile, target, recipe, from_ns, end_ns);
        let probes = [true, false].into_iter().filter(|_| args.probe).map(probe);
        Self {
            calls: probes.chain((0..args.mixture.readers).map(reader)).collect(),
            hostile: args.mixture.hostile.map(hostile),
        }
    }

    /// Waits for the end of all, which is a matter of the last answer.
    pub(crate) fn end(self) -> Result<BesideReport, String> {
        let some = !self.calls.is_empty();
        let mut all = Calls::default();
        for calls in self.calls {
            all.add(calls.join().map_err(|_| "a probe or a reader panicked".to_owned())?);
        }
        let figures = |latency: &Latency| {
            let [p50_ns, p99_ns, max_ns] = [0.5, 0.99, 1.0].map(|quantile| latency.at(quantile));
            json!({ "answered": latency.count(), "p50_ns": p50_ns, "p99_ns": p99_ns, "max_ns": max_ns })
        };
        let probed = all.latencies.contains_key("livez_kept");
        Ok(BesideReport {
            answered: all.latencies.iter().map(|(&kind, latency)| (kind, figures(latency))).collect(),
            livez_client_delay_p99_ns: probed.then(|| all.late.at(0.99)),
            calls_failed: some.then_some(all.failed),
            calls_first_fault: all.first_fault,
            besieged: self.hostile.map(HostileClients::end).transpose()?,
        })
    }
}
