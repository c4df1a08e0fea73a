//! The positions of the events that concern a class of which some watchers lag, back to where they are known.
//!
//! Values only: rounds note what is new, `shard/trail` searches what is older. It is short: a class that many events concern loses the
//! oldest positions.

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

    /// The next event to search, on the way back to `to`; `None`: it is reached, `max` events are known, or it is not worth a search.
    pub(crate) fn to_search(&self, to: Position, max: usize) -> Option<Position> {
        let from = self.from.filter(|from| *from > to && self.is_sparse && self.events.len() < max)?;
        Some(Position::new(from.get() - 1))
    }

    /// The event before all that are known was looked at.
    pub(crate) fn searched(&mut self, event: Position, concerns: bool) {
        if concerns {
            self.events.push_front(event);
        }
        self.from = Some(event);
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
        // It is searched only when a page found little.
        assert_eq!(trail.to_search(at(5), 9), None);
        trail.looked(16, 1);
        assert_eq!(trail.to_search(at(5), 9), None);
        trail.looked(17, 1);
        assert_eq!((trail.to_search(at(5), 9), trail.to_search(at(13), 9)), (Some(at(12)), None));
        assert_eq!(trail.to_search(at(5), 3), None, "it is full");
        trail.searched(at(12), false);
        trail.searched(at(11), true);
        assert_eq!((trail.start(), next(&trail, 11), next(&trail, 12)), (at(11), Some(11), Some(15)));
        trail.end();
        assert!(!trail.is_kept() && trail.start() > at(20) && trail.next_from(at(0)).is_none());
    }
}
