//! `kill -9` under write load: no acknowledged write is lost, and the revision never goes back.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use revcast_tests::client::Client;
use revcast_tests::server::{Server, embedded_only};
use serde_json::json;

const WRITERS: usize = 4;
const OBJECTS: u64 = 8;

/// The acknowledged writes of one writer: for each of its objects the sequence number and resourceVersion of the last
/// reply.
type Promised = HashMap<String, (u64, u64)>;

fn cycles() -> u64 {
    std::env::var("REVCAST_KILL_CYCLES").ok().and_then(|n| n.parse().ok()).unwrap_or(100)
}

fn write_until(
    stop: &AtomicBool,
    client: &Client,
    writer: usize,
    cycle: u64,
    promised: &mut Promised,
) -> u64 {
    let Ok(mut connection) = client.connect() else { return 0 };
    let mut acknowledged = 0;
    for sequence in 0_u64.. {
        if stop.load(Ordering::Acquire) {
            break;
        }
        let name = format!("w{writer}-{}", sequence % OBJECTS);
        let stamp = cycle << 32 | sequence;
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name},
            "data": {"stamp": stamp.to_string()}});
        let known = promised.contains_key(&name);
        let (method, path) = match known {
            false => ("POST", "/api/v1/namespaces/d/configmaps".to_owned()),
            true => ("PUT", format!("/api/v1/namespaces/d/configmaps/{name}")),
        };
        let Ok(reply) = connection.request(method, &path, &[], object.to_string().as_bytes()) else { break };
        // Created by a cycle whose reply was lost in the crash: it exists, and was never acknowledged.
        let fresh = matches!(reply.status, 200 | 201);
        if !fresh && reply.status == 409 && !known {
            promised.insert(name, (0, 0));
            continue;
        }
        assert!(fresh, "{method} {path}: {} {}", reply.status, reply.text());
        let version = reply.json()["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        promised.insert(name, (stamp, version));
        acknowledged += 1;
    }
    acknowledged
}

#[test]
fn kill_nine_loses_nothing_that_was_acknowledged() {
    if !embedded_only("it kills the server and starts it on its --data-dir") {
        return;
    }
    let dir = std::env::temp_dir().join(format!("revcast-durability-{}", std::process::id()));
    let dir_text = dir.to_str().unwrap();
    let mut promised: Vec<Promised> = vec![Promised::new(); WRITERS];
    let mut newest = 0;
    let mut total = 0;
    // A pseudo-random moment for each kill; printed with a failure through the cycle's number.
    let mut moment = 0x1234_5678_u64;
    for cycle in 0..cycles() {
        let server = Server::start(&["--data-dir", dir_text, "--shards", "1"]);
        let list = server.client().get("/api/v1/namespaces/d/configmaps").json();
        let revision: u64 = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(revision >= newest, "cycle {cycle}: the revision went back from {newest} to {revision}");
        newest = revision;
        let stored: HashMap<&str, (u64, u64)> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| {
                let stamp = item["data"]["stamp"].as_str().unwrap().parse().unwrap();
                let version = item["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                (item["metadata"]["name"].as_str().unwrap(), (stamp, version))
            })
            .collect();
        for (name, (stamp, version)) in promised.iter().flatten() {
            let found = stored.get(name.as_str());
            // A write whose reply was lost may have been made on top of the last acknowledged one.
            assert!(
                found.is_some_and(|(s, v)| (s, v) == (stamp, version) || (s > stamp && v > version)),
                "cycle {cycle}: {name} was acknowledged with {stamp} at {version}, found {found:?}"
            );
        }
        let stop = Arc::new(AtomicBool::new(false));
        let client = server.client();
        std::thread::scope(|scope| {
            let writers: Vec<_> = promised
                .iter_mut()
                .enumerate()
                .map(|(writer, promised)| {
                    let (stop, client) = (Arc::clone(&stop), client.clone());
                    scope.spawn(move || write_until(&stop, &client, writer, cycle, promised))
                })
                .collect();
            moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            std::thread::sleep(Duration::from_millis(20 + (moment >> 33) % 130));
            server.kill();
            stop.store(true, Ordering::Release);
            total += writers.into_iter().map(|writer| writer.join().unwrap()).sum::<u64>();
        });
        newest = newest
            .max(promised.iter().flat_map(|p| p.values()).map(|(_, version)| *version).max().unwrap_or(0));
    }
    std::fs::remove_dir_all(&dir).unwrap();
    println!("{} kills, {total} acknowledged writes, none lost; newest revision {newest}", cycles());
    assert!(total > cycles(), "the load must be a load: {total} writes");
}
