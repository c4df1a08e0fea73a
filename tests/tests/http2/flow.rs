//! Flow control (RFC 9113, sections 5.2 and 6.9). In every test the client panics when DATA is beyond its windows.

use std::time::Duration;

use revcast_tests::http2::{Connection, Frame, Read, code, kind, setting};
use revcast_tests::server::Server;

use super::case::{Case, Expect, Step, case, frames, run};
use super::{PATH, create, get, object, post, watch};

const PROTOCOL: Expect = Expect::Ends(&[code::PROTOCOL_ERROR]);
const SIZE: Expect = Expect::Ends(&[code::FRAME_SIZE_ERROR]);
const FLOW: Expect = Expect::Ends(&[code::FLOW_CONTROL_ERROR]);
const MOST: u32 = (1 << 31) - 1;
/// What the window of a connection is at first.
const WINDOW: usize = 65_535;

fn window(bytes: u32) -> (u16, u32) {
    (setting::INITIAL_WINDOW_SIZE, bytes)
}

#[test]
fn window_updates_that_are_wrong() {
    let of = |stream: u32, bytes: &[u8]| Frame::new(kind::WINDOW_UPDATE, 0, stream, bytes);
    let on_watch = |id, says, frames: Vec<Frame>, expect| {
        let steps = [Step::from(watch(1)), Step::Head(1)].into_iter();
        case(id, says, steps.chain(frames.into_iter().map(Step::Send)).collect(), expect)
    };
    let cases: Vec<Case> = vec![
        frames("9113-6.9-length-3", "four bytes", vec![of(0, &[0; 3])], SIZE),
        frames("9113-6.9-length-5", "four bytes", vec![of(0, &[0; 5])], SIZE),
        frames("9113-6.9-length-0", "four bytes", vec![of(0, &[])], SIZE),
        on_watch("9113-6.9-length-3-on-stream", "four bytes, also on a stream", vec![of(1, &[0; 3])], SIZE),
        frames("9113-6.9-zero", "an increment of nothing", vec![Frame::window_update(0, 0)], PROTOCOL),
        frames(
            "9113-6.9-zero-reserved",
            "the reserved bit counts for nothing",
            vec![Frame::window_update(0, 1 << 31)],
            PROTOCOL,
        ),
        on_watch(
            "9113-6.9-zero-on-stream",
            "an increment of nothing, on a stream",
            vec![Frame::window_update(1, 0)],
            Expect::Resets(1, &[code::PROTOCOL_ERROR]),
        ),
        frames(
            "9113-6.9.1-overflow",
            "the connection's window is below 2^31",
            vec![Frame::window_update(0, MOST)],
            FLOW,
        ),
        frames(
            "9113-6.9.1-overflow-in-two",
            "also in two steps",
            vec![Frame::window_update(0, MOST - 65_535), Frame::window_update(0, 1)],
            FLOW,
        ),
        on_watch(
            "9113-6.9.1-overflow-on-stream",
            "a stream's window is below 2^31",
            vec![Frame::window_update(1, MOST)],
            Expect::Resets(1, &[code::FLOW_CONTROL_ERROR]),
        ),
        on_watch(
            "9113-6.9.1-overflow-on-stream-in-two",
            "also in two steps",
            vec![Frame::window_update(1, MOST - 65_535), Frame::window_update(1, 1)],
            Expect::Resets(1, &[code::FLOW_CONTROL_ERROR]),
        ),
        on_watch(
            "9113-6.9.2-overflow-by-settings",
            "a setting that lets the window of an open stream overflow",
            vec![Frame::window_update(1, MOST - 65_535), Frame::settings(&[window(65_536)])],
            FLOW,
        ),
        frames(
            "9113-6.9.1-largest",
            "windows of 2^31-1",
            vec![Frame::window_update(0, MOST - 65_535), Frame::settings(&[window(MOST)]), get(1, "/readyz")],
            Expect::Answers(1, 200),
        ),
        on_watch(
            "9113-6.9.1-largest-on-stream",
            "a stream's window of 2^31-1",
            vec![Frame::window_update(1, MOST - 65_535)],
            Expect::Ignores,
        ),
        frames(
            "9113-6.9-reserved-bit",
            "the reserved bit is ignored",
            vec![Frame::window_update(0, 1 | 1 << 31)],
            Expect::Ignores,
        ),
        frames("9113-5.1-window-of-idle", "of an idle stream", vec![Frame::window_update(1, 1)], PROTOCOL),
        frames(
            "9113-6.9-zero-on-open",
            "an increment of nothing for a request without its body",
            vec![post(1), Frame::window_update(1, 0)],
            Expect::Resets(1, &[code::PROTOCOL_ERROR]),
        ),
    ];
    run(&cases);
}

