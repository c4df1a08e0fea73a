//! What no good client sends, over a real socket: each row of the catalogue of bad input gets its answer and a closed
//! connection, and clients that stall, vanish or crowd in change nothing for the others.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use revcast_tests::client::{Client, Connection};
use revcast_tests::server::Server;
use serde_json::json;

const LIST: &str = "GET /api/v1/configmaps HTTP/1.1\r\n";
const POST: &str = "POST /api/v1/namespaces/h/configmaps HTTP/1.1\r\nHost: h\r\n";

/// The server answers and lets go of every watch.
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

/// Sends bytes and reads until the server closes. Gives back the codes of all replies in it.
fn codes(client: &Client, bytes: &[u8]) -> Vec<u16> {
    let mut connection = client.connect().unwrap();
    // The server may close while more is on its way.
    let _ = connection.write_raw(bytes);
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    let mut socket = connection.socket();
    loop {
        match socket.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("not closed: {error}; {:?}", String::from_utf8_lossy(&answer)),
        }
    }
    let text = String::from_utf8_lossy(&answer);
    // Messages in bodies speak of HTTP/1.1 too, but of no code behind it.
    text.split("HTTP/1.1 ").skip(1).filter_map(|reply| reply.get(..3)?.parse().ok()).collect()
}

#[test]
fn the_catalogue() {
    let server = Server::start(&[]);
    let client = server.client();
    let body = r#"{"metadata":{"name":"smuggled"}}"#;
    let post = |headers: &str, body: &str| format!("{POST}{headers}\r\n{body}").into_bytes();
    let chunked = |chunks: &str| post("Transfer-Encoding: chunked\r\n", chunks);
    let list = |headers: &str| format!("{LIST}{headers}\r\n").into_bytes();
    let target =
        |target: &str| format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").into_bytes();
    let long = |count: usize| "x".repeat(count);
    let many =
        |count: usize| (0..count).fold("Host: h\r\n".to_owned(), |all, n| all + &format!("x{n}: y\r\n"));
    let rows: Vec<(&str, Vec<u8>, &[u16])> = vec![
        (
            "1 length and encoding",
            post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
            &[400],
        ),
        ("2 two lengths", post("Content-Length: 2\r\nContent-Length: 3\r\n", "{}"), &[400]),
        ("3 a list of lengths", post("Content-Length: 2,2\r\n", "{}"), &[400]),
        ("4 +5", post("Content-Length: +2\r\n", "{}"), &[400]),
        ("4 0x5", post("Content-Length: 0x2\r\n", "{}"), &[400]),
        ("4 empty", post("Content-Length: \r\n", "{}"), &[400]),
        ("4 2^64", post("Content-Length: 18446744073709551616\r\n", "{}"), &[400]),
        ("5 chunked, identity", post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"), &[400, 501]),
        ("6 xchunked", post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), &[400, 501]),
        ("7 space before the colon", post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), &[400]),
        ("8 vertical tab", post("Transfer-Encoding:\x0bchunked\r\n", "0\r\n\r\n"), &[400]),
        (
            "9 twice",
            post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
            &[400, 501],
        ),
        ("10 chunk 0x5", chunked("0x5\r\nhello\r\n0\r\n\r\n"), &[400]),
        ("11 chunk 5_0", chunked("5_0\r\nhello\r\n0\r\n\r\n"), &[400]),
        ("12 chunk too large", chunked("FFFFFFFFFFFFFFFF1\r\nhello\r\n0\r\n\r\n"), &[400, 413]),
        ("13 chunk -1", chunked("-1\r\nhello\r\n0\r\n\r\n"), &[400]),
        ("14 empty size", chunked("\r\nhello\r\n0\r\n\r\n"), &[400]),
        ("15 a long extension", chunked(&format!("5;{}\r\nhello\r\n0\r\n\r\n", long(65536))), &[400]),
        ("16 bare LF", list("Host: h\n"), &[400]),
        ("16 LF only", b"GET /livez HTTP/1.1\nHost: h\n\n".to_vec(), &[400]),
        ("17 bare CR", list("Host: h\r\nx: a\rb\r\n"), &[400]),
        ("18 LF behind a chunk size", chunked("5\nhello\r\n0\r\n\r\n"), &[400]),
        ("18 LF behind a chunk", chunked("5\r\nhello\n0\r\n\r\n"), &[400]),
        ("19 folded", list("Host: h\r\nx: a\r\n b\r\n"), &[400]),
        ("20 NUL in a value", list("Host: h\r\nx: a\0b\r\n"), &[400]),
        ("20 CTL in a value", list("Host: h\r\nx: a\x01b\r\n"), &[400]),
        ("21 not a name", list("Host: h\r\nx y: a\r\n"), &[400]),
        ("21 no colon", list("Host: h\r\nxy\r\n"), &[400]),
        ("22 no Host", list(""), &[400]),
        ("23 two Hosts", list("Host: h\r\nHost: h\r\n"), &[400]),
        ("24 userinfo", list("Host: me@h\r\n"), &[400]),
        ("25 request line", target(&format!("/{}", long(8300))), &[414]),
        ("26 header", list(&format!("Host: h\r\nx: {}\r\n", long(8300))), &[431]),
        ("27 headers", list(&format!("Host: h\r\n{}", format!("x: {}\r\n", long(8000)).repeat(5))), &[431]),
        ("28 101 headers", list(&many(100)), &[431]),
        ("29 HTTP/0.9", b"GET /livez\r\n".to_vec(), &[400, 505]),
        ("30 HTTP/1.2", b"GET /livez HTTP/1.2\r\nHost: h\r\n\r\n".to_vec(), &[400, 505]),
        ("30 HTTP/9.9", b"GET /livez HTTP/9.9\r\nHost: h\r\n\r\n".to_vec(), &[505]),
        ("31 HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), &[400]),
        ("31 TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n".to_vec(), &[400]),
        ("32 absolute form", target("http://h/livez"), &[200]),
        ("33 OPTIONS *", b"OPTIONS * HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".to_vec(), &[405]),
        ("34 CONNECT", b"CONNECT h:80 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".to_vec(), &[405]),
        ("35 %00", target("/api/v1/configmaps%00"), &[400, 404]),
        ("36 %2e%2e", target("/api/v1/x/%2e%2e/configmaps"), &[400, 404]),
        ("36 ..", target("/api/v1/x/../configmaps"), &[400, 404]),
        ("37 //", target("/api//v1/configmaps"), &[400, 404]),
        ("37 //", target("//api/v1/configmaps"), &[400, 404]),
        ("38 not UTF-8", target("/api/v1/configmaps/%ff"), &[400, 404]),
        ("38 raw", b"GET /api/v1/configmaps\xff HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(), &[400]),
        ("38 in the query", target("/api/v1/configmaps?labelSelector=%ff"), &[400]),
        ("38 half an escape", target("/api/v1/configmaps?labelSelector=%f"), &[400]),
        ("41 another expectation", post("Expect: magic\r\nContent-Length: 2\r\n", "{}"), &[417]),
        ("a body that is too long", post("Content-Length: 99999999999\r\n", body), &[413]),
        ("a method that is none", b"G@T /livez HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(), &[400]),
    ];
    for (what, bytes, expected) in rows {
        let got = codes(&client, &bytes);
        assert_eq!(got.len(), 1, "{what}: one answer, then the end, not {got:?}");
        assert!(expected.contains(&got[0]), "{what}: {got:?}, not one of {expected:?}");
    }
    assert_eq!(
        client.get("/api/v1/namespaces/h/configmaps").json()["items"],
        json!([]),
        "nothing was smuggled in"
    );
    is_well(&server);
}

#[test]
fn requests_around_a_watch() {
    let server = Server::start(&[]);
    let client = server.client();
    let watch = "GET /api/v1/namespaces/h/configmaps?watch=1&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&timeoutSeconds=1 HTTP/1.1\r\nHost: h\r\n";
    // 39: behind the watch, in the same packet and a little later.
    let mut connection = client.connect().unwrap();
    connection.write_raw(format!("{watch}\r\nGET /version HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).unwrap();
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
    connection.write_raw(format!("{watch}\r\n").as_bytes()).unwrap();
    let mut stream = connection.into_watch().unwrap();
    assert!(stream.is_quiet_for(Duration::from_millis(200)));
    stream.connection().write_raw(b"GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    assert!(stream.rest().is_empty());
    let mut connection = stream.into_connection();
    assert_eq!(connection.read_response(true).unwrap().text(), "ok");
    assert!(connection.read_to_end().unwrap().is_empty());
    // 40: a body on a watch is no request.
    let hidden = "GET /livez HTTP/1.1\r\nHost: h\r\n\r\n";
    let mut connection = client.connect().unwrap();
    connection
        .write_raw(format!("{watch}Content-Length: {}\r\n\r\n{hidden}", hidden.len()).as_bytes())
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
    let watch =
        "GET /api/v1/configmaps?watch=1&resourceVersion=1&timeoutSeconds=1 HTTP/1.1\r\nHost: h\r\n\r\n";
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
    let server = Server::start(&["--ring-events", "1024", "--ring-bytes", "16MiB"]);
    let client = server.client();
    let start = create(&client, "one", "1");
    let path = format!("/api/v1/namespaces/h/configmaps?watch=1&resourceVersion={start}");
    let stalled: Vec<_> = (0..20).map(|_| client.watch(&path).unwrap()).collect();
    let mut good = client.watch(&path).unwrap();
    let before = server.resident_kb();
    // 200 MB of events: more than all sockets and the ring hold.
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            for number in 0..2000 {
                let (_, object) = good.next_event();
                assert_eq!(object["metadata"]["annotations"]["n"], number.to_string());
            }
        });
        let mut connection = client.connect().unwrap();
        let headers = [("content-type", "application/merge-patch+json")];
        for number in 0..2000 {
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
    assert_eq!(server.metric("revcast_watches_evicted_total"), 20);
    // They find whole events and a broken or ended stream, never half an event followed by another.
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
    // One or two more: who asks for the metrics.
    while sockets(&server) > before + 2 {
        assert!(Instant::now() < deadline, "{} sockets, {before} before", sockets(&server));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sockets that the server has open.
fn sockets(server: &Server) -> usize {
    let entries = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
    // One may be closed between the two looks.
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
    // Half a request is none.
    let mut half = client.connect().unwrap();
    half.write_raw(b"GET /version HTTP/1.1\r\nHo").unwrap();
    half.socket().shutdown(Shutdown::Write).unwrap();
    assert!(half.read_to_end().unwrap().is_empty());
    // Who hangs up on a watch is gone, as with Go's net/http.
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
    // Who is in already is served.
    let body = br#"{"metadata":{"name":"one"}}"#;
    assert_eq!(writer.request("POST", "/api/v1/namespaces/h/configmaps", &[], body).unwrap().status, 201);
    assert_eq!(early.next_event().1["metadata"]["name"], "one");
    // Some of the crowd were told; nobody was told anything else.
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
    assert!(told > 0, "nobody was told");
    drop(crowd);
    // Each shard has a queue of its own to work off: all have when many connections in a row are served.
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut in_a_row = 0;
    while in_a_row < 30 {
        assert!(Instant::now() < deadline, "it does not recover");
        in_a_row = if client.get("/readyz").status == 200 { in_a_row + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(20));
    }
    // Exhausted again, one after the other: each is told something at once.
    let mut held = Vec::new();
    let mut told = 0;
    for number in 0..400 {
        let mut connection = client.connect().unwrap();
        let answer = connection.request("GET", "/livez", &[], &[]);
        match answer.map(|answer| answer.status) {
            Ok(200) => held.push(connection),
            Ok(503) => told += 1,
            other => panic!("connection {number}, {} held: {other:?}", held.len()),
        }
    }
    assert!(told > 100 && held.len() > 50, "{told} told, {} held", held.len());
    drop((early, writer, held));
    is_well(&server);
}
