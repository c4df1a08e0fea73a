//! The two kinds of listeners, and those of one shard: which of them have connections that wait.
//!
//! A listener is polled, and accepted from without waiting. So a shard that is told to accept no more has no accept under way, as it
//! would in a ring: a connection that is not accepted stays in the kernel's queue, for whoever has the listener too.

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use rustix::net::{Shutdown, shutdown};

use super::sys::notify::Notify;
use super::sys::polls::{Owner, Polls, Readiness};

/// The listener that a connection was accepted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListenerKind {
    /// For clients.
    Public,
    /// For operators.
    Admin,
}

/// A listening socket, which does not block.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: OwnedFd,
    pub(super) kind: ListenerKind,
}

impl Listener {
    fn stop(&self) {
        if self.kind == ListenerKind::Public {
            // A listener that cannot be stopped stays, and closes what it accepts.
            let _ = shutdown(&self.socket, Shutdown::Both);
        }
    }
}

/// The listeners of one shard.
#[derive(Debug)]
pub(super) struct Listeners {
    polls: RefCell<Polls>,
    all: RefCell<Vec<Polled>>,
    is_paused: Cell<bool>,
    is_stopped: Cell<bool>,
}

#[derive(Debug)]
struct Polled {
    listener: Arc<Listener>,
    /// Notified when a connection may wait, and when the shard accepts again.
    notify: Rc<Notify>,
    /// Whether a poll is under way.
    is_polled: bool,
}

impl Listeners {
    pub(super) fn new(polls: Polls) -> Self {
        Self {
            polls: RefCell::new(polls),
            all: RefCell::default(),
            is_paused: Cell::new(false),
            is_stopped: Cell::new(false),
        }
    }

    /// Adds one. Returns its place.
    pub(super) fn add(&self, listener: Arc<Listener>) -> usize {
        if self.is_stopped.get() {
            listener.stop();
        }
        let mut all = self.all.borrow_mut();
        all.push(Polled { listener, notify: Rc::default(), is_polled: false });
        all.len() - 1
    }

    /// Whether nothing is to be accepted.
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused.get()
    }

    /// Nothing is accepted any more, until [`Listeners::resume`].
    pub(super) fn pause(&self) {
        self.is_paused.set(true);
    }

    /// Connections are accepted again.
    pub(super) fn resume(&self) {
        self.is_paused.set(false);
        self.all.borrow().iter().for_each(|polled| polled.notify.ring());
    }

    /// Waits until a connection may wait at a listener.
    pub(super) async fn ready(&self, place: usize) {
        let notify = {
            let mut all = self.all.borrow_mut();
            let polled = &mut all[place];
            if !self.is_paused() && !std::mem::replace(&mut polled.is_polled, true) {
                let owner = Owner { slot: u32::try_from(place).unwrap_or(u32::MAX), generation: 0 };
                let mut polls = self.polls.borrow_mut();
                polls.watch(owner, polled.listener.socket.as_fd(), Readiness::Readable);
                polls.submit();
            }
            Rc::clone(&polled.notify)
        };
        notify.notified().await;
    }

    /// Notifies the tasks whose listeners are ready. Called each turn.
    pub(super) fn reap(&self) {
        let mut polls = self.polls.borrow_mut();
        if !polls.has_completions() {
            return;
        }
        let mut ready = Vec::new();
        polls.reap(&mut ready);
        let mut all = self.all.borrow_mut();
        for (owner, _, _) in ready {
            // A poll that failed is tried again: the accept shows why.
            if let Some(polled) = usize::try_from(owner.slot).ok().and_then(|place| all.get_mut(place)) {
                polled.is_polled = false;
                polled.notify.ring();
            }
        }
    }

    /// Stops to listen for clients: the kernel resets connections that wait at these listeners.
    pub(super) fn stop(&self) {
        self.is_stopped.set(true);
        self.all.borrow().iter().for_each(|polled| polled.listener.stop());
    }
}
