//! Wakes a shard: from another thread through an eventfd, and only when the shard sleeps. Wakeups within its own thread need no
//! system call.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::{Context, Poll, Waker};

use rustix::event::{EventfdFlags, eventfd};

/// Wakes a shard's thread; any thread may call it.
#[derive(Debug)]
pub(super) struct Wake {
    eventfd: OwnedFd,
    asleep: AtomicBool,
}

impl Wake {
    pub(super) fn new() -> io::Result<Self> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Self { eventfd, asleep: AtomicBool::new(false) })
    }

    /// Wakes the shard, if it sleeps or is about to. Whatever the caller wrote before is seen by the shard.
    pub(super) fn wake(&self) {
        // Pairs with the fence in `prepare_sleep`: either we see that it is about to sleep, or it sees what we wrote.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel) {
            self.ring();
        }
    }

    /// Writes the eventfd, whether the shard sleeps or not.
    pub(super) fn ring(&self) {
        // The counter would have to reach 2^64 to refuse.
        let _ = rustix::io::write(&self.eventfd, &1_u64.to_ne_bytes());
    }

    /// Says that the shard is about to sleep. It looks at its work once more after this, and then waits.
    pub(super) fn prepare_sleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Says that the shard does not sleep.
    pub(super) fn cancel_sleep(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }
}

/// A notification within one thread: one task waits for it.
#[derive(Debug, Default)]
pub(super) struct Notify {
    notified: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Notify {
    /// Notifies the task that waits, or the next one that does.
    pub(super) fn ring(&self) {
        self.notified.set(true);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Waits for the notification. One task at a time.
    pub(super) const fn notified(&self) -> Notified<'_> {
        Notified { notify: self }
    }
}

/// See [`Notify::notified`].
#[derive(Debug)]
pub(super) struct Notified<'a> {
    notify: &'a Notify,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.notify.notified.take() {
            return Poll::Ready(());
        }
        *self.notify.waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

/// A value that is sent once to one task.
#[derive(Debug)]
pub(super) struct Oneshot<T> {
    value: RefCell<Option<T>>,
    notify: Notify,
}

impl<T> Oneshot<T> {
    pub(super) fn new() -> Self {
        Self { value: RefCell::new(None), notify: Notify::default() }
    }

    /// Sends the value.
    pub(super) fn send(&self, value: T) {
        *self.value.borrow_mut() = Some(value);
        self.notify.ring();
    }

    /// Waits for the value.
    pub(super) async fn received(&self) -> T {
        loop {
            let value = self.value.borrow_mut().take();
            if let Some(value) = value {
                return value;
            }
            self.notify.notified().await;
        }
    }
}
