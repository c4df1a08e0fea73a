//! WebSockets over HTTP/2 (RFC 8441).

use std::time::Duration;

use revcast_tests::http2::{Connection, Frame, Outcome, code, flag, hpack as packed};
use revcast_tests::server::Server;
use revcast_tests::websocket::{CLOSE, PING, PONG, TEXT, frame};
use serde_json::Value;

use super::case::{Case, Expect, frames, run};
use super::{PATH, create, is_well};

const CONNECT: (&str, &str) = (":method", "CONNECT");
const PROTOCOL: (&str, &str) = (":protocol", "websocket");
const SCHEME: (&str, &str) = (":scheme", "http");
const AUTHORITY: (&str, &str) = (":authority", "test");
const QUIET: (&str, &str) = (":path", super::QUIET);
const VERSION: (&str, &str) = ("sec-websocket-version", "13");

fn head(fields: &[(&str, &str)]) -> Vec<u8> {
    packed::block(fields)
}

/// Opens a watch as a WebSocket.
fn open(connection: &mut Connection, path: &str) -> u32 {
    let stream = connection.next_stream();
    let fields = [CONNECT, PROTOCOL, SCHEME, AUTHORITY, (":path", path), VERSION];
    connection.send(Frame::headers(stream, flag::END_HEADERS, head(&fields)));
    stream
}

/// What a WebSocket received: the frames of the server in a stream, without masks.
struct Socket {
    stream: u32,
    taken: usize,
}

impl Socket {
    fn watch(connection: &mut Connection, path: &str) -> Self {
        let stream = open(connection, path);
        let head = connection.head(stream);
        assert_eq!(head.status, 200, "{}", head.text());
        for name in ["sec-websocket-accept", "upgrade", "connection"] {
            assert_eq!(head.field(name), None, "section 5 leaves it out");
        }
        Self { stream, taken: 0 }
    }

    fn next(&mut self, connection: &mut Connection) -> (u8, Vec<u8>) {
        let mut part = |from: usize, count: usize| {
            connection.body(self.stream, from + count)[from..from + count].to_vec()
        };
        let head = part(self.taken, 2);
        assert!(head[1] < 0x80, "a server's frames are not masked");
        let (len, more) = match head[1] {
            126 => (u16::from_be_bytes(*part(self.taken + 2, 2).first_chunk().unwrap()).into(), 2),
            127 => {
                (u64::from_be_bytes(*part(self.taken + 2, 8).first_chunk().unwrap()).try_into().unwrap(), 8)
            }
            short => (usize::from(short), 0),
        };
        let payload = part(self.taken + 2 + more, len);
        self.taken += 2 + more + len;
        (head[0], payload)
    }

    /// `ADDED name`.
    fn told(&mut self, connection: &mut Connection) -> String {
        let (first, text) = self.next(connection);
        assert_eq!(first, TEXT);
        let event: Value = serde_json::from_slice(&text).unwrap();
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        format!("{} {}", word(&event["type"]), word(&event["object"]["metadata"]["name"]))
    }

    fn send(&self, connection: &mut Connection, first: u8, payload: &[u8]) {
        connection.send(Frame::data(self.stream, 0, frame(first, payload)));
    }
}

#[test]
fn a_watch_is_a_websocket_in_data() {
    let server = Server::start(&[]);
    create(&server.client(), "a", "1");
    let mut connection = Connection::open(&server.address);
    let mut socket = Socket::watch(&mut connection, &format!("{PATH}?watch=1"));
    assert_eq!(socket.told(&mut connection), "ADDED a");
    create(&server.client(), "b", &"y".repeat(40_000));
    create(&server.client(), "c", "1");
    assert_eq!(socket.told(&mut connection), "ADDED b");
    assert_eq!(socket.told(&mut connection), "ADDED c");
    socket.send(&mut connection, PING, b"are you there");
    assert_eq!(socket.next(&mut connection), (PONG, b"are you there".to_vec()));
    // Others go on beside it.
    connection.expect_alive();
    socket.send(&mut connection, CLOSE, &1_000_u16.to_be_bytes());
    assert_eq!(socket.next(&mut connection), (CLOSE, 1_000_u16.to_be_bytes().to_vec()));
    connection.send(Frame::data(socket.stream, flag::END_STREAM, []));
    connection.response(socket.stream);
    server.wait_for_metric("revcast_watchers", 0);
    connection.expect_alive();
}

