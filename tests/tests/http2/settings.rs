//! SETTINGS (RFC 9113, section 6.5).

use revcast_tests::http2::{Connection, Frame, Read, code, flag, kind, setting};
use revcast_tests::server::Server;

use super::case::{Case, Expect, case, frames, run};
use super::{PATH, get, watch};

const PROTOCOL: Expect = Expect::Ends(&[code::PROTOCOL_ERROR]);
const SIZE: Expect = Expect::Ends(&[code::FRAME_SIZE_ERROR]);
const FLOW: Expect = Expect::Ends(&[code::FLOW_CONTROL_ERROR]);

/// One setting on an open connection.
fn one(id: &'static str, says: &'static str, name: u16, value: u32, expect: Expect) -> Case {
    frames(id, says, vec![Frame::settings(&[(name, value)])], expect)
}

fn raw(flags: u8, stream: u32, payload: &[u8]) -> Vec<Frame> {
    vec![Frame::new(kind::SETTINGS, flags, stream, payload)]
}

#[test]
fn settings_that_are_wrong_end_the_connection() {
    run(&[
        frames("9113-6.5-ack-with-payload", "an acknowledgement has no payload", raw(1, 0, &[0; 6]), SIZE),
        frames("9113-6.5-ack-with-1-byte", "an acknowledgement has no payload", raw(1, 0, &[0]), SIZE),
        frames("9113-6.5-stream-1", "SETTINGS are the connection's", raw(0, 1, &[]), PROTOCOL),
        case(
            "9113-6.5-stream-open",
            "SETTINGS are the connection's, also where the stream is open",
            vec![watch(1).into(), Frame::new(kind::SETTINGS, 0, 1, []).into()],
            PROTOCOL,
        ),
        frames("9113-6.5-ack-on-stream-1", "so is their acknowledgement", raw(1, 1, &[]), PROTOCOL),
        frames("9113-6.5-length-1", "a payload is a multiple of six", raw(0, 0, &[0]), SIZE),
        frames("9113-6.5-length-5", "a payload is a multiple of six", raw(0, 0, &[0; 5]), SIZE),
        frames("9113-6.5-length-7", "a payload is a multiple of six", raw(0, 0, &[0; 7]), SIZE),
        one("9113-6.5.2-enable-push-2", "ENABLE_PUSH is 0 or 1", setting::ENABLE_PUSH, 2, PROTOCOL),
        one("9113-6.5.2-enable-push-max", "ENABLE_PUSH is 0 or 1", setting::ENABLE_PUSH, u32::MAX, PROTOCOL),
        one(
            "9113-6.5.2-initial-window-2^31",
            "INITIAL_WINDOW_SIZE is below 2^31",
            setting::INITIAL_WINDOW_SIZE,
            1 << 31,
            FLOW,
        ),
        one(
            "9113-6.5.2-initial-window-2^32-1",
            "INITIAL_WINDOW_SIZE is below 2^31",
            setting::INITIAL_WINDOW_SIZE,
            u32::MAX,
            FLOW,
        ),
        one(
            "9113-6.5.2-max-frame-0",
            "MAX_FRAME_SIZE is at least 2^14",
            setting::MAX_FRAME_SIZE,
            0,
            PROTOCOL,
        ),
        one(
            "9113-6.5.2-max-frame-2^14-1",
            "MAX_FRAME_SIZE is at least 2^14",
            setting::MAX_FRAME_SIZE,
            16_383,
            PROTOCOL,
        ),
        one(
            "9113-6.5.2-max-frame-2^24",
            "MAX_FRAME_SIZE is below 2^24",
            setting::MAX_FRAME_SIZE,
            1 << 24,
            PROTOCOL,
        ),
        frames(
            "9113-6.5.3-wrong-after-right",
            "every one of a frame is looked at",
            vec![Frame::settings(&[(setting::ENABLE_PUSH, 0), (0xff, 1), (setting::ENABLE_PUSH, 3)])],
            PROTOCOL,
        ),
        frames(
            "9113-6.5.3-wrong-before-right",
            "a right value after a wrong one mends nothing",
            vec![Frame::settings(&[(setting::MAX_FRAME_SIZE, 1), (setting::MAX_FRAME_SIZE, 16_384)])],
            PROTOCOL,
        ),
        case(
            "9113-3.4-wrong-in-preface",
            "the first SETTINGS are looked at as well",
            vec![Frame::settings(&[(setting::ENABLE_PUSH, 1)]).into(), Frame::settings(&[(2, 9)]).into()],
            PROTOCOL,
        ),
    ]);
}

