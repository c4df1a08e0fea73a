//! What all shards share with the publisher: the reading end of the ring, snapshots, and the few numbers between them; and how a value
//! becomes a state, which depends on nothing else.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use bytes::Bytes;

use crate::codec::{Decoder, Reading};
use crate::encoding::{Encode, Encoding};
use crate::event::Event;
use crate::failpoints::{Failpoint, is_on};
use crate::framing::{Framing, Framings};
use crate::gap::Gap;
use crate::index::{Expired, Past, Snapshot};
use crate::key::{Key, ResourceId};
use crate::key_range::KeyRange;
use crate::object::Object;
use crate::resource::Schema;
use crate::revision::{Position, Revision};
use crate::ring::Reader;
use crate::tick::Tick;

/// A shard that is not there yet needs nothing of the ring.
pub(crate) const NOT_BEGUN: u64 = u64::MAX;

/// What all shards share with the publisher. Cheap to clone.
#[derive(Clone)]
pub struct Feed {
    pub(crate) schema: Arc<Schema>,
    pub(crate) encoder: Arc<dyn Encode>,
    /// The encoder's: messages that decode makes are made in them.
    pub(crate) framings: Framings,
    pub(crate) ring: Reader<Event>,
    pub(crate) snapshot: Arc<ArcSwap<Snapshot>>,
    /// Older snapshots, oldest first: from where past states are undone.
    pub(crate) kept: Arc<ArcSwap<VecDeque<Arc<Snapshot>>>>,
    /// By shard: the oldest position that it still needs; [`NOT_BEGUN`] before it has started.
    pub(crate) shards: Arc<[AtomicU64]>,
    /// Messages that were serialized, by anyone.
    pub(crate) messages_made: Arc<AtomicU64>,
    /// An upper bound of the unreadable keys in the state up to the ring's head: raised before the events that make
    /// one unreadable are visible, lowered after the snapshot in which one is readable again.
    pub(crate) unreadable: Arc<AtomicUsize>,
    /// Bytes of messages in the window.
    pub(crate) window_bytes: Arc<AtomicU64>,
    /// Bytes that the window may hold now; never more than the [`RingLimits`](crate::RingLimits) say.
    pub(crate) window_bytes_max: Arc<AtomicU64>,
    /// What the source skipped, oldest first: a few, used only where a watch or a list begins.
    pub(crate) gaps: Arc<ArcSwap<Vec<Gap>>>,
    /// From which revision on the history of resources is known that were added later: see
    /// [`Publisher::add`](crate::Publisher::add).
    pub(crate) added: Arc<ArcSwap<Vec<(ResourceId, Revision)>>>,
}

impl Feed {
    /// Every object as of the newest visible revision.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// The objects of `resource` as they were at `revision`: see [`Feed::past_of_range`].
    ///
    /// # Errors
    /// The same.
    pub fn past(&self, resource: ResourceId, revision: Revision) -> Result<Past, Expired> {
        self.past_of_range(KeyRange::prefix(resource, ""), revision)
    }

    /// The objects in a range of keys as they were at `revision`. Costs a look at each event from there to the next kept
    /// snapshot: at most one in [`KEPT_SNAPSHOTS`](crate::limits::KEPT_SNAPSHOTS) of the ring, and one batch.
    ///
    /// # Errors
    /// [`Expired`] when the window does not reach back that far, or the source skipped the revision. A revision that is not
    /// reached yet gives the newest state: wait for it first.
    pub fn past_of_range(&self, range: KeyRange, revision: Revision) -> Result<Past, Expired> {
        let newest = self.snapshot();
        if let Some(gap) = self.gap_around(revision) {
            return Err(Expired { oldest: gap.next });
        }
        let since = self.known_since(range.spans(self.schema.len(), None).map(|span| span.resource));
        if revision < since {
            return Err(Expired { oldest: since });
        }
        let oldest = self.ring.forgotten();
        if revision < oldest && revision < newest.revision() {
            return Err(Expired { oldest });
        }
        let kept = self.kept.load();
        let nearest = kept.partition_point(|snapshot| snapshot.revision() < revision);
        let nearest =
            if is_on(Failpoint::PastFromOlderSnapshot) { nearest.saturating_sub(1) } else { nearest };
        let nearest = kept.get(nearest).filter(|snapshot| snapshot.revision() < newest.revision());
        Past::new(nearest.map_or(newest, Arc::clone), &self.ring, range, revision)
    }

    /// The revision from which on the history of all these resources is known.
    pub(crate) fn known_since(&self, resources: impl Iterator<Item = ResourceId>) -> Revision {
        let added = self.added.load();
        if added.is_empty() {
            return Revision::ZERO;
        }
        let since = resources.filter_map(|id| added.iter().find(|(added, _)| *added == id));
        since.map(|(_, since)| *since).max().unwrap_or(Revision::ZERO)
    }

