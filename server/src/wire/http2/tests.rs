//! Each rule for what a peer sends, by frames that keep or break it.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

use std::time::Duration;

use revcast_engine::tick::Tick;

use super::frame::{self, FrameHead, HEAD_BYTES, flag, kind};
use super::{Connection, ErrorCode, Events, Limits, PREFACE, Request, StreamKey};

pub(super) const LIMITS: Limits = Limits {
    streams: 5,
    list_bytes: 16 << 10,
    table_bytes: 4 << 10,
    stream_window: 64 << 10,
    connection_window: 256 << 10,
};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Request(u32, Request),
    Data(u32, Vec<u8>, bool),
    Reset(u32),
    Room(u32),
}

#[derive(Default)]
struct Recorder(Vec<Event>);

impl Events for Recorder {
    type Stream = ();

    fn request(&mut self, key: StreamKey, request: Request) {
        self.0.push(Event::Request(key.index(), request));
    }

    fn data(&mut self, key: StreamKey, (): &mut (), bytes: &[u8], ended: bool) {
        self.0.push(Event::Data(key.index(), bytes.to_vec(), ended));
    }

    fn reset(&mut self, key: StreamKey, (): &mut ()) {
        self.0.push(Event::Reset(key.index()));
    }

    fn room(&mut self, key: StreamKey, (): &mut ()) {
        self.0.push(Event::Room(key.index()));
    }
}

/// A connection, and what it told.
pub(super) struct Case {
    pub(super) connection: Connection<()>,
    events: Recorder,
    now: Tick,
    pub(super) out: Vec<u8>,
}

/// `(kind, flags, stream, payload)`.
type Frame = (u8, u8, u32, Vec<u8>);

pub(super) fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() {
        let head = FrameHead::parse(*head);
        let (payload, rest) = rest.split_at(head.len as usize);
        frames.push((head.kind, head.flags, head.stream, payload.to_vec()));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "a frame is cut");
    frames
}

pub(super) fn made(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::push(&mut out, kind, flags, stream, payload);
    out
}

pub(super) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        // Literals: names that may not be are sent too.
        out.push(0);
        for text in [name, value] {
            push_text(&mut out, text.as_bytes());
        }
    }
    out
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    match u8::try_from(text.len()) {
        Ok(len @ 0..127) => out.push(len),
        _ => {
            let rest = text.len() - 127;
            assert!((128..1 << 14).contains(&rest), "two more bytes hold it");
            out.extend([127, (rest % 128) as u8 | 128, (rest / 128) as u8]);
        }
    }
    out.extend_from_slice(text);
}

pub(super) const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":path", "/api"), (":authority", "localhost")];

pub(super) fn get(stream: u32) -> Vec<u8> {
    made(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &block(&GET))
}

pub(super) fn post(stream: u32, more: &[(&str, &str)]) -> Vec<u8> {
    let mut fields = vec![(":method", "POST"), (":scheme", "http"), (":path", "/api")];
    fields.push((":authority", "localhost"));
    fields.extend_from_slice(more);
    made(kind::HEADERS, flag::END_HEADERS, stream, &block(&fields))
}

pub(super) fn settings(pairs: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> =
        pairs.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
    made(kind::SETTINGS, 0, 0, &payload)
}

