//! The etcd source with real etcds: Kubernetes' keys and values, its cost for etcd, access, and errors. The faults
//! under load are in `etcd_faults`.
#![allow(clippy::unwrap_used)]

mod access;
mod big;
mod cost;
mod defined;
mod history;
mod keys;
mod limits;
mod packed;
mod restored;
mod stored;
mod warm;

use std::time::{Duration, Instant};

use revcast_tests::etcd::{Etcd, Options, Release};
use revcast_tests::server::Server;
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/a/configmaps";

/// An etcd and a server over it.
struct Pair {
    server: Server,
    etcd: Etcd,
}

fn pair(release: Release, etcd: Options, server: &[&str]) -> Pair {
    let etcd = Etcd::start(release, etcd);
    let endpoint = etcd.endpoint();
    let options: Vec<&str> =
        ["--etcd-endpoints", &endpoint].into_iter().chain(server.iter().copied()).collect();
    Pair { server: Server::start(&options), etcd }
}

/// A config map as Kubernetes would store it in JSON.
fn config_map(name: &str, value: &str) -> String {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "namespace": "a"}, "data": {"k": value}})
        .to_string()
}

/// `ADDED a`, for short.
fn short((kind, object): &(String, Value)) -> String {
    match object["metadata"]["name"].as_str() {
        Some(name) => format!("{kind} {name}"),
        None => format!("{kind} {}", object["code"]),
    }
}

/// Waits until something holds.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} never happened");
        std::thread::sleep(Duration::from_millis(20));
    }
}
