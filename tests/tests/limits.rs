//! Limits on connections, watches and times: each is enforced, its error says what to do, and clients within the limits
//! are not disturbed.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use revcast_tests::client::Client;
use revcast_tests::server::Server;
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/l/configmaps";

fn create(client: &Client, name: &str) {
    let reply = client.send("POST", MAPS, &json!({"metadata": {"name": name}}));
    assert_eq!(reply.status, 201, "{}", reply.text());
}

/// Everything received until the server closes.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("still open: {error}; {:?}", String::from_utf8_lossy(&bytes)),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// 1,000 connections that send a byte a second; a watch beside them gets every event, soon.
#[test]
fn a_thousand_slow_heads_are_cut_off_and_disturb_nobody() {
    let server = Server::start(&["--head-timeout", "3s"]);
    let client = server.client();
    let mut watch = client.watch(&format!("{MAPS}?watch=1&resourceVersion={}", client.newest())).unwrap();
    let begun = Instant::now();
    let mut slow: Vec<TcpStream> = (0..1000).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    let head = format!("GET /livez HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(50));
    let mut latest = Duration::ZERO;
    for (second, byte) in head.bytes().enumerate().take(5) {
        for stream in &mut slow {
            // After the deadline it is closed.
            let _ = stream.write_all(&[byte]);
        }
        for number in 0..20 {
            let asked = Instant::now();
            create(&client, &format!("n{second}-{number}"));
            assert_eq!(watch.next_event().1["metadata"]["name"], format!("n{second}-{number}"));
            latest = latest.max(asked.elapsed());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    assert!(latest < Duration::from_secs(5), "an event took {latest:?} beside them");
    let mut told = 0;
    for stream in &mut slow {
        let said = rest(stream);
        told += usize::from(said.starts_with("HTTP/1.1 408 ") && said.contains("Connection: close"));
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(told > 900, "{told} of 1,000 were told why");
    create(&client, "last");
    assert_eq!(watch.next_event().1["metadata"]["name"], "last");
    drop(watch);
    server.wait_for_metric("revcast_watchers", 0);
}

#[test]
fn who_is_silent_is_cut_off() {
    let server = Server::start(&["--head-timeout", "1s", "--idle-timeout", "2s", "--request-timeout", "1s"]);
    // No first byte: closed without a reply, in the time for a head.
    let begun = Instant::now();
    let mut stream = TcpStream::connect(&server.address).unwrap();
    assert_eq!(rest(&mut stream), "");
    assert!((900..5000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    // Nothing after a request: closed when it was idle for long enough.
    let begun = Instant::now();
    let mut connection = server.client().connect().unwrap();
    assert_eq!(connection.request("GET", "/livez", &[], &[]).unwrap().status, 200);
    assert!(connection.read_to_end().unwrap().is_empty());
    assert!((1900..6000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    // A body byte by byte.
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let head = format!("POST {MAPS} HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(1500) {
        let _ = stream.write_all(b" ");
        std::thread::sleep(Duration::from_millis(100));
    }
    let said = rest(&mut stream);
    assert!(said.starts_with("HTTP/1.1 408 ") && said.contains("Connection: close"), "{said}");
    assert!(said.contains("the body is not complete after 1 s"), "{said}");
    // A watch is neither: it has no such limit.
    let mut watch = server
        .client()
        .watch(&format!("{MAPS}?watch=1&resourceVersion={}", server.client().newest()))
        .unwrap();
    assert!(watch.is_quiet_for(Duration::from_secs(3)));
    create(&server.client(), "one");
    assert_eq!(watch.next_event().1["metadata"]["name"], "one");
}

#[test]
fn connections_are_counted_and_watches_among_them() {
    let server = Server::start(&["--max-connections", "6"]);
    let client = server.client();
    let watches: Vec<_> = (0..3).map(|_| client.watch(&format!("{MAPS}?watch=1")).unwrap()).collect();
    server.wait_for_metric("revcast_watchers", 3);
    server.wait_for_metric("revcast_connections_open{carries=\"requests\"}", 1);
    let mut held: Vec<_> = (0..3).map(|_| client.connect().unwrap()).collect();
    for connection in &mut held {
        assert_eq!(connection.request("GET", "/livez", &[], &[]).unwrap().status, 200);
    }
    let refused = client.get("/livez");
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")), "{}", refused.text());
    assert_eq!(refused.json()["kind"], "Status");
    assert!(refused.text().contains("raise max-connections"), "{}", refused.text());
    assert!(server.metric("revcast_connections_refused_total{reason=\"limit\"}") >= 1, "operators get in");
    // Connected clients continue, and one that disconnects makes room.
    assert_eq!(held[0].request("GET", "/livez", &[], &[]).unwrap().status, 200);
    drop(watches);
    server.wait_for_metric("revcast_watchers", 0);
    assert_eq!(client.get("/livez").status, 200);
}

#[test]
fn one_address_has_its_share_and_another_has_its_own() {
    let server = Server::start(&["--max-connections-per-address", "2", "--max-watchers-per-user", "1"]);
    let client = server.client();
    let path = format!("{MAPS}?watch=1&timeoutSeconds=5");
    // The client that asked for readiness has disconnected.
    server.wait_for_metric("revcast_connections_open{carries=\"requests\"}", 1);
    // A watch ends and its connection continues: it counts once, all the while.
    let mut connection = client.connect().unwrap();
    assert_eq!(connection.request("GET", "/livez", &[], &[]).unwrap().status, 200);
    let mut watch = connection.watch(&path, &[]).unwrap();
    let mut second = client.connect().unwrap();
    let refused = second.request("GET", &path, &[], &[]).unwrap();
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")), "{}", refused.text());
    assert!(refused.text().contains("max-watchers-per-user"), "{}", refused.text());
    assert_eq!(second.request("GET", "/livez", &[], &[]).unwrap().status, 200, "and goes on");
    let third = client.get("/livez");
    assert_eq!((third.status, third.header("retry-after")), (429, Some("1")), "{}", third.text());
    assert!(third.text().contains("max-connections-per-address"), "{}", third.text());
    // Another address of this machine.
    let port = server.address.rsplit(':').next().unwrap();
    let mut other = elsewhere(port.parse().unwrap());
    other.write_all(b"GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    assert!(rest(&mut other).starts_with("HTTP/1.1 200 "));
    // The watch is over: its user may have another, on the same connection.
    assert!(watch.rest().is_empty());
    let mut again = watch.into_connection();
    assert_eq!(again.request("GET", "/livez", &[], &[]).unwrap().status, 200);
    assert_eq!(client.get("/livez").status, 429, "two are still here");
    let again = again.watch(&path, &[]).unwrap();
    drop((again, second));
    server.wait_for_metric("revcast_watchers", 0);
    let deadline = Instant::now() + Duration::from_secs(10);
    while client.get("/livez").status != 200 {
        assert!(Instant::now() < deadline, "those who left are still counted");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A connection from 127.0.0.2.
fn elsewhere(port: u16) -> TcpStream {
    use rustix::net::{AddressFamily, SocketAddrV4, SocketType, bind, connect, socket};
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&fd, &SocketAddrV4::new([127, 0, 0, 2].into(), 0)).unwrap();
    connect(&fd, &SocketAddrV4::new([127, 0, 0, 1].into(), port)).unwrap();
    fd.into()
}

/// A request panics: its connection ends, and nothing else. The path exists in test builds only.
#[test]
fn a_panic_ends_its_connection_alone() {
    let server = Server::start(&[]);
    let client = server.client();
    let mut watch = client.watch(&format!("{MAPS}?watch=1&resourceVersion={}", client.newest())).unwrap();
    let mut beside = client.connect().unwrap();
    assert_eq!(beside.request("GET", "/livez", &[], &[]).unwrap().status, 200);
    if client
        .connect()
        .unwrap()
        .request("GET", "/failpoints/panic", &[], &[])
        .is_ok_and(|reply| reply.status == 404)
    {
        let _ = writeln!(std::io::stderr(), "!!! SKIPPED: a release build has no failpoint");
        return;
    }
    for face in [&client, &server.admin_client()] {
        for _ in 0..20 {
            let mut connection = face.connect().unwrap();
            connection.write_raw(b"GET /failpoints/panic HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            assert!(connection.read_to_end().map_or(true, |said| said.is_empty()), "nothing was answered");
        }
        assert_eq!(face.get("/livez").status, 200);
    }
    assert_eq!(server.metric("revcast_panics_total"), 41);
    assert_eq!(beside.request("GET", "/livez", &[], &[]).unwrap().status, 200);
    create(&client, "one");
    assert_eq!(watch.next_event().1["metadata"]["name"], "one");
    drop(beside);
    server.wait_for_metric("revcast_connections_open{carries=\"requests\"}", 1);
    assert_eq!(server.terminate(), Some(0), "no request is waited for");
}
