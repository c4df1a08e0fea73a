//! What goes on while a test breaks something: objects that change (`objects`), who writes them (`writer`), watchers
//! that resume and list again (`watchers`), who reads what he wrote (`reader`), and etcd's log of it all (`recorder`).
//!
//! It never breaks anything and judges no history: it only notes what it was told. Everything is drawn from one seed;
//! what threads and the network do between is not.

pub mod exchange;
pub mod objects;
pub mod probe;
pub mod reader;
pub mod recorder;
pub mod scope;
mod watcher;
pub mod watchers;
pub mod writer;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What all who take part share.
#[derive(Debug, Default)]
pub struct Stage {
    /// Of the servers, `127.0.0.1:PORT`.
    addresses: RwLock<Vec<String>>,
    /// Held by who writes; taken away while the store is swapped under them.
    pen: RwLock<()>,
    /// How often the store lost its line of revisions. An index into the logs.
    epoch: AtomicU64,
    over: AtomicBool,
    problems: Mutex<Vec<String>>,
}

impl Stage {
    /// Over these servers.
    #[must_use]
    pub fn new(addresses: Vec<String>) -> Self {
        Self { addresses: RwLock::new(addresses), ..Self::default() }
    }

    /// Servers have other addresses from now on.
    pub fn move_to(&self, addresses: Vec<String>) {
        *self.addresses.write().unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    /// One of the servers: the next one for the next number.
    #[must_use]
    pub fn address(&self, turn: usize) -> String {
        let addresses = self.addresses.read().unwrap_or_else(PoisonError::into_inner);
        addresses[turn % addresses.len()].clone()
    }

    /// To be held while writing.
    pub fn pen(&self) -> RwLockReadGuard<'_, ()> {
        self.pen.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody writes while it is held.
    pub fn hold_pens(&self) -> RwLockWriteGuard<'_, ()> {
        self.pen.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which line of revisions the store has.
    #[must_use]
    pub fn epoch(&self) -> usize {
        usize::try_from(self.epoch.load(Ordering::SeqCst)).expect("few epochs")
    }

    /// The store begins another one.
    pub fn begin_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// Everybody ends.
    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// Whether everybody ends.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Notes what must not be.
    pub fn complain(&self, problem: String) {
        self.problems().push(problem);
    }

    /// What was complained of.
    pub fn problems(&self) -> MutexGuard<'_, Vec<String>> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
