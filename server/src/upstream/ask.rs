//! Requests of the server's own to the upstream: reviews, and what the cluster says about authentication.

use std::fmt;

use bytes::Bytes;

use crate::http::request::Method;

/// A request with the server's own identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The method.
    pub method: Method,
    /// The path and the query, encoded.
    pub path: String,
    /// JSON; empty: none.
    pub body: Bytes,
}

/// A complete reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamReply {
    /// The status code, whatever it is.
    pub code: u16,
    /// At most some MiB.
    pub body: Bytes,
}

/// Why the upstream gave no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamError {
    /// There is none.
    Absent,
    /// No endpoint takes a connection, or all of them end it: 502.
    Unreachable(String),
    /// No reply began in time: 504.
    Slow,
    /// A reply that is no HTTP, is too long, or was cut: 502.
    Broken(String),
    /// Too many requests wait for the upstream already: 429.
    Busy,
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("there is no upstream"),
            Self::Unreachable(why) => write!(f, "the upstream cannot be reached: {why}"),
            Self::Slow => f.write_str("the upstream did not answer in time"),
            Self::Broken(why) => write!(f, "the upstream gave no valid reply: {why}"),
            Self::Busy => f.write_str("too many requests wait for the upstream: try again"),
        }
    }
}

impl std::error::Error for UpstreamError {}
