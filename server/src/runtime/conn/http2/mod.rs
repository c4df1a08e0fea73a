//! Connections of HTTP/2: many streams, each a watch or a request.
//!
//! Such a connection stays at the shard that accepted it. What a turn sends on its streams is collected in the outbox as frames, and
//! goes to the kernel in one write; what four or more of its streams are sent alike, without TLS, goes out at once (`gather`). What the
//! kernel does not take is kept, and its streams wait: a stream waits for the socket and for its windows alike, and costs the others
//! nothing. A request is answered by a task, which sends between turns.

mod gather;
mod task;
mod turn;

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use revcast_engine::WatcherId;
use revcast_engine::limits::DRAIN_GRACE;
use revcast_engine::tick::Tick;

use super::event::ConnEvent;
use super::request_stream::RequestStream;
use super::{Conn, Conns, Link, Streams};
pub(super) use gather::Gathered;
pub(in crate::runtime) use task::{Frames, Put};

use crate::runtime::client::Client;
use crate::runtime::sys::polls::Owner;
use crate::runtime::tally::Open;
use crate::wire::http2::{Connection, Counts, ErrorCode, Events, Limits, Request, StreamKey};
use crate::wire::stream::WireStream;
use crate::wire::websocket::PeerState;

/// Interval of the checks for timeouts.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long after the first GOAWAY streams that the peer opened before it came are taken: a round trip.
const LAST_STREAMS: Duration = Duration::from_millis(500);

/// A connection's streams, and whose it is.
#[derive(Debug)]
pub(super) struct Http2 {
    wire: Connection<Carried>,
    client: Rc<Client>,
    /// Bytes that it has in the outbox.
    queued: usize,
    /// Since when it has no stream.
    idle_since: Tick,
    /// Since when it was sent nothing, but for what `has_sent` says was sent after the last look.
    quiet_since: Tick,
    has_sent: bool,
    /// When the peer was told that the connection ends.
    announced: Option<Tick>,
}

/// What a stream carries.
#[derive(Debug)]
enum Carried {
    Request(Rc<RequestStream>),
    Watch(Watch),
    /// A watch that has ended: its last bytes, which must be sent by then.
    Ending(Vec<u8>, Tick),
}

#[derive(Debug)]
struct Watch {
    id: WatcherId,
    wire_stream: WireStream,
    /// Wire bytes that there was no room for: of a stream whose wire form is not the engine's.
    rest: Vec<u8>,
    /// Whether the engine waits to be told that there is room.
    is_blocked: bool,
}

/// A request, to be answered by a task.
#[derive(Debug)]
pub(in crate::runtime) struct NewRequest {
    pub(in crate::runtime) owner: Owner,
    pub(in crate::runtime) key: StreamKey,
    pub(in crate::runtime) request: Request,
    pub(in crate::runtime) stream: Rc<RequestStream>,
    pub(in crate::runtime) client: Rc<Client>,
}

/// What all connections of HTTP/2 of a shard share.
#[derive(Debug, Default)]
pub(super) struct Http2Table {
    all: Vec<Owner>,
    next_look: Tick,
    requests: VecDeque<NewRequest>,
    /// Watches on streams.
    watches: usize,
    /// Watches that were to begin on a stream which was gone.
    lost: Vec<WatcherId>,
    /// What arrived on streams before they became watches, and whether it was the last.
    early: Vec<(Owner, StreamKey, Vec<u8>, bool)>,
    counts: Counts,
    /// How connections ended whose peers broke a rule.
    faults: Vec<ErrorCode>,
    /// Reused: frames of a task.
    frames: Vec<u8>,
    is_leaving: bool,
    timing: Http2Timing,
}

/// When connections of HTTP/2 are tended.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::runtime) struct Http2Timing {
    /// How long a connection may have no stream.
    pub(in crate::runtime) idle_timeout: Duration,
    /// How long one with a watch is sent nothing before it gets a PING, as the heartbeat of all its watches, at most a look
    /// later. `None`: each watch has its own heartbeats.
    pub(in crate::runtime) ping_after: Option<Duration>,
}

