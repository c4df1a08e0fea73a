//! Seeded connections: a client that keeps the protocol in every order, splits its bytes anywhere and changes its windows; a server that
//! reads and sends at random; and an oracle that reads what was sent with books of its own.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::LazyLock;
use std::time::Duration;

use fastrand::Rng;
use revcast_engine::tick::Tick;

use super::frame::{FrameHead, HEAD_BYTES, flag, kind};
use super::tests::{GET, LIMITS, block, made};
use super::{Connection, ErrorCode, Events, PREFACE, Request, StreamKey};

/// What a copy of the connection does wrong: the oracle must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// The peer is not told of bytes that were consumed.
    WindowLeaked,
    /// A frame is between the parts of a field block.
    HeadInterleaved,
    /// Data is sent after the end of a stream.
    SentAfterTheEnd,
}

/// After so many bytes what a stream brings, or is sent, repeats.
const PERIOD: usize = 251 * 256;

/// A part of what a stream brings, or is sent: each begins at another place of the same bytes.
fn bytes(stream: u32, from: usize, len: usize) -> Vec<u8> {
    static PERIODIC: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..PERIOD).map(|at| (at * 7 + at / 251) as u8).collect());
    let mut out = Vec::with_capacity(len);
    while out.len() < len {
        let rest = &PERIODIC[(stream as usize * 31 + from + out.len()) % PERIOD..];
        out.extend_from_slice(&rest[..rest.len().min(len - out.len())]);
    }
    out
}

/// Takes the first bytes away.
fn split_front(bytes: &mut Vec<u8>, len: usize) -> Vec<u8> {
    let rest = bytes.split_off(len);
    std::mem::replace(bytes, rest)
}

/// The server's side of a stream.
#[derive(Debug, Default)]
struct Serving {
    id: u32,
    received: usize,
    unconsumed: usize,
    has_ended: bool,
    is_reset: bool,
    head_sent: bool,
    sent: usize,
    total: usize,
    is_over: bool,
    has_room: bool,
}

/// The server's user: takes the events.
struct Server {
    rng: Rng,
    keys: Vec<StreamKey>,
    next_id: VecDeque<u32>,
}

impl Events for Server {
    type Stream = Serving;

    fn request(&mut self, key: StreamKey, request: Request) -> Serving {
        assert!(request.head.starts_with(b"GET /api HTTP/1.1\r\n"));
        self.keys.push(key);
        let id = self.next_id.pop_front().expect("the client opened it");
        let total = if self.rng.u8(..4) == 0 { 0 } else { self.rng.usize(..200_000) };
        Serving { id, total, has_ended: request.has_ended, has_room: true, ..Serving::default() }
    }

    fn data(&mut self, _: StreamKey, stream: &mut Serving, part: &[u8], ended: bool) {
        assert!(!stream.has_ended && !stream.is_reset, "data after the end");
        assert_eq!(part, bytes(stream.id, stream.received, part.len()));
        stream.received += part.len();
        stream.unconsumed += part.len();
        stream.has_ended |= ended;
    }

    fn reset(&mut self, _: StreamKey, stream: &mut Serving) {
        assert!(!stream.is_reset, "it is told once");
        stream.is_reset = true;
    }

    fn room(&mut self, _: StreamKey, stream: &mut Serving) {
        assert!(!stream.has_room, "nobody waits for it");
        stream.has_room = true;
    }
}

/// The client's side of a stream, and the oracle's books.
#[derive(Debug)]
struct Asking {
    /// Bytes that are still to be sent; `None`: it has ended.
    left: Option<usize>,
    sent: usize,
    /// What the server may take of it, as the client knows.
    window: i64,
    /// What the server may send.
    room: i64,
    got: usize,
    has_head: bool,
    /// The server ended it.
    has_end: bool,
    is_reset: bool,
}

