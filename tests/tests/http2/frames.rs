//! The format of frames and what each type must be (RFC 9113, sections 4 and 6), besides SETTINGS and WINDOW_UPDATE.

use revcast_tests::http2::{Connection, Frame, code, flag, hpack as packed, kind};
use revcast_tests::server::Server;

use super::case::{Case, Expect, Step, case, frame_max, frames, run};
use super::{PATH, QUIET, get, object, post, post_block, post_with, watch};

const PROTOCOL: Expect = Expect::Ends(&[code::PROTOCOL_ERROR]);
const SIZE: Expect = Expect::Ends(&[code::FRAME_SIZE_ERROR]);
/// Too short for what it must hold: documents and servers call it the one or the other.
const SHORT: Expect = Expect::Ends(&[code::FRAME_SIZE_ERROR, code::PROTOCOL_ERROR]);
const ALIVE: Expect = Expect::Answers(1, 200);

fn block(path: &str) -> Vec<u8> {
    packed::request("GET", path, &[])
}

/// A frame of any kind alone.
fn alone(id: &'static str, says: &'static str, frame: Frame, expect: Expect) -> Case {
    frames(id, says, vec![frame], expect)
}

#[test]
fn what_is_not_defined_is_ignored() {
    let unknown = |stream, flags, payload: &[u8]| Frame::new(kind::UNKNOWN, flags, stream, payload);
    let then_get = |id, says, frame: Frame| frames(id, says, vec![frame, get(1, "/readyz")], ALIVE);
    let mut cases = vec![
        then_get("9113-4.1-unknown-type", "on the connection", unknown(0, 0, b"x")),
        then_get("9113-4.1-unknown-type-flags", "with all flags", unknown(0, 0xff, &[0xff; 100])),
        then_get("9113-4.1-unknown-type-empty", "without a payload", unknown(0, 0, b"")),
        then_get("9113-4.1-unknown-type-long", "with the longest payload", unknown(0, 0, &[7; 16_384])),
        frames(
            "9113-4.1-unknown-type-on-stream",
            "on a stream that is half-closed, and on one that is open",
            vec![watch(1), unknown(1, 1, b"x"), post(3), unknown(3, 1, b"x"), get(5, "/readyz")],
            Expect::Answers(5, 200),
        ),
        case(
            "9113-5.5-unknown-on-closed",
            "on a stream that is closed",
            vec![get(1, "/readyz").into(), Step::Answered(1), unknown(1, 0, b"x").into()],
            Expect::Ignores,
        ),
        frames(
            "9113-4.1-undefined-flags",
            "of HEADERS",
            vec![get(1, "/readyz").with_flags(0x40 | 0x80 | 0x10 | 0x02)],
            ALIVE,
        ),
        then_get("9113-4.1-undefined-flags-ping", "of PING", Frame::ping(*b"all flag").with_flags(0xfe)),
        then_get(
            "9113-4.1-undefined-flags-window",
            "of WINDOW_UPDATE",
            Frame::window_update(0, 1).with_flags(0xff),
        ),
        frames(
            "9113-4.1-undefined-flags-data",
            "of DATA and CONTINUATION",
            vec![
                Frame::headers(1, 0, post_block(&[])),
                Frame::continuation(1, flag::END_HEADERS | 0xf3, packed::literal("x-a", "1")),
                Frame::data(1, flag::END_STREAM | 0xf6, object("flags", "1")),
            ],
            Expect::Answers(1, 201),
        ),
        frames(
            "9113-4.1-undefined-flags-reset",
            "of RST_STREAM and PRIORITY",
            vec![
                watch(1),
                Frame::priority(3, 0).with_flags(0xff),
                Frame::reset(1, code::CANCEL).with_flags(0xff),
            ],
            Expect::Ignores,
        ),
        frames(
            "9113-4.1-reserved-bit",
            "the reserved bit of a stream's number is ignored",
            vec![Frame { stream: 1 | 1 << 31, ..get(1, "/readyz") }],
            ALIVE,
        ),
        frames(
            "9113-4.1-reserved-bit-zero",
            "also where the number is zero",
            vec![Frame { stream: 1 << 31, ..Frame::ping(*b"reserved") }, get(1, "/readyz")],
            ALIVE,
        ),
    ];
    for (id, kind) in [
        ("9113-4.1-type-0x0a", 0x0a),
        ("9113-4.1-type-0x0c", 0x0c),
        ("9113-4.1-type-0x10", 0x10),
        ("9113-4.1-type-0xff", 0xff),
    ] {
        cases.push(then_get(id, "a type of an extension", Frame::new(kind, 5, 0, "anything")));
    }
    run(&cases);
}

