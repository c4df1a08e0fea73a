//! The API server beside this one, as requests need it.

use std::sync::Arc;

use crate::upstream::{Copies, ForwardIdentity};

/// The API server that answers what is not served here.
#[derive(Debug)]
pub struct Upstream {
    /// With which identity it sees requests.
    pub(super) identity: ForwardIdentity,
    /// Its discovery documents, as they were.
    pub(super) copies: Arc<Copies>,
}

impl Upstream {
    /// An upstream that sees requests with this identity.
    #[must_use]
    pub fn new(identity: ForwardIdentity) -> Self {
        Self { identity, copies: Arc::default() }
    }
}
