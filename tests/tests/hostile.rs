//! Clients that stall, vanish or arrive in crowds do not affect the others. Input that no correct client sends is in
//! `bad_input`.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use revcast_tests::client::{Client, Connection};
use revcast_tests::server::Server;
use serde_json::json;

const POST: &str = "POST /api/v1/namespaces/h/configmaps HTTP/1.1\r\nHost: h\r\n";

/// The server answers and releases every watch.
fn is_well(server: &Server) {
    assert_eq!(server.client().get("/readyz").status, 200);
    server.wait_for_metric("revcast_watchers", 0);
}

fn create(client: &Client, name: &str, k: &str) -> u64 {
    let object = json!({"metadata": {"name": name}, "data": {"k": k}});
    let reply = client.send("POST", "/api/v1/namespaces/h/configmaps", &object);
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[test]
fn requests_around_a_watch() {
    let server = Server::start(&[]);
    let client = server.client();
    let watch = |seconds: u32| {
        format!(
            "GET /api/v1/namespaces/h/configmaps?watch=1&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&timeoutSeconds={seconds} HTTP/1.1\r\nHost: h\r\n"
        )
    };
    // 39: after the watch, in the same packet and a little later.
    let mut connection = client.connect().unwrap();
    let version = "GET /version HTTP/1.1\r\nHost: h\r\n\r\n";
    connection.write_raw(format!("{}\r\n{version}", watch(4)).as_bytes()).unwrap();
    let mut stream = connection.into_watch().unwrap();
    create(&client, "one", "1");
    assert_eq!(stream.next_event().1["metadata"]["name"], "one");
    assert!(stream.rest().is_empty());
    let mut connection = stream.into_connection();
    let reply = connection.read_response(true).unwrap();
    assert_eq!(
        (reply.status, reply.json()["major"].as_str()),
        (200, Some("1")),
        "answered once the watch is over"
    );
    connection.write_raw(format!("{}\r\n", watch(4)).as_bytes()).unwrap();
    let mut stream = connection.into_watch().unwrap();
    assert!(stream.is_quiet_for(Duration::from_millis(200)));
    stream.connection().write_raw(b"GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    assert!(stream.rest().is_empty());
    let mut connection = stream.into_connection();
    assert_eq!(connection.read_response(true).unwrap().text(), "ok");
    assert!(connection.read_to_end().unwrap().is_empty());
    // 40: a body on a watch is not a request.
    let hidden = "GET /livez HTTP/1.1\r\nHost: h\r\n\r\n";
    let mut connection = client.connect().unwrap();
    connection
        .write_raw(format!("{}Content-Length: {}\r\n\r\n{hidden}", watch(1), hidden.len()).as_bytes())
        .unwrap();
    let mut stream = connection.into_watch().unwrap();
    assert!(stream.rest().is_empty());
    assert!(
        stream.into_connection().is_quiet_for(Duration::from_millis(500)).unwrap(),
        "no answer to the body"
    );
    // 41: asked first, then sent.
    let mut connection = client.connect().unwrap();
    let body = r#"{"metadata":{"name":"expected"}}"#;
    connection
        .write_raw(format!("{POST}Expect: 100-continue\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes())
        .unwrap();
    assert_eq!(connection.read_response(true).unwrap().status, 100);
    connection.write_raw(body.as_bytes()).unwrap();
    assert_eq!(connection.read_response(true).unwrap().status, 201);
    // 42: what is echoed is escaped, or refused before.
    for target in [
        "/api/v1/namespaces/h/configmaps/a%0d%0aX-Split:%20yes",
        "/api/v1/namespaces/h/configmaps?labelSelector=a%0d%0aX-Split:%20yes",
        "/api/v1/namespaces/h/configmaps?fieldSelector=a%0d%0a%3Db",
        "/api/v1/namespaces/h/configmaps?resourceVersion=%0d%0aX-Split:%20yes",
        "/api/v1/namespaces/h/configmaps/%22%7d,%22x%22:%7b",
    ] {
        let reply = client.get(target);
        assert!((400..500).contains(&reply.status), "{target}: {}", reply.status);
        assert_eq!(reply.header("x-split"), None, "{target}");
        assert_eq!(reply.json()["kind"], "Status", "{target}: {}", reply.text());
    }
    is_well(&server);
}

/// Watches in one packet: each begins when the one before is over, on the task that its end starts.
#[test]
fn watches_behind_a_watch() {
    let server = Server::start(&["--max-watchers", "3"]);
    let client = server.client();
    let newest = client.newest();
    let watch = format!(
        "GET /api/v1/configmaps?watch=1&resourceVersion={newest}&timeoutSeconds=1 HTTP/1.1\r\nHost: h\r\n\r\n"
    );
    for _ in 0..5 {
        let mut connection = client.connect().unwrap();
        connection.write_raw(watch.repeat(2).as_bytes()).unwrap();
        let mut first = connection.into_watch().unwrap();
        assert!(first.rest().is_empty());
        let mut second = first.into_connection().into_watch().unwrap();
        assert!(second.rest().is_empty());
    }
    server.wait_for_metric("revcast_watchers", 0);
    is_well(&server);
}

#[test]
fn heads_by_the_byte_hold_nobody_up() {
    let server = Server::start(&[]);
    let client = server.client();
    let mut slow: Vec<Connection> = (0..200).map(|_| client.connect().unwrap()).collect();
    let head = b"GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let begun = Instant::now();
    for byte in head {
        for connection in &mut slow {
            connection.write_raw(&[*byte]).unwrap();
        }
        let asked = Instant::now();
        assert_eq!(client.get("/readyz").status, 200);
        assert!(asked.elapsed() < Duration::from_secs(5));
    }
    for connection in &mut slow {
        assert_eq!(connection.read_response(true).unwrap().status, 200);
    }
    assert!(begun.elapsed() < Duration::from_secs(30));
    is_well(&server);
}

#[test]
fn one_who_never_reads_is_cut_off() {
    const EVENT: usize = 100_000;
    // How far the writer may be ahead of the reader: half of what the ring holds.
    const AHEAD: u64 = 80;
    let server = Server::start(&["--ring-events", "1024", "--ring-bytes", "16MiB"]);
    let client = server.client();
    let start = create(&client, "one", "1");
    let path = format!("/api/v1/namespaces/h/configmaps?watch=1&resourceVersion={start}");
    let stalled: Vec<_> = (0..20).map(|_| client.watch(&path).unwrap()).collect();
    let mut good = client.watch(&path).unwrap();
    let before = server.resident_kb();
    let seen = AtomicU64::new(0);
    // 200 MB of events: more than all sockets and the ring hold.
    std::thread::scope(|scope| {
        let seen = &seen;
        let reader = scope.spawn(move || {
            for number in 0..2000 {
                let (_, object) = good.next_event();
                assert_eq!(object["metadata"]["annotations"]["n"], number.to_string());
                seen.store(number + 1, Ordering::Relaxed);
            }
        });
        let mut connection = client.connect().unwrap();
        let headers = [("content-type", "application/merge-patch+json")];
        for number in 0..2000 {
            while number >= seen.load(Ordering::Relaxed) + AHEAD && !reader.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let patch = json!({"metadata": {"annotations": {"n": number.to_string()}}, "data": {"k": "x".repeat(EVENT)}});
            let target = "/api/v1/namespaces/h/configmaps/one";
            let reply = connection.request("PATCH", target, &headers, patch.to_string().as_bytes()).unwrap();
            assert_eq!(reply.status, 200);
        }
        reader.join().unwrap();
    });
    let grown = server.resident_kb().saturating_sub(before);
    assert!(grown < 200 << 10, "{grown} KiB for a ring of 16 MiB");
    server.wait_for_metric("revcast_watchers", 0);
    assert_eq!(server.metric("revcast_watchers_evicted_total"), 20);
    // They find whole events and a broken or ended stream, never part of an event followed by another.
    for mut watch in stalled.into_iter().take(3) {
        let mut expected = 0;
        while let Ok(Some(line)) = watch.next_line() {
            let event: serde_json::Value = serde_json::from_str(&line).unwrap();
            if event["type"] == "ERROR" {
                assert_eq!(event["object"]["code"], 410);
                continue;
            }
            assert_eq!(event["object"]["metadata"]["annotations"]["n"], expected.to_string());
            expected += 1;
        }
        assert!(expected < 2000);
    }
    is_well(&server);
}

#[test]
fn who_connects_and_vanishes_leaves_nothing() {
    let server = Server::start(&[]);
    let client = server.client();
    let before = sockets(&server);
    for round in 0..5 {
        let crowd: Vec<TcpStream> = (0..500)
            .map(|number| {
                let mut stream = TcpStream::connect(&server.address).unwrap();
                let bytes: &[u8] = match number % 4 {
                    0 => b"",
                    1 => b"GET /api/v1/configm",
                    2 => b"GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nHost: h\r\n\r\n",
                    _ => b"POST /api/v1/namespaces/h/configmaps HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{",
                };
                stream.write_all(bytes).unwrap();
                stream
            })
            .collect();
        if round % 2 == 0 {
            server.wait_for_metric("revcast_watchers", 125);
        }
        create(&client, &format!("n{round}"), "1");
        drop(crowd);
    }
    is_well(&server);
    let deadline = Instant::now() + Duration::from_secs(20);
    // One or two more: the client that reads the metrics.
    while sockets(&server) > before + 2 {
        assert!(Instant::now() < deadline, "{} sockets, {before} before", sockets(&server));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Open sockets of the server.
fn sockets(server: &Server) -> usize {
    let entries = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
    // One may be closed between the two reads.
    let links = entries.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

#[test]
fn half_closed() {
    let server = Server::start(&[]);
    let client = server.client();
    // A request, then the end of what it sends: it is answered.
    let mut asked = client.connect().unwrap();
    asked.write_raw(b"GET /version HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    asked.socket().shutdown(Shutdown::Write).unwrap();
    assert_eq!(asked.read_response(true).unwrap().status, 200);
    assert!(asked.read_to_end().unwrap().is_empty());
    // Half a request is not one.
    let mut half = client.connect().unwrap();
    half.write_raw(b"GET /version HTTP/1.1\r\nHo").unwrap();
    half.socket().shutdown(Shutdown::Write).unwrap();
    assert!(half.read_to_end().unwrap().is_empty());
    // A client that half-closes on a watch counts as gone, as with Go's net/http.
    let watch = client.watch("/api/v1/namespaces/h/configmaps?watch=1").unwrap();
    server.wait_for_metric("revcast_watchers", 1);
    watch.into_connection().socket().shutdown(Shutdown::Write).unwrap();
    is_well(&server);
}

#[test]
fn out_of_descriptors_and_back() {
    let server = Server::start_with_nofile(256, &[]);
    let client = server.client();
    let mut early = client.watch("/api/v1/namespaces/h/configmaps?watch=1").unwrap();
    let mut writer = client.connect().unwrap();
    assert_eq!(writer.request("GET", "/livez", &[], &[]).unwrap().status, 200);
    let mut crowd = Vec::new();
    for _ in 0..400 {
        crowd.push(TcpStream::connect(&server.address).unwrap());
    }
    std::thread::sleep(Duration::from_millis(300));
    let used = server.cpu_time();
    std::thread::sleep(Duration::from_secs(2));
    let spent = server.cpu_time() - used;
    assert!(spent < Duration::from_secs(1), "{spent:?} of CPU in two idle seconds");
    // Connected clients are served.
    let body = br#"{"metadata":{"name":"one"}}"#;
    assert_eq!(writer.request("POST", "/api/v1/namespaces/h/configmaps", &[], body).unwrap().status, 201);
    assert_eq!(early.next_event().1["metadata"]["name"], "one");
    // Some of the crowd got this reply; no client got another.
    let mut told = 0;
    for stream in &mut crowd {
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut head = [0; 12];
        if stream.read_exact(&mut head).is_ok() {
            assert!(
                matches!(&head, b"HTTP/1.1 503" | b"HTTP/1.1 429"),
                "{:?}",
                String::from_utf8_lossy(&head)
            );
            told += 1;
        }
    }
    assert!(told > 0, "no client was informed");
    drop(crowd);
    // Each shard has its own accept queue: all are empty when many connections in a row are served.
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut in_a_row = 0;
    while in_a_row < 30 {
        assert!(Instant::now() < deadline, "it does not recover");
        in_a_row = if client.get("/readyz").status == 200 { in_a_row + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(20));
    }
    // Exhausted again, one after another: each gets a reply at once.
    let mut held = Vec::new();
    let mut told = 0;
    for number in 0..400 {
        let mut connection = client.connect().unwrap();
        let answer = connection.request("GET", "/version", &[], &[]);
        match answer.map(|answer| answer.status) {
            Ok(200) => held.push(connection),
            Ok(503) => told += 1,
            other => panic!("connection {number}, {} held: {other:?}", held.len()),
        }
    }
    // Clients have what is theirs; health checks and operators are answered from the reserve.
    for _ in 0..20 {
        let mut connection = client.connect().unwrap();
        let health = connection.request("GET", "/livez", &[], &[]).unwrap();
        assert_eq!((health.status, health.header("connection")), (200, Some("close")), "{}", health.text());
        assert_eq!(server.admin_client().get("/metrics").status, 200);
    }
    // Connections that ask for nothing do not hold the reserve.
    let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(client.get("/readyz").status, 200);
    drop(silent);
    assert!(told > 100 && held.len() > 50, "{told} told, {} held", held.len());
    drop((early, writer, held));
    // Until it has seen that they disconnected, it has no descriptor left.
    let deadline = Instant::now() + Duration::from_secs(20);
    while client.get("/readyz").status == 503 {
        assert!(Instant::now() < deadline, "it does not recover");
        std::thread::sleep(Duration::from_millis(5));
    }
    is_well(&server);
}