struct Client {
    rng: Rng,
    next: u32,
    streams: BTreeMap<u32, Asking>,
    initial_window: i64,
    payload_max: usize,
    /// What the server may take of all streams.
    window: i64,
    room: i64,
    /// Settings that the server did not answer: windows and sizes, which hold from then on.
    asked: VecDeque<(i64, usize)>,
    pings: VecDeque<[u8; 8]>,
    /// The stream of a field block that is not complete.
    block: Option<u32>,
    /// Bytes of a frame that did not all come.
    held: Vec<u8>,
    completed: usize,
}

impl Client {
    /// Does something. `may_open`: another stream is within the limit.
    fn act(&mut self, out: &mut Vec<u8>, opened: &mut VecDeque<u32>, may_open: bool) {
        let pick = |rng: &mut Rng, streams: &BTreeMap<u32, Asking>| {
            let ids: Vec<u32> =
                streams.iter().filter(|(_, stream)| !stream.is_reset).map(|(id, _)| *id).collect();
            rng.choice(ids)
        };
        match self.rng.u8(..20) {
            0..=2 if may_open => {
                let id = self.next;
                self.next += 2 * self.rng.u32(1..3);
                let left = self.rng.bool().then(|| self.rng.usize(..100_000));
                let flags = if left.is_none() { flag::END_STREAM } else { 0 };
                let block = block(&GET);
                let at = if self.rng.bool() { block.len() } else { self.rng.usize(..block.len()) };
                if at == block.len() {
                    out.extend(made(kind::HEADERS, flags | flag::END_HEADERS, id, &block));
                } else {
                    out.extend(made(kind::HEADERS, flags, id, &block[..at]));
                    out.extend(made(kind::CONTINUATION, flag::END_HEADERS, id, &block[at..]));
                }
                opened.push_back(id);
                let asking = Asking {
                    left,
                    sent: 0,
                    window: i64::from(LIMITS.stream_window),
                    room: self.initial_window,
                    got: 0,
                    has_head: false,
                    has_end: false,
                    is_reset: false,
                };
                self.streams.insert(id, asking);
            }
            0..=7 => {
                let Some(id) = pick(&mut self.rng, &self.streams) else { return };
                let stream = self.streams.get_mut(&id).unwrap();
                let Some(left) = &mut stream.left else { return };
                let padding = if self.rng.u8(..4) == 0 { self.rng.usize(1..20) } else { 0 };
                let room = stream.window.min(self.window).min(16 << 10) - padding as i64;
                if room <= 0 && *left > 0 {
                    return;
                }
                let len = (*left).min(room.max(0) as usize).min(self.rng.usize(..20_000));
                let ends = len == *left;
                let data = bytes(id, stream.sent, len);
                let flags = if ends { flag::END_STREAM } else { 0 };
                let cost = if padding > 0 && room > 0 {
                    let mut payload = vec![padding as u8 - 1];
                    payload.extend(data);
                    payload.extend(vec![0; padding - 1]);
                    out.extend(made(kind::DATA, flags | flag::PADDED, id, &payload));
                    payload.len()
                } else if len == 0 && !ends {
                    return;
                } else {
                    out.extend(made(kind::DATA, flags, id, &data));
                    data.len()
                };
                *left -= len;
                stream.sent += len;
                stream.window -= cost as i64;
                self.window -= cost as i64;
                if ends {
                    stream.left = None;
                }
            }
            8..=11 => {
                let Some(id) = pick(&mut self.rng, &self.streams) else { return };
                let more = self.rng.u32(1..60_000);
                out.extend(made(kind::WINDOW_UPDATE, 0, id, &more.to_be_bytes()));
                self.streams.get_mut(&id).unwrap().room += i64::from(more);
            }
            12..=14 => {
                let more = self.rng.u32(1..100_000);
                out.extend(made(kind::WINDOW_UPDATE, 0, 0, &more.to_be_bytes()));
                self.room += i64::from(more);
            }
            15 => {
                let mut payload = Vec::new();
                let window = self.rng.u32(..100_000);
                payload.extend([0, 4]);
                payload.extend(window.to_be_bytes());
                let size = self.rng.u32(16_384..100_000);
                payload.extend([0, 5]);
                payload.extend(size.to_be_bytes());
                out.extend(made(kind::SETTINGS, 0, 0, &payload));
                self.asked.push_back((i64::from(window), size as usize));
            }
            16 => {
                let opaque = self.rng.u64(..).to_be_bytes();
                out.extend(made(kind::PING, 0, 0, &opaque));
                self.pings.push_back(opaque);
            }
            17 => out.extend(made(self.rng.u8(10..), self.rng.u8(..), self.rng.u32(..99), b"unknown")),
            18 if self.rng.u8(..4) == 0 => {
                let Some(id) = pick(&mut self.rng, &self.streams) else { return };
                out.extend(made(kind::RST_STREAM, 0, id, &[0, 0, 0, 8]));
                self.streams.get_mut(&id).unwrap().is_reset = true;
            }
            _ => {
                let stream = pick(&mut self.rng, &self.streams).unwrap_or(1);
                out.extend(made(kind::PRIORITY, 0, stream, &[0; 5]));
            }
        }
    }

