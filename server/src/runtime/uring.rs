//! A ring of the shard's own, for the sockets of watches: who hung up, and who takes bytes again.
//!
//! Owns the submission of polls and the reading of their completions; glommio's rings cannot be asked for either
//! without a task for every socket. Completions are signalled on the shard's eventfd, which its executor waits on. It
//! never touches memory of ours: a poll names a descriptor and a number.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, squeue, types};
use revcast_engine::WatcherId;

/// Entries of the submission queue: polls between two visits to the kernel.
const SUBMISSIONS: u32 = 1024;
/// Entries of the completion queue: what may happen between two visits. More is kept by the kernel meanwhile
/// (`IORING_FEAT_NODROP`).
const COMPLETIONS: u32 = 16 * 1024;

/// How often a full submission queue is offered to the kernel before the shard gives up.
const SUBMIT_TRIES: usize = 10_000;
/// The result of a poll that was taken back.
const ECANCELED: i32 = 125;

const POLLOUT: u32 = 0x4;
const POLLERR: u32 = 0x8;
const POLLHUP: u32 = 0x10;
const POLLRDHUP: u32 = 0x2000;

/// What a watch's socket can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The peer hung up, or the connection broke.
    Gone,
    /// There is room for bytes again.
    Writable,
}

/// Completions that nobody waits for.
const NOBODY: u64 = u64::MAX;

/// The name of a poll: the watch's slot, 31 bits of its generation, and what is polled for.
fn name(id: WatcherId, what: Told) -> u64 {
    let what = match what {
        Told::Gone => 0,
        Told::Writable => 1,
    };
    ((id.slot() as u64) << 32) | (u64::from(id.generation() & 0x7fff_ffff) << 1) | what
}

/// The ring.
pub(super) struct Polls {
    ring: IoUring,
    unsubmitted: bool,
}

impl Polls {
    /// A ring that signals completions on `eventfd`.
    pub(super) fn new(eventfd: BorrowedFd<'_>) -> io::Result<Self> {
        let ring = IoUring::builder().setup_cqsize(COMPLETIONS).build(SUBMISSIONS)?;
        ring.submitter().register_eventfd(eventfd.as_raw_fd())?;
        Ok(Self { ring, unsubmitted: false })
    }

    /// Asks once for `what` of the watch `id`, whose socket is `fd`. [`Polls::submit`] before `fd` is closed.
    pub(super) fn watch(&mut self, id: WatcherId, fd: BorrowedFd<'_>, what: Told) {
        let mask = match what {
            Told::Gone => POLLRDHUP,
            Told::Writable => POLLOUT,
        };
        let poll = opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), mask | POLLERR | POLLHUP).build();
        self.push(&poll.user_data(name(id, what)));
    }

    /// Takes back what was asked for, so that the kernel lets go of the socket.
    pub(super) fn forget(&mut self, id: WatcherId, what: Told) {
        self.push(&opcode::AsyncCancel::new(name(id, what)).build().user_data(NOBODY));
    }

    /// Hands everything asked for to the kernel.
    pub(super) fn submit(&mut self) {
        if self.unsubmitted {
            // EBUSY or EINTR, or only a part was taken: what stays in the queue goes with the next visit.
            let _ = self.ring.submit();
            self.unsubmitted = !self.ring.submission().is_empty();
        }
    }

    /// Calls `visit` for what was told since the last time. The slot and generation name the watch. The last argument
    /// is false for a poll that failed: nobody polls for that any more.
    pub(super) fn reap(&mut self, mut visit: impl FnMut(usize, u32, Told, bool)) {
        loop {
            for completion in self.ring.completion() {
                let name = completion.user_data();
                if name == NOBODY || completion.result() == -ECANCELED {
                    continue;
                }
                let told = if name & 1 == 0 { Told::Gone } else { Told::Writable };
                let slot = usize::try_from(name >> 32).expect("it was a slot");
                let generation = u32::try_from((name >> 1) & 0x7fff_ffff).expect("31 bits");
                visit(slot, generation, told, completion.result() >= 0);
            }
            if !self.ring.submission().cq_overflow() {
                return;
            }
            // More was told than fits: the kernel hands out the rest when it is visited.
            self.unsubmitted = true;
            self.submit();
        }
    }

    /// Whether something was told that was not reaped yet.
    pub(super) fn told(&mut self) -> bool {
        !self.ring.completion().is_empty() || self.ring.submission().cq_overflow()
    }

    fn push(&mut self, entry: &squeue::Entry) {
        for _ in 0..SUBMIT_TRIES {
            // SAFETY: polls and cancels refer to no memory; the descriptor of a poll is open now, and stays so until
            // it is submitted, since sockets are closed behind `submit` only.
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

/// Whether a generation that travelled through a poll's name is that of `id`.
pub(super) const fn same_generation(id: WatcherId, travelled: u32) -> bool {
    id.generation() & 0x7fff_ffff == travelled
}
