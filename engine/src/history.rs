//! What happened before the state that an engine began with: collected while that state is served already.
//!
//! Owns the states before and after each of these changes, and the proof that they lead to the state. It is apart from the
//! publisher, so that another thread can collect: what it shares with the publisher is immutable. [`Publisher::prepend`] then puts
//! the events before those that the window has.
//!
//! [`Publisher::prepend`]: crate::Publisher::prepend

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::codec::Decoder;
use crate::event::{BYTES_FIRST, Event, Times};
use crate::feed::Feed;
use crate::index::Snapshot;
use crate::key::Key;
use crate::limits;
use crate::object::Object;
use crate::revision::{Position, Revision};
use crate::tick::Tick;

/// One key got a new value in the past, or lost the one it had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastChange {
    /// Which object.
    pub key: Key,
    /// The value, as in [`Change`](crate::change::Change); `None`: deleted.
    pub value: Option<Bytes>,
    /// The value before, and the revision that it was written by. Needed at the first change of a key; `None` there: it was
    /// created. At later changes the revision is compared with that of the change before.
    pub before: Option<(Revision, Bytes)>,
}

/// The past that a source told does not lead to the state that an engine began with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    key: Key,
    /// The revision that the source names for a state of the key, or none.
    told: Option<Revision>,
    /// What it is by all that is known.
    known: Option<Revision>,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text =
            |revision: Option<Revision>| revision.map_or_else(|| "none".to_owned(), |it| it.to_string());
        let (told, known) = (text(self.told), text(self.known));
        write!(f, "the revision of {} is told as {told}, and is {known}", self.key.path())
    }
}

impl std::error::Error for Contradiction {}

/// One of the changes, with the states on both sides.
struct Passed {
    revision: Revision,
    before: Option<Arc<Object>>,
    now: Option<Arc<Object>>,
}

impl Passed {
    fn weight(&self) -> u64 {
        self.now.as_ref().or(self.before.as_ref()).map_or(0, |object| object.weight()) as u64
    }
}

/// Collects the changes that led to a state, in the order in which they happened.
pub struct History {
    feed: Feed,
    decoder: Decoder,
    /// What they lead to.
    state: Arc<Snapshot>,
    /// Nothing up to here is known, or kept; and whether that revision changed several keys.
    from: Revision,
    is_torn: bool,
    /// By key, the state after the last change; `None`: deleted.
    newest: BTreeMap<Key, Option<Arc<Object>>>,
    passed: VecDeque<Passed>,
    bytes: u64,
    events_max: usize,
}

/// The events of a history, as the window takes them.
pub struct OlderEvents {
    /// In the order in which they happened.
    pub(crate) events: Vec<Arc<Event>>,
    /// States between them, in that order.
    pub(crate) snapshots: Vec<Arc<Snapshot>>,
    /// Nothing up to here is known; and whether it is known that this revision changed several keys.
    pub(crate) from: Revision,
    pub(crate) is_torn: bool,
    /// They lead to the state of this revision.
    pub(crate) to: Revision,
}

impl History {
    /// The history of the state that a feed shows now, from `from` on: what happened up to that revision is not known.
    pub(crate) fn new(feed: &Feed, from: Revision, events_max: usize) -> Self {
        Self {
            state: feed.snapshot(),
            feed: feed.clone(),
            decoder: Decoder::new(),
            from,
            is_torn: false,
            newest: BTreeMap::new(),
            passed: VecDeque::new(),
            bytes: 0,
            events_max,
        }
    }

    /// The revision of the state that it leads to.
    #[must_use]
    pub fn end(&self) -> Revision {
        self.state.revision()
    }

    /// Forgets what was taken: it begins anew after revision `from`.
    pub fn begin_after(&mut self, from: Revision) {
        (self.from, self.is_torn) = (from, false);
        self.newest.clear();
        self.passed.clear();
        self.bytes = 0;
    }

    /// Takes what one revision changed, each key at most once. A revision after the state's is ignored. Of more than the window
    /// can have, the oldest is forgotten.
    ///
    /// # Errors
    /// A state before a change is not that after the last one. Nothing that was taken can be used.
    pub fn take(&mut self, revision: Revision, changes: Vec<PastChange>) -> Result<(), Contradiction> {
        if revision > self.end() {
            return Ok(());
        }
        let first = self.passed.len();
        for change in changes {
            if let Some(passed) = self.pass(revision, change)? {
                self.bytes += passed.weight();
                self.passed.push_back(passed);
            }
        }
        // As in the window: a watch that ends at such a value has seen nothing of this revision.
        let unreadable = |it: &Passed| it.now.as_ref().is_some_and(|now| now.unreadable().is_some());
        if self.passed.range(first..).any(unreadable) {
            self.passed.make_contiguous()[first..].sort_by_key(|it| !unreadable(it));
        }
        while self.passed.len() > self.events_max || self.bytes > self.feed.window_bytes_max() {
            let Some(oldest) = self.passed.front() else { break };
            self.forget_through(oldest.revision);
        }
        Ok(())
    }

