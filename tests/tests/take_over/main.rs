//! A server is started with `--take-over` beside one that runs: it takes the listeners, clients go on at it without loss, and the
//! old one ends. And everything that may fail on the way.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod crashes;
mod loops;
mod many;
mod raw;
mod refusals;
mod wires;

use std::time::Duration;

use revcast_tests::etcd::Etcd;
use revcast_tests::server::Server;
use revcast_tests::succession::{self, WITHIN};

/// A server over an etcd, which ends its watches over this time.
fn serve(etcd: &Etcd, grace: Duration, options: &[&str]) -> Server {
    succession::serve(etcd, None, grace, options)
}

/// One that takes over from it.
fn succeed(etcd: &Etcd, old: &Server, grace: Duration, options: &[&str]) -> Server {
    succession::succeed(etcd, None, old, grace, options)
}