/// Takes the events of one connection.
struct Arrivals<'a> {
    owner: Owner,
    client: &'a Rc<Client>,
    requests: &'a mut VecDeque<NewRequest>,
    news: &'a mut Vec<(WatcherId, ConnEvent)>,
    /// Streams that have something to send.
    ready: Vec<StreamKey>,
    /// Bytes that were used at once.
    used: Vec<(StreamKey, usize)>,
    /// Bytes wait that the peer does not read.
    is_busy: bool,
    now: Tick,
}

impl Events for Arrivals<'_> {
    type Stream = Carried;

    fn request(&mut self, key: StreamKey, request: Request) -> Carried {
        let stream = Rc::new(RequestStream::new(request.has_ended));
        let client = Rc::clone(self.client);
        let new = NewRequest { owner: self.owner, key, request, stream: Rc::clone(&stream), client };
        self.requests.push_back(new);
        Carried::Request(stream)
    }

    fn data(&mut self, key: StreamKey, stream: &mut Carried, bytes: &[u8], ended: bool) {
        match stream {
            Carried::Request(stream) => stream.put(bytes, ended),
            Carried::Watch(watch) if watch.wire_stream.reads() => {
                self.used.push((key, bytes.len()));
                let busy = self.is_busy || !watch.rest.is_empty();
                let peer = watch.wire_stream.read(bytes, busy, &mut watch.rest);
                if !watch.rest.is_empty() {
                    self.ready.push(key);
                }
                if peer == PeerState::Over || ended {
                    // The answer is sent after the message in progress, and then the stream ends.
                    self.news.push((watch.id, ConnEvent::Gone { stalled: false }));
                    let rest = std::mem::take(&mut watch.rest);
                    *stream = Carried::Ending(rest, self.now.plus(DRAIN_GRACE));
                    self.ready.push(key);
                }
            }
            Carried::Watch(_) | Carried::Ending(..) => self.used.push((key, bytes.len())),
        }
    }

    fn reset(&mut self, _: StreamKey, stream: &mut Carried) {
        match stream {
            Carried::Request(stream) => stream.lose(),
            Carried::Watch(watch) => self.news.push((watch.id, ConnEvent::Gone { stalled: false })),
            Carried::Ending(_, until) => *until = Tick::ZERO,
        }
    }

    fn room(&mut self, key: StreamKey, stream: &mut Carried) {
        match stream {
            Carried::Request(stream) => stream.wake_writer(),
            Carried::Watch(_) | Carried::Ending(..) => self.ready.push(key),
        }
    }
}

impl Http2 {
    /// Whether the stream carries this watch.
    pub(super) fn carries(&self, key: StreamKey, id: WatcherId) -> bool {
        matches!(self.wire.carried(key), Some(Carried::Watch(watch)) if watch.id == id)
    }

    /// Watches, each once.
    pub(super) fn watches(&self) -> impl Iterator<Item = (StreamKey, WatcherId)> {
        self.wire.all_carried().filter_map(|(key, carried)| match carried {
            Carried::Watch(watch) => Some((key, watch.id)),
            Carried::Request(_) | Carried::Ending(..) => None,
        })
    }

    /// The connection is gone: its tasks are told.
    pub(super) fn lose_requests(&self) {
        for (_, carried) in self.wire.all_carried() {
            if let Carried::Request(stream) = carried {
                stream.lose();
            }
        }
    }

    /// Bytes of the outbox, or others, were passed on.
    pub(super) const fn was_passed_on(&mut self) {
        self.queued = 0;
        self.has_sent = true;
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() - size_of::<Connection<Carried>>() + self.wire.bytes()
    }
}

impl Conns {
    /// Adds a connection on which a client begins to speak HTTP/2.
    pub(in crate::runtime) fn open_http2(
        &mut self,
        link: Link,
        client: Rc<Client>,
        limits: Limits,
        timing: Http2Timing,
        now: Tick,
    ) {
        self.http2.timing = timing;
        let owner = self.insert(Conn::new(link, Streams::None));
        let Some(conn) = self.at(owner) else { return };
        let wire = Connection::new(limits, now);
        let (idle_since, quiet_since) = (now, now);
        let http2 =
            Http2 { wire, client, queued: 0, idle_since, quiet_since, has_sent: false, announced: None };
        conn.streams = Streams::Http2(Box::new(http2));
        self.http2.all.push(owner);
        // What came already is read like the rest.
        self.read_soon(owner);
    }

