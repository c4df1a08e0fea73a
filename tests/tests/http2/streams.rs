//! Streams: their states, numbers and count (RFC 9113, sections 5.1 to 5.4).

use std::time::Duration;

use revcast_tests::http2::{Connection, Frame, Outcome, code, flag, hpack as packed, setting};
use revcast_tests::server::Server;

use super::case::{Expect, Step, case, frames, run};
use super::{QUIET, get, object, post, watch};

const PROTOCOL: Expect = Expect::Ends(&[code::PROTOCOL_ERROR]);
/// What a frame on a closed stream may lead to.
const CLOSED: &[u32] = &[code::STREAM_CLOSED, code::PROTOCOL_ERROR];

fn trailers(stream: u32, flags: u8) -> Frame {
    Frame::headers(stream, flags, packed::literal("x-trailer", "1"))
}

#[test]
fn idle_streams_are_opened_by_headers_alone() {
    let idle = |id, says, frame: Frame| frames(id, says, vec![frame], PROTOCOL);
    let behind = |id, says, frame: Frame| {
        case(id, says, vec![get(5, "/readyz").into(), Step::Answered(5), frame.into()], PROTOCOL)
    };
    run(&[
        idle("9113-5.1-idle-reset", "RST_STREAM", Frame::reset(1, 8)),
        idle("9113-5.1-idle-window", "WINDOW_UPDATE", Frame::window_update(1, 1)),
        idle("9113-5.1-idle-continuation", "CONTINUATION", Frame::continuation(1, 4, [])),
        behind("9113-5.1-idle-data-above", "DATA above the last", Frame::data(7, 0, "x")),
        behind("9113-5.1-idle-reset-above", "RST_STREAM above the last", Frame::reset(7, 8)),
        behind("9113-5.1-idle-window-above", "WINDOW_UPDATE above the last", Frame::window_update(7, 1)),
    ]);
}

#[test]
fn half_closed_streams_take_what_ends_or_opens_them_alone() {
    let half = |id, says, frame: Frame, expect| {
        case(id, says, vec![watch(1).into(), Step::Head(1), frame.into()], expect)
    };
    let closed = Expect::Fails(1, CLOSED);
    run(&[
        half("9113-5.1-half-data", "DATA", Frame::data(1, 0, "x"), Expect::Fails(1, &[code::STREAM_CLOSED])),
        half(
            "9113-5.1-half-data-end",
            "DATA with END_STREAM",
            Frame::data(1, 1, "x"),
            Expect::Fails(1, &[code::STREAM_CLOSED]),
        ),
        half(
            "9113-5.1-half-data-empty",
            "empty DATA",
            Frame::data(1, 1, []),
            Expect::Fails(1, &[code::STREAM_CLOSED]),
        ),
        half("9113-5.1-half-headers", "HEADERS", get(1, "/readyz"), closed.clone()),
        half("9113-5.1-half-trailers", "trailers", trailers(1, flag::WHOLE), closed),
        half("9113-5.1-half-window", "WINDOW_UPDATE is fine", Frame::window_update(1, 9), Expect::Ignores),
        half("9113-5.1-half-priority", "PRIORITY is fine", Frame::priority(1, 0), Expect::Ignores),
        half("9113-5.1-half-reset", "RST_STREAM is fine", Frame::reset(1, 8), Expect::Ignores),
    ]);
}

#[test]
fn closed_streams_stay_closed() {
    let over = |id, says, frame: Frame, expect| {
        case(id, says, vec![get(1, "/readyz").into(), Step::Answered(1), frame.into()], expect)
    };
    let reset = |id, says, frame: Frame, expect| {
        let steps =
            vec![watch(1).into(), Step::Head(1), Frame::reset(1, 8).into(), Step::Processed, frame.into()];
        case(id, says, steps, expect)
    };
    // A frame that may have been under way may be ignored.
    let may = Expect::MayFail(1, CLOSED);
    run(&[
        over("9113-5.1-closed-data", "DATA", Frame::data(1, 0, "x"), may.clone()),
        over("9113-5.1-closed-headers", "HEADERS", get(1, "/readyz"), may.clone()),
        over(
            "9113-5.1-closed-window",
            "WINDOW_UPDATE may be late",
            Frame::window_update(1, 9),
            Expect::Ignores,
        ),
        over("9113-5.1-closed-reset", "RST_STREAM may be late", Frame::reset(1, 8), Expect::Ignores),
        over("9113-5.1-closed-priority", "PRIORITY is fine", Frame::priority(1, 0), Expect::Ignores),
        reset("9113-5.1-reset-data", "DATA after RST_STREAM", Frame::data(1, 0, "x"), may.clone()),
        reset("9113-5.1-reset-headers", "HEADERS after RST_STREAM", get(1, "/readyz"), may.clone()),
        reset(
            "9113-5.1-reset-window",
            "WINDOW_UPDATE after RST_STREAM",
            Frame::window_update(1, 9),
            may.clone(),
        ),
        reset("9113-5.1-reset-again", "RST_STREAM after RST_STREAM", Frame::reset(1, 8), may),
        reset("9113-5.1-reset-priority", "PRIORITY after RST_STREAM", Frame::priority(1, 0), Expect::Ignores),
        case(
            "9113-5.1-trailers-then-data",
            "DATA after trailers",
            vec![post(1).into(), trailers(1, flag::WHOLE).into(), Frame::data(1, 0, "x").into()],
            Expect::MayFail(1, CLOSED),
        ),
    ]);
}

