//! Attacks with few frames that cost much, or with many streams: resets, field blocks, windows.

use std::time::{Duration, Instant};

use revcast_tests::http2::{Connection, Frame, Outcome, Read, code, flag, hpack as packed, kind, setting};
use revcast_tests::server::Server;

use super::{PATH, QUIET, create, get, is_well, post, watch};

/// What an attack may cost.
const GROWTH_KB_MAX: u64 = 48 << 10;

/// The server ends the connection, with one of these codes or without a word.
pub(super) fn is_refused(connection: &mut Connection, codes: &[u32], what: &str) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match connection.read(deadline.saturating_duration_since(Instant::now())) {
            Read::Frame(_) => {}
            Read::End => break,
            Read::Nothing => panic!("{what}: the connection stays open"),
        }
    }
    let code = connection.goaway().map(|(_, code)| code);
    assert!(code.is_none_or(|code| codes.contains(&code)), "{what}: GOAWAY with code {code:?}");
}

/// Memory stays bounded, and others are served.
pub(super) fn is_unharmed(server: &Server, before_kb: u64, what: &str) {
    let grown = server.resident_kb().saturating_sub(before_kb);
    assert!(grown < GROWTH_KB_MAX, "{what}: {grown} KB more");
    is_well(server);
}

/// Sends `count` times what `unit` makes of a stream, until the server refuses it.
fn repeat(connection: &mut Connection, count: u32, unit: impl Fn(u32) -> Vec<Frame>) {
    for batch in 0..count / 50 {
        let streams = (0..50).map(|number| (batch * 50 + number) * 2 + 1);
        let frames: Vec<Frame> = streams.flat_map(&unit).collect();
        connection.send_all(&frames);
        while let Read::Frame(_) = connection.read(Duration::ZERO) {}
        if connection.read(Duration::from_millis(1)) == Read::End || connection.goaway().is_some() {
            return;
        }
    }
}

/// CVE-2023-44487: requests that are reset before they can be answered.
#[test]
fn rapid_resets_are_refused() {
    let server = Server::start(&[]);
    let before = server.resident_kb();
    let mut connection = Connection::open(&server.address);
    repeat(&mut connection, 5_000, |stream| vec![post(stream), Frame::reset(stream, code::CANCEL)]);
    is_refused(&mut connection, &[code::ENHANCE_YOUR_CALM], "POST and RST_STREAM");
    is_unharmed(&server, before, "POST and RST_STREAM");
}

/// The same where an answer may be faster than the reset: then it is no attack on more than requests are.
#[test]
fn watches_that_are_reset_at_once_cost_nothing_for_long() {
    let server = Server::start(&[]);
    for number in 0..20 {
        create(&server.client(), &format!("o{number}"), &"x".repeat(10_000));
    }
    let before = server.resident_kb();
    for path in [QUIET, PATH, &format!("{PATH}?watch=1")] {
        let mut connection = Connection::open(&server.address);
        repeat(&mut connection, 2_000, |stream| vec![get(stream, path), Frame::reset(stream, code::CANCEL)]);
        if connection.goaway().is_some() {
            is_refused(&mut connection, &[code::ENHANCE_YOUR_CALM], path);
        }
        server.wait_for_metric("revcast_watchers", 0);
        is_unharmed(&server, before, path);
    }
}

/// Frames of one stream.
type Unit = fn(u32) -> Vec<Frame>;

