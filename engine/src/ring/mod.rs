//! The window of recent events: one writer, many readers, no lock.
//!
//! It owns the slots and the counters around them. Entries have growing positions; the writer makes whole batches
//! visible with one store to `head`, and forgets the oldest entries when it needs their slots or on request. It can add older
//! entries before those that are there, as long as none was forgotten. A reader
//! that asks for a forgotten entry learns that it was lapped: it gets exactly the entry of the position that it asked
//! for, never a torn or a newer one. The ring never waits and never drops what it must keep: it grows instead.
//! Making the writer wait for a slow shard is the publisher's task.

mod slot;

use std::fmt;
use std::sync::Arc;

#[cfg(revcast_loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(revcast_loom))]
use std::sync::atomic::{AtomicU64, Ordering};

use crate::failpoints::{Failpoint, is_on};
use crate::revision::{Position, Revision};
use slot::{Array, Slots};

/// What a ring can hold.
pub trait Entry: Send + Sync {
    /// Its position.
    fn position(&self) -> Position;
    /// The revision it belongs to. Never decreases from one position to the next.
    fn revision(&self) -> Revision;
}

/// Why there is no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The window no longer reaches back to it.
    Lapped,
    /// It was not published yet.
    NotYet,
}

/// Fields that change together share cache lines, and others do not: two lines of 64 bytes, since CPUs fetch them in
/// pairs.
#[repr(align(128))]
struct Line<T>(T);

impl<T> std::ops::Deref for Line<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Changes when a batch becomes visible; every reader reads it then.
struct Newest {
    /// Entries ever published: the position of the next one.
    head: AtomicU64,
    /// The revision up to which everything was published. Set after the entries are visible.
    progress: AtomicU64,
}

/// Changes with every entry that a full ring takes; only readers that start or lag read it.
struct Window {
    /// The oldest position that may still be there. Goes back when older entries are added.
    oldest: AtomicU64,
    /// The newest revision that cannot be replayed. Set before an entry of it is removed, and after older entries were added.
    forgotten: AtomicU64,
    /// The newest revision with several entries of which one was forgotten; 0: none. Set before the entry is removed.
    torn: AtomicU64,
}

struct Shared<T> {
    /// Changes when the ring grows, which is rare: its line stays in every core's cache.
    slots: Array<T>,
    newest: Line<Newest>,
    window: Line<Window>,
}

/// The one writer.
pub struct Writer<T> {
    shared: Arc<Shared<T>>,
    /// The array in use.
    slots: Arc<Slots<T>>,
    next: u64,
    oldest: u64,
}

/// One of many readers. Cheap to clone.
pub struct Reader<T> {
    shared: Arc<Shared<T>>,
}

/// A ring of `capacity` slots (rounded up to a power of two, at least 2) that begins empty after `start`: nothing up to
/// and including `start` can be replayed. Its first entry will be at position `first`.
#[must_use]
pub fn ring<T: Entry>(capacity: usize, first: Position, start: Revision) -> (Writer<T>, Reader<T>) {
    let first = first.get();
    let capacity = capacity.max(2).next_power_of_two();
    let slots = Arc::new(slot::slots(capacity));
    let shared = Arc::new(Shared {
        slots: Array::new(Arc::clone(&slots)),
        newest: Line(Newest { head: AtomicU64::new(first), progress: AtomicU64::new(start.get()) }),
        window: Line(Window {
            oldest: AtomicU64::new(first),
            forgotten: AtomicU64::new(start.get()),
            torn: AtomicU64::new(0),
        }),
    });
    (Writer { shared: Arc::clone(&shared), slots, next: first, oldest: first }, Reader { shared })
}

impl<T: Entry> Writer<T> {
    /// How many entries fit before the ring grows.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// The position of the next entry.
    #[must_use]
    pub const fn next(&self) -> Position {
        Position::new(self.next)
    }

    /// The oldest position that is still there.
    #[must_use]
    pub const fn oldest(&self) -> Position {
        Position::new(self.oldest)
    }

    /// The oldest entry itself.
    #[must_use]
    pub fn peek_oldest(&self) -> Option<Arc<T>> {
        self.entry(self.oldest)
    }

    /// Adds an entry at [`Writer::next`]. A full ring forgets its oldest entry for it; if that is at or after `keep`,
    /// the ring grows instead. Not visible before [`Writer::publish`].
    pub fn stage(&mut self, entry: Arc<T>, keep: Position) {
        assert_eq!(entry.position().get(), self.next, "entries are staged in order");
        while self.next - self.oldest >= self.slots.len() as u64 {
            if self.oldest < keep.get() {
                self.forget_oldest();
            } else {
                self.grow();
            }
        }
        slot::at(&self.slots, self.next).store(Some(entry));
        self.next += 1;
    }