    /// The next request that came and was not taken yet. One whose stream was reset meanwhile is nobody's any more.
    pub(in crate::runtime) fn next_request(&mut self, now: Tick) -> Option<NewRequest> {
        while let Some(request) = self.http2.requests.pop_front() {
            if !request.stream.is_gone() {
                return Some(request);
            }
            self.release(request.owner, request.key, now);
        }
        None
    }

    /// Calls `count` with what peers did since the last call, and the codes with which connections ended.
    pub(in crate::runtime) fn take_http2_counts(&mut self, count: impl FnOnce(&Counts, &[ErrorCode])) {
        let Http2Table { counts, faults, .. } = &mut self.http2;
        if *counts != Counts::default() || !faults.is_empty() {
            count(&std::mem::take(counts), faults);
            faults.clear();
        }
    }

    /// What is open.
    pub(in crate::runtime) fn open_http2s(&self) -> Open {
        let mut open = Open::default();
        for http2 in self.http2.all.iter().filter_map(|owner| self.http2_of(*owner)) {
            open.connections += 1;
            open.streams += http2.wire.open_streams();
            open.watches += http2.watches().count();
        }
        open
    }

    /// Bytes of these connections, and of their streams.
    pub(super) fn bytes_of_http2(&self) -> usize {
        self.http2.all.iter().filter_map(|owner| self.http2_of(*owner)).map(Http2::bytes).sum()
    }

    fn http2_of(&self, owner: Owner) -> Option<&Http2> {
        self.http2_at(owner.slot).filter(|_| self.owner(owner.slot) == owner)
    }

    fn http2_at(&self, slot: u32) -> Option<&Http2> {
        let conn = self.slots.get(slot as usize)?.conn.as_ref()?;
        if let Streams::Http2(http2) = &conn.streams { Some(http2) } else { None }
    }

    /// A request has become a watch. Its reply's head was sent.
    pub(in crate::runtime) fn attach_to(
        &mut self,
        owner: Owner,
        key: StreamKey,
        id: WatcherId,
        wire_stream: WireStream,
    ) {
        self.http2.watches += 1;
        let Some(http2) = self.at(owner).and_then(|conn| conn.http2()) else {
            return self.http2.lost.push(id);
        };
        let is_done = http2.wire.is_done(key);
        let Some(carried) = http2.wire.carried_mut(key) else { return self.http2.lost.push(id) };
        let (reads, is_bare) = (wire_stream.reads(), matches!(wire_stream, WireStream::Bare));
        let watch = Carried::Watch(Watch { id, wire_stream, rest: Vec::new(), is_blocked: false });
        if let Carried::Request(stream) = std::mem::replace(carried, watch) {
            let (early, has_ended) = stream.take_rest();
            if !early.is_empty() || (has_ended && reads) {
                self.http2.early.push((owner, key, early, has_ended));
            }
        }
        if is_done {
            self.http2.lost.push(id);
        }
        // The stream's wire form is the engine's own.
        if is_bare && let Some(http2) = self.at(owner).and_then(|conn| conn.http2()) {
            http2.wire.set_sender(key, Some(id.bits()));
        }
    }

    /// Watches on streams of connections of HTTP/2.
    pub(in crate::runtime) const fn watches_on_streams(&self) -> usize {
        self.http2.watches
    }

    /// Whether something happened on streams before they became watches.
    pub(super) const fn has_early_news(&self) -> bool {
        !self.http2.lost.is_empty() || !self.http2.early.is_empty()
    }

    /// Tells what happened on streams before they became watches.
    pub(super) fn tell_early_news(&mut self, now: Tick, news: &mut Vec<(WatcherId, ConnEvent)>) {
        news.extend(self.http2.lost.drain(..).map(|id| (id, ConnEvent::Gone { stalled: false })));
        for (owner, key, bytes, ended) in std::mem::take(&mut self.http2.early) {
            if self.http2_of(owner).is_some() {
                let ready = self.receive(owner, now, news, |wire, arrivals| {
                    wire.receive_late(key, &bytes, ended, arrivals)
                });
                self.send_ready(owner, &ready, news);
                self.go_on(owner, now, news);
            }
        }
    }

