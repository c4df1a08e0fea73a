//! Memory that is nearly used up: new clients are told to come back, existing ones continue, and the limit is not
//! exceeded.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use revcast_tests::server::{Scratch, Server, embedded_only};
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/m/configmaps";
const LIMIT_KB: u64 = 160 << 10;
const OBJECT: usize = 256 << 10;
/// How far the writer may be ahead of the reader: a small part of the window, also of one that is being narrowed.
const AHEAD: u64 = 8;
/// How long the reader waits for the next event.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_store_that_grows_stops_at_the_limit_and_goes_on_below_it() {
    let server = Server::start(&["--max-memory", "160MiB", "--ring-bytes", "16MiB", "--shards", "1"]);
    let client = server.client();
    assert_eq!(server.metric("revcast_memory_max_bytes"), LIMIT_KB << 10);
    let start = client.newest();
    let mut watch = client.watch(&format!("{MAPS}?watch=1&resourceVersion={start}")).unwrap();
    // A client that never reads: the window will pass it.
    let deaf = client.watch(&format!("{MAPS}?watch=1&resourceVersion={start}")).unwrap();

    // How many are to come, once that is known; and how many have.
    let (all, seen) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
    let (written, seen) = std::thread::scope(|scope| {
        let (all, seen) = (&all, &seen);
        let reader = scope.spawn(move || {
            let quiet = Duration::from_millis(200);
            let (mut count, mut latest) = (0_u64, Instant::now());
            while count < all.load(Ordering::Relaxed) {
                if watch.is_quiet_for(quiet) {
                    assert!(latest.elapsed() < PATIENCE, "{count} came, and no more");
                    continue;
                }
                assert_eq!(watch.next_event().1["metadata"]["name"], format!("n{count}"));
                (count, latest) = (count + 1, Instant::now());
                seen.store(count, Ordering::Relaxed);
            }
            assert!(watch.is_quiet_for(quiet), "what was refused is not told");
            (count, watch)
        });
        let mut connection = client.connect().unwrap();
        let mut written = 0_u64;
        let refused = loop {
            while written >= seen.load(Ordering::Relaxed) + AHEAD && !reader.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let object =
                json!({"metadata": {"name": format!("n{written}")}, "data": {"k": "x".repeat(OBJECT)}});
            let reply = connection.request("POST", MAPS, &[], object.to_string().as_bytes()).unwrap();
            match reply.status {
                201 => written += 1,
                _ => break reply,
            }
            assert!(written < 2000, "{} KiB are resident", server.resident_kb());
            assert!(server.resident_kb() < LIMIT_KB, "{written} objects");
        };
        assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")), "{}", refused.text());
        assert!(refused.text().contains("raise max-memory"), "{}", refused.text());
        all.store(written, Ordering::Relaxed);
        let (seen, watch) = reader.join().unwrap();
        drop(watch);
        (written, seen)
    });
    assert_eq!(seen, written, "a reader has seen everything that was acknowledged");
    assert!(written > 100, "{written} objects of 256 KiB fit");

    // New clients that would need more are told so, on a connection that stays open; one object can be read as before.
    let mut connection = client.connect().unwrap();
    for path in [format!("{MAPS}?watch=1&resourceVersion={start}"), MAPS.to_owned()] {
        let refused = connection.request("GET", &path, &[], &[]).unwrap();
        assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")), "{}", refused.text());
    }
    assert_eq!(connection.request("GET", &format!("{MAPS}/n0"), &[], &[]).unwrap().status, 200);
    assert_eq!(client.get("/readyz").status, 200);
    assert_eq!(server.admin_client().get("/metrics").status, 200, "operators see it");
    // The slowest had to end, so that the window could shrink.
    server.wait_for_metric("revcast_watchers_evicted_total", 1);
    drop(deaf);

    // Deletes make room again.
    for number in 0..written {
        assert_eq!(client.request("DELETE", &format!("{MAPS}/n{number}"), &[], &[]).status, 200);
        assert!(server.resident_kb() < LIMIT_KB);
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    let object = json!({"metadata": {"name": "again"}});
    while client.send("POST", MAPS, &object).status != 201 || client.get(MAPS).status != 200 {
        assert!(Instant::now() < deadline, "{} KiB are resident", server.resident_kb());
        std::thread::sleep(Duration::from_millis(100));
        assert!(matches!(client.request("DELETE", &format!("{MAPS}/again"), &[], &[]).status, 200 | 404));
    }
    let mut watch = client.watch(&format!("{MAPS}?watch=1")).unwrap();
    assert_eq!(watch.next_event().1["metadata"]["name"], "again");
}

