//! The one writer: changes in, events in the ring, snapshots of the index.
//!
//! It owns decode, the index and the writing end of the ring. One revision goes in whole and becomes visible
//! whole. It never waits: [`Publisher::backlog`] says when a shard is so far behind that its driver should. It
//! never knows where changes come from, nor who watches.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use bytes::Bytes;

use crate::change::{Batch, Change};
use crate::decode::{DecodeError, Decoder};
use crate::encoding::{Encode, Encoding};
use crate::event::{Event, FrameName};
use crate::frame::FrameKind;
use crate::index::{Expired, Past, Snapshot};
use crate::key::{Key, ResourceId};
use crate::limits;
use crate::object::Object;
use crate::resource::Schema;
use crate::revision::{Position, Revision};
use crate::ring::{self, Entry, Reader, Writer};

impl Entry for Event {
    fn position(&self) -> Position {
        self.position
    }
    fn revision(&self) -> Revision {
        self.revision
    }
}

/// How large the window may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLimits {
    /// Events; rounded up to a power of two and kept within the limits of [`crate::limits`].
    pub events: usize,
    /// Bytes of frames that the events keep alive.
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
    /// A value that cannot be served.
    Undecodable {
        /// Whose value it is.
        key: Key,
        /// What is wrong with it.
        error: DecodeError,
    },
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNewer { newest } => {
                write!(f, "the source sent a revision that is not newer than {newest}")
            }
            Self::Undecodable { key, error } => write!(f, "{}: {error}", key.path()),
        }
    }
}

impl std::error::Error for BatchError {}

/// What all shards share with the publisher. Cheap to clone.
#[derive(Clone)]
pub struct Feed {
    pub(crate) schema: Arc<Schema>,
    pub(crate) encoder: Arc<dyn Encode>,
    pub(crate) ring: Reader<Event>,
    snapshot: Arc<ArcSwap<Snapshot>>,
    /// Where each shard stands in the ring.
    shards: Arc<[AtomicU64]>,
    /// Frames that were serialized, by anyone.
    frames_made: Arc<AtomicU64>,
}

impl Feed {
    /// Every object as of the newest visible revision.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// The objects of `resource` as they were at `revision`.
    ///
    /// # Errors
    /// [`Expired`] when the window does not reach back that far. A revision that is not reached yet gives the
    /// newest state: wait for it first.
    pub fn past(&self, resource: ResourceId, revision: Revision) -> Result<Past, Expired> {
        Past::new(self.snapshot(), &self.ring, resource, revision)
    }

