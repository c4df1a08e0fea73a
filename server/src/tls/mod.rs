//! TLS as the operator wants it: a certificate from files, and a newer one when the files change.
//!
//! Owns what handshakes are made with, and the words for what is wrong with the files. It never touches a socket: a
//! connection's own state is [`runtime`](crate::runtime)'s.

mod current;
mod files;
mod terms;

pub use current::{Current, Reloader};
pub use files::{Fault, Files, Which};
pub use terms::Terms;

/// The one protocol that is spoken above (RFC 7301). Who offers others, and not this one, is refused.
pub const PROTOCOL: &[u8] = b"http/1.1";

#[cfg(test)]
pub(crate) mod tests;
