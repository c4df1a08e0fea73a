//! The slots of the ring: shared pointers that one thread replaces while others load them, and the array of slots,
//! which one thread replaces by a larger one.
//!
//! Normally a slot is an `arc-swap` pointer, which needs no lock and no unsafe code of ours. Under loom it is a lock
//! that loom can observe, so that the models explore the ring's own protocol: heads, slots, eviction and growth.

use std::sync::Arc;

/// All slots; their number is a power of two.
pub(super) type Slots<T> = Box<[Slot<T>]>;

pub(super) fn slots<T>(count: usize) -> Slots<T> {
    debug_assert!(count.is_power_of_two(), "the low bits of a position choose its slot");
    (0..count).map(|_| Slot::new()).collect()
}

/// The slot of a position.
pub(super) fn at<T>(slots: &[Slot<T>], position: u64) -> &Slot<T> {
    let mask = slots.len() - 1;
    // Truncation is intended: the low bits choose the slot.
    #[allow(clippy::cast_possible_truncation)]
    &slots[position as usize & mask]
}

/// The array in use. Loaded with every entry that is read, replaced when the ring grows.
#[cfg(not(revcast_loom))]
pub(super) struct Array<T>(arc_swap::ArcSwap<Slots<T>>);

#[cfg(not(revcast_loom))]
impl<T> Array<T> {
    pub(super) fn new(slots: Arc<Slots<T>>) -> Self {
        Self(arc_swap::ArcSwap::new(slots))
    }

    pub(super) fn load(&self) -> impl std::ops::Deref<Target = Arc<Slots<T>>> {
        self.0.load()
    }

    pub(super) fn store(&self, slots: Arc<Slots<T>>) {
        self.0.store(slots);
    }
}

#[cfg(revcast_loom)]
pub(super) struct Array<T>(loom::sync::Mutex<Arc<Slots<T>>>);

#[cfg(revcast_loom)]
impl<T> Array<T> {
    pub(super) fn new(slots: Arc<Slots<T>>) -> Self {
        Self(loom::sync::Mutex::new(slots))
    }

    pub(super) fn load(&self) -> Box<Arc<Slots<T>>> {
        Box::new(Arc::clone(&self.0.lock().expect("nothing panics inside the lock")))
    }

    pub(super) fn store(&self, slots: Arc<Slots<T>>) {
        *self.0.lock().expect("nothing panics inside the lock") = slots;
    }
}

#[cfg(not(revcast_loom))]
pub(super) struct Slot<T>(arc_swap::ArcSwapOption<T>);

#[cfg(not(revcast_loom))]
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

#[cfg(revcast_loom)]
pub(super) struct Slot<T>(loom::sync::Mutex<Option<Arc<T>>>);

#[cfg(revcast_loom)]
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
