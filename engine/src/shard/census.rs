//! Who watches what, in which phase, and who lags most: counted in short steps, and only while an operator asks.
//!
//! Owns a count under way. It costs a delivery nothing: no watcher is counted when it changes its phase.

use std::time::Duration;

use super::Shard;
use crate::key::ResourceId;
use crate::limits::CENSUS_SLOWEST;
use crate::revision::Position;
use crate::scope::{Objects, Scope};
use crate::tick::Tick;
use crate::watcher::{Phase, QueueState, Watcher, WatcherId};

/// The phase of a watch, for those who only count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseName {
    /// Its initial state is being sent.
    Initial,
    /// It is being sent older events.
    CatchingUp,
    /// It was sent everything that was dispatched.
    Live,
    /// It waits for a revision.
    Parked,
    /// It is about to end.
    Draining,
}

impl PhaseName {
    /// All, in the order of a watch's life.
    pub const ALL: [Self; 5] = [Self::Initial, Self::CatchingUp, Self::Live, Self::Parked, Self::Draining];

    const fn of(phase: &Phase) -> Self {
        match phase {
            Phase::Initial(_) => Self::Initial,
            Phase::CatchingUp { .. } => Self::CatchingUp,
            Phase::Live => Self::Live,
            Phase::Parked { .. } => Self::Parked,
            Phase::Draining => Self::Draining,
        }
    }
}

/// How many watches are in each phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseCounts([u64; PhaseName::ALL.len()]);

impl PhaseCounts {
    /// Those in one phase.
    #[must_use]
    pub const fn of(&self, phase: PhaseName) -> u64 {
        self.0[phase as usize]
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] + other.0[at]))
    }
}

/// A watch that lags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    /// The watch.
    pub id: WatcherId,
    /// What it watches; `None`: a range of several resources.
    pub resource: Option<ResourceId>,
    /// The namespace that it watches; `None`: all.
    pub namespace: Option<Box<str>>,
    /// Its phase.
    pub phase: PhaseName,
    /// Whether its socket is full.
    pub is_blocked: bool,
    /// Events in the ring that it has not been sent or passed over.
    pub events: u64,
    /// How long ago the source had the first of them.
    pub time: Duration,
    /// Older events that are still in the ring: when there are none left, and one more has to go, the watch is ended.
    pub events_left: u64,
}

/// A count of one shard's watches, under way or complete.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// The next slot to look at.
    next: usize,
    /// By the row of the resource.
    resources: Vec<PhaseCounts>,
    ranges: PhaseCounts,
    /// Those with the oldest positions, the oldest first.
    oldest: Vec<(Position, WatcherId)>,
}

impl Census {
    /// Watches of one resource each, where there are any.
    pub fn resources(&self) -> impl Iterator<Item = (ResourceId, PhaseCounts)> {
        let rows = self.resources.iter().zip(0..);
        rows.filter(|(counts, _)| counts.total() > 0).map(|(counts, row)| (ResourceId::new(row), *counts))
    }

    /// Watches of ranges of keys, which may span several resources.
    #[must_use]
    pub const fn ranges(&self) -> PhaseCounts {
        self.ranges
    }

    fn look(&mut self, id: WatcherId, watcher: &Watcher, scope: &Scope) {
        let counts = match scope {
            Scope::Objects(objects) => {
                let row = objects.resource.row();
                if self.resources.len() <= row {
                    self.resources.resize_with(row + 1, PhaseCounts::default);
                }
                &mut self.resources[row]
            }
            Scope::Keys(_) => &mut self.ranges,
        };
        counts.0[PhaseName::of(&watcher.phase) as usize] += 1;
        let Some(position) = watcher.position() else { return };
        let at = self.oldest.partition_point(|(other, _)| *other <= position);
        if at < CENSUS_SLOWEST {
            self.oldest.truncate(CENSUS_SLOWEST - 1);
            self.oldest.insert(at, (position, id));
        }
    }
}

impl Shard {
    /// Goes on with a count: looks at up to `looks_max` slots of watches. Returns whether it is complete. Watches that begin, end or
    /// change their phase meanwhile are counted once, or not at all.
    pub fn count(&self, census: &mut Census, looks_max: usize) -> bool {
        let end = census.next.saturating_add(looks_max).min(self.table.slots());
        for (id, watcher) in self.table.within(census.next..end) {
            if let Some(class) = self.table.class_of(id) {
                census.look(id, watcher, &class.key.scope);
            }
        }
        census.next = end;
        end == self.table.slots()
    }

    /// The watches of a count that lag most now, the slowest first; at most [`CENSUS_SLOWEST`].
    #[must_use]
    pub fn slowest(&self, census: &Census, now: Tick) -> Vec<Slow> {
        let ring = &self.feed.ring;
        let (oldest, head) = (ring.oldest(), ring.head());
        let mut slowest: Vec<Slow> = Vec::with_capacity(census.oldest.len());
        for (_, id) in &census.oldest {
            // It may have ended or caught up since.
            let Some(watcher) = self.table.get(*id) else { continue };
            let (Some(position), Some(class)) = (watcher.position(), self.table.class_of(*id)) else {
                continue;
            };
            let (resource, namespace) = match &class.key.scope {
                Scope::Objects(Objects { resource, namespace, name: _ }) => {
                    (Some(*resource), namespace.clone())
                }
                Scope::Keys(_) => (None, None),
            };
            let events = head.since(position);
            let first = ring.get(position.max(oldest)).ok().filter(|_| events > 0);
            slowest.push(Slow {
                id: *id,
                resource,
                namespace,
                phase: PhaseName::of(&watcher.phase),
                is_blocked: watcher.place == QueueState::Blocked,
                events,
                time: first.map_or(Duration::ZERO, |event| now.since(event.arrived)),
                events_left: position.since(oldest),
            });
        }
        slowest.sort_by_key(|slow| std::cmp::Reverse(slow.events));
        slowest
    }
}
