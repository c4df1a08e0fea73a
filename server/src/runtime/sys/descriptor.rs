//! Conversion of descriptors for glommio, which takes and returns them as bare numbers.
//!
//! The only place where a descriptor changes its owner by number. Each function takes ownership by type and gives it to exactly
//! one other owner, so nothing is closed twice and nothing leaks.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

use glommio::io::BufferedFile;
use glommio::net::TcpStream;

/// A connection that glommio reads and writes.
pub(in crate::runtime) fn stream(fd: OwnedFd) -> TcpStream {
    // SAFETY: `into_raw_fd` gives up the only owner of an open descriptor of a connected socket, which was accepted or
    // which `duplicate` made; the stream becomes its only owner and closes it.
    unsafe { TcpStream::from_raw_fd(fd.into_raw_fd()) }
}

/// An eventfd that glommio can wait on by reading it.
pub(in crate::runtime) fn readable(fd: OwnedFd) -> BufferedFile {
    // SAFETY: as in `stream`; glommio only reads it through its ring and closes it.
    unsafe { BufferedFile::from_raw_fd(fd.into_raw_fd()) }
}

/// A second descriptor of a stream's socket, which outlives the stream.
pub(in crate::runtime) fn duplicate(stream: &TcpStream) -> io::Result<OwnedFd> {
    // SAFETY: `stream` is borrowed until this function ends, so its descriptor is open while it is borrowed here.
    let borrowed = unsafe { BorrowedFd::borrow_raw(stream.as_raw_fd()) };
    Ok(rustix::io::fcntl_dupfd_cloexec(borrowed.as_fd(), 0)?)
}
