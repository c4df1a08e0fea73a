//! Sends to many sockets with one system call.
//!
//! Owns a ring with one send per socket. All sends have completed when [`Sends::send`] returns: they do not wait for room, so
//! the kernel keeps no pointer to the bytes.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use io_uring::{IoUring, opcode, types};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socketpair};

/// Sends per system call: as many as the engine offers in one turn.
const BATCH: u32 = 64;
/// How often a batch that the kernel does not accept is submitted again before the ring is given up.
const VISITS: usize = 1_000;
const EINTR: i32 = 4;
const EAGAIN: i32 = 11;
const EBUSY: i32 = 16;

/// The outcome of one send: bytes taken, or the errno.
pub(in crate::runtime) type Outcome = Result<usize, i32>;

/// A ring that sends.
pub(in crate::runtime) struct Sends {
    ring: IoUring,
    /// By index in the sockets of a call. Reused.
    outcomes: Vec<Option<Outcome>>,
}

impl Sends {
    /// A ring for the calling thread: no other one may use it. The flags of newer kernels are tried first, and one send tests
    /// whether the ring works.
    pub(in crate::runtime) fn new() -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(BATCH)
            .or_else(|_| IoUring::builder().setup_coop_taskrun().build(BATCH))
            .or_else(|_| IoUring::new(BATCH))?;
        let mut sends = Self { ring, outcomes: Vec::with_capacity(BATCH as usize) };
        let (ours, _theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let (outcomes, result) = sends.send(&[ours.as_raw_fd()], |_| b"?");
        result?;
        match outcomes {
            [Some(Ok(1))] => Ok(sends),
            [Some(Err(error))] => Err(io::Error::from_raw_os_error(*error)),
            _ => Err(io::Error::other("a send on an io_uring took nothing")),
        }
    }

    /// Offers every socket its bytes. Returns the outcome of each, `Ok(0)` of one that is full. The descriptors must be open.
    ///
    /// An error: the ring does not work and must not be used again. Sockets without an outcome were not sent to.
    pub(in crate::runtime) fn send<'b>(
        &mut self,
        sockets: &[RawFd],
        bytes_for: impl Fn(usize) -> &'b [u8],
    ) -> (&[Option<Outcome>], io::Result<()>) {
        self.outcomes.clear();
        self.outcomes.resize(sockets.len(), None);
        let mut batches = sockets.chunks(BATCH as usize).zip((0..).step_by(BATCH as usize));
        let result = batches.try_for_each(|(batch, first)| self.send_batch(batch, first, &bytes_for));
        (&self.outcomes, result)
    }

    /// Sends to some of the sockets, from the one with the index `first` on.
    fn send_batch<'b>(
        &mut self,
        batch: &[RawFd],
        first: usize,
        bytes_for: impl Fn(usize) -> &'b [u8],
    ) -> io::Result<()> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut queue = self.ring.submission();
        for (&fd, at) in batch.iter().zip(first..) {
            let bytes = bytes_for(at);
            // Of more than 4 GiB a part is sent, as with any send.
            let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let entry = opcode::Send::new(types::Fd(fd), bytes.as_ptr(), len)
                .flags(flags.bits().cast_signed())
                .build()
                .user_data(at as u64);
            // SAFETY: the bytes outlive the send: they are borrowed until `send` returns. A send with MSG_DONTWAIT is never
            // deferred (io_uring marks the request REQ_F_NOWAIT): it has completed or failed when its submission returns, and
            // what was submitted is waited for below. The only return before all are done is when the kernel accepts no more
            // entries. Then those that it accepted are done, and the others are never read: the ring is not used again, and is
            // dropped by its owner.
            unsafe { queue.push(&entry) }.map_err(|_| io::Error::other("the ring has no place left"))?;
        }
        drop(queue);
        let mut missing = batch.len();
        let mut refused = 0;
        while missing > 0 {
            let visit = self.ring.submit_and_wait(missing);
            missing -= self.collect();
            match visit.map_err(|error| (error.raw_os_error(), error)) {
                Ok(_) | Err((Some(EINTR), _)) => {}
                // All were accepted, so all complete: only the wait failed.
                Err(_) if self.ring.submission().is_empty() => std::thread::yield_now(),
                Err((Some(EAGAIN | EBUSY), _)) if refused < VISITS => {
                    refused += 1;
                    std::thread::yield_now();
                }
                Err((_, error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Collects completions. Returns how many there were.
    fn collect(&mut self) -> usize {
        let mut count = 0;
        for completion in self.ring.completion() {
            let outcome = match completion.result() {
                taken if taken >= 0 => Ok(usize::try_from(taken).unwrap_or(0)),
                // Interrupted: a poll for writability completes at once.
                error if matches!(-error, EAGAIN | EINTR) => Ok(0),
                error => Err(-error),
            };
            let place = usize::try_from(completion.user_data()).ok();
            if let Some(place) = place.and_then(|at| self.outcomes.get_mut(at)) {
                *place = Some(outcome);
                count += 1;
            }
        }
        count
    }
}

impl std::fmt::Debug for Sends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sends").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn every_socket_gets_the_bytes_or_says_why_not() {
        let mut sends = Sends::new().expect("an io_uring that sends");
        let pairs: Vec<_> = (0..150).map(|_| UnixStream::pair().expect("two sockets")).collect();
        let (gone, _) = UnixStream::pair().expect("two sockets");
        let (full, _reader) = UnixStream::pair().expect("two sockets");
        full.set_nonblocking(true).expect("it can be");
        while io::Write::write(&mut &full, &[0; 4096]).is_ok() {}
        let mut sockets: Vec<RawFd> = pairs.iter().map(|(ours, _)| ours.as_raw_fd()).collect();
        sockets.insert(70, gone.as_raw_fd());
        sockets.insert(80, full.as_raw_fd());
        let (outcomes, result) = sends.send(&sockets, |_| b"hello");
        result.expect("the ring works");
        assert_eq!(outcomes.len(), sockets.len());
        for (at, &outcome) in outcomes.iter().enumerate() {
            let expected = match at {
                70 => Err(rustix::io::Errno::PIPE.raw_os_error()),
                80 => Ok(0),
                _ => Ok(5),
            };
            assert_eq!(outcome, Some(expected), "socket {at}");
        }
        for (_, theirs) in &pairs {
            let mut read = [0; 8];
            assert_eq!((&*theirs).read(&mut read).expect("bytes"), 5);
            assert_eq!(&read[..5], b"hello");
        }
    }

    #[test]
    fn a_socket_takes_what_it_has_room_for() {
        let mut sends = Sends::new().expect("an io_uring that sends");
        let (ours, mut theirs) = UnixStream::pair().expect("two sockets");
        let bytes = vec![7; 8 << 20];
        let (outcomes, result) = sends.send(&[ours.as_fd().as_raw_fd()], |_| &bytes);
        result.expect("works");
        let taken = outcomes[0].expect("it was sent to").expect("some");
        assert!(taken > 0 && taken < bytes.len(), "{taken}");
        drop(ours);
        let mut read = Vec::new();
        theirs.read_to_end(&mut read).expect("bytes");
        assert!(read.len() == taken && read.iter().all(|byte| *byte == 7));
    }
}