#[test]
fn a_frame_that_is_too_long_ends_the_connection() {
    let server = Server::start(&[]);
    let max = frame_max(&server);
    drop(server);
    let long = vec![b'x'; max + 1];
    let announced = |kind: u8, flags: u8, stream: u32| {
        // Only the head: the server need not wait for the rest.
        Step::Raw(Frame::new(kind, flags, stream, []).bytes_announcing(max + 1))
    };
    run(&[
        case("9113-4.2-long-head", "HEADERS", vec![announced(kind::HEADERS, 4, 1)], SIZE),
        case("9113-4.2-long-settings", "SETTINGS", vec![announced(kind::SETTINGS, 0, 0)], SIZE),
        case("9113-4.2-long-ping", "PING", vec![announced(kind::PING, 0, 0)], SIZE),
        case("9113-4.2-long-unknown", "of an unknown type", vec![announced(kind::UNKNOWN, 0, 0)], SIZE),
        case("9113-4.2-longest", "2^24-1 bytes", vec![Step::Raw(vec![0xff; 9])], SIZE),
        frames(
            "9113-4.2-long-continuation",
            "CONTINUATION",
            vec![Frame::headers(1, 0, block("/readyz")), Frame::continuation(1, 4, long.clone())],
            SIZE,
        ),
        frames(
            "9113-4.2-long-data",
            "DATA of an open stream",
            vec![post(1), Frame::data(1, 0, long)],
            Expect::Fails(1, &[code::FRAME_SIZE_ERROR]),
        ),
    ]);
}

/// Section 4.2: 16,384 bytes of payload are always taken.
#[test]
fn frames_of_2_to_the_14_are_taken() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    // Of a field block.
    let fields = [block("/readyz"), packed::literal("x-long", "y".repeat(8_000))].concat();
    let fields = [fields.clone(), packed::literal("x-more", "z".repeat(16_384 - fields.len() - 11))].concat();
    assert_eq!(fields.len(), 16_384);
    connection.send(Frame::headers(1, flag::WHOLE, fields));
    // Or too long for its fields, which is no error of the frame.
    assert!(matches!(connection.response(1).status, 200 | 431));
    // Of a body.
    let body = object("whole-frame", &"d".repeat(16_384 - object("whole-frame", "").len()));
    assert_eq!(body.len(), 16_384);
    connection.send_all(&[post(3), Frame::data(3, flag::END_STREAM, body)]);
    assert_eq!(connection.response(3).status, 201);
    connection.send(Frame::new(kind::UNKNOWN, 0, 0, vec![1; 16_384]));
    connection.expect_alive();
}

