//! The one writer: changes in, events in the ring, snapshots of the index.
//!
//! It owns the index, the writing end of the ring, and the call that wakes the shards. One revision goes in whole and becomes visible
//! whole. It never waits: [`Publisher::should_wait`] returns whether a shard lags so far that its driver should. It
//! knows neither the source of changes nor the watchers.

mod older;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use bytes::Bytes;

use crate::change::{Batch, Change};
use crate::codec::{Decoder, Reading};
use crate::encoding::{Encode, Encoding};
use crate::event::{BYTES_FIRST, Event, MessageName, Times};
use crate::failpoints::{Failpoint, is_on};
use crate::feed::{Feed, NOT_BEGUN};
use crate::framing::Framings;
use crate::gap::Gap;
use crate::index::Snapshot;
use crate::key::{Key, ResourceId};
use crate::limits;
use crate::message::MessageKind;
use crate::object::Object;
use crate::resource::Schema;
use crate::revision::{Position, Revision};
use crate::ring::{self, Writer};
use crate::tick::Tick;

/// How large the window may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLimits {
    /// Events; rounded up to a power of two and kept within the limits of [`crate::limits`].
    pub events: usize,
    /// Bytes of messages that the events keep alive.
    pub bytes: u64,
}

impl Default for RingLimits {
    fn default() -> Self {
        Self { events: limits::RING_EVENTS_DEFAULT, bytes: limits::RING_BYTES_DEFAULT }
    }
}

/// A batch that cannot be published. Nothing of it was.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchError {
    /// Not newer than what was published: the source went back, or sent something twice.
    NotNewer {
        /// The newest published revision.
        newest: Revision,
    },
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNewer { newest } => {
                write!(f, "the source sent a revision that is not newer than {newest}")
            }
        }
    }
}

impl std::error::Error for BatchError {}

/// Called after each publication.
struct Waker(Box<dyn Fn() + Send>);

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Waker").finish_non_exhaustive()
    }
}

/// The one writer. Lives on one thread.
#[derive(Debug)]
pub struct Publisher {
    feed: Feed,
    ring: Writer<Event>,
    index: Snapshot,
    decoder: Decoder,
    events_max: usize,
    bytes_max: u64,
    /// Where the events of the newest revision that had any begin.
    newest_from: Position,
    bytes_published: u64,
    bytes_forgotten: u64,
    arrived: Tick,
    staged: Vec<Event>,
    /// Wakes the shards.
    waker: Option<Waker>,
}

impl Publisher {
    /// A publisher for `shards` shards that starts empty at `revision`.
    #[must_use]
    pub fn new(
        schema: Arc<Schema>,
        encoder: Arc<dyn Encode>,
        limits: RingLimits,
        shards: usize,
        revision: Revision,
    ) -> (Self, Feed) {
        let events = limits.events.clamp(limits::RING_EVENTS_MIN, limits::RING_EVENTS_MAX);
        Self::with_small_ring(schema, encoder, RingLimits { events, ..limits }, shards, revision)
    }

    /// [`Publisher::new`] without the lower limit on the ring: for tests in which it overflows.
    #[must_use]
    pub fn with_small_ring(
        schema: Arc<Schema>,
        encoder: Arc<dyn Encode>,
        limits: RingLimits,
        shards: usize,
        revision: Revision,
    ) -> (Self, Feed) {
        let (writer, reader) = ring::ring(limits.events, Position::FIRST, revision);
        let index = Snapshot::empty(schema.len(), revision);
        let feed = Feed {
            schema,
            framings: Framings {
                json: encoder.framing(Encoding::Json),
                protobuf: encoder.framing(Encoding::Protobuf),
            },
            encoder,
            ring: reader,
            snapshot: Arc::new(ArcSwap::from_pointee(index.clone())),
            kept: Arc::default(),
            shards: (0..shards).map(|_| AtomicU64::new(NOT_BEGUN)).collect(),
            messages_made: Arc::new(AtomicU64::new(0)),
            unreadable: Arc::new(AtomicUsize::new(0)),
            window_bytes: Arc::default(),
            window_bytes_max: Arc::new(AtomicU64::new(limits.bytes)),
            gaps: Arc::default(),
            added: Arc::default(),
        };
        let publisher = Self {
            feed: feed.clone(),
            events_max: writer.capacity(),
            newest_from: Position::FIRST,
            ring: writer,
            index,
            decoder: Decoder::new(),
            bytes_max: limits.bytes,
            bytes_published: BYTES_FIRST,
            bytes_forgotten: BYTES_FIRST,
            arrived: Tick::ZERO,
            staged: Vec::new(),
            waker: None,
        };
        (publisher, feed)
    }