    /// Adds older entries before the oldest one, the newest of them first. From then on what is newer than `forgotten` can be
    /// replayed: the entries are all that happened between that and the oldest one. `is_torn`: revision `forgotten` had several
    /// entries.
    ///
    /// # Panics
    /// When there are more than [`Writer::room`], or they do not end where the window begins.
    pub fn prepend(&mut self, entries: impl IntoIterator<Item = Arc<T>>, forgotten: Revision, is_torn: bool) {
        for entry in entries {
            assert!(self.room() > 0, "the ring has room for what is added");
            assert_eq!(entry.position().get() + 1, self.oldest, "entries are added next to the oldest");
            self.oldest -= 1;
            slot::at(&self.slots, self.oldest).store(Some(entry));
        }
        // In this order: see `Reader::position_after`.
        let torn = if is_torn { forgotten.get() } else { 0 };
        self.shared.window.torn.fetch_max(torn, Ordering::Release);
        self.shared.window.oldest.store(self.oldest, Ordering::Release);
        self.shared.window.forgotten.store(forgotten.get(), Ordering::Release);
    }

    /// How many older entries [`Writer::prepend`] can add.
    #[must_use]
    pub fn room(&self) -> u64 {
        (self.slots.len() as u64 - (self.next - self.oldest)).min(self.oldest)
    }

    /// Doubles the slots. A reader that still has the old array finds every entry there that it can ask for: it asks
    /// for newer ones only after it has seen the newer head, and then it sees the larger array.
    fn grow(&mut self) {
        let larger = Arc::new(slot::slots(self.slots.len() * 2));
        for position in self.oldest..self.next {
            slot::at(&larger, position).store(slot::at(&self.slots, position).load());
        }
        self.slots = Arc::clone(&larger);
        self.shared.slots.store(larger);
    }

    fn entry(&self, position: u64) -> Option<Arc<T>> {
        if position < self.next { slot::at(&self.slots, position).load() } else { None }
    }

    /// Makes everything staged visible at once, and records that nothing else happened up to `revision`.
    pub fn publish(&mut self, revision: Revision) {
        self.shared.newest.head.store(self.next, Ordering::Release);
        // After the head: a reader that sees this progress sees the entries that it covers.
        self.shared.newest.progress.store(revision.get(), Ordering::Release);
    }

    /// Forgets the oldest entry, if there is one.
    pub fn forget_oldest(&mut self) {
        if self.oldest == self.next {
            return;
        }
        if let Some(entry) = self.entry(self.oldest) {
            let revision = entry.revision();
            if self.entry(self.oldest + 1).is_some_and(|next| next.revision() == revision) {
                self.shared.window.torn.fetch_max(revision.get(), Ordering::Release);
            }
            self.shared.window.forgotten.fetch_max(revision.get(), Ordering::Release);
        }
        let slot = slot::at(&self.slots, self.oldest);
        self.oldest += 1;
        self.shared.window.oldest.store(self.oldest, Ordering::Release);
        slot.store(None);
    }

    /// Declares that nothing up to and including `revision` can be replayed, whether the ring held it or not. Entries
    /// at or after `keep` stay.
    pub fn forget_through(&mut self, revision: Revision, keep: Position) {
        self.shared.window.forgotten.fetch_max(revision.get(), Ordering::Release);
        while self.oldest < keep.get() && self.peek_oldest().is_some_and(|entry| entry.revision() <= revision)
        {
            self.forget_oldest();
        }
    }
}

impl<T: Entry> Reader<T> {
    /// The position that the next published entry will have.
    #[must_use]
    pub fn head(&self) -> Position {
        Position::new(self.shared.newest.head.load(Ordering::Acquire))
    }

    /// The oldest position that may still be there.
    #[must_use]
    pub fn oldest(&self) -> Position {
        Position::new(self.shared.window.oldest.load(Ordering::Acquire))
    }

    /// The newest revision that cannot be replayed: a watch may start after it, not before.
    #[must_use]
    pub fn forgotten(&self) -> Revision {
        Revision::new(self.shared.window.forgotten.load(Ordering::Acquire))
    }

    /// Whether the entries of `revision` cannot be read again although nothing newer is missing: there were several,
    /// and one of them is forgotten.
    #[must_use]
    pub fn is_torn(&self, revision: Revision) -> bool {
        revision > Revision::ZERO && self.shared.window.torn.load(Ordering::Acquire) == revision.get()
    }

    /// Everything up to here was published. Its entries are visible to a reader that reads this first.
    #[must_use]
    pub fn progress(&self) -> Revision {
        Revision::new(self.shared.newest.progress.load(Ordering::Acquire))
    }

