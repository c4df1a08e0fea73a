//! Wakes a shard from another thread, through an eventfd, and only when the shard sleeps.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rustix::event::{EventfdFlags, eventfd};

/// Wakes a shard's thread; any thread may call it.
#[derive(Debug)]
pub(in crate::runtime) struct Wake {
    eventfd: OwnedFd,
    asleep: AtomicBool,
}

impl Wake {
    pub(in crate::runtime) fn new() -> io::Result<Self> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Self { eventfd, asleep: AtomicBool::new(false) })
    }

    /// Wakes the shard, if it sleeps or is about to. The shard sees everything that the caller wrote before.
    pub(in crate::runtime) fn wake(&self) {
        // Pairs with the fence in `prepare_sleep`: either we see that it is about to sleep, or it sees what we wrote.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel) {
            self.ring();
        }
    }

    /// Writes the eventfd, whether the shard sleeps or not.
    pub(in crate::runtime) fn ring(&self) {
        // A write would fail only if the counter reached 2^64.
        let _ = rustix::io::write(&self.eventfd, &1_u64.to_ne_bytes());
    }

    /// Announces that the shard is about to sleep. It checks for work once more after this, and then waits.
    pub(in crate::runtime) fn prepare_sleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Announces that the shard does not sleep.
    pub(in crate::runtime) fn cancel_sleep(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    pub(in crate::runtime) fn descriptor(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }
}
