//! Why there is no answer.

use std::fmt;
use std::sync::Arc;

use crate::printable::{cut, one_line};
use crate::upstream::{UpstreamError, UpstreamReply};

/// Bytes of a reply that are shown.
const SHOWN_BYTES_MAX: usize = 300;

/// The upstream gave no answer: neither yes nor no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewError(Arc<str>);

impl ReviewError {
    /// The reply has another code than an answer.
    pub(super) fn of_reply(what: &str, reply: &UpstreamReply) -> Self {
        let mend = match reply.code {
            401 => "; check the credentials that the server has at the upstream",
            403 => "; bind its account to the ClusterRole system:auth-delegator",
            _ => "",
        };
        let body = String::from_utf8_lossy(&reply.body);
        let body = one_line(&cut(body.trim(), SHOWN_BYTES_MAX));
        Self(format!("the upstream answered a {what} with {}{mend}: {body}", reply.code).into())
    }

    /// The reply cannot be read.
    pub(super) fn garbage(what: &str, why: &dyn fmt::Display) -> Self {
        let why = one_line(&cut(&why.to_string(), SHOWN_BYTES_MAX));
        Self(format!("the upstream's reply to a {what} cannot be read: {why}").into())
    }
}

impl From<UpstreamError> for ReviewError {
    fn from(error: UpstreamError) -> Self {
        Self(error.to_string().into())
    }
}

impl fmt::Display for ReviewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReviewError {}
