//! How messages and bodies stand on a wire: pure functions from payloads to bytes.
//!
//! Nothing here knows a socket, a shard or Kubernetes. What is the same for all that have a wire is a
//! [`Framing`](revcast_engine::framing::Framing), and the engine makes it once a class; what each stream has of its own (a
//! checksum, an answer to a ping) is a value here, which its connection holds.

pub mod coding;
pub mod gzip;
pub mod http1;
pub mod websocket;
