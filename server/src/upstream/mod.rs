//! The upstream: the API server beside this one, which answers what is not served from the cache.
//!
//! Owns what an operator says about it, and what of a request and a reply goes through it. It uses no socket: connections are
//! `runtime/upstream`'s.

mod ask;
mod copies;
mod current;
mod kubeconfig;
mod material;
mod options;
pub mod reply;
mod request;
mod terms;

pub use ask::{Question, UpstreamError, UpstreamReply};
pub use copies::{COPY_BYTES_MAX, Copies, Copy, CopyKey};
pub use current::Current;
pub use options::{Credentials, Endpoint, ForwardIdentity, UpstreamOptions};
pub use request::{Caller, ForwardedHead, NotForwarded, RawHead};
pub use terms::{Place, Terms};