    /// Reads what the server sent.
    fn read(&mut self, part: &[u8]) {
        self.held.extend_from_slice(part);
        while let Some(head) = self.held.first_chunk::<HEAD_BYTES>() {
            let head = FrameHead::parse(*head);
            let len = HEAD_BYTES + head.len as usize;
            if self.held.len() < len {
                return;
            }
            let frame = split_front(&mut self.held, len);
            self.frame(head, &frame[HEAD_BYTES..]);
        }
    }

    fn frame(&mut self, head: FrameHead, payload: &[u8]) {
        assert!(payload.len() <= self.payload_max, "a frame is too large");
        if let Some(id) = self.block {
            assert_eq!((head.kind, head.stream), (kind::CONTINUATION, id), "a field block is interrupted");
        }
        let word = |at: usize| i64::from(u32::from_be_bytes(payload[at..at + 4].try_into().unwrap()));
        match head.kind {
            kind::SETTINGS if head.has(flag::ACK) => {
                let (window, size) = self.asked.pop_front().expect("something was asked");
                for stream in self.streams.values_mut() {
                    stream.room += window - self.initial_window;
                }
                (self.initial_window, self.payload_max) = (window, size);
            }
            kind::SETTINGS => {}
            kind::PING => assert_eq!(self.pings.pop_front().unwrap(), payload, "answers are in order"),
            kind::WINDOW_UPDATE if head.stream == 0 => {
                self.window += word(0);
                assert!(self.window <= i64::from(LIMITS.connection_window), "more than was consumed");
            }
            kind::WINDOW_UPDATE => {
                let stream = self.streams.get_mut(&head.stream).unwrap();
                stream.window += word(0);
                assert!(stream.window <= i64::from(LIMITS.stream_window), "more than was consumed");
            }
            kind::HEADERS | kind::CONTINUATION => {
                self.block = (!head.has(flag::END_HEADERS)).then_some(head.stream);
                let stream = self.streams.get_mut(&head.stream).unwrap();
                assert!(!stream.has_end || head.kind == kind::CONTINUATION, "a head after the end");
                stream.has_head = true;
                if head.has(flag::END_STREAM) && head.kind == kind::HEADERS {
                    stream.has_end = true;
                    self.completed += 1;
                }
            }
            kind::DATA => {
                let stream = self.streams.get_mut(&head.stream).unwrap();
                assert!(stream.has_head && !stream.has_end, "data is before the head, or after the end");
                stream.room -= payload.len() as i64;
                self.room -= payload.len() as i64;
                assert!(payload.is_empty() || (stream.room >= 0 && self.room >= 0), "more than the window");
                assert_eq!(payload, bytes(head.stream, stream.got, payload.len()));
                stream.got += payload.len();
                if head.has(flag::END_STREAM) {
                    stream.has_end = true;
                    self.completed += 1;
                }
            }
            kind::RST_STREAM => {
                let stream = self.streams.get_mut(&head.stream).unwrap();
                (stream.has_end, stream.is_reset, stream.left) = (true, true, None);
            }
            other => panic!("the server sent a frame of kind {other}: {payload:?}"),
        }
    }
}

