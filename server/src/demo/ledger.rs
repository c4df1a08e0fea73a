//! The events that a view's watchers must be sent, in order, and how far each watcher has come.
//!
//! Pure. It owns the judgement: delivered, lost, out of order, or another client's. One write is one entry, shared by all
//! views that it concerns; entries that every watcher has passed are forgotten.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use super::view::Verb;

/// An event that a write causes.
#[derive(Debug)]
pub(super) struct Write {
    /// `NAMESPACE/NAME`.
    pub(super) key: String,
    /// When its request was sent.
    pub(super) at: Instant,
    /// Its revision, as the reply says or as the first watcher sees it; 0: not known yet. A reply may arrive later than
    /// the event, and not every reply has it.
    pub(super) revision: Cell<u64>,
}

/// How far a watcher has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// The next entry.
    next: u64,
    /// The revision of the newest event.
    revision: u64,
}

impl Cursor {
    /// After a list at `revision`, before any write of the demo's.
    pub(super) const fn after(revision: u64) -> Self {
        Self { next: 0, revision }
    }

    /// The revision from which a watch resumes.
    pub(super) const fn revision(self) -> u64 {
        self.revision
    }

    /// Everything up to `revision` was sent: a bookmark.
    pub(super) fn passed(&mut self, revision: u64) {
        self.revision = self.revision.max(revision);
    }
}

/// What an event that arrived is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Expected, and this many before it were not sent.
    Expected { sent: Instant, lost: u64 },
    /// A write of another client, and this many before it were not sent.
    Foreign { lost: u64 },
    /// Not newer than the one before.
    OutOfOrder,
}

/// The expected events of one view.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    entries: VecDeque<(Verb, Rc<Write>)>,
    forgotten: u64,
}

impl Ledger {
    /// A write is about to be sent.
    pub(super) fn expect(&mut self, verb: Verb, write: &Rc<Write>) {
        self.entries.push_back((verb, Rc::clone(write)));
    }

    /// It was refused. If it was seen nevertheless, another client made the same change at that moment: all watchers will see it.
    pub(super) fn withdraw(&mut self, write: &Rc<Write>) {
        if write.revision.get() == 0 {
            self.entries.retain(|(_, entry)| !Rc::ptr_eq(entry, write));
        }
    }

    /// An event has arrived at the watcher that is at `place`.
    pub(super) fn arrived(&self, place: &mut Cursor, verb: Verb, key: &str, revision: u64) -> Arrival {
        if revision <= place.revision {
            return Arrival::OutOfOrder;
        }
        place.revision = revision;
        let mut lost = 0;
        while let Some((expected, write)) = self.at(place.next) {
            let is_it = *expected == verb && write.key == key;
            match write.revision.get() {
                0 if is_it => write.revision.set(revision),
                known if known == revision && is_it => {}
                known if known != 0 && known <= revision => {
                    lost += 1;
                    place.next += 1;
                    continue;
                }
                _ => break,
            }
            place.next += 1;
            return Arrival::Expected { sent: write.at, lost };
        }
        Arrival::Foreign { lost }
    }

    /// How many events a watcher has still to be sent.
    pub(super) fn owed(&self, place: Cursor) -> u64 {
        self.end() - place.next
    }

    /// A watcher has listed again, at `revision`: it is not sent what that list has. Returns how many entries it skips.
    pub(super) fn skip(&self, place: &mut Cursor, revision: u64) -> u64 {
        let from = place.next;
        while self.at(place.next).is_some_and(|(_, write)| (1..=revision).contains(&write.revision.get())) {
            place.next += 1;
        }
        *place = Cursor { next: place.next, revision };
        place.next - from
    }

    /// Forgets what every one of its watchers has passed.
    pub(super) fn forget(&mut self, places: impl Iterator<Item = Cursor>) {
        let passed = places.map(|place| place.next).min().unwrap_or_else(|| self.end());
        while self.forgotten < passed && self.entries.pop_front().is_some() {
            self.forgotten += 1;
        }
    }

    fn end(&self) -> u64 {
        self.forgotten + self.entries.len() as u64
    }