/// A server with objects, and a path whose list is longer than a window.
fn server_with_objects(count: usize) -> Server {
    let server = Server::start(&[]);
    let client = server.client();
    for number in 0..count {
        create(&client, &format!("o{number:03}"), &"x".repeat(10_000));
    }
    server
}

/// DATA that came of a stream, after everything the server may send now.
fn received(connection: &mut Connection, stream: u32) -> usize {
    while matches!(connection.read(Duration::from_millis(150)), Read::Frame(_)) {}
    connection.ping();
    connection.so_far(stream).body.len()
}

#[test]
fn the_first_window_is_65535_bytes() {
    let server = server_with_objects(20);
    let mut connection = Connection::open(&server.address);
    connection.replenishes = false;
    let list = connection.request("GET", PATH, &[], true);
    assert_eq!(connection.body(list, WINDOW).len(), WINDOW);
    assert_eq!(received(&mut connection, list), WINDOW);
    // Both windows are used up, and one is not enough.
    connection.send(Frame::window_update(list, 1_000));
    assert_eq!(received(&mut connection, list), WINDOW);
    connection.send(Frame::window_update(0, 400));
    assert_eq!(connection.body(list, WINDOW + 400).len(), WINDOW + 400);
    assert_eq!(received(&mut connection, list), WINDOW + 400);
    connection.send(Frame::window_update(0, 1 << 20));
    assert_eq!(connection.body(list, WINDOW + 1_000).len(), WINDOW + 1_000);
    assert_eq!(received(&mut connection, list), WINDOW + 1_000);
    connection.send(Frame::window_update(list, 1 << 20));
    assert_eq!(connection.response(list).json()["items"].as_array().map(Vec::len), Some(20));
}

/// The head of an answer needs no window, and other streams have their own.
#[test]
fn a_window_of_nothing_lets_heads_through() {
    let server = Server::start(&[]);
    create(&server.client(), "a", "1");
    let mut connection = Connection::open_with(&server.address, &[window(0)]);
    connection.replenishes = false;
    let list = connection.request("GET", PATH, &[], true);
    let watched = connection.request("GET", &format!("{PATH}?watch=1"), &[], true);
    let head = connection.request("HEAD", "/version", &[], true);
    assert_eq!(connection.head(list).status, 200);
    assert_eq!(connection.head(watched).status, 200);
    assert_ne!(connection.response(head).status, 0);
    create(&server.client(), "b", "1");
    assert_eq!(received(&mut connection, list), 0);
    assert_eq!(received(&mut connection, watched), 0);
    connection.send(Frame::window_update(watched, 50_000));
    assert_eq!(connection.event(watched).1["metadata"]["name"], "a");
    assert_eq!(connection.event(watched).1["metadata"]["name"], "b");
    assert_eq!(received(&mut connection, list), 0);
    connection.send(Frame::window_update(list, 10_000));
    assert!(connection.response(list).json()["items"].is_array());
}

#[test]
fn windows_of_single_bytes_are_used() {
    let server = Server::start(&[]);
    let mut connection = Connection::open_with(&server.address, &[window(1)]);
    // The client gives back each byte.
    let version = connection.get("/version");
    assert_eq!(version.json()["major"], "1");
    create(&server.client(), "one", "1");
    let watched = connection.request("GET", &format!("{PATH}?watch=1"), &[], true);
    assert_eq!(connection.event(watched).1["metadata"]["name"], "one");
    connection.replenishes = false;
    let version = connection.request("GET", "/version", &[], true);
    for bytes in 1..20 {
        assert_eq!(connection.body(version, bytes).len(), bytes);
        connection.send(Frame::window_update(version, 1));
    }
}

/// Section 6.9.2.
#[test]
fn settings_change_the_windows_of_open_streams() {
    let server = server_with_objects(20);
    let mut connection = Connection::open_with(&server.address, &[window(100)]);
    connection.send(Frame::window_update(0, 1 << 24));
    connection.replenishes = false;
    let first = connection.request("GET", PATH, &[], true);
    let second = connection.request("GET", PATH, &[], true);
    for stream in [first, second] {
        assert_eq!(connection.body(stream, 100).len(), 100);
    }
    connection.send(Frame::settings(&[window(300)]));
    for stream in [first, second] {
        assert_eq!(connection.body(stream, 300).len(), 300);
        assert_eq!(received(&mut connection, stream), 300);
    }
    // To -250: 250 more are nothing yet.
    connection.send(Frame::settings(&[window(50)]));
    connection.settle();
    connection.send(Frame::window_update(first, 250));
    assert_eq!(received(&mut connection, first), 300);
    connection.send(Frame::window_update(first, 1));
    assert_eq!(connection.body(first, 301).len(), 301);
    assert_eq!(received(&mut connection, first), 301);
    assert_eq!(received(&mut connection, second), 300);
    // Back to 300 gives 250 to each.
    connection.send(Frame::settings(&[window(300)]));
    assert_eq!(connection.body(first, 551).len(), 551);
    assert_eq!(received(&mut connection, second), 300);
    connection.send(Frame::settings(&[window(1 << 22)]));
    for stream in [first, second] {
        assert_eq!(connection.response(stream).json()["items"].as_array().map(Vec::len), Some(20));
    }
}

