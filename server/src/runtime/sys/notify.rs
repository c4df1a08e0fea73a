//! Wakeups within one thread: they need no system call.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A notification within one thread: one task waits for it.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Notify {
    notified: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Notify {
    /// Notifies the task that waits, or the next one that does.
    pub(in crate::runtime) fn ring(&self) {
        self.notified.set(true);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Waits for the notification. One task at a time.
    pub(in crate::runtime) const fn notified(&self) -> Notified<'_> {
        Notified { notify: self }
    }
}

/// See [`Notify::notified`].
#[derive(Debug)]
pub(in crate::runtime) struct Notified<'a> {
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
pub(in crate::runtime) struct Oneshot<T> {
    value: RefCell<Option<T>>,
    notify: Notify,
}

impl<T> Oneshot<T> {
    pub(in crate::runtime) fn new() -> Self {
        Self { value: RefCell::new(None), notify: Notify::default() }
    }

    /// Sends the value.
    pub(in crate::runtime) fn send(&self, value: T) {
        *self.value.borrow_mut() = Some(value);
        self.notify.ring();
    }

    /// Waits for the value.
    pub(in crate::runtime) async fn received(&self) -> T {
        loop {
            let value = self.value.borrow_mut().take();
            if let Some(value) = value {
                return value;
            }
            self.notify.notified().await;
        }
    }
}
