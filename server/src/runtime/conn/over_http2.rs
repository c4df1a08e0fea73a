//! Streams of one connection of HTTP/2: sent together, blocked and ended each for itself.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

use revcast_engine::{Run, Sent};

use super::tests::{Stand, link, pair};
use super::*;
use crate::frontend::Wire;
use crate::http::request::UpgradeHeaders;
use crate::http::websocket::Handshake;
use crate::runtime::client::{Client, Permit};
use crate::runtime::listener::ListenerKind;
use crate::wire::gzip;
use crate::wire::http2::{ErrorCode, Limits, PREFACE, hpack};
use crate::wire::stream::Delimiter;

const LIMITS: Limits = Limits {
    streams: 10,
    list_bytes: 16 << 10,
    table_bytes: 4 << 10,
    stream_window: 64 << 10,
    connection_window: 1 << 20,
};
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
/// `GET /` of `a`.
const GET: &[u8] = &[0x82, 0x86, 0x84, 0x01, 1, b'a'];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).expect("it is short").to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

type Frame = (u8, u8, u32, Vec<u8>);

/// A connection, and its client.
struct Case {
    stand: Stand,
    client: UnixStream,
    owner: crate::runtime::sys::polls::Owner,
    held: Vec<u8>,
}

impl Case {
    /// With so many watches. `window`: of each stream.
    fn open(window: u32, wire_streams: Vec<WireStream>) -> (Self, Vec<(Place, WatcherId)>) {
        Self::open_with(window, wire_streams, None)
    }

    fn open_with(
        window: u32,
        wire_streams: Vec<WireStream>,
        ping_after: Option<Duration>,
    ) -> (Self, Vec<(Place, WatcherId)>) {
        let mut stand = Stand::new();
        let (ours, mut client) = pair();
        client.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
        let settings = [&[0, 4][..], &window.to_be_bytes()].concat();
        let requests =
            (0..).zip(&wire_streams).flat_map(|(number, _)| frame(HEADERS, 5, 2 * number + 1, GET));
        let bytes = PREFACE
            .iter()
            .copied()
            .chain(frame(SETTINGS, 0, 0, &settings))
            .chain(requests)
            .collect::<Vec<u8>>();
        client.write_all(&bytes).expect("a socket");
        let now = stand.now();
        let known = Rc::new(Client::new(ListenerKind::Public, Permit::Operator, None));
        let timing = Http2Timing { idle_timeout: Duration::from_secs(900), ping_after };
        stand.conns.open_http2(link(ours, None), known, LIMITS, timing, now);
        let mut requests = Vec::new();
        stand.until(|_| true);
        while requests.len() < wire_streams.len() {
            stand.turn(stand.now());
            requests.extend(std::iter::from_fn(|| stand.conns.next_request(now)));
        }
        let owner = requests[0].owner;
        let mut watches = Vec::new();
        for (request, wire_stream) in requests.iter().zip(wire_streams) {
            let id = stand.id();
            let mut block = Vec::new();
            hpack::push_status(&mut block, 200);
            let frames = Frames { head: Some(&block), ..Frames::default() };
            assert_eq!(stand.conns.put_frames(owner, request.key, frames), Put::Data(0, true));
            stand.conns.attach_to(owner, request.key, id, wire_stream);
            watches.push((Place::among(owner.slot, request.key), id));
        }
        let mut case = Self { stand, client, owner, held: Vec::new() };
        let heads = (0..watches.len()).map(|_| case.next_of(HEADERS).2).collect::<Vec<_>>();
        assert_eq!(heads, (0..).map(|number| 2 * number + 1).take(watches.len()).collect::<Vec<_>>());
        (case, watches)
    }

    fn next(&mut self) -> Frame {
        loop {
            if let Some(&[a, b, c, kind, flags, w, x, y, z]) = self.held.first_chunk::<9>() {
                let len = 9 + u32::from_be_bytes([0, a, b, c]) as usize;
                if self.held.len() >= len {
                    let payload = self.held.drain(..len).skip(9).collect();
                    return (kind, flags, u32::from_be_bytes([w, x, y, z]), payload);
                }
            }
            let mut room = [0; 70_000];
            let read = self.client.read(&mut room).expect("a frame");
            assert!(read > 0, "the connection has ended");
            self.held.extend_from_slice(&room[..read]);
        }
    }