/// Frames of a WebSocket and frames of HTTP/2 have nothing to do with each other.
#[test]
fn a_websocket_frame_may_be_cut_anywhere() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    let mut socket = Socket::watch(&mut connection, &format!("{PATH}?watch=1"));
    let bytes = [frame(PING, b"one"), frame(PING, b"two")].concat();
    for byte in &bytes {
        connection.send(Frame::padded_data(socket.stream, 0, &[*byte], 3));
        connection.send(Frame::data(socket.stream, 0, []));
    }
    let mut pongs = vec![socket.next(&mut connection)];
    // The newest of several pings may be answered alone (RFC 6455, section 5.5.3).
    if pongs[0].1 != b"two" {
        pongs.push(socket.next(&mut connection));
    }
    assert_eq!(pongs.last().unwrap(), &(PONG, b"two".to_vec()));
}

#[test]
fn a_websocket_ends_with_a_close_and_end_stream() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    let mut socket = Socket::watch(&mut connection, &format!("{PATH}?watch=1&timeoutSeconds=1"));
    assert_eq!(socket.next(&mut connection), (CLOSE, 1_000_u16.to_be_bytes().to_vec()));
    socket.send(&mut connection, CLOSE, &1_000_u16.to_be_bytes());
    connection.send(Frame::data(socket.stream, flag::END_STREAM, []));
    let outcome = connection.outcome(socket.stream, Duration::from_secs(10));
    assert_eq!(outcome, Outcome::Answered(200));
    server.wait_for_metric("revcast_watchers", 0);
    connection.expect_alive();
}

/// Section 5: END_STREAM is the end of TCP in one direction, RST_STREAM with CANCEL is its reset.
#[test]
fn a_client_that_ends_its_websocket_is_forgotten() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    let first = Socket::watch(&mut connection, super::QUIET);
    let second = Socket::watch(&mut connection, super::QUIET);
    let mut third = Socket::watch(&mut connection, &format!("{PATH}?watch=1"));
    server.wait_for_metric("revcast_watchers", 3);
    connection.send(Frame::data(first.stream, flag::END_STREAM, []));
    connection.send(Frame::reset(second.stream, code::CANCEL));
    server.wait_for_metric("revcast_watchers", 1);
    create(&server.client(), "still", "1");
    assert_eq!(third.told(&mut connection), "ADDED still");
    connection.expect_alive();
}

/// A frame that is wrong ends its stream, and no other.
#[test]
fn a_wrong_websocket_frame_ends_its_stream_alone() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    let mut other = Socket::watch(&mut connection, &format!("{PATH}?watch=1"));
    for (wrong, status) in
        [(vec![TEXT, 2, b'h', b'i'], 1002_u16), (frame(0x83, b""), 1002), (frame(TEXT, b"\xff"), 1007)]
    {
        let mut socket = Socket::watch(&mut connection, super::QUIET);
        connection.send(Frame::data(socket.stream, 0, wrong));
        let (first, payload) = socket.next(&mut connection);
        assert_eq!((first, payload.get(..2)), (CLOSE, Some(&status.to_be_bytes()[..])));
    }
    create(&server.client(), "still", "1");
    assert_eq!(other.told(&mut connection), "ADDED still");
    connection.expect_alive();
}

