//! Watches that were live and fell behind a moment ago: the window waits for them for a while.
//!
//! It owns from where on the shard still needs the ring, and tells the publisher. A watch whose socket does not take a large
//! event at once leaves the live ones for as long as the socket needs; without this, a burst of writes could forget the rest of
//! the event meanwhile. It holds nothing of a watch: one position serves all that fell behind together. It never keeps the
//! window open for longer than [`KEEP_UP`] and a step, so a slow client holds up nobody.

use std::collections::VecDeque;

use super::Shard;
use crate::limits::{KEEP_UP, KEEP_UP_STEP};
use crate::revision::Position;
use crate::tick::Tick;

/// From where on watches that fell behind need the ring, and until when it is kept for them.
#[derive(Debug, Default)]
pub(super) struct Fallen {
    /// Oldest first, and so in the order of the ring.
    groups: VecDeque<(Tick, Position)>,
    /// The first position that somebody needs who fell behind since the clock was looked at.
    newest: Option<Position>,
}

impl Fallen {
    /// A live watch goes on by itself from here.
    pub(super) fn add(&mut self, from: Position) {
        self.newest = Some(self.newest.map_or(from, |newest| newest.min(from)));
    }

    fn is_empty(&self) -> bool {
        self.newest.is_none() && self.groups.is_empty()
    }

    fn clear(&mut self) {
        self.newest = None;
        self.groups.clear();
    }

    /// Dates those that fell behind since the last time, and lets go of those that had their time.
    fn pass(&mut self, now: Tick) {
        if let Some(from) = self.newest.take() {
            let together = self.groups.back().is_some_and(|(since, _)| now.since(*since) < KEEP_UP_STEP);
            if !together {
                self.groups.push_back((now, from));
            }
        }
        while self.next_due().is_some_and(|due| due <= now) {
            self.groups.pop_front();
        }
    }

    /// The first position that is kept.
    fn from(&self) -> Option<Position> {
        self.groups.front().map(|(_, from)| *from).into_iter().chain(self.newest).min()
    }

    /// When the oldest had its time.
    pub(super) fn next_due(&self) -> Option<Tick> {
        self.groups.front().map(|(since, _)| since.plus(KEEP_UP + KEEP_UP_STEP))
    }
}

impl Shard {
    /// Lets the window go on where everybody has caught up, or had time to.
    pub(super) fn tend_fallen(&mut self, now: Tick) {
        if self.fallen.is_empty() {
            return;
        }
        if self.behind.is_empty() && self.blocked.first().is_none() {
            self.fallen.clear();
        } else {
            self.fallen.pass(now);
        }
        self.report();
    }

    /// Tells the publisher from where on the shard still needs the ring.
    pub(super) fn report(&self) {
        let needed = self.fallen.from().map_or(self.dispatched, |from| from.min(self.dispatched));
        self.feed.report(self.number, needed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Tick {
        Tick::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn those_who_fall_together_are_kept_for_together_and_not_for_ever() {
        let mut fallen = Fallen::default();
        let place = |fallen: &Fallen| fallen.from().map(Position::get);
        fallen.add(Position::new(7));
        fallen.add(Position::new(5));
        assert_eq!((place(&fallen), fallen.next_due()), (Some(5), None));
        fallen.pass(at(1_000));
        fallen.add(Position::new(8));
        fallen.pass(at(1_009));
        fallen.add(Position::new(20));
        fallen.pass(at(1_010));
        // 8 fell within the step of the first, whose place is before it, and has its whole time all the same.
        fallen.pass(at(1_109));
        assert_eq!((place(&fallen), fallen.groups.len()), (Some(5), 2));
        fallen.pass(at(1_110));
        assert_eq!(place(&fallen), Some(20));
        // However long somebody goes on to fall behind, no place is kept for longer.
        for millis in 1_110..3_000 {
            fallen.add(Position::new(millis));
            fallen.pass(at(millis));
            let kept = place(&fallen).expect("somebody fell behind");
            assert!(fallen.groups.len() <= 12 && (kept == 20 || kept + 110 > millis), "{kept} at {millis}");
        }
        fallen.pass(at(3_110));
        assert!(fallen.is_empty());
    }
}