#[test]
fn streams_are_odd_and_rising() {
    run(&[
        frames("9113-5.1.1-even", "even numbers are the server's", vec![get(2, "/readyz")], PROTOCOL),
        frames(
            "9113-5.1.1-even-later",
            "also after others",
            vec![get(1, "/readyz"), get(4, "/readyz")],
            PROTOCOL,
        ),
        frames("9113-5.1.1-zero", "zero is the connection", vec![get(0, "/readyz")], PROTOCOL),
        frames(
            "9113-5.1.1-lower-than-open",
            "a number below one that is open",
            vec![watch(5), get(3, "/readyz")],
            Expect::Ends(CLOSED),
        ),
        case(
            "9113-5.1.1-lower-than-closed",
            "a number below one that is over",
            vec![get(5, "/readyz").into(), Step::Answered(5), get(3, "/readyz").into()],
            Expect::Ends(CLOSED),
        ),
        frames(
            "9113-5.1.1-implicitly-closed-window",
            "a number that was left out is closed: WINDOW_UPDATE",
            vec![watch(5), Frame::window_update(3, 1)],
            Expect::MayFail(3, CLOSED),
        ),
        frames(
            "9113-5.1.1-implicitly-closed-data",
            "a number that was left out is closed: DATA",
            vec![watch(5), Frame::data(3, 0, "x")],
            Expect::MayFail(3, CLOSED),
        ),
        frames(
            "9113-5.1.1-gap",
            "numbers may be left out",
            vec![get(101, "/readyz"), get(1_001, "/readyz")],
            Expect::Answers(1_001, 200),
        ),
        frames(
            "9113-5.1.1-last",
            "up to the last one",
            vec![get((1 << 31) - 3, "/readyz"), get((1 << 31) - 1, "/readyz")],
            Expect::Answers((1 << 31) - 1, 200),
        ),
    ]);
}

/// Section 5.1.2. A stream counts until both ends ended it.
#[test]
fn a_stream_beyond_the_limit_is_refused_and_the_others_stay() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    let most = connection.setting(setting::MAX_CONCURRENT_STREAMS).unwrap();
    assert!(most <= 10_000, "a limit: {most}");
    let path = format!("{}?watch=1", super::PATH);
    let streams: Vec<u32> = (0..most).map(|_| connection.request("GET", &path, &[], true)).collect();
    for stream in &streams {
        assert_eq!(connection.head(*stream).status, 200);
    }
    for _ in 0..5 {
        let refused = connection.request("GET", "/readyz", &[], true);
        assert_eq!(
            connection.outcome(refused, Duration::from_secs(10)),
            Outcome::Reset(code::REFUSED_STREAM)
        );
    }
    super::create(&server.client(), "seen-by-all", "1");
    for stream in &streams {
        assert_eq!(connection.event(*stream).1["metadata"]["name"], "seen-by-all");
    }
    // One ends, and another one may begin at once.
    let next = connection.next_stream();
    connection.send_all(&[Frame::reset(streams[0], code::CANCEL), get(next, "/readyz")]);
    assert_eq!(connection.response(next).status, 200);
    server.wait_for_metric("revcast_watchers", u64::from(most) - 1);
    let again = connection.request("GET", QUIET, &[], true);
    assert_eq!(connection.head(again).status, 200);
    let refused = connection.request("GET", "/readyz", &[], true);
    assert_eq!(connection.outcome(refused, Duration::from_secs(10)), Outcome::Reset(code::REFUSED_STREAM));
    connection.ping();
    drop(connection);
    server.wait_for_metric("revcast_watchers", 0);
}