pub(super) fn update(stream: u32, increment: u32) -> Vec<u8> {
    made(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

impl Case {
    /// Before the preface.
    fn new() -> Self {
        let now = Tick::from_nanos(1);
        Self { connection: Connection::new(LIMITS, now), events: Recorder::default(), now, out: Vec::new() }
    }

    pub(super) fn open() -> Self {
        let mut case = Self::new();
        case.send(&[PREFACE.to_vec(), settings(&[])]);
        case.sent();
        case
    }

    pub(super) fn send(&mut self, parts: &[Vec<u8>]) {
        self.connection.receive(&parts.concat(), self.now, &mut self.events);
    }

    /// What was sent since the last call.
    fn sent(&mut self) -> Vec<Frame> {
        let mut out = Vec::new();
        self.connection.take_control(&mut out);
        out.append(&mut self.out);
        frames(&out)
    }

    fn told(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events.0)
    }

    pub(super) fn push(&mut self, stream: u32, data: &[u8], ended: bool) -> usize {
        self.connection.push_data(StreamKey(stream), data, ended, &mut self.out).bytes
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Fine,
    Reset(ErrorCode),
    Away(ErrorCode),
}

fn outcome(parts: &[Vec<u8>]) -> Outcome {
    let mut case = Case::open();
    case.send(parts);
    outcome_of(&mut case)
}

pub(super) fn outcome_of(case: &mut Case) -> Outcome {
    let code = |payload: &[u8], at: usize| payload[at..at + 4].to_vec();
    let named = |code: Vec<u8>| {
        let all = [
            ErrorCode::NoError,
            ErrorCode::ProtocolError,
            ErrorCode::FlowControlError,
            ErrorCode::SettingsTimeout,
            ErrorCode::StreamClosed,
            ErrorCode::FrameSizeError,
            ErrorCode::RefusedStream,
            ErrorCode::CompressionError,
            ErrorCode::EnhanceYourCalm,
        ];
        all.into_iter().find(|known| (*known as u32).to_be_bytes().to_vec() == code).unwrap()
    };
    let sent = case.sent();
    if let Some((.., payload)) = sent.iter().find(|frame| frame.0 == kind::GOAWAY) {
        let code = named(code(payload, 4));
        assert_eq!(case.connection.ended().map(|ended| ended.0.code), Some(code));
        return Outcome::Away(code);
    }
    assert_eq!(case.connection.ended(), None);
    let reset = sent.iter().find(|frame| frame.0 == kind::RST_STREAM);
    reset.map_or(Outcome::Fine, |(.., payload)| Outcome::Reset(named(code(payload, 0))))
}

#[test]
fn a_request_comes_out_as_a_head_of_http_1() {
    let mut case = Case::open();
    let fields = [
        (":method", "GET"),
        (":authority", "k8s:6443"),
        (":scheme", "https"),
        (":path", "/api/v1/pods?watch=1"),
        ("cookie", "a=1"),
        ("accept", "application/json"),
        ("cookie", "b=2"),
    ];
    case.send(&[made(kind::HEADERS, 5, 1, &block(&fields))]);
    let [Event::Request(0, request)] = &case.told()[..] else { panic!("one request") };
    assert_eq!(
        String::from_utf8_lossy(&request.head),
        "GET /api/v1/pods?watch=1 HTTP/1.1\r\nhost: k8s:6443\r\ncookie: a=1; b=2\r\naccept: application/json\r\n\r\n"
    );
    assert!(request.has_ended && !request.is_websocket);
}

#[test]
fn a_websocket_asks_in_words_of_http_1() {
    let mut case = Case::open();
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":path", "/api/v1/pods?watch=1"),
        (":authority", "localhost"),
        ("sec-websocket-version", "13"),
    ];
    case.send(&[made(kind::HEADERS, 4, 1, &block(&fields))]);
    let [Event::Request(0, request)] = &case.told()[..] else { panic!("one request") };
    assert!(request.is_websocket);
    let head = String::from_utf8_lossy(&request.head).into_owned();
    assert!(
        head.starts_with("GET /api/v1/pods?watch=1 HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\n")
    );
    assert!(head.ends_with("sec-websocket-version: 13\r\n\r\n"));
}

#[test]
fn bytes_may_be_split_anywhere() {
    let padded = [&[3][..], b"hello", &[0; 3]].concat();
    let all = [
        PREFACE.to_vec(),
        settings(&[(4, 1000)]),
        post(1, &[("content-length", "10")]),
        made(kind::DATA, flag::PADDED, 1, &padded),
        made(200, 0, 0, b"unknown"),
        made(kind::DATA, flag::END_STREAM, 1, b"world"),
        get(3),
    ]
    .concat();
    let mut whole = Case::new();
    whole.send(std::slice::from_ref(&all));
    let expected = whole.told();
    assert_eq!(expected.len(), 4);
    for at in 0..all.len() {
        let mut case = Case::new();
        case.send(&[all[..at].to_vec()]);
        case.send(&[all[at..].to_vec()]);
        let joined = |events: Vec<Event>| {
            let data =
                |event: &Event| if let Event::Data(_, bytes, _) = event { bytes.clone() } else { vec![] };
            events.iter().flat_map(data).collect::<Vec<u8>>()
        };
        assert_eq!(joined(case.told()), b"helloworld");
        assert_eq!(case.sent(), whole_sent(&all));
    }
    let mut bytewise = Case::new();
    for byte in &all {
        bytewise.send(&[vec![*byte]]);
    }
    assert_eq!(bytewise.told().len(), 2 + 10);
}

