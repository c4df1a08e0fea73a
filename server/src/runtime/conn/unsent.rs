//! Bytes of a connection's wire that the kernel did not take yet.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

/// Bytes to send before all others, in order.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Unsent {
    bytes: Vec<u8>,
    sent: usize,
}

impl Unsent {
    pub(in crate::runtime) const fn of(bytes: Vec<u8>) -> Self {
        Self { bytes, sent: 0 }
    }

    #[inline]
    pub(in crate::runtime) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What was not sent yet.
    pub(in crate::runtime) fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.drain(..self.sent);
        self.bytes
    }

    /// Bytes that it holds.
    #[cfg(test)]
    pub(super) const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The buffer to append to.
    pub(in crate::runtime) const fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Sends what the kernel accepts. `None`: the connection failed; else whether everything was sent.
    pub(in crate::runtime) fn flush(&mut self, to: &OwnedFd) -> Option<bool> {
        if self.sent < self.bytes.len() {
            self.sent += send_now(to, &self.bytes[self.sent..])?;
        }
        let empty = self.sent == self.bytes.len();
        if empty {
            // A connection without unsent bytes keeps no buffer.
            *self = Self::default();
        }
        Some(empty)
    }
}

/// Sends without waiting and returns how many bytes the kernel took. `None`: the connection failed.
pub(in crate::runtime) fn send_now(to: impl AsFd, bytes: &[u8]) -> Option<usize> {
    loop {
        match send(&to, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(taken) => return Some(taken),
            Err(Errno::INTR) => {}
            Err(error) if is_full(error) => return Some(0),
            Err(_) => return None,
        }
    }
}

/// Whether a socket that returns this error may accept bytes later.
pub(in crate::runtime) fn is_full(error: Errno) -> bool {
    matches!(error, Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM)
}
