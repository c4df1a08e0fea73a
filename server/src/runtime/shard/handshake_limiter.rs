//! Limits TLS handshakes to one step at a time.
//!
//! A handshake costs the server up to a millisecond for its signature, hundreds of times as much as a delivery. So each of its
//! steps waits here until the shard has served its watches; while the shard always has work, handshakes get half of the time. A
//! handshake that waits for its client does not wait here.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use revcast_engine::tick::Tick;

use crate::clock::Clock;
use crate::runtime::sys::notify::{Notify, Oneshot};

/// The limiter of one shard.
#[derive(Debug)]
pub(in crate::runtime) struct HandshakeLimiter {
    clock: Clock,
    /// Wakes the shard, which admits the next step.
    notify: Rc<Notify>,
    waiting: RefCell<VecDeque<Rc<Oneshot<()>>>>,
    /// When the current step began, if there is one.
    inside: Cell<Option<Tick>>,
    /// When the next step may begin in a shard that has work.
    next: Cell<Tick>,
}

/// A step of a handshake: no other begins until this is dropped, also when its task panics.
#[derive(Debug)]
pub(in crate::runtime) struct Step(Rc<HandshakeLimiter>);

impl Drop for Step {
    fn drop(&mut self) {
        self.0.leave(self.0.clock.now());
        self.0.notify.ring();
    }
}

impl HandshakeLimiter {
    pub(in crate::runtime) fn new(clock: Clock, notify: Rc<Notify>) -> Rc<Self> {
        let (waiting, inside, next) = Default::default();
        Rc::new(Self { clock, notify, waiting, inside, next })
    }

    /// Waits until a step may begin.
    pub(in crate::runtime) async fn step(self: &Rc<Self>) -> Step {
        self.notify.ring();
        self.enter().await;
        Step(Rc::clone(self))
    }

    async fn enter(&self) {
        let admitted = Rc::new(Oneshot::new());
        self.waiting.borrow_mut().push_back(Rc::clone(&admitted));
        admitted.received().await;
    }

    /// Admits a step, unless one is in progress or the shard has work and it is too early.
    pub(in crate::runtime) fn open(&self, idle: bool, now: Tick) {
        if self.inside.get().is_some() || (!idle && now < self.next.get()) {
            return;
        }
        if let Some(admitted) = self.waiting.borrow_mut().pop_front() {
            self.inside.set(Some(now));
            admitted.send(());
        }
    }

    /// Whether a step is in progress or may begin.
    pub(in crate::runtime) fn is_busy(&self) -> bool {
        self.inside.get().is_some() || !self.waiting.borrow().is_empty()
    }

    /// A step has ended. The next may follow after as much time as this one took.
    fn leave(&self, now: Tick) {
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
        let gate = HandshakeLimiter::new(Clock::start(), Rc::default());
        let at = |ms: u64| Tick::ZERO.plus(Duration::from_millis(ms));
        let mut first = Box::pin(gate.enter());
        let mut second = Box::pin(gate.enter());
        assert!(block_on(poll_once(first.as_mut())).is_none(), "not opened yet");
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
