//! Watches that were live and began to lag recently: the window is kept for them for a while.
//!
//! It owns the position from which on the shard still needs the ring, and reports it to the publisher. A watch whose
//! socket does not take a large event at once is not live for as long as the socket needs; without this, a burst of
//! writes could forget the rest of the event meanwhile. Watches that began to lag together are one group with one
//! position.
//!
//! A watch that waits for the shard has a *claim*: its group is kept until the shard has served it, however long that
//! takes, and with every page that it takes completely the claim moves to its new position. When its socket is full the
//! claim ends, and from then on it has [`KEEP_UP`]. So no watch is expired for what the shard did not offer it, and no
//! slow client keeps the window open for longer than that and one step.

use std::collections::VecDeque;

use super::Shard;
use crate::failpoints::{Failpoint, is_on};
use crate::limits::{KEEP_UP, KEEP_UP_STEP};
use crate::revision::Position;
use crate::tick::Tick;
use crate::watcher::{Claim, WatcherId};

/// Watches that began to lag together.
#[derive(Debug)]
struct Group {
    since: Tick,
    /// The first position that one of them needs.
    from: Position,
    /// How many of them have a claim.
    claims: u32,
}

/// The positions from which on watches that began to lag need the ring, and until when it is kept for them.
#[derive(Debug, Default)]
pub(super) struct Fallen {
    /// In the order of time.
    groups: VecDeque<Group>,
    /// Groups whose time has passed; plus its index, this is the number of a group.
    passed: u32,
    /// The moment of the turn under way.
    now: Tick,
    /// The first position of all groups.
    from: Option<Position>,
}

impl Fallen {
    /// A turn begins at this time.
    pub(super) const fn set_now(&mut self, now: Tick) {
        self.now = now;
    }

    /// A watch needs the ring from this position on, until its time is over.
    fn add(&mut self, from: Position) {
        self.from = Some(self.from.map_or(from, |first| first.min(from)));
        match self.groups.back_mut() {
            Some(newest) if self.now.since(newest.since) < KEEP_UP_STEP => {
                newest.from = newest.from.min(from)
            }
            _ => self.groups.push_back(Group { since: self.now, from, claims: 0 }),
        }
    }

    /// The same for a watch that waits for the shard.
    fn claim(&mut self, from: Position) -> Claim {
        self.add(from);
        if let Some(newest) = self.groups.back_mut() {
            newest.claims += 1;
        }
        let index = u32::try_from(self.groups.len() - 1).expect("a group is a step of time");
        Claim(self.passed.wrapping_add(index))
    }

    fn release(&mut self, claim: Claim) {
        if let Some(group) = self.groups.get_mut(claim.0.wrapping_sub(self.passed) as usize) {
            group.claims -= 1;
        }
    }

    /// Releases the groups whose time is over.
    fn pass(&mut self) {
        let mut any = false;
        while let Some(first) = self.groups.front()
            && first.claims == 0
            && first.since.plus(KEEP_UP + KEEP_UP_STEP) <= self.now
        {
            self.groups.pop_front();
            self.passed = self.passed.wrapping_add(1);
            any = true;
        }
        if any {
            self.from = self.groups.iter().map(|group| group.from).min();
        }
    }

    fn clear(&mut self) {
        self.passed = self.passed.wrapping_add(u32::try_from(self.groups.len()).unwrap_or(u32::MAX));
        self.groups.clear();
        self.from = None;
    }

    /// When the time of the oldest group is over. While a group has a claim, there is work anyway.
    pub(super) fn next_due(&self) -> Option<Tick> {
        self.groups.front().map(|group| group.since.plus(KEEP_UP + KEEP_UP_STEP))
    }
}

impl Shard {
    /// Releases positions that all watches have passed, or whose time is over.
    pub(super) fn tend_fallen(&mut self) {
        if self.fallen.groups.is_empty() {
            return;
        }
        if self.behind.is_empty() && self.blocked.first().is_none() {
            self.fallen.clear();
        } else {
            self.fallen.pass();
        }
        self.report();
    }

    /// A watch that was live, or has a claim, waits for the shard to send it what follows this position.
    pub(super) fn claim(&mut self, id: WatcherId, from: Position) {
        self.release(id);
        if let Some(watcher) = self.table.get_mut(id) {
            watcher.claim = Some(self.fallen.claim(from));
        }
    }

    /// A watch with a claim waits for its socket from now on.
    pub(super) fn begin_time(&mut self, id: WatcherId, from: Position) {
        if self.release(id) {
            self.fallen.add(from);
        }
    }

    /// Ends the claim of a watch. Whether it had one.
    pub(super) fn release(&mut self, id: WatcherId) -> bool {
        let claim = self.table.get_mut(id).and_then(|watcher| watcher.claim.take());
        claim.inspect(|claim| self.fallen.release(*claim)).is_some()
    }

    /// Reports to the publisher from which position on the shard still needs the ring.
    pub(super) fn report(&self) {
        let fallen = self.fallen.from.filter(|_| !is_on(Failpoint::FallenNotKept));
        let needed = fallen.map_or(self.dispatched, |from| from.min(self.dispatched));
        self.feed.report(self.number, needed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(fallen: &mut Fallen, millis: u64) {
        fallen.set_now(Tick::from_nanos(millis * 1_000_000));
        fallen.pass();
    }

    fn place(fallen: &Fallen) -> Option<u64> {
        fallen.from.map(Position::get)
    }

    #[test]
    fn those_who_fall_together_are_kept_for_together_and_not_for_ever() {
        let mut fallen = Fallen::default();
        at(&mut fallen, 1_000);
        fallen.add(Position::new(7));
        fallen.add(Position::new(5));
        assert_eq!(place(&fallen), Some(5));
        at(&mut fallen, 1_009);
        fallen.add(Position::new(8));
        at(&mut fallen, 1_010);
        fallen.add(Position::new(20));
        // 8 began to lag within the step of the first, whose position is earlier, and has its whole time nevertheless.
        at(&mut fallen, 1_109);
        assert_eq!((place(&fallen), fallen.groups.len()), (Some(5), 2));
        at(&mut fallen, 1_110);
        assert_eq!(place(&fallen), Some(20));
        // However long more watches begin to lag, no position is kept for longer.
        for millis in 1_110..3_000 {
            at(&mut fallen, millis);
            fallen.add(Position::new(millis));
            let kept = place(&fallen).expect("a watcher lags");
            assert!(fallen.groups.len() <= 12 && (kept == 20 || kept + 110 > millis), "{kept} at {millis}");
        }
        at(&mut fallen, 3_110);
        assert!(fallen.groups.is_empty() && fallen.from.is_none());
    }

    #[test]
    fn a_claim_holds_its_group_until_it_ends() {
        let mut fallen = Fallen::default();
        at(&mut fallen, 1_000);
        let claims = [fallen.claim(Position::new(5)), fallen.claim(Position::new(5))];
        at(&mut fallen, 1_050);
        let later = fallen.claim(Position::new(9));
        at(&mut fallen, 9_000);
        assert_eq!(place(&fallen), Some(5), "the shard has not come to them");
        fallen.release(claims[0]);
        at(&mut fallen, 9_001);
        assert_eq!(place(&fallen), Some(5));
        fallen.release(claims[1]);
        at(&mut fallen, 9_002);
        assert_eq!(place(&fallen), Some(9));
        fallen.clear();
        // Of a group that was released.
        fallen.release(later);
        let next = fallen.claim(Position::new(11));
        assert_ne!(next, later);
        fallen.release(next);
        at(&mut fallen, 9_112);
        assert_eq!(place(&fallen), None);
    }
}
