//! What clients do while a test breaks something: objects that change (`objects`), a writer (`writer`), watchers that resume
//! and list again (`watchers`), a reader of its own writes (`reader`), and etcd's log (`recorder`).
//!
//! It records all that each client received; `history` has the rules that it must keep. It measures nothing: load that is
//! measured is `revcast-perf`'s, whose watchers must not list again, and which writes through the server alone. Everything
//! is drawn from one seed, except the timing of threads and the network.

pub mod compactor;
pub mod exchange;
pub mod objects;
mod pool;
pub mod probe;
mod protobuf;
pub mod reader;
pub mod recorder;
pub mod scope;
mod watcher;
pub mod watchers;
pub mod wire;
pub mod writer;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use revcast_sim::rng::Rng;

/// The form in which objects are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MediaType {
    /// JSON.
    #[default]
    Json,
    /// Protobuf, and some objects in JSON. Every second watcher asks for protobuf.
    Protobuf,
}

impl MediaType {
    /// The value of `--storage-media-type`.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Protobuf => "protobuf",
        }
    }

    /// What the store gets for an object of [`objects`].
    fn stored(self, json: &str, rng: &mut Rng) -> Vec<u8> {
        match self {
            Self::Json => json.as_bytes().to_vec(),
            Self::Protobuf => protobuf::stored(json, rng),
        }
    }
}

/// State shared by all participants.
#[derive(Debug, Default)]
pub struct Workload {
    /// Addresses of the servers, `127.0.0.1:PORT`.
    addresses: RwLock<Vec<String>>,
    media_type: MediaType,
    /// Objects per namespace and kind, if not [`objects::NAMES`].
    names: Option<usize>,
    /// Held by writers; taken away while the store is swapped.
    write_lock: RwLock<()>,
    /// How often the store lost its history. An index into the logs.
    epoch: AtomicU64,
    over: AtomicBool,
    problems: Mutex<Vec<String>>,
    failures: Mutex<BTreeMap<String, u64>>,
}

impl Workload {
    /// Over these servers.
    #[must_use]
    pub fn new(addresses: Vec<String>) -> Self {
        Self { addresses: RwLock::new(addresses), ..Self::default() }
    }

    /// The same with objects in this form.
    #[must_use]
    pub fn storing(self, media_type: MediaType) -> Self {
        Self { media_type, ..self }
    }

    /// The same with this many objects per namespace and kind.
    #[must_use]
    pub fn with_names(self, names: usize) -> Self {
        Self { names: Some(names), ..self }
    }

    fn names(&self) -> usize {
        self.names.unwrap_or(objects::NAMES)
    }

    /// The form of the objects.
    #[must_use]
    pub const fn media_type(&self) -> MediaType {
        self.media_type
    }

    /// Changes the addresses of the servers.
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
    pub fn write_permit(&self) -> RwLockReadGuard<'_, ()> {
        self.write_lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// No writer runs while it is held.
    pub fn pause_writes(&self) -> RwLockWriteGuard<'_, ()> {
        self.write_lock.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current epoch.
    #[must_use]
    pub fn epoch(&self) -> usize {
        usize::try_from(self.epoch.load(Ordering::SeqCst)).expect("few epochs")
    }

    /// The store begins another epoch.
    pub fn begin_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends all participants.
    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// Whether all participants are to end.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Records a fault.
    pub fn report(&self, problem: String) {
        self.problems().push(problem);
    }

    /// Records why a request of a watcher failed, or its stream broke; whether that is a fault depends on the test.
    pub fn failed(&self, why: String) {
        *self.failures.lock().unwrap_or_else(PoisonError::into_inner).entry(why).or_default() += 1;
    }

    /// How often which request failed, since it was asked last.
    #[must_use]
    pub fn take_failures(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut *self.failures.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The recorded faults.
    pub fn problems(&self) -> MutexGuard<'_, Vec<String>> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
