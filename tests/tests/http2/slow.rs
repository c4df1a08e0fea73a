//! Clients that are slow in what must be quick: the preface, SETTINGS, and field blocks. All at the same time, for each takes
//! as long as the server waits.

use std::time::{Duration, Instant};

use revcast_tests::http2::{Connection, Frame, PREFACE, Read, flag, hpack as packed};
use revcast_tests::server::Server;

use super::{is_well, post, watch};

/// How long the server may wait (10 s are announced in its documents), and then some.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends a byte at a time until the server closes, or for too long. Whether it closed.
fn drips(connection: &mut Connection, bytes: &[u8]) -> bool {
    let deadline = Instant::now() + PATIENCE;
    let mut bytes = bytes.iter();
    while Instant::now() < deadline {
        if let Some(byte) = bytes.next() {
            let _ = connection.send_raw(&[*byte]);
        }
        if is_closed(connection, Duration::from_millis(700)) {
            return true;
        }
    }
    false
}

/// Reads for so long, whatever comes: also words of HTTP/1.1, before the preface is complete.
fn is_closed(connection: &mut Connection, time: Duration) -> bool {
    use std::io::Read as _;
    let deadline = Instant::now() + time;
    let stream = connection.stream();
    let mut buffer = [0; 4_096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        stream.socket().set_read_timeout(Some(left)).unwrap();
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => {
                let waiting = [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut];
                return !waiting.contains(&error.kind());
            }
        }
    }
}

#[test]
fn slow_clients_are_closed() {
    let server = Server::start(&[]);
    let nothing = |first: &[u8]| {
        let mut connection = Connection::dial(&server.address);
        connection.send_raw(first).unwrap();
        is_closed(&mut connection, PATIENCE)
    };
    let block = packed::request("GET", "/readyz", &[("x-a", &"long".repeat(100))]);
    let unended = Frame::headers(1, flag::END_STREAM, &block[..10]);
    let silent = |frames: &[Frame]| {
        let mut connection = Connection::open(&server.address);
        connection.send_all(frames);
        is_closed(&mut connection, PATIENCE)
    };
    let long_frame = Frame::headers(1, flag::WHOLE, block.clone()).bytes();
    std::thread::scope(|scope| {
        let ways = [
            ("a preface that stops", scope.spawn(|| nothing(&PREFACE[..10]))),
            ("a preface without SETTINGS", scope.spawn(|| nothing(PREFACE))),
            (
                "a preface in single bytes",
                scope.spawn(|| drips(&mut Connection::dial(&server.address), PREFACE)),
            ),
            (
                "SETTINGS that stop inside",
                scope.spawn(|| nothing(&[PREFACE, &Frame::settings(&[(1, 1)]).bytes()[..12]].concat())),
            ),
            ("a field block that stops", scope.spawn(|| silent(std::slice::from_ref(&unended)))),
            (
                "a field block that stops, beside a watch",
                scope.spawn(|| silent(&[watch(1), Frame { stream: 3, ..unended.clone() }])),
            ),
            (
                "a field block in a CONTINUATION for each byte",
                scope.spawn(|| {
                    let mut connection = Connection::open(&server.address);
                    connection.send(unended.clone());
                    let deadline = Instant::now() + PATIENCE;
                    for byte in &block[10..] {
                        connection.send(Frame::continuation(1, 0, [*byte]));
                        if Instant::now() > deadline || is_closed(&mut connection, Duration::from_millis(700))
                        {
                            break;
                        }
                    }
                    Instant::now() < deadline
                }),
            ),
            (
                "a frame of a field block in single bytes",
                scope.spawn(|| drips(&mut Connection::open(&server.address), &long_frame)),
            ),
        ];
        let mut open = Vec::new();
        for (what, way) in ways {
            if !way.join().unwrap() {
                open.push(what);
            }
        }
        assert!(open.is_empty(), "these stay open: {open:?}");
    });
    server.wait_for_metric("revcast_watchers", 0);
    is_well(&server);
}

/// A client that is quiet between requests, or inside a body for a while, is not slow in that sense.
#[test]
fn quiet_clients_are_not_slow() {
    let server = Server::start(&[]);
    std::thread::scope(|scope| {
        let _watching = scope.spawn(|| {
            let mut connection = Connection::open(&server.address);
            let stream = connection.request("GET", super::QUIET, &[], true);
            assert_eq!(connection.head(stream).status, 200);
            let quiet = Instant::now() + Duration::from_secs(13);
            while Instant::now() < quiet {
                assert_ne!(connection.read(Duration::from_secs(1)), Read::End);
            }
            connection.expect_alive();
        });
        let _idle = scope.spawn(|| {
            let mut connection = Connection::open(&server.address);
            let quiet = Instant::now() + Duration::from_secs(13);
            while Instant::now() < quiet {
                assert_ne!(connection.read(Duration::from_secs(1)), Read::End);
            }
            connection.expect_alive();
        });
        let _sending = scope.spawn(|| {
            let mut connection = Connection::open(&server.address);
            connection.send(post(1));
            let body = super::object("slowly", "1");
            for byte in &body[..body.len() - 1] {
                connection.send(Frame::data(1, 0, [*byte]));
                let _ = connection.read(Duration::from_millis(50));
            }
            connection.send(Frame::data(1, flag::END_STREAM, &body[body.len() - 1..]));
            assert_eq!(connection.response(1).status, 201);
        });
    });
}