    /// Has `wake` called after each [`Publisher::publish`]: whoever drives the shards turns them then.
    pub fn set_waker(&mut self, wake: impl Fn() + Send + 'static) {
        self.waker = Some(Waker(Box::new(wake)));
    }

    /// Puts an object into the index without an event: part of the state that the source began with, or that it had when a
    /// resource was added: see [`Publisher::add`].
    /// Visible with the next [`Publisher::publish`]. A value that cannot be served becomes an unreadable object.
    pub fn load(&mut self, key: Key, revision: Revision, value: &Bytes) {
        let before = self.index.get(&key).map(|before| &**before);
        let object = self.feed.object(&mut self.decoder, key, (value, None), revision, before);
        self.index.put(object);
    }

    /// The state is loaded: it is that of `revision`, and nothing before can be replayed. Publishes it.
    pub fn loaded(&mut self, revision: Revision) {
        self.index.revision = self.index.revision.max(revision);
        self.ring.forget_through(revision, self.kept_from());
        self.publish();
    }

    /// A resource was added to the schema ([`Schema::grow`]), and its objects as of revision `since` are loaded. Nothing is known
    /// of before: a watch, or a list, of an earlier revision gets 410.
    pub fn add(&mut self, resource: ResourceId, since: Revision) {
        let mut added = Vec::clone(&self.feed.added.load());
        added.push((resource, since));
        self.feed.added.store(Arc::new(added));
    }

    /// Removes all objects of a resource without events: it is not served any more, and every watch of it ends.
    pub fn unload(&mut self, resource: ResourceId) {
        self.index.clear(resource);
        let mut added = Vec::clone(&self.feed.added.load());
        added.retain(|(id, _)| *id != resource);
        self.feed.added.store(Arc::new(added));
    }

    /// What is taken from now on came from the source at this moment, on the clock that shards are turned by. Only what is
    /// measured hangs on it.
    pub const fn set_arrival(&mut self, at: Tick) {
        self.arrived = at;
    }

    /// The moment that [`Publisher::set_arrival`] named last.
    #[must_use]
    pub const fn arrival(&self) -> Tick {
        self.arrived
    }

    /// Takes what one revision changed: whole, or not at all. Visible with the next [`Publisher::publish`]. A newer one without
    /// changes is progress. A value that cannot be served becomes an unreadable object. Of one revision the events of such values come
    /// first, so that a watch which ends there has seen all of the revisions before and nothing of this one.
    ///
    /// `as_of_seconds` is the wall time since the Unix epoch, for ages shown in Tables.
    ///
    /// # Errors
    /// See [`BatchError`]; nothing was changed.
    pub fn handle_batch(&mut self, batch: &Batch, as_of_seconds: u64) -> Result<(), BatchError> {
        self.handle_batch_with(batch, &[], as_of_seconds)
    }

    /// The same with readings of the changes' values, in their order, one for each change if there are any: values of JSON that have
    /// one are not read again.
    ///
    /// # Errors
    /// See [`BatchError`]; nothing was changed.
    pub fn handle_batch_with(
        &mut self,
        batch: &Batch,
        readings: &[Option<Arc<Reading>>],
        as_of_seconds: u64,
    ) -> Result<(), BatchError> {
        if batch.revision <= self.index.revision {
            return Err(BatchError::NotNewer { newest: self.index.revision });
        }
        debug_assert!(readings.is_empty() || readings.len() == batch.changes.len(), "one for each change");
        debug_assert!(self.staged.is_empty(), "a batch left its events behind");
        let mut unreadable = false;
        let times = Times { as_of_seconds, arrived: self.arrived };
        for (index, change) in batch.changes.iter().enumerate() {
            let reading = readings.get(index).and_then(Option::as_deref);
            unreadable |= self.stage(change, reading, batch.revision, times);
        }
        if unreadable && !is_on(Failpoint::UnreadableAmongOthers) {
            self.order_staged();
        }
        if let Some(last) = self.staged.last_mut() {
            last.ends_revision = true;
        }
        if !self.staged.is_empty() {
            self.newest_from = self.ring.next();
        }
        let keep = self.kept_from();
        for event in self.staged.drain(..) {
            self.bytes_published += event.weight() as u64;
            self.ring.stage(Arc::new(event), keep);
        }
        self.index.revision = batch.revision;
        self.index.position = self.ring.next();
        Ok(())
    }