#[test]
fn data() {
    let end = flag::END_STREAM;
    let body = |name: &str| object(name, "1");
    run(&[
        alone("9113-6.1-stream-0", "DATA belongs to a stream", Frame::data(0, 0, "x"), PROTOCOL),
        alone(
            "9113-6.1-idle",
            "DATA of an idle stream",
            Frame::data(1, 0, "x"),
            Expect::Ends(&[code::PROTOCOL_ERROR, code::STREAM_CLOSED]),
        ),
        frames(
            "9113-6.1-half-closed",
            "DATA of a stream that the client ended",
            vec![watch(1), Frame::data(1, end, "x")],
            Expect::Fails(1, &[code::STREAM_CLOSED]),
        ),
        case(
            "9113-6.1-closed",
            "DATA of a stream that is over",
            vec![get(1, "/readyz").into(), Step::Answered(1), Frame::data(1, 0, "x").into()],
            Expect::MayFail(1, &[code::STREAM_CLOSED]),
        ),
        case(
            "9113-6.1-after-reset",
            "DATA of a stream that the client reset",
            vec![post(1).into(), Frame::reset(1, code::CANCEL).into(), Frame::data(1, 0, "x").into()],
            Expect::MayFail(1, &[code::STREAM_CLOSED]),
        ),
        frames(
            "9113-6.1-padding-equal",
            "padding as long as the payload",
            vec![post(1), Frame::data(1, flag::PADDED, [3, b'x', 0])],
            PROTOCOL,
        ),
        frames(
            "9113-6.1-padding-longer",
            "padding longer than the payload",
            vec![post(1), Frame::data(1, flag::PADDED, [255, 0, 0, 0])],
            PROTOCOL,
        ),
        frames(
            "9113-6.1-padded-empty",
            "no room for the length of the padding",
            vec![post(1), Frame::data(1, flag::PADDED, [])],
            SHORT,
        ),
        frames(
            "9113-6.1-padded",
            "padding of any length is no part of the body",
            vec![
                post(1),
                Frame::padded_data(1, 0, &body("padded")[..5], 0),
                Frame::padded_data(1, 0, &[], 255),
                Frame::padded_data(1, end, &body("padded")[5..], 200),
            ],
            Expect::Answers(1, 201),
        ),
        frames(
            "9113-6.1-only-padding",
            "a last frame of nothing but padding",
            vec![post(1), Frame::data(1, 0, body("padding")), Frame::padded_data(1, end, &[], 9)],
            Expect::Answers(1, 201),
        ),
        frames(
            "9113-6.1-empty-last",
            "an empty last frame",
            vec![post(1), Frame::data(1, 0, body("empty-last")), Frame::data(1, end, [])],
            Expect::Answers(1, 201),
        ),
        frames(
            "9113-6.1-some-empty",
            "empty frames between",
            vec![
                post(1),
                Frame::data(1, 0, []),
                Frame::data(1, 0, &body("some-empty")[..9]),
                Frame::data(1, 0, []),
                Frame::data(1, end, &body("some-empty")[9..]),
            ],
            Expect::Answers(1, 201),
        ),
    ]);
}

#[test]
fn headers() {
    let ready = block("/readyz");
    let prioritized = |on: u32| [&on.to_be_bytes()[..], &[255], &ready].concat();
    run(&[
        alone("9113-6.2-stream-0", "HEADERS belong to a stream", get(0, "/readyz"), PROTOCOL),
        alone(
            "9113-6.2-padding-longer",
            "padding longer than the payload",
            Frame::headers(1, flag::WHOLE | flag::PADDED, [&[255], &ready[..]].concat()),
            PROTOCOL,
        ),
        alone(
            "9113-6.2-padding-equal",
            "padding as long as the payload",
            Frame::headers(1, flag::WHOLE | flag::PADDED, [2, 0]),
            PROTOCOL,
        ),
        alone(
            "9113-6.2-padded-empty",
            "no room for the length of the padding",
            Frame::headers(1, flag::WHOLE | flag::PADDED, []),
            SHORT,
        ),
        alone(
            "9113-6.2-priority-short",
            "no room for the priority",
            Frame::headers(1, flag::WHOLE | flag::PRIORITY, [0; 4]),
            SHORT,
        ),
        alone(
            "9113-6.2-priority-and-padding",
            "padding that covers the priority",
            Frame::headers(1, flag::WHOLE | flag::PRIORITY | flag::PADDED, [4, 0, 0, 0, 0, 0, 0, 0]),
            SHORT,
        ),
        alone(
            "9113-6.2-padded",
            "padding is no part of the block",
            Frame::padded_headers(1, flag::WHOLE, &ready, 255),
            ALIVE,
        ),
        alone(
            "9113-6.2-padded-0",
            "padding of no bytes",
            Frame::padded_headers(1, flag::WHOLE, &ready, 0),
            ALIVE,
        ),
        alone(
            "9113-6.2-priority",
            "a priority is ignored",
            Frame::headers(1, flag::WHOLE | flag::PRIORITY, prioritized(1 << 31)),
            ALIVE,
        ),
        alone(
            "9113-6.2-priority-of-unknown",
            "also on a stream that is idle",
            Frame::headers(1, flag::WHOLE | flag::PRIORITY, prioritized(77)),
            ALIVE,
        ),
        alone(
            "9113-6.2-priority-padded",
            "priority and padding",
            Frame::padded_headers(1, flag::WHOLE | flag::PRIORITY, &prioritized(0), 31),
            ALIVE,
        ),
        alone(
            "7540-5.3.1-headers-on-itself",
            "a stream that depends on itself",
            Frame::headers(1, flag::WHOLE | flag::PRIORITY, prioritized(1)),
            Expect::MayFail(1, &[code::PROTOCOL_ERROR]),
        ),
        frames(
            "9113-6.2-empty-headers",
            "the block is in CONTINUATION alone",
            vec![
                Frame::headers(1, flag::END_STREAM, []),
                Frame::continuation(1, flag::END_HEADERS, ready.clone()),
            ],
            ALIVE,
        ),
        frames(
            "9113-6.2-priority-and-continuation",
            "a priority, and the block after it",
            vec![
                Frame::headers(1, flag::END_STREAM | flag::PRIORITY, [0, 0, 0, 0, 16]),
                Frame::continuation(1, flag::END_HEADERS, ready.clone()),
            ],
            ALIVE,
        ),
    ]);
}

