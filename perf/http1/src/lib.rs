//! HTTP/1.1 as a client reads it: the head of a response, and its body in whatever pieces it arrives. It opens no connection, and
//! copies nothing of a body.
//!
//! The load generator and the end-to-end tests share it: two readers of one format would differ some day.

mod chunked;
mod head;

pub use chunked::{ChunkDecoder, Step};
pub use head::{Body, Head};