#[test]
fn settings_that_are_right_are_taken() {
    let pairs = |name: u16, values: &[u32]| values.iter().map(|value| (name, *value)).collect::<Vec<_>>();
    let alive = |id, says, settings: Vec<(u16, u32)>| {
        frames(id, says, vec![Frame::settings(&settings), get(1, "/readyz")], Expect::Answers(1, 200))
    };
    run(&[
        alive("9113-6.5-empty", "SETTINGS may be empty", vec![]),
        alive("9113-6.5.2-unknown", "unknown settings are ignored", vec![(0, 1), (7, 2), (0xffff, u32::MAX)]),
        alive("9113-6.5.2-unknown-many", "also many", (100..120).map(|name| (name, 1)).collect()),
        alive("9113-6.5.2-enable-push", "0 and 1", pairs(setting::ENABLE_PUSH, &[0, 1])),
        alive(
            "9113-6.5.2-initial-window",
            "up to 2^31-1",
            pairs(setting::INITIAL_WINDOW_SIZE, &[0, (1 << 31) - 1, 65_535]),
        ),
        alive(
            "9113-6.5.2-max-frame",
            "from 2^14 to 2^24-1",
            pairs(setting::MAX_FRAME_SIZE, &[16_384, (1 << 24) - 1]),
        ),
        alive(
            "9113-6.5.2-table",
            "any size of the table",
            pairs(setting::HEADER_TABLE_SIZE, &[0, u32::MAX, 4_096]),
        ),
        alive(
            "9113-6.5.2-streams",
            "streams that a server may push",
            pairs(setting::MAX_CONCURRENT_STREAMS, &[0]),
        ),
        alive(
            "9113-6.5.2-list",
            "any size of field sections",
            pairs(setting::MAX_HEADER_LIST_SIZE, &[u32::MAX]),
        ),
        frames(
            "9218-2.1-later",
            "NO_RFC7540_PRIORITIES does not change after the first SETTINGS",
            vec![Frame::settings(&[(setting::NO_RFC7540_PRIORITIES, 1)])],
            Expect::MayFail(0, &[code::PROTOCOL_ERROR]),
        ),
        alive(
            "8441-3-from-a-client",
            "a client's ENABLE_CONNECT_PROTOCOL has no effect",
            pairs(setting::ENABLE_CONNECT_PROTOCOL, &[1]),
        ),
        frames(
            "8441-3-value-2",
            "ENABLE_CONNECT_PROTOCOL is 0 or 1",
            vec![Frame::settings(&[(setting::ENABLE_CONNECT_PROTOCOL, 2)])],
            Expect::MayFail(0, &[code::PROTOCOL_ERROR]),
        ),
        frames(
            "9113-6.5-undefined-flags",
            "flags that are not defined are ignored",
            vec![Frame::settings(&[]).with_flags(0xfe)],
            Expect::Ignores,
        ),
        frames(
            "9113-6.5-on-reserved-bit",
            "the reserved bit is ignored",
            vec![Frame::new(kind::SETTINGS, 0, 1 << 31, [])],
            Expect::Ignores,
        ),
        frames(
            "9113-6.5-ack-not-asked-for",
            "an acknowledgement too many",
            vec![Frame::settings_ack(), Frame::settings_ack()],
            Expect::MayFail(0, &[code::PROTOCOL_ERROR]),
        ),
    ]);
}

