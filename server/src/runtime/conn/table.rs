//! The connections of one shard, by slot: opened, read, polled, closed.

use std::collections::VecDeque;
use std::os::fd::{AsFd, RawFd};
use std::time::{Duration, Instant};

use revcast_engine::WatcherId;
use revcast_engine::tick::Tick;
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{RecvFlags, recv};
use rustls::pki_types::CertificateDer;

use super::event::ConnEvent;
use super::http2::{Gathered, Http2Table};
use super::linger::Lingering;
use super::outbox::Outbox;
use super::pages::SharedPages;
use super::read_budget::ReadBudget;
use super::tls::State;
use super::{Conn, Link, Place, Stream, Streams};
use crate::runtime::sys::polls::{GENERATION_BITS, Owner, Polls, Readiness};
use crate::runtime::sys::sends::Sends;
use crate::wire::gzip;
use crate::wire::stream::WireStream;
use crate::wire::websocket::PeerState;

/// Clients that are read in one turn, if the budget allows; the others wait for the next turn.
const READS_AT_ONCE: usize = 16;
/// Interval between two reads of one client: a client that sends without end is read no more often.
const READ_EVERY: Duration = Duration::from_millis(50);
/// Bytes of a client per read.
const READ_BYTES: usize = 16 << 10;

/// A slot for a connection.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) generation: u32,
    pub(super) conn: Option<Conn>,
}

/// The connections of one shard.
#[derive(Debug)]
pub(in crate::runtime) struct Conns {
    pub(super) slots: Vec<Slot>,
    free: Vec<u32>,
    pub(super) polls: Polls,
    /// `None`: one system call for each send.
    pub(super) sends: Option<Sends>,
    /// What many connections are sent.
    pub(super) pages: SharedPages,
    pub(super) outbox: Outbox,
    /// Reused: frames for many streams of a connection.
    pub(super) gathered: Gathered,
    pub(super) compressor: gzip::Compressor,
    pub(super) lingering: Lingering,
    pub(super) http2: Http2Table,
    /// Connections to be read, in this order.
    readable: VecDeque<Owner>,
    /// How long they are read.
    pub(in crate::runtime) read_budget: ReadBudget,
    /// Connections whose next read is due at a time, soonest first.
    resting: VecDeque<(Tick, Owner)>,
    /// Connections whose send failed, and whose streams are not informed yet.
    pub(super) broken: Vec<Owner>,
    /// Streams that left with their connection, or left it, since the last call of `take_gone`.
    pub(super) gone: usize,
    /// Reused.
    completions: Vec<(Owner, Readiness, bool)>,
    news: Vec<(WatcherId, ConnEvent)>,
    /// Buffers for reads: as read, and decrypted. Reused.
    scratch: (Vec<u8>, Vec<u8>),
    /// Reused: the sockets of one batch, and of each entry where its outcome belongs and the slot of its connection.
    pub(super) batch: (Vec<RawFd>, Vec<(usize, u32)>),
}