/// Runs a connection. Returns how many streams were completed.
fn run(seed: u64, flaw: Flaw) -> usize {
    let mut rng = Rng::with_seed(seed);
    let mut now = Tick::from_nanos(1);
    let mut connection = Connection::new(LIMITS, now);
    let mut server = Server { rng: rng.fork(), keys: Vec::new(), next_id: VecDeque::new() };
    let mut client = Client {
        rng: rng.fork(),
        next: 1,
        streams: BTreeMap::new(),
        initial_window: 65_535,
        payload_max: 16 << 10,
        window: 65_535,
        room: 65_535,
        asked: VecDeque::from([(65_535, 16 << 10)]),
        pings: VecDeque::new(),
        block: None,
        held: Vec::new(),
        completed: 0,
    };
    let mut to_server = [PREFACE.as_slice(), &made(kind::SETTINGS, 0, 0, &[])].concat();
    let mut to_client = Vec::new();
    let mut trusted = false;
    let mut flawed_at = (flaw != Flaw::None).then(|| rng.usize(20..60));
    let steps = rng.usize(50..600);
    for step in 0.. {
        let is_finale = step >= steps;
        now = now.plus(Duration::from_millis(20));
        // The client acts, and at the end only takes.
        let mut out = Vec::new();
        if is_finale {
            client.finish(&mut out);
        } else {
            let open = connection.open_streams() + server.next_id.len();
            client.act(&mut out, &mut server.next_id, open < LIMITS.streams as usize);
        }
        to_server.extend(out);
        let len = to_server.len().min(if is_finale { usize::MAX } else { rng.usize(..30_000) });
        let part = split_front(&mut to_server, len);
        connection.receive(&part, now, &mut server);
        assert_eq!(connection.ended(), None, "the client kept the protocol");
        if !trusted && rng.u8(..50) == 0 {
            trusted = true;
            connection.trust();
        }
        // The server acts.
        for _ in 0..if is_finale { 20 } else { rng.usize(..4) } {
            serve(&mut connection, &mut server, &mut rng, is_finale, &mut to_client);
        }
        let mut control = Vec::new();
        if rng.bool() || is_finale {
            connection.take_control(&mut control);
            if flaw == Flaw::WindowLeaked {
                control = without_updates(&control);
            }
            to_client.extend_from_slice(&control);
        }
        if flawed_at.is_some_and(|at| step >= at) && plant(flaw, &client, &mut to_client) {
            flawed_at = None;
        }
        let len = to_client.len().min(if is_finale { usize::MAX } else { rng.usize(..60_000) });
        let part = split_front(&mut to_client, len);
        client.read(&part);
        if is_finale && step > steps + 200 {
            break;
        }
    }
    finale(&connection, &client);
    client.completed
}

/// Adds the flaw to what is sent, if it can be now.
fn plant(flaw: Flaw, client: &Client, out: &mut Vec<u8>) -> bool {
    if !client.held.is_empty() || !out.is_empty() || client.block.is_some() {
        return false;
    }
    let ended = client.streams.iter().find(|(_, stream)| stream.has_end);
    let open = client.streams.iter().find(|(_, stream)| !stream.has_end);
    match (flaw, ended, open) {
        (Flaw::SentAfterTheEnd, Some((id, stream)), _) => {
            out.extend(made(kind::DATA, 0, *id, &bytes(*id, stream.got, 1)));
            true
        }
        (Flaw::HeadInterleaved, _, Some((id, _))) => {
            out.extend(made(kind::HEADERS, 0, *id, b"x"));
            out.extend(made(kind::DATA, 0, *id, b""));
            true
        }
        _ => false,
    }
}

