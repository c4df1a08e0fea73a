//! Limits TLS handshakes to one step at a time.
//!
//! A handshake costs the server up to a millisecond of signing, hundreds of times as much as a delivery. So each of its steps
//! waits here until the shard has looked after its watches; when the shard has work all the time, handshakes get half of it.
//! A handshake that waits for its client does not wait here.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use revcast_engine::tick::Tick;

use super::wake::Oneshot;

/// The limiter of one shard.
#[derive(Debug, Default)]
pub(super) struct HandshakeLimiter {
    waiting: RefCell<VecDeque<Rc<Oneshot<()>>>>,
    /// Since when somebody is inside.
    inside: Cell<Option<Tick>>,
    /// When the next may enter a shard that has work.
    next: Cell<Tick>,
}

impl HandshakeLimiter {
    /// Waits to be let in. The one who was lets the next one follow by [`leave`](Self::leave).
    pub(super) async fn enter(&self) {
        let promise = Rc::new(Oneshot::new());
        self.waiting.borrow_mut().push_back(Rc::clone(&promise));
        promise.received().await;
    }

    /// Lets one in, unless somebody is inside or the shard has work and it is not time yet.
    pub(super) fn open(&self, idle: bool, now: Tick) {
        if self.inside.get().is_some() || (!idle && now < self.next.get()) {
            return;
        }
        if let Some(promise) = self.waiting.borrow_mut().pop_front() {
            self.inside.set(Some(now));
            promise.send(());
        }
    }

    /// The one inside is done. The next may follow after as much time as this one took.
    pub(super) fn leave(&self, now: Tick) {
        if let Some(since) = self.inside.take() {
            self.next.set(now.plus(now.since(since)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_lite::future::{block_on, poll_once};

    use super::*;

    #[test]
    fn one_at_a_time_and_half_of_the_time() {
        let gate = HandshakeLimiter::default();
        let at = |ms: u64| Tick::ZERO.plus(Duration::from_millis(ms));
        let mut first = Box::pin(gate.enter());
        let mut second = Box::pin(gate.enter());
        assert!(block_on(poll_once(first.as_mut())).is_none(), "nobody opened");
        let mut second_in = || block_on(poll_once(second.as_mut())).is_some();
        assert!(!second_in());
        gate.open(false, at(10));
        assert!(block_on(poll_once(first.as_mut())).is_some(), "a busy shard lets the first in");
        gate.open(true, at(11));
        assert!(!second_in(), "one at a time");
        gate.leave(at(12));
        gate.open(false, at(13));
        assert!(!second_in(), "the watches get as much time");
        gate.open(false, at(14));
        assert!(second_in());
        gate.leave(at(20));
        let mut third = Box::pin(gate.enter());
        assert!(block_on(poll_once(third.as_mut())).is_none());
        gate.open(true, at(20));
        assert!(block_on(poll_once(third.as_mut())).is_some(), "an idle shard has time");
    }
}