impl Conns {
    pub(in crate::runtime) fn new(polls: Polls, sends: Option<Sends>) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            polls,
            sends,
            pages: SharedPages::default(),
            outbox: Outbox::default(),
            gathered: Gathered::default(),
            compressor: gzip::Compressor::default(),
            lingering: Lingering::default(),
            http2: Http2Table::default(),
            readable: VecDeque::new(),
            read_budget: ReadBudget::default(),
            resting: VecDeque::new(),
            broken: Vec::new(),
            gone: 0,
            completions: Vec::new(),
            news: Vec::new(),
            scratch: Default::default(),
            batch: Default::default(),
        }
    }

    /// Sends a copy to each connection, from now on.
    pub(in crate::runtime) fn share_no_pages(&mut self) {
        self.pages = SharedPages::Off;
    }

    /// Adds a connection that carries one stream, and returns its slot.
    pub(in crate::runtime) fn open(&mut self, link: Link, id: WatcherId, wire_stream: WireStream) -> u32 {
        let owner = self.insert(Conn::new(link, Streams::One(Stream { id, wire_stream })));
        let Some(conn) = &mut self.slots[owner.slot as usize].conn else { return owner.slot };
        // Bytes that came with the request may belong to the stream.
        if conn.is_read_by_stream() && conn.rare.as_ref().is_some_and(|rare| !rare.unread.is_empty()) {
            self.readable.push_back(owner);
        } else {
            conn.poll_to_read(owner, &mut self.polls);
        }
        if conn.is_full() {
            conn.poll_to_write(owner, &mut self.polls);
        }
        owner.slot
    }

    /// Puts a connection into a free slot.
    pub(super) fn insert(&mut self, conn: Conn) -> Owner {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).expect("there are fewer descriptors")
        });
        self.slots[slot as usize].conn = Some(conn);
        self.owner(slot)
    }

    /// Ends a stream. `clean`: everything for it was taken over. Returns the connection if it can carry another request; it is
    /// not polled then. Otherwise one that carried nothing else lingers or is closed.
    pub(in crate::runtime) fn detach(
        &mut self,
        place: Place,
        id: WatcherId,
        clean: bool,
        now: Tick,
    ) -> Option<Link> {
        let owner = self.owner(place.conn());
        if let Some(key) = place.key() {
            self.detach_from(owner, key, id, clean, now);
            return None;
        }
        let conn = self.slots.get_mut(place.conn() as usize)?.conn.as_mut()?;
        debug_assert!(!conn.is_queued, "what a turn sends is handed on before its ends are taken");
        if !matches!(&conn.streams, Streams::One(stream) if stream.id == id) {
            return None;
        }
        let Streams::One(stream) = std::mem::replace(&mut conn.streams, Streams::None) else { return None };
        if !clean || conn.is_broken {
            self.gone += 1;
            self.close(owner);
            return None;
        }
        if conn.keep_alive && stream.wire_stream.rests_within_messages() {
            self.gone += 1;
            return self.take(owner).map(Conn::into_link);
        }
        self.linger(owner, now, true);
        None
    }

    /// Ends the streams of all watches. Connections that linger stay, and those that carry requests.
    pub(in crate::runtime) fn close_all(&mut self) {
        for slot in 0..self.slots.len() {
            let owner = self.owner(u32::try_from(slot).expect("it is a slot"));
            match self.slots[slot].conn.as_ref().map(|conn| &conn.streams) {
                Some(Streams::One(_)) => {
                    self.gone += 1;
                    self.close(owner);
                }
                Some(Streams::Http2(_)) => self.gone += self.close_watches(owner),
                Some(Streams::None) | None => {}
            }
        }
    }

    /// How many streams have left since the last call, with their connections or from them.
    pub(in crate::runtime) const fn take_gone(&mut self) -> usize {
        std::mem::replace(&mut self.gone, 0)
    }

    /// Handles timers and what happened to connections since the last call, and returns it for each of their streams.
    pub(in crate::runtime) fn reap(&mut self, now: Tick) -> impl Iterator<Item = (WatcherId, ConnEvent)> {
        debug_assert!(self.outbox.is_empty(), "what a turn sends is handed on at its end");
        let mut news = std::mem::take(&mut self.news);
        while let Some(owner) = self.broken.pop() {
            self.lose(owner, &mut news);
        }
        self.tell_early_news(now, &mut news);
        let mut completions = std::mem::take(&mut self.completions);
        self.polls.reap(&mut completions);
        for (owner, what, good) in completions.drain(..) {
            let Some(conn) = self.at(owner) else { continue };
            match what {
                Readiness::Gone | Readiness::Readable => conn.polled_to_read = None,
                Readiness::Writable => conn.polled_to_write = false,
            }
            if conn.is_lingering() {
                self.linger_on(owner, what, now);
                continue;
            }
            match what {
                // A failed poll for writability is followed by another send, one for a hang-up by the next send.
                Readiness::Gone if !good => {}
                Readiness::Gone => self.lose(owner, &mut news),
                Readiness::Readable => self.readable.push_back(owner),
                Readiness::Writable => self.flush_unsent(owner, now, &mut news),
            }
        }
        self.completions = completions;
        while let Some(&(due, owner)) = self.resting.front()
            && due <= now
        {
            self.resting.pop_front();
            self.readable.push_back(owner);
        }
        for _ in 0..READS_AT_ONCE {
            if !self.read_budget.is_left() {
                break;
            }
            let Some(owner) = self.readable.pop_front() else { break };
            let began = Instant::now();
            // Its streams may have ended since.
            if self.at(owner).is_some_and(|conn| conn.is_lingering()) {
                self.linger_on(owner, Readiness::Readable, now);
            } else {
                self.read(owner, now, &mut news);
            }
            self.read_budget.spend(began.elapsed());
        }
        self.tend_http2(now, &mut news);
        self.tend_lingering(now);
        self.news = news;
        self.news.drain(..)
    }

    /// Submits polls to the kernel.
    pub(in crate::runtime) fn submit(&mut self) {
        self.polls.submit();
    }

    /// Bytes that the table uses.
    pub(in crate::runtime) fn bytes(&self) -> usize {
        size_of::<Slot>() * self.slots.capacity() + self.outbox.capacity() + self.bytes_of_http2()
    }

    /// Whether there are events that were not handled yet.
    pub(in crate::runtime) fn has_events(&mut self) -> bool {
        !self.broken.is_empty()
            || self.has_early_news()
            || !self.readable.is_empty()
            || self.polls.has_completions()
    }

    /// When the next client is due for a read.
    pub(in crate::runtime) fn due(&self) -> Option<Tick> {
        self.resting.front().map(|(due, _)| *due)
    }

    /// The certificate chain of a connection's client; empty: none.
    pub(in crate::runtime) fn certificates(&self, slot: u32) -> &[CertificateDer<'static>] {
        let conn = self.slots.get(slot as usize).and_then(|slot| slot.conn.as_ref());
        let tls = conn.and_then(|conn| conn.rare.as_ref()).and_then(|rare| rare.tls.as_ref());
        tls.map(|session| session.peer_certificates()).unwrap_or_default()
    }

    /// Whether a connection has TLS.
    pub(in crate::runtime) fn has_tls(&self, slot: u32) -> bool {
        let conn = self.slots.get(slot as usize).and_then(|slot| slot.conn.as_ref());
        conn.and_then(|conn| conn.rare.as_ref()).is_some_and(|rare| rare.tls.is_some())
    }

    /// The owner id of a slot's connection.
    pub(super) fn owner(&self, slot: u32) -> Owner {
        let generation = self.slots.get(slot as usize).map_or(0, |slot| slot.generation);
        Owner { slot, generation }
    }

    pub(super) fn at(&mut self, owner: Owner) -> Option<&mut Conn> {
        let slot = self.slots.get_mut(owner.slot as usize)?;
        if slot.generation == owner.generation { slot.conn.as_mut() } else { None }
    }

    /// Removes a connection from the table and its polls.
    fn take(&mut self, owner: Owner) -> Option<Conn> {
        let slot = self.slots.get_mut(owner.slot as usize)?;
        let mut conn = slot.conn.take_if(|_| slot.generation == owner.generation)?;
        conn.forget_polls(owner, &mut self.polls);
        slot.generation = (slot.generation + 1) & GENERATION_BITS;
        self.free.push(owner.slot);
        Some(conn)
    }

    pub(super) fn close(&mut self, owner: Owner) {
        drop(self.take(owner));
    }

    /// The peer disconnected or broke the protocol.
    pub(super) fn lose(&mut self, owner: Owner, news: &mut Vec<(WatcherId, ConnEvent)>) {
        let Some(conn) = self.take(owner) else { return };
        let event = ConnEvent::Gone { stalled: matches!(socket_error(&conn.fd), Ok(Err(Errno::TIMEDOUT))) };
        match &conn.streams {
            Streams::None => {}
            Streams::One(stream) => {
                self.gone += 1;
                news.push((stream.id, event));
            }
            // Each is counted when it is detached.
            Streams::Http2(http2) => {
                http2.lose_requests();
                news.extend(http2.watches().map(|(_, id)| (id, event)));
            }
        }
    }

    /// The connection is read as soon as possible.
    pub(super) fn read_soon(&mut self, owner: Owner) {
        self.readable.push_back(owner);
    }

    /// The same, before all others.
    pub(super) fn read_next(&mut self, owner: Owner) {
        self.readable.push_front(owner);
    }

    /// Buffers for a read.
    pub(super) fn take_scratch(&mut self) -> (Vec<u8>, Vec<u8>) {
        let (mut wire, mut plain) = std::mem::take(&mut self.scratch);
        wire.resize(READ_BYTES, 0);
        plain.clear();
        (wire, plain)
    }

    pub(super) fn put_scratch(&mut self, wire: Vec<u8>, plain: Vec<u8>) {
        self.scratch = (wire, plain);
    }

    /// It is writable: first what is unsent is sent, then the engine is informed.
    fn flush_unsent(&mut self, owner: Owner, now: Tick, news: &mut Vec<(WatcherId, ConnEvent)>) {
        let Some(conn) = self.at(owner) else { return };
        match conn.flush_unsent() {
            Some(true) => {
                conn.drop_spent();
                match &conn.streams {
                    Streams::None => {}
                    Streams::One(stream) => news.push((stream.id, ConnEvent::Writable)),
                    Streams::Http2(_) => self.http2_is_writable(owner, now, news),
                }
            }
            Some(false) => {
                let Self { slots, polls, .. } = self;
                if let Some(conn) = &mut slots[owner.slot as usize].conn {
                    conn.poll_to_write(owner, polls);
                }
            }
            None => self.lose(owner, news),
        }
    }

    /// Reads what a client sent.
    fn read(&mut self, owner: Owner, now: Tick, news: &mut Vec<(WatcherId, ConnEvent)>) {
        if self.at(owner).is_some_and(|conn| matches!(conn.streams, Streams::Http2(_))) {
            return self.read_http2(owner, now, news);
        }
        let (mut wire, mut plain) = self.take_scratch();
        if let Some(conn) = self.at(owner) {
            match conn.read(&mut wire, &mut plain, now) {
                Some(ReadNext { over: true, .. }) => {
                    // The answer is sent after the message in progress, and then the connection ends.
                    let streams = std::mem::replace(&mut conn.streams, Streams::None);
                    if let Streams::One(stream) = streams {
                        news.push((stream.id, ConnEvent::Gone { stalled: false }));
                    }
                    self.linger(owner, now, true);
                }
                Some(ReadNext { again, flushed, .. }) => {
                    let Self { slots, polls, resting, .. } = self;
                    if let Some(conn) = &mut slots[owner.slot as usize].conn {
                        if !flushed {
                            conn.poll_to_write(owner, polls);
                        }
                        match again {
                            Some(due) => resting.push_back((due, owner)),
                            None => conn.poll_to_read(owner, polls),
                        }
                        conn.drop_spent();
                    }
                }
                None => self.lose(owner, news),
            }
        }
        self.put_scratch(wire, plain);
    }
}

