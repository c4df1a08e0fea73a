//! A server's life as seen from outside: that it starts where it can and says why where not, what its service manager
//! and its probes see, and how it ends.
#![allow(clippy::unwrap_used)]

mod manager;
mod refused;
mod signals;
