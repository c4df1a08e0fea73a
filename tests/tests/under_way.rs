//! Bytes of requests in progress count against `--max-memory`: bodies that are received, drafts that wait for the store, replies
//! that are not read. What exceeds their share is refused with 429, and watches continue.
#![allow(clippy::unwrap_used)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use revcast_tests::client::Client;
use revcast_tests::etcd::{Etcd, Options, Release};
use revcast_tests::proxy::Proxy;
use revcast_tests::server::Server;
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/m/configmaps";
/// How soon a watch must see a write meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connects, sends these bytes and keeps the connection.
fn send(server: &Server, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    // One that was refused is closed while it sends.
    let _ = stream.write_all(bytes);
    stream
}

fn create(client: &Client, name: &str, padding: usize) {
    let object = json!({"metadata": {"name": name}, "data": {"k": "x".repeat(padding)}});
    let reply = client.send("POST", MAPS, &object);
    assert_eq!(reply.status, 201, "{}", reply.text());
}

/// The status of the reply that has come, if one has.
fn status(stream: &mut TcpStream) -> Option<u16> {
    stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).ok()?;
    std::str::from_utf8(&head[9..]).unwrap().parse().ok()
}

/// The status of the reply, which must come.
fn awaited(stream: &mut TcpStream) -> u16 {
    let since = Instant::now();
    loop {
        if let Some(status) = status(stream) {
            return status;
        }
        assert!(since.elapsed() < 6 * PATIENCE, "no reply");
    }
}

/// How many of these connections were refused with 429, once so many are; none gets another answer.
fn refused(streams: &mut [TcpStream], at_least: usize) -> usize {
    let (all, since) = (streams.len(), Instant::now());
    let mut waiting: Vec<&mut TcpStream> = streams.iter_mut().collect();
    while all - waiting.len() < at_least && since.elapsed() < PATIENCE {
        waiting.retain_mut(|stream| {
            let status = status(stream);
            assert!(status.is_none_or(|status| status == 429), "{status:?}");
            status.is_none()
        });
    }
    all - waiting.len()
}

