//! Connections over socket pairs: what is sent, kept and read, and how they end.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use revcast_engine::encoding::{Encoding, JsonOnly};
use revcast_engine::framing::{BARE, Framing};
use revcast_engine::limits::DRAIN_GRACE;
use revcast_engine::resource::{Resource, Schema};
use revcast_engine::revision::Revision;
use revcast_engine::selector::Selector;
use revcast_engine::{Publisher, RingLimits, Run, Scope, Sent, Shard, ShardConfig, Start, Subscription};

use super::tls::TlsSession;
use super::*;
use crate::runtime::sys::polls::Polls;
use crate::runtime::sys::sends::Sends;
use crate::runtime::sys::wake::Wake;
use crate::wire::{gzip, http1};

/// Bytes of the wire form beside the messages: heads, ends, an answer or two.
pub(super) const TAIL_SLACK: usize = 16 << 10;

/// The connections of a shard, and their events.
pub(super) struct Stand {
    pub(super) conns: Conns,
    pub(super) events: Vec<(WatcherId, ConnEvent)>,
    ids: Vec<WatcherId>,
    start: Instant,
    /// Signalled by the ring.
    _wake: Wake,
}

impl Stand {
    pub(super) fn new() -> Self {
        Self::sending_by(None)
    }

    fn sending_by(sends: Option<Sends>) -> Self {
        let wake = Wake::new().expect("an eventfd");
        let conns = Conns::new(Polls::new(wake.descriptor()).expect("a ring"), sends);
        Self { conns, events: Vec::new(), ids: ids(), start: Instant::now(), _wake: wake }
    }

    pub(super) fn now(&self) -> Tick {
        Tick::ZERO.plus(self.start.elapsed())
    }

    /// An id for a watch.
    pub(super) fn id(&mut self) -> WatcherId {
        self.ids.pop().expect("no test has so many watches")
    }

    /// A connection with one stream.
    pub(super) fn open(&mut self, link: Link, wire_stream: WireStream) -> (u32, WatcherId) {
        let id = self.id();
        (self.conns.open(link, id, wire_stream), id)
    }

    /// What a shard does in one turn, without the engine.
    pub(super) fn turn(&mut self, now: Tick) {
        let Self { conns, events, .. } = self;
        events.extend(conns.reap(now));
        conns.flush();
        conns.submit();
    }

    /// Turns until a condition holds.
    #[track_caller]
    pub(super) fn until(&mut self, mut is_so: impl FnMut(&Self) -> bool) {
        let end = Instant::now() + Duration::from_secs(10);
        while !is_so(self) {
            assert!(Instant::now() < end, "it does not come to that");
            self.turn(self.now());
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    pub(super) fn rare(&mut self, slot: u32) -> &mut Rare {
        self.conns.slots[slot as usize].conn.as_mut().expect("it is open").rare()
    }

    pub(super) fn is_open(&self, slot: u32) -> bool {
        self.conns.slots[slot as usize].conn.is_some()
    }

    fn is_full(&self, slot: u32) -> bool {
        self.conns.slots[slot as usize].conn.as_ref().is_some_and(Conn::is_full)
    }
}

/// Ids of watches, as the engine assigns them.
fn ids() -> Vec<WatcherId> {
    let mut schema = Schema::new();
    let maps = schema.add(Resource::new("v1", "ConfigMap", true, vec![]));
    let (_, feed) =
        Publisher::new(Arc::new(schema), Arc::new(JsonOnly), RingLimits::default(), 1, Revision::ZERO);
    let mut shard = Shard::new(0, feed, ShardConfig::default());
    let watch = || Subscription {
        scope: Scope::all(maps),
        selector: Selector::everything(),
        encoding: Encoding::Json,
        framing: &BARE,
        start: Start::Latest,
        bookmarks: false,
        timeout: Duration::MAX,
        jitter: 0,
        as_of_seconds: 0,
    };
    (0..10).map(|_| shard.subscribe(watch(), Tick::ZERO)).collect()
}

pub(super) fn pair() -> (UnixStream, UnixStream) {
    UnixStream::pair().expect("a pair of sockets")
}

pub(super) fn link(socket: UnixStream, tls: TlsSession) -> Link {
    Link {
        socket: socket.into(),
        tls,
        unsent: Vec::new(),
        unread: Vec::new(),
        permit: None,
        keep_alive: true,
    }
}

/// Messages in a framing, and the end of each.
pub(super) fn framed(framing: &Framing, payloads: &[Vec<u8>]) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for payload in payloads {
        framing.push(&mut bytes, payload);
        ends.push(bytes.len());
    }
    (bytes, ends)
}

/// More than any socket buffer.
fn much() -> Vec<u8> {
    (0_u32..4 << 20).map(|at| at.to_le_bytes()[1]).collect()
}

fn read_all(mut peer: UnixStream) -> std::thread::JoinHandle<std::io::Result<Vec<u8>>> {
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        let mut all = Vec::new();
        peer.read_to_end(&mut all).map(|_| all)
    })
}

