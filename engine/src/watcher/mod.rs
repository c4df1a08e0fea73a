//! One watch: its scope, its position, and its phase.
//!
//! It owns the state of a watcher. A watcher has a cursor and no queue, no task and no buffer: what it is still owed is
//! in the ring or in a snapshot. It never sends anything itself.

pub(crate) mod class;
pub(crate) mod trail;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::encoding::Encoding;
use crate::framing::Framing;
use crate::index::Snapshot;
use crate::key::Key;
use crate::revision::{Position, Revision};
use crate::scope::Scope;
use crate::selector::Selector;
use crate::tick::Tick;

/// Identifies one watch of one shard. A slot is used again; a generation never.
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

    /// An index under which a driver may keep its own state of this watch. Small numbers, used again.
    #[must_use]
    pub const fn slot(self) -> usize {
        self.slot as usize
    }

    /// Both in one number, which no other watch of the shard has at the same time.
    #[must_use]
    pub const fn bits(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }

    /// Distinguishes successive watches in one slot.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the whole current state as ADDED events, then every change. With `end_mark`, a bookmark marks the end of
    /// the state (KEP-3157).
    State {
        /// Whether the end is marked.
        end_mark: bool,
    },
    /// With the first change after this revision; if the revision is not reached yet, the watch waits for it.
    After(Revision),
    /// With the next change.
    Latest,
}

/// Why a watch is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its peer closed the connection, and nothing else had ended it before.
    Gone,
    /// Its deadline passed.
    Deadline,
    /// The shard closes.
    Drained,
    /// It is no longer authorized ([`crate::Shard::dismiss`]).
    Dismissed,
    /// What it watches is not served any more ([`crate::Shard::dismiss_where`]).
    Retired,
    /// The window does not reach back to its position or start: 410.
    Lapped,
    /// The source's history is lost ([`crate::Shard::abandon`]): 410.
    Abandoned,
    /// A value in its scope is unreadable: 500.
    Refused,
}

/// A request for a watch.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// Which objects.
    pub scope: Scope,
    /// Which of them match.
    pub selector: Selector,
    /// How they are serialized.
    pub encoding: Encoding,
    /// What is around each message.
    pub framing: &'static Framing,
    /// Where it begins.
    pub start: Start,
    /// Whether it asked for bookmarks.
    pub bookmarks: bool,
    /// The time after which the stream ends.
    pub timeout: Duration,
    /// Spreads bookmarks over time: 0 = as early as possible, 255 = as late as possible.
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

/// The phase of a watch.
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
    /// It is to end: only the pending bytes are still sent.
    Draining,
}

/// A message that must go out before anything else, in the watcher's framing.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) bytes: Bytes,
    pub(crate) sent: usize,
    /// How many events it has; they are counted when it is sent.
    pub(crate) events: u64,
    /// A message that follows it, the last one.
    pub(crate) last: Option<Bytes>,
}

impl Pending {
    /// A message that is not an event, of which the first `sent` bytes were sent.
    pub(crate) const fn new(bytes: Bytes, sent: usize) -> Self {
        Self { bytes, sent, events: 0, last: None }
    }
}

/// Where a watcher that lags waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueState {
    /// Nowhere: it is live or parked.
    None,
    /// In the queue of watchers that lag.
    Queued,
    /// Its socket is full: eviction checks it.
    Blocked,
}

/// Keeps the window open for a watch that waits for its shard: the number of its group (`shard/fallen.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim(pub(crate) u32);

/// All that a watch costs the engine.
const _: () = assert!(size_of::<Watcher>() < 200, "tens of thousands of them are kept");

/// The state of a watch.
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
    /// It ends at the next possible position: at the end of a revision, and not within its initial state.
    pub(crate) ending: bool,
    /// It was live, and waits for its shard.
    pub(crate) claim: Option<Claim>,
    pub(crate) jitter: u8,
    pub(crate) deadline: Tick,
    pub(crate) next_bookmark: Tick,
    /// When it is checked whether it was idle for too long; the deadline when heartbeats are off.
    pub(crate) next_heartbeat: Tick,
}

impl Watcher {
    /// When its next timer is due.
    pub(crate) fn next_due(&self) -> Tick {
        self.next_bookmark.min(self.next_heartbeat).min(self.deadline)
    }

    /// Its position in the window, if it lags.
    pub(crate) fn position(&self) -> Option<Position> {
        match &self.phase {
            Phase::Initial(initial) => Some(initial.snapshot.position()),
            Phase::CatchingUp { cursor, .. } => Some(*cursor),
            // These hold no position in the window.
            Phase::Live | Phase::Parked { .. } | Phase::Draining => None,
        }
    }

    /// Whether the last byte sent ended a message, and nothing else must be sent before the next one.
    pub(crate) fn at_boundary(&self) -> bool {
        self.rest.is_none() && self.between_messages()
    }

    /// Whether the last byte sent ended a message: bytes other than pending ones may be sent now.
    pub(crate) fn between_messages(&self) -> bool {
        self.rest.as_ref().is_none_or(|rest| rest.sent == 0)
            && match &self.phase {
                Phase::Initial(initial) => initial.offset == 0,
                Phase::CatchingUp { offset, .. } => *offset == 0,
                Phase::Live | Phase::Parked { .. } | Phase::Draining => true,
            }
    }
}
