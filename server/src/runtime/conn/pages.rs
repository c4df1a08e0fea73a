//! Pages of the kernel that many sockets send from: bytes for all of them are copied once, not once for each.
//!
//! They are the pages of a file without a name in memory, which `sendfile` puts into a socket's queue as they are. A page in a
//! queue must not change, so other bytes never go into the same pages: the file is cut to nothing, which takes whole pages from it
//! and leaves them to the sockets that still have them, and filled anew.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create, sendfile};
use rustix::io::{Errno, pwrite};

use super::unsent::{is_full, send_now};

/// The pages of one shard: those of the bytes that were put into them last.
#[derive(Debug, Default)]
pub(in crate::runtime) enum SharedPages {
    /// The file is made for the first bytes.
    #[default]
    Unmade,
    Made(OwnedFd),
    /// Everything is copied: it was asked for, or the kernel cannot do it.
    Off,
}

impl SharedPages {
    /// Puts these bytes into the pages, instead of those before. Returns whether they are there.
    pub(in crate::runtime) fn put(&mut self, bytes: &[u8]) -> bool {
        let filled = match self {
            Self::Off => return false,
            Self::Made(file) => fill(file, bytes),
            Self::Unmade => make().and_then(|file| {
                fill(&file, bytes)?;
                *self = Self::Made(file);
                Ok(())
            }),
        };
        match filled {
            Ok(()) => return true,
            // There may be a page the next time.
            Err(Errno::NOMEM | Errno::NOSPC | Errno::MFILE | Errno::NFILE) => {}
            Err(error) => self.give_up(error),
        }
        false
    }

    /// Sends these bytes, the first ones of what was put last, to a socket that does not block. Returns how many the kernel took.
    /// `None`: the connection failed.
    pub(in crate::runtime) fn send(&mut self, to: impl AsFd, bytes: &[u8]) -> Option<usize> {
        let Self::Made(file) = self else { return send_now(to, bytes) };
        let mut from = 0;
        let error = loop {
            match sendfile(&to, &*file, Some(&mut from), bytes.len()) {
                Ok(taken) if taken > 0 || bytes.is_empty() => return Some(taken),
                // The file is shorter than was said.
                Ok(_) => break Errno::IO,
                Err(Errno::INTR) => {}
                Err(error) if is_full(error) => return Some(0),
                Err(error) => break error,
            }
        };
        // A copy shows whether it is the socket.
        let taken = send_now(to, bytes);
        if taken.is_some() {
            self.give_up(error);
        }
        taken
    }

    fn give_up(&mut self, error: Errno) {
        crate::log::info(&format!("sockets cannot share pages, so each event is copied for each: {error}"));
        *self = Self::Off;
    }
}

/// An empty file.
fn make() -> Result<OwnedFd, Errno> {
    let make = |more| memfd_create("revcast-events", MemfdFlags::CLOEXEC | more);
    // Where a system allows no file in memory that could be executed; kernels before 6.3 do not know it.
    make(MemfdFlags::NOEXEC_SEAL).or_else(|_| make(MemfdFlags::empty()))
}

/// Makes these bytes all that is in the file, in other pages than before.
fn fill(file: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
    // To nothing: a page that were cut in its middle would be cleared from there on, also for those that send it.
    ftruncate(file, 0)?;
    let mut filled = 0;
    while filled < bytes.len() {
        match pwrite(file, &bytes[filled..], filled as u64) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => filled += written,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let theirs = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (ours, _) = listener.accept().expect("a connection");
        ours.set_nonblocking(true).expect("a socket");
        (ours, theirs)
    }

    fn bytes(seed: u8, len: usize) -> Vec<u8> {
        let places = (0..len).map(usize::to_le_bytes);
        places.map(|[low, high, ..]| low.wrapping_mul(31).wrapping_add(high) ^ seed).collect()
    }

    #[test]
    fn what_was_sent_stays_as_it_was_whatever_is_held_after_it() {
        let mut pages = SharedPages::default();
        let pairs: Vec<_> = (0..4).map(|_| pair()).collect();
        let mut expected = vec![Vec::new(); pairs.len()];
        // Whole pages, parts of one, longer and shorter than those before.
        for (seed, len) in (0..).zip([20_000, 4096, 1, 65_536, 300, 70_001, 8192, 4095, 30_000, 5]) {
            let held = bytes(seed, len);
            assert!(pages.put(&held));
            for (number, ((ours, _), expected)) in pairs.iter().zip(&mut expected).enumerate() {
                // Some take the first part only.
                let part = &held[..held.len() / (number + 1)];
                let taken = pages.send(ours, part).expect("an open connection");
                expected.extend_from_slice(&part[..taken]);
            }
        }
        assert!(pages.put(b"other bytes"));
        for ((ours, mut theirs), expected) in pairs.into_iter().zip(expected) {
            drop(ours);
            let mut got = Vec::new();
            theirs.read_to_end(&mut got).expect("what was sent");
            assert!(expected.len() > 20_000);
            assert_eq!(got, expected);
        }
        assert!(matches!(pages, SharedPages::Made(_)));
    }

    #[test]
    fn a_socket_that_is_full_takes_a_part_then_nothing_and_one_that_is_closed_fails() {
        let mut pages = SharedPages::default();
        let held = bytes(7, 100_000);
        assert!(pages.put(&held));
        let (ours, mut theirs) = pair();
        let (mut total, mut least) = (0, usize::MAX);
        while least > 0 {
            least = pages.send(&ours, &held).expect("an open connection");
            total += least;
            assert!(total < 1 << 30, "it must become full");
        }
        let mut got = vec![0; total];
        theirs.read_exact(&mut got).expect("what was sent");
        assert!(got[..held.len()] == held[..]);
        drop(theirs);
        // The first one may go before the peer has said that it is closed.
        assert!((0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            pages.send(&ours, &held).is_none()
        }));
        assert!(matches!(pages, SharedPages::Made(_)), "it was the socket's fault");
    }

    #[test]
    fn where_pages_cannot_be_shared_bytes_are_copied() {
        let (ours, mut theirs) = pair();
        let mut off = SharedPages::Off;
        assert!(!off.put(b"some bytes"));
        assert_eq!(off.send(&ours, b"some bytes"), Some(10));
        // From what is no file the kernel sends nothing.
        let (no_file, _) = pair();
        let mut broken = SharedPages::Made(no_file.into());
        assert_eq!(broken.send(&ours, b", and more"), Some(10));
        assert!(matches!(broken, SharedPages::Off));
        drop(ours);
        let mut got = String::new();
        theirs.read_to_string(&mut got).expect("what was sent");
        assert_eq!(got, "some bytes, and more");
    }
}