fn gzip_stream() -> WireStream {
    WireStream::Gzip(Box::default())
}

/// What is not read is kept, bounded, and arrives in order.
#[test]
fn a_connection_that_is_full_keeps_a_page_and_takes_nothing() {
    let mut stand = Stand::new();
    let (ours, theirs) = pair();
    let (slot, id) = stand.open(link(ours, None), gzip_stream());
    // Random bytes: deflate cannot compress them.
    let noise = gzip::tests::noise(1 << 20);
    let run = Run::new(&noise, &[1 << 20], 0);
    let mut expected = Vec::new();
    for offers in 0.. {
        assert!(offers < 100, "a socket that is not read gets full");
        stand.conns.begin();
        let sent = stand.conns.offer(Place::alone(slot), id, Offer::Messages(run));
        if sent == Sent::Took(0) {
            break;
        }
        assert_eq!(sent, Sent::Took(noise.len()), "all or nothing");
        expected.extend_from_slice(&noise);
        stand.conns.flush();
    }
    assert_eq!(stand.conns.offer(Place::alone(slot), id, Offer::Heartbeat), Sent::Took(0), "nor a heartbeat");
    assert!(stand.rare(slot).unsent.len() <= noise.len() + noise.len() / 7 + TAIL_SLACK);
    // The end is sent after what is unsent.
    assert!(matches!(stand.conns.end(Place::alone(slot), id), Sent::Took(bytes) if bytes > 10));
    let reader = read_all(theirs);
    stand.until(|stand| !stand.events.is_empty());
    assert_eq!(stand.events, [(id, ConnEvent::Writable)]);
    assert!(
        stand.conns.detach(Place::alone(slot), id, true, stand.now()).is_none(),
        "a gzip stream is the last of its connection"
    );
    let wire = reader.join().expect("the reader").expect("all of it");
    let stream = [gzip::OPENING, &wire].concat();
    assert!(gzip::tests::unzipped(&stream) == expected, "what comes out is what went in");
}

/// What a plain connection did not take of a heartbeat is sent before anything else.
#[test]
fn the_rest_of_a_heartbeat_goes_first() {
    let mut stand = Stand::new();
    let (ours, mut theirs) = pair();
    let unsent = http1::HEARTBEAT[2..].to_vec();
    let (slot, id) = stand.open(Link { unsent, ..link(ours, None) }, WireStream::Chunked);
    let run = Run::new(b"1\r\nx\r\n", &[6], 0);
    assert_eq!(stand.conns.offer(Place::alone(slot), id, Offer::Messages(run)), Sent::Took(0));
    stand.conns.submit();
    stand.until(|stand| !stand.events.is_empty());
    assert_eq!(stand.events, [(id, ConnEvent::Writable)]);
    assert!(stand.conns.slots[slot as usize].conn.as_ref().expect("open").rare.is_none(), "nothing is kept");
    assert_eq!(stand.conns.offer(Place::alone(slot), id, Offer::Messages(run)), Sent::Took(6));
    assert_eq!(stand.conns.end(Place::alone(slot), id), Sent::Took(5));
    stand.conns.flush();
    let link =
        stand.conns.detach(Place::alone(slot), id, true, stand.now()).expect("it can carry another request");
    assert!(link.unsent.is_empty() && link.keep_alive && !stand.is_open(slot));
    drop(link);
    let mut all = Vec::new();
    theirs.read_to_end(&mut all).expect("all of it");
    assert_eq!(all, b"\n \r\n1\r\nx\r\n0\r\n\r\n");
}