/// CVE-2025-8671: frames that make the server reset the stream.
#[test]
fn streams_that_make_the_server_reset_them_are_refused() {
    let server = Server::start(&[]);
    let before = server.resident_kb();
    let ways: [(&str, Unit); 5] = [
        ("WINDOW_UPDATE of nothing", |stream| vec![post(stream), Frame::window_update(stream, 0)]),
        ("WINDOW_UPDATE of nothing, on a watch", |stream| {
            vec![watch(stream), Frame::window_update(stream, 0)]
        }),
        ("a window that overflows", |stream| vec![post(stream), Frame::window_update(stream, (1 << 31) - 1)]),
        ("DATA after END_STREAM", |stream| vec![watch(stream), Frame::data(stream, 0, "x")]),
        ("HEADERS after END_STREAM", |stream| vec![watch(stream), watch(stream)]),
    ];
    for (what, unit) in ways {
        let mut connection = Connection::open(&server.address);
        repeat(&mut connection, 2_000, unit);
        is_refused(
            &mut connection,
            &[code::ENHANCE_YOUR_CALM, code::STREAM_CLOSED, code::PROTOCOL_ERROR],
            what,
        );
        server.wait_for_metric("revcast_watchers", 0);
        is_unharmed(&server, before, what);
    }
}

/// Malformed requests are resets as well, or answers in 400: either way the work of others goes on.
#[test]
fn thousands_of_malformed_requests_are_borne() {
    let server = Server::start(&[]);
    let before = server.resident_kb();
    let mut connection = Connection::open(&server.address);
    let block = packed::request("GET", "/readyz", &[("X-Upper", "1")]);
    repeat(&mut connection, 3_000, |stream| vec![Frame::headers(stream, flag::WHOLE, block.clone())]);
    if connection.goaway().is_some() {
        is_refused(&mut connection, &[code::ENHANCE_YOUR_CALM], "malformed");
    }
    is_unharmed(&server, before, "malformed");
}

/// What informers do when a program ends, or moves on: no attack.
#[test]
fn a_client_that_cancels_its_watches_is_served_on() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    let streams: Vec<u32> = (0..100).map(|_| connection.request("GET", QUIET, &[], true)).collect();
    streams.iter().for_each(|stream| assert_eq!(connection.head(*stream).status, 200));
    streams.iter().for_each(|stream| connection.send(Frame::reset(*stream, code::CANCEL)));
    server.wait_for_metric("revcast_watchers", 0);
    for _ in 0..20 {
        let stream = connection.request("GET", QUIET, &[], true);
        assert_eq!(connection.head(stream).status, 200);
        connection.send(Frame::reset(stream, code::CANCEL));
        connection.expect_alive();
    }
}

/// CVE-2023-45288 and others: a field block without an end.
#[test]
fn a_field_block_without_end_is_refused() {
    let server = Server::start(&[]);
    let before = server.resident_kb();
    let codes =
        [code::ENHANCE_YOUR_CALM, code::PROTOCOL_ERROR, code::COMPRESSION_ERROR, code::FRAME_SIZE_ERROR];
    let piece = packed::literal("x-pad", [b'p'; 8_000]);
    let small = packed::literal("x", "1");
    let ways =
        [("8 KB each", piece, 400), ("a field each", small, 20_000), ("nothing each", Vec::new(), 20_000)];
    for (what, piece, count) in ways {
        let mut connection = Connection::open(&server.address);
        connection.send(Frame::headers(1, flag::END_STREAM, packed::request("GET", "/readyz", &[])));
        for _ in 0..count / 50 {
            connection.send_all(&vec![Frame::continuation(1, 0, piece.clone()); 50]);
            if connection.read(Duration::ZERO) == Read::End {
                break;
            }
        }
        is_refused(&mut connection, &codes, what);
        is_unharmed(&server, before, what);
    }
}

