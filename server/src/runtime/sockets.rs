//! The sockets of one shard's watches: where the engine's bytes go.
//!
//! Owns each watch's descriptor and what is polled of it. A delivery is one non-blocking `send(2)`; a socket that
//! is full is polled for room, and every socket is polled for a peer that hangs up. It never reads: bytes that a
//! client sends behind its request wait in the kernel until the stream is over.

use std::os::fd::{AsFd, OwnedFd};

use revcast_engine::{Outlet, Sent, WatcherId};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::uring::{Polls, Told, same_generation};

/// The socket of one watch.
#[derive(Debug)]
struct Socket {
    id: WatcherId,
    fd: OwnedFd,
    leftover: Option<Box<[u8]>>,
    keep_alive: bool,
    /// Whether the peer hanging up is polled for.
    hearing: bool,
    /// Whether room is polled for.
    waiting: bool,
}

/// What a watch leaves behind.
#[derive(Debug)]
pub(super) struct Remains {
    pub(super) socket: OwnedFd,
    pub(super) leftover: Vec<u8>,
    pub(super) keep_alive: bool,
}

/// Sockets by the slots of their watches.
#[derive(Debug)]
pub(super) struct Sockets {
    by_slot: Vec<Option<Socket>>,
    polls: Polls,
}

impl Sockets {
    pub(super) const fn new(polls: Polls) -> Self {
        Self { by_slot: Vec::new(), polls }
    }

    /// Closes every socket.
    pub(super) fn close(&mut self) {
        let ids: Vec<WatcherId> = self.by_slot.iter().flatten().map(|socket| socket.id).collect();
        for id in ids {
            drop(self.remove(id));
        }
    }

    /// Takes the socket of a watch that begins.
    pub(super) fn insert(&mut self, id: WatcherId, fd: OwnedFd, leftover: Vec<u8>, keep_alive: bool) {
        if self.by_slot.len() <= id.slot() {
            self.by_slot.resize_with(id.slot() + 1, || None);
        }
        self.polls.watch(id, fd.as_fd(), Told::Gone);
        let leftover = (!leftover.is_empty()).then(|| leftover.into_boxed_slice());
        self.by_slot[id.slot()] =
            Some(Socket { id, fd, leftover, keep_alive, hearing: true, waiting: false });
    }

    /// Gives the socket of a watch that is over back, polled for nothing.
    pub(super) fn remove(&mut self, id: WatcherId) -> Option<Remains> {
        let socket = self.by_slot.get_mut(id.slot())?.take_if(|socket| socket.id == id)?;
        if socket.hearing {
            self.polls.forget(id, Told::Gone);
        }
        if socket.waiting {
            self.polls.forget(id, Told::Writable);
        }
        // Behind this the descriptor may be closed and its number be used again.
        self.polls.submit();
        let leftover = socket.leftover.map_or_else(Vec::new, <[u8]>::into_vec);
        Some(Remains { socket: socket.fd, leftover, keep_alive: socket.keep_alive })
    }

    /// Calls `visit` with what sockets told since the last time.
    pub(super) fn reap(&mut self, mut visit: impl FnMut(WatcherId, Told)) {
        let by_slot = &mut self.by_slot;
        self.polls.reap(|slot, generation, told, good| {
            let Some(Some(socket)) = by_slot.get_mut(slot) else { return };
            if !same_generation(socket.id, generation) {
                return;
            }
            match told {
                Told::Gone => socket.hearing = false,
                Told::Writable => socket.waiting = false,
            }
            // A poll for room that failed is answered by another try; one for hanging up by the next send.
            if good || told == Told::Writable {
                visit(socket.id, told);
            }
        });
    }

    /// Hands what is polled for to the kernel.
    pub(super) fn submit(&mut self) {
        self.polls.submit();
    }

    /// Whether a socket told something that was not reaped.
    pub(super) fn told(&mut self) -> bool {
        self.polls.told()
    }
}

impl Outlet for Sockets {
    fn send(&mut self, to: WatcherId, bytes: &[u8]) -> Sent {
        let Some(Some(socket)) = self.by_slot.get_mut(to.slot()) else { return Sent::Gone };
        if socket.id != to {
            return Sent::Gone;
        }
        let taken = loop {
            match send(&socket.fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(taken) => break taken,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => break 0,
                Err(_) => return Sent::Gone,
            }
        };
        if taken < bytes.len() && !socket.waiting {
            socket.waiting = true;
            self.polls.watch(to, socket.fd.as_fd(), Told::Writable);
        }
        Sent::Took(taken)
    }
}