    /// The entry at `position`.
    ///
    /// # Errors
    /// [`Missing::Lapped`] when it was forgotten, [`Missing::NotYet`] when it was not published.
    pub fn get(&self, position: Position) -> Result<Arc<T>, Missing> {
        if position >= self.head() {
            return Err(Missing::NotYet);
        }
        // After the head: see `Writer::grow`.
        match slot::at(&self.shared.slots.load(), position.get()).load() {
            Some(entry) if entry.position() == position => Ok(entry),
            Some(entry) if is_on(Failpoint::LappedReaderUnnoticed) => Ok(entry),
            _ => Err(Missing::Lapped),
        }
    }

    /// The first position whose entry is newer than `revision`; the head when there is none yet.
    ///
    /// # Errors
    /// [`Missing::Lapped`] when entries newer than `revision` may have been forgotten.
    pub fn position_after(&self, revision: Revision) -> Result<Position, Missing> {
        // `forgotten`, read after the start of the window, covers every entry before `low`: without that, entries forgotten
        // between the two reads would be skipped unnoticed. Read before it, it is as high as it was until the entries were added
        // that `low` may not include yet.
        let before = self.forgotten();
        let low = self.oldest();
        if !is_on(Failpoint::ExpiredStartServed) && revision < before.max(self.forgotten()) {
            return Err(Missing::Lapped);
        }
        let (position, lost) = self.search(low, |entry| entry.revision() > revision);
        // Entries were forgotten during the search: the one we search for may be among them.
        if lost && revision < self.forgotten() { Err(Missing::Lapped) } else { Ok(position) }
    }

    /// The first available position whose entry belongs to `revision` or a newer one; the head when there is none yet.
    #[must_use]
    pub fn position_at(&self, revision: Revision) -> Position {
        self.search(self.oldest(), |entry| entry.revision() >= revision).0
    }

    /// The first position from `low` on whose entry is `beyond`, and whether entries were forgotten meanwhile.
    fn search(&self, low: Position, beyond: impl Fn(&T) -> bool) -> (Position, bool) {
        let (mut low, mut high) = (low.get(), self.head().get());
        let mut lost = false;
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(Position::new(middle)) {
                Ok(entry) if beyond(&entry) => high = middle,
                Ok(_) => low = middle + 1,
                Err(Missing::Lapped) => {
                    lost = true;
                    low = middle + 1;
                }
                Err(Missing::NotYet) => high = middle,
            }
        }
        (Position::new(low), lost)
    }
}

impl<T> Clone for Reader<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> fmt::Debug for Writer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("next", &self.next)
            .field("oldest", &self.oldest)
            .finish_non_exhaustive()
    }
}

