//! What goes on beside the watchers, on threads of its own, from the first measured moment to the last: the probes of
//! `/livez`, the clients that read, the hostile ones; and what they found.

use crate::calls::{Calls, probe, read};
use crate::hostile::HostileClients;
use crate::object::Recipe;
use crate::options::Load;
use crate::record::Facts;
use crate::target::Target;
use crate::writer::Span;
use serde_json::json;
use std::thread::{self, JoinHandle};

pub(crate) struct Beside {
    calls: Vec<JoinHandle<Calls>>,
    hostile: Option<HostileClients>,
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

    /// Waits for the end of all, which is a matter of the last answer. What they found: the number and latencies of each kind
    /// of call; how many were answered wrong, or not at all; and what the hostile clients found.
    pub(crate) fn end(self) -> Result<Facts, String> {
        let (some, mut found, mut all) = (!self.calls.is_empty(), Facts::new(), Calls::default());
        for calls in self.calls {
            all.add(calls.join().map_err(|_| "a probe or a reader panicked".to_owned())?);
        }
        for (&kind, latency) in &all.latencies {
            let [p50_ns, p99_ns, max_ns] = [0.5, 0.99, 1.0].map(|quantile| latency.at(quantile));
            let figures =
                json!({ "answered": latency.len(), "p50_ns": p50_ns, "p99_ns": p99_ns, "max_ns": max_ns });
            found.insert(kind.to_owned(), figures);
        }
        if all.latencies.contains_key("livez_kept") {
            // How late the probes woke: part of the above, and this generator's doing.
            found.insert("livez_client_delay_p99_ns".to_owned(), all.late.at(0.99).into());
        }
        if some {
            found.insert("calls_failed".to_owned(), all.failed.into());
            found.insert("calls_first_fault".to_owned(), all.first_fault.into());
        }
        if let Some(hostile) = self.hostile {
            found.insert("besieged".to_owned(), json!(hostile.end()?));
        }
        Ok(found)
    }
}
