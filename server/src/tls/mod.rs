//! TLS as configured: a certificate from files, and a newer one when the files change.
//!
//! Owns the terms of handshakes, and the error texts about files. It never touches a socket: the state of a connection
//! belongs to [`runtime`](crate::runtime).

mod authorities;
mod current;
mod files;
mod terms;

pub use authorities::{ClusterAuthorities, Signers};
pub use current::{Current, Reloader};
pub use files::{Fault, Files, Which};
pub use terms::Terms;

/// The only protocol above TLS (RFC 7301). A client that offers others, and not this one, is refused.
pub const PROTOCOL: &[u8] = b"http/1.1";

#[cfg(test)]
pub(crate) mod tests;
