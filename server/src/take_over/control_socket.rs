//! Where successors find a server.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::channel::{Channel, listener};

/// The socket that successors connect to. It passes to a successor with the others: at no moment is there none.
#[derive(Debug)]
pub struct ControlSocket(OwnedFd);

impl ControlSocket {
    /// Of the server at this address.
    ///
    /// # Errors
    /// The name is taken, or the system has no such sockets.
    pub fn at(listen: SocketAddr) -> std::io::Result<Self> {
        listener(listen).map(Self)
    }

    /// The one that the predecessor had.
    pub(super) const fn inherited(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// The next process that comes.
    pub(super) fn accept(&self) -> std::io::Result<Channel> {
        Channel::accept(&self.0)
    }
}

impl AsFd for ControlSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
