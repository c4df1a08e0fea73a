//! Watches over WebSockets with a real server: a client that is not ours, clients that are slow, many, or hostile, and
//! the ends.
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm)]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use revcast_tests::client::Client;
use revcast_tests::server::Server;
use revcast_tests::websocket::{BINARY, CLOSE, KEY, PING, PONG, TEXT, UPGRADE, WebSocket, frame};
use serde_json::{Value, json};
use tungstenite::Message;
use tungstenite::protocol::frame::coding::CloseCode;

fn create(client: &Client, name: &str, data: &str) -> u64 {
    let object = json!({"metadata": {"name": name}, "data": {"k": data}});
    let reply = client.send("POST", "/api/v1/namespaces/w/configmaps", &object);
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

const WATCH: &str = "/api/v1/namespaces/w/configmaps?watch=1";

/// `ADDED name`, for an event's text.
fn told(text: &[u8]) -> String {
    let event: Value = serde_json::from_slice(text).unwrap();
    let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
    format!("{} {name}", event["type"].as_str().unwrap())
}

/// Sends creations of `count` objects named by `name`, on one connection.
fn create_all(server: &Server, count: usize, name: impl Fn(usize) -> String, data: &str) {
    let mut connection = server.client().connect().unwrap();
    for number in 0..count {
        let object = json!({"metadata": {"name": name(number)}, "data": {"k": data}}).to_string();
        let path = "/api/v1/namespaces/w/configmaps";
        let json = [("content-type", "application/json")];
        let reply = connection.request("POST", path, &json, object.as_bytes()).unwrap();
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
}

/// tungstenite's client of a watch.
fn follow(server: &Server, path: &str) -> tungstenite::WebSocket<TcpStream> {
    let stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let (socket, reply) = tungstenite::client(format!("ws://{}{path}", server.address), stream).unwrap();
    assert_eq!(reply.status().as_u16(), 101);
    socket
}

fn next_told(socket: &mut tungstenite::WebSocket<TcpStream>) -> String {
    match socket.read().unwrap() {
        Message::Text(text) => told(text.as_bytes()),
        other => panic!("no event: {other:?}"),
    }
}

/// 2,000 objects, then 300 events, a large one among them, with pings between; then the client closes.
#[test]
fn a_client_of_the_world_follows_a_watch() {
    let server = Server::start(&[]);
    create_all(&server, 2_000, |number| format!("o{number:04}"), &"x".repeat(300));
    let mut socket = follow(&server, WATCH);
    for number in 0..2_000 {
        assert_eq!(next_told(&mut socket), format!("ADDED o{number:04}"), "in the order of their keys");
    }
    let client = server.client();
    for number in 0..300 {
        let big = number == 150;
        create(&client, &format!("p{number:04}"), &"y".repeat(if big { 1 << 20 } else { 100 }));
        if number % 50 == 0 {
            socket.send(Message::Ping(format!("ping {number}").into_bytes().into())).unwrap();
        }
    }
    let mut pongs = Vec::new();
    let mut events = 0;
    while events < 300 || pongs.last().is_none_or(|pong| pong != "ping 250") {
        match socket.read().unwrap() {
            Message::Text(text) => {
                assert_eq!(told(text.as_bytes()), format!("ADDED p{events:04}"));
                assert_eq!(text.len() > 1 << 20, events == 150);
                events += 1;
            }
            Message::Pong(payload) => pongs.push(String::from_utf8(payload.to_vec()).unwrap()),
            other => panic!("{other:?} after {events} events and {pongs:?}"),
        }
    }
    // While its socket is full the newest of several pings is answered (RFC 6455, section 5.5.3): in order, and the
    // last in any case.
    let mut asked = (0..6).map(|number| format!("ping {}", number * 50));
    assert!(pongs.iter().all(|pong| asked.any(|ping| ping == *pong)), "{pongs:?}");
    socket.close(None).unwrap();
    let end = loop {
        match socket.read() {
            Ok(Message::Close(_)) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert!(matches!(end, tungstenite::Error::ConnectionClosed), "a clean end: {end}");
    server.wait_for_metric("revcast_watchers", 0);
}

/// A client is read 20 times a second, even when nothing else wakes its shard.
#[test]
fn each_ping_on_a_quiet_stream_is_answered_soon() {
    let server = Server::start(&[]);
    create(&server.client(), "a", "1");
    let mut socket = follow(&server, WATCH);
    assert_eq!(next_told(&mut socket), "ADDED a");
    let since = Instant::now();
    for number in 0..20_u8 {
        socket.send(Message::Ping(vec![number].into())).unwrap();
        match socket.read().unwrap() {
            Message::Pong(payload) => assert_eq!(payload.to_vec(), [number]),
            other => panic!("{other:?}"),
        }
    }
    // 50 ms each are a second. A shard that wakes only for its own timers takes five.
    assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
}

/// A server closes at once when no watch is left; one that was not released would be waited for.
fn closes_soon(server: Server) {
    let since = Instant::now();
    assert_eq!(server.terminate(), Some(0));
    assert!(since.elapsed() < Duration::from_secs(4), "{:?}", since.elapsed());
}

#[test]
fn the_stream_ends_with_a_close_that_the_client_answers() {
    let server = Server::start(&[]);
    create(&server.client(), "a", "1");
    let mut socket = follow(&server, &format!("{WATCH}&timeoutSeconds=1"));
    assert_eq!(next_told(&mut socket), "ADDED a");
    match socket.read().unwrap() {
        Message::Close(Some(close)) => assert_eq!(close.code, CloseCode::Normal),
        other => panic!("{other:?}"),
    }
    assert!(matches!(socket.read(), Err(tungstenite::Error::ConnectionClosed)));
    server.wait_for_metric("revcast_watchers", 0);
    closes_soon(server);
}

#[test]
fn a_closing_server_says_goodbye_to_all_also_to_those_behind() {
    let server = Server::start(&[]);
    create_all(&server, 30, |number| format!("big{number:02}"), &"z".repeat(200_000));
    let future = server.client().newest() + 1_000_000;
    let mut swift: Vec<WebSocket> = (0..20)
        .map(|_| WebSocket::watch(&server.address, &format!("{WATCH}&resourceVersion={future}")))
        .collect();
    // Reads nothing until the server is told to close: its initial state of 6 MB fills every buffer on the way.
    let mut slow = WebSocket::watch(&server.address, WATCH);
    std::thread::sleep(Duration::from_millis(300));
    let server = std::thread::spawn(move || server.terminate());
    for socket in &mut swift {
        assert_eq!(socket.closing(), 1000);
    }
    let mut seen = 0;
    let code = loop {
        match slow.next_frame().unwrap() {
            Some((TEXT, _)) => seen += 1,
            Some((CLOSE, payload)) => break u16::from_be_bytes([payload[0], payload[1]]),
            other => panic!("a frame was cut: {other:?}"),
        }
    };
    assert_eq!(code, 1000, "after {seen} objects");
    assert!(seen >= 1, "it gets what was under way: {seen}");
    assert_eq!(server.join().unwrap(), Some(0));
}

/// A client that reads slowly gets everything, completely and in order, and costs the server little.
#[test]
fn a_slow_reader_costs_a_page() {
    let server = Server::start(&[]);
    create_all(&server, 400, |number| format!("o{number:04}"), &"x".repeat(50_000));
    let before = server.resident_kb();
    let mut slow: Vec<WebSocket> = (0..40).map(|_| WebSocket::watch(&server.address, WATCH)).collect();
    create_all(&server, 50, |number| format!("p{number:04}"), &"x".repeat(50_000));
    std::thread::sleep(Duration::from_millis(500));
    let grown = server.resident_kb().saturating_sub(before);
    // 40 times 20 MB are owed; pending output is at most 64 KiB and a message. The ring's 50 events are included.
    assert!(grown < 40 * 300 + 50 * 60 * 2 + 20_000, "{grown} KB more for 40 that read nothing");
    for socket in &mut slow {
        for number in 0..450 {
            let (first, text) = socket.next_frame().unwrap().unwrap();
            let name = if number < 400 { format!("o{number:04}") } else { format!("p{:04}", number - 400) };
            assert_eq!((first, told(&text)), (TEXT, format!("ADDED {name}")));
        }
    }
}

#[test]
fn handshakes_that_are_wrong_are_told_how_to_be_right() {
    let server = Server::start(&[]);
    let right = UPGRADE.to_owned();
    let table = [
        (right.replace("Version: 13", "Version: 8"), "Sec-WebSocket-Version: 13"),
        (right.replace("Sec-WebSocket-Version: 13\r\n", ""), "Sec-WebSocket-Version: 13"),
        (right.replace(&format!("Sec-WebSocket-Key: {KEY}\r\n"), ""), "16 random bytes"),
        (right.replace(KEY, "short"), "not 16 bytes"),
    ];
    for (headers, hint) in table {
        let headers: Vec<(&str, &str)> = headers.lines().filter_map(|line| line.split_once(": ")).collect();
        let mut connection = server.client().connect().unwrap();
        let reply = connection.request("GET", WATCH, &headers, &[]).unwrap();
        assert_eq!(reply.status, 400, "{headers:?}");
        assert!(reply.json()["message"].as_str().unwrap().contains(hint), "{}", reply.text());
        let version = hint.contains("Version").then_some("13");
        assert_eq!(reply.header("sec-websocket-version"), version, "{headers:?}");
        assert_eq!(reply.header("connection"), Some("close"));
        assert!(connection.read_to_end().unwrap().is_empty(), "nothing after it");
    }
    let extended = format!("{UPGRADE}Sec-WebSocket-Extensions: permessage-deflate\r\n");
    let opened = WebSocket::open(&server.address, WATCH, &extended).unwrap();
    assert!(
        opened.head.starts_with("HTTP/1.1 101 ") && !opened.head.contains("Extensions"),
        "{}",
        opened.head
    );
    let both = format!("{UPGRADE}Accept-Encoding: gzip\r\n");
    let path =
        format!("{WATCH}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1");
    let mut opened = WebSocket::open(&server.address, &path, &both).unwrap();
    assert!(opened.head.starts_with("HTTP/1.1 101 ") && !opened.head.contains("gzip"), "{}", opened.head);
    assert_eq!(told(&opened.next_frame().unwrap().unwrap().1), "BOOKMARK ");
}

/// As at kube-apiserver: an upgrade needs both headers (RFC 9110, section 7.8), and without one it is a watch in
/// chunks.
#[test]
fn what_asks_for_no_websocket_is_a_plain_watch() {
    let server = Server::start(&[]);
    let plain = format!("{WATCH}&timeoutSeconds=1");
    let without = |line: &str| UPGRADE.replace(line, "");
    for headers in [
        "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n".to_owned(),
        without("Connection: Upgrade\r\n"),
        without("Connection: Upgrade\r\n") + "Connection: keep-alive\r\n",
        without("Upgrade: websocket\r\n"),
    ] {
        let headers: Vec<(&str, &str)> = headers.lines().filter_map(|line| line.split_once(": ")).collect();
        let mut connection = server.client().connect().unwrap().watch(&plain, &headers).unwrap();
        assert!(
            connection
                .headers()
                .iter()
                .any(|header| header == &("transfer-encoding".into(), "chunked".into()))
        );
        assert_eq!(connection.next_chunk().unwrap(), None, "{headers:?}");
        // The connection is unchanged.
        let mut connection = connection.into_connection();
        assert_eq!(connection.request("GET", "/livez", &[], &[]).unwrap().status, 200, "{headers:?}");
    }
    for headers in [
        UPGRADE.to_ascii_lowercase().replace(&KEY.to_ascii_lowercase(), KEY),
        UPGRADE.replace("Connection: Upgrade", "Connection: keep-alive\r\nConnection: x, UPGRADE"),
    ] {
        let opened = WebSocket::open(&server.address, WATCH, &headers).unwrap();
        assert!(opened.head.starts_with("HTTP/1.1 101 "), "{headers}: {}", opened.head);
    }
}

#[test]
fn rows_54_to_60_over_the_wire() {
    let server = Server::start(&[]);
    let unmasked = vec![TEXT, 2, b'h', b'i'];
    let table: Vec<(&str, Vec<u8>, u16)> = vec![
        ("unmasked", unmasked, 1002),
        ("RSV1 of permessage-deflate", frame(0xc1, b"bomb"), 1002),
        ("an opcode that is none", frame(0x83, b""), 1002),
        ("a ping in fragments", frame(0x09, b""), 1002),
        ("a ping of 126 bytes", frame(PING, &[0; 126]), 1002),
        ("64 KiB and one byte", frame(BINARY, &[0; 65_537]), 1009),
        ("text that is none", frame(TEXT, b"\xff"), 1007),
        ("a close with a bad reason", frame(CLOSE, b"\x03\xe8\xff"), 1007),
        ("half a code", frame(CLOSE, b"\x03"), 1002),
        ("a close", frame(CLOSE, b"\x03\xe9"), 1001),
        ("a close without a code", frame(CLOSE, b""), 1000),
        (
            "data, and a close",
            [frame(TEXT, b"hello"), frame(BINARY, &[0; 65_536]), frame(CLOSE, b"")].concat(),
            1000,
        ),
    ];
    for (what, bytes, code) in table {
        for pieces in [1, 2, 7] {
            let mut socket = WebSocket::watch(&server.address, WATCH);
            for piece in bytes.chunks(bytes.len().div_ceil(pieces)) {
                // The server may have closed already.
                let _ = socket.write_raw(piece);
                std::thread::sleep(Duration::from_millis(if pieces > 1 { 2 } else { 0 }));
            }
            assert_eq!(socket.closing(), code, "{what}, in {pieces}");
        }
    }
    server.wait_for_metric("revcast_watchers", 0);
    // With the handshake in one segment: bytes after the request's head are read as well.
    let early = [UPGRADE.as_bytes(), b"\r\n", &frame(PING, b"early")].concat();
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(&[format!("GET {WATCH} HTTP/1.1\r\nHost: a\r\n").as_bytes(), &early].concat()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\x8a\x05early") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    drop(stream);
    closes_soon(server);
}

/// One floods with pings and never reads, one sends without end: the others get every event, and the server stays
/// small.
#[test]
fn a_flood_changes_nothing_for_the_others() {
    let server = Server::start(&[]);
    let mut other = WebSocket::watch(&server.address, &format!("{WATCH}&resourceVersion=0"));
    // A new server grows until its OpenAPI document is made.
    assert_eq!(server.client().get("/openapi/v2").status, 200);
    let before = server.resident_kb();
    let talk = |said: Vec<u8>| {
        let mut socket = WebSocket::watch(&server.address, WATCH);
        socket.socket().set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        std::thread::spawn(move || {
            let end = Instant::now() + Duration::from_secs(3);
            while Instant::now() < end {
                match socket.write_raw(&said) {
                    Ok(()) => {}
                    // Half a frame may have been sent; what follows is noise then, which serves as well.
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                    Err(_) => break,
                }
            }
        })
    };
    let pings: Vec<u8> = (0..2_000).flat_map(|_| frame(PING, &[b'p'; 125])).collect();
    let texts: Vec<u8> = (0..20).flat_map(|_| frame(TEXT, &[b't'; 60_000])).collect();
    let cpu = server.cpu_time();
    let floods: Vec<_> = [&pings, &pings, &texts].into_iter().map(|said| talk(said.clone())).collect();
    let client = server.client();
    for number in 0..100 {
        let name = format!("n{number:03}");
        create(&client, &name, "1");
        assert_eq!(told(&other.next_frame().unwrap().unwrap().1), format!("ADDED {name}"));
    }
    for flood in floods {
        flood.join().unwrap();
    }
    let grown = server.resident_kb().saturating_sub(before);
    assert!(grown < 20_000, "{grown} KB more");
    let spent = server.cpu_time().saturating_sub(cpu);
    assert!(spent < Duration::from_secs(2), "the server spent {spent:?} on 3 s of flood");
    other.write_raw(&frame(PING, b"well?")).unwrap();
    assert_eq!(other.next_frame().unwrap().unwrap(), (PONG, b"well?".to_vec()));
}

/// 300 at once, in three phases, while events come: each gets every object once.
#[test]
fn hundreds_at_once_see_everything() {
    let server = Server::start(&[]);
    create_all(&server, 200, |number| format!("a{number:03}"), &"x".repeat(1_000));
    let list = server.client().get("/api/v1/namespaces/w/configmaps").json();
    let from = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let watch = |path: &str| WebSocket::watch(&server.address, path);
    let mut sockets: Vec<(usize, WebSocket)> = Vec::new();
    for _ in 0..100 {
        sockets.push((0, watch(WATCH)));
        sockets.push((200, watch(&format!("{WATCH}&resourceVersion={from}"))));
        sockets.push((0, watch(&format!("{WATCH}&fieldSelector=metadata.name!=nobody"))));
    }
    create_all(&server, 200, |number| format!("b{number:03}"), &"x".repeat(1_000));
    let mut names: Vec<String> = (0..200).map(|number| format!("ADDED a{number:03}")).collect();
    names.extend((0..200).map(|number| format!("ADDED b{number:03}")));
    for (start, socket) in &mut sockets {
        for name in &names[*start..] {
            let (first, text) = socket.next_frame().unwrap().unwrap();
            assert_eq!((first, &told(&text)), (TEXT, name));
        }
    }
    assert_eq!(server.metric("revcast_watchers"), 300);
    // Vanished clients are forgotten.
    drop(sockets);
    server.wait_for_metric("revcast_watchers", 0);
    closes_soon(server);
}