#[test]
fn priority() {
    let of = |stream: u32, bytes: &[u8]| Frame::new(kind::PRIORITY, 0, stream, bytes);
    let size = &[code::FRAME_SIZE_ERROR];
    run(&[
        alone("9113-6.3-stream-0", "PRIORITY belongs to a stream", Frame::priority(0, 1), PROTOCOL),
        frames("9113-6.3-length-4", "five bytes", vec![watch(1), of(1, &[0; 4])], Expect::Fails(1, size)),
        frames("9113-6.3-length-6", "five bytes", vec![watch(1), of(1, &[0; 6])], Expect::Fails(1, size)),
        frames("9113-6.3-length-0", "five bytes", vec![watch(1), of(1, &[])], Expect::Fails(1, size)),
        frames(
            "9113-6.3-idle-length-4",
            "also on an idle stream",
            vec![of(3, &[0; 4])],
            Expect::MayFail(3, size),
        ),
        frames("9113-6.3-idle", "on an idle stream", vec![Frame::priority(5, 3), get(1, "/readyz")], ALIVE),
        frames(
            "9113-6.3-idle-even",
            "on a stream of the server",
            vec![Frame::priority(2, 0), get(1, "/readyz")],
            ALIVE,
        ),
        frames(
            "9113-6.3-open",
            "on open streams",
            vec![watch(1), Frame::priority(1, 3), post(3), Frame::priority(3, 1)],
            Expect::Ignores,
        ),
        case(
            "9113-6.3-closed",
            "on a stream that is over",
            vec![get(1, "/readyz").into(), Step::Answered(1), Frame::priority(1, 0).into()],
            Expect::Ignores,
        ),
        frames(
            "9113-5.1-priority-opens-nothing",
            "PRIORITY of a higher stream does not close the lower ones",
            vec![Frame::priority(9, 0), get(1, "/readyz")],
            ALIVE,
        ),
        frames(
            "7540-5.3.1-on-itself",
            "a stream that depends on itself",
            vec![Frame::priority(1, 1), get(1, "/readyz")],
            Expect::MayFail(1, &[code::PROTOCOL_ERROR]),
        ),
    ]);
}

#[test]
fn rst_stream() {
    let of = |stream: u32, bytes: &[u8]| Frame::new(kind::RST_STREAM, 0, stream, bytes);
    run(&[
        alone("9113-6.4-stream-0", "RST_STREAM belongs to a stream", Frame::reset(0, 8), PROTOCOL),
        alone("9113-6.4-idle", "of an idle stream", Frame::reset(1, 8), PROTOCOL),
        alone("9113-6.4-idle-even", "of a stream of the server", Frame::reset(2, 8), PROTOCOL),
        frames("9113-6.4-length-3", "four bytes", vec![watch(1), of(1, &[0; 3])], SIZE),
        frames("9113-6.4-length-5", "four bytes", vec![watch(1), of(1, &[0; 5])], SIZE),
        frames("9113-6.4-length-0", "four bytes", vec![watch(1), of(1, &[])], SIZE),
        frames("9113-6.4-half-closed", "of a watch", vec![watch(1), Frame::reset(1, 8)], Expect::Ignores),
        frames(
            "9113-6.4-open",
            "of a request without its body",
            vec![post(1), Frame::reset(1, 8)],
            Expect::Ignores,
        ),
        frames(
            "9113-7-unknown-code",
            "with a code that is not defined",
            vec![watch(1), Frame::reset(1, 0xdead_beef)],
            Expect::Ignores,
        ),
        frames("9113-7-no-error", "with NO_ERROR", vec![watch(1), Frame::reset(1, 0)], Expect::Ignores),
        frames(
            "9113-6.4-twice",
            "twice",
            vec![watch(1), Frame::reset(1, 8), Frame::reset(1, 8)],
            Expect::Ignores,
        ),
        case(
            "9113-6.4-closed",
            "of a stream that is over",
            vec![get(1, "/readyz").into(), Step::Answered(1), Frame::reset(1, 8).into()],
            Expect::Ignores,
        ),
    ]);
}

