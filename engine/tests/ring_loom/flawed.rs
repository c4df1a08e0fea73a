//! A copy of the ring's protocol with one wrong step, so that the models can show that they fail.
//!
//! The copy makes the loads and stores of `engine/src/ring` in the same order where no flaw changes it, and leaves out
//! what no model uses (what a compaction keeps). Without a flaw it must pass every model, so a failure can only come
//! from the flaw.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU64, Ordering};
use revcast_engine::revision::{Position, Revision};
use revcast_engine::ring::{Entry, Missing};

use super::{Item, Read, SLOTS, Write};

/// The flaw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// None.
    None,
    /// `stage` moves the head itself, after the entry: a batch becomes visible one by one.
    VisibleWhenStaged,
    /// `stage` moves the head before the entry is in its slot.
    HeadBeforeEntry,
    /// `publish` stores the progress before it moves the head.
    ProgressBeforeHead,
    /// The progress is published, but without the order that makes the head visible with it.
    ProgressRelaxed,
    /// `get` returns whatever is in the slot.
    PositionUnchecked,
    /// An entry is removed before `forgotten` is set.
    EntryGoesFirst,
    /// `position_after` reads `forgotten` only before it reads where the window begins.
    ForgottenBeforeOldest,
    /// `position_after` reads `forgotten` only after it reads where the window begins.
    ForgottenAfterOldest,
    /// `prepend` allows older starts before it shows that the window begins earlier.
    AllowedBeforeAdded,
    /// `position_after` takes an entry that was removed during the search for an old one.
    LossUnchecked,
    /// `grow` publishes the larger array before the entries are in it.
    GrownBeforeCopied,
    /// `get` loads the array before the head.
    ArrayBeforeHead,
    /// An entry is removed before its revision is marked as torn.
    TornLate,
}

type Slots = Vec<Mutex<Option<Arc<Item>>>>;

fn slots(count: usize) -> Arc<Slots> {
    Arc::new((0..count).map(|_| Mutex::new(None)).collect())
}

fn slot(slots: &Slots, position: u64) -> &Mutex<Option<Arc<Item>>> {
    &slots[usize::try_from(position).expect("a model is small") % slots.len()]
}

fn load(slots: &Slots, position: u64) -> Option<Arc<Item>> {
    slot(slots, position).lock().expect("no model panics inside the lock").clone()
}

fn store(slots: &Slots, position: u64, entry: Option<Arc<Item>>) {
    *slot(slots, position).lock().expect("no model panics inside the lock") = entry;
}

#[derive(Debug)]
struct Shared {
    flaw: Flaw,
    slots: Mutex<Arc<Slots>>,
    head: AtomicU64,
    oldest: AtomicU64,
    forgotten: AtomicU64,
    torn: AtomicU64,
    progress: AtomicU64,
}

impl Shared {
    fn array(&self) -> Arc<Slots> {
        Arc::clone(&self.slots.lock().expect("no model panics inside the lock"))
    }

    fn show(&self, slots: &Arc<Slots>) {
        *self.slots.lock().expect("no model panics inside the lock") = Arc::clone(slots);
    }
}

#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
    slots: Arc<Slots>,
    next: u64,
    oldest: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Reader {
    shared: Arc<Shared>,
}

/// A ring that begins after revision `start`, at the position of this number.
pub(crate) fn ring(flaw: Flaw, start: u64) -> (Writer, Reader) {
    let slots = slots(SLOTS);
    let shared = Arc::new(Shared {
        flaw,
        slots: Mutex::new(Arc::clone(&slots)),
        head: AtomicU64::new(start),
        oldest: AtomicU64::new(start),
        forgotten: AtomicU64::new(start),
        torn: AtomicU64::new(0),
        progress: AtomicU64::new(start),
    });
    (Writer { shared: Arc::clone(&shared), slots, next: start, oldest: start }, Reader { shared })
}

impl Writer {
    fn forget_oldest(&mut self) {
        let at = self.oldest;
        let revision = load(&self.slots, at).map_or(0, |entry| entry.revision().get());
        let next = (at + 1 < self.next).then(|| load(&self.slots, at + 1)).flatten();
        let torn = if next.is_some_and(|next| next.revision().get() == revision) { revision } else { 0 };
        self.oldest += 1;
        if self.shared.flaw != Flaw::TornLate {
            self.shared.torn.fetch_max(torn, Ordering::Release);
        }
        if self.shared.flaw == Flaw::EntryGoesFirst {
            store(&self.slots, at, None);
            self.shared.oldest.store(self.oldest, Ordering::Release);
            self.shared.forgotten.fetch_max(revision, Ordering::Release);
            return;
        }
        self.shared.forgotten.fetch_max(revision, Ordering::Release);
        self.shared.oldest.store(self.oldest, Ordering::Release);
        store(&self.slots, at, None);
        self.shared.torn.fetch_max(torn, Ordering::Release);
    }

