//! Answers that were given lately, and questions that are under way: one for all that wait for the same answer.
//!
//! Shared by all shards; its locks are held for a look-up. Time is an argument. An answer is found by a digest of its question,
//! and yes and no are bounded apart, in number and bytes: a client that is refused can displace no answer of one that is not.
//! Of each the oldest goes first. A failure is told to those that wait for it, and not kept.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

/// The digest of a question.
pub(super) type Key = [u8; 32];

/// An answer that may be kept.
pub(super) trait Answer: Clone {
    /// Whether it is a yes.
    fn is_yes(&self) -> bool;
    /// Bytes that it holds.
    fn bytes(&self) -> usize;
}

/// Bytes of an entry besides its answer's own.
const ENTRY_BYTES: usize = 256;
/// An answer of more than this part of all bytes is not kept.
const LARGEST_PART: usize = 64;
/// Clocks of cores differ, and a request's time is read before it waits. An answer from further in the future was kept before the
/// clock was set back.
const SKEW: Duration = Duration::from_secs(1);

/// How much is kept, of each of yes and no.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) entries: usize,
    pub(super) bytes: usize,
}

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// It was kept.
    Kept,
    /// Another one asked for it.
    Shared,
    /// It was asked for.
    Asked,
}

#[derive(Debug)]
struct Kept<V> {
    answer: V,
    asked: SystemTime,
    until: SystemTime,
    number: u64,
}

/// Answers of one kind: in the order in which they were given, and their bytes.
#[derive(Debug, Default)]
struct Class {
    order: BTreeMap<u64, Key>,
    bytes: usize,
}

#[derive(Debug)]
struct Inner<V, E> {
    kept: HashMap<Key, Kept<V>>,
    flights: HashMap<Key, Arc<Flight<V, E>>>,
    /// No, and yes.
    classes: [Class; 2],
    number: u64,
}

/// A question under way.
#[derive(Debug)]
struct Flight<V, E>(Mutex<FlightState<V, E>>);

#[derive(Debug)]
struct FlightState<V, E> {
    outcome: Outcome<V, E>,
    waiting: Vec<Option<Waker>>,
}

#[derive(Clone, Debug)]
enum Outcome<V, E> {
    Open,
    Given(Result<V, E>),
    /// The one that asked is gone: another one has to.
    Abandoned,
}

/// Answers, and questions under way.
#[derive(Debug)]
pub(super) struct Cache<V, E> {
    inner: Mutex<Inner<V, E>>,
    limits: Limits,
}

enum Step<'a, V: Answer, E: Clone> {
    Kept(V),
    Wait(Arc<Flight<V, E>>),
    Lead(Lead<'a, V, E>),
}

impl<V: Answer, E: Clone> Cache<V, E> {
    pub(super) fn new(limits: Limits) -> Self {
        let inner =
            Inner { kept: HashMap::new(), flights: HashMap::new(), classes: Default::default(), number: 0 };
        Self { inner: Mutex::new(inner), limits }
    }

    /// The answer to a question: one that is kept, or that another one waits for, or the outcome of `ask`, which says until when
    /// it may be used. `now` is called when an answer is looked up.
    ///
    /// # Errors
    /// Those of `ask`.
    pub(super) async fn get(
        &self,
        key: Key,
        now: impl Fn() -> SystemTime,
        ask: impl AsyncFn() -> Result<(V, SystemTime), E>,
    ) -> (Result<V, E>, From) {
        loop {
            match self.step(key, now()) {
                Step::Kept(answer) => return (Ok(answer), From::Kept),
                Step::Wait(flight) => {
                    if let Some(outcome) = (Waiting { flight, place: None }).await {
                        return (outcome, From::Shared);
                    }
                }
                Step::Lead(lead) => {
                    let asked = now();
                    return (lead.finish(asked, ask().await), From::Asked);
                }
            }
        }
    }

    /// How many answers are kept.
    pub(super) fn len(&self) -> usize {
        self.lock().kept.len()
    }

    fn lock(&self) -> MutexGuard<'_, Inner<V, E>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self, key: Key, now: SystemTime) -> Step<'_, V, E> {
        let mut inner = self.lock();
        if let Some(kept) = inner.kept.get(&key)
            && now < kept.until
            && kept.asked.duration_since(now).unwrap_or_default() <= SKEW
        {
            return Step::Kept(kept.answer.clone());
        }
        if let Some(flight) = inner.flights.get(&key) {
            return Step::Wait(Arc::clone(flight));
        }
        let state = FlightState { outcome: Outcome::Open, waiting: Vec::new() };
        let flight = Arc::new(Flight(Mutex::new(state)));
        inner.flights.insert(key, Arc::clone(&flight));
        Step::Lead(Lead { cache: self, key, flight: Some(flight) })
    }
}

