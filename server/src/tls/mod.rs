//! TLS as configured: a certificate from files, and a newer one when the files change.
//!
//! Owns the terms of handshakes, and the error texts about files. It never touches a socket: the state of a connection
//! belongs to [`runtime`](crate::runtime).

mod authorities;
mod current;
mod files;
mod suites;
mod terms;

pub use authorities::{ClusterAuthorities, Signers};
pub use current::{Current, Reloader};
pub use files::{Fault, Files, Which};
pub use terms::Terms;

/// HTTP/2 over TLS (RFC 9113, section 3.2).
pub const HTTP2: &[u8] = b"h2";
/// The protocols above TLS (RFC 7301), the one that is preferred first. A client that offers others, and none of these, is refused.
pub const PROTOCOLS: [&[u8]; 2] = [HTTP2, b"http/1.1"];

#[cfg(test)]
pub(crate) mod tests;
