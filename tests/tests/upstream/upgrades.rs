//! Upgrades: the bytes that follow them, in both directions, with TLS on either side; and refusals.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use revcast_tests::certs::Authority;
use revcast_tests::client::{Client, Connection};
use revcast_tests::server::{Scratch, Server};
use revcast_tests::tls::{Stream, Trust};
use revcast_tests::upstream::{Exchange, Link, Next, Upstream};
use rustls::ClientConnection;
use rustls::client::ClientConnectionData;
use rustls::server::ServerConnectionData;

use super::duplex::{Finish, Plan, exchange};
use super::{Pair, Pattern};

const EXEC: &str = "/api/v1/namespaces/t/pods/a/exec";
const WAIT: Duration = Duration::from_secs(10);
/// Bytes of each direction.
const MANY: u64 = 64 << 20;
/// Bytes that are sent with a head.
const EARLY: u64 = 3000;

/// The head of a request for an upgrade.
fn asking(protocol: &str) -> String {
    // As kubectl asks for each.
    let method = if protocol == "websocket" { "GET" } else { "POST" };
    format!(
        "{method} {EXEC}?command=cat&stdin=true HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\
         X-Stream-Protocol-Version: v4.channel.k8s.io\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
    )
}

fn taking(protocol: &str) -> String {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\
         X-Stream-Protocol-Version: v4.channel.k8s.io\r\nSec-WebSocket-Accept: x\r\n\r\n"
    )
}

/// Reads a head and nothing behind it.
fn read_head(stream: &mut Stream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// A connection that was upgraded.
fn upgraded(client: &Client, protocol: &str) -> Connection {
    let mut connection = client.connect().unwrap();
    connection.write_raw(asking(protocol).as_bytes()).unwrap();
    let head = read_head(connection.stream());
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    connection
}

/// The upstream's end: it takes the upgrade, and sends the first bytes with it.
fn serve(exchanged: &mut Exchange<'_>, protocol: &str, finish: Finish) -> u64 {
    let (before, link) = exchanged.raw();
    let first = Pattern::default().next(EARLY);
    link.write_all(&[taking(protocol).as_bytes(), first].concat()).unwrap();
    link.flush().unwrap();
    let plan = Plan { send: MANY, sent_before: EARLY, finish };
    match link {
        Link::Plain(socket) => exchange::<ServerConnectionData>(socket, None, &before, plan),
        Link::Tls(stream) => {
            let stream = &mut **stream;
            exchange::<ServerConnectionData>(&stream.sock, Some(&mut stream.conn), &before, plan)
        }
    }
}

/// The client's end: it sends the first bytes with its request, before it knows.
fn ask(client: &Client, protocol: &str, finish: Finish) -> u64 {
    let mut connection = client.connect().unwrap();
    let first = Pattern::default().next(EARLY);
    connection.write_raw(&[asking(protocol).as_bytes(), first].concat()).unwrap();
    let stream = connection.stream();
    let head = read_head(stream);
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    for line in [
        "Connection: Upgrade",
        &format!("Upgrade: {protocol}"),
        "X-Stream-Protocol-Version: v4.channel.k8s.io",
        "Sec-Websocket-Accept: x",
    ] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{line}: {head}");
    }
    assert!(!head.contains("Content-Length") && !head.contains("Transfer-Encoding"), "{head}");
    let plan = Plan { send: MANY, sent_before: EARLY, finish };
    match stream {
        Stream::Plain(socket) => exchange::<ClientConnectionData>(socket, None, &[], plan),
        Stream::Tls(stream) => {
            let stream = &mut **stream;
            let session: &mut ClientConnection = &mut stream.conn;
            exchange::<ClientConnectionData>(&stream.sock, Some(session), &[], plan)
        }
    }
}

/// Bytes both ways at once, compared at both ends. Each side has its turn to be the first that has sent all, and to be sent the
/// rest after that.
fn passes(client_tls: bool, upstream_tls: bool) {
    let scratch = Scratch::new(&format!("upgrades-{client_tls}-{upstream_tls}"));
    let authority = Authority::new(Path::new(scratch.path()), "ca");
    let identity = authority.server();
    let trust = Trust::of(&authority.certificate());
    let upstream = if upstream_tls { Upstream::start_with_tls(&identity, None) } else { Upstream::start() };
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let mut options = vec!["--upstream".to_owned(), upstream.url(), "--shards".to_owned(), "1".to_owned()];
    if upstream_tls {
        options.extend(["--upstream-ca".to_owned(), text(&authority.certificate())]);
    }
    if client_tls {
        options.extend([
            "--tls-cert".to_owned(),
            text(&identity.cert),
            "--tls-key".to_owned(),
            text(&identity.key),
        ]);
    }
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let server = if client_tls { Server::start_with_tls(&trust, &options) } else { Server::start(&options) };
    let before = server.resident_kb();
    for (protocol, client_finishes, upstream_finishes) in
        [("SPDY/3.1", Finish::First, Finish::Last), ("websocket", Finish::Last, Finish::First)]
    {
        let (told, received) = mpsc::channel();
        let told = Mutex::new(told);
        let (name, since) = (protocol.to_owned(), Instant::now());
        upstream.on(EXEC, move |exchanged| {
            let received = serve(exchanged, &name, upstream_finishes);
            told.lock().unwrap().send(received).unwrap();
            Ok(Next::Close)
        });
        let what = format!("{protocol}, TLS of the client {client_tls}, of the upstream {upstream_tls}");
        assert_eq!(ask(&server.client(), protocol, client_finishes), MANY, "{what}");
        assert_eq!(received.recv_timeout(WAIT), Ok(MANY), "{what}");
        let asked = upstream.last();
        assert_eq!(asked.header("upgrade").as_deref(), Some(protocol), "{what}");
        assert_eq!(asked.header("connection").as_deref(), Some("Upgrade"), "{what}");
        assert_eq!(asked.header("sec-websocket-protocol").as_deref(), Some("v5.channel.k8s.io"), "{what}");
        eprintln!("{what}: {} MiB each way in {:?}", MANY >> 20, since.elapsed());
    }
    server.wait_for_metric("revcast_upstream_connections", 0);
    let peak = server.peak_kb();
    eprintln!("{before} KiB before, {peak} KiB at most");
    assert!(peak < before + (24 << 10), "{before} KiB before, {peak} KiB at most");
}

