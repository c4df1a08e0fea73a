//! When tasks of one core yield: to the shard's watches, and to the executor's rings, where requests arrive.
//!
//! Tasks are cooperative: one that always has work would starve the others.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use futures_lite::future;
use glommio::timer::sleep;
use revcast_engine::tick::Tick;

use crate::clock::Clock;
use crate::runtime::sys::notify::Oneshot;

/// How long tasks may keep the executor from polling its rings.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long a task then sleeps.
const GIVE_WAY: Duration = Duration::from_micros(20);

/// Pieces of long replies that are produced between two turns of a shard that has work: a piece costs a fifth to a half of a
/// turn.
const PIECES_PER_TURN: usize = 2;

/// The scheduling of the tasks of one core.
#[derive(Debug)]
pub(super) struct Scheduling {
    clock: Clock,
    /// When the executor is last known to have polled its rings.
    looked: Cell<Tick>,
    /// Whether that is in progress: cooperative tasks yield until the rings were polled.
    looking: Cell<bool>,
    /// Long replies that wait for the shard to make a turn.
    fairness_queue: RefCell<VecDeque<Rc<Oneshot<()>>>>,
}

impl Scheduling {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, looked: Cell::default(), looking: Cell::default(), fairness_queue: RefCell::default() }
    }

    /// Whether tasks have run for so long that the executor should poll its rings. It does when no task is ready: so a task
    /// that gets `true` sleeps until it calls [`has_looked`](Self::has_looked), and all tasks get `true` meanwhile.
    pub(super) fn must_look(&self) -> bool {
        let now = self.clock.now();
        if now.since(self.looked.get()) >= LOOK_EVERY {
            self.looked.set(now);
            self.looking.set(true);
        }
        self.looking.get()
    }

    /// Whether tasks sleep for that.
    pub(super) const fn is_looking(&self) -> bool {
        self.looking.get()
    }

    /// The executor has polled its rings just now, for whatever reason.
    pub(super) fn has_looked(&self) {
        self.looked.set(self.clock.now());
        self.looking.set(false);
    }

    /// The shard has made a turn: some tasks that wait for that continue; all, if it has no work.
    pub(super) fn turned(&self, idle: bool) {
        let mut queue = self.fairness_queue.borrow_mut();
        let count = if idle { queue.len() } else { PIECES_PER_TURN.min(queue.len()) };
        for turned in queue.drain(..count) {
            turned.send(());
        }
    }

    /// Yields to other work. `busy`: the shard has work.
    pub(super) async fn yield_now(&self, busy: bool) {
        if busy {
            let turned = Rc::new(Oneshot::new());
            self.fairness_queue.borrow_mut().push_back(Rc::clone(&turned));
            turned.received().await;
        } else if self.must_look() {
            // Any sleep makes the executor poll its rings.
            sleep(GIVE_WAY).await;
            self.has_looked();
        } else {
            future::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_due_when_there_was_none_for_long_whoever_looked() {
        let scheduling = Scheduling::new(Clock::start());
        std::thread::sleep(LOOK_EVERY);
        assert!(scheduling.must_look());
        assert!(scheduling.must_look(), "all tasks wait for it");
        // A sleep: nobody asked for the look at its end.
        scheduling.looked.set(Tick::ZERO);
        scheduling.has_looked();
        assert!(!scheduling.is_looking());
        assert!(scheduling.looked.get() > Tick::ZERO, "the next one is due so long after this one");
    }
}