    /// The newest revision up to which everything is visible.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.snapshot.load().revision()
    }

    /// The newest revision that cannot be replayed.
    #[must_use]
    pub fn forgotten(&self) -> Revision {
        self.ring.forgotten()
    }

    /// Events in the window.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.ring.head().since(self.ring.oldest())
    }

    /// Events ever published: what a shard that sleeps compares with its own place.
    #[must_use]
    pub fn head(&self) -> Position {
        self.ring.head()
    }

    /// Frames that were serialized since the start, by the publisher and all shards.
    #[must_use]
    pub fn frames_made(&self) -> u64 {
        self.frames_made.load(Ordering::Relaxed)
    }

    /// All resources.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(crate) fn frames_counter(&self) -> &AtomicU64 {
        &self.frames_made
    }

    pub(crate) fn report(&self, shard: usize, dispatched: Position) {
        self.shards[shard].store(dispatched.get(), Ordering::Release);
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

/// The one writer. Lives on one thread.
#[derive(Debug)]
pub struct Publisher {
    feed: Feed,
    ring: Writer<Event>,
    index: Snapshot,
    decoder: Decoder,
    bytes_max: u64,
    bytes_published: u64,
    bytes_forgotten: u64,
    staged: Vec<Event>,
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

    /// [`Publisher::new`] without the lower limit on the ring: for tests that want it to overflow.
    #[must_use]
    pub fn with_small_ring(
        schema: Arc<Schema>,
        encoder: Arc<dyn Encode>,
        limits: RingLimits,
        shards: usize,
        revision: Revision,
    ) -> (Self, Feed) {
        let (writer, reader) = ring::ring(limits.events, revision);
        let index = Snapshot::empty(schema.len(), revision);
        let feed = Feed {
            schema,
            encoder,
            ring: reader,
            snapshot: Arc::new(ArcSwap::from_pointee(index.clone())),
            shards: (0..shards).map(|_| AtomicU64::new(0)).collect(),
            frames_made: Arc::new(AtomicU64::new(0)),
        };
        let publisher = Self {
            feed: feed.clone(),
            ring: writer,
            index,
            decoder: Decoder::new(),
            bytes_max: limits.bytes,
            bytes_published: 0,
            bytes_forgotten: 0,
            staged: Vec::new(),
        };
        (publisher, feed)
    }

    /// Puts an object into the index without an event: part of the state that the source began with.
    /// Visible with the next [`Publisher::publish`].
    ///
    /// # Errors
    /// When the value cannot be served; the index is as before.
    pub fn load(&mut self, key: Key, revision: Revision, value: &[u8]) -> Result<(), DecodeError> {
        let object = self.decode(key, revision, value, FrameKind::Added)?;
        self.index.put(Arc::new(object));
        Ok(())
    }

    /// The state is loaded: it is that of `revision`, and nothing before can be replayed. Publishes it.
    pub fn loaded(&mut self, revision: Revision) {
        self.index.revision = self.index.revision.max(revision);
        self.ring.forget_through(revision);
        self.publish();
    }

    /// Takes what one revision changed: whole, or not at all. Visible with the next [`Publisher::publish`].
    ///
    /// `as_of_seconds` is the wall time since the Unix epoch, for ages shown in Tables.
    ///
    /// # Errors
    /// See [`BatchError`]; nothing was changed.
    pub fn handle_batch(&mut self, batch: &Batch, as_of_seconds: u64) -> Result<(), BatchError> {
        if batch.revision <= self.index.revision {
            return Err(BatchError::NotNewer { newest: self.index.revision });
        }
        debug_assert!(self.staged.is_empty(), "a batch left its events behind");
        for change in &batch.changes {
            if let Err(error) = self.stage(change, batch.revision, as_of_seconds) {
                self.unstage();
                return Err(BatchError::Undecodable { key: change.key.clone(), error });
            }
        }
        if let Some(last) = self.staged.last_mut() {
            last.ends_revision = true;
        }
        for event in self.staged.drain(..) {
            self.bytes_published += event.weight() as u64;
            self.ring.stage(Arc::new(event));
        }
        self.index.revision = batch.revision;
        self.index.position = self.ring.next();
        Ok(())
    }

    /// The source's word that it has sent everything up to `revision`.
    pub fn handle_progress(&mut self, revision: Revision) {
        self.index.revision = self.index.revision.max(revision);
    }

    /// Makes everything taken so far visible to all shards, and keeps the window within its bytes.
    pub fn publish(&mut self) {
        self.ring.publish(self.index.revision);
        self.feed.snapshot.store(Arc::new(self.index.clone()));
        self.count_forgotten();
        // The newest event always stays, however large.
        while self.window_bytes() > self.bytes_max && self.ring.oldest().next() < self.ring.next() {
            self.ring.forget_oldest();
            self.count_forgotten();
        }
    }

    /// Forgets the window up to `revision`: watches and exact lists from before it get 410.
    pub fn compact(&mut self, revision: Revision) {
        self.ring.forget_through(revision.min(self.index.revision));
        self.count_forgotten();
    }

    /// How full the window is with events that the slowest shard has not taken yet: 0.0 none, 1.0 all.
    /// From 0.5 on the driver should wait before it publishes more.
    #[must_use]
    pub fn backlog(&self) -> f64 {
        let slowest = self.feed.shards.iter().map(|shard| shard.load(Ordering::Acquire)).min();
        let Some(slowest) = slowest else { return 0.0 };
        let events = self.ring.next().get().saturating_sub(slowest);
        let taken = slowest.checked_sub(1).and_then(|last| self.feed.ring.get(Position::new(last)).ok());
        let taken = taken.map_or(self.bytes_forgotten, |event| event.bytes_through);
        let bytes = self.bytes_published - taken;
        // A share needs no more precision than this.
        #[allow(clippy::cast_precision_loss)]
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        if events == 0 {
            0.0
        } else {
            share(events, self.ring.capacity() as u64).max(share(bytes, self.bytes_max))
        }
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

    /// Bytes of frames in the window.
    #[must_use]
    pub const fn window_bytes(&self) -> u64 {
        self.bytes_published - self.bytes_forgotten
    }

    /// The newest revision that cannot be replayed.
    #[must_use]
    pub fn forgotten(&self) -> Revision {
        self.feed.ring.forgotten()
    }

    /// Counts the bytes of what the ring dropped, for want of slots or because it was told to.
    fn count_forgotten(&mut self) {
        let oldest = self.ring.peek_oldest();
        self.bytes_forgotten =
            oldest.map_or(self.bytes_published, |oldest| oldest.bytes_through - oldest.weight() as u64);
    }

    fn decode(
        &mut self,
        key: Key,
        revision: Revision,
        value: &[u8],
        kind: FrameKind,
    ) -> Result<Object, DecodeError> {
        let resource = self.feed.schema.get(key.resource());
        let object = Object::new(&mut self.decoder, resource, key, value, revision, kind)?;
        self.feed.frames_made.fetch_add(1, Ordering::Relaxed);
        Ok(object)
    }

    fn stage(&mut self, change: &Change, revision: Revision, as_of_seconds: u64) -> Result<(), DecodeError> {
        let (before, now) = match &change.value {
            Some(value) => {
                let kind = if self.index.get(&change.key).is_some() {
                    FrameKind::Modified
                } else {
                    FrameKind::Added
                };
                let object = Arc::new(self.decode(change.key.clone(), revision, value, kind)?);
                (self.index.put(Arc::clone(&object)), Some(object))
            }
            None => match self.index.remove(&change.key) {
                Some(before) => (Some(before), None),
                // Nothing was there: nothing happened.
                None => return Ok(()),
            },
        };
        let position = Position::new(self.ring.next().get() + self.staged.len() as u64);
        let bytes_before = self.staged.last().map_or(self.bytes_published, |event| event.bytes_through);
        let deleted = now.is_none();
        let mut event = Event::new(position, revision, before, now, as_of_seconds, bytes_before);
        event.ends_revision = false;
        if deleted {
            // Every watcher that knew the object will want this one.
            let name = FrameName { kind: FrameKind::Deleted, encoding: Encoding::Json, first: false };
            let _: &Bytes = event.frame(name, &*self.feed.encoder, &self.feed.frames_made);
        }
        self.staged.push(event);
        Ok(())
    }

    /// Takes the staged events back out of the index, newest first.
    fn unstage(&mut self) {
        while let Some(event) = self.staged.pop() {
            match event.before.clone() {
                Some(before) => drop(self.index.put(before)),
                None => drop(self.index.remove(event.key())),
            }
        }
    }
}
