//! The positions of the events that concern a class of which some watchers lag. `shard/trail` fills them.

use std::collections::VecDeque;

use crate::revision::Position;

/// Positions whose memory a trail keeps for the next time.
const KEPT: usize = 64;

/// A class is searched for when fewer than one in so many events concern it.
const SPARSE: u64 = 16;

/// The positions of the events that concern a class, from one position on, while some of its watchers lag.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    /// `None`: nothing is noted.
    pub(crate) from: Option<Position>,
    /// In order.
    pub(crate) events: VecDeque<Position>,
    /// Few of the events that were looked at last concerned the class.
    pub(crate) is_sparse: bool,
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
