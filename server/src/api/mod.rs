//! The face that Kubernetes' clients know, as pure code: which resources exist, how they are discovered,
//! described, printed as tables, and read from protobuf.
//!
//! It owns no socket, no clock and no state that changes after the start: time is an argument.

mod builtin;
pub mod discovery;
pub mod openapi;
pub mod protobuf;
pub mod resources;
pub mod table;
