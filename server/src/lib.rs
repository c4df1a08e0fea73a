//! The server.
//!
//! It owns the sockets, the store, the options and the Kubernetes API. The engine decides what watches are sent. Modules:
//! `http` and `api` are pure; `auth` decides who may do what; `frontend` is the interface to protocols, `serve` implements the
//! requests of Kubernetes; `source` is where changes come from; only `runtime` uses glommio and io_uring, but for
//! `doctor`, which asks the kernel for a ring. `demo` is a client of the server, in the same process.

mod abort_on_panic;
pub mod allocator;
pub mod api;
pub mod args;
pub mod audit;
pub mod auth;
mod bar;
pub mod catalog;
pub mod clock;
pub mod config;
#[cfg(test)]
#[path = "../../engine/tests/allocations/counting.rs"]
mod counting;
mod debounce;
pub mod demo;
pub mod doctor;
pub mod durations;
pub mod frontend;
pub mod http;
mod identity;
pub mod lines;
pub mod log;
pub mod notify;
pub mod page;
mod printable;
pub mod probe;
pub mod progress;
pub mod runtime;
pub mod serve;
pub mod setting;
pub mod signals;
pub mod source;
pub mod take_over;
pub mod tls;
pub mod top;
pub mod upstream;
mod value;
pub mod wire;
