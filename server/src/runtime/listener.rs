//! The two kinds of listeners, and the sockets of one shard.

use std::os::fd::OwnedFd;

/// The listener that a connection was accepted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListenerKind {
    /// For clients.
    Public,
    /// For operators.
    Admin,
}

/// The listening sockets of one shard.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) public: Vec<OwnedFd>,
    pub(super) admin: Option<OwnedFd>,
}