#[test]
fn handshakes() {
    let of = |id, says, fields: &[(&str, &str)], expect| -> Case {
        frames(id, says, vec![Frame::headers(1, flag::END_HEADERS, head(fields))], expect)
    };
    let get = (":method", "GET");
    let all = [CONNECT, PROTOCOL, SCHEME, AUTHORITY, QUIET, VERSION];
    let malformed = Expect::Malformed(1);
    run(&[
        of(
            "8441-4-without-connect",
            ":protocol is CONNECT's",
            &[get, PROTOCOL, SCHEME, AUTHORITY, QUIET, VERSION],
            malformed.clone(),
        ),
        of(
            "8441-4-post",
            "also not POST's",
            &[(":method", "POST"), PROTOCOL, SCHEME, AUTHORITY, QUIET],
            malformed.clone(),
        ),
        of(
            "8441-4-no-scheme",
            "no :scheme",
            &[CONNECT, PROTOCOL, AUTHORITY, QUIET, VERSION],
            malformed.clone(),
        ),
        of("8441-4-no-path", "no :path", &[CONNECT, PROTOCOL, SCHEME, AUTHORITY, VERSION], malformed.clone()),
        of(
            "8441-4-path-empty",
            ":path is not empty",
            &[CONNECT, PROTOCOL, SCHEME, AUTHORITY, (":path", ""), VERSION],
            malformed.clone(),
        ),
        of(
            "8441-4-twice",
            ":protocol twice",
            &[CONNECT, PROTOCOL, PROTOCOL, SCHEME, AUTHORITY, QUIET, VERSION],
            malformed.clone(),
        ),
        of(
            "8441-4-after-regular",
            ":protocol after a regular field",
            &[CONNECT, SCHEME, AUTHORITY, QUIET, VERSION, PROTOCOL],
            malformed.clone(),
        ),
        of(
            "8441-4-upgrade",
            "upgrade is a field of HTTP/1.1",
            &[&all[..], &[("upgrade", "websocket")]].concat(),
            malformed,
        ),
        of(
            "8441-4-empty",
            "an empty :protocol",
            &[CONNECT, (":protocol", ""), SCHEME, AUTHORITY, QUIET, VERSION],
            Expect::Refuses(1),
        ),
        of(
            "9220-3-unknown",
            "a protocol that nobody knows",
            &[CONNECT, (":protocol", "gopher"), SCHEME, AUTHORITY, QUIET, VERSION],
            Expect::Refuses(1),
        ),
        of(
            "8441-5-no-authority",
            "no :authority",
            &[CONNECT, PROTOCOL, SCHEME, QUIET, VERSION],
            Expect::Refuses(1),
        ),
        of(
            "6455-4.2.2-version",
            "another version",
            &[CONNECT, PROTOCOL, SCHEME, AUTHORITY, QUIET, ("sec-websocket-version", "8")],
            Expect::Refuses(1),
        ),
        of(
            "6455-4.2.1-no-version",
            "no version",
            &[CONNECT, PROTOCOL, SCHEME, AUTHORITY, QUIET],
            Expect::Refuses(1),
        ),
        of(
            "8441-5-not-found",
            "a path that is nowhere",
            &[CONNECT, PROTOCOL, SCHEME, AUTHORITY, (":path", "/nowhere"), VERSION],
            Expect::Refuses(1),
        ),
    ]);
}

/// Each in its stream, and all events in each.
#[test]
fn websockets_and_watches_share_a_connection() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    let path = format!("{PATH}?watch=1");
    let mut sockets: Vec<Socket> = (0..20).map(|_| Socket::watch(&mut connection, &path)).collect();
    let watches: Vec<u32> = (0..20).map(|_| connection.request("GET", &path, &[], true)).collect();
    for watched in &watches {
        assert_eq!(connection.head(*watched).status, 200);
    }
    for number in 0..10 {
        create(&server.client(), &format!("n{number}"), "1");
    }
    for number in 0..10 {
        for socket in &mut sockets {
            assert_eq!(socket.told(&mut connection), format!("ADDED n{number}"));
        }
        for watched in &watches {
            assert_eq!(connection.event(*watched).1["metadata"]["name"], format!("n{number}"));
        }
    }
    drop(connection);
    server.wait_for_metric("revcast_watchers", 0);
    is_well(&server);
}