fn whole_sent(all: &[u8]) -> Vec<Frame> {
    let mut case = Case::new();
    case.send(&[all.to_vec()]);
    case.sent()
}

#[test]
fn what_breaks_a_connection() {
    use ErrorCode::{CompressionError, FlowControlError, FrameSizeError, ProtocolError, StreamClosed};
    let h = |flags, stream, payload: &[u8]| made(kind::HEADERS, flags, stream, payload);
    let big = vec![0; (16 << 10) + 1];
    let cases: Vec<(&str, Vec<Vec<u8>>, ErrorCode)> = vec![
        ("DATA of no stream", vec![made(kind::DATA, 0, 0, b"x")], ProtocolError),
        ("DATA of an idle stream", vec![made(kind::DATA, 0, 1, b"x")], ProtocolError),
        ("too much padding", vec![post(1, &[]), made(kind::DATA, 8, 1, &[2, 0])], ProtocolError),
        ("padding of HEADERS", vec![h(12, 1, &[9, 0x82])], ProtocolError),
        ("an even number", vec![h(5, 2, &block(&GET))], ProtocolError),
        ("a number 0", vec![h(5, 0, &block(&GET))], ProtocolError),
        ("a lower number", vec![get(5), get(3)], ProtocolError),
        ("a large frame", vec![made(kind::DATA, 0, 1, &big)], FrameSizeError),
        ("a large unknown frame", vec![made(99, 0, 1, &big)], FrameSizeError),
        ("PRIORITY of no stream", vec![made(kind::PRIORITY, 0, 0, &[0; 5])], ProtocolError),
        ("a short HEADERS with a priority", vec![h(0x25, 1, &[0; 4])], FrameSizeError),
        ("RST_STREAM of no stream", vec![made(kind::RST_STREAM, 0, 0, &[0; 4])], ProtocolError),
        ("RST_STREAM of an idle stream", vec![made(kind::RST_STREAM, 0, 1, &[0; 4])], ProtocolError),
        ("a short RST_STREAM", vec![get(1), made(kind::RST_STREAM, 0, 1, &[0; 3])], FrameSizeError),
        ("SETTINGS of a stream", vec![made(kind::SETTINGS, 0, 1, &[])], ProtocolError),
        ("SETTINGS of 5 bytes", vec![made(kind::SETTINGS, 0, 0, &[0; 5])], FrameSizeError),
        ("an answer to SETTINGS that sets", vec![made(kind::SETTINGS, 1, 0, &[0; 6])], FrameSizeError),
        ("ENABLE_PUSH of 2", vec![settings(&[(2, 2)])], ProtocolError),
        ("a window of 2^31", vec![settings(&[(4, 1 << 31)])], FlowControlError),
        ("frames of 16,383 bytes", vec![settings(&[(5, 16_383)])], ProtocolError),
        ("frames of 2^24 bytes", vec![settings(&[(5, 1 << 24)])], ProtocolError),
        ("PUSH_PROMISE", vec![get(1), made(kind::PUSH_PROMISE, 4, 1, &[0; 4])], ProtocolError),
        ("PING of 7 bytes", vec![made(kind::PING, 0, 0, &[0; 7])], FrameSizeError),
        ("PING of a stream", vec![made(kind::PING, 0, 1, &[0; 8])], ProtocolError),
        ("GOAWAY of a stream", vec![made(kind::GOAWAY, 0, 1, &[0; 8])], ProtocolError),
        ("a short GOAWAY", vec![made(kind::GOAWAY, 0, 0, &[0; 7])], FrameSizeError),
        ("a window that grows by 0", vec![update(0, 0)], ProtocolError),
        ("a window of 3 bytes", vec![made(kind::WINDOW_UPDATE, 0, 0, &[0; 3])], FrameSizeError),
        ("a window of an idle stream", vec![update(1, 1)], ProtocolError),
        ("a connection's window over the most", vec![update(0, (1 << 31) - 1)], FlowControlError),
        (
            "a window that settings make too large",
            { vec![get(1), update(1, (1 << 31) - 1 - 65_535), settings(&[(4, 65_536)])] },
            FlowControlError,
        ),
        ("CONTINUATION of nothing", vec![made(kind::CONTINUATION, 4, 1, &[])], ProtocolError),
        ("CONTINUATION after the end", vec![get(1), made(kind::CONTINUATION, 4, 1, &[])], ProtocolError),
        ("another frame within a block", vec![h(1, 1, &block(&GET)), update(0, 1)], ProtocolError),
        (
            "another stream within a block",
            { vec![h(1, 1, &block(&GET)), made(kind::CONTINUATION, 4, 3, &[])] },
            ProtocolError,
        ),
        ("an unknown frame within a block", vec![h(1, 1, &block(&GET)), made(99, 0, 0, &[])], ProtocolError),
        ("index 0", vec![h(5, 1, &[0x80])], CompressionError),
        ("an index beyond the tables", vec![h(5, 1, &[0xff, 0xff, 0x03])], CompressionError),
        ("a table that is too large", vec![h(5, 1, &[0x3f, 0xe2, 0x1f])], CompressionError),
        ("a block that is cut", vec![h(5, 1, &[0x40, 5, b'x'])], CompressionError),
        ("trailers that are no block", vec![post(1, &[]), h(5, 1, &[0x80])], CompressionError),
        (
            "HEADERS of a stream that ended",
            { vec![get(1), made(kind::RST_STREAM, 0, 1, &[0; 4]), get(3)] },
            StreamClosed,
        ),
    ];
    for (what, parts, code) in cases {
        if what == "HEADERS of a stream that ended" {
            let mut case = Case::open();
            case.send(&parts);
            case.connection.release(StreamKey(0));
            case.sent();
            case.send(&[get(1)]);
            assert_eq!(outcome_of(&mut case), Outcome::Away(code), "{what}");
            continue;
        }
        assert_eq!(outcome(&parts), Outcome::Away(code), "{what}");
    }
}

