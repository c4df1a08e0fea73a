//! Which engine is served from: one for each unbroken line of revisions.
//!
//! Owns the place where the source puts a new engine and everybody else finds it. Within an epoch revisions only grow and
//! nothing is missing; when the source cannot promise that any more (a restored or another cluster, history that was
//! compacted away unseen), it begins a new epoch with an engine of its own, and every watch of the old one is told 410. So
//! the engine itself never sees a revision go back. It never reads a source.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use revcast_engine::Feed;
use revcast_engine::revision::Revision;

/// One unbroken line of revisions, and the engine that serves it.
#[derive(Debug)]
pub struct Epoch {
    /// Counts the epochs of this process from zero.
    pub number: u64,
    /// What stands in continue tokens, so that a token of another line of revisions is known. Equal on all nodes over
    /// one cluster as long as its revisions never went back; 0: the store has but one line, and tokens do not say it.
    pub line: u64,
    /// The newest revision that an earlier, abandoned line had reached here. A client that asks for changes after a
    /// revision that this epoch has not reached, but that line had, holds a state that never was in this one.
    pub abandoned: Revision,
    /// What is served.
    pub feed: Feed,
    ready: AtomicBool,
}

impl Epoch {
    /// An epoch that is not served yet.
    #[must_use]
    pub const fn new(number: u64, line: u64, abandoned: Revision, feed: Feed) -> Self {
        Self { number, line, abandoned, feed, ready: AtomicBool::new(false) }
    }

    /// An epoch whose whole state is loaded.
    #[must_use]
    pub const fn loaded(number: u64, line: u64, abandoned: Revision, feed: Feed) -> Self {
        Self { number, line, abandoned, feed, ready: AtomicBool::new(true) }
    }

    /// Whether its state is loaded and holds.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Its state does not hold any more: nothing is answered from it.
    pub fn condemn(&self) {
        self.ready.store(false, Ordering::Release);
    }
}

/// The current epoch. Read without a lock.
#[derive(Debug)]
pub struct Epochs {
    current: ArcSwap<Epoch>,
    number: AtomicU64,
    /// Frames that engines of earlier epochs serialized.
    frames_before: AtomicU64,
    /// Events that they published.
    events_before: AtomicU64,
}

impl Epochs {
    /// The first epoch.
    #[must_use]
    pub fn new(first: Epoch) -> Arc<Self> {
        let number = AtomicU64::new(first.number);
        let current = ArcSwap::from_pointee(first);
        Arc::new(Self { current, number, frames_before: AtomicU64::new(0), events_before: AtomicU64::new(0) })
    }

    /// The current epoch.
    #[must_use]
    pub fn current(&self) -> Arc<Epoch> {
        self.current.load_full()
    }

    /// The current epoch's number, for who only wants to know whether it changed.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Puts a new epoch in the place of the old one. Shards are told by whoever does it.
    pub fn begin(&self, epoch: Epoch) {
        let number = epoch.number;
        let old = self.current.swap(Arc::new(epoch));
        old.condemn();
        self.frames_before.fetch_add(old.feed.frames_made(), Ordering::Relaxed);
        self.events_before.fetch_add(old.feed.head().get(), Ordering::Relaxed);
        self.number.store(number, Ordering::Release);
    }

    /// Events that were published since the process began.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events_before.load(Ordering::Relaxed) + self.current.load().feed.head().get()
    }

    /// Frames that were serialized since the process began.
    #[must_use]
    pub fn frames_made(&self) -> u64 {
        self.frames_before.load(Ordering::Relaxed) + self.current.load().feed.frames_made()
    }
}
