//! How a connection begins (RFC 9113, sections 3.3 and 3.4).

use std::time::Duration;

use revcast_tests::http2::{Connection, Frame, PREFACE, Read, code, flag, kind, setting};
use revcast_tests::server::Server;

use super::{get, is_well};

#[test]
fn the_server_sends_its_settings_first_and_acknowledges_ours() {
    let server = Server::start(&[]);
    let mut connection = Connection::dial(&server.address);
    connection.preface(&[]);
    // The client panics when the first frame is another one.
    let Read::Frame(first) = connection.read(Duration::from_secs(10)) else { panic!("no frame") };
    assert_eq!((first.kind, first.flags, first.stream), (kind::SETTINGS, 0, 0));
    connection.settle();
    assert_eq!(connection.acknowledged(), 1);
    connection.expect_alive();
}

/// As kube-apiserver does; and the protocol of RFC 8441.
#[test]
fn the_server_announces_its_limits() {
    let server = Server::start(&[]);
    let connection = Connection::open(&server.address);
    let streams = connection.setting(setting::MAX_CONCURRENT_STREAMS);
    assert!(streams.is_some_and(|streams| streams >= 100), "section 6.5.2 recommends 100: {streams:?}");
    let fields = connection.setting(setting::MAX_HEADER_LIST_SIZE);
    assert!(fields.is_some_and(|bytes| bytes >= 16_384), "a limit for fields: {fields:?}");
    assert_eq!(connection.setting(setting::ENABLE_CONNECT_PROTOCOL), Some(1), "RFC 8441, section 3");
}

/// A client need not wait for the server's preface, and TCP cuts where it likes.
#[test]
fn requests_with_the_preface_are_answered_in_pieces_of_any_size() {
    let server = Server::start(&[]);
    let frames = [
        Frame::settings(&[
            (setting::ENABLE_PUSH, 0),
            (setting::INITIAL_WINDOW_SIZE, 1 << 20),
            (setting::NO_RFC7540_PRIORITIES, 1),
        ]),
        Frame::window_update(0, 1 << 20),
        get(1, "/readyz"),
        Frame::settings(&[(0xf0f0, 7)]),
        get(3, "/livez"),
    ];
    for piece in [usize::MAX, 1_000, 64, 24, 23, 10, 7, 2, 1] {
        let mut connection = Connection::dial(&server.address);
        connection.send_in_pieces(PREFACE, &frames, piece);
        for stream in [1, 3] {
            assert_eq!(connection.response(stream).status, 200, "in pieces of {piece}");
        }
        connection.settle();
        assert_eq!(connection.acknowledged(), 2, "every SETTINGS is acknowledged: in pieces of {piece}");
        connection.expect_alive();
    }
}

/// PROTOCOL_ERROR; without GOAWAY where that is unlikely to be understood. On a plain port such bytes may also be taken for
/// HTTP/1.1, and refused in its words.
#[test]
fn a_wrong_preface_ends_the_connection() {
    let server = Server::start(&[]);
    let wrong: [&[u8]; 6] = [
        b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r",
        b"PRI * HTTP/2.0\n\nSM\n\n\n\n\n\n\n\n\n\n\n\n",
        b"PRI * HTTP/2.1\r\n\r\nSM\r\n\r\n",
        b"PRI / HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"pri * http/2.0\r\n\r\nsm\r\n\r\n",
    ];
    for bytes in wrong {
        use std::io::Read as _;
        let mut connection = Connection::dial(&server.address);
        connection
            .send_raw(&[bytes, &Frame::settings(&[]).bytes(), &get(1, "/readyz").bytes()].concat())
            .unwrap();
        let socket = connection.stream();
        socket.socket().set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut said = Vec::new();
        let read = socket.read_to_end(&mut said);
        let open = read.is_err_and(|error| error.kind() != std::io::ErrorKind::ConnectionReset);
        let what = String::from_utf8_lossy(bytes);
        assert!(!open, "{what:?}: the connection stays open");
        let refused =
            said.starts_with(b"HTTP/1.1 4") || said.starts_with(b"HTTP/1.1 505") || no_answer(&said);
        assert!(refused, "{what:?} is answered: {said:x?}");
    }
    is_well(&server);
}

/// No HEADERS among these frames.
fn no_answer(said: &[u8]) -> bool {
    let mut said = said.to_vec();
    while let Some(frame) = Frame::take(&mut said) {
        if frame.kind == kind::HEADERS {
            return false;
        }
    }
    true
}

#[test]
fn another_first_frame_than_settings_ends_the_connection() {
    let server = Server::start(&[]);
    let firsts = [
        get(1, "/readyz"),
        Frame::ping(*b"too soon"),
        Frame::window_update(0, 1),
        Frame::goaway(0, code::NO_ERROR),
        Frame::data(1, 0, "x"),
        Frame::new(kind::UNKNOWN, 0, 0, "x"),
    ];
    for first in firsts {
        let mut connection = Connection::dial(&server.address);
        connection.send_in_pieces(PREFACE, &[first.clone(), Frame::settings(&[])], usize::MAX);
        connection.expect_goaway(&[code::PROTOCOL_ERROR]);
        assert!(!connection.is_complete(1), "{first:?}");
    }
    is_well(&server);
}

/// A connection that ends in its preface costs nothing.
#[test]
fn a_client_that_leaves_in_the_preface_is_forgotten() {
    let server = Server::start(&[]);
    for end in [0, 1, 3, 23, 24, 28, 33] {
        let bytes = [PREFACE.to_vec(), Frame::settings(&[]).bytes()].concat();
        let mut connection = Connection::dial(&server.address);
        connection.send_raw(&bytes[..end]).unwrap();
    }
    is_well(&server);
}

/// HTTP/1.1 goes on beside it (section 3.3: prior knowledge).
#[test]
fn one_port_speaks_both_versions() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    for _ in 0..3 {
        assert_eq!(server.client().get("/readyz").status, 200);
        assert_eq!(connection.get("/readyz").status, 200);
    }
    // The Upgrade of RFC 7540 is gone: it is ignored (RFC 9110, section 7.8).
    let upgrade = [
        ("Connection", "Upgrade, HTTP2-Settings"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", "AAMAAABkAAQAAP__"),
    ];
    assert_eq!(server.client().request("GET", "/readyz", &upgrade, &[]).status, 200);
}

/// A block that is complete only with the last of many small pieces of TCP.
#[test]
fn frames_in_single_bytes_are_frames() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    let block = revcast_tests::http2::hpack::request("GET", "/readyz", &[]);
    let (first, second) = block.split_at(10);
    let frames = [
        Frame::headers(1, flag::END_STREAM, first),
        Frame::continuation(1, flag::END_HEADERS, second),
        Frame::ping(*b"in bytes"),
    ];
    connection.send_in_pieces(&[], &frames, 1);
    assert_eq!(connection.response(1).status, 200);
    connection.expect_alive();
    assert!(connection.pongs().contains(&b"in bytes".to_vec()));
}