#[test]
fn what_breaks_a_stream() {
    use ErrorCode::{FlowControlError, FrameSizeError, ProtocolError, StreamClosed};
    let end = flag::END_STREAM;
    let cases: Vec<(&str, Vec<Vec<u8>>, ErrorCode)> = vec![
        ("DATA after the end", vec![get(1), made(kind::DATA, 0, 1, b"x")], StreamClosed),
        ("HEADERS after the end", vec![get(1), get(1)], StreamClosed),
        ("PRIORITY of 4 bytes", vec![get(1), made(kind::PRIORITY, 0, 1, &[0; 4])], FrameSizeError),
        ("a window that grows by 0", vec![get(1), update(1, 0)], ProtocolError),
        ("a window over the most", vec![get(1), update(1, (1 << 31) - 1)], FlowControlError),
        ("trailers without an end", vec![post(1, &[]), made(kind::HEADERS, 4, 1, &[])], ProtocolError),
        (
            "trailers with a pseudo-header",
            { vec![post(1, &[]), made(kind::HEADERS, 5, 1, &block(&[(":path", "/")]))] },
            ProtocolError,
        ),
        (
            "a body that is longer",
            { vec![post(1, &[("content-length", "1")]), made(kind::DATA, 0, 1, b"xy")] },
            ProtocolError,
        ),
        (
            "a body that is shorter",
            { vec![post(1, &[("content-length", "3")]), made(kind::DATA, end, 1, b"xy")] },
            ProtocolError,
        ),
        (
            "a body that trailers end too early",
            { vec![post(1, &[("content-length", "3")]), made(kind::HEADERS, 5, 1, &block(&[("x", "y")]))] },
            ProtocolError,
        ),
    ];
    for (what, parts, code) in cases {
        let mut case = Case::open();
        case.send(&parts);
        assert_eq!(outcome_of(&mut case), Outcome::Reset(code), "{what}");
        // The others go on.
        case.told();
        case.send(&[get(7)]);
        assert_eq!(case.told().len(), 1, "{what}");
    }
}