fn without_updates(mut control: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(head) = control.first_chunk::<HEAD_BYTES>() {
        let head = FrameHead::parse(*head);
        let (frame, rest) = control.split_at(HEAD_BYTES + head.len as usize);
        control = rest;
        if head.kind != kind::WINDOW_UPDATE {
            out.extend_from_slice(frame);
        }
    }
    out
}

fn serve(
    connection: &mut Connection<Serving>,
    server: &mut Server,
    rng: &mut Rng,
    is_finale: bool,
    out: &mut Vec<u8>,
) {
    if server.keys.is_empty() {
        return;
    }
    if rng.u8(..4) == 0 {
        serve_together(connection, server, rng, out);
    }
    let at = rng.usize(..server.keys.len());
    let key = server.keys[at];
    let serving = connection.carried_mut(key).unwrap();
    let (id, unconsumed, is_reset) = (serving.id, serving.unconsumed, serving.is_reset);
    if unconsumed > 0 {
        let used = if is_finale { unconsumed } else { rng.usize(..=unconsumed) };
        serving.unconsumed -= used;
        connection.consume(key, used);
    }
    let serving = connection.carried_mut(key).unwrap();
    if is_reset || (serving.is_over && serving.has_ended) || (serving.is_over && rng.u8(..20) == 0) {
        let rest = serving.unconsumed;
        connection.consume(key, rest);
        connection.release(key);
        server.keys.swap_remove(at);
        return;
    }
    if serving.is_over || !serving.has_room {
        return;
    }
    if !serving.head_sent {
        serving.head_sent = true;
        let is_empty = serving.total == 0;
        serving.is_over = is_empty;
        let most = if rng.u8(..5) == 0 { 40_000 } else { 100 };
        let head = vec![0; rng.usize(1..most)];
        connection.push_head(key, &head, is_empty, out);
        return;
    }
    if !is_finale && rng.u16(..400) == 0 {
        connection.reset(key, ErrorCode::InternalError);
        connection.carried_mut(key).unwrap().is_reset = true;
        return;
    }
    let left = serving.total - serving.sent;
    let len = if is_finale { left } else { rng.usize(..=left.min(50_000)) };
    let (sent, ends) = (serving.sent, len == left);
    let room = connection.room(key);
    let pushed = connection.push_data(key, &bytes(id, sent, len), ends, out);
    assert_eq!(pushed.bytes, len.min(room));
    let serving = connection.carried_mut(key).unwrap();
    serving.sent += pushed.bytes;
    serving.has_room = pushed.is_all;
    serving.is_over = ends && pushed.is_all;
}

/// Sends as many bytes on each of several streams in whole frames.
fn serve_together(connection: &mut Connection<Serving>, server: &Server, rng: &mut Rng, out: &mut Vec<u8>) {
    let most = if rng.u8(..8) == 0 { 20_000 } else { 2_000 };
    let len = rng.usize(1..most);
    let mut all = Vec::new();
    for &key in &server.keys {
        let serving = connection.carried(key).unwrap();
        let (id, left) = (serving.id, serving.total - serving.sent);
        if !serving.head_sent || (!serving.is_over && left <= len) || rng.bool() {
            continue;
        }
        if rng.bool() {
            connection.set_sender(key, rng.bool().then_some(u64::from(id)));
        }
        let sender = u64::from(id) + u64::from(rng.u8(..10) == 0);
        let may = connection.is_sender(key, sender);
        assert!(!may || !connection.is_done(key), "stream {id} is over, and has a sender");
        all.push((key, sender, may, connection.room(key)));
    }
    let has_control = connection.has_control();
    let mut began = Vec::new();
    let senders = all.iter().map(|(_, sender, ..)| *sender);
    let row = all.first().map_or(0, |(key, ..)| connection.senders_in_row(*key, senders));
    let is_row = all.iter().zip(all.iter().skip(1)).all(|((key, ..), (next, ..))| key.next() == *next);
    if is_row && row > 0 && row == all.len() && rng.bool() {
        assert!(all.iter().all(|(_, _, may, _)| *may));
        let fits = !has_control
            && len <= connection.peer.payload_bytes_max as usize
            && all.iter().all(|(key, ..)| len as i64 <= connection.streams.window(*key))
            && (len * row) as i64 <= connection.window;
        let mut numbers = Vec::new();
        connection.begin_row(len, all[0].0, row, &mut numbers);
        assert_eq!(numbers.len(), if fits { row } else { 0 }, "all or none");
        if !fits {
            return;
        }
        began.extend(numbers.into_iter().map(Some));
    } else {
        connection
            .begin_frames(len, all.iter().map(|(key, sender, ..)| (*key, *sender)), |id| began.push(id));
    }
    assert_eq!(began.len(), all.len());
    let mut taken = 0;
    for ((key, _, may, room), began) in all.into_iter().zip(began) {
        let serving = connection.carried_mut(key).unwrap();
        if let Some(id) = began {
            assert!(may && id == serving.id && len <= room);
            out.extend(made(kind::DATA, 0, id, &bytes(id, serving.sent, len)));
            serving.sent += len;
            taken += len;
        } else {
            // The connection's window may have been used up before it.
            assert!(!may || has_control || len > room.saturating_sub(taken) || len > 16 << 10, "it has room");
        }
    }
}