    /// Ends a watch's stream. `clean`: its end was taken over; otherwise it is reset.
    pub(super) fn detach_from(
        &mut self,
        owner: Owner,
        key: StreamKey,
        id: WatcherId,
        clean: bool,
        now: Tick,
    ) {
        self.gone += 1;
        self.http2.watches = self.http2.watches.saturating_sub(1);
        let Some(http2) = self.at(owner).and_then(|conn| conn.http2()) else { return };
        if !http2.carries(key, id) {
            return;
        }
        if clean && !http2.wire.is_done(key) {
            if let Some(carried) = http2.wire.carried_mut(key)
                && let Carried::Watch(watch) = carried
            {
                *carried = Carried::Ending(std::mem::take(&mut watch.rest), now.plus(DRAIN_GRACE));
            }
            http2.wire.set_sender(key, None);
            self.http2.next_look = self.http2.next_look.min(now.plus(DRAIN_GRACE));
            return;
        }
        if !clean {
            http2.wire.reset(key, ErrorCode::InternalError);
        }
        http2.wire.release(key);
        http2.idle_since = now;
        self.after_task(owner);
    }

    /// Whether the server is about to close: then connections end when their streams have.
    pub(in crate::runtime) const fn leave(&mut self, is_leaving: bool) {
        if self.http2.is_leaving != is_leaving {
            self.http2.is_leaving = is_leaving;
            self.http2.next_look = Tick::ZERO;
        }
    }

    /// Handles timers of connections, and ends those that are over.
    pub(super) fn tend_http2(&mut self, now: Tick, news: &mut Vec<(WatcherId, ConnEvent)>) {
        if self.http2.all.is_empty() || now < self.http2.next_look {
            return;
        }
        self.http2.next_look = now.plus(LOOK_EVERY);
        let mut all = std::mem::take(&mut self.http2.all);
        let (is_leaving, timing) = (self.http2.is_leaving, self.http2.timing);
        all.retain(|owner| {
            let Some(http2) = self.at(*owner).and_then(|conn| conn.http2()) else { return false };
            http2.tend(now, is_leaving, timing);
            self.go_on(*owner, now, news);
            true
        });
        self.http2.all = all;
    }

    /// Resets the streams of all watches. Returns how many there were.
    pub(super) fn close_watches(&mut self, owner: Owner) -> usize {
        let Some(http2) = self.at(owner).and_then(|conn| conn.http2()) else { return 0 };
        let watches: Vec<StreamKey> = http2.watches().map(|(key, _)| key).collect();
        for key in &watches {
            http2.wire.reset(*key, ErrorCode::InternalError);
            http2.wire.release(*key);
        }
        self.http2.watches = self.http2.watches.saturating_sub(watches.len());
        self.after_task(owner);
        watches.len()
    }
}

impl Http2 {
    fn tend(&mut self, now: Tick, is_leaving: bool, timing: Http2Timing) {
        self.wire.tick(now);
        let late: Vec<StreamKey> = self
            .wire
            .all_carried()
            .filter(|(_, carried)| matches!(carried, Carried::Ending(_, until) if *until <= now))
            .map(|(key, _)| key)
            .collect();
        for key in late {
            self.wire.release(key);
        }
        if self.wire.open_streams() > 0 {
            self.idle_since = now;
        } else if now.since(self.idle_since) >= timing.idle_timeout {
            self.wire.refuse_new();
        }
        if let Some(after) = timing.ping_after {
            self.ping_if_quiet(now, after);
        }
        match self.announced {
            None if is_leaving => {
                self.announced = Some(now);
                self.wire.announce_end();
            }
            Some(at) if now.since(at) >= LAST_STREAMS => self.wire.refuse_new(),
            Some(_) | None => {}
        }
    }

    /// Sends a PING, if there is a watch and nothing was sent for that long, or would have been by the next look.
    fn ping_if_quiet(&mut self, now: Tick, after: Duration) {
        if std::mem::take(&mut self.has_sent) {
            self.quiet_since = now;
        } else if now.since(self.quiet_since) + LOOK_EVERY >= after && self.watches().next().is_some() {
            self.quiet_since = now;
            self.wire.ping();
        }
    }
}

impl Conn {
    pub(super) fn http2(&mut self) -> Option<&mut Http2> {
        if let Streams::Http2(http2) = &mut self.streams { Some(http2) } else { None }
    }
}
