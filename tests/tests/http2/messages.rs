//! Requests and answers as messages (RFC 9113, section 8; RFC 9110): HEAD, 1xx, bodies in pieces, and the ends.

use std::time::Duration;

use revcast_tests::http2::{Connection, Frame, Outcome, code, flag};
use revcast_tests::server::Server;

use super::{PATH, create, get, is_well, object, post_with};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// RFC 9110, section 9.3.2: the head of GET, and END_STREAM without DATA.
#[test]
fn head_is_get_without_a_body() {
    let server = Server::start(&[]);
    create(&server.client(), "a", "1");
    let mut connection = Connection::open(&server.address);
    for path in ["/version", "/readyz", "/nowhere", PATH, &format!("{PATH}/a"), &format!("{PATH}/none")] {
        // The client panics when a body comes.
        let head = connection.request("HEAD", path, &[], true);
        let head = connection.response(head);
        let over_http1 = server.client().request("HEAD", path, &[], &[]);
        assert_eq!(head.status, over_http1.status, "{path}");
        assert!(head.body.is_empty());
        assert_eq!(head.field("content-type"), over_http1.header("content-type"), "{path}");
    }
    connection.expect_alive();
}

/// What is answered does not depend on the version of HTTP, but for fields of the connection.
#[test]
fn answers_are_those_of_http1() {
    let server = Server::start(&[]);
    create(&server.client(), "a", "1");
    let mut connection = Connection::open(&server.address);
    let asked = [
        ("GET", "/".to_owned()),
        ("GET", "/version".to_owned()),
        ("GET", "/api".to_owned()),
        ("GET", "/apis".to_owned()),
        ("GET", "/nowhere".to_owned()),
        ("GET", format!("{PATH}/a")),
        ("GET", format!("{PATH}/none")),
        ("GET", format!("{PATH}?watch=1&resourceVersion=x")),
        ("DELETE", format!("{PATH}/none")),
        ("PUT", "/version".to_owned()),
        ("OPTIONS", PATH.to_owned()),
    ];
    for (method, path) in asked {
        let stream = connection.request(method, &path, &[], true);
        let reply = connection.response(stream);
        let other = server.client().request(method, &path, &[], &[]);
        assert_eq!((reply.status, reply.json()), (other.status, other.json()), "{method} {path}");
        for name in ["content-type", "cache-control", "allow", "etag", "x-content-type-options"] {
            assert_eq!(reply.field(name), other.header(name), "{method} {path}: {name}");
        }
        assert!(reply.field("date").is_some(), "{method} {path}");
    }
}

/// RFC 9110, section 10.1.1.
#[test]
fn a_body_that_is_expected_is_asked_for() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    let body = object("expected", "1");
    let expect = [JSON[0], ("expect", "100-continue")];
    let stream = connection.request("POST", PATH, &expect, false);
    // The client may also send without waiting for it, and must when none comes.
    let deadline = std::time::Instant::now() + Duration::from_secs(5);
    while connection.so_far(stream).interim.is_empty() && std::time::Instant::now() < deadline {
        let _ = connection.read(Duration::from_millis(500));
    }
    assert_eq!(connection.so_far(stream).interim, [100]);
    connection.upload(stream, &body);
    assert_eq!(connection.response(stream).status, 201);
    // A body that comes without waiting.
    let stream = connection.request("POST", PATH, &expect, false);
    connection.upload(stream, &object("expected-2", "1"));
    assert_eq!(connection.response(stream).status, 201);
    // Without a body, and with an answer that needs none.
    let stream = connection.request("GET", "/version", &[("expect", "100-continue")], true);
    assert_eq!(connection.response(stream).status, 200);
    let stream = connection.request("POST", "/nowhere", &expect, false);
    assert!(connection.head(stream).status >= 400);
    connection.expect_alive();
}

#[test]
fn a_body_may_come_in_pieces_of_any_size() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    for (number, (piece, padding)) in
        [(1, None), (1, Some(0)), (7, Some(1)), (100, Some(255)), (1_000, None), (16_000, Some(200))]
            .into_iter()
            .enumerate()
    {
        let body = object(&format!("pieces{number}"), &"p".repeat(500));
        let stream = connection.request("POST", PATH, &JSON, false);
        connection.upload_in(stream, &body, piece, padding);
        let reply = connection.response(stream);
        assert_eq!(reply.status, 201, "{piece} {padding:?}: {}", reply.text());
        assert_eq!(reply.json()["data"]["k"], "p".repeat(500));
    }
    // Pieces of several bodies, in turns.
    let bodies: Vec<Vec<u8>> =
        (0..10).map(|number| object(&format!("turns{number}"), &"t".repeat(300))).collect();
    let streams: Vec<u32> = bodies.iter().map(|_| connection.request("POST", PATH, &JSON, false)).collect();
    for at in 0..bodies[0].len() {
        for (stream, body) in streams.iter().zip(&bodies) {
            let flags = if at + 1 == body.len() { flag::END_STREAM } else { 0 };
            connection.send(Frame::data(*stream, flags, &body[at..=at]));
        }
    }
    for (number, stream) in streams.into_iter().enumerate() {
        assert_eq!(connection.response(stream).json()["metadata"]["name"], format!("turns{number}"));
    }
}