    /// The framing that messages in an encoding are made in.
    pub(crate) fn framing(&self, encoding: Encoding) -> &'static Framing {
        match encoding {
            Encoding::Json => self.framings.json,
            Encoding::Protobuf => self.framings.protobuf,
            Encoding::Other(_) => self.encoder.framing(encoding),
        }
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

    /// The gap that a revision lies in: the source never wrote it. A revision that was found reached before this is asked
    /// is found in every gap that it lies in.
    pub(crate) fn gap_around(&self, revision: Revision) -> Option<Gap> {
        let gaps = self.gaps.load();
        let nearest = gaps.partition_point(|gap| gap.next <= revision);
        gaps.get(nearest).copied().filter(|gap| gap.contains(revision))
    }

    /// Events in the window.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.ring.head().since(self.ring.oldest())
    }

    /// Bytes of messages in the window.
    #[must_use]
    pub fn window_bytes(&self) -> u64 {
        self.window_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that the window may hold now.
    #[must_use]
    pub fn window_bytes_max(&self) -> u64 {
        self.window_bytes_max.load(Ordering::Relaxed)
    }

    /// Lets the window hold this many bytes from now on, to control the memory of the process: it applies from the next
    /// [`Publisher::publish`](crate::Publisher::publish) or [`Publisher::trim`](crate::Publisher::trim). The
    /// [`RingLimits`](crate::RingLimits) remain the maximum. A watch that still needs what is forgotten by that gets 410: the
    /// slowest first. What shards still need is not forgotten.
    pub fn limit_window(&self, bytes: u64) {
        self.window_bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// The oldest event in the window: its revision, and when the source had it. `None`: there is none.
    #[must_use]
    pub fn oldest(&self) -> Option<(Revision, Tick)> {
        let event = self.ring.get(self.ring.oldest()).ok()?;
        Some((event.revision, event.arrived))
    }

    /// Where the next event will be: what a shard that sleeps compares with its own place.
    #[must_use]
    pub fn head(&self) -> Position {
        self.ring.head()
    }

    /// Events ever published.
    #[must_use]
    pub fn published(&self) -> u64 {
        self.ring.head().since(Position::FIRST)
    }

    /// Messages that were serialized since the start, by the publisher and all shards.
    #[must_use]
    pub fn messages_made(&self) -> u64 {
        self.messages_made.load(Ordering::Relaxed)
    }

    /// How many objects of a resource are unreadable now.
    #[must_use]
    pub fn unreadable(&self, resource: ResourceId) -> usize {
        self.snapshot.load().unreadable(resource)
    }

    /// How many objects are unreadable now, in all.
    #[must_use]
    pub fn unreadable_total(&self) -> usize {
        self.snapshot.load().unreadable_total()
    }

    /// Whether an object may be unreadable in the state at a ring's progress that was read before. If not, none is.
    pub(crate) fn may_be_unreadable(&self) -> bool {
        self.unreadable.load(Ordering::Acquire) > 0
    }

    /// All resources.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The state that `value`, written by `revision`, makes of a key that held `before`; its message, if it has one, is made in the
    /// framing of its encoding. A value with a reading is not read again, unless it is in protobuf.
    pub(crate) fn object(
        &self,
        decoder: &mut Decoder,
        key: Key,
        value: (&Bytes, Option<&Reading>),
        revision: Revision,
        before: Option<&Object>,
    ) -> Arc<Object> {
        let (resource, framings) = (self.schema.get(key.resource()), self.framings);
        let kept = decoder.decode(framings, resource, value, revision, Object::kind_after(before));
        let object = Object::new(key, revision, kept, (resource, framings.json), value.0, before);
        self.messages_made.fetch_add(object.messages(), Ordering::Relaxed);
        Arc::new(object)
    }

    pub(crate) fn messages_counter(&self) -> &AtomicU64 {
        &self.messages_made
    }

    /// The first position of the ring that some shard still needs: one that it has not dispatched, or that it owes to a watch
    /// which was live a moment ago. `None`: no shard is there.
    #[must_use]
    pub fn needed_from(&self) -> Option<Position> {
        let slowest = self.shards.iter().map(|shard| shard.load(Ordering::Acquire)).min();
        slowest.filter(|slowest| *slowest != NOT_BEGUN).map(Position::new)
    }

    pub(crate) fn report(&self, shard: usize, needed_from: Position) {
        self.shards[shard].store(needed_from.get(), Ordering::Release);
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("revision", &self.revision()).finish_non_exhaustive()
    }
}
