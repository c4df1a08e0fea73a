//! Requests over HTTP/2: each is a task of its own, whose stream is in the table of connections.

mod carrier;
mod request;

pub(super) use request::serve;