/// Section 4.3: blocks of refused streams are decoded, for the table is the connection's.
#[test]
fn the_block_of_a_refused_stream_changes_the_table() {
    let server = Server::start(&[]);
    let mut connection = Connection::dial(&server.address);
    connection.acknowledges = false;
    connection.preface(&[]);
    connection.settle();
    let most = connection.setting(setting::MAX_CONCURRENT_STREAMS).unwrap();
    let streams: Vec<u32> = (0..most).map(|_| connection.request("GET", QUIET, &[], true)).collect();
    streams.iter().for_each(|stream| drop(connection.head(*stream)));
    let refused = connection.next_stream();
    let path = packed::indexing(":path", "/api/v1/namespaces/h/configmaps/kept");
    let start = [packed::indexed(2), packed::indexed(6), packed::literal(":authority", "test")].concat();
    connection.send(Frame::headers(refused, flag::WHOLE, [start.clone(), path].concat()));
    connection.expect_rst(refused, &[code::REFUSED_STREAM]);
    connection.send(Frame::reset(streams[0], code::CANCEL));
    server.wait_for_metric("revcast_watchers", u64::from(most) - 1);
    connection.ping();
    let next = connection.next_stream();
    connection.send(Frame::headers(next, flag::WHOLE, [start, packed::indexed(62)].concat()));
    let reply = connection.response(next);
    assert_eq!(reply.json()["details"]["name"], "kept", "{}", reply.text());
}

/// Section 5.4.2: a reset is not answered with another.
#[test]
fn a_reset_is_not_answered() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    for _ in 0..10 {
        let stream = connection.request("GET", QUIET, &[], true);
        assert_eq!(connection.head(stream).status, 200);
        connection.send(Frame::reset(stream, code::CANCEL));
        connection.ping();
        assert_eq!(connection.reset_of(stream), None);
    }
    let stream = connection.next_stream();
    connection.send(post(stream));
    connection.send(Frame::reset(stream, code::CANCEL));
    connection.expect_alive();
    assert_eq!(connection.reset_of(stream), None);
    server.wait_for_metric("revcast_watchers", 0);
}

/// Section 5.4.1: GOAWAY names the last stream that was or might be processed.
#[test]
fn goaway_names_the_last_stream() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    connection.send_all(&[get(1, "/readyz"), get(3, "/readyz"), watch(5)]);
    let _ = (connection.response(3), connection.head(5));
    connection.send(Frame::new(6, 0, 0, [0; 3]));
    assert_eq!(connection.expect_goaway(&[code::FRAME_SIZE_ERROR]), 5);
    server.wait_for_metric("revcast_watchers", 0);
    let mut connection = Connection::open(&server.address);
    connection.send(Frame::window_update(0, 0));
    assert_eq!(connection.expect_goaway(&[code::PROTOCOL_ERROR]), 0);
}

/// Section 8.1: answers need not come in the order of requests, and none waits for another's body.
#[test]
fn streams_do_not_wait_for_each_other() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    let slow = connection.request("POST", super::PATH, &[("content-type", "application/json")], false);
    let watched = connection.request("GET", &format!("{}?watch=1", super::PATH), &[], true);
    assert_eq!(connection.head(watched).status, 200);
    for _ in 0..10 {
        assert_eq!(connection.get("/readyz").status, 200);
    }
    let body = object("late", "1");
    let (first, second) = body.split_at(10);
    connection.send(Frame::data(slow, 0, first));
    assert_eq!(connection.get("/version").status, 200);
    connection.send(Frame::data(slow, flag::END_STREAM, second));
    assert_eq!(connection.response(slow).status, 201);
    assert_eq!(connection.event(watched).1["metadata"]["name"], "late");
}

/// Section 5.3: priorities are parsed, and change nothing.
#[test]
fn priorities_change_nothing() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    for stream in (1..100).step_by(2) {
        connection.send(Frame::priority(stream, stream + 2));
    }
    let streams: Vec<u32> = (0..20).map(|_| connection.request("GET", "/version", &[], true)).collect();
    for stream in streams {
        connection.send(Frame::priority(stream, 0));
        assert_eq!(connection.response(stream).status, 200);
    }
}

/// The last one of a connection: a new one would not have a number (section 5.1.1).
#[test]
fn the_last_number_is_used_up() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    connection.send(get((1 << 31) - 1, "/readyz"));
    assert_eq!(connection.response((1 << 31) - 1).status, 200);
    connection.ping();
    connection.send(get(1, "/readyz"));
    connection.expect_goaway(CLOSED);
}
