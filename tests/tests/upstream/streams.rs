//! Replies that go on for long: each piece arrives at once, and nobody waits for a side that is gone.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use revcast_tests::upstream::Next;

use super::Pair;

const WAIT: Duration = Duration::from_secs(10);
/// A piece usually takes less than a millisecond.
const SOON: Duration = Duration::from_millis(50);
/// So many replies of which all pieces must arrive so soon in one.
const ATTEMPTS: usize = 4;

/// Watches and logs of the upstream: every piece is passed on when it comes, whatever the client's version of HTTP.
#[test]
fn each_piece_arrives_at_once() {
    let pair = Pair::new(&["--upstream-timeout", "1s"]);
    let (sent, times) = mpsc::channel::<Instant>();
    let sent = Mutex::new(sent);
    for (path, head) in [
        ("/apis/example.com/v1/things", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ("/api/v1/namespaces/t/pods/a/log", "HTTP/1.1 200 OK\r\n\r\n"),
    ] {
        let sent = sent.lock().unwrap().clone();
        let sent = Mutex::new(sent);
        pair.upstream.on(path, move |exchange| {
            exchange.send(head)?;
            for number in 0..8 {
                std::thread::sleep(Duration::from_millis(20));
                sent.lock().unwrap().send(Instant::now()).unwrap();
                let line = format!("line {number}\n");
                if head.contains("chunked") {
                    exchange.send(format!("{:x}\r\n{line}\r\n", line.len()))?;
                } else {
                    exchange.send(line)?;
                }
            }
            // Longer than the timeout of replies that have not begun.
            std::thread::sleep(Duration::from_millis(1200));
            exchange.send(if head.contains("chunked") { "4\r\nlast\r\n0\r\n\r\n" } else { "last" })?;
            Ok(Next::Close)
        });
    }
    let slowest = |path: &str, version: &str| {
        let mut stream = TcpStream::connect(&pair.server.address).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        write!(stream, "GET {path} HTTP/{version}\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
        let (mut got, mut piece) = (String::new(), [0; 4096]);
        let mut slowest = Duration::ZERO;
        for number in 0..8 {
            while !got.contains(&format!("line {number}\n")) {
                let read = stream.read(&mut piece).unwrap();
                assert!(read > 0, "{path}: {got}");
                got += std::str::from_utf8(&piece[..read]).unwrap();
            }
            slowest = slowest.max(times.recv_timeout(WAIT).unwrap().elapsed());
        }
        stream.read_to_string(&mut got).unwrap();
        assert!(got.contains("last"), "{path} in HTTP/{version}: {got}");
        slowest
    };
    for path in ["/apis/example.com/v1/things?watch=true", "/api/v1/namespaces/t/pods/a/log?follow=true"] {
        for version in ["1.1", "1.0"] {
            // On a busy machine both ends of it may be late.
            let is_prompt = (0..ATTEMPTS).any(|_| slowest(path, version) < SOON);
            assert!(is_prompt, "{path} in HTTP/{version}: later than {SOON:?} in each of {ATTEMPTS}");
        }
    }
}

/// The head of a reply is passed on before there is a body.
#[test]
fn a_head_does_not_wait_for_its_body() {
    let pair = Pair::new(&[]);
    let (go, gone) = mpsc::channel::<()>();
    let gone = Mutex::new(gone);
    pair.upstream.on("/x", move |exchange| {
        exchange.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        gone.lock().unwrap().recv_timeout(WAIT).unwrap();
        exchange.send("2\r\nhi\r\n0\r\n\r\n")?;
        Ok(Next::KeepAlive)
    });
    let mut watch = pair.client().watch("/x").unwrap();
    go.send(()).unwrap();
    assert_eq!(watch.next_chunk().unwrap().as_deref(), Some("hi"));
    assert_eq!(watch.next_chunk().unwrap(), None);
    // The connection goes on after its end.
    let reply = watch.into_connection().request("GET", "/y", &[], b"").unwrap();
    assert_eq!(reply.text(), "/y");
}

/// When a client goes, the upstream sees it: before the reply, within it, and while nothing is sent.
#[test]
fn a_client_that_goes_takes_its_request_along() {
    let pair = Pair::new(&[]);
    let (told, closed) = mpsc::channel::<(String, bool)>();
    let told = Arc::new(Mutex::new(told));
    for (path, head) in [
        ("/hung", ""),
        ("/silent", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n"),
        ("/length", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhi"),
    ] {
        let told = Arc::clone(&told);
        pair.upstream.on(path, move |exchange| {
            exchange.read_body(|_| ())?;
            exchange.send(head)?;
            let closed = exchange.await_close().is_ok();
            told.lock().unwrap().send((path.to_owned(), closed)).unwrap();
            Ok(Next::Close)
        });
    }
    for path in ["/hung", "/silent", "/length"] {
        for method in ["GET", "POST"] {
            let mut connection = pair.client().connect().unwrap();
            let head = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\n{{}}");
            connection.write_raw(head.as_bytes()).unwrap();
            let asked = pair.upstream.asked().len();
            let since = Instant::now();
            while pair.upstream.asked().len() == asked && since.elapsed() < Duration::from_millis(200) {
                std::thread::sleep(Duration::from_millis(5));
            }
            drop(connection);
            let went = Instant::now();
            let told = closed.recv_timeout(WAIT).expect("the upstream is told");
            assert_eq!(told, (path.to_owned(), true));
            assert!(went.elapsed() < Duration::from_secs(1), "{method} {path}: {:?}", went.elapsed());
        }
    }
    pair.server.wait_for_metric("revcast_upstream_connections", 0);
}

/// A client that asks for more while a reply is under way gets it after that.
#[test]
fn what_a_client_sends_ahead_waits() {
    let pair = Pair::new(&[]);
    let (go, gone) = mpsc::channel::<()>();
    let gone = Mutex::new(gone);
    pair.upstream.on("/slow", move |exchange| {
        exchange.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")?;
        gone.lock().unwrap().recv_timeout(WAIT).unwrap();
        exchange.send("0\r\n\r\n")?;
        Ok(Next::KeepAlive)
    });
    let mut watch = pair.client().watch("/slow").unwrap();
    assert_eq!(watch.next_chunk().unwrap().as_deref(), Some("hi"));
    watch
        .connection()
        .write_raw(b"POST /next HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\n{}")
        .unwrap();
    assert!(watch.is_quiet_for(Duration::from_millis(50)));
    go.send(()).unwrap();
    assert_eq!(watch.next_chunk().unwrap(), None);
    assert_eq!(watch.into_connection().read_response(true).unwrap().text(), "/next");
}

/// Streams and tunnels keep a server from ending no longer than its grace: their clients go on with another one.
#[test]
fn a_server_ends_while_streams_are_under_way() {
    let pair = Pair::new(&["--drain-grace", "500ms"]);
    for (path, head) in [
        ("/stream", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n"),
        ("/tunnel", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"),
    ] {
        pair.upstream.on(path, move |exchange| {
            exchange.send(head)?;
            exchange.await_close().map(|_| Next::Close)
        });
    }
    let mut watch = pair.client().watch("/stream").unwrap();
    assert_eq!(watch.next_chunk().unwrap().as_deref(), Some("hi"));
    let mut tunnel = pair.client().connect().unwrap();
    tunnel
        .write_raw(b"GET /tunnel HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
        .unwrap();
    assert_eq!(tunnel.read_response(true).unwrap().status, 101);
    let Pair { server, upstream } = pair;
    let since = Instant::now();
    assert_eq!(server.terminate(), Some(0));
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    assert!(watch.next_chunk().is_err(), "it is not taken for its end");
    assert_eq!(tunnel.read_to_end().unwrap_or_default(), b"");
    drop(upstream);
}