    /// The next frame of a kind, or of data.
    fn next_of(&mut self, kind: u8) -> Frame {
        loop {
            let frame = self.next();
            if frame.0 == kind || frame.0 == DATA {
                return frame;
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.client.write_all(bytes).expect("a socket");
        self.client.flush().expect("a socket");
    }

    fn offer(&mut self, (place, id): (Place, WatcherId), message: &[u8]) -> Sent {
        self.stand.conns.begin();
        self.stand.conns.offer(place, id, Offer::Messages(Run::new(message, &[message.len()], 0)))
    }

    fn end(&mut self, (place, id): (Place, WatcherId), clean: bool) {
        if clean {
            assert!(matches!(self.stand.conns.end(place, id), Sent::Took(_)));
            self.stand.conns.flush();
        }
        let now = self.stand.now();
        assert!(self.stand.conns.detach(place, id, clean, now).is_none());
        self.stand.turn(now);
    }
}

fn gzip_stream() -> WireStream {
    Wire::Gzip.wire_stream(Delimiter::Frames)
}

/// One system call sends all that one connection is sent in a turn.
#[test]
fn streams_of_one_connection_go_out_together() {
    let (mut case, watches) = Case::open(1000, vec![WireStream::Bare, WireStream::Bare, WireStream::Bare]);
    for (number, watch) in watches.iter().enumerate() {
        assert_eq!(case.offer(*watch, &[b'a'; 10][..=number]), Sent::Took(number + 1));
    }
    let mut room = [0; 100];
    case.client.set_nonblocking(true).expect("a socket");
    assert_eq!(case.client.read(&mut room).expect_err("nothing yet").kind(), ErrorKind::WouldBlock);
    case.stand.conns.flush();
    assert_eq!(case.client.read(&mut room).expect("all of it"), 3 * 9 + 1 + 2 + 3);
    let expected = [frame(DATA, 0, 1, b"a"), frame(DATA, 0, 3, b"aa"), frame(DATA, 0, 5, b"aaa")].concat();
    assert_eq!(room[..expected.len()], expected);
}

/// The same message for many streams goes out at once, without waiting for the turn; what has no room takes its own way.
#[test]
fn one_message_for_many_streams_is_one_send() {
    let wire_stream = |number| if number == 3 { gzip_stream() } else { WireStream::Bare };
    let (mut case, watches) = Case::open(8, (0..7).map(wire_stream).collect());
    // The sixth has a window of 3 left.
    assert_eq!(case.offer(watches[5], b"12345"), Sent::Took(5));
    case.stand.conns.flush();
    assert_eq!(case.next(), (DATA, 0, 11, b"12345".to_vec()));
    case.client.set_nonblocking(true).expect("a socket");
    let ids: Vec<WatcherId> = watches.iter().map(|(_, id)| *id).collect();
    let (mut answers, mut room) = (Vec::new(), [0; 200]);
    let place_of = |id| watches.iter().find(|(_, other)| *other == id).map(|(place, _)| *place);
    case.stand.conns.offer_each(&ids, Offer::Messages(Run::new(b"abcd", &[4], 0)), place_of, &mut answers);
    let took = [4, 4, 4, 4, 4, 3, 4].map(Sent::Took);
    assert_eq!(answers, took);
    let read = case.client.read(&mut room).expect("one send");
    let frames: Vec<u8> =
        [1, 3, 5, 9, 13].iter().flat_map(|stream| frame(DATA, 0, *stream, b"abcd")).collect();
    assert_eq!(room[..read], frames);
    case.stand.conns.flush();
    let read = case.client.read(&mut room).expect("the others");
    assert!(room[..read].ends_with(&frame(DATA, 0, 11, b"abc")));
    assert_eq!(&room[3..9], &[0, 0, 0, 0, 0, 7], "the compressed one comes first");
    // Another message, shorter: nothing of the one before is left.
    answers.clear();
    case.stand.conns.offer_each(&ids[..3], Offer::Messages(Run::new(b"e", &[1], 0)), place_of, &mut answers);
    case.stand.conns.offer_each(&ids[..5], Offer::Messages(Run::new(b"fg", &[2], 0)), place_of, &mut answers);
    case.stand.conns.flush();
    let read = case.client.read(&mut room).expect("all");
    assert!(!room[..read].contains(&b'd'), "{:?}", &room[..read]);
}

/// Streams that follow one another take their room together, or, if one has too little, each for itself.
#[test]
fn streams_in_a_row_take_a_message_together() {
    let (mut case, watches) = Case::open(10, (0..7).map(|_| WireStream::Bare).collect());
    case.client.set_nonblocking(true).expect("a socket");
    let ids: Vec<WatcherId> = watches.iter().map(|(_, id)| *id).collect();
    let place_of = |id| watches.iter().find(|(_, other)| *other == id).map(|(place, _)| *place);
    let offer = |case: &mut Case, took: [usize; 7], sent: &[u32]| {
        let (mut answers, mut room) = (Vec::new(), [0; 200]);
        let run = Run::new(b"abcd", &[4], 0);
        case.stand.conns.offer_each(&ids, Offer::Messages(run), place_of, &mut answers);
        assert_eq!(answers, took.map(Sent::Took));
        let frames: Vec<u8> = sent.iter().flat_map(|stream| frame(DATA, 0, *stream, b"abcd")).collect();
        let read = case.client.read(&mut room).expect("one send");
        assert_eq!(room[..read], frames);
    };
    offer(&mut case, [4; 7], &[1, 3, 5, 7, 9, 11, 13]);
    assert_eq!(case.offer(watches[5], b"123"), Sent::Took(3));
    case.stand.conns.flush();
    assert_eq!(case.next(), (DATA, 0, 11, b"123".to_vec()));
    // The sixth has room for 3 bytes more, all others for 6.
    offer(&mut case, [4, 4, 4, 4, 4, 3, 4], &[1, 3, 5, 7, 9, 13]);
    case.stand.conns.flush();
    assert_eq!(case.next(), (DATA, 0, 11, b"abc".to_vec()));
}

/// A stream without a window costs the others nothing, and is told of when it has one.
#[test]
fn a_stream_without_a_window_holds_up_no_other() {
    let (mut case, watches) = Case::open(5, vec![WireStream::Bare, WireStream::Bare]);
    assert_eq!(case.offer(watches[0], b"abcdefgh"), Sent::Took(5), "the engine keeps the rest");
    assert_eq!(case.offer(watches[0], b"fgh"), Sent::Took(0));
    assert_eq!(case.offer(watches[1], b"abc"), Sent::Took(3));
    case.stand.conns.flush();
    assert_eq!([case.next(), case.next()], [(DATA, 0, 1, b"abcde".to_vec()), (DATA, 0, 3, b"abc".to_vec())]);
    case.send(&frame(WINDOW_UPDATE, 0, 1, &3u32.to_be_bytes()));
    case.stand.until(|stand| !stand.events.is_empty());
    assert_eq!(case.stand.events, [(watches[0].1, ConnEvent::Writable)]);
    assert_eq!(case.offer(watches[0], b"fgh"), Sent::Took(3));
    // Neither is sent a space that it has no room for.
    let (place, id) = watches[0];
    assert_eq!(case.stand.conns.offer(place, id, Offer::Heartbeat), Sent::Took(0));
}

/// Watches that are not in the order of their streams are found all the same, and one that left is not sent for.
#[test]
fn watches_are_served_in_any_order() {
    let (mut case, mut watches) = Case::open(1000, (0..7).map(|_| WireStream::Bare).collect());
    case.end(watches[2], true);
    assert_eq!(case.next(), (DATA, 1, 5, Vec::new()));
    case.client.set_nonblocking(true).expect("a socket");
    let gone = watches.remove(2);
    for order in [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [2, 5, 0, 1, 4, 3]] {
        let ids: Vec<WatcherId> = order.iter().map(|at| watches[*at].1).chain([gone.1]).collect();
        let place_of = |id| watches.iter().find(|(_, other)| *other == id).map(|(place, _)| *place);
        let mut answers = Vec::new();
        case.stand.conns.offer_each(
            &ids,
            Offer::Messages(Run::new(b"abcd", &[4], 0)),
            place_of,
            &mut answers,
        );
        assert_eq!(answers, [[Sent::Took(4); 6].as_slice(), &[Sent::Gone]].concat());
        let frames: Vec<u8> =
            order.iter().flat_map(|at| frame(DATA, 0, [1, 3, 7, 9, 11, 13][*at], b"abcd")).collect();
        let mut room = [0; 200];
        let read = case.client.read(&mut room).expect("one send");
        assert_eq!(room[..read], frames);
    }
}

/// While the watches have work, a client that sends much is read in small parts, and everything it sent is taken in order.
#[test]
fn what_takes_long_is_taken_over_several_turns() {
    const PINGS: u32 = 900;
    let (mut case, _) = Case::open(1000, vec![WireStream::Bare]);
    let pings = (0..PINGS)
        .flat_map(|number| frame(PING, 0, 0, &u64::from(number).to_be_bytes()))
        .collect::<Vec<u8>>();
    case.send(&pings);
    let mut answered = Vec::new();
    let mut turns = 0;
    while answered.len() < PINGS as usize {
        turns += 1;
        assert!(turns < 10_000, "{} are answered", answered.len());
        // So little is left that a read is the last of its turn.
        let budget = &mut case.stand.conns.read_budget;
        while !budget.is_left() {
            budget.earn(Some(Duration::ZERO));
        }
        budget.earn(Some(Duration::ZERO));
        budget.spend(budget.left().saturating_sub(Duration::from_nanos(1)));
        let before = answered.len();
        case.stand.turn(case.stand.now());
        case.client.set_nonblocking(true).expect("a socket");
        let mut room = [0; 70_000];
        match case.client.read(&mut room) {
            Ok(read) => case.held.extend_from_slice(&room[..read]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        while case.held.len() >= 17 {
            let (kind, flags, _, payload) = case.next();
            assert_eq!((kind, flags), (PING, 1));
            answered.push(u64::from_be_bytes(payload.try_into().expect("8 bytes")));
        }
        assert!(answered.len() - before <= 61, "a KiB at a time: {}", answered.len() - before);
    }
    assert!(answered.into_iter().eq(0..u64::from(PINGS)));
}

/// A connection that is sent nothing gets one PING for all its watches, and they get no spaces; any bytes put it off.
#[test]
fn a_quiet_connection_is_pinged() {
    let after = Duration::from_secs(25);
    let (mut case, watches) = Case::open_with(1000, vec![WireStream::Bare, WireStream::Bare], Some(after));
    let begin = case.stand.now();
    let at = |seconds| begin.plus(Duration::from_secs(seconds));
    let turn = |case: &mut Case, seconds| {
        case.stand.turn(at(seconds));
        case.stand.conns.flush();
    };
    // Seen as having sent their heads.
    turn(&mut case, 1);
    turn(&mut case, 20);
    for (place, id) in &watches {
        assert_eq!(case.stand.conns.offer(*place, *id, Offer::Heartbeat), Sent::Took(0));
    }
    assert_eq!(case.offer(watches[0], b"event"), Sent::Took(5));
    case.stand.conns.flush();
    turn(&mut case, 21);
    assert_eq!(case.next(), (DATA, 0, 1, b"event".to_vec()), "neither a space nor a PING before it");
    turn(&mut case, 22);
    turn(&mut case, 45);
    for seconds in [47, 48, 60, 73] {
        turn(&mut case, seconds);
    }
    let pings = [case.next(), case.next()];
    assert!(
        pings.iter().all(|(kind, flags, stream, payload)| {
            (*kind, *flags, *stream, payload.len()) == (PING, 0, 0, 8)
        }),
        "{pings:?}"
    );
    case.client.set_nonblocking(true).expect("a socket");
    assert_eq!(case.client.read(&mut [0; 9]).expect_err("one each time").kind(), ErrorKind::WouldBlock);
    // Without a watch there is nothing to keep alive.
    for watch in watches {
        case.end(watch, true);
    }
    turn(&mut case, 80);
    let _ended = case.client.read(&mut [0; 99]);
    turn(&mut case, 110);
    turn(&mut case, 140);
    assert_eq!(case.client.read(&mut [0; 9]).expect_err("no PING").kind(), ErrorKind::WouldBlock);
}

/// Streams that a full socket blocked are told of when it is not full; what was collected is sent first.
#[test]
fn a_full_socket_blocks_all_of_its_streams() {
    let (mut case, watches) = Case::open(1 << 30, vec![WireStream::Bare, WireStream::Bare, WireStream::Bare]);
    case.send(&frame(WINDOW_UPDATE, 0, 0, &(1u32 << 30).to_be_bytes()));
    case.stand.until(|_| true);
    case.stand.turn(case.stand.now());
    let message = vec![b'm'; 1 << 20];
    let mut sent = 0;
    while let Sent::Took(taken @ 1..) = case.offer(watches[0], &message) {
        sent += taken;
        case.stand.conns.flush();
    }
    assert_eq!(case.offer(watches[1], b"later"), Sent::Took(0));
    let mut received = 0;
    case.stand.conns.submit();
    while received < sent {
        if let (DATA, _, 1, payload) = case.next() {
            received += payload.len();
        }
        case.stand.turn(case.stand.now());
    }
    case.stand.until(|stand| stand.events.len() >= 2);
    let mut told: Vec<WatcherId> = case.stand.events.iter().map(|(id, _)| *id).collect();
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len(), 2, "the third was refused nothing: {:?}", case.stand.events);
    assert_eq!(case.offer(watches[1], b"later"), Sent::Took(5));
}

/// What a stream's own state made, and the window does not take, goes out before anything else of it, and before its end.
#[test]
fn a_coded_stream_keeps_what_has_no_room() {
    let (mut case, watches) = Case::open(100, vec![gzip_stream(), WireStream::Bare]);
    let noise = gzip::tests::noise(1000);
    assert_eq!(case.offer(watches[0], &noise), Sent::Took(1000));
    assert_eq!(case.offer(watches[0], b"more"), Sent::Took(0));
    case.end(watches[0], true);
    assert_eq!(case.stand.conns.take_gone(), 1);
    let mut coded = gzip::OPENING_BARE.to_vec();
    loop {
        let (kind, flags, stream, payload) = case.next_of(RST_STREAM);
        assert_eq!((kind, stream), (DATA, 1));
        coded.extend_from_slice(&payload);
        if flags == 1 {
            break;
        }
        case.send(&frame(WINDOW_UPDATE, 0, 1, &100u32.to_be_bytes()));
        std::thread::sleep(Duration::from_millis(1));
        case.stand.turn(case.stand.now());
        case.stand.turn(case.stand.now());
    }
    assert!(coded.len() > 1000, "noise stays as long");
    assert_eq!(gzip::tests::inflated(&coded), noise);
    // The other goes on.
    assert_eq!(case.offer(watches[1], b"on"), Sent::Took(2));
}

/// What a client sent before its request became a watch is not lost: a WebSocket's ping is answered, a body's window is given back.
#[test]
fn what_came_before_the_watch_is_read() {
    let (mut case, watches) = Case::open(1000, vec![WireStream::Bare]);
    let post = [&GET[1..], &[0x83]].concat();
    case.send(&frame(HEADERS, 4, 3, &post));
    case.send(&frame(HEADERS, 4, 5, &post));
    let mut requests = Vec::new();
    while requests.len() < 2 {
        case.stand.turn(case.stand.now());
        let now = case.stand.now();
        requests.extend(std::iter::from_fn(|| case.stand.conns.next_request(now)));
    }
    // A masked ping of 2 bytes; and a body that nobody reads.
    case.send(&frame(DATA, 0, 3, b"\x89\x82\0\0\0\0hi"));
    (0..3).for_each(|_| case.send(&frame(DATA, 0, 5, &[0; 11_000])));
    case.stand.until(|_| requests.iter().all(|request| !request.stream.is_dry()));
    let handshake = UpgradeHeaders {
        key: Some("AAAAAAAAAAAAAAAAAAAAAA==".to_owned()),
        version: Some("13".to_owned()),
        protocols: None,
    };
    let handshake = Handshake::new(&handshake).expect("a valid one");
    for (request, wire_stream) in
        requests.iter().zip([Wire::WebSocket(handshake).wire_stream(Delimiter::Frames), WireStream::Bare])
    {
        let mut block = Vec::new();
        hpack::push_status(&mut block, 200);
        let frames = Frames { head: Some(&block), ..Frames::default() };
        assert_eq!(case.stand.conns.put_frames(case.owner, request.key, frames), Put::Data(0, true));
        let id = case.stand.id();
        case.stand.conns.attach_to(case.owner, request.key, id, wire_stream);
    }
    assert!(case.stand.conns.has_events());
    for _ in 0..20 {
        case.stand.turn(case.stand.now());
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut got = Vec::new();
    while got.len() < 2 {
        got.extend(
            Some(case.next()).filter(|frame| frame.0 == DATA || (frame.0 == WINDOW_UPDATE && frame.2 == 0)),
        );
    }
    assert!(got.contains(&(DATA, 0, 3, b"\x8a\x02hi".to_vec())), "{got:?}");
    assert!(got.iter().any(|frame| frame.0 == WINDOW_UPDATE), "{got:?}");
    assert_eq!(case.offer(watches[0], b"on"), Sent::Took(2));
}

#[test]
fn a_stream_ends_alone() {
    let (mut case, watches) = Case::open(1000, vec![WireStream::Bare, WireStream::Bare, WireStream::Bare]);
    case.end(watches[0], true);
    assert_eq!(case.next(), (DATA, 1, 1, Vec::new()));
    case.end(watches[1], false);
    assert_eq!(case.next(), (RST_STREAM, 0, 3, (ErrorCode::InternalError as u32).to_be_bytes().to_vec()));
    // The client ends one itself.
    case.send(&frame(RST_STREAM, 0, 5, &8u32.to_be_bytes()));
    case.stand.until(|stand| !stand.events.is_empty());
    assert_eq!(case.stand.events, [(watches[2].1, ConnEvent::Gone { stalled: false })]);
    case.end(watches[2], false);
    assert_eq!(case.stand.conns.take_gone(), 3);
    assert!(case.stand.is_open(case.owner.slot));
    assert_eq!(case.offer(watches[0], b"late"), Sent::Gone);
}

/// Nobody begins to answer what is not asked for any more, and its stream is gone.
#[test]
fn a_request_that_is_reset_before_it_begins_is_dropped() {
    let (mut case, _) = Case::open(1000, vec![WireStream::Bare]);
    let reset = frame(RST_STREAM, 0, 3, &8u32.to_be_bytes());
    case.send(&[frame(HEADERS, 5, 3, GET), reset, frame(HEADERS, 5, 5, GET)].concat());
    let now = case.stand.now();
    let next = loop {
        case.stand.turn(now);
        if let Some(next) = case.stand.conns.next_request(now) {
            break next;
        }
    };
    assert!(!next.stream.is_gone() && case.stand.conns.next_request(now).is_none());
    assert_eq!(case.stand.conns.open_http2s().streams, 2, "the watch, and the request that is left");
}

/// The connection of a peer that breaks a rule ends, and all of its streams.
#[test]
fn a_peer_that_breaks_a_rule_is_told_and_left() {
    let (mut case, watches) = Case::open(1000, vec![WireStream::Bare, WireStream::Bare]);
    case.send(&frame(DATA, 0, 0, b"of no stream"));
    case.stand.until(|stand| stand.events.len() == 2);
    let (GOAWAY, 0, 0, payload) = case.next_of(GOAWAY) else { panic!("a GOAWAY") };
    assert_eq!(payload[..8], [0, 0, 0, 3, 0, 0, 0, 1]);
    for watch in watches {
        case.end(watch, false);
    }
    assert_eq!(case.stand.conns.take_gone(), 2);
    assert_eq!(case.client.read(&mut [0; 10]).expect("an end"), 0);
    let mut codes = Vec::new();
    case.stand.conns.take_http2_counts(|_, faults| codes = faults.to_vec());
    assert_eq!(codes, [ErrorCode::ProtocolError]);
}

/// A server that closes says so, takes what is under way, and ends a connection with its last stream.
#[test]
fn a_connection_ends_with_its_last_stream() {
    let (mut case, watches) = Case::open(1000, vec![WireStream::Bare]);
    case.stand.conns.leave(true);
    case.stand.until(|_| true);
    case.stand.turn(case.stand.now());
    let last = |frame: Frame| (frame.0, u32::from_be_bytes([frame.3[0], frame.3[1], frame.3[2], frame.3[3]]));
    assert_eq!(last(case.next_of(GOAWAY)), (GOAWAY, u32::MAX >> 1));
    case.stand.turn(case.stand.now().plus(Duration::from_secs(2)));
    assert_eq!(last(case.next_of(GOAWAY)), (GOAWAY, 1));
    assert_eq!(case.offer(watches[0], b"still"), Sent::Took(5));
    case.end(watches[0], true);
    let slot = case.owner.slot;
    assert_eq!([case.next().3, case.next().3], [b"still".to_vec(), Vec::new()]);
    case.stand.turn(case.stand.now());
    assert_eq!(case.client.read(&mut [0; 10]).expect("an end"), 0);
    drop(case.client);
    let stand = &mut case.stand;
    stand.until(|stand| !stand.is_open(slot));
}
