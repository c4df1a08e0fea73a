//! Authentication and authorization.
//!
//! Owns how identities are proven (tokens in a file, signed tokens, client certificates), the rules that grant
//! accesses, and the state that is replaced when files change. It knows no socket and no store: a request's credentials
//! and the time are arguments. The order of use is [`credentials`] (what was presented), [`Guard::authenticate`] (who
//! it is), [`Access`] (what is requested), [`Guard::allows`]. `files` reads files, [`reload`] reads them again. [`delegated`] asks
//! another API server: [`Guard::identify`], [`Guard::impersonate`] and [`Guard::authorize`] combine both.

pub mod access;
mod authorize;
pub mod certificate;
pub mod credentials;
mod csv;
pub mod delegated;
pub mod exposure;
mod files;
mod guard;
mod identify;
mod keys;
mod oidc;
pub mod reload;
mod rules;
#[cfg(test)]
mod tests;
mod tokens;

pub use crate::identity::Identity;
pub use access::Access;
pub use certificate::{CertificateError, PeerCertificate};
pub use guard::{Authorization, Grant, Guard, Options, Refused, Visitor};
pub use identify::Unidentified;
pub use oidc::{OidcOptions, TokenError};
pub use rules::Rules;
