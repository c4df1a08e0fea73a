//! A server is started with `--take-over` beside one that runs: it takes the listeners, clients go on at it without loss, and the
//! old one ends. And everything that may fail on the way.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod crashes;
mod loops;
mod many;
mod raw;
mod refusals;

use std::time::Duration;

use revcast_tests::etcd::Etcd;
use revcast_tests::server::Server;

/// Until a server has ended, with its grace.
const WITHIN: Duration = Duration::from_secs(30);

/// A server over an etcd, which ends its watches over this time.
fn serve(etcd: &Etcd, grace: Duration, options: &[&str]) -> Server {
    let (endpoint, grace) = (etcd.endpoint(), format!("{}ms", grace.as_millis()));
    let own = [
        "--etcd-endpoints",
        &endpoint,
        "--drain-grace",
        &grace,
        "--bookmark-interval",
        "1s",
        "--shards",
        "2",
    ];
    Server::start(&[&own, options].concat())
}

/// One that takes over from it.
fn succeed(etcd: &Etcd, old: &Server, grace: Duration, options: &[&str]) -> Server {
    let own = ["--listen", &old.address, "--admin-listen", &old.admin, "--take-over"];
    let new = serve(etcd, grace, &[&own, options].concat());
    assert_eq!((&new.address, &new.admin), (&old.address, &old.admin));
    new
}
