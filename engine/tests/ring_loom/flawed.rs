//! A copy of the ring's protocol with one step of it done wrongly, so that the models can show that they fail.
//!
//! The copy follows `engine/src/ring` line by line where no flaw says otherwise; without a flaw it must pass every
//! model, so a failure comes from the flaw and from nothing else.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU64, Ordering};
use revcast_engine::revision::{Position, Revision};
use revcast_engine::ring::{Entry, Missing};

use super::{Item, Read, SLOTS, Write};

/// What is done wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Nothing.
    None,
    /// `stage` moves the head itself, after the entry: a batch becomes visible one by one.
    VisibleWhenStaged,
    /// `stage` moves the head before the entry stands in its slot.
    HeadBeforeEntry,
    /// `publish` tells of the progress before it moves the head.
    ProgressBeforeHead,
    /// The progress is published, but without the order that makes the head visible with it.
    ProgressRelaxed,
    /// `get` hands out whatever stands in the slot.
    PositionUnchecked,
    /// An entry goes before `forgotten` says so.
    EntryGoesFirst,
    /// `position_after` looks at `forgotten` once, before it reads where the window begins.
    ForgottenBeforeOldest,
    /// `position_after` takes an entry that went during the search for an old one.
    LossUnchecked,
}

#[derive(Debug)]
struct Shared {
    flaw: Flaw,
    slots: [Mutex<Option<Arc<Item>>>; SLOTS],
    head: AtomicU64,
    oldest: AtomicU64,
    forgotten: AtomicU64,
    progress: AtomicU64,
}

impl Shared {
    fn slot(&self, position: u64) -> &Mutex<Option<Arc<Item>>> {
        &self.slots[usize::try_from(position).expect("a model is small") % SLOTS]
    }

    fn load(&self, position: u64) -> Option<Arc<Item>> {
        self.slot(position).lock().expect("no model panics inside the lock").clone()
    }

    fn store(&self, position: u64, entry: Option<Arc<Item>>) {
        *self.slot(position).lock().expect("no model panics inside the lock") = entry;
    }
}

#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
    next: u64,
    oldest: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Reader {
    shared: Arc<Shared>,
}

pub(crate) fn ring(flaw: Flaw) -> (Writer, Reader) {
    let shared = Arc::new(Shared {
        flaw,
        slots: std::array::from_fn(|_| Mutex::new(None)),
        head: AtomicU64::new(0),
        oldest: AtomicU64::new(0),
        forgotten: AtomicU64::new(0),
        progress: AtomicU64::new(0),
    });
    (Writer { shared: Arc::clone(&shared), next: 0, oldest: 0 }, Reader { shared })
}

impl Writer {
    fn forget_oldest(&mut self) {
        let at = self.oldest;
        let revision = self.shared.load(at).map_or(0, |entry| entry.revision().get());
        self.oldest += 1;
        if self.shared.flaw == Flaw::EntryGoesFirst {
            self.shared.store(at, None);
            self.shared.oldest.store(self.oldest, Ordering::Release);
            self.shared.forgotten.fetch_max(revision, Ordering::Release);
            return;
        }
        self.shared.forgotten.fetch_max(revision, Ordering::Release);
        self.shared.oldest.store(self.oldest, Ordering::Release);
        self.shared.store(at, None);
    }
}

impl Write for Writer {
    fn stage(&mut self, entry: Item) {
        while self.next - self.oldest >= SLOTS as u64 {
            self.forget_oldest();
        }
        if self.shared.flaw == Flaw::HeadBeforeEntry {
            self.shared.head.store(self.next + 1, Ordering::Release);
        }
        self.shared.store(self.next, Some(Arc::new(entry)));
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
            && self.shared.load(self.oldest).is_some_and(|entry| entry.revision().get() <= revision)
        {
            self.forget_oldest();
        }
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

    fn get(&self, position: u64) -> Result<Arc<Item>, Missing> {
        if position >= self.head() {
            return Err(Missing::NotYet);
        }
        match self.shared.load(position) {
            Some(entry) if entry.position() == Position::new(position) => Ok(entry),
            Some(entry) if self.shared.flaw == Flaw::PositionUnchecked => Ok(entry),
            _ => Err(Missing::Lapped),
        }
    }

    fn position_after(&self, revision: u64) -> Result<u64, Missing> {
        let early = (self.shared.flaw == Flaw::ForgottenBeforeOldest).then(|| self.forgotten());
        let mut low = self.oldest();
        if revision < early.unwrap_or_else(|| self.forgotten()) {
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
