//! An HTTP/2 client for tests (RFC 9113): it sends any frame, valid or not, and returns each frame of the server. What the
//! server sends is inspected against the rules that bind it, in every test.
mod connection;
mod exchange;
mod expect;
mod frame;
pub mod hpack;
mod inspection;

pub use connection::{Connection, Read};
pub use exchange::Response;
pub use expect::Outcome;
pub use frame::{Frame, PREFACE, code, flag, kind, setting};
