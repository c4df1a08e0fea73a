//! Connections that carry requests, as HTTP/1.1: one task each.
//!
//! `transport` is the stream below, `connection` the order of requests and replies, `receive` the input, `respond` the output,
//! `forward` and `tunnel` what the upstream answers, `request_scope` one request from its head to its end.

pub(super) mod connection;
mod forward;
mod receive;
mod reply_deadline;
mod request_scope;
mod respond;
pub(super) mod transport;
mod tunnel;
