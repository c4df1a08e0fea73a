//! A large state: how long until it is served, in how much memory, and what its readers cost etcd. 3,000 objects;
//! 100,000 with `REVCAST_BIG=1`, whose figures are meaningful with a release binary (`REVCAST_BIN`).

use std::fs;
use std::time::{Duration, Instant};

use revcast_tests::etcd::{Etcd, Gateway, Op, Options, Release};
use revcast_tests::server::{Server, binary};

use super::cost::handled;
use super::{CONFIG_MAPS, config_map, eventually};

const READERS: usize = 50;

fn objects() -> usize {
    if std::env::var_os("REVCAST_BIG").is_some_and(|value| value == "1") { 100_000 } else { 3_000 }
}

/// Peak resident memory of a process, in kilobytes.
fn peak_kb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_large_state_is_loaded_in_pages_and_read_from_memory() {
    let count = objects();
    let etcd = Etcd::start(Release::V3_5, Options { quota_bytes: Some(4 << 30), ..Options::default() });
    let control = etcd.control();
    let names: Vec<String> = (0..count).map(|number| format!("object-{number:06}")).collect();
    let pad = "x".repeat(1024 - config_map("object-000000", "").len());
    for part in names.chunks(100) {
        let puts: Vec<(String, String)> = part
            .iter()
            .map(|name| (format!("/registry/configmaps/a/{name}"), config_map(name, &pad)))
            .collect();
        let ops: Vec<Op<'_>> = puts.iter().map(|(key, value)| Op::Put(key, value.as_bytes())).collect();
        control.txn(&ops).unwrap();
    }
    binary();
    let transactions = handled(&etcd, "Txn");
    let began = Instant::now();
    let server = Server::start_unready(&["--etcd-endpoints", &etcd.endpoint(), "--warm-start", "off"]);
    server.await_ready(Duration::from_secs(60));
    let ready = began.elapsed();
    // Its pages may be of more than one etcd: the keys are compared once, and the values of some of them.
    eventually("a comparison", || handled(&etcd, "Txn") == transactions + 1);
    let loaded_kb = peak_kb(server.pid());
    assert_eq!(server.metric("revcast_objects"), count as u64);
    let pages = handled(&etcd, "Range");
    assert!(pages > 3, "{pages} pages for {count} objects");

    let client = server.client();
    let questions = server.metric("revcast_source_read_index_requests_total");
    let (ranges, began) = (handled(&etcd, "Range"), Instant::now());
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                scope.spawn(|| {
                    let began = Instant::now();
                    let reply = client.get(CONFIG_MAPS);
                    assert_eq!(reply.status, 200);
                    let found = count_of(reply.text().as_bytes(), b"\"name\":\"object-");
                    assert_eq!(found, count);
                    began.elapsed()
                })
            })
            .collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    let all = began.elapsed();
    times.sort();
    let asked = server.metric("revcast_source_read_index_requests_total") - questions;
    let ranges = handled(&etcd, "Range") - ranges;
    eprintln!(
        "{count} objects of 1 KiB: ready after {ready:.2?} ({pages} pages), peak {} MiB; {READERS} lists at once in {all:.2?} \
         (median {:.2?}), peak {} MiB; etcd was asked {asked} times for its revision and answered {ranges} ranges",
        loaded_kb >> 10,
        times[READERS / 2],
        peak_kb(server.pid()) >> 10
    );
    assert!(
        ranges <= asked + 2,
        "the lists themselves cost etcd nothing: {ranges} ranges, {asked} questions"
    );
}

/// Small objects do not determine the page of large ones: 12,000 objects of some hundred bytes, and 300 of 1 MiB after
/// them.
#[test]
fn large_objects_after_small_ones_are_loaded_in_small_pages() {
    const SMALL: usize = 12_000;
    const LARGE: usize = 300;
    let etcd = Etcd::start(Release::V3_5, Options { quota_bytes: Some(4 << 30), ..Options::default() });
    let mut gateway = Gateway::new(&etcd.endpoint());
    for from in (0..SMALL).step_by(100) {
        let puts: Vec<(String, String)> = (from..from + 100)
            .map(|number| format!("a-small-{number:06}"))
            .map(|name| (format!("/registry/configmaps/a/{name}"), config_map(&name, "")))
            .collect();
        let ops: Vec<Op<'_>> = puts.iter().map(|(key, value)| Op::Put(key, value.as_bytes())).collect();
        // A busy machine may take longer than the gateway waits; writing twice gives the same.
        let written = (0..10).find_map(|_| gateway.txn(&ops).ok());
        written.expect("etcd takes it in ten attempts");
    }
    // etcd's gateway would take a tenth of a second for each of these.
    let writer = Server::start(&["--etcd-endpoints", &etcd.endpoint(), "--warm-start", "off"]);
    let (client, pad) = (writer.client(), "x".repeat((1 << 20) - 512));
    for number in 0..LARGE {
        let object = serde_json::from_str(&config_map(&format!("b-large-{number:06}"), &pad)).unwrap();
        assert_eq!(client.send("POST", CONFIG_MAPS, &object).status, 201, "object {number}");
    }
    writer.kill();
    binary();
    let began = Instant::now();
    let server = Server::start_unready(&["--etcd-endpoints", &etcd.endpoint(), "--warm-start", "off"]);
    server.await_ready(Duration::from_secs(60));
    let (ready, peak) = (began.elapsed(), peak_kb(server.pid()) >> 10);
    let pages = handled(&etcd, "Range");
    eprintln!(
        "{SMALL} small and {LARGE} large objects: ready after {ready:.2?}, {pages} ranges, peak {peak} MiB"
    );
    assert_eq!(server.metric("revcast_objects"), (SMALL + LARGE) as u64);
    assert_eq!(server.metric("revcast_source_loads_total"), 1);
    // The objects themselves, some pages, and the server's base.
    assert!(peak < LARGE as u64 + 128, "{peak} MiB for {LARGE} MiB of objects");
}

/// How often `what` occurs in `text`.
fn count_of(text: &[u8], what: &[u8]) -> usize {
    text.windows(what.len()).filter(|window| *window == what).count()
}
