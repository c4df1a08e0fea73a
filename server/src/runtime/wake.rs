//! Waking a shard: from another thread through an eventfd, and only when it sleeps; from its own thread for nothing.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::{Context, Poll, Waker};

use rustix::event::{EventfdFlags, eventfd};

/// A bell that any thread may ring.
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
        // Pairs with the fence in `lie_down`: either we see that it lies down, or it sees what we wrote.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel) {
            self.ring();
        }
    }

    /// Rings, whether the shard sleeps or not.
    pub(super) fn ring(&self) {
        // The counter would have to reach 2^64 to refuse.
        let _ = rustix::io::write(&self.eventfd, &1_u64.to_ne_bytes());
    }

    /// Says that the shard is about to sleep. It looks at its work once more behind this, and then waits.
    pub(super) fn lie_down(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Says that the shard is awake.
    pub(super) fn get_up(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }
}

/// A bell within one thread.
#[derive(Debug, Default)]
pub(super) struct Bell {
    rung: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Bell {
    /// Rings: the one who waits, or the next who does, goes on.
    pub(super) fn ring(&self) {
        self.rung.set(true);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Waits for it to ring. One waiter at a time.
    pub(super) const fn rung(&self) -> Rung<'_> {
        Rung { bell: self }
    }
}

/// See [`Bell::rung`].
#[derive(Debug)]
pub(super) struct Rung<'a> {
    bell: &'a Bell,
}

impl Future for Rung<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.bell.rung.take() {
            return Poll::Ready(());
        }
        *self.bell.waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

/// One answer that one task waits for.
#[derive(Debug)]
pub(super) struct Promise<T> {
    value: RefCell<Option<T>>,
    bell: Bell,
}

impl<T> Promise<T> {
    pub(super) fn new() -> Self {
        Self { value: RefCell::new(None), bell: Bell::default() }
    }

    /// Gives the answer.
    pub(super) fn fulfil(&self, value: T) {
        *self.value.borrow_mut() = Some(value);
        self.bell.ring();
    }

    /// Waits for the answer.
    pub(super) async fn fulfilled(&self) -> T {
        loop {
            let value = self.value.borrow_mut().take();
            if let Some(value) = value {
                return value;
            }
            self.bell.rung().await;
        }
    }
}
