//! Connections of HTTP/2: many streams, each a watch or a request.
//!
//! Such a connection stays at the shard that accepted it. What a turn sends on its streams is collected in the outbox as frames, and
//! goes to the kernel in one write. What the kernel does not take is kept, and its streams wait: a stream waits for the socket
//! and for its windows alike, and costs the others nothing. A request is answered by a task, which sends between turns.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use revcast_engine::limits::{DRAIN_GRACE, PAGE_BYTES};
use revcast_engine::tick::Tick;
use revcast_engine::{Sent, WatcherId};
use rustix::io::Errno;
use rustix::net::{RecvFlags, getpeername, recv};

use super::request_stream::RequestStream;
use super::send::Offer;
use super::table::ConnEvent;
use super::tls::State;
use super::{Conn, Conns, Link, Streams};
use crate::runtime::client::Client;
use crate::runtime::sys::polls::Owner;
use crate::wire::coding::Coding;
use crate::wire::http2::{Connection, Counts, ErrorCode, Events, Limits, Request, StreamKey};
use crate::wire::websocket::Reading;

/// Bytes of one connection that are collected in a turn before they go to the kernel.
const QUEUED_BYTES_MAX: usize = 256 << 10;
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
    coding: Coding,
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
    requests: Vec<NewRequest>,
    /// Watches that were to begin on a stream which was gone.
    lost: Vec<WatcherId>,
    counts: Counts,
    /// Connections that ended because the peer broke a rule.
    faults: u32,
    /// Reused: frames of a task.
    frames: Vec<u8>,
    is_leaving: bool,
    /// How long a connection may have no stream.
    idle_timeout: Duration,
}

/// What a task sends on its stream: each part after the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::runtime) struct Frames<'a> {
    /// The field block of an interim response.
    pub(in crate::runtime) interim: Option<&'a [u8]>,
    /// The field block of the response.
    pub(in crate::runtime) head: Option<&'a [u8]>,
    pub(in crate::runtime) data: &'a [u8],
    /// The field block after the data, if the stream ends.
    pub(in crate::runtime) trailers: Option<&'a [u8]>,
    /// Whether the stream ends with this.
    pub(in crate::runtime) ends: bool,
}

/// What became of a task's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Put {
    /// The stream, or its connection, is gone.
    Gone,
    /// Nothing: the socket is full. The task is woken when it is not.
    Full,
    /// So many bytes of data, and whether that was all. If not, the task is woken when there is room.
    Data(usize, bool),
}

