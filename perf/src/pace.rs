//! `--rate max` as a closed loop: writers are at most so many events ahead of what the watchers got in the mean. So a run
//! goes as fast as the watchers take it, and what is in flight at the end is bounded. Writers ask the [`Gate`] before every
//! write; the coordinator raises it with every report of the lanes.

use crate::ledger::Scope;
use crate::options::{Load, Rate, deaf_among};
use crate::units::whole;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often lanes tell their progress when writers wait for it.
pub(crate) const REPORT_NS: u64 = 10_000_000;
pub(crate) const CLOSED_NS: u64 = 1_000_000;

/// How many writes may have been sent in all, by all writers.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    allowed: AtomicU64,
    sent: AtomicU64,
    /// No watcher will get these.
    failed: AtomicU64,
}

impl Gate {
    pub(crate) fn take(&self) -> bool {
        // The counters guard no other memory: no order is needed between them.
        let allowed =
            self.allowed.load(Ordering::Relaxed).saturating_add(self.failed.load(Ordering::Relaxed));
        let next = |sent: u64| (sent < allowed).then_some(sent + 1);
        self.sent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    pub(crate) fn allowed(&self) -> u64 {
        self.allowed.load(Ordering::Relaxed)
    }

    /// Writes that were sent and came to nothing are not waited for.
    pub(crate) fn fail(&self, writes: u64) {
        self.failed.fetch_add(writes, Ordering::Relaxed);
    }
}

/// The coordinator's side: what the watchers got so far, in writes.
pub(crate) struct Pace {
    gate: Arc<Gate>,
    ahead: u64,
    readers: u64,
    watchers: u64,
    /// Deliveries that a write is due in the mean, while all readers are there.
    due_per_write: f64,
    delivered: u64,
    reached: f64,
}

impl Pace {
    /// `None`: writes follow the clock, or nobody is to get any. `delivered`: before the first of these writes.
    pub(crate) fn new(base: &Load, scopes: &[Scope], objects: u32, delivered: u64) -> Option<Self> {
        let watchers = base.watchers;
        let readers = watchers - deaf_among(watchers, base.mixture.deaf_percent);
        let due_per_write = due_per_write(scopes, readers, objects);
        if base.rate != Rate::Max || due_per_write <= 0.0 {
            return None;
        }
        let ahead = u64::from(base.ahead);
        Some(Self {
            gate: Arc::new(Gate { allowed: ahead.into(), ..Gate::default() }),
            ahead,
            readers: u64::from(readers),
            watchers: u64::from(watchers),
            due_per_write,
            delivered,
            reached: 0.0,
        })
    }

    pub(crate) fn gate(&self) -> Arc<Gate> {
        Arc::clone(&self.gate)
    }

    /// Lanes have reported: so many watchers are open, so many deliveries came since the run began.
    pub(crate) fn learn(&mut self, open: u64, delivered: u64) {
        // A watcher that ended early gets no more: the others must not wait for it.
        let gone = self.watchers.saturating_sub(open).min(self.readers);
        let share = (self.readers - gone) as f64 / self.readers.max(1) as f64;
        let more = delivered.saturating_sub(self.delivered);
        if share > 0.0 && more > 0 {
            self.reached += more as f64 / (self.due_per_write * share);
            self.delivered = delivered;
            let reached = whole(self.reached.floor());
            self.gate.allowed.store(reached.saturating_add(self.ahead), Ordering::Relaxed);
        }
    }
}

/// Readers take the scopes in turn, and writes the objects at random: in the mean a write is due to so many.
fn due_per_write(scopes: &[Scope], readers: u32, objects: u32) -> f64 {
    let scope_count = u32::try_from(scopes.len()).unwrap_or(u32::MAX).max(1);
    let watching = |at: u32| readers / scope_count + u32::from(at < readers % scope_count);
    let due = (0..).zip(scopes).map(|(at, scope)| u64::from(watching(at)) * scope.objects.len() as u64);
    due.sum::<u64>() as f64 / f64::from(objects.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Mixture;

    fn scope(objects: std::ops::Range<u32>) -> Scope {
        Scope {
            path: "/p".to_owned(),
            revision: 1,
            objects: objects.collect(),
            media: crate::media::Media::Json,
        }
    }

    fn pace(deaf_percent: u32, scopes: &[Scope], watchers: u32, objects: u32) -> Pace {
        let mixture = Mixture { deaf_percent, ..Mixture::default() };
        let base = Load { ahead: 4, mixture, rate: Rate::Max, watchers, ..Load::default() };
        Pace::new(&base, scopes, objects, 0).expect("somebody is to get them")
    }

    fn take_all(gate: &Gate) -> u64 {
        (0..1000).take_while(|_| gate.take()).count() as u64
    }

    #[test]
    fn writers_are_so_many_events_ahead_and_no_more() {
        let mut pace = pace(0, &[scope(0..2)], 10, 2);
        let gate = pace.gate();
        assert_eq!(take_all(&gate), 4);
        pace.learn(10, 9);
        assert_eq!(take_all(&gate), 0, "not all have the first");
        pace.learn(10, 35);
        assert_eq!(take_all(&gate), 3, "three and a half in the mean");
        pace.learn(10, 35);
        assert_eq!(take_all(&gate), 0, "progress stands still");
        gate.fail(2);
        assert_eq!(take_all(&gate), 2, "what failed comes to nobody");
        pace.learn(10, 80);
        assert_eq!(take_all(&gate), 5);
    }

    #[test]
    fn who_ended_and_who_never_reads_is_not_waited_for() {
        let mut ended = pace(0, &[scope(0..1)], 10, 1);
        take_all(&ended.gate());
        ended.learn(5, 20);
        assert_eq!(take_all(&ended.gate()), 4, "each of the five got four");
        ended.learn(0, 99);
        assert_eq!(take_all(&ended.gate()), 0, "nobody is left");
        let mut deaf = pace(50, &[scope(0..1)], 10, 1);
        take_all(&deaf.gate());
        deaf.learn(10, 10);
        assert_eq!(take_all(&deaf.gate()), 2);
    }

    #[test]
    fn scopes_are_taken_together() {
        // Of 7 watchers 4 have three of the four objects, and 3 have one.
        assert_eq!(due_per_write(&[scope(0..3), scope(3..4)], 7, 4), 15.0 / 4.0);
        assert_eq!(due_per_write(&[], 7, 4), 0.0);
        let none =
            |rate, watchers| Pace::new(&Load { rate, watchers, ..Load::default() }, &[scope(0..1)], 1, 0);
        assert!(none(Rate::PerSecond(20.0), 5).is_none() && none(Rate::Max, 0).is_none());
    }
}