#[test]
fn push_promise() {
    let promise = [&2_u32.to_be_bytes()[..], &block("/readyz")].concat();
    run(&[
        frames(
            "9113-8.4-push",
            "a client never pushes",
            vec![watch(1), Frame::new(kind::PUSH_PROMISE, 4, 1, promise.clone())],
            PROTOCOL,
        ),
        alone(
            "9113-6.6-push-idle",
            "also not on an idle stream",
            Frame::new(kind::PUSH_PROMISE, 4, 1, promise.clone()),
            PROTOCOL,
        ),
        alone(
            "9113-6.6-push-0",
            "also not on the connection",
            Frame::new(kind::PUSH_PROMISE, 4, 0, promise),
            PROTOCOL,
        ),
    ]);
}

#[test]
fn ping() {
    let of = |flags: u8, stream: u32, bytes: &[u8]| Frame::new(kind::PING, flags, stream, bytes);
    run(&[
        alone("9113-6.7-stream-1", "PING is the connection's", of(0, 1, &[0; 8]), PROTOCOL),
        frames(
            "9113-6.7-stream-open",
            "also where the stream is open",
            vec![watch(1), of(0, 1, &[0; 8])],
            PROTOCOL,
        ),
        alone("9113-6.7-length-7", "eight bytes", of(0, 0, &[0; 7]), SIZE),
        alone("9113-6.7-length-9", "eight bytes", of(0, 0, &[0; 9]), SIZE),
        alone("9113-6.7-length-0", "eight bytes", of(0, 0, &[]), SIZE),
        alone("9113-6.7-ack-length-7", "eight bytes, also in an answer", of(1, 0, &[0; 7]), SIZE),
        alone("9113-6.7-ack", "an answer that was not asked for", of(1, 0, b"unasked!"), Expect::Ignores),
    ]);
}

/// Section 6.7: with the same payload, and each one.
#[test]
fn every_ping_is_answered_and_no_answer_is() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    let payloads = [
        *b"\0\0\0\0\0\0\0\0",
        *b"\xff\xff\xff\xff\xff\xff\xff\xff",
        *b"12345678",
        *b"\x01\x02\x03\x04\x05\x06\x07\x08",
    ];
    for payload in payloads {
        connection.send(Frame::ping(payload));
        connection.send(Frame::ping(*b"an answr").with_flags(flag::ACK));
    }
    connection.ping();
    assert_eq!(&connection.pongs()[..4], payloads.map(|payload| payload.to_vec()));
    assert_eq!(connection.pongs().len(), 5, "answers are not answered");
    connection.expect_alive();
}

#[test]
fn goaway() {
    let of = |stream: u32, bytes: &[u8]| Frame::new(kind::GOAWAY, 0, stream, bytes);
    run(&[
        alone("9113-6.8-stream-1", "GOAWAY is the connection's", of(1, &[0; 8]), PROTOCOL),
        frames(
            "9113-6.8-stream-open",
            "also where the stream is open",
            vec![watch(1), of(1, &[0; 8])],
            PROTOCOL,
        ),
        alone("9113-6.8-length-7", "at least eight bytes", of(0, &[0; 7]), SIZE),
        alone("9113-6.8-length-0", "at least eight bytes", of(0, &[]), SIZE),
    ]);
}

