//! Sockets on their way out: their watch is over, and their peer is still owed the end of the stream.
//!
//! Owns them from the end of the watch until the peer has hung up, or its time is over. They have no request any more and
//! are never used again. What such a peer still sends is read and thrown away, so that closing does not take from it
//! what it has not read (RFC 9112, section 9.6; RFC 6455, section 7.1.1).

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use revcast_engine::limits::DRAIN_GRACE;
use revcast_engine::tick::Tick;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};

use super::uring::{GENERATION_BITS, Owner, Polls, Told};
use super::wrap::Tail;

/// How long a peer that was sent everything may take to hang up.
const LINGER: Duration = Duration::from_secs(1);
/// What is read and thrown away of one.
const LINGER_BYTES: usize = 64 << 10;
/// Between two looks whose time is over.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// One of them.
#[derive(Debug)]
struct Leaver {
    fd: OwnedFd,
    tail: Tail,
    deadline: Tick,
    /// What it may still say.
    patience: usize,
    hearing: bool,
    waiting: bool,
}

/// What becomes of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Stays,
    Goes,
}

impl Leaver {
    /// Sends what can be sent; the last of it ends our half of the connection.
    fn say(&mut self, now: Tick) -> Next {
        match self.tail.flush(&self.fd) {
            Some(false) => Next::Stays,
            Some(true) if shutdown(&self.fd, Shutdown::Write).is_ok() => {
                self.deadline = now.plus(LINGER);
                Next::Stays
            }
            Some(true) | None => Next::Goes,
        }
    }

    /// Throws away what the peer said.
    fn listen(&mut self) -> Next {
        let mut scrap = [0; 4 << 10];
        match recv(&self.fd, &mut scrap[..], RecvFlags::DONTWAIT) {
            // Half of the connection is over; the tail may still be wanted.
            Ok((0, _)) if !self.tail.is_empty() => {
                self.patience = 0;
                Next::Stays
            }
            Ok((0, _)) => Next::Goes,
            Ok((read, _)) if read < self.patience => {
                self.patience -= read;
                Next::Stays
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Next::Stays,
            Ok(_) | Err(_) => Next::Goes,
        }
    }

    /// Polls for what it waits for.
    fn poll(&mut self, ticket: u32, polls: &mut Polls) {
        if !self.hearing && self.patience > 0 {
            self.hearing = true;
            polls.watch(Owner::Leaver(ticket), self.fd.as_fd(), Told::Readable);
        }
        if !self.waiting && !self.tail.is_empty() {
            self.waiting = true;
            polls.watch(Owner::Leaver(ticket), self.fd.as_fd(), Told::Writable);
        }
    }
}

/// All of one shard.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    by_ticket: HashMap<u32, Leaver>,
    next_ticket: u32,
    next_look: Tick,
}

impl Leaving {
    /// Sees a socket out, which is polled for nothing. How many have gone: it, or nobody yet.
    pub(super) fn take(&mut self, fd: OwnedFd, tail: Tail, now: Tick, polls: &mut Polls) -> usize {
        let deadline = now.plus(DRAIN_GRACE);
        let mut leaver =
            Leaver { fd, tail, deadline, patience: LINGER_BYTES, hearing: false, waiting: false };
        if leaver.say(now) == Next::Goes {
            return 1;
        }
        while self.by_ticket.contains_key(&self.next_ticket) {
            self.next_ticket = (self.next_ticket + 1) & GENERATION_BITS;
        }
        let ticket = self.next_ticket;
        self.next_ticket = (ticket + 1) & GENERATION_BITS;
        leaver.poll(ticket, polls);
        self.by_ticket.insert(ticket, leaver);
        0
    }

    /// A socket told something. How many have gone: it, or nobody.
    pub(super) fn told(&mut self, ticket: u32, told: Told, now: Tick, polls: &mut Polls) -> usize {
        let Some(leaver) = self.by_ticket.get_mut(&ticket) else { return 0 };
        let next = match told {
            Told::Writable => {
                leaver.waiting = false;
                leaver.say(now)
            }
            Told::Readable | Told::Gone => {
                leaver.hearing = false;
                leaver.listen()
            }
        };
        match next {
            Next::Stays => {
                leaver.poll(ticket, polls);
                0
            }
            Next::Goes => self.close(ticket, polls),
        }
    }

    /// Closes those whose time is over. How many they were.
    pub(super) fn tend(&mut self, now: Tick, polls: &mut Polls) -> usize {
        if self.by_ticket.is_empty() || now < self.next_look {
            return 0;
        }
        self.next_look = now.plus(LOOK_EVERY);
        let late = self.by_ticket.iter().filter(|(_, leaver)| leaver.deadline <= now);
        let late: Vec<u32> = late.map(|(ticket, _)| *ticket).collect();
        late.into_iter().map(|ticket| self.close(ticket, polls)).sum()
    }

    /// Polls on another ring; the one before is gone with its polls.
    pub(super) fn poll_anew(&mut self, polls: &mut Polls) {
        for (ticket, leaver) in &mut self.by_ticket {
            (leaver.hearing, leaver.waiting) = (false, false);
            leaver.poll(*ticket, polls);
        }
    }

    fn close(&mut self, ticket: u32, polls: &mut Polls) -> usize {
        let Some(leaver) = self.by_ticket.remove(&ticket) else { return 0 };
        if leaver.hearing {
            polls.forget(Owner::Leaver(ticket), Told::Readable);
        }
        if leaver.waiting {
            polls.forget(Owner::Leaver(ticket), Told::Writable);
        }
        // Behind this the descriptor may be closed and its number be used again.
        polls.submit();
        drop(leaver);
        1
    }
}