/// Section 6.9.2: the connection's window is no matter of SETTINGS.
#[test]
fn settings_do_not_change_the_window_of_the_connection() {
    let server = server_with_objects(20);
    let mut connection = Connection::open_with(&server.address, &[window(1 << 22)]);
    connection.replenishes = false;
    let list = connection.request("GET", PATH, &[], true);
    assert_eq!(connection.body(list, WINDOW).len(), WINDOW);
    connection.send(Frame::settings(&[window(1 << 24)]));
    assert_eq!(received(&mut connection, list), WINDOW);
    // PING and new heads do not need it.
    let other = connection.request("GET", PATH, &[], true);
    assert_eq!(connection.head(other).status, 200);
    assert_eq!(received(&mut connection, other), 0);
    connection.send(Frame::window_update(0, 1 << 24));
    for stream in [list, other] {
        assert_eq!(connection.response(stream).json()["items"].as_array().map(Vec::len), Some(20));
    }
}

/// What a reset stream had not sent is no loss of the connection's window; what it sent is the client's to give back.
#[test]
fn a_reset_stream_leaves_the_connections_window_to_others() {
    let server = server_with_objects(20);
    let mut connection = Connection::open(&server.address);
    connection.replenishes = false;
    let list = connection.request("GET", PATH, &[], true);
    assert_eq!(connection.body(list, WINDOW).len(), WINDOW);
    connection.send(Frame::reset(list, code::CANCEL));
    let version = connection.request("GET", "/version", &[], true);
    assert_eq!(connection.head(version).status, 200);
    assert_eq!(received(&mut connection, version), 0);
    connection.send(Frame::window_update(0, 10_000));
    assert_eq!(connection.response(version).json()["major"], "1");
}

/// One stream that is not read does not stop the others.
#[test]
fn a_stream_without_a_window_stops_no_other() {
    let server = server_with_objects(20);
    let mut connection = Connection::open(&server.address);
    connection.replenishes = false;
    connection.send(Frame::window_update(0, 1 << 24));
    let stalled = connection.request("GET", PATH, &[], true);
    assert_eq!(connection.body(stalled, WINDOW).len(), WINDOW);
    let watched = connection.request(
        "GET",
        &format!("{PATH}?watch=1&resourceVersion={}", server.client().newest()),
        &[],
        true,
    );
    for number in 0..5 {
        create(&server.client(), &format!("n{number}"), "1");
        assert_eq!(connection.event(watched).1["metadata"]["name"], format!("n{number}"));
        assert_eq!(connection.get("/readyz").status, 200);
    }
    assert!(!connection.is_complete(stalled));
    connection.send(Frame::window_update(stalled, 1 << 24));
    assert_eq!(connection.response(stalled).json()["items"].as_array().map(Vec::len), Some(20));
}

/// The windows of the server: long bodies get through, one after the other and beside each other.
#[test]
fn the_server_opens_its_windows_again() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    let json = [("content-type", "application/json")];
    for number in 0..10 {
        let body = object(&format!("long{number}"), &"l".repeat(900_000));
        assert_eq!(connection.exchange("POST", PATH, &json, &body).status, 201, "{number}");
    }
    let streams: Vec<u32> = (0..10).map(|_| connection.request("POST", PATH, &json, false)).collect();
    for (number, stream) in streams.iter().enumerate() {
        connection.upload(*stream, &object(&format!("beside{number}"), &"l".repeat(200_000)));
    }
    for stream in streams {
        assert_eq!(connection.response(stream).status, 201);
    }
}

/// Bodies that nobody reads (the path takes none, or the stream was reset) are given back to the connection's window.
#[test]
fn bodies_that_are_not_needed_do_not_use_up_the_connections_window() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    for _ in 0..60 {
        let stream = connection.request("POST", "/nowhere", &[], false);
        connection.upload(stream, &[b'x'; 30_000]);
        assert!(connection.response(stream).status >= 400);
    }
    for _ in 0..60 {
        let stream = connection.request("POST", PATH, &[("content-type", "application/json")], false);
        connection.send(Frame::data(stream, 0, vec![b' '; 16_384]));
        connection.ping();
        connection.send(Frame::reset(stream, code::CANCEL));
    }
    let reply =
        connection.exchange("POST", PATH, &[("content-type", "application/json")], &object("after", "1"));
    assert_eq!(reply.status, 201);
}
