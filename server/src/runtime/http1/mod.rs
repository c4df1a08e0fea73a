//! Connections that carry requests as HTTP/1.1: one task each.
//!
//! `transport` is the stream below, `connection` the order of requests, `carrier` how their bytes are read and written.

mod carrier;
pub(super) mod connection;
pub(super) mod transport;
