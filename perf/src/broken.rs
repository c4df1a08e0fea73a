//! The fault of a server that breaks its protocol.

use std::fmt::Display;
use std::io::{Error, ErrorKind};

/// The server broke its protocol. Another attempt would not help, unlike after a connection that broke.
pub(crate) fn broken(what: impl Display) -> Error {
    Error::new(ErrorKind::InvalidData, format!("the server's {what}"))
}