/// The same on a stream that is refused, or was reset: its block is decoded under the same limits.
#[test]
fn a_field_block_without_end_is_refused_on_every_stream() {
    let server = Server::start(&[]);
    let before = server.resident_kb();
    let codes = [code::ENHANCE_YOUR_CALM, code::PROTOCOL_ERROR, code::COMPRESSION_ERROR, code::STREAM_CLOSED];
    let mut connection = Connection::open(&server.address);
    let most = connection.setting(setting::MAX_CONCURRENT_STREAMS).unwrap();
    let streams: Vec<u32> = (0..most).map(|_| connection.request("GET", QUIET, &[], true)).collect();
    streams.iter().for_each(|stream| drop(connection.head(*stream)));
    let refused = connection.next_stream();
    connection.send(Frame::headers(refused, flag::END_STREAM, packed::request("GET", "/readyz", &[])));
    for _ in 0..400 {
        connection.send(Frame::continuation(refused, 0, packed::literal("x-pad", [b'p'; 8_000])));
    }
    is_refused(&mut connection, &codes, "a refused stream");
    server.wait_for_metric("revcast_watchers", 0);
    is_unharmed(&server, before, "a refused stream");
}

/// A block that ends, but has more than the server announced to take.
#[test]
fn too_many_fields_are_refused() {
    let server = Server::start(&[]);
    let before = server.resident_kb();
    let field = packed::literal("x-pad", [b'p'; 16_000]);
    for count in [75, 200] {
        let mut connection = Connection::open(&server.address);
        let first = Frame::headers(1, flag::END_STREAM, packed::request("GET", "/readyz", &[]));
        let rest = (1..=count)
            .map(|number| Frame::continuation(1, if number == count { 4 } else { 0 }, field.clone()));
        connection.send_all(&[vec![first], rest.collect()].concat());
        is_too_much(&mut connection, 1, "a long block");
        is_unharmed(&server, before, "a long block");
    }
}

/// 431, or an error of the stream or the connection.
fn is_too_much(connection: &mut Connection, stream: u32, what: &str) {
    let codes = [code::ENHANCE_YOUR_CALM, code::PROTOCOL_ERROR, code::COMPRESSION_ERROR];
    match connection.outcome(stream, Duration::from_secs(10)) {
        Outcome::Answered(431) => connection.expect_alive(),
        Outcome::Reset(code) => {
            assert!(codes.contains(&code), "{what}: {code}");
            connection.expect_alive();
        }
        Outcome::GoneAway(_) | Outcome::Closed => is_refused(connection, &codes, what),
        other => panic!("{what}: {other:?}"),
    }
}

/// One entry of 3.9 KB, named 12,000 times in 16 KB: 46 MB that must not be made.
#[test]
fn a_block_that_grows_when_it_is_decoded_is_refused() {
    let server = Server::start(&[]);
    let before = server.resident_kb();
    for (name, value) in
        [("x-bomb", "b".repeat(3_900)), ("cookie", "c".repeat(3_900)), ("x-empty", String::new())]
    {
        for round in 0..5 {
            let mut connection = Connection::dial(&server.address);
            connection.acknowledges = false;
            connection.preface(&[]);
            let start = [packed::request("GET", "/readyz", &[]), packed::indexing(name, &value)].concat();
            let count = 16_384 - start.len();
            let frames: Vec<Frame> = if round % 2 == 0 {
                vec![Frame::headers(1, flag::WHOLE, [start, vec![0x80 | 62; count]].concat())]
            } else {
                vec![
                    Frame::headers(1, flag::END_STREAM, start),
                    Frame::continuation(1, flag::END_HEADERS, vec![0x80 | 62; count]),
                ]
            };
            connection.send_all(&frames);
            // 12,000 empty fields are 468 KB by the count of RFC 9113, section 6.5.2.
            is_too_much(&mut connection, 1, name);
        }
    }
    is_unharmed(&server, before, "bombs");
}