    fn forget_through(&mut self, revision: Revision) {
        let count = self.passed.iter().take_while(|it| it.revision <= revision).count();
        self.bytes -= self.passed.drain(..count).map(|it| it.weight()).sum::<u64>();
        (self.from, self.is_torn) = (revision, count > 1);
    }

    /// The change of one key. `None`: it was not there, and is not.
    fn pass(&mut self, revision: Revision, change: PastChange) -> Result<Option<Passed>, Contradiction> {
        let PastChange { key, value, before: told } = change;
        let before = match self.newest.get(&key) {
            Some(known) => {
                let (told, known_at) = (told.map(|(at, _)| at), known.as_ref().map(|it| it.revision()));
                if told.is_some() && told != known_at {
                    return Err(Contradiction { key, told, known: known_at });
                }
                known.clone()
            }
            None => told.map(|(at, value)| self.state_of(&key, at, &value, None)),
        };
        let now = value.map(|value| self.state_of(&key, revision, &value, before.as_deref()));
        if before.is_none() && now.is_none() {
            return Ok(None);
        }
        self.newest.insert(key, now.clone());
        Ok(Some(Passed { revision, before, now }))
    }

    /// The state that `value` makes of a key: the index's, if it is still there.
    fn state_of(&mut self, key: &Key, at: Revision, value: &Bytes, before: Option<&Object>) -> Arc<Object> {
        if let Some(last) = self.state.get(key).filter(|last| last.revision() == at) {
            return Arc::clone(last);
        }
        self.feed.object(&mut self.decoder, key.clone(), (value, None), at, before)
    }

    /// What was taken, which is all that happened up to the state; then it is empty. `as_of_seconds` is the wall time since the Unix
    /// epoch, for ages shown in Tables; `arrived` is when the source had it, on the clock of the shards.
    ///
    /// # Errors
    /// It leads to another state.
    pub fn finish(&mut self, as_of_seconds: u64, arrived: Tick) -> Result<OlderEvents, Contradiction> {
        for (key, now) in &self.newest {
            let told = now.as_ref().map(|it| it.revision());
            let known = self.state.get(key).map(|it| it.revision());
            if told != known {
                return Err(Contradiction { key: key.clone(), told, known });
            }
        }
        let snapshots = self.snapshots();
        let times = Times { as_of_seconds, arrived };
        let count = self.passed.len() as u64;
        let mut position = Position::new(Position::FIRST.get() - count);
        let mut bytes = BYTES_FIRST - self.bytes;
        let mut events = Vec::with_capacity(self.passed.len());
        let (from, is_torn, to) = (self.from, self.is_torn, self.end());
        let mut passed = self.passed.drain(..).peekable();
        while let Some(Passed { revision, before, now }) = passed.next() {
            let mut event = Event::new(position, revision, before, now, times, bytes);
            event.ends_revision = passed.peek().is_none_or(|next| next.revision > revision);
            position = position.next();
            bytes = event.bytes_through;
            events.push(Arc::new(event));
        }
        Ok(OlderEvents { events, snapshots, from, is_torn, to })
    }

    /// States at intervals, from which past ones are undone: see [`Feed::past`].
    fn snapshots(&self) -> Vec<Arc<Snapshot>> {
        let every = limits::events_between_snapshots(self.events_max);
        let mut state = Snapshot::clone(&self.state);
        let mut snapshots: Vec<Arc<Snapshot>> = Vec::new();
        // Where the last one is, and the end of what is not undone.
        let (mut last, mut end) = (Position::FIRST, Position::FIRST);
        let mut undone = state.revision().next();
        for passed in self.passed.iter().rev() {
            // Not in the middle of a revision.
            if last.since(end) >= every && passed.revision < undone {
                (state.revision, state.position) = (passed.revision, end);
                snapshots.push(Arc::new(state.clone()));
                last = end;
            }
            match (&passed.before, &passed.now) {
                (Some(before), _) => drop(state.put(Arc::clone(before))),
                (None, Some(now)) => drop(state.remove(now.key())),
                (None, None) => {}
            }
            undone = passed.revision;
            end = Position::new(end.get() - 1);
        }
        snapshots.reverse();
        snapshots
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").field("from", &self.from).field("end", &self.end()).finish_non_exhaustive()
    }
}

impl fmt::Debug for OlderEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OlderEvents").field("from", &self.from).field("to", &self.to).finish_non_exhaustive()
    }
}
