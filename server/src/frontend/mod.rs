//! Frontends: protocols for clients, behind one interface.
//!
//! A frontend authenticates and authorizes a request, before the body is read, and answers it. It does not use sockets or the
//! runtime: what it needs of the shard that it runs on is a [`Host`]. The runtime reads and writes HTTP. By itself it answers
//! only what never reaches a handler (a head or a body that cannot be read, a certificate that is not trusted any more) and what exceeds
//! a limit of its own (memory, watches), also after a handler's reply: with Kubernetes' Status, on every listener.
//!
//! Kubernetes' API is one ([`serve`](crate::serve)). The operators' interface is one as well, and stands within the runtime, whose
//! shards and counts it shows. What another one would need first (etcd's, over gRPC) is in `server/ARCHITECTURE.md`.

mod forwarding;
pub mod host;

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;

use crate::auth::{Identity, PeerCertificate};
use crate::http::request::RequestHead;
use crate::http::route::Routed;
use crate::http::status::Status;
use crate::upstream::UpstreamError;
pub use forwarding::{Forwarding, Instead};
pub use host::{
    ByHost, FullBody, Host, Newest, PeriodicBody, Reply, StreamFormat, StreamingBody, WatchRequest, Wire,
    WriteError,
};

/// The memory budget of a request, out of what all requests share.
pub trait Budget {
    /// Takes `bytes` more, until the request is answered.
    ///
    /// # Errors
    /// 429: too much is in use.
    fn charge(&self, bytes: usize) -> Result<(), Status>;
}

/// The identity of a request's client, if it is known, also if the request is refused; and what was admitted, or the answer.
pub type Admission<A> = (Option<Arc<Identity>>, Result<A, Box<FullBody>>);

/// A protocol for clients.
#[allow(async_fn_in_trait)] // one core: futures need not be Send
pub trait Frontend {
    /// A request that was admitted.
    type Admitted;

    /// Admits a request, or answers it. `routed` is what the path in its head names. `certificate` is the connection's verified one.
    async fn admit<H: Host>(
        &self,
        host: &H,
        head: &RequestHead,
        routed: Routed,
        certificate: Option<PeerCertificate<'_>>,
        now: SystemTime,
    ) -> Admission<Self::Admitted>;

    /// Whether a request may have a body as large as an object; one that only reads may not.
    fn takes_body(&self, admitted: &Self::Admitted) -> bool;

    /// Whether a request is a health check.
    fn is_health(&self, admitted: &Self::Admitted) -> bool;

    /// How a request is forwarded that is not answered here, or why it cannot be: before its body is read. `None`: it is answered
    /// here.
    fn forwards(
        &self,
        head: &RequestHead,
        admitted: &Self::Admitted,
    ) -> Option<Result<Forwarding, Box<FullBody>>> {
        let _ = (head, admitted);
        None
    }

    /// The answer to a forwarded request that got no reply.
    async fn without_upstream<H: Host>(
        &self,
        host: &H,
        head: &RequestHead,
        admitted: &Self::Admitted,
        error: &UpstreamError,
    ) -> Instead {
        let _ = (host, head, admitted);
        Instead::Status(Box::new(error.status()))
    }

    /// Answers a request. `body` is complete and decoded.
    async fn handle<H: Host>(
        &self,
        host: &H,
        head: &RequestHead,
        admitted: &Self::Admitted,
        body: Bytes,
        budget: &dyn Budget,
    ) -> Reply;
}