/// Takes the events of one connection.
struct Arrivals<'a> {
    owner: Owner,
    client: &'a Rc<Client>,
    requests: &'a mut Vec<NewRequest>,
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
        self.requests.push(new);
        Carried::Request(stream)
    }

    fn data(&mut self, key: StreamKey, stream: &mut Carried, bytes: &[u8], ended: bool) {
        match stream {
            Carried::Request(stream) => stream.put(bytes, ended),
            Carried::Watch(watch) if watch.coding.reads() => {
                self.used.push((key, bytes.len()));
                let busy = self.is_busy || !watch.rest.is_empty();
                let reading = watch.coding.read(bytes, busy, &mut watch.rest);
                if !watch.rest.is_empty() {
                    self.ready.push(key);
                }
                if reading == Reading::Over || ended {
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

    /// The outbox was passed on.
    pub(super) const fn was_passed_on(&mut self) {
        self.queued = 0;
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
        idle_timeout: Duration,
        now: Tick,
    ) {
        self.http2.idle_timeout = idle_timeout;
        let slot = self.open(link);
        let owner = self.owner(slot);
        let Some(conn) = self.at(owner) else { return };
        let wire = Connection::new(limits, now);
        let http2 = Http2 { wire, client, queued: 0, idle_since: now, announced: None };
        conn.streams = Streams::Http2(Box::new(http2));
        self.http2.all.push(owner);
        // What came already is read like the rest.
        self.rest_until(Tick::ZERO, owner);
    }

    /// Requests that came since the last call.
    pub(in crate::runtime) fn take_requests(&mut self) -> Vec<NewRequest> {
        std::mem::take(&mut self.http2.requests)
    }

    /// What peers did since the last call, and how many connections ended for it.
    pub(in crate::runtime) const fn take_http2_counts(&mut self) -> (Counts, u32) {
        let none = Counts { reset_by_peer: 0, reset: 0, refused: 0, too_large: 0 };
        let counts = std::mem::replace(&mut self.http2.counts, none);
        (counts, std::mem::replace(&mut self.http2.faults, 0))
    }

    /// Connections of HTTP/2, and their streams.
    pub(in crate::runtime) fn count_http2(&self) -> (usize, usize) {
        let streams = |owner: &Owner| self.http2_of(*owner).map_or(0, |http2| http2.wire.open_streams());
        (self.http2.all.len(), self.http2.all.iter().map(streams).sum())
    }

    /// Bytes of these connections, and of their streams.
    pub(super) fn bytes_of_http2(&self) -> usize {
        self.http2.all.iter().filter_map(|owner| self.http2_of(*owner)).map(Http2::bytes).sum()
    }

    fn http2_of(&self, owner: Owner) -> Option<&Http2> {
        let conn = self.slots.get(owner.slot as usize)?.conn.as_ref()?;
        if let Streams::Http2(http2) = &conn.streams
            && self.owner(owner.slot) == owner
        {
            return Some(http2);
        }
        None
    }

    /// A request has become a watch. Its reply's head was sent.
    pub(in crate::runtime) fn attach_to(
        &mut self,
        owner: Owner,
        key: StreamKey,
        id: WatcherId,
        coding: Coding,
    ) {
        let Some(http2) = self.at(owner).and_then(|conn| conn.http2()) else {
            return self.http2.lost.push(id);
        };
        let is_done = http2.wire.is_done(key);
        let Some(carried) = http2.wire.carried_mut(key) else { return self.http2.lost.push(id) };
        *carried = Carried::Watch(Watch { id, coding, rest: Vec::new(), is_blocked: false });
        if is_done {
            self.http2.lost.push(id);
        }
    }

    /// Whether watches wait to be told that their stream is gone.
    pub(super) const fn has_lost(&self) -> bool {
        !self.http2.lost.is_empty()
    }

    pub(super) fn tell_lost(&mut self, news: &mut Vec<(WatcherId, ConnEvent)>) {
        news.extend(self.http2.lost.drain(..).map(|id| (id, ConnEvent::Gone { stalled: false })));
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

    /// Offers something to a watch's stream, to be sent at the end of the turn.
    pub(super) fn collect_frames(&mut self, owner: Owner, key: StreamKey, what: Offer<'_>) -> Sent {
        let Self { slots, outbox, polls, compressor, .. } = self;
        let Some(conn) = &mut slots[owner.slot as usize].conn else { return Sent::Gone };
        let is_full = conn.is_full();
        let Streams::Http2(http2) = &mut conn.streams else { return Sent::Gone };
        let Http2 { wire, queued, .. } = &mut **http2;
        let Some(Carried::Watch(watch)) = wire.carried_mut(key) else { return Sent::Gone };
        let (is_bare, has_rest) = (watch.coding.rests_within_messages(), !watch.rest.is_empty());
        let bytes = match what {
            // The engine keeps the position in a message, so there may be a part of one.
            Offer::Messages(run) if is_bare => run.bytes(),
            Offer::Messages(run) => &run.bytes()[..run.page(PAGE_BYTES)],
            Offer::Heartbeat => watch.coding.heartbeat(),
        };
        let room = if is_full || has_rest { 0 } else { wire.room(key) };
        if room == 0 || (matches!(what, Offer::Heartbeat) && room < bytes.len()) {
            if matches!(what, Offer::Messages(_)) {
                wire.want_room(key);
                if let Some(Carried::Watch(watch)) = wire.carried_mut(key) {
                    watch.is_blocked = true;
                }
                if is_full {
                    conn.poll_to_write(owner, polls);
                }
            }
            return Sent::Took(0);
        }
        let again = std::mem::replace(&mut conn.is_queued, true);
        let before = outbox.len();
        let taken = if is_bare {
            outbox.put_with(owner.slot, again, |out| wire.push_data(key, bytes, false, out)).bytes
        } else {
            // The stream's own form is made apart from the connection.
            let Some(Carried::Watch(watch)) = wire.carried_mut(key) else { return Sent::Gone };
            let mut coding = std::mem::replace(&mut watch.coding, Coding::Bare);
            let coded = match what {
                Offer::Messages(_) => coding.encode(compressor, bytes),
                Offer::Heartbeat => bytes,
            };
            let pushed = outbox.put_with(owner.slot, again, |out| wire.push_data(key, coded, false, out));
            if let Some(Carried::Watch(watch)) = wire.carried_mut(key) {
                watch.rest.extend_from_slice(&coded[pushed.bytes..]);
                watch.coding = coding;
            }
            bytes.len()
        };
        *queued += outbox.len() - before;
        let is_over = *queued > QUEUED_BYTES_MAX;
        if !what.is_all(taken) {
            if let Some(Carried::Watch(watch)) = wire.carried_mut(key) {
                watch.is_blocked = true;
            }
            // If it is not the windows that are lacking, there is more to take at once.
            if wire.room(key) > 0 {
                conn.poll_to_write(owner, polls);
            }
        }
        if is_over || self.is_outbox_full() {
            self.flush();
        }
        Sent::Took(taken)
    }

    /// Ends a watch's stream after everything that it was sent.
    pub(super) fn end_frames(&mut self, owner: Owner, key: StreamKey) -> Sent {
        let Self { slots, outbox, .. } = self;
        let Some(conn) = &mut slots[owner.slot as usize].conn else { return Sent::Gone };
        let is_full = conn.is_full();
        let Streams::Http2(http2) = &mut conn.streams else { return Sent::Gone };
        let Http2 { wire, queued, .. } = &mut **http2;
        let Some(Carried::Watch(watch)) = wire.carried_mut(key) else { return Sent::Gone };
        watch.coding.push_end(&mut watch.rest);
        let rest = std::mem::take(&mut watch.rest);
        let sent = if is_full {
            0
        } else {
            let again = std::mem::replace(&mut conn.is_queued, true);
            let before = outbox.len();
            let pushed = outbox.put_with(owner.slot, again, |out| wire.push_data(key, &rest, true, out));
            *queued += outbox.len() - before;
            pushed.bytes
        };
        // What is left goes out when there is room.
        if let Some(Carried::Watch(watch)) = wire.carried_mut(key) {
            watch.rest = rest[sent..].to_vec();
        }
        Sent::Took(rest.len())
    }

    /// Reads what a peer sent.
    pub(super) fn read_http2(&mut self, owner: Owner, now: Tick, news: &mut Vec<(WatcherId, ConnEvent)>) {
        let (mut wire, mut plain) = self.take_scratch();
        let read = self.at(owner).map(|conn| conn.read_plain(&mut wire, &mut plain));
        match read {
            Some(Some(state)) => {
                let ready = self.receive(owner, &plain, now, news);
                self.send_ready(owner, &ready, news);
                if state == State::Closed {
                    // Its streams are of no use to it.
                    self.lose(owner, news);
                } else {
                    self.go_on(owner, now, news);
                }
            }
            Some(None) => self.lose(owner, news),
            None => {}
        }
        self.put_scratch(wire, plain);
    }

    /// Takes plain bytes of a peer. Returns the streams that have something to send.
    fn receive(
        &mut self,
        owner: Owner,
        plain: &[u8],
        now: Tick,
        news: &mut Vec<(WatcherId, ConnEvent)>,
    ) -> Vec<StreamKey> {
        let Self { slots, http2: table, .. } = self;
        let Some(conn) = &mut slots[owner.slot as usize].conn else { return Vec::new() };
        let is_busy = conn.is_full();
        let Streams::Http2(http2) = &mut conn.streams else { return Vec::new() };
        let Http2 { wire, client, .. } = &mut **http2;
        let requests = &mut table.requests;
        let mut arrivals =
            Arrivals { owner, client, requests, news, ready: Vec::new(), used: Vec::new(), is_busy, now };
        wire.receive(plain, now, &mut arrivals);
        let Arrivals { ready, used, .. } = arrivals;
        for (key, bytes) in used {
            wire.consume(key, bytes);
        }
        let counts = wire.take_counts();
        table.counts.reset_by_peer += counts.reset_by_peer;
        table.counts.reset += counts.reset;
        table.counts.refused += counts.refused;
        table.counts.too_large += counts.too_large;
        ready
    }

    /// Sends what these streams have to send, and tells the engine of those that have room then.
    fn send_ready(&mut self, owner: Owner, ready: &[StreamKey], news: &mut Vec<(WatcherId, ConnEvent)>) {
        let Self { slots, outbox, .. } = self;
        let Some(conn) = &mut slots[owner.slot as usize].conn else { return };
        if conn.is_full() {
            return;
        }
        let Streams::Http2(http2) = &mut conn.streams else { return };
        let Http2 { wire, queued, .. } = &mut **http2;
        let before = outbox.len();
        for &key in ready {
            let (rest, ends) = match wire.carried_mut(key) {
                Some(Carried::Watch(watch)) => {
                    watch.coding.settle(&mut watch.rest);
                    (std::mem::take(&mut watch.rest), false)
                }
                Some(Carried::Ending(rest, _)) => (std::mem::take(rest), true),
                Some(Carried::Request(_)) | None => continue,
            };
            let pushed = if rest.is_empty() && !ends {
                None
            } else {
                let again = std::mem::replace(&mut conn.is_queued, true);
                Some(outbox.put_with(owner.slot, again, |out| wire.push_data(key, &rest, ends, out)))
            };
            let is_all = pushed.is_none_or(|pushed| pushed.is_all);
            match wire.carried_mut(key) {
                Some(Carried::Watch(watch)) if is_all => {
                    if std::mem::take(&mut watch.is_blocked) {
                        news.push((watch.id, ConnEvent::Writable));
                    }
                }
                Some(Carried::Ending(..)) if is_all => drop(wire.release(key)),
                Some(Carried::Watch(Watch { rest: left, .. }) | Carried::Ending(left, _)) => {
                    *left = rest[pushed.map_or(0, |pushed| pushed.bytes)..].to_vec();
                }
                Some(Carried::Request(_)) | None => {}
            }
        }
        *queued += outbox.len() - before;
    }

    /// Sends control frames with the turn's output, and ends a connection that is over. Reading goes on otherwise.
    fn go_on(&mut self, owner: Owner, now: Tick, news: &mut Vec<(WatcherId, ConnEvent)>) {
        let Self { slots, outbox, polls, .. } = self;
        let Some(conn) = &mut slots[owner.slot as usize].conn else { return };
        let is_full = conn.is_full();
        let Streams::Http2(http2) = &mut conn.streams else { return };
        let Http2 { wire, queued, .. } = &mut **http2;
        let is_over = wire.ended().is_some() || (wire.refuses_new() && wire.open_streams() == 0);
        if wire.has_control() && !is_full && !is_over {
            let again = std::mem::replace(&mut conn.is_queued, true);
            let before = outbox.len();
            outbox.put_with(owner.slot, again, |out| wire.take_control(out));
            *queued += outbox.len() - before;
        }
        if is_over {
            self.finish_http2(owner, now, news);
        } else {
            conn.poll_to_read(owner, polls);
            if conn.is_full() {
                conn.poll_to_write(owner, polls);
            }
        }
    }

    /// Ends a connection: what it has to say goes out, then it lingers.
    fn finish_http2(&mut self, owner: Owner, now: Tick, news: &mut Vec<(WatcherId, ConnEvent)>) {
        self.flush();
        let Some(conn) = self.at(owner) else { return };
        let Some(http2) = conn.http2() else { return };
        let ended = http2.wire.ended();
        let mut last = Vec::new();
        http2.wire.take_control(&mut last);
        http2.lose_requests();
        let watches: Vec<WatcherId> = http2.watches().map(|(_, id)| id).collect();
        news.extend(watches.into_iter().map(|id| (id, ConnEvent::Gone { stalled: false })));
        conn.streams = Streams::None;
        let appended = conn.append(&last);
        if let Some(ended) = ended {
            self.http2.faults += 1;
            crate::log::debug(|| format!("an HTTP/2 connection ended: {ended}"));
        }
        match appended {
            Some(()) => self.linger(owner, now, false),
            None => self.close(owner),
        }
    }

    /// What was unsent of a connection is sent: its streams may send again.
    pub(super) fn http2_is_writable(
        &mut self,
        owner: Owner,
        now: Tick,
        news: &mut Vec<(WatcherId, ConnEvent)>,
    ) {
        let Some(http2) = self.at(owner).and_then(|conn| conn.http2()) else { return };
        let mut ready = Vec::new();
        for (key, carried) in http2.wire.all_carried() {
            match carried {
                Carried::Request(stream) => stream.wake_writer(),
                Carried::Watch(watch) if watch.is_blocked || !watch.rest.is_empty() => ready.push(key),
                Carried::Watch(_) => {}
                Carried::Ending(..) => ready.push(key),
            }
        }
        ready.retain(|key| {
            http2.wire.want_room(*key) || matches!(http2.wire.carried(*key), Some(Carried::Ending(..)))
        });
        self.send_ready(owner, &ready, news);
        self.go_on(owner, now, news);
    }

    /// Sends frames of a task's stream, at once.
    pub(in crate::runtime) fn put_frames(&mut self, owner: Owner, key: StreamKey, frames: Frames<'_>) -> Put {
        let mut out = std::mem::take(&mut self.http2.frames);
        let Some(conn) = self.at(owner).filter(|conn| !conn.is_broken) else { return Put::Gone };
        let is_full = conn.is_full();
        let Some(http2) = conn.http2() else { return Put::Gone };
        let wire = &mut http2.wire;
        let put = if wire.is_done(key) {
            Put::Gone
        } else if is_full {
            Put::Full
        } else {
            out.clear();
            if let Some(block) = frames.interim {
                wire.push_interim_head(key, block, &mut out);
            }
            let Frames { data, trailers, ends, .. } = frames;
            let ends_with_data = ends && trailers.is_none();
            let is_bare = ends_with_data && data.is_empty();
            if let Some(block) = frames.head {
                wire.push_head(key, block, is_bare, &mut out);
            }
            if (is_bare && frames.head.is_some()) || (data.is_empty() && !ends) {
                Put::Data(0, true)
            } else {
                let pushed = wire.push_data(key, data, ends_with_data, &mut out);
                if let Some(block) = trailers.filter(|_| pushed.is_all && ends) {
                    wire.push_head(key, block, true, &mut out);
                }
                Put::Data(pushed.bytes, pushed.is_all)
            }
        };
        if put != Put::Full {
            self.pass_on(owner, &mut out);
        }
        out.clear();
        self.http2.frames = out;
        put
    }

    /// Sends frames between turns, after what is collected. The control frames go with them.
    fn pass_on(&mut self, owner: Owner, frames: &mut Vec<u8>) {
        let Self { slots, outbox, polls, broken, .. } = self;
        let Some(conn) = &mut slots[owner.slot as usize].conn else { return };
        let is_full = conn.is_full();
        let Some(http2) = conn.http2() else { return };
        if !is_full {
            http2.wire.take_control(frames);
        }
        if frames.is_empty() {
            return;
        }
        if conn.is_queued {
            outbox.put_with(owner.slot, true, |out| out.extend_from_slice(frames));
            return;
        }
        match conn.append(frames).and_then(|()| conn.flush_unsent()) {
            Some(true) => conn.drop_spent(),
            Some(false) => {
                conn.poll_to_write(owner, polls);
                polls.submit();
            }
            None => {
                conn.is_broken = true;
                broken.push(owner);
            }
        }
    }

    /// A task used bytes of its stream's body: the peer may send more.
    pub(in crate::runtime) fn consume(&mut self, owner: Owner, key: StreamKey, bytes: usize) {
        let Some(http2) = self.at(owner).and_then(|conn| conn.http2()) else { return };
        http2.wire.consume(key, bytes);
        self.pass_on(owner, &mut Vec::new());
    }

    /// A task ends its stream with an error.
    pub(in crate::runtime) fn reset(&mut self, owner: Owner, key: StreamKey, code: ErrorCode) {
        let Some(http2) = self.at(owner).and_then(|conn| conn.http2()) else { return };
        http2.wire.reset(key, code);
        self.pass_on(owner, &mut Vec::new());
    }

    /// A task is done with its stream.
    pub(in crate::runtime) fn release(&mut self, owner: Owner, key: StreamKey, now: Tick) {
        let Some(http2) = self.at(owner).and_then(|conn| conn.http2()) else { return };
        if let Some(Carried::Request(stream)) = http2.wire.release(key) {
            // What it did not read counts against the connection's window.
            let unread = stream.unread();
            http2.wire.consume(key, unread);
        }
        http2.idle_since = now;
        self.after_task(owner);
    }

    /// The address of a connection's peer.
    pub(in crate::runtime) fn peer(&mut self, owner: Owner) -> Option<SocketAddr> {
        let address = getpeername(&self.at(owner)?.fd).ok()??;
        address.try_into().ok()
    }

    /// The peer showed who it is.
    pub(in crate::runtime) fn trust(&mut self, owner: Owner) {
        if let Some(http2) = self.at(owner).and_then(|conn| conn.http2()) {
            http2.wire.trust();
        }
    }

    /// The connection takes no more streams.
    pub(in crate::runtime) fn refuse_more(&mut self, owner: Owner) {
        if let Some(http2) = self.at(owner).and_then(|conn| conn.http2()) {
            http2.wire.refuse_new();
        }
    }

    /// Sends control frames; a connection that is over is ended by the next turn.
    fn after_task(&mut self, owner: Owner) {
        let Some(http2) = self.at(owner).and_then(|conn| conn.http2()) else { return };
        if http2.wire.refuses_new() && http2.wire.open_streams() == 0 {
            self.rest_until(Tick::ZERO, owner);
        } else if http2.wire.has_control() {
            self.pass_on(owner, &mut Vec::new());
        }
    }

    /// The server is about to close: connections end when their streams have.
    pub(in crate::runtime) const fn leave(&mut self) {
        if !self.http2.is_leaving {
            self.http2.is_leaving = true;
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
        let (is_leaving, idle_timeout) = (self.http2.is_leaving, self.http2.idle_timeout);
        all.retain(|owner| {
            let Some(http2) = self.at(*owner).and_then(|conn| conn.http2()) else { return false };
            http2.tend(now, is_leaving, idle_timeout);
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
        self.after_task(owner);
        watches.len()
    }
}

impl Http2 {
    fn tend(&mut self, now: Tick, is_leaving: bool, idle_timeout: Duration) {
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
        } else if now.since(self.idle_since) >= idle_timeout {
            self.wire.refuse_new();
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
}

impl Conn {
    pub(super) fn http2(&mut self) -> Option<&mut Http2> {
        if let Streams::Http2(http2) = &mut self.streams { Some(http2) } else { None }
    }

    /// Reads once. `None`: the peer disconnected, or broke TLS.
    fn read_plain(&mut self, wire: &mut [u8], plain: &mut Vec<u8>) -> Option<State> {
        let fd = &self.fd;
        let rare = self.rare.get_or_insert_default();
        if !rare.unread.is_empty() {
            plain.append(&mut rare.unread);
            return Some(State::Open);
        }
        let bytes = match recv(fd, &mut wire[..], RecvFlags::DONTWAIT) {
            Ok((read, _)) if read > 0 => &wire[..read],
            Err(Errno::AGAIN | Errno::INTR) => &[],
            Ok(_) | Err(_) => return None,
        };
        let Some(session) = &mut rare.tls else {
            plain.extend_from_slice(bytes);
            return Some(State::Open);
        };
        let state = session.read(bytes, plain, rare.unsent.tail());
        let flushed = rare.unsent.flush(fd);
        state.ok().filter(|_| flushed.is_some())
    }
}