#[test]
fn what_is_malformed() {
    let with = |fields: &[(&'static str, &'static str)]| [&GET[..], fields].concat();
    let without = |name: &str| GET.into_iter().filter(|field| field.0 != name).collect::<Vec<_>>();
    let cases: Vec<Vec<(&'static str, &'static str)>> = vec![
        without(":method"),
        without(":scheme"),
        without(":path"),
        with(&[(":path", "/")]),
        with(&[(":status", "200")]),
        with(&[(":other", "x")]),
        with(&[("x", "y"), (":authority", "late")]),
        with(&[("Upper", "x")]),
        with(&[("sp ace", "x")]),
        with(&[("", "x")]),
        with(&[("x", "a\r\nb: c")]),
        with(&[("x", "a\nb")]),
        with(&[("x", "a\0")]),
        with(&[("x", " a")]),
        with(&[("x", "a\t")]),
        with(&[("connection", "close")]),
        with(&[("keep-alive", "1")]),
        with(&[("proxy-connection", "close")]),
        with(&[("transfer-encoding", "chunked")]),
        with(&[("upgrade", "h2c")]),
        with(&[("te", "gzip")]),
        with(&[("host", "other")]),
        with(&[("host", "localhost"), ("host", "localhost")]),
        with(&[("content-length", "1")]),
        with(&[("content-length", "-1")]),
        with(&[("content-length", "0"), ("content-length", "0")]),
        with(&[(":protocol", "websocket")]),
        vec![(":method", "GET"), (":scheme", "http"), (":path", "")],
        vec![(":method", "GET"), (":scheme", "http"), (":path", "api")],
        vec![(":method", "GET"), (":scheme", "http"), (":path", "/ HTTP/1.1")],
        vec![(":method", "G T"), (":scheme", "http"), (":path", "/")],
        vec![(":method", "GET"), (":scheme", "ftp"), (":path", "/")],
        vec![(":method", "CONNECT"), (":scheme", "http"), (":path", "/"), (":authority", "a")],
        vec![(":method", "CONNECT")],
    ];
    for fields in cases {
        let request = made(kind::HEADERS, 5, 1, &block(&fields));
        let malformed = Outcome::Reset(ErrorCode::ProtocolError);
        assert_eq!(outcome(&[request]), malformed, "{fields:?}");
    }
    for fields in [with(&[("te", "trailers")]), with(&[("host", "localhost")]), without(":authority")] {
        assert_eq!(outcome(&[made(kind::HEADERS, 5, 1, &block(&fields))]), Outcome::Fine, "{fields:?}");
    }
}

#[test]
fn the_opening_is_checked() {
    let mut case = Case::new();
    case.send(&[b"GET / HTTP/1.1\r\n\r\n".to_vec()]);
    assert_eq!(outcome_of(&mut case), Outcome::Away(ErrorCode::ProtocolError));
    let mut case = Case::new();
    case.send(&[PREFACE.to_vec(), made(kind::PING, 0, 0, &[0; 8])]);
    assert_eq!(outcome_of(&mut case), Outcome::Away(ErrorCode::ProtocolError));
    let mut case = Case::new();
    let sent = case.sent();
    assert_eq!((sent[0].0, sent[0].1, sent[0].2), (kind::SETTINGS, 0, 0));
    case.send(&[PREFACE.to_vec()]);
    case.connection.tick(case.now.plus(Duration::from_secs(9)));
    assert_eq!(case.connection.ended(), None);
    case.connection.tick(case.now.plus(Duration::from_secs(10)));
    assert_eq!(outcome_of(&mut case), Outcome::Away(ErrorCode::SettingsTimeout));
    // A field block has a time too.
    let mut case = Case::open();
    case.send(&[made(kind::HEADERS, 1, 1, &block(&GET))]);
    case.connection.tick(case.now.plus(Duration::from_secs(10)));
    assert_eq!(outcome_of(&mut case), Outcome::Away(ErrorCode::ProtocolError));
}

#[test]
fn settings_and_pings_are_answered() {
    let mut case = Case::open();
    case.send(&[settings(&[(1, 0), (3, 1), (6, 9), (77, 5)]), made(kind::PING, 0, 0, b"12345678")]);
    let sent = case.sent();
    assert_eq!(sent[0], (kind::SETTINGS, flag::ACK, 0, vec![]));
    assert_eq!(sent[1], (kind::PING, flag::ACK, 0, b"12345678".to_vec()));
}