/// Section 6.5.3: every SETTINGS is acknowledged, once, as soon as it applies.
#[test]
fn each_settings_is_acknowledged() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    for round in 1..=20 {
        connection.send(Frame::settings(&[(setting::ENABLE_PUSH, round % 2)]));
    }
    connection.settle();
    connection.expect_alive();
    assert_eq!(connection.acknowledged(), 21);
}

/// Section 6.5.3: values apply in their order, and the last one holds.
#[test]
fn the_last_of_several_values_holds() {
    let server = Server::start(&[]);
    let window = |bytes| (setting::INITIAL_WINDOW_SIZE, bytes);
    let mut connection = Connection::open_with(&server.address, &[window(70_000), window(0), window(5)]);
    connection.replenishes = false;
    let stream = connection.request("GET", "/version", &[], true);
    assert_eq!(connection.body(stream, 5).len(), 5);
    connection.ping();
    assert_eq!(connection.so_far(stream).body.len(), 5, "the window has five bytes");
    connection.send(Frame::settings(&[window(0), window(100_000)]));
    assert_eq!(connection.response(stream).json()["major"], "1");
    connection.expect_alive();
}

/// Section 6.5.2: larger frames may be sent, but need not; 16,384 bytes is what a client takes without any settings. The
/// client panics when a frame is longer than it may be.
#[test]
fn no_frame_is_longer_than_the_client_takes() {
    let server = Server::start(&[]);
    let client = server.client();
    for number in 0..6 {
        super::create(&client, &format!("large{number}"), &"x".repeat(100_000));
    }
    for frame_max in [16_384, 16_385, 20_000, 1 << 20, (1 << 24) - 1] {
        let settings = [(setting::MAX_FRAME_SIZE, frame_max), (setting::INITIAL_WINDOW_SIZE, 1 << 22)];
        let mut connection = Connection::open_with(&server.address, &settings);
        connection.send(Frame::window_update(0, 1 << 24));
        let list = connection.get(PATH);
        assert_eq!(list.json()["items"].as_array().map(Vec::len), Some(6), "{frame_max}");
    }
}

/// Section 4.3.1: a smaller table of the client is acknowledged by a size update at the beginning of the next field block,
/// also by an encoder that uses no table. The client panics when there is none.
#[test]
fn a_smaller_table_is_acknowledged_in_the_next_field_block() {
    let server = Server::start(&[]);
    for bytes in [0, 100, 4_095] {
        let mut connection = Connection::open_with(&server.address, &[(setting::HEADER_TABLE_SIZE, bytes)]);
        connection.expect_alive();
        connection.expect_alive();
    }
    let mut connection = Connection::open(&server.address);
    connection.expect_alive();
    for bytes in [1_000, 0, 50_000, 30, 4_096] {
        connection.send(Frame::settings(&[(setting::HEADER_TABLE_SIZE, bytes)]));
        connection.settle();
        connection.expect_alive();
    }
    // Two changes between field blocks: the smaller one counts as well.
    connection.send(Frame::settings(&[(setting::HEADER_TABLE_SIZE, 10)]));
    connection.send(Frame::settings(&[(setting::HEADER_TABLE_SIZE, 4_096)]));
    connection.settle();
    connection.expect_alive();
}

/// Section 5.5: the server reads on while its own SETTINGS are not acknowledged.
#[test]
fn requests_are_answered_before_the_servers_settings_are_acknowledged() {
    let server = Server::start(&[]);
    let mut connection = Connection::dial(&server.address);
    connection.acknowledges = false;
    connection.preface(&[]);
    for _ in 0..5 {
        connection.expect_alive();
    }
    connection.send(Frame::new(kind::SETTINGS, flag::ACK, 0, []));
    connection.expect_alive();
    assert!(!matches!(connection.read(std::time::Duration::from_millis(50)), Read::End));
}