impl<V: Answer, E> Inner<V, E> {
    fn keep(&mut self, key: Key, kept: Kept<V>, limits: Limits) {
        self.drop_kept(&key);
        let bytes = ENTRY_BYTES + kept.answer.bytes();
        if bytes > limits.bytes / LARGEST_PART {
            return;
        }
        let class = usize::from(kept.answer.is_yes());
        while let Some((_, &first)) = self.classes[class].order.first_key_value() {
            let Class { order, bytes: used } = &self.classes[class];
            let is_full = order.len() >= limits.entries || used + bytes > limits.bytes;
            let is_over = self.kept.get(&first).is_none_or(|old| old.until <= kept.asked);
            if !is_full && !is_over {
                break;
            }
            self.drop_kept(&first);
        }
        let class = &mut self.classes[class];
        class.order.insert(kept.number, key);
        class.bytes += bytes;
        self.kept.insert(key, kept);
    }

    fn drop_kept(&mut self, key: &Key) {
        if let Some(old) = self.kept.remove(key) {
            let class = &mut self.classes[usize::from(old.answer.is_yes())];
            class.order.remove(&old.number);
            class.bytes -= ENTRY_BYTES + old.answer.bytes();
        }
    }
}

impl<V: Clone, E: Clone> Flight<V, E> {
    fn lock(&self) -> MutexGuard<'_, FlightState<V, E>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets how it ended, and wakes those that wait, outside the lock.
    fn end(&self, outcome: Outcome<V, E>) {
        let waiting = {
            let mut state = self.lock();
            state.outcome = outcome;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().flatten().for_each(Waker::wake);
    }
}

/// The right to ask. If it is dropped before the answer came, one of those that wait takes it.
struct Lead<'a, V: Answer, E: Clone> {
    cache: &'a Cache<V, E>,
    key: Key,
    flight: Option<Arc<Flight<V, E>>>,
}

impl<V: Answer, E: Clone> Lead<'_, V, E> {
    fn finish(mut self, asked: SystemTime, given: Result<(V, SystemTime), E>) -> Result<V, E> {
        let outcome = given.as_ref().map(|(answer, _)| answer.clone()).map_err(Clone::clone);
        {
            let mut inner = self.cache.lock();
            inner.flights.remove(&self.key);
            inner.number += 1;
            let number = inner.number;
            match given {
                Ok((answer, until)) if until > asked => {
                    inner.keep(self.key, Kept { answer, asked, until, number }, self.cache.limits);
                }
                // The one that is kept may have expired, or not: a newer answer counts.
                Ok(_) => inner.drop_kept(&self.key),
                Err(_) => {}
            }
        }
        if let Some(flight) = self.flight.take() {
            flight.end(Outcome::Given(outcome.clone()));
        }
        outcome
    }
}

impl<V: Answer, E: Clone> Drop for Lead<'_, V, E> {
    fn drop(&mut self) {
        if let Some(flight) = self.flight.take() {
            self.cache.lock().flights.remove(&self.key);
            flight.end(Outcome::Abandoned);
        }
    }
}

/// Waits for the outcome of a question; `None`: it was abandoned.
struct Waiting<V, E> {
    flight: Arc<Flight<V, E>>,
    place: Option<usize>,
}

impl<V: Clone, E: Clone> Future for Waiting<V, E> {
    type Output = Option<Result<V, E>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut state = this.flight.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &state.outcome {
            Outcome::Given(outcome) => return Poll::Ready(Some(outcome.clone())),
            Outcome::Abandoned => return Poll::Ready(None),
            Outcome::Open => {}
        }
        let waker = Some(context.waker().clone());
        match this.place {
            Some(place) => state.waiting[place] = waker,
            None => {
                this.place = Some(state.waiting.len());
                state.waiting.push(waker);
            }
        }
        Poll::Pending
    }
}

impl<V, E> Drop for Waiting<V, E> {
    fn drop(&mut self) {
        let mut state = self.flight.0.lock().unwrap_or_else(PoisonError::into_inner);
        // After the end the list is empty.
        if let Some(waker) = self.place.and_then(|place| state.waiting.get_mut(place)) {
            *waker = None;
        }
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
