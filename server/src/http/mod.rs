//! HTTP/1.1 and the Kubernetes request, as functions over bytes.
//!
//! This module owns the meaning of a request and the bytes of a response. It never reads a socket, a clock or a random
//! number: bytes, the time and the audit id are arguments. The order of use is [`request`] (head), [`body`], [`route`]
//! (what is requested), [`negotiation`] and [`options`] (how), then [`response`] and [`status`] (the response).

pub mod body;
pub mod continuation;
pub mod host;
pub mod indent;
pub mod negotiation;
pub mod options;
pub mod origin;
pub mod request;
pub mod request_info;
pub mod response;
pub mod route;
pub mod status;
pub mod websocket;
pub mod yaml;

pub(crate) mod base64url;
pub(crate) mod shown;
pub(crate) mod text;

pub(crate) use shown::{shown, shown_json, shown_list};
pub use text::PercentError;
pub(crate) use text::go_quote;
#[cfg(test)]
pub(crate) use text::noise;