#[test]
fn streams_over_the_limit_are_refused() {
    let mut case = Case::open();
    for number in 0..5 {
        case.send(&[get(2 * number + 1)]);
    }
    case.send(&[get(11)]);
    assert_eq!(outcome_of(&mut case), Outcome::Reset(ErrorCode::RefusedStream));
    // One that was reset gives its place to another at once, though its work is not over.
    let reset = |id| made(kind::RST_STREAM, 0, id, &[0; 4]);
    case.send(&[reset(1), get(13)]);
    assert_eq!(outcome_of(&mut case), Outcome::Fine);
    case.send(&[get(15)]);
    assert_eq!(outcome_of(&mut case), Outcome::Reset(ErrorCode::RefusedStream));
    // There is no end of work for one that resets everything.
    for id in [3, 5, 7, 9] {
        case.send(&[reset(id), get(id + 14)]);
        assert_eq!(outcome_of(&mut case), Outcome::Fine, "{id}");
    }
    assert_eq!(case.connection.open_streams(), 10);
    case.send(&[reset(13), get(25)]);
    assert_eq!(outcome_of(&mut case), Outcome::Reset(ErrorCode::RefusedStream));
    case.connection.release(StreamKey(0));
    case.send(&[get(27)]);
    assert_eq!(outcome_of(&mut case), Outcome::Fine);
    assert_eq!(case.connection.open_streams(), 10);
}

#[test]
fn data_waits_for_the_windows() {
    let mut case = Case::open();
    case.send(&[settings(&[(4, 3)]), get(1), get(3)]);
    case.told();
    case.connection.push_head(StreamKey(0), &block(&[("x", "y")]), false, &mut Vec::new());
    assert_eq!(case.push(0, b"abcde", false), 3);
    assert_eq!(case.push(1, b"abc", false), 3);
    case.send(&[update(3, 5)]);
    assert_eq!(case.told(), [], "it lacks nothing");
    case.send(&[update(1, 1)]);
    assert_eq!(case.told(), [Event::Room(0)]);
    assert_eq!(case.push(0, b"de", false), 1);
    // Below 0, and above again.
    case.send(&[settings(&[(4, 0)]), update(1, 2)]);
    assert_eq!(case.told(), []);
    assert_eq!(case.connection.room(StreamKey(0)), 0);
    case.send(&[update(1, 2)]);
    assert_eq!(case.told(), [Event::Room(0)]);
    assert_eq!(case.push(0, b"e", true), 1);
    assert!(case.connection.is_done(StreamKey(0)));
    assert_eq!(case.push(0, b"f", false), 0);
    // An end needs no window.
    assert!(case.connection.push_data(StreamKey(1), b"", true, &mut case.out).is_all);
}

#[test]
fn the_window_of_the_connection_is_shared() {
    let mut case = Case::open();
    case.send(&[settings(&[(4, 1 << 20)]), get(1), get(3), get(5)]);
    case.told();
    assert_eq!(case.push(0, &vec![0; 70_000], false), 65_535);
    assert!(case.out.len() > 65_535 + 3 * HEAD_BYTES, "it is split at 16 KiB");
    assert_eq!(case.push(1, b"x", false), 0);
    case.send(&[update(0, 10)]);
    let told = case.told();
    assert_eq!(told.len(), 2, "the third wants nothing");
    assert!(!case.connection.push_data(StreamKey(2), &[0; 11], false, &mut case.out).is_all);
}

#[test]
fn bodies_are_read_within_windows() {
    let mut case = Case::open();
    case.send(&[post(1, &[])]);
    let piece = made(kind::DATA, 0, 1, &[7; 16 << 10]);
    case.send(&[piece.clone(), piece.clone(), piece.clone()]);
    assert_eq!(case.sent(), []);
    case.connection.consume(StreamKey(0), 40_000);
    let sent = case.sent();
    assert_eq!(
        sent,
        [(8, 0, 1, 40_000u32.to_be_bytes().to_vec()), (8, 0, 0, 40_000u32.to_be_bytes().to_vec())]
    );
    // The windows are of 56,383 and 56,384 bytes now.
    case.send(&[piece.clone(), piece.clone(), piece.clone()]);
    assert_eq!(outcome_of(&mut case), Outcome::Fine);
    case.send(&[piece]);
    assert_eq!(outcome_of(&mut case), Outcome::Away(ErrorCode::FlowControlError));
    // Trust widens the connection's: then the stream's own is the limit.
    let mut case = Case::open();
    case.connection.trust();
    case.send(&[post(1, &[])]);
    case.sent();
    for _ in 0..5 {
        case.send(&[made(kind::DATA, 0, 1, &[7; 16 << 10])]);
    }
    assert_eq!(outcome_of(&mut case), Outcome::Reset(ErrorCode::FlowControlError));
}

