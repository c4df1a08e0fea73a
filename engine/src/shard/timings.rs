//! How long things take in a shard: measured once per round, with the ticks that turns get anyway.
//!
//! Owns the marks of the round under way and the counts of those that ended. It never reads a clock: a write ends when
//! the next turn begins, which is when the shard gets the next tick.

use std::time::Duration;

use super::Shard;
use crate::histogram::Histogram;
use crate::revision::Position;
use crate::tick::Tick;

/// Watchers that lag that [`Shard::lag`] looks at. The first have waited longest.
const LOOKS_MAX: usize = 1024;

/// What a shard measured since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// From the moment that the source had the oldest event of a round to the end of the turn with its first send.
    pub first_write: Histogram,
    /// The same to the end of the turn with its last send to a live watcher.
    pub last_write: Histogram,
    /// Time that was granted to watchers that lag while newer events waited, in nanoseconds.
    pub granted_ns: u64,
    /// The part of it that they used.
    pub used_ns: u64,
}

impl Timings {
    /// The sum of this and the measurements of a later shard.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            first_write: self.first_write.plus(&other.first_write),
            last_write: self.last_write.plus(&other.last_write),
            granted_ns: self.granted_ns + other.granted_ns,
            used_ns: self.used_ns + other.used_ns,
        }
    }
}

/// How far the slowest watcher lags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Events in the ring that it has not been sent or passed over.
    pub events: u64,
    /// How long ago the source had the first of them.
    pub time: Duration,
}

/// How far the round under way is measured. The tick is when the source had its oldest event.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Mark {
    /// There is none, or no class matches its events.
    #[default]
    Nothing,
    /// Nothing of it was sent.
    Begun(Tick),
    /// The turn before sent the first of it.
    Writing(Tick),
    /// Its first write is counted.
    Counted(Tick),
    /// The turn before sent the last of it, and perhaps the first.
    Over { arrived: Tick, first: bool },
}

impl Mark {
    pub(super) const fn sent(&mut self) {
        if let Self::Begun(arrived) = *self {
            *self = Self::Writing(arrived);
        }
    }

    pub(super) const fn over(&mut self) {
        *self = match *self {
            Self::Nothing | Self::Begun(_) => Self::Nothing,
            Self::Writing(arrived) => Self::Over { arrived, first: true },
            Self::Counted(arrived) => Self::Over { arrived, first: false },
            over @ Self::Over { .. } => over,
        }
    }
}

impl Shard {
    /// Counts what the turn before wrote.
    pub(super) fn measure(&mut self, now: Tick) {
        let mark = &mut self.round.mark;
        match *mark {
            Mark::Nothing | Mark::Begun(_) | Mark::Counted(_) => {}
            Mark::Writing(arrived) => {
                self.timings.first_write.observe(now.since(arrived));
                *mark = Mark::Counted(arrived);
            }
            Mark::Over { arrived, first } => {
                if first {
                    self.timings.first_write.observe(now.since(arrived));
                }
                self.timings.last_write.observe(now.since(arrived));
                *mark = Mark::Nothing;
            }
        }
    }

    /// The measurements so far.
    #[must_use]
    pub const fn timings(&self) -> Timings {
        let (granted_ns, used_ns) = self.budget.spent();
        Timings { granted_ns, used_ns, ..self.timings }
    }

    /// How far the slowest watcher lags, among all whose sockets are full and up to 1,024 of those that catch up; a
    /// shard that has not taken the newest events lags with all of its watchers. Costs a look at each of these, so ask
    /// it about once a second.
    #[must_use]
    pub fn lag(&self, now: Tick) -> Lag {
        if self.table.watchers == 0 {
            return Lag::default();
        }
        let blocked = self.blocked.first().map(|(position, _)| position);
        let behind = self.behind.iter().take(LOOKS_MAX).filter_map(|id| self.table.get(*id)?.position());
        let slowest = behind.chain(blocked).fold(self.dispatched, Position::min);
        let events = self.feed.ring.head().since(slowest);
        let first = self.feed.ring.get(slowest.max(self.feed.ring.oldest())).ok();
        let time = first.filter(|_| events > 0).map_or(Duration::ZERO, |event| now.since(event.arrived));
        Lag { events, time }
    }

    /// Watchers whose sockets are full.
    #[must_use]
    pub fn blocked(&self) -> usize {
        self.blocked.len()
    }

    /// Bytes that this shard's own tables and buffers hold, by their capacity.
    #[must_use]
    pub fn memory(&self) -> Memory {
        Memory { watchers: self.table.bytes(), pages: self.page.capacity() + self.round.capacity() }
    }
}

/// Bytes that a shard holds besides those that it shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The table of watchers and classes, without what classes keep of events.
    pub watchers: usize,
    /// Buffers for pages and runs.
    pub pages: usize,
}