    fn at(&self, index: u64) -> Option<&(Verb, Rc<Write>)> {
        self.entries.get(usize::try_from(index.checked_sub(self.forgotten)?).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(key: &str, revision: u64) -> Rc<Write> {
        Rc::new(Write { key: key.to_owned(), at: Instant::now(), revision: Cell::new(revision) })
    }

    fn lost(arrival: Arrival) -> Option<u64> {
        match arrival {
            Arrival::Expected { lost, .. } => Some(lost),
            Arrival::Foreign { .. } | Arrival::OutOfOrder => None,
        }
    }

    #[test]
    fn what_comes_in_order_is_expected() {
        let mut ledger = Ledger::default();
        let mut place = Cursor::after(4);
        let (one, two) = (write("s/a", 0), write("s/b", 0));
        ledger.expect(Verb::Added, &one);
        // Sooner than its reply.
        assert_eq!(lost(ledger.arrived(&mut place, Verb::Added, "s/a", 5)), Some(0));
        assert_eq!(one.revision.get(), 5);
        ledger.expect(Verb::Modified, &two);
        two.revision.set(7);
        // Another client's, between them.
        assert_eq!(ledger.arrived(&mut place, Verb::Added, "s/x", 6), Arrival::Foreign { lost: 0 });
        assert_eq!(ledger.owed(place), 1);
        assert_eq!(lost(ledger.arrived(&mut place, Verb::Modified, "s/b", 7)), Some(0));
        assert_eq!(ledger.owed(place), 0);
        ledger.forget([place].into_iter());
        assert_eq!((ledger.entries.len(), ledger.owed(place)), (0, 0));
    }

    #[test]
    fn what_is_missing_twice_or_wrong_is_found() {
        let mut ledger = Ledger::default();
        for (key, revision) in [("s/a", 5), ("s/b", 6), ("s/c", 7), ("s/d", 8)] {
            ledger.expect(Verb::Modified, &write(key, revision));
        }
        let mut place = Cursor::after(4);
        assert_eq!(lost(ledger.arrived(&mut place, Verb::Modified, "s/b", 6)), Some(1), "one is missing");
        assert_eq!(ledger.arrived(&mut place, Verb::Modified, "s/b", 6), Arrival::OutOfOrder);
        assert_eq!(ledger.arrived(&mut place, Verb::Modified, "s/a", 5), Arrival::OutOfOrder);
        // Of the right revision, and yet not the event of that write.
        assert_eq!(ledger.arrived(&mut place, Verb::Deleted, "s/c", 7), Arrival::Foreign { lost: 1 });
        assert_eq!(ledger.owed(place), 1, "what never comes is owed");
        // A foreign event that is newer shows that it never will.
        assert_eq!(ledger.arrived(&mut place, Verb::Added, "s/x", 9), Arrival::Foreign { lost: 1 });
        // All watchers must see one revision.
        let seen = write("s/e", 0);
        ledger.expect(Verb::Deleted, &seen);
        let mut other = place;
        assert_eq!(lost(ledger.arrived(&mut place, Verb::Deleted, "s/e", 10)), Some(0));
        assert_eq!(ledger.arrived(&mut other, Verb::Deleted, "s/e", 11), Arrival::Foreign { lost: 1 });
    }

    #[test]
    fn refused_writes_and_new_lists_leave_nothing_owed() {
        let mut ledger = Ledger::default();
        let refused = write("s/a", 0);
        ledger.expect(Verb::Modified, &refused);
        ledger.withdraw(&refused);
        let mut place = Cursor::after(1);
        assert_eq!(ledger.owed(place), 0);
        ledger.expect(Verb::Modified, &write("s/a", 2));
        ledger.expect(Verb::Modified, &write("s/a", 3));
        assert_eq!(ledger.skip(&mut place, 2), 1);
        assert_eq!((place.revision(), ledger.owed(place)), (2, 1));
        // A place that is behind keeps what it has not passed.
        ledger.forget([place, Cursor { next: 2, revision: 3 }].into_iter());
        assert_eq!((ledger.entries.len(), ledger.owed(place)), (1, 1));
    }
}