    /// The source reports that it has sent everything up to `revision`.
    pub fn handle_progress(&mut self, revision: Revision) {
        self.index.revision = self.index.revision.max(revision);
    }

    /// The source guarantees that it never wrote, and never will, a revision in `gap`: it continues after [`Gap::next`], where
    /// the state is that of [`Gap::last`]. A client that names a revision in it saw another history, and gets 410: for the
    /// start of a watch, also one that waited for it, and for a past state. Gaps come in order.
    pub fn skip(&mut self, gap: Gap) {
        // Visible before the progress that passes it.
        let mut gaps = Vec::clone(&self.feed.gaps.load());
        debug_assert!(gaps.last().is_none_or(|before| before.next <= gap.last), "gaps come in order");
        gaps.push(gap);
        self.feed.gaps.store(Arc::new(gaps));
        self.handle_progress(gap.next);
    }

    /// Makes everything taken so far visible to all shards, keeps the window within its limit of bytes, and wakes the shards.
    pub fn publish(&mut self) {
        self.publish_events();
        self.publish_state();
        self.count_forgotten();
        self.trim();
        if let Some(Waker(wake)) = &self.waker {
            wake();
        }
    }

    /// Keeps the window within its events and bytes, as far as it may. True when something had to be forgotten: shards are to
    /// be told.
    pub fn trim(&mut self) -> bool {
        let (before, most) = (self.bytes_forgotten, self.bytes_max());
        let (keep, events_max) = (self.kept_from(), self.events_max as u64);
        let too_many = |publisher: &Self| publisher.ring.next().since(publisher.ring.oldest()) > events_max;
        while (self.window_bytes() > most || too_many(self)) && self.ring.oldest() < keep {
            self.ring.forget_oldest();
            self.count_forgotten();
        }
        self.let_go();
        self.bytes_forgotten > before
    }

    /// Entries from this position on are never forgotten, whatever the limits are: those that some shard still needs, or a live
    /// watch would be ended because of writes of others; and those of the newest revision, or a watch that must be sent it
    /// again would always get 410.
    fn kept_from(&self) -> Position {
        if is_on(Failpoint::NeededForgotten) {
            return Position::new(self.ring.next().get().saturating_sub(1));
        }
        self.feed.needed_from().map_or(self.newest_from, |needed| needed.min(self.newest_from))
    }

    fn bytes_max(&self) -> u64 {
        self.feed.window_bytes_max().min(self.bytes_max)
    }

    /// Half of [`Publisher::publish`]: the ring runs ahead of the snapshot until the other half is done.
    pub(crate) fn publish_events(&mut self) {
        // Before the ring: a reader that sees the events must also see that a value is unreadable.
        self.feed.unreadable.fetch_max(self.index.unreadable_total(), Ordering::Release);
        self.ring.publish(self.index.revision);
    }

    /// The other half.
    pub(crate) fn publish_state(&mut self) {
        let snapshot = Arc::new(self.index.clone());
        self.keep(&snapshot);
        self.feed.snapshot.store(snapshot);
        self.feed.unreadable.store(self.index.unreadable_total(), Ordering::Release);
    }

    /// Keeps a snapshot at intervals of events, as long as the window reaches back to it: the objects that it holds besides
    /// the newest ones are also held by the ring's events.
    fn keep(&mut self, snapshot: &Arc<Snapshot>) {
        let kept = self.feed.kept.load();
        let every = limits::events_between_snapshots(self.events_max);
        if kept.back().is_none_or(|last| snapshot.position().since(last.position()) >= every) {
            let mut next = VecDeque::clone(&kept);
            next.push_back(Arc::clone(snapshot));
            self.feed.kept.store(Arc::new(next));
        }
    }

    /// Lets the kept snapshots go that the window does not reach back to any more.
    fn let_go(&mut self) {
        let oldest = self.ring.oldest();
        let kept = self.feed.kept.load();
        if kept.front().is_some_and(|first| first.position() < oldest) {
            let next = kept.iter().filter(|old| old.position() >= oldest).map(Arc::clone).collect();
            self.feed.kept.store(Arc::new(next));
        }
    }

