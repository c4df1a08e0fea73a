//! How long a start in front of etcd takes, and how much memory, with many objects and a history of many events; and that all of both is
//! there then. Each object has 1 KiB.
//!
//! With other numbers: `REVCAST_READY=OBJECTS,EVENTS,CHANGES`, where each revision of the history changes so many objects (128 at most). The
//! time is that of the server which `REVCAST_BIN` names.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::{Duration, Instant};

use revcast_tests::etcd::{Etcd, Gateway, Op, Options, Release};
use revcast_tests::server::Server;
use revcast_tests::sizes::{as_count, sizes};
use serde_json::json;

/// etcd takes no more in a transaction.
const CHANGES_MAX: usize = 128;
const NAMESPACES: usize = 20;
const BYTES: usize = 1 << 10;
const PATIENCE: Duration = Duration::from_secs(120);

/// Puts objects of these numbers, so many in a revision.
fn put(gateway: &mut Gateway, numbers: impl Iterator<Item = usize>, at_once: usize, value: &str) {
    let numbers: Vec<usize> = numbers.collect();
    for numbers in numbers.chunks(at_once) {
        let entries: Vec<(String, String)> = numbers.iter().map(|number| entry(*number, value)).collect();
        let ops: Vec<Op<'_>> = entries.iter().map(|(key, object)| Op::Put(key, object.as_bytes())).collect();
        // A put that is made twice is the same.
        while let Err(late) = gateway.txn(&ops) {
            println!("again: {late}");
        }
    }
}

fn entry(number: usize, value: &str) -> (String, String) {
    let (namespace, name) = (format!("s{}", number % NAMESPACES), format!("n{number:06}"));
    let metadata =
        json!({"name": name, "namespace": namespace, "labels": {"app": format!("a{}", number % 100)}});
    let object = |fill: &str| {
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"k": value, "fill": fill}})
            .to_string()
    };
    let missing = BYTES.saturating_sub(object("").len());
    (format!("/registry/configmaps/{namespace}/{name}"), object(&"x".repeat(missing)))
}

#[test]
fn a_start_has_the_state_and_the_history() {
    let [objects, events, changes] = sizes("REVCAST_READY", [3_000, 3_000, 16]).map(as_count);
    assert!(
        (1..=CHANGES_MAX).contains(&changes) && (1..=objects).contains(&events),
        "{objects}, {events}, {changes}"
    );
    for release in Release::ALL {
        let etcd = Etcd::start(release, Options::default());
        let mut gateway = Gateway::new(&etcd.endpoint());
        put(&mut gateway, 0..objects, CHANGES_MAX, "old");
        let before = gateway.revision().unwrap();
        gateway.compact(before).unwrap();
        put(&mut gateway, 0..events, changes, "new");
        let (newest, endpoint) = (gateway.revision().unwrap(), etcd.endpoint());

        let began = Instant::now();
        let server = Server::start_unready(&["--etcd-endpoints", &endpoint, "--shards", "2"]);
        server.await_ready(PATIENCE);
        println!(
            "etcd {}: ready after {:.2?}: {objects} objects, {events} events in {} revisions; resident {} MiB, at most {} MiB",
            release.text(),
            began.elapsed(),
            newest - before,
            server.resident_kb() >> 10,
            server.peak_kb() >> 10
        );
        let (client, all) = (server.client(), "/api/v1/configmaps");
        let page = client.get(&format!("{all}?limit=1")).json();
        assert_eq!(page["metadata"]["remainingItemCount"], objects - 1);
        assert_eq!(page["metadata"]["resourceVersion"], newest.to_string());
        let mut watch = client.watch(&format!("{all}?watch=1&resourceVersion={before}")).unwrap();
        for number in 0..events {
            let (kind, object) = watch.next_event();
            assert_eq!((kind.as_str(), &object["data"]["k"]), ("MODIFIED", &json!("new")), "event {number}");
        }
        assert!(watch.is_quiet_for(Duration::from_millis(100)), "there are no more");
    }
}
