//! Limits how long requests run between two turns of a shard.
//!
//! Hundreds of requests may arrive at once, and each is a task that is ready: all of them would run before the watches take their
//! next turn. So a request that would begin when others have run for a while waits here until the shard has made its turn, and
//! then as many begin as fit into a part of the time that the turn took. It begins where its head is read: over HTTP/1.1 when its
//! socket is readable, over HTTP/2, where a connection's frames are read apart from what they ask for, when its stream is open.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use revcast_engine::tick::Tick;

use crate::runtime::sys::notify::{Notify, Oneshot};

/// How long requests may begin without a turn between them, at least.
const SLICE: Duration = Duration::from_millis(2);
/// After a longer turn requests get this part of its time.
const PART: u32 = 2;
/// A slice that began so long ago was not used up: requests came one by one.
const STALE: Duration = Duration::from_millis(4);
const _: () = assert!(STALE.as_millis() > SLICE.as_millis(), "or no slice ever ends");
/// What a request is taken to cost before one was measured.
const COST: Duration = Duration::from_micros(50);
/// A measured cost is limited to this range: a single request may read much, or nothing.
const COST_RANGE: (Duration, Duration) = (Duration::from_micros(5), Duration::from_millis(2));

/// The gate of one shard.
#[derive(Debug)]
pub(in crate::runtime) struct RequestGate {
    /// Wakes the shard, which lets more begin.
    notify: Rc<Notify>,
    waiting: RefCell<VecDeque<Rc<Oneshot<()>>>>,
    /// When the first request after the last turn began.
    began: Cell<Option<Tick>>,
    /// How many were let through then, if others still wait.
    released: Cell<u32>,
    /// What a request costs, in the mean of the last ones.
    cost: Cell<Duration>,
}

impl RequestGate {
    pub(super) fn new(notify: Rc<Notify>) -> Self {
        let (waiting, began, released) = Default::default();
        Self { notify, waiting, began, released, cost: Cell::new(COST) }
    }

    /// Waits until the shard has made a turn.
    pub(in crate::runtime) async fn wait(&self) {
        let admitted = Rc::new(Oneshot::new());
        self.waiting.borrow_mut().push_back(Rc::clone(&admitted));
        self.notify.ring();
        admitted.received().await;
    }

    /// Whether a request may begin now: otherwise it waits.
    pub(in crate::runtime) fn is_open(&self, now: Tick) -> bool {
        let used = self.began.get().map(|began| now.since(began)).filter(|used| *used < STALE);
        if used.is_none() {
            self.began.set(Some(now));
        }
        used.is_none_or(|used| used < SLICE) && self.waiting.borrow().is_empty()
    }

    /// Whether requests wait.
    pub(in crate::runtime) fn is_waiting(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// The requests that were let through have run.
    pub(in crate::runtime) fn have_run(&self, now: Tick) {
        let released = self.released.take();
        if let Some(began) = self.began.take()
            && let Some(each) = now.since(began).checked_div(released)
        {
            let cost = (3 * self.cost.get() + each.clamp(COST_RANGE.0, COST_RANGE.1)) / 4;
            self.cost.set(cost);
        }
    }

    /// The shard has made a turn, which took so long: more requests begin.
    pub(in crate::runtime) fn open(&self, turn: Duration, now: Tick) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.is_empty() {
            return;
        }
        let slice = SLICE.max(turn / PART);
        let fitting = slice.as_nanos() / self.cost.get().as_nanos();
        let most = u32::try_from(fitting).unwrap_or(u32::MAX).max(1);
        let mut released = 0;
        while released < most
            && let Some(admitted) = waiting.pop_front()
        {
            // Of a stream that has ended nobody waits any more: the next one gets its place.
            if Rc::strong_count(&admitted) > 1 {
                admitted.send(());
                released += 1;
            }
        }
        self.began.set(Some(now));
        // After the last ones the shard may sleep, and the time until its next turn says nothing.
        self.released.set(if waiting.is_empty() { 0 } else { released });
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use futures_lite::future::{block_on, poll_once};

    use super::*;

    fn at(micros: u64) -> Tick {
        Tick::ZERO.plus(Duration::from_micros(micros))
    }

    fn gate() -> RequestGate {
        RequestGate::new(Rc::default())
    }

    fn is_ready(waits: Pin<&mut impl Future<Output = ()>>) -> bool {
        block_on(poll_once(waits)).is_some()
    }

    #[test]
    fn requests_begin_at_once_until_others_have_run_for_long() {
        let gate = gate();
        assert!(gate.is_open(at(1_000)));
        assert!(gate.is_open(at(2_999)));
        assert!(!gate.is_open(at(3_000)), "the watches take their turn first");
        gate.have_run(at(3_300));
        assert!(gate.is_open(at(3_400)));
        // One by one, however little happens between them.
        assert!((1..100).all(|number| gate.is_open(at(3_400 + number * 4_000))));
    }

    #[test]
    fn as_many_follow_a_turn_as_fit_into_its_time() {
        let gate = gate();
        let began = at(1_000);
        assert!(gate.is_open(began));
        let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(gate.wait())).collect();
        let mut ready = || {
            let before = waiting.len();
            waiting.retain_mut(|waits| !is_ready(waits.as_mut()));
            before - waiting.len()
        };
        assert_eq!(ready(), 0);
        assert!(gate.is_waiting());
        gate.open(Duration::ZERO, began);
        assert_eq!(ready(), 40, "2 ms of 50 us each");
        // They took 250 us each: the mean is 100.
        gate.have_run(began.plus(Duration::from_millis(10)));
        gate.open(Duration::from_micros(6_400), began);
        assert_eq!(ready(), 32, "half of the turn");
        // Nothing that waits is forgotten, however long each takes.
        for _ in 0..80 {
            gate.have_run(began.plus(Duration::from_secs(1)));
            gate.open(Duration::ZERO, began);
            assert!(ready() > 0 || !gate.is_waiting());
        }
        assert!(!gate.is_waiting());
    }

    #[test]
    fn one_that_ended_gives_its_place_to_the_next() {
        let gate = gate();
        let began = at(1_000);
        let mut waiting: Vec<_> = (0..50).map(|_| Box::pin(gate.wait())).collect();
        assert!(!waiting.iter_mut().any(|waits| is_ready(waits.as_mut())));
        // 41 are left, and 40 begin.
        waiting.drain(10..15);
        waiting.drain(..4);
        gate.open(Duration::ZERO, began);
        let began_now: Vec<bool> = waiting.iter_mut().map(|waits| is_ready(waits.as_mut())).collect();
        assert_eq!(began_now.iter().position(|began| !began), Some(40), "the last one waits");
        waiting.clear();
        gate.open(Duration::ZERO, began);
        assert!(!gate.is_waiting());
        gate.have_run(began);
        assert!(gate.is_open(began), "nobody waits");
    }

    #[test]
    fn nobody_passes_those_that_wait() {
        let gate = gate();
        let began = at(1_000);
        assert!(gate.is_open(began));
        let mut waits = Box::pin(gate.wait());
        assert!(!is_ready(waits.as_mut()));
        gate.have_run(began);
        assert!(!gate.is_open(began), "a slice begins, and one waits");
        gate.open(Duration::ZERO, began);
        assert!(is_ready(waits.as_mut()));
    }
}
