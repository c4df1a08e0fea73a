//! Tasks of one shard that wait until a revision is visible.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures_lite::future;
use glommio::timer::sleep;
use revcast_engine::revision::Revision;

use crate::runtime::sys::notify::Oneshot;

/// A task that waits.
#[derive(Debug)]
struct Waiter {
    revision: Revision,
    /// Whether the revision was reached.
    reached: Rc<Oneshot<bool>>,
}

/// The waiting tasks of one shard.
#[derive(Debug, Default)]
pub(super) struct RevisionWaiters {
    waiting: RefCell<Vec<Waiter>>,
    /// The newest revision that they were notified of.
    told: Cell<Revision>,
}

impl RevisionWaiters {
    /// Waits for a revision. False if `within` passed before, or the epoch ended.
    pub(super) async fn wait(&self, revision: Revision, within: Duration) -> bool {
        let reached = Rc::new(Oneshot::new());
        self.waiting.borrow_mut().push(Waiter { revision, reached: Rc::clone(&reached) });
        let late = async {
            sleep(within).await;
            false
        };
        let in_time = future::or(reached.received(), late).await;
        self.waiting.borrow_mut().retain(|waiter| !Rc::ptr_eq(&waiter.reached, &reached));
        in_time
    }

    /// Everything up to `revision` is visible.
    pub(super) fn tell(&self, revision: Revision) {
        if self.told.replace(revision) == revision {
            return;
        }
        self.waiting.borrow_mut().retain(|waiter| {
            let reached = waiter.revision <= revision;
            if reached {
                waiter.reached.send(true);
            }
            !reached
        });
    }

    /// The epoch has ended: the revisions that they wait for will not come.
    pub(super) fn give_up(&self) {
        self.told.set(Revision::ZERO);
        for waiter in self.waiting.borrow_mut().drain(..) {
            waiter.reached.send(false);
        }
    }

    /// Whether a task waits that was not notified of `revision`.
    pub(super) fn has_work(&self, revision: Revision) -> bool {
        self.told.get() < revision && !self.waiting.borrow().is_empty()
    }
}