/// Writes of 1 MiB that a start has to read again.
const WRITES: u64 = 150;

/// A store's history is read back through the window, whatever its size.
#[test]
fn a_long_history_is_replayed_within_the_window() {
    if !embedded_only("it starts the server on its --data-dir") {
        return;
    }
    let scratch = Scratch::new("memory-start");
    let data = format!("{}/data", scratch.path());
    let options = ["--data-dir", &data, "--ring-bytes", "8MiB", "--shards", "1", "--compact-interval", "0"];
    let server = Server::start(&options);
    let mut connection = server.client().connect().unwrap();
    for number in 0..WRITES {
        let data = json!({"n": number.to_string(), "k": "x".repeat(1 << 20)});
        let object = json!({"metadata": {"name": format!("n{}", number % 2)}, "data": data});
        let (method, path) =
            if number < 2 { ("POST", MAPS.to_owned()) } else { ("PUT", format!("{MAPS}/n{}", number % 2)) };
        let reply = connection.request(method, &path, &[], object.to_string().as_bytes()).unwrap();
        assert!(matches!(reply.status, 200 | 201), "{}", reply.text());
    }
    let newest = server.client().newest();
    server.kill();

    let server = Server::start(&options);
    let peak_kb = server.peak_kb();
    // The window, what its events replaced, and the pages of the file: not the 150 MiB of history.
    assert!(peak_kb < 180 << 10, "{peak_kb} kB to start with a window of 8 MiB");
    assert!(server.metric("revcast_window_bytes") <= 9 << 20);
    // What fits is there nevertheless.
    let client = server.client();
    let mut watch = client.watch(&format!("{MAPS}?watch=1&resourceVersion={}", newest - 3)).unwrap();
    assert_eq!(watch.events(3).len(), 3);
}

/// A delete has no value, and makes a message as large as the deleted object, which it keeps as well.
#[test]
fn a_long_history_of_deletes_is_replayed_within_the_window() {
    if !embedded_only("it starts the server on its --data-dir") {
        return;
    }
    let scratch = Scratch::new("memory-deletes");
    let data = format!("{}/data", scratch.path());
    let options = ["--data-dir", &data, "--ring-bytes", "8MiB", "--shards", "1", "--compact-interval", "0"];
    let server = Server::start(&options);
    let mut connection = server.client().connect().unwrap();
    for number in 0..WRITES {
        let object = json!({"metadata": {"name": format!("n{number}")}, "data": {"k": "x".repeat(1 << 20)}});
        let reply = connection.request("POST", MAPS, &[], object.to_string().as_bytes()).unwrap();
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
    assert_eq!(server.client().request("DELETE", MAPS, &[], &[]).status, 200);
    let newest = server.client().newest();
    server.kill();

    let server = Server::start(&options);
    let peak_kb = server.peak_kb();
    // All objects once, as before they were deleted, and the cost of reading a history of writes: not each of them
    // twice.
    assert!(peak_kb < (WRITES + 180) << 10, "{peak_kb} kB to start with a window of 8 MiB");
    assert!(server.metric("revcast_window_bytes") <= 10 << 20);
    let client = server.client();
    let mut watch = client.watch(&format!("{MAPS}?watch=1&resourceVersion={}", newest - 3)).unwrap();
    assert_eq!(watch.events(3).iter().filter(|(kind, _)| kind == "DELETED").count(), 3);
}
