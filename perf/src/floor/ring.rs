//! An io_uring that sends in batches: the one place here that says `unsafe`. It owns the ring and knows descriptors and
//! bytes; it never keeps a slice after the call that lent it.
//!
//! Why unsafe: an entry holds a bare pointer to the bytes that it sends, and the kernel reads them at some moment
//! between submission and completion. Each call of [`Ring::send_each`] borrows its slices for longer than it runs and
//! returns only when every entry that it pushed has completed, so no entry outlives what it points to. Where it cannot
//! know that, because the kernel refuses to wait, it ends the process rather than give the slices back. What it buys:
//! the measured floor of the kind of delivery that needs it, 4 to 17 % under `send(2)` (see benches/benches/outlet.rs).
#![allow(unsafe_code, reason = "entries of an io_uring; each call waits for all that it pushed")]

use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::io;
use std::os::fd::RawFd;

const BATCH: usize = 64;

#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The socket's place among those that were registered.
    pub place: u32,
    pub descriptor: RawFd,
    pub bytes: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setup {
    Plain,
    Cooperative,
    Deferred,
    /// Deferred, and sockets are named by their place in a registered table.
    DeferredRegistered,
}

impl Setup {
    fn build(self) -> io::Result<IoUring> {
        let mut builder = IoUring::builder();
        match self {
            Self::Plain => &mut builder,
            Self::Cooperative => builder.setup_coop_taskrun(),
            Self::Deferred | Self::DeferredRegistered => builder.setup_single_issuer().setup_defer_taskrun(),
        }
        .build(u32::try_from(BATCH).expect("a small number"))
    }
}

/// The ring. It belongs to the thread that made it.
pub struct Ring {
    ring: IoUring,
    registered: bool,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Ring").field("registered", &self.registered).finish_non_exhaustive()
    }
}

impl Ring {
    /// The best ring that this kernel gives. `sockets`: to be registered, by place. `note` hears what was refused.
    pub(crate) fn new(sockets: &[RawFd], note: impl FnOnce(String)) -> io::Result<Self> {
        Self::with(Setup::DeferredRegistered, sockets).or_else(|fault| {
            note(format!("io_uring without DEFER_TASKRUN and registered files ({fault})"));
            Self::with(Setup::Plain, sockets)
        })
    }

    /// A ring that is set up so and not otherwise, for comparisons. An error: this kernel has no such ring.
    pub fn with(setup: Setup, sockets: &[RawFd]) -> io::Result<Self> {
        let (ring, registered) = (setup.build()?, setup == Setup::DeferredRegistered);
        if registered {
            ring.submitter().register_files(sockets)?;
        }
        Ok(Self { ring, registered })
    }

    pub fn send_each<'a>(
        &mut self,
        count: usize,
        flags: SendFlags,
        piece: impl Fn(usize) -> Piece<'a>,
        mut done: impl FnMut(usize, Result<usize, Errno>),
    ) {
        let flags = flags.bits().cast_signed();
        let mut from = 0;
        while from < count {
            // Asked for before the first is pushed: what the caller's code does cannot leave a batch half pushed.
            let batch: Vec<Piece<'a>> = (from..count.min(from + BATCH)).map(&piece).collect();
            let mut queue = self.ring.submission();
            for (number, Piece { place, descriptor, bytes }) in (from as u64..).zip(&batch) {
                // A longer one is sent in part, like any that does not fit into a socket.
                let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                let entry = if self.registered {
                    opcode::Send::new(types::Fixed(*place), bytes.as_ptr(), length).flags(flags).build()
                } else {
                    opcode::Send::new(types::Fd(*descriptor), bytes.as_ptr(), length).flags(flags).build()
                };
                // SAFETY: `bytes` lives for `'a`, which is longer than this call, and this call goes on only after the
                // completion of every entry that it pushed: `wait_for_all` counts them, calls nobody meanwhile, and
                // ends the process if it cannot wait.
                unsafe { queue.push(&entry.user_data(number)) }
                    .expect("a batch fits the queue, which is empty here");
            }
            drop(queue);
            for (number, outcome) in self.wait_for_all(batch.len()) {
                done(number, outcome);
            }
            from += batch.len();
        }
    }

    /// Submits what was pushed, `count` entries, and gives their outcomes when there are as many.
    fn wait_for_all(&mut self, count: usize) -> Vec<(usize, Result<usize, Errno>)> {
        let mut outcomes = Vec::with_capacity(count);
        while outcomes.len() < count {
            match self.ring.submit_and_wait(count - outcomes.len()) {
                Ok(_) => {}
                Err(fault)
                    if matches!(
                        fault.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy
                    ) => {}
                Err(fault) => {
                    eprintln!("revcast-perf: the kernel does not wait for an io_uring: {fault}");
                    std::process::abort();
                }
            }
            outcomes.extend(self.ring.completion().map(|completion| {
                let number = usize::try_from(completion.user_data()).unwrap_or(usize::MAX);
                let taken = usize::try_from(completion.result());
                (number, taken.map_err(|_| Errno::from_raw_os_error(-completion.result())))
            }));
        }
        outcomes
    }
}
