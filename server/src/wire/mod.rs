//! How messages and bodies are framed on a wire: pure functions from payloads to bytes.
//!
//! Nothing here knows a socket, a shard or Kubernetes. What is equal for all streams of a wire is a
//! [`Framing`](revcast_engine::framing::Framing), and the engine applies it once per class; what belongs to one stream
//! (a checksum, an answer to a ping) is a value here, which its connection holds.

pub mod gzip;
pub mod http1;
pub mod http2;
pub mod stream;
pub mod websocket;
