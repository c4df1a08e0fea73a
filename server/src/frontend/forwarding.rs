//! Requests that another server answers.

use std::sync::Arc;

use super::host::FullBody;
use crate::http::status::Status;
use crate::upstream::{Caller, Copies, Copy, CopyKey};

/// How a request is forwarded.
#[derive(Clone, Debug)]
pub struct Forwarding {
    /// With which identity.
    pub caller: Caller,
    /// Whether its reply may take any time to begin: a stream, an upgrade.
    pub is_long: bool,
    /// Where the reply is kept as well, and as what.
    pub copy: Option<(Arc<Copies>, CopyKey)>,
}

/// What is answered in place of a reply that did not come.
#[derive(Clone, Debug)]
pub enum Instead {
    /// An older one.
    Copy(Arc<Copy>),
    /// An answer of this server's own.
    Whole(Box<FullBody>),
    /// An error.
    Status(Box<Status>),
}