#[test]
fn continuation() {
    let ready = block("/readyz");
    let begun = || Frame::headers(1, flag::END_STREAM, &ready[..5]);
    let rest = |flags: u8| Frame::continuation(1, flags, &ready[5..]);
    let between = |id, says, frame: Frame| frames(id, says, vec![begun(), frame, rest(4)], PROTOCOL);
    run(&[
        alone("9113-6.10-alone", "CONTINUATION without HEADERS", rest(4), PROTOCOL),
        alone(
            "9113-6.10-stream-0",
            "CONTINUATION of the connection",
            Frame::continuation(0, 4, []),
            PROTOCOL,
        ),
        between("9113-6.10-other-stream", "of another stream", Frame::continuation(3, 4, &ready[5..])),
        between("9113-6.10-to-stream-0", "of no stream", Frame::continuation(0, 4, &ready[5..])),
        frames("9113-6.10-after-end", "after END_HEADERS", vec![get(1, QUIET), rest(4)], PROTOCOL),
        frames(
            "9113-6.10-after-continued-end",
            "after a CONTINUATION with END_HEADERS",
            vec![begun(), rest(4), rest(4)],
            PROTOCOL,
        ),
        frames(
            "9113-6.10-after-data",
            "after DATA",
            vec![post(1), Frame::data(1, 0, "x"), rest(4)],
            PROTOCOL,
        ),
        between("9113-4.3-data-between", "DATA inside a block", Frame::data(1, 0, "x")),
        between("9113-4.3-headers-between", "HEADERS inside a block", get(3, "/readyz")),
        between("9113-4.3-headers-again", "HEADERS of the same stream inside a block", get(1, "/readyz")),
        between("9113-4.3-priority-between", "PRIORITY inside a block", Frame::priority(1, 0)),
        between("9113-4.3-reset-between", "RST_STREAM inside a block", Frame::reset(1, 8)),
        between("9113-4.3-settings-between", "SETTINGS inside a block", Frame::settings(&[])),
        between("9113-4.3-ack-between", "an acknowledgement inside a block", Frame::settings_ack()),
        between("9113-4.3-ping-between", "PING inside a block", Frame::ping(*b"between!")),
        between("9113-4.3-goaway-between", "GOAWAY inside a block", Frame::goaway(0, 0)),
        between("9113-4.3-window-between", "WINDOW_UPDATE inside a block", Frame::window_update(0, 1)),
        between(
            "9113-5.5-unknown-between",
            "an unknown type inside a block",
            Frame::new(kind::UNKNOWN, 0, 1, "x"),
        ),
        frames(
            "9113-6.10-in-pieces",
            "a block may be cut anywhere",
            [
                vec![Frame::headers(1, flag::END_STREAM, &ready[..1])],
                ready[1..]
                    .chunks(ready.len() / 4 + 1)
                    .map(|piece| Frame::continuation(1, 0, piece))
                    .collect(),
                vec![Frame::continuation(1, flag::END_HEADERS, [])],
            ]
            .concat(),
            ALIVE,
        ),
        frames(
            "9113-6.10-of-trailers",
            "a block of trailers may be cut as well",
            vec![
                post_with(1, &[("trailer", "x-sum")]),
                Frame::data(1, 0, object("cut-trailers", "1")),
                Frame::headers(1, flag::END_STREAM, packed::literal("x-sum", "1")),
                Frame::continuation(1, flag::END_HEADERS, packed::literal("x-sum2", "2")),
            ],
            Expect::Answers(1, 201),
        ),
    ]);
}

/// Section 6.9.1: padding and its length count in windows, and are given back.
#[test]
fn padding_is_given_back_to_the_windows() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    let body = object("padded-much", &"p".repeat(3_000));
    let stream = connection.request("POST", PATH, &[("content-type", "application/json")], false);
    // Each byte of the body with 256 of padding: more than most windows have.
    connection.upload_in(stream, &body, 1, Some(255));
    assert_eq!(connection.response(stream).status, 201);
    for number in 0..4 {
        let body = object(&format!("padded-{number}"), &"p".repeat(30_000));
        assert_eq!(
            connection.exchange("POST", PATH, &[("content-type", "application/json")], &body).status,
            201
        );
    }
    connection.expect_alive();
}
