//! One place of the ring: a shared pointer that one thread replaces while others load it.
//!
//! In a served build this is `arc-swap`, which needs no lock and no unsafe code of ours. Under loom it is a lock
//! that loom can see, so that the models explore the ring's own protocol: heads, slots and eviction.

use std::sync::Arc;

#[cfg(not(loom))]
pub(super) struct Slot<T>(arc_swap::ArcSwapOption<T>);

#[cfg(not(loom))]
impl<T> Slot<T> {
    pub(super) fn new() -> Self {
        Self(arc_swap::ArcSwapOption::const_empty())
    }

    pub(super) fn load(&self) -> Option<Arc<T>> {
        self.0.load_full()
    }

    pub(super) fn store(&self, value: Option<Arc<T>>) {
        self.0.store(value);
    }
}

#[cfg(loom)]
pub(super) struct Slot<T>(loom::sync::Mutex<Option<Arc<T>>>);

#[cfg(loom)]
impl<T> Slot<T> {
    pub(super) fn new() -> Self {
        Self(loom::sync::Mutex::new(None))
    }

    pub(super) fn load(&self) -> Option<Arc<T>> {
        self.0.lock().expect("nothing panics inside the lock").clone()
    }

    pub(super) fn store(&self, value: Option<Arc<T>>) {
        *self.0.lock().expect("nothing panics inside the lock") = value;
    }
}
