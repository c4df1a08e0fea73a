//! Requests of the server's own to the upstream: reviews, and what the cluster says about authentication.

use std::fmt;

use bytes::Bytes;

use super::request::NotForwarded;
use crate::http::request::Method;
use crate::http::status::Status;

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
    /// The request cannot be passed on: 400.
    Request(NotForwarded),
    /// Too many requests wait for the upstream already: 429.
    Busy,
}

impl UpstreamError {
    /// The answer to the client of a request that was to be forwarded.
    #[must_use]
    pub fn status(&self) -> Status {
        let message = self.to_string();
        match self {
            Self::Unreachable(_) | Self::Broken(_) => Status::other(502, message),
            Self::Slow => Status::other(504, message),
            Self::Absent => Status::service_unavailable(message, 1),
            Self::Request(_) => Status::bad_request(message),
            Self::Busy => Status::too_many_requests(message, 1),
        }
    }

    /// Its name in metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Unreachable(_) => "unreachable",
            Self::Slow => "slow",
            Self::Broken(_) => "broken",
            Self::Request(_) => "request",
            Self::Busy => "busy",
        }
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("there is no upstream"),
            Self::Unreachable(why) => write!(f, "the upstream cannot be reached: {why}"),
            Self::Slow => f.write_str("the upstream did not answer in time"),
            Self::Broken(why) => write!(f, "the upstream gave no valid reply: {why}"),
            Self::Request(NotForwarded::Target) => f.write_str("the target of the request is not a URI: encode what no URI may have"),
            Self::Request(NotForwarded::Header) => {
                f.write_str("a header of the request, or the name of its user, cannot be passed on: it has a character that no header may have")
            }
            Self::Busy => f.write_str("too many requests wait for the upstream: try again"),
        }
    }
}

impl std::error::Error for UpstreamError {}