/// A body that is too long is refused, before all of it came; the connection goes on.
#[test]
fn a_body_that_is_too_long_is_refused() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    let body = object("too-long", &"l".repeat(4 << 20));
    let stream = connection.request("POST", PATH, &JSON, false);
    connection.upload(stream, &body);
    assert_eq!(connection.head(stream).status, 413);
    connection.expect_alive();
    let length = body.len().to_string();
    let stream = connection.next_stream();
    connection.send(post_with(stream, &[("content-length", &length)]));
    assert_eq!(connection.head(stream).status, 413);
    connection.expect_alive();
}

/// Section 8.1: an answer may come before the request is complete. What is left of it may be refused with NO_ERROR.
#[test]
fn an_early_answer_leaves_the_connection_alone() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    for _ in 0..5 {
        let stream = connection.request("POST", "/nowhere", &JSON, false);
        assert!(connection.head(stream).status >= 400);
        let outcome = connection.outcome(stream, Duration::from_secs(10));
        assert!(matches!(outcome, Outcome::Answered(400..)), "{outcome:?}");
        connection.send(Frame::data(stream, 0, "more"));
        connection.send(Frame::data(stream, flag::END_STREAM, "and more"));
        connection.expect_alive();
        assert!(
            connection
                .reset_of(stream)
                .is_none_or(|code| matches!(code, code::NO_ERROR | code::STREAM_CLOSED))
        );
    }
}

/// A GET with a body, which no Kubernetes client sends: the body is read and ignored, and is no request.
#[test]
fn a_body_of_get_is_ignored() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    for path in ["/version", PATH] {
        let stream = connection.request("GET", path, &[], false);
        connection.upload(stream, b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(connection.response(stream).status, 200, "{path}");
    }
    let stream = connection.request("GET", &format!("{PATH}?watch=1"), &[], false);
    connection.upload(stream, b"not a word");
    assert_eq!(connection.head(stream).status, 200);
    create(&server.client(), "seen", "1");
    assert_eq!(connection.event(stream).1["metadata"]["name"], "seen");
    connection.expect_alive();
}

/// Section 6.8: the server answers what is open, whatever comes after.
#[test]
fn a_client_that_goes_away_gets_what_it_asked_for() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    let watched = connection.request("GET", &format!("{PATH}?watch=1&timeoutSeconds=3"), &[], true);
    let slow = connection.request("POST", PATH, &JSON, false);
    assert_eq!(connection.head(watched).status, 200);
    connection.send(Frame::goaway(0, code::NO_ERROR));
    let _ = connection.read(Duration::from_millis(200));
    connection.upload(slow, &object("after-goaway", "1"));
    assert_eq!(connection.response(slow).status, 201);
    assert_eq!(connection.event(watched).1["metadata"]["name"], "after-goaway");
    create(&server.client(), "later", "1");
    assert_eq!(connection.event(watched).1["metadata"]["name"], "later");
    assert_eq!(connection.line(watched), None, "the watch ends at its own time");
    assert!(connection.goaway().is_none_or(|(_, code)| code == code::NO_ERROR));
    is_well(&server);
}

/// With any code, debug data, and more than once.
#[test]
fn every_goaway_is_taken() {
    let server = Server::start(&[]);
    for code in [code::NO_ERROR, code::PROTOCOL_ERROR, code::ENHANCE_YOUR_CALM, 0xffff_ffff] {
        let mut connection = Connection::open(&server.address);
        let mut frame = Frame::goaway((1 << 31) - 1, code);
        frame.payload.extend_from_slice(&[b'd'; 1_000]);
        connection.send_all(&[frame, Frame::goaway(0, code)]);
        // The server may close, now that nothing is open.
        let _ = connection.read(Duration::from_millis(200));
    }
    is_well(&server);
}

/// The client ends its half of TCP after the last request: it still reads.
#[test]
fn a_client_that_ends_its_half_gets_its_answers() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    connection.send_all(&[get(1, "/version"), get(3, PATH)]);
    connection.stream().socket().shutdown(std::net::Shutdown::Write).unwrap();
    // Answers, or an end without an error: both are known of servers.
    for stream in [1, 3] {
        let outcome = connection.outcome(stream, Duration::from_secs(10));
        assert!(matches!(outcome, Outcome::Answered(200) | Outcome::Closed), "{outcome:?}");
    }
    is_well(&server);
}

/// A connection that breaks takes its watches with it.
#[test]
fn a_connection_that_breaks_is_forgotten() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    for _ in 0..50 {
        let stream = connection.request("GET", super::QUIET, &[], true);
        assert_eq!(connection.head(stream).status, 200);
    }
    server.wait_for_metric("revcast_watchers", 50);
    drop(connection);
    server.wait_for_metric("revcast_watchers", 0);
}
