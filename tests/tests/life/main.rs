//! A server's life as its surroundings see it: that it starts where it may and says why where not, what its service manager
//! and its probes are told, and how it goes.
#![allow(clippy::unwrap_used)]

mod manager;
mod refused;
mod signals;