    fn grow(&mut self) {
        let larger = slots(self.slots.len() * 2);
        if self.shared.flaw == Flaw::GrownBeforeCopied {
            self.shared.show(&larger);
        }
        for position in self.oldest..self.next {
            store(&larger, position, load(&self.slots, position));
        }
        self.shared.show(&larger);
        self.slots = larger;
    }
}

impl Write for Writer {
    fn stage(&mut self, entry: Item, keep: u64) {
        while self.next - self.oldest >= self.slots.len() as u64 {
            if self.oldest < keep {
                self.forget_oldest();
            } else {
                self.grow();
            }
        }
        if self.shared.flaw == Flaw::HeadBeforeEntry {
            self.shared.head.store(self.next + 1, Ordering::Release);
        }
        store(&self.slots, self.next, Some(Arc::new(entry)));
        self.next += 1;
        if self.shared.flaw == Flaw::VisibleWhenStaged {
            self.shared.head.store(self.next, Ordering::Release);
        }
    }

    fn publish(&mut self, revision: u64) {
        if self.shared.flaw == Flaw::ProgressBeforeHead {
            self.shared.progress.store(revision, Ordering::Release);
        }
        self.shared.head.store(self.next, Ordering::Release);
        let order =
            if self.shared.flaw == Flaw::ProgressRelaxed { Ordering::Relaxed } else { Ordering::Release };
        self.shared.progress.store(revision, order);
    }

    fn forget_through(&mut self, revision: u64) {
        self.shared.forgotten.fetch_max(revision, Ordering::Release);
        while self.oldest < self.next
            && load(&self.slots, self.oldest).is_some_and(|entry| entry.revision().get() <= revision)
        {
            self.forget_oldest();
        }
    }

    fn prepend(&mut self, entry: Item, forgotten: u64) {
        self.oldest -= 1;
        store(&self.slots, self.oldest, Some(Arc::new(entry)));
        if self.shared.flaw == Flaw::AllowedBeforeAdded {
            self.shared.forgotten.store(forgotten, Ordering::Release);
        }
        self.shared.oldest.store(self.oldest, Ordering::Release);
        self.shared.forgotten.store(forgotten, Ordering::Release);
    }
}

impl Read for Reader {
    fn head(&self) -> u64 {
        self.shared.head.load(Ordering::Acquire)
    }

    fn oldest(&self) -> u64 {
        self.shared.oldest.load(Ordering::Acquire)
    }

    fn forgotten(&self) -> u64 {
        self.shared.forgotten.load(Ordering::Acquire)
    }

    fn progress(&self) -> u64 {
        self.shared.progress.load(Ordering::Acquire)
    }

    fn is_torn(&self, revision: u64) -> bool {
        self.shared.torn.load(Ordering::Acquire) == revision
    }

    fn get(&self, position: u64) -> Result<Arc<Item>, Missing> {
        let early = (self.shared.flaw == Flaw::ArrayBeforeHead).then(|| self.shared.array());
        if position >= self.head() {
            return Err(Missing::NotYet);
        }
        let slots = early.unwrap_or_else(|| self.shared.array());
        match load(&slots, position) {
            Some(entry) if entry.position() == Position::new(position) => Ok(entry),
            Some(entry) if self.shared.flaw == Flaw::PositionUnchecked => Ok(entry),
            _ => Err(Missing::Lapped),
        }
    }

    fn position_after(&self, revision: u64) -> Result<u64, Missing> {
        let flaw = self.shared.flaw;
        let before = if flaw == Flaw::ForgottenAfterOldest { 0 } else { self.forgotten() };
        let mut low = self.oldest();
        let after = if flaw == Flaw::ForgottenBeforeOldest { 0 } else { self.forgotten() };
        if revision < before.max(after) {
            return Err(Missing::Lapped);
        }
        let mut high = self.head();
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle) {
                Ok(entry) if entry.revision() > Revision::new(revision) => high = middle,
                Ok(_) => low = middle + 1,
                Err(Missing::Lapped) => {
                    if self.shared.flaw != Flaw::LossUnchecked && revision < self.forgotten() {
                        return Err(Missing::Lapped);
                    }
                    low = middle + 1;
                }
                Err(Missing::NotYet) => high = middle,
            }
        }
        Ok(low)
    }
}