/// How a connection continues after a read.
struct ReadNext {
    /// The client ended it, or sent invalid data.
    over: bool,
    /// Whether everything is sent.
    flushed: bool,
    /// When it is read again; `None`: when it is readable.
    again: Option<Tick>,
}

impl Conn {
    /// What is polled for while nothing is unsent.
    fn read_interest(&self) -> Readiness {
        if self.is_read() { Readiness::Readable } else { Readiness::Gone }
    }

    pub(super) fn poll_to_read(&mut self, owner: Owner, polls: &mut Polls) {
        if self.polled_to_read.is_none() {
            let what = self.read_interest();
            self.polled_to_read = Some(what);
            polls.watch(owner, self.fd.as_fd(), what);
        }
    }

    pub(super) fn poll_to_write(&mut self, owner: Owner, polls: &mut Polls) {
        if !self.polled_to_write {
            self.polled_to_write = true;
            polls.watch(owner, self.fd.as_fd(), Readiness::Writable);
        }
    }

    /// Cancels all polls. Afterwards the descriptor may be closed and its number reused.
    pub(super) fn forget_polls(&mut self, owner: Owner, polls: &mut Polls) {
        if let Some(what) = self.polled_to_read.take() {
            polls.forget(owner, what);
        }
        if std::mem::take(&mut self.polled_to_write) {
            polls.forget(owner, Readiness::Writable);
        }
        polls.submit();
    }