/// CVE-2019-9517 and 9511: answers that the client never takes.
#[test]
fn windows_that_stay_closed_cost_little() {
    let server = Server::start(&[]);
    for number in 0..200 {
        create(&server.client(), &format!("o{number:03}"), &"x".repeat(50_000));
    }
    let before = server.resident_kb();
    let closed = [(setting::INITIAL_WINDOW_SIZE, 0)];
    let mut connections: Vec<Connection> =
        (0..4).map(|_| Connection::open_with(&server.address, &closed)).collect();
    for connection in &mut connections {
        let streams: Vec<u32> =
            (0..100).map(|_| connection.request("GET", &format!("{PATH}?watch=1"), &[], true)).collect();
        streams.iter().for_each(|stream| assert_eq!(connection.head(*stream).status, 200));
    }
    for number in 0..20 {
        create(&server.client(), &format!("p{number:03}"), &"x".repeat(50_000));
    }
    // 400 times 11 MB are owed. 64 KB of each may be at hand.
    let grown = server.resident_kb().saturating_sub(before);
    assert!(grown < 400 * 64 + (48 << 10), "{grown} KB more for 400 that take nothing");
    for connection in &mut connections {
        connection.ping();
    }
    drop(connections);
    server.wait_for_metric("revcast_watchers", 0);
    is_well(&server);
}

/// DATA beyond every window: an error of the stream or the connection, or it is taken and refused as a body.
#[test]
fn data_beyond_the_windows_is_not_collected() {
    let server = Server::start(&[]);
    let before = server.resident_kb();
    let mut connection = Connection::open(&server.address);
    let stream = connection.request("POST", PATH, &[("content-type", "application/json")], false);
    for _ in 0..64 {
        connection.send_all(&vec![Frame::data(stream, 0, vec![b' '; 16_384]); 64]);
        if connection.read(Duration::ZERO) == Read::End || connection.goaway().is_some() {
            break;
        }
    }
    match connection.outcome(stream, Duration::from_secs(10)) {
        Outcome::Reset(code) => assert_eq!(code, code::FLOW_CONTROL_ERROR),
        Outcome::Answered(status) => assert_eq!(status, 413),
        Outcome::GoneAway(_) | Outcome::Closed => {
            is_refused(&mut connection, &[code::FLOW_CONTROL_ERROR, code::ENHANCE_YOUR_CALM], "DATA");
        }
        Outcome::Quiet => panic!("neither refused nor answered"),
    }
    is_unharmed(&server, before, "DATA");
}

/// Many streams beyond the limit, all at once.
#[test]
fn streams_beyond_the_limit_cost_nothing() {
    let server = Server::start(&[]);
    let before = server.resident_kb();
    let mut connection = Connection::open(&server.address);
    let streams: Vec<u32> = (0..2_000).map(|_| connection.request("GET", QUIET, &[], true)).collect();
    let last = *streams.last().unwrap();
    match connection.outcome(last, Duration::from_secs(10)) {
        Outcome::Reset(code) => {
            assert_eq!(code, code::REFUSED_STREAM);
            assert_eq!(connection.head(streams[0]).status, 200, "the first ones stay");
        }
        other => {
            assert!(matches!(other, Outcome::GoneAway(_) | Outcome::Closed), "{other:?}");
            is_refused(&mut connection, &[code::ENHANCE_YOUR_CALM, code::PROTOCOL_ERROR], "streams");
        }
    }
    is_unharmed(&server, before, "streams");
}

/// A list whose client takes one byte at a time, and asks PINGs meanwhile.
#[test]
fn a_dribbling_reader_is_served_and_stops_nobody() {
    let server = Server::start(&[]);
    create(&server.client(), "a", &"x".repeat(5_000));
    let mut connection = Connection::open_with(&server.address, &[(setting::INITIAL_WINDOW_SIZE, 0)]);
    connection.replenishes = false;
    let list = connection.request("GET", PATH, &[], true);
    assert_eq!(connection.head(list).status, 200);
    for bytes in 1..200 {
        connection.send(Frame::window_update(list, 1));
        assert_eq!(connection.body(list, bytes).len(), bytes);
    }
    connection.ping();
    is_well(&server);
    connection.send(Frame::new(kind::WINDOW_UPDATE, 0, list, 1_000_000_u32.to_be_bytes()));
    assert!(connection.response(list).json()["items"].is_array());
}
