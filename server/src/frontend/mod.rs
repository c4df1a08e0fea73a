//! Frontends: what speaks a protocol to clients, behind one seam.
//!
//! A frontend says whose request it is and whether it may, before the body is read, and what is answered. It knows no socket
//! and no runtime: what it needs of the shard that it runs on is a [`Host`]. The runtime knows no protocol above HTTP.
//!
//! Kubernetes' API is one ([`serve`](crate::serve)), the operators' another; etcd's would be a third.

pub mod host;

use std::time::SystemTime;

use bytes::Bytes;

use crate::auth::Identity;
use crate::http::request::RequestHead;
use crate::http::status::Status;
pub use host::{FullBody, Host, Newest, Reply, StreamingBody, WatchRequest, Wire, WriteError, Written};

/// What a request may have of the memory that all requests share.
pub trait Budget {
    /// Takes `bytes` more, until the request is answered.
    ///
    /// # Errors
    /// 429: too much is under way.
    fn charge(&self, bytes: usize) -> Result<(), Status>;
}

/// What speaks a protocol to clients.
#[allow(async_fn_in_trait)] // one core: futures need not be Send
pub trait Frontend {
    /// A request that was let in.
    type Admitted;

    /// Lets a request in, or answers it. `certificate` is the connection's verified one, in DER. Whoever sent it is told to
    /// `known`, also when it may not.
    ///
    /// # Errors
    /// The answer.
    fn admit(
        &self,
        head: &RequestHead,
        certificate: Option<&[u8]>,
        now: SystemTime,
        known: &mut dyn FnMut(&Identity),
    ) -> Result<Self::Admitted, Box<FullBody>>;

    /// Whether a request may have a body as large as an object: what is only read may not.
    fn takes_body(&self, admitted: &Self::Admitted) -> bool;

    /// Whether a request asks for the server's health, and nothing else.
    fn is_health(&self, admitted: &Self::Admitted) -> bool;

    /// Answers a request. `body` is whole and decoded.
    async fn handle<H: Host>(
        &self,
        host: &H,
        head: &RequestHead,
        admitted: &Self::Admitted,
        body: Bytes,
        budget: &dyn Budget,
    ) -> Reply;
}