#[test]
fn bytes_pass_without_tls() {
    passes(false, false);
}

#[test]
fn bytes_pass_from_tls_to_plain() {
    passes(true, false);
}

#[test]
fn bytes_pass_from_plain_to_tls() {
    passes(false, true);
}

#[test]
fn bytes_pass_from_tls_to_tls() {
    passes(true, true);
}

/// Small messages are not held back, in either direction.
#[test]
fn each_message_arrives_at_once() {
    let pair = Pair::new(&[]);
    pair.upstream.on(EXEC, |exchanged| {
        exchanged.send(taking("websocket"))?;
        let (_, link) = exchanged.raw();
        let mut piece = [0; 100];
        loop {
            match link.read(&mut piece)? {
                0 => return Ok(Next::Close),
                read => link.write_all(&piece[..read])?,
            }
        }
    });
    let mut connection = upgraded(&pair.client(), "websocket");
    let since = Instant::now();
    for number in 0..50_u8 {
        connection.write_raw(&[number; 10]).unwrap();
        let mut answer = [0; 10];
        connection.stream().read_exact(&mut answer).unwrap();
        assert_eq!(answer, [number; 10]);
    }
    assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
}

#[test]
fn a_refusal_is_passed_on_and_ends_the_connection() {
    let pair = Pair::new(&[]);
    pair.upstream.on(EXEC, |exchange| {
        exchange.reply("403 Forbidden\nContent-Type: application/json", "{\"code\":403}")
    });
    for protocol in ["websocket", "SPDY/3.1"] {
        let mut connection = pair.client().connect().unwrap();
        // What follows is of the other protocol, even if it reads like a request.
        let early = "GET /smuggled HTTP/1.1\r\nHost: test\r\n\r\n";
        connection.write_raw(format!("{}{early}", asking(protocol)).as_bytes()).unwrap();
        let reply = connection.read_response(true).unwrap();
        assert_eq!((reply.status, reply.text().as_str()), (403, "{\"code\":403}"));
        assert_eq!(reply.header("connection"), Some("close"));
        assert_eq!(connection.read_to_end().unwrap(), b"");
    }
    assert!(pair.upstream.asked().iter().all(|asked| asked.target() != "/smuggled"));
    // One that names no protocol is none.
    pair.upstream.on_bytes(EXEC, "HTTP/1.1 101 Switching Protocols\r\n\r\nwhatever");
    let mut connection = pair.client().connect().unwrap();
    connection.write_raw(asking("websocket").as_bytes()).unwrap();
    assert_eq!(connection.read_response(true).unwrap().status, 502);
}

/// What would let requests past the rules for heads.
#[test]
fn another_http_is_no_upgrade() {
    let pair = Pair::new(&[]);
    for upgrade in ["h2c", "HTTP/2.0", "websocket, h2c"] {
        let headers = [
            ("Connection", "Upgrade, HTTP2-Settings"),
            ("Upgrade", upgrade),
            ("HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA"),
        ];
        let reply = pair.client().request("GET", "/x", &headers, b"");
        assert_eq!((reply.status, reply.text().as_str()), (200, "/x"), "{upgrade}");
        let asked = pair.upstream.last();
        assert!(
            !asked
                .names()
                .iter()
                .any(|name| ["upgrade", "connection", "http2-settings"].contains(&name.as_str()))
        );
    }
}

/// When one side is gone the other is told.
#[test]
fn a_side_that_dies_ends_the_other() {
    let mut pair = Pair::new(&[]);
    let (told, ended) = mpsc::channel();
    let told = Mutex::new(told);
    pair.upstream.on(EXEC, move |exchange| {
        exchange.send(taking("SPDY/3.1"))?;
        let rest = exchange.await_close()?;
        told.lock().unwrap().send(rest).unwrap();
        Ok(Next::Close)
    });
    let mut connection = upgraded(&pair.client(), "SPDY/3.1");
    connection.write_raw(b"bye").unwrap();
    drop(connection);
    let since = Instant::now();
    assert_eq!(ended.recv_timeout(WAIT).unwrap(), b"bye");
    assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
    let mut connection = upgraded(&pair.client(), "SPDY/3.1");
    let since = Instant::now();
    pair.upstream.stop();
    assert_eq!(connection.read_to_end().unwrap_or_default(), b"");
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    drop(connection);
    pair.server.wait_for_metric("revcast_upstream_connections", 0);
    let mut connection = pair.client().connect().unwrap();
    connection.write_raw(asking("websocket").as_bytes()).unwrap();
    assert_eq!(connection.read_response(true).unwrap().status, 502);
}