impl Client {
    /// Takes all, and sends the rest of every body.
    fn finish(&mut self, out: &mut Vec<u8>) {
        if self.room < 1 << 20 {
            out.extend(made(kind::WINDOW_UPDATE, 0, 0, &(1u32 << 20).to_be_bytes()));
            self.room += 1 << 20;
        }
        for (id, stream) in self.streams.iter_mut().filter(|(_, stream)| !stream.is_reset) {
            if stream.room < 1 << 18 && !stream.has_end {
                out.extend(made(kind::WINDOW_UPDATE, 0, *id, &(1u32 << 18).to_be_bytes()));
                stream.room += 1 << 18;
            }
            if let Some(left) = stream.left {
                let room = stream.window.min(self.window).clamp(0, 16 << 10) as usize;
                let len = left.min(room);
                let ends = len == left;
                if len > 0 || ends {
                    let flags = if ends { flag::END_STREAM } else { 0 };
                    out.extend(made(kind::DATA, flags, *id, &bytes(*id, stream.sent, len)));
                    stream.sent += len;
                    stream.window -= len as i64;
                    self.window -= len as i64;
                    stream.left = (!ends).then_some(left - len);
                }
            }
        }
    }
}

/// After everything was read: what must hold.
fn finale(connection: &Connection<Serving>, client: &Client) {
    assert!(client.asked.is_empty());
    assert!(client.pings.is_empty() && client.held.is_empty());
    for (id, stream) in &client.streams {
        assert!(stream.has_end || stream.is_reset, "stream {id} has no end: {stream:?}");
        assert!(stream.left.is_none() || stream.is_reset, "stream {id} could not be sent: {stream:?}");
    }
    assert_eq!(connection.open_streams(), 0, "streams are kept");
    // Less than half may be consumed without an update.
    assert!(client.window > 65_535 / 2, "the connection's window is leaked: {}", client.window);
}

/// Those of the engine's simulator are another number: a seed costs more here, and there are fewer states.
fn seeds() -> u64 {
    std::env::var("REVCAST_HTTP2_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

#[test]
fn many_seeds() {
    let mut completed = 0;
    for seed in 0..seeds() {
        let run = std::panic::catch_unwind(|| run(seed, Flaw::None));
        completed += run.unwrap_or_else(|_| panic!("seed {seed} of wire::http2::simulation"));
    }
    assert!(completed > 100, "{completed} streams in all");
}

#[test]
fn the_oracle_notices_flaws() {
    for flaw in [Flaw::WindowLeaked, Flaw::HeadInterleaved, Flaw::SentAfterTheEnd] {
        let caught = (0..40).filter(|seed| std::panic::catch_unwind(|| run(*seed, flaw)).is_err()).count();
        assert!(caught >= 20, "{flaw:?} was noticed by {caught} of 40 seeds");
    }
}
