//! When tasks of one core give way: to the shard's watches, and to the executor's rings, where requests arrive.
//!
//! Tasks are cooperative: one that always finds something to do would keep the others from theirs.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use futures_lite::future;
use glommio::timer::sleep;
use revcast_engine::tick::Tick;

use crate::clock::Clock;
use crate::runtime::sys::notify::Oneshot;

/// How long tasks may keep the executor from its rings.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long a task that has run for that long sleeps.
const GIVE_WAY: Duration = Duration::from_micros(20);

/// Pieces of long replies that are made between two turns of a shard that has work: a piece costs a fifth to a half of a turn.
const PIECES_PER_TURN: usize = 2;

/// The tasks of one core, and whose turn it is.
#[derive(Debug)]
pub(super) struct Scheduling {
    clock: Clock,
    /// When the executor was last made to look at its rings.
    looked: Cell<Tick>,
    /// Whether that is under way: cooperative tasks yield until the rings were polled.
    looking: Cell<bool>,
    /// Long replies that wait for the shard to make a turn.
    fairness_queue: RefCell<VecDeque<Rc<Oneshot<()>>>>,
}

impl Scheduling {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, looked: Cell::default(), looking: Cell::default(), fairness_queue: RefCell::default() }
    }

    /// Whether tasks have run for so long that the executor should look at its rings. It does when no task is ready: so a task
    /// that asks and is told yes sleeps until it [`has_looked`](Self::has_looked), and all are told yes meanwhile.
    pub(super) fn must_look(&self) -> bool {
        let now = self.clock.now();
        if now.since(self.looked.get()) >= LOOK_EVERY {
            self.looked.set(now);
            self.looking.set(true);
        }
        self.looking.get()
    }

    /// The executor has looked at its rings.
    pub(super) fn has_looked(&self) {
        self.looking.set(false);
    }

    /// The shard has made a turn: some tasks that wait for that go on; all, when it has nothing to do.
    pub(super) fn turned(&self, idle: bool) {
        let mut queue = self.fairness_queue.borrow_mut();
        let count = if idle { queue.len() } else { PIECES_PER_TURN.min(queue.len()) };
        for turned in queue.drain(..count) {
            turned.send(());
        }
    }

    /// Lets other work go first. `busy`: the shard has something to do.
    pub(super) async fn yield_now(&self, busy: bool) {
        if busy {
            let turned = Rc::new(Oneshot::new());
            self.fairness_queue.borrow_mut().push_back(Rc::clone(&turned));
            turned.received().await;
        } else if self.must_look() {
            // A sleep, however short, takes the executor to its rings.
            sleep(GIVE_WAY).await;
            self.has_looked();
        } else {
            future::yield_now().await;
        }
    }
}