impl<T: Entry> fmt::Debug for Reader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("head", &self.head()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(revcast_loom)))]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Item(u64, u64);

    impl Entry for Item {
        fn position(&self) -> Position {
            Position::new(self.0)
        }
        fn revision(&self) -> Revision {
            Revision::new(self.1)
        }
    }

    /// Keeps nothing.
    const ALL: Position = Position::new(u64::MAX);

    fn filled(capacity: usize, revisions: &[u64]) -> (Writer<Item>, Reader<Item>) {
        let (mut writer, reader) = ring(capacity, Position::new(0), Revision::ZERO);
        for &revision in revisions {
            writer.stage(Arc::new(Item(writer.next().get(), revision)), ALL);
            writer.publish(Revision::new(revision));
        }
        (writer, reader)
    }

    #[test]
    fn what_is_staged_is_not_visible() {
        let (mut writer, reader) = filled(4, &[5]);
        writer.stage(Arc::new(Item(1, 6)), ALL);
        assert_eq!(reader.get(Position::new(1)).err(), Some(Missing::NotYet));
        assert_eq!(reader.progress(), Revision::new(5));
        writer.publish(Revision::new(9));
        assert_eq!(*reader.get(Position::new(1)).expect("published"), Item(1, 6));
        assert_eq!(reader.progress(), Revision::new(9));
    }

    #[test]
    fn a_lapped_reader_learns_it() {
        let (_, reader) = filled(4, &[1, 2, 3, 4, 5, 6]);
        assert_eq!(reader.get(Position::new(1)).err(), Some(Missing::Lapped));
        assert_eq!(*reader.get(Position::new(2)).expect("in the window"), Item(2, 3));
        assert_eq!((reader.oldest(), reader.forgotten()), (Position::new(2), Revision::new(2)));
    }

    #[test]
    fn starts_are_found_by_revision() {
        let (_, reader) = filled(8, &[3, 3, 5, 9, 9, 9, 12]);
        let after = |r| reader.position_after(Revision::new(r)).map(Position::get);
        assert_eq!([after(0), after(2), after(3), after(4), after(5)], [Ok(0), Ok(0), Ok(2), Ok(2), Ok(3)]);
        assert_eq!([after(9), after(12), after(99)], [Ok(6), Ok(7), Ok(7)]);
    }

    #[test]
    fn a_half_forgotten_revision_cannot_be_replayed() {
        let (mut writer, reader) = filled(8, &[3, 5, 5, 7]);
        writer.forget_oldest();
        writer.forget_oldest();
        assert_eq!(reader.position_after(Revision::new(4)).err(), Some(Missing::Lapped));
        assert_eq!(reader.position_after(Revision::new(5)), Ok(Position::new(3)));
    }

    #[test]
    fn forgetting_through_a_revision() {
        let (mut writer, reader) = filled(8, &[3, 5, 5, 7]);
        writer.forget_through(Revision::new(5), ALL);
        assert_eq!((reader.oldest(), reader.forgotten()), (Position::new(3), Revision::new(5)));
        writer.forget_through(Revision::new(50), ALL);
        assert_eq!((reader.oldest(), reader.forgotten()), (Position::new(4), Revision::new(50)));
    }

    #[test]
    fn what_is_to_be_kept_stays_and_the_ring_grows() {
        let (mut writer, reader) = filled(4, &[1, 2, 3, 4]);
        for revision in 5..=20 {
            writer.stage(Arc::new(Item(revision - 1, revision)), Position::new(2));
        }
        writer.publish(Revision::new(20));
        assert_eq!((writer.capacity(), reader.oldest(), reader.forgotten().get()), (32, Position::new(2), 2));
        for position in 2..20 {
            assert_eq!(*reader.get(Position::new(position)).expect("kept"), Item(position, position + 1));
        }
        assert_eq!(reader.get(Position::new(1)).err(), Some(Missing::Lapped));
        writer.forget_through(Revision::new(20), Position::new(18));
        assert_eq!((reader.oldest(), reader.forgotten()), (Position::new(18), Revision::new(20)));
        assert_eq!(reader.position_after(Revision::new(20)), Ok(Position::new(20)));
    }

    #[test]
    fn older_entries_are_added_before_the_oldest() {
        let (mut writer, reader) = ring(8, Position::new(100), Revision::new(50));
        assert_eq!((reader.head(), reader.oldest()), (Position::new(100), Position::new(100)));
        for (position, revision) in [(100, 51), (101, 53)] {
            writer.stage(Arc::new(Item(position, revision)), ALL);
        }
        writer.publish(Revision::new(53));
        let after = |r| reader.position_after(Revision::new(r)).map(Position::get);
        assert_eq!([after(49), after(50)], [Err(Missing::Lapped), Ok(100)]);
        assert_eq!(reader.get(Position::new(99)).err(), Some(Missing::Lapped));
        assert_eq!(writer.room(), 6);
        let older =
            [(99, 50), (98, 47), (97, 47)].map(|(position, revision)| Arc::new(Item(position, revision)));
        writer.prepend(older, Revision::new(45), true);
        assert_eq!(
            (reader.oldest(), reader.forgotten(), writer.room()),
            (Position::new(97), Revision::new(45), 3)
        );
        assert_eq!([after(44), after(45), after(46)], [Err(Missing::Lapped), Ok(97), Ok(97)]);
        assert!(reader.is_torn(Revision::new(45)), "who saw a part of it cannot go on");
        assert_eq!([after(47), after(49), after(50), after(53)], [Ok(99), Ok(99), Ok(100), Ok(102)]);
        assert_eq!(*reader.get(Position::new(98)).expect("added"), Item(98, 47));
        // They are forgotten as all others are.
        writer.forget_oldest();
        assert!(reader.is_torn(Revision::new(47)));
        assert_eq!((reader.forgotten(), after(46)), (Revision::new(47), Err(Missing::Lapped)));
    }

    #[test]
    #[should_panic(expected = "room")]
    fn more_older_entries_than_there_is_room_for_are_not_added() {
        let (mut writer, _reader) = ring(2, Position::new(9), Revision::new(50));
        writer.prepend((0..3_u64).map(|back| Arc::new(Item(8 - back, 40 - back))), Revision::new(1), false);
    }

    #[test]
    fn a_revision_is_torn_when_it_had_several_entries_and_one_is_gone() {
        let (mut writer, reader) = filled(8, &[3, 5, 5, 7, 9, 9]);
        let torn = |revision| reader.is_torn(Revision::new(revision));
        writer.forget_oldest();
        assert!(!torn(3) && !torn(5) && !torn(0), "3 had one entry");
        writer.forget_oldest();
        assert!(torn(5), "one of two is gone");
        assert_eq!(reader.position_at(Revision::new(5)), Position::new(2));
        writer.forget_oldest();
        writer.forget_oldest();
        assert!(torn(5) && !torn(7));
        assert_eq!(reader.position_at(Revision::new(9)), Position::new(4));
        writer.forget_oldest();
        assert!(torn(9) && !torn(5), "5 is before all that can be asked for");
    }
}
