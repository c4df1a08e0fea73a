//! All writers of one part of a run: started together, ended together, their accounts put together.

use crate::args::{Fanout, Rate};
use crate::clock::nanos;
use crate::fanout::Span;
use crate::latency::Latency;
use crate::message::Finish;
use crate::object::Recipe;
use crate::pace::Gate;
use crate::site::Site;
use crate::writer::{Order, Writer, Written};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Writers at work.
#[derive(Debug)]
pub(crate) struct Writers {
    running: Vec<JoinHandle<Written>>,
    acknowledged: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    objects: u32,
}

impl Writers {
    /// With a gate every write waits for it.
    pub(crate) fn start(
        site: &Site,
        base: &Fanout,
        recipe: &Recipe,
        rate: Rate,
        span: Span,
        gate: Option<&Arc<Gate>>,
    ) -> Self {
        let (acknowledged, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let interval_ns = match rate {
            Rate::Max => 0,
            Rate::PerSecond(rate) => nanos(Duration::from_secs_f64(f64::from(base.writers) / rate)).max(1),
        };
        let start = |number| {
            let order = Order {
                address: site.address,
                caller: site.caller.clone(),
                recipe: recipe.clone(),
                number,
                writers: base.writers,
                start_ns: span.start_ns,
                end_ns: span.end_ns,
                measure_from_ns: span.measure_from_ns,
                interval_ns,
                depth: base.pipeline,
                writes_max: u64::MAX,
                written_before: Vec::new(),
            };
            let writer = Writer::new(order, Arc::clone(&acknowledged)).until(Arc::clone(&stop));
            let writer = writer.behind(gate.cloned());
            thread::spawn(move || writer.run())
        };
        let running = (0..base.writers).map(start).collect();
        Self { running, acknowledged, stop, objects: recipe.objects() }
    }

    /// Writes that the server has acknowledged, warm-up included.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    pub(crate) fn are_done(&self) -> bool {
        self.running.iter().all(JoinHandle::is_finished)
    }

    /// Writes no more and waits for the replies.
    pub(crate) fn end(self) -> Result<Account, String> {
        self.stop.store(true, Ordering::Relaxed);
        let mut account = Account {
            measured: 0,
            finals: vec![0; self.objects as usize],
            failed: Vec::new(),
            first_fault: None,
            lateness: Latency::new(),
            last_reply_ns: 0,
        };
        for writer in self.running {
            let written = writer.join().map_err(|_| "a writer panicked".to_owned())?;
            account.measured += written.measured;
            for &(object, seq) in &written.finals {
                account.finals[object as usize] = seq;
            }
            account.failed.extend(written.failed);
            account.first_fault = account.first_fault.or(written.first_fault);
            account.lateness.add(&written.lateness.pairs());
            account.last_reply_ns = account.last_reply_ns.max(written.last_reply_ns);
        }
        Ok(account)
    }
}

/// What all writers together did.
#[derive(Debug)]
pub(crate) struct Account {
    /// Acknowledged writes that count.
    pub(crate) measured: u64,
    finals: Vec<u32>,
    /// Writes (object, seq) without a 2xx reply.
    pub(crate) failed: Vec<(u32, u32)>,
    pub(crate) first_fault: Option<String>,
    /// The generator's own lateness.
    pub(crate) lateness: Latency,
    pub(crate) last_reply_ns: u64,
}

impl Account {
    /// What the watchers are held against.
    pub(crate) fn finish(&self, drain: Duration) -> Finish {
        Finish { finals: self.finals.clone(), failed: self.failed.clone(), drain_ns: nanos(drain) }
    }
}