    /// Forgets the window up to `revision`: watches and exact lists from before it get 410.
    pub fn compact(&mut self, revision: Revision) {
        self.ring.forget_through(revision.min(self.index.revision), self.kept_from());
        self.count_forgotten();
        self.let_go();
    }

    /// Whether the driver should publish and wait before it passes a batch: with it half of the window would be filled by what some
    /// shard still needs. A batch that is larger than that waits until no shard needs anything, and is then taken completely.
    #[must_use]
    pub fn should_wait(&self, batch: &Batch) -> bool {
        let Some(needed) = self.feed.needed_from() else { return false };
        let events = self.ring.next().get().saturating_sub(needed.get());
        if events == 0 {
            return false;
        }
        let taken = needed.get().checked_sub(1).and_then(|last| self.feed.ring.get(Position::new(last)).ok());
        let taken = taken.map_or(self.bytes_forgotten, |event| event.bytes_through);
        let weight = |change: &Change| match &change.value {
            Some(value) => value.len(),
            None => self.index.get(&change.key).map_or(0, |before| before.weight()),
        };
        let bytes = self.bytes_published - taken + batch.changes.iter().map(weight).sum::<usize>() as u64;
        // A share needs no more precision than this.
        #[allow(clippy::cast_precision_loss)]
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let events = share(events + batch.changes.len() as u64, self.events_max as u64);
        events.max(share(bytes, self.bytes_max())) >= limits::BACKLOG_MAX
    }

    /// The newest revision taken.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.index.revision
    }

    /// The newest state of a key, whether published yet or not.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.index.get(key)
    }

    /// Bytes of messages in the window.
    #[must_use]
    pub const fn window_bytes(&self) -> u64 {
        self.bytes_published - self.bytes_forgotten
    }

    /// The newest revision that cannot be replayed.
    #[must_use]
    pub fn forgotten(&self) -> Revision {
        self.feed.ring.forgotten()
    }

    /// Counts the bytes of what the ring dropped, for lack of slots or on request.
    fn count_forgotten(&mut self) {
        let oldest = self.ring.peek_oldest();
        self.bytes_forgotten = oldest.map_or(self.bytes_published, |oldest| oldest.bytes_before());
        self.feed.window_bytes.store(self.window_bytes(), Ordering::Relaxed);
    }

    /// Puts one change into the index and among the staged events. True when its value is unreadable.
    fn stage(
        &mut self,
        change: &Change,
        reading: Option<&Reading>,
        revision: Revision,
        times: Times,
    ) -> bool {
        let (before, now) = match &change.value {
            Some(value) => {
                let (key, value) = (change.key.clone(), (value, reading));
                let before = self.index.get(&key).map(|before| &**before);
                let object = self.feed.object(&mut self.decoder, key, value, revision, before);
                (self.index.put(Arc::clone(&object)), Some(object))
            }
            None => match self.index.remove(&change.key) {
                Some(before) => (Some(before), None),
                // Nothing was there: nothing happened.
                None => return false,
            },
        };
        let position = Position::new(self.ring.next().get() + self.staged.len() as u64);
        let bytes_before = self.staged.last().map_or(self.bytes_published, |event| event.bytes_through);
        let last = before.as_ref().filter(|_| now.is_none());
        let deleted_in = last.and_then(|before| before.own_encoding());
        let mut event = Event::new(position, revision, before, now, times, bytes_before);
        event.ends_revision = false;
        if let Some(encoding) = deleted_in {
            // Every watcher that knew the object will need this one, or one like it.
            let name = MessageName { kind: MessageKind::Deleted, encoding, first: false };
            let _ = event.message(name, &*self.feed.encoder, &self.feed.messages_made);
        }
        let unreadable = event.refusal().is_some();
        self.staged.push(event);
        unreadable
    }

    /// Brings the staged events of values that cannot be read to the front.
    fn order_staged(&mut self) {
        self.staged.sort_by_key(|event| event.refusal().is_none());
        let mut position = self.ring.next();
        let mut bytes = self.bytes_published;
        for event in &mut self.staged {
            bytes += event.weight() as u64;
            event.position = position;
            event.bytes_through = bytes;
            position = position.next();
        }
    }
}

#[cfg(test)]
mod tests;
