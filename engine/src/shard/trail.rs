//! Which events of the ring concern a class that has watchers which lag.
//!
//! It owns the positions of those events, back to where it reaches: rounds note what is new, whoever lags or not, and what is
//! older is searched once for all watchers of the class. So a watcher that lags looks at what it will be sent, and the events
//! that come meanwhile cost it nothing: otherwise thousands of watchers that begin together, each with few events, would all
//! look at every event, and where that takes longer than the next events need to come, none would ever be live.
//!
//! Only a page that found little makes a class search: where many events concern it, a watcher is sent most of what it looks at.
//! A trail is short: a class that many events concern loses the oldest positions, and its watchers read the ring there.

use std::collections::VecDeque;

use super::Shard;
use crate::event::Event;
use crate::limits::PAGE_SCAN;
use crate::revision::Position;
use crate::watcher::WatcherId;
use crate::watcher::class::ClassKey;

/// Positions whose memory a trail keeps for the next time.
const KEPT: usize = 64;

/// A class is searched for when fewer than one in so many events concern it.
const SPARSE: u64 = 16;

/// The positions of the events that concern a class, from one position on, while some of its watchers lag.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    /// `None`: nothing is noted.
    from: Option<Position>,
    /// In order.
    events: VecDeque<Position>,
    /// Few of the events that were looked at last concerned the class.
    is_sparse: bool,
}

impl Trail {
    /// Begins, if it has not, with `next` as the next event to be noted.
    pub(crate) fn begin(&mut self, next: Position) {
        self.from.get_or_insert(next);
    }

    /// Nothing is noted any more.
    pub(crate) fn end(&mut self) {
        self.from = None;
        self.is_sparse = false;
        self.events.clear();
        if self.events.capacity() > KEPT {
            self.events = VecDeque::new();
        }
    }

    /// Whether events are noted.
    pub(crate) const fn is_kept(&self) -> bool {
        self.from.is_some()
    }

    /// Adds the newest event. At most `max` are kept, the newest.
    pub(crate) fn note(&mut self, event: Position, max: usize) {
        if self.events.back().is_some_and(|last| *last >= event) {
            return;
        }
        self.events.push_back(event);
        while self.events.len() > max.max(1) {
            if let Some(first) = self.events.pop_front() {
                self.from = Some(first.next());
            }
        }
    }

    /// A watcher of the class looked at so many events, of which so many concerned it.
    pub(crate) const fn looked(&mut self, looks: u64, found: usize) {
        self.is_sparse = (found as u64) * SPARSE < looks;
    }

    /// The position from which on it has all events.
    pub(crate) fn start(&self) -> Position {
        self.from.unwrap_or(Position::new(u64::MAX))
    }

    /// The first event at or after this position, which the trail reaches.
    pub(crate) fn next_from(&self, position: Position) -> Option<Position> {
        self.events.get(self.events.partition_point(|event| *event < position)).copied()
    }
}

/// Whether a watch of this class may be sent something because of an event.
#[inline(never)]
pub(super) fn concerns(key: &ClassKey, event: &Event) -> bool {
    key.covers(event.key()) && (event.refusal().is_some() || key.verdict(event).is_some())
}

impl Shard {
    /// Searches older events for the class of a watcher, if few concern it, until its trail reaches this position or is as long as it may be. False: a
    /// turn's time is over.
    pub(super) fn search_back(&mut self, id: WatcherId, to: Position) -> bool {
        let (mut looks, max) = (PAGE_SCAN.min(self.config.looks_per_turn.max(1)), self.config.run_messages);
        let Some((_, class)) = self.table.pair(id) else { return true };
        let trail = &mut class.trail;
        if !trail.is_sparse {
            return true;
        }
        while let Some(from) = trail.from.filter(|from| *from > to)
            && trail.events.len() < max
        {
            if looks == 0 {
                return false;
            }
            looks -= 1;
            let at = Position::new(from.get() - 1);
            // What is forgotten is told by whoever needs it.
            let Ok(event) = self.feed.ring.get(at) else { break };
            if concerns(&class.key, &event) {
                trail.events.push_front(at);
            }
            trail.from = Some(at);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_newest_events_and_reaches_back_to_after_the_first_that_it_lost() {
        let at = Position::new;
        let mut trail = Trail::default();
        assert!(!trail.is_kept() && trail.start() > at(10));
        trail.begin(at(10));
        trail.begin(at(11));
        assert_eq!(trail.start(), at(10));
        assert_eq!(trail.next_from(at(10)), None);
        for event in [12, 15, 19] {
            trail.note(at(event), 3);
            // A round that is formed anew notes an event again.
            trail.note(at(12), 3);
        }
        let next = |trail: &Trail, from| trail.next_from(at(from)).map(Position::get);
        assert_eq!(
            (next(&trail, 10), next(&trail, 12), next(&trail, 13), next(&trail, 20)),
            (Some(12), Some(12), Some(15), None)
        );
        trail.note(at(20), 3);
        assert_eq!(trail.start(), at(13));
        assert_eq!((next(&trail, 13), next(&trail, 16)), (Some(15), Some(19)));
        trail.end();
        assert!(!trail.is_kept() && trail.start() > at(20) && trail.next_from(at(0)).is_none());
    }
}