#[test]
fn bodies_that_never_end_stay_within_their_share() {
    const LIMIT_KB: u64 = 256 << 10;
    const BODY: usize = 3 << 20;
    let server = Server::start(&["--max-memory", "256MiB", "--ring-bytes", "16MiB", "--shards", "1"]);
    let client = server.client();
    let mut watch = client.watch(&format!("{MAPS}?watch=1")).unwrap();
    let head = format!(
        "POST {MAPS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {BODY}\r\n\r\n"
    );
    let request = [head.as_bytes(), &vec![b' '; BODY - 1]].concat();
    let mut streams = Vec::new();
    for number in 0..600 {
        streams.push(send(&server, &request));
        if number % 100 == 50 {
            let resident = server.resident_kb();
            assert!(resident < LIMIT_KB, "{resident} KiB after {number} bodies");
        }
    }
    let peak = server.peak_kb();
    assert!(peak < LIMIT_KB, "{peak} KiB");
    // The page of metrics has a share as well: it waits for room as long as the last bodies are being refused.
    let (admin, deadline) = (server.admin_client(), Instant::now() + Duration::from_secs(10));
    while admin.get("/metrics").status == 429 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    let held = server.metrics("revcast_memory_bytes");
    assert!(held.iter().any(|bytes| (1 << 20..=LIMIT_KB << 7).contains(bytes)), "{held:?}");
    // A share of 32 MiB holds some ten of them.
    let told = refused(&mut streams, 500);
    assert!((500..600).contains(&told), "{told} of 600 were refused");
    drop(streams);
    // Writers get in again, and watches were served all the while.
    let since = Instant::now();
    while client.send("POST", MAPS, &json!({"metadata": {"name": "after"}})).status != 201 {
        assert!(since.elapsed() < PATIENCE, "bodies of connections that are gone are still counted");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(watch.next_event().1["metadata"]["name"], "after");
}

#[test]
fn drafts_that_wait_for_the_store_stay_within_their_share() {
    const LIMIT_KB: u64 = 1 << 20;
    const VALUES: usize = 490_000;
    let etcd = Etcd::start(Release::V3_5, Options::default());
    let proxy = Proxy::start(etcd.endpoint().trim_start_matches("http://"));
    let endpoint = format!("http://{}", proxy.address());
    let server = Server::start(&[
        "--etcd-endpoints",
        &endpoint,
        "--max-memory",
        "1GiB",
        "--ring-bytes",
        "16MiB",
        "--shards",
        "1",
    ]);
    let client = server.client();
    create(&client, "before", 10);
    let mut watch = client.watch(&format!("{MAPS}?watch=1")).unwrap();
    assert_eq!(watch.next_event().1["metadata"]["name"], "before");
    proxy.delay(Duration::from_secs(2));
    let streams: Vec<TcpStream> = (0..100)
        .map(|number| {
            let body = format!(
                "{{\"metadata\":{{\"name\":\"p{number}\"}},\"x\":[{}0]}}",
                "0,".repeat(VALUES)
            );
            let head = format!(
                "POST {MAPS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            send(&server, &[head.as_bytes(), body.as_bytes()].concat())
        })
        .collect();
    let since = Instant::now();
    let (mut told, mut waiting) = (Vec::new(), streams);
    while !waiting.is_empty() && since.elapsed() < Duration::from_secs(60) {
        waiting.retain_mut(|stream| match status(stream) {
            Some(status) => {
                told.push(status);
                false
            }
            None => true,
        });
        let resident = server.resident_kb();
        assert!(resident < LIMIT_KB, "{resident} KiB with {} waiting", waiting.len());
    }
    let peak = server.peak_kb();
    assert!(peak < LIMIT_KB, "{peak} KiB");
    // What etcd took, what it would not take (1.5 MiB a request), what was one too many.
    assert!(told.iter().all(|status| matches!(status, 201 | 413 | 429 | 504)), "{told:?}");
    assert!(told.iter().filter(|status| **status == 429).count() > 20, "{told:?}");
    proxy.delay(Duration::ZERO);
    let since = Instant::now();
    while client.send("POST", MAPS, &json!({"metadata": {"name": "after"}})).status != 201 {
        assert!(since.elapsed() < Duration::from_secs(30), "drafts that were answered are still counted");
        std::thread::sleep(Duration::from_millis(100));
    }
    while watch.next_event().1["metadata"]["name"] != "after" {}
}

#[test]
fn replies_that_nobody_reads_stay_within_their_share() {
    const LIMIT_KB: u64 = 256 << 10;
    const LARGE: usize = 2 << 20;
    let server = Server::start(&["--max-memory", "256MiB", "--ring-bytes", "16MiB", "--shards", "1"]);
    let client = server.client();
    create(&client, "large", LARGE);
    let mut watch = client.watch(&format!("{MAPS}?watch=1")).unwrap();
    assert_eq!(watch.next_event().1["metadata"]["name"], "large");
    let ask = |format: &str| {
        let request = format!("GET {MAPS}/large HTTP/1.1\r\nHost: localhost\r\nAccept: {format}\r\n\r\n");
        send(&server, request.as_bytes())
    };
    // The stored bytes themselves are shared: all are served.
    let before = server.resident_kb();
    let served = |number: usize| {
        let mut stream = ask("application/json");
        assert_eq!(awaited(&mut stream), 200, "request {number}: each is served");
        stream
    };
    let _shared: Vec<TcpStream> = (0..200).map(served).collect();
    let after = server.resident_kb();
    assert!(after < before + (64 << 10), "{before} KiB before, {after} with 200 that do not read");
    // Each of these is made for its reader: most are refused.
    let mut own: Vec<TcpStream> = (0..200).map(|_| ask("application/yaml")).collect();
    let (mut told, since) = (0, Instant::now());
    while told < 150 && since.elapsed() < 6 * PATIENCE {
        own.retain_mut(|stream| match status(stream) {
            Some(429) => {
                told += 1;
                false
            }
            Some(_) | None => true,
        });
    }
    let peak = server.peak_kb();
    assert!(peak < LIMIT_KB, "{peak} KiB");
    assert!((150..200).contains(&told), "{told} of 200 were refused");
    create(&client, "meanwhile", 10);
    assert_eq!(watch.next_event().1["metadata"]["name"], "meanwhile");
}
