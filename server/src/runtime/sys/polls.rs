//! A ring that polls sockets for hang-up, readability and writability. A shard has one for connections with watches, and a small one for its listeners.
//!
//! Owns the submission of polls and the reading of their completions; glommio's rings would need a task per socket for that.
//! Completions are signalled on the shard's eventfd, which its executor waits on. It never refers to our memory: a poll has a
//! descriptor and a number.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, squeue, types};

/// Entries of the submission queue: polls between two system calls.
const SUBMISSIONS: u32 = 1024;
/// Entries of the completion queue: events between two system calls. The kernel keeps more if needed (`IORING_FEAT_NODROP`).
const COMPLETIONS: u32 = 16 * 1024;

/// Entries of a ring for a few sockets.
const FEW: u32 = 16;
/// How often a full submission queue is submitted again before the shard gives up.
const SUBMIT_TRIES: usize = 10_000;
/// The result of a poll that was cancelled.
const ECANCELED: i32 = 125;

const POLLIN: u32 = 0x1;
const POLLOUT: u32 = 0x4;
const POLLERR: u32 = 0x8;
const POLLHUP: u32 = 0x10;
const POLLRDHUP: u32 = 0x2000;

/// What a socket is polled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Readiness {
    /// The peer disconnected, or the connection failed.
    Gone,
    /// It is writable again.
    Writable,
    /// The peer sent something, or one of the events of `Gone`.
    Readable,
}

impl Readiness {
    const fn number(self) -> u64 {
        match self {
            Self::Gone => 0,
            Self::Writable => 1,
            Self::Readable => 2,
        }
    }

    const fn of_number(number: u64) -> Self {
        match number & 3 {
            0 => Self::Gone,
            1 => Self::Writable,
            _ => Self::Readable,
        }
    }
}

/// The owner of a socket: a slot of the caller's table, and how often that slot was used. Only the low [`GENERATION_BITS`] of
/// the latter are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) struct Owner {
    pub(in crate::runtime) slot: u32,
    pub(in crate::runtime) generation: u32,
}

/// The part of a generation that fits into the id of a poll.
pub(in crate::runtime) const GENERATION_BITS: u32 = 0x3fff_ffff;

/// The id of completions that are ignored. No poll has this id: no [`Readiness`] has the number 3.
const NOBODY: u64 = u64::MAX;

/// The id of a poll: a slot, 30 bits of a generation, and what is polled for.
const fn name(owner: Owner, what: Readiness) -> u64 {
    (owner.slot as u64) << 32 | ((owner.generation & GENERATION_BITS) as u64) << 2 | what.number()
}

/// The ring.
pub(in crate::runtime) struct Polls {
    ring: IoUring,
    unsubmitted: bool,
}

impl Polls {
    /// A ring that signals completions on `eventfd`.
    pub(in crate::runtime) fn new(eventfd: BorrowedFd<'_>) -> io::Result<Self> {
        Self::sized(eventfd, SUBMISSIONS, COMPLETIONS)
    }

    /// The same for a few sockets.
    pub(in crate::runtime) fn of_few(eventfd: BorrowedFd<'_>) -> io::Result<Self> {
        Self::sized(eventfd, FEW, 2 * FEW)
    }

    fn sized(eventfd: BorrowedFd<'_>, submissions: u32, completions: u32) -> io::Result<Self> {
        let ring = IoUring::builder().setup_cqsize(completions).build(submissions)?;
        ring.submitter().register_eventfd(eventfd.as_raw_fd())?;
        Ok(Self { ring, unsubmitted: false })
    }

    /// Polls `fd`, the socket of `owner`, once for `what`. Call [`Polls::submit`] before `fd` is closed.
    pub(in crate::runtime) fn watch(&mut self, owner: Owner, fd: BorrowedFd<'_>, what: Readiness) {
        let mask = match what {
            Readiness::Gone => POLLRDHUP,
            Readiness::Writable => POLLOUT,
            Readiness::Readable => POLLIN | POLLRDHUP,
        };
        let poll = opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), mask | POLLERR | POLLHUP).build();
        self.push(&poll.user_data(name(owner, what)));
    }

    /// Cancels a poll, so that the kernel releases the socket.
    pub(in crate::runtime) fn forget(&mut self, owner: Owner, what: Readiness) {
        self.push(&opcode::AsyncCancel::new(name(owner, what)).build().user_data(NOBODY));
    }

    /// Submits all polls to the kernel.
    pub(in crate::runtime) fn submit(&mut self) {
        if self.unsubmitted {
            // EBUSY or EINTR, or only a part was accepted: the rest stays in the queue for the next call.
            let _ = self.ring.submit();
            self.unsubmitted = !self.ring.submission().is_empty();
        }
    }

    /// Appends what completed since the last call; with false a poll that failed: that is not polled for any more.
    pub(in crate::runtime) fn reap(&mut self, completed: &mut Vec<(Owner, Readiness, bool)>) {
        loop {
            for completion in self.ring.completion() {
                let name = completion.user_data();
                if name == NOBODY || completion.result() == -ECANCELED {
                    continue;
                }
                let generation = u32::try_from((name >> 2) & u64::from(GENERATION_BITS)).expect("30 bits");
                let slot = u32::try_from(name >> 32).expect("32 bits");
                let is_good = completion.result() >= 0;
                completed.push((Owner { slot, generation }, Readiness::of_number(name), is_good));
            }
            if !self.ring.submission().cq_overflow() {
                return;
            }
            // More completed than fits: the kernel returns the rest in the next system call.
            self.unsubmitted = true;
            self.submit();
        }
    }

    /// Whether there are completions that were not reaped yet.
    pub(in crate::runtime) fn has_completions(&mut self) -> bool {
        !self.ring.completion().is_empty() || self.ring.submission().cq_overflow()
    }

    fn push(&mut self, entry: &squeue::Entry) {
        for _ in 0..SUBMIT_TRIES {
            // SAFETY: polls and cancels refer to no memory; the descriptor of a poll is open now, and stays so until
            // it is submitted, since sockets are closed after `submit` only.
            let pushed = unsafe { self.ring.submission().push(entry) };
            self.unsubmitted = true;
            if pushed.is_ok() {
                return;
            }
            self.submit();
            std::thread::yield_now();
        }
        panic!("the kernel takes no more polls of watches: it is out of memory");
    }
}

impl std::fmt::Debug for Polls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Polls").field("unsubmitted", &self.unsubmitted).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        let owner = |slot, generation| Owner { slot, generation };
        let owners = [owner(0, 0), owner(1, 0), owner(0, 1), owner(u32::MAX, GENERATION_BITS)];
        let kinds = [Readiness::Gone, Readiness::Writable, Readiness::Readable];
        let names: std::collections::HashSet<u64> =
            owners.iter().flat_map(|owner| kinds.map(|kind| name(*owner, kind))).collect();
        assert_eq!(names.len(), owners.len() * kinds.len());
        assert!(!names.contains(&NOBODY), "the last id belongs to no poll");
        assert!(kinds.iter().all(|kind| Readiness::of_number(kind.number()) == *kind));
    }
}