/// Of more than a page, a page is taken, and the engine is informed when there is room for the rest, although the connection
/// was never full.
#[test]
fn the_rest_of_a_long_run_is_asked_for() {
    for wire_stream in [gzip_stream(), WireStream::WebSocket(Box::default())] {
        let mut stand = Stand::new();
        let (ours, theirs) = pair();
        // A socket pair is writable when little is unread.
        let _reader = read_all(theirs);
        let (slot, id) = stand.open(link(ours, None), wire_stream);
        let (bytes, ends) = framed(&BARE, &vec![vec![b'x'; 10_000]; 12]);
        stand.conns.begin();
        let sent = stand.conns.offer(Place::alone(slot), id, Offer::Messages(Run::new(&bytes, &ends, 0)));
        assert_eq!(sent, Sent::Took(70_000), "a page ends with the message that fills it");
        stand.conns.flush();
        stand.conns.submit();
        stand.until(|stand| !stand.events.is_empty());
        assert_eq!(stand.events, [(id, ConnEvent::Writable)]);
    }
}

/// Each connection gets its own bytes; a full one keeps them, and a failed one delays no other.
#[test]
fn what_was_collected_goes_out_in_one_batch() {
    for sends in [None, Some(Sends::new().expect("an io_uring that sends"))] {
        let mut stand = Stand::sending_by(sends);
        let mut open = Vec::new();
        for _ in 0..5 {
            let (ours, theirs) = pair();
            let (slot, id) = stand.open(link(ours, None), gzip_stream());
            open.push((slot, id, Some(theirs)));
        }
        stand.conns.submit();
        // One peer disconnects, and one does not read a large message.
        open[1].2 = None;
        let noise = gzip::tests::noise(1 << 20);
        for (number, (slot, id, _)) in open.iter().enumerate() {
            let text = format!("message {number}");
            let payload = if number == 3 { &noise[..] } else { text.as_bytes() };
            stand.conns.begin();
            let sent = stand.conns.offer(
                Place::alone(*slot),
                *id,
                Offer::Messages(Run::new(payload, &[payload.len()], 0)),
            );
            assert_eq!(sent, Sent::Took(payload.len()));
        }
        stand.conns.flush();
        assert!(stand.is_full(open[3].0) && !stand.is_full(open[4].0));
        stand.turn(stand.now());
        assert_eq!(stand.events, [(open[1].1, ConnEvent::Gone { stalled: false })]);
        for (number, (slot, id, theirs)) in open.into_iter().enumerate() {
            let Some(theirs) = theirs else { continue };
            assert!(matches!(stand.conns.end(Place::alone(slot), id), Sent::Took(_)));
            stand.conns.flush();
            assert!(stand.conns.detach(Place::alone(slot), id, true, stand.now()).is_none());
            let reader = read_all(theirs);
            stand.until(|stand| !stand.is_open(slot));
            let wire = reader.join().expect("the reader").expect("a clean end");
            let plain = gzip::tests::unzipped(&[gzip::OPENING, &wire].concat());
            assert!(if number == 3 {
                plain == noise
            } else {
                plain == format!("message {number}").into_bytes()
            });
        }
    }
}

/// A send that fails at the end of a turn is reported in the next one, and nothing is accepted in between.
#[test]
fn a_connection_that_breaks_is_told_to_its_stream() {
    let mut stand = Stand::new();
    let (ours, theirs) = pair();
    let (slot, id) = stand.open(link(ours, None), gzip_stream());
    stand.conns.submit();
    drop(theirs);
    let run = Run::new(b"message", &[7], 0);
    assert_eq!(
        stand.conns.offer(Place::alone(slot), id, Offer::Messages(run)),
        Sent::Took(7),
        "not reported yet"
    );
    stand.conns.flush();
    assert!(stand.conns.has_events());
    assert_eq!(stand.conns.offer(Place::alone(slot), id, Offer::Messages(run)), Sent::Gone);
    stand.turn(stand.now());
    assert_eq!(stand.events, [(id, ConnEvent::Gone { stalled: false })]);
    assert!(!stand.is_open(slot));
}

