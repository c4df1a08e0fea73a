//! Listeners, and which of the two a connection came to.

use std::os::fd::OwnedFd;

/// Which of the two listeners a connection came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListenerKind {
    /// Clients' own.
    Public,
    /// Operators'.
    Admin,
}

/// The listeners of one shard.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) public: Vec<OwnedFd>,
    pub(super) admin: Option<OwnedFd>,
}
