//! One watch: what it covers, where it stands, and how its life goes on.
//!
//! It owns the words of a watcher's state. A watcher has a cursor and no queue, no task and no buffer: what it is
//! still owed stands in the ring or in a snapshot. It never sends anything itself.

pub(crate) mod class;

use std::sync::Arc;

use bytes::Bytes;

use crate::encoding::Encoding;
use crate::framing::Framing;
use crate::index::Snapshot;
use crate::key::Key;
use crate::revision::{Position, Revision};
use crate::scope::Scope;
use crate::selector::Selector;
use crate::tick::Tick;

/// Names one watch of one shard. A slot is used again; a generation never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatcherId {
    slot: u32,
    generation: u32,
}

impl WatcherId {
    pub(crate) const fn new(slot: u32, generation: u32) -> Self {
        Self { slot, generation }
    }

    pub(crate) const fn number(self) -> u32 {
        self.slot
    }

    /// Where a driver may keep what belongs to this watch. Small numbers, used again.
    #[must_use]
    pub const fn slot(self) -> usize {
        self.slot as usize
    }

    /// Tells the lives of a slot apart.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the whole current state as ADDED events, then every change; with a bookmark that marks the end of
    /// the state when `end_mark` (KEP-3157).
    State {
        /// Whether the end is marked.
        end_mark: bool,
    },
    /// With the first change after this revision; one that is not reached yet is waited for.
    After(Revision),
    /// With the next change.
    Latest,
}

/// Why a watch is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its peer is gone, and nothing else had ended it before.
    Gone,
    /// Its time was over.
    Deadline,
    /// The shard closes.
    Drained,
    /// It may not go on ([`crate::Shard::dismiss`]).
    Dismissed,
    /// The window does not reach back to where it stood, or wanted to begin: 410.
    Lapped,
    /// The source's history is gone ([`crate::Shard::abandon`]): 410.
    Abandoned,
    /// A value that it covers is unreadable: 500.
    Refused,
}

/// A wish to watch.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// Which objects.
    pub scope: Scope,
    /// Which of them.
    pub selector: Selector,
    /// Shown how.
    pub encoding: Encoding,
    /// What stands around each message that it is sent.
    pub framing: &'static Framing,
    /// From where on.
    pub start: Start,
    /// Whether bookmarks are welcome.
    pub bookmarks: bool,
    /// When the stream ends by itself.
    pub deadline: Tick,
    /// Spreads bookmarks over time: 0 = as early as may be, 255 = as late.
    pub jitter: u8,
    /// Wall time in seconds since the Unix epoch, for ages in the initial state.
    pub as_of_seconds: u64,
}

/// The initial events of one watch: a snapshot, and how far it was sent.
#[derive(Debug)]
pub(crate) struct Initial {
    pub(crate) snapshot: Arc<Snapshot>,
    /// The last object that was sent whole.
    pub(crate) after: Option<Key>,
    /// Bytes of the next message that were sent.
    pub(crate) offset: usize,
    pub(crate) end_mark: bool,
    pub(crate) as_of_seconds: u64,
}

/// Where a watch stands in its life.
#[derive(Debug)]
pub(crate) enum Phase {
    /// The snapshot is being sent.
    Initial(Box<Initial>),
    /// Everything before `cursor` was sent, and `offset` bytes of the message at it.
    CatchingUp { cursor: Position, offset: u32 },
    /// Everything that the shard has dispatched was sent (or is being sent by the round under way).
    Live,
    /// It asked for changes after a revision that is not reached yet.
    Parked { floor: Revision },
    /// It is to end: only the remainder is still owed.
    Draining,
}

/// A message that must go out before anything else, in the watcher's framing.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) bytes: Bytes,
    pub(crate) sent: usize,
    /// How many events it is, which count when it is out.
    pub(crate) events: u64,
    /// A message that follows it, the last one.
    pub(crate) last: Option<Bytes>,
}

impl Pending {
    /// A message that is no event, of which the first `sent` bytes are out.
    pub(crate) const fn new(bytes: Bytes, sent: usize) -> Self {
        Self { bytes, sent, events: 0, last: None }
    }
}

/// Where a watcher that is behind waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueState {
    /// Nowhere: it is live or parked.
    None,
    /// In the queue of those behind.
    Queued,
    /// Its socket is full: it is among those that eviction looks at.
    Blocked,
}

/// That the window is kept for a watch which waits for its shard: the number of its group (`shard/fallen.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim(pub(crate) u32);

/// All that a watch costs the engine.
#[derive(Debug)]
pub(crate) struct Watcher {
    pub(crate) class: u32,
    /// Its index among the class's live members; only meaningful when live.
    pub(crate) member: u32,
    pub(crate) phase: Phase,
    pub(crate) place: QueueState,
    pub(crate) rest: Option<Box<Pending>>,
    /// Where it began: a bookmark must be newer.
    pub(crate) start: Revision,
    pub(crate) bookmarks: bool,
    /// Why it ends, once that is known.
    pub(crate) end: Option<End>,
    /// It ends at the next place where it may: where a revision ends, and not within its initial state.
    pub(crate) ending: bool,
    /// It was live, and waits for the shard.
    pub(crate) claim: Option<Claim>,
    pub(crate) jitter: u8,
    pub(crate) deadline: Tick,
    pub(crate) next_bookmark: Tick,
    /// When it is looked at whether it was quiet for too long; the deadline when heartbeats are off.
    pub(crate) next_heartbeat: Tick,
}

impl Watcher {
    /// When it wants attention next.
    pub(crate) fn next_due(&self) -> Tick {
        self.next_bookmark.min(self.next_heartbeat).min(self.deadline)
    }

    /// Where it stands in the window, if it is behind.
    pub(crate) fn position(&self) -> Option<Position> {
        match &self.phase {
            Phase::Initial(initial) => Some(initial.snapshot.position()),
            Phase::CatchingUp { cursor, .. } => Some(*cursor),
            // These hold no place in the window.
            Phase::Live | Phase::Parked { .. } | Phase::Draining => None,
        }
    }

    /// Whether the last byte sent ended a message, and nothing must go out before the next one.
    pub(crate) fn at_boundary(&self) -> bool {
        self.rest.is_none() && self.between_messages()
    }

    /// Whether the last byte sent ended a message: other bytes may go out now than those that it is owed.
    pub(crate) fn between_messages(&self) -> bool {
        self.rest.as_ref().is_none_or(|rest| rest.sent == 0)
            && match &self.phase {
                Phase::Initial(initial) => initial.offset == 0,
                Phase::CatchingUp { offset, .. } => *offset == 0,
                Phase::Live | Phase::Parked { .. } | Phase::Draining => true,
            }
    }
}