#[test]
fn what_nobody_reads_is_given_back() {
    let mut case = Case::open();
    case.send(&[post(1, &[])]);
    case.connection.release(StreamKey(0));
    let sent = case.sent();
    assert_eq!((sent[0].0, sent[0].2), (kind::RST_STREAM, 1));
    case.send(&[made(kind::DATA, 0, 1, &[7; 16 << 10]), made(kind::DATA, 0, 1, &[7; 16 << 10])]);
    assert_eq!(case.sent(), [(8, 0, 0, (32u32 << 10).to_be_bytes().to_vec())]);
    // So is padding.
    let mut case = Case::open();
    case.send(&[post(1, &[])]);
    for _ in 0..400 {
        case.send(&[made(kind::DATA, 8, 1, &[&[255][..], &[0; 255]].concat())]);
    }
    assert_eq!(case.connection.ended(), None);
}

#[test]
fn fields_over_the_limit_are_told_so() {
    let mut case = Case::open();
    let long = "x".repeat(3000);
    let fields = [&GET[..], &[("x", long.as_str()); 5]].concat();
    case.send(&[made(kind::HEADERS, 5, 1, &block(&fields))]);
    assert!(matches!(&case.told()[..], [Event::Request(0, request)] if !request.is_too_large));
    let fields = [&GET[..], &[("x", long.as_str()); 6]].concat();
    let block = block(&fields);
    let (first, second) = block.split_at(10_000);
    case.send(&[made(kind::HEADERS, 1, 3, first), made(kind::CONTINUATION, 4, 3, second)]);
    assert!(matches!(&case.told()[..], [Event::Request(1, request)] if request.is_too_large));
    assert_eq!(case.connection.take_counts().too_large, 1);
}

#[test]
fn a_connection_ends_in_two_steps() {
    let mut case = Case::open();
    case.send(&[get(1)]);
    case.connection.announce_end();
    case.send(&[get(3)]);
    assert_eq!(case.told().len(), 2, "it was under way");
    case.connection.refuse_new();
    case.send(&[get(5), post(7, &[]), made(kind::DATA, 1, 7, b"x")]);
    assert_eq!(case.told(), []);
    let last = |frame: &Frame| u32::from_be_bytes(*frame.3.first_chunk().unwrap());
    assert_eq!(case.sent().iter().map(last).collect::<Vec<_>>(), [u32::MAX >> 1, 3]);
    assert_eq!(case.push(0, b"goes on", true), 7);
    assert!(case.connection.refuses_new() && case.connection.ended().is_none());
    // A client that goes is answered.
    let mut case = Case::open();
    case.send(&[get(1), made(kind::GOAWAY, 0, 0, &[0; 8])]);
    assert_eq!(case.sent()[0].0, kind::GOAWAY);
}

/// A decoder that was made smaller waits for it.
#[test]
fn a_smaller_table_is_answered_in_the_next_block() {
    let mut case = Case::open();
    case.send(&[settings(&[(1, 4095), (1, 4096)]), get(1), get(3)]);
    case.sent();
    case.connection.push_head(StreamKey(0), &[0x88], true, &mut case.out);
    case.connection.push_head(StreamKey(1), &[0x88], true, &mut case.out);
    assert_eq!(case.sent(), [(1, 5, 1, vec![0x20, 0x88]), (1, 5, 3, vec![0x88])]);
}

#[test]
fn a_long_head_is_split() {
    let mut case = Case::open();
    case.send(&[get(1)]);
    case.connection.push_interim_head(StreamKey(0), &block(&[(":status", "100")]), &mut case.out);
    case.connection.push_head(StreamKey(0), &[0; 40_000], true, &mut case.out);
    let sent: Vec<(u8, u8, usize)> =
        case.sent().into_iter().map(|(kind, flags, _, payload)| (kind, flags, payload.len())).collect();
    assert_eq!(sent[0].0, kind::HEADERS);
    assert_eq!(sent[1..], [(1, 1, 16_384), (9, 0, 16_384), (9, 4, 7_232)]);
}

#[test]
fn an_idle_connection_is_small() {
    let mut case = Case::open();
    for number in 0..5 {
        case.send(&[get(2 * number + 1)]);
    }
    for key in 0..5 {
        case.connection.release(StreamKey(key));
    }
    case.sent();
    assert!(case.connection.bytes() <= 1200, "{}", case.connection.bytes());
}