/// A completion for a closed connection is not attributed to the next one in its slot.
#[test]
fn a_slot_is_used_again_under_another_name() {
    let mut stand = Stand::new();
    let (ours, theirs) = pair();
    let (slot, id) = stand.open(link(ours, None), WireStream::Chunked);
    stand.conns.submit();
    drop(theirs);
    assert!(stand.conns.detach(Place::alone(slot), id, false, stand.now()).is_none());
    let (ours, _theirs) = pair();
    let (again, _) = stand.open(link(ours, None), WireStream::Chunked);
    assert_eq!(again, slot);
    for _ in 0..20 {
        stand.turn(stand.now());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(stand.events.is_empty() && stand.is_open(again));
}

/// A connection whose stream has ended, with these bytes unsent.
fn lingering(stand: &mut Stand, socket: UnixStream, unsent: Vec<u8>) -> u32 {
    let (slot, id) =
        stand.open(Link { unsent, keep_alive: false, ..link(socket, None) }, WireStream::Chunked);
    assert!(stand.conns.detach(Place::alone(slot), id, true, stand.now()).is_none());
    stand.conns.submit();
    slot
}

#[test]
fn the_rest_is_sent_and_the_peer_awaited() {
    let mut stand = Stand::new();
    let (ours, mut theirs) = pair();
    let slot = lingering(&mut stand, ours, much());
    // It sends close_notify before it has read all.
    theirs.write_all(b"goodbye").expect("it is read");
    let reader = read_all(theirs);
    stand.until(|stand| !stand.is_open(slot));
    assert_eq!(stand.conns.take_gone(), 1);
    assert!(reader.join().expect("the reader").expect("a clean end") == much());
}

#[test]
fn connections_that_linger_survive_the_end_of_the_others() {
    let mut stand = Stand::new();
    let (ours, theirs) = pair();
    let slot = lingering(&mut stand, ours, much());
    let (ours, mut peer) = pair();
    let (open, _) = stand.open(link(ours, None), WireStream::Chunked);
    stand.conns.close_all();
    assert!(!stand.is_open(open) && stand.is_open(slot) && stand.conns.take_gone() == 1);
    assert_eq!(peer.read(&mut [0]).expect("an end"), 0);
    let reader = read_all(theirs);
    stand.until(|stand| !stand.is_open(slot));
    assert!(reader.join().expect("the reader").expect("a clean end") == much());
}

#[test]
fn a_peer_that_never_reads_or_never_hangs_up_is_left() {
    let mut stand = Stand::new();
    let (ours, _deaf) = pair();
    let deaf = lingering(&mut stand, ours, much());
    let (ours, mut other) = pair();
    let done = lingering(&mut stand, ours, Vec::new());
    let mut end = [0];
    assert_eq!(other.read(&mut end).expect("our half has ended"), 0);
    let now = stand.now();
    stand.turn(now);
    assert!(stand.is_open(deaf) && stand.is_open(done));
    stand.turn(now.plus(Duration::from_secs(2)));
    assert!(stand.is_open(deaf) && !stand.is_open(done), "one that was sent all has a second");
    stand.turn(now.plus(DRAIN_GRACE * 2));
    assert!(!stand.is_open(deaf), "one that was not has longer");
    assert_eq!(stand.conns.take_gone(), 2);
}

#[test]
fn a_peer_that_sends_without_end_is_left() {
    let mut stand = Stand::new();
    let (ours, mut theirs) = pair();
    let slot = lingering(&mut stand, ours, Vec::new());
    let sender = std::thread::spawn(move || while theirs.write_all(&[0; 4096]).is_ok() {});
    stand.until(|stand| !stand.is_open(slot));
    sender.join().expect("it was cut off");
}

#[test]
fn a_peer_that_is_gone_is_not_awaited() {
    let mut stand = Stand::new();
    let (ours, theirs) = pair();
    drop(theirs);
    let slot = lingering(&mut stand, ours, much());
    assert!(!stand.is_open(slot) && stand.conns.take_gone() == 1);
    let (ours, theirs) = pair();
    let slot = lingering(&mut stand, ours, much());
    assert!(stand.is_open(slot) && stand.is_full(slot));
    drop(theirs);
    stand.until(|stand| !stand.is_open(slot));
}

#[test]
fn a_connection_that_shares_pages_never_waits_for_room() {
    let (ours, mut theirs) = pair();
    let mut pages = SharedPages::default();
    let bytes = vec![b'x'; 1 << 20];
    assert!(pages.put(&bytes));
    let mut conn = Conn::new(link(ours, None), Streams::None);
    let mut taken = 0;
    // Nobody reads.
    while let Some(part @ 1..) = conn.send_shared(&bytes, &mut pages) {
        taken += part;
    }
    drop(conn);
    let mut got = Vec::new();
    theirs.read_to_end(&mut got).expect("what was sent");
    assert!(taken > 0 && got.len() == taken, "{} of {taken}", got.len());
}