    /// Sends what is unsent, and then the answers that waited for that. `None`: the connection failed; else whether all was
    /// sent.
    pub(super) fn flush_unsent(&mut self) -> Option<bool> {
        let Some(rare) = &mut self.rare else { return Some(true) };
        let empty = rare.unsent.flush(&self.fd)?;
        if !empty {
            return Some(false);
        }
        let mut answers = Vec::new();
        if let Streams::One(stream) = &mut self.streams {
            stream.wire_stream.settle(&mut answers);
        }
        self.append(&answers)?;
        let Some(rare) = &mut self.rare else { return Some(true) };
        rare.unsent.flush(&self.fd)
    }

    /// Appends plain bytes to what is unsent. `None`: the TLS session has ended.
    pub(super) fn append(&mut self, plain: &[u8]) -> Option<()> {
        if plain.is_empty() {
            return Some(());
        }
        let rare = self.rare();
        match &mut rare.tls {
            None => rare.unsent.tail().extend_from_slice(plain),
            Some(session) => session.seal(plain, rare.unsent.tail()).ok()?,
        }
        Some(())
    }

    /// Reads once into `wire`. `None`: the peer disconnected.
    fn read(&mut self, wire: &mut [u8], plain: &mut Vec<u8>, now: Tick) -> Option<ReadNext> {
        let is_stream = self.is_read_by_stream();
        let fd = &self.fd;
        let rare = self.rare.get_or_insert_default();
        // A client that does not read what it was sent gets no answers.
        let busy = !rare.unsent.is_empty();
        let mut state = Ok(State::Open);
        if is_stream && !rare.unread.is_empty() {
            plain.append(&mut rare.unread);
        } else {
            let bytes = match recv(fd, &mut wire[..], RecvFlags::DONTWAIT) {
                Ok((read, _)) if read > 0 => &wire[..read],
                Err(Errno::AGAIN | Errno::INTR) => &[],
                Ok(_) | Err(_) => return None,
            };
            match &mut rare.tls {
                Some(session) => state = session.read(bytes, plain, rare.unsent.tail()),
                None => plain.extend_from_slice(bytes),
            }
        }
        let soon = now.since(rare.read_at) < READ_EVERY;
        rare.read_at = now;
        let mut answers = Vec::new();
        let peer = match &mut self.streams {
            Streams::One(stream) if is_stream => stream.wire_stream.read(plain, busy, &mut answers),
            Streams::None | Streams::One(_) | Streams::Http2(_) => {
                rare.unread.extend_from_slice(plain);
                PeerState::Open
            }
        };
        let sealed = self.append(&answers);
        let over = peer == PeerState::Over || state != Ok(State::Open) || sealed.is_none();
        let flushed = self.flush_unsent()?;
        // After a client has sent as much as is kept, only its hang-up is polled for.
        let again = (soon && self.is_read()).then(|| now.plus(READ_EVERY));
        Some(ReadNext { over, flushed, again })
    }
}
