//! The Kubernetes API as clients see it, as pure code: which resources exist, how they are discovered, described,
//! printed as tables, read from protobuf and YAML, and how their lists merge.
//!
//! It owns no socket, no clock and no state that changes after the start: time is an argument.

mod builtin;
pub mod crd;
pub mod discovery;
mod dns_label;
pub mod go_json;
mod json_path;
pub mod merge;
pub mod openapi;
pub mod printer;
pub mod printer_columns;
pub mod protobuf;
pub mod resources;
pub mod table;
pub mod versions;
pub mod yaml;
