//! The sockets of one shard's watches: where the engine's bytes go.
//!
//! Owns each watch's descriptor and what is polled of it. A delivery is one non-blocking send, of which those of one run go
//! to the kernel together ([`sends`](super::sends)) where it can do that; a socket that is full is polled for room, and every socket is polled for a peer that hangs up. Bytes that a client sends behind its
//! request wait in the kernel until the stream is over, unless its wire form has two directions ([`wrap`](super::wrap)).

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd, RawFd};
use std::time::Duration;

use revcast_engine::tick::Tick;
use revcast_engine::{Outlet, Run, Sent, WatcherId};
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{RecvFlags, recv};

use super::admission::{CountGuard, WatchPermit};
use super::lingering::Lingering;
use super::sends::Sends;
use super::transport::TlsSession;
use super::uring::{Owner, Polls, Readiness};
use super::wrap::{READ_BYTES, Said, SharedBuffers, Wrap, Wrapped, is_full, send_now};
use crate::wire::http1;
use crate::wire::websocket::Reading;

/// Clients that are listened to in one go; the others wait for the next.
const LISTENS_AT_ONCE: usize = 64;
/// Between two readings of one client: who talks without end is heard so often, and no more.
const LISTEN_EVERY: Duration = Duration::from_millis(50);

/// Not a place in a batch: whoever had it was told.
const TOLD: usize = usize::MAX;

/// The socket of one watch.
#[derive(Debug)]
struct Socket {
    id: WatcherId,
    fd: OwnedFd,
    leftover: Option<Box<[u8]>>,
    /// The form of its bytes on the wire, when that is not plain chunks.
    wrap: Option<Box<Wrap>>,
    /// How it is counted by name, if it is.
    watch_permit: Option<Box<WatchPermit>>,
    keep_alive: bool,
    /// Whether the peer hanging up, or talking, is polled for.
    hearing: bool,
    /// Whether room is polled for.
    waiting: bool,
}

// What an idle watch costs here; `engine/DECISIONS.md` says so.
const _: () = assert!(size_of::<Option<Socket>>() <= 48);

impl Socket {
    /// What is polled for while nothing is to be sent.
    fn ear(&self) -> Readiness {
        if self.wrap.as_ref().is_some_and(|wrap| wrap.hears()) {
            Readiness::Readable
        } else {
            Readiness::Gone
        }
    }

    fn hear(&mut self, polls: &mut Polls) {
        if !self.hearing {
            self.hearing = true;
            polls.watch(Owner::watch(self.id), self.fd.as_fd(), self.ear());
        }
    }

    fn wait(&mut self, polls: &mut Polls) {
        if !self.waiting {
            self.waiting = true;
            polls.watch(Owner::watch(self.id), self.fd.as_fd(), Readiness::Writable);
        }
    }

    /// Takes back everything that is polled for. Behind this the descriptor may be closed and its number be used again.
    fn forget(&mut self, polls: &mut Polls) {
        if std::mem::take(&mut self.hearing) {
            polls.forget(Owner::watch(self.id), self.ear());
        }
        if std::mem::take(&mut self.waiting) {
            polls.forget(Owner::watch(self.id), Readiness::Writable);
        }
        polls.submit();
    }
}

/// What is told of a watch's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketEvent {
    /// The peer is gone or said goodbye: the socket is not the watch's any more.
    Gone {
        /// It took nothing, or acknowledged nothing, for so long that the kernel gave it up.
        stalled: bool,
    },
    /// There is room for bytes again.
    Writable,
}

/// What a watch leaves behind.
#[derive(Debug)]
pub(super) struct ReclaimedConn {
    pub(super) socket: OwnedFd,
    pub(super) keys: TlsSession,
    /// Bytes of the wire that it did not take yet.
    pub(super) owed: Vec<u8>,
    /// What its client sent behind its request.
    pub(super) leftover: Vec<u8>,
    pub(super) ticket: Option<CountGuard>,
}

/// What a watch begins with.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) fd: OwnedFd,
    /// What its client sent behind the request.
    pub(super) leftover: Vec<u8>,
    pub(super) keep_alive: bool,
    pub(super) wrap: Option<Box<Wrap>>,
    pub(super) watch_permit: Option<Box<WatchPermit>>,
}

/// Sockets by the slots of their watches.
#[derive(Debug)]
pub(super) struct Sockets {
    by_slot: Vec<Option<Socket>>,
    polls: Polls,
    /// `None`: one system call for each delivery.
    sends: Option<Sends>,
    leaving: Lingering,
    shared: SharedBuffers,
    /// Clients that are listened to again at a time, soonest first.
    resting: VecDeque<(Tick, WatcherId)>,
    /// Sockets that are not here any more, since that was last asked.
    gone: usize,
    /// Reused.
    told: Vec<(Owner, Readiness, bool)>,
    /// Reused.
    scrap: Vec<u8>,
    /// The sockets of one batch, and whose answers they are: places in what the engine is told. Reused.
    batch: (Vec<RawFd>, Vec<usize>),
}

impl Sockets {
    pub(super) fn new(polls: Polls, sends: Option<Sends>) -> Self {
        Self {
            by_slot: Vec::new(),
            polls,
            sends,
            leaving: Lingering::default(),
            shared: SharedBuffers::default(),
            resting: VecDeque::new(),
            gone: 0,
            told: Vec::new(),
            scrap: Vec::new(),
            batch: Default::default(),
        }
    }

    /// Closes the socket of every watch. Those on their way out go on.
    pub(super) fn close(&mut self) {
        for socket in self.by_slot.iter_mut().filter_map(Option::take) {
            let mut socket = socket;
            socket.forget(&mut self.polls);
            self.gone += 1;
        }
        self.resting.clear();
    }

    /// Goes on with another ring. No watch has a socket here now: see [`Sockets::close`].
    pub(super) fn renew(&mut self, polls: Polls) {
        debug_assert!(self.by_slot.iter().all(Option::is_none), "polls of the old ring are lost");
        self.polls = polls;
        self.leaving.poll_anew(&mut self.polls);
    }

    /// Takes the socket of a watch that begins.
    pub(super) fn insert(&mut self, id: WatcherId, arrived: Arrived) {
        let Arrived { fd, leftover, keep_alive, wrap, watch_permit } = arrived;
        if self.by_slot.len() <= id.slot() {
            self.by_slot.resize_with(id.slot() + 1, || None);
        }
        let leftover = (!leftover.is_empty()).then(|| leftover.into_boxed_slice());
        let keep_alive = keep_alive && wrap.as_ref().is_none_or(|wrap| wrap.goes_on());
        let mut socket =
            Socket { id, fd, leftover, wrap, watch_permit, keep_alive, hearing: false, waiting: false };
        if socket.ear() == Readiness::Readable && socket.leftover.is_some() {
            self.resting.push_front((Tick::ZERO, id));
        } else {
            socket.hear(&mut self.polls);
        }
        self.by_slot[id.slot()] = Some(socket);
    }

    /// Takes leave of the socket of a watch that is over. `clean`: its last frame was taken. What comes back is polled for
    /// nothing and can carry another request.
    pub(super) fn part(&mut self, id: WatcherId, clean: bool, now: Tick) -> Option<ReclaimedConn> {
        let mut socket = self.by_slot.get_mut(id.slot())?.take_if(|socket| socket.id == id)?;
        socket.forget(&mut self.polls);
        // The watch is over; its connection counts until the socket is closed.
        let ticket = socket.watch_permit.and_then(|watch_permit| watch_permit.connection);
        match socket.wrap {
            Some(wrap) if clean && !socket.keep_alive => {
                self.gone += self.leaving.take(socket.fd, wrap.into_tail(), ticket, now, &mut self.polls);
                None
            }
            wrap => {
                self.gone += 1;
                let leftover = socket.leftover.map_or_else(Vec::new, <[u8]>::into_vec);
                let (keys, owed, kept) = wrap.map(|wrap| wrap.into_parts()).unwrap_or_default();
                let leftover = if kept.is_empty() { leftover } else { [kept, leftover].concat() };
                let remains = ReclaimedConn { socket: socket.fd, keys, owed, leftover, ticket };
                (clean && socket.keep_alive).then_some(remains)
            }
        }
    }

    /// How many sockets have gone since the last time: closed, or given back.
    pub(super) const fn take_gone(&mut self) -> usize {
        std::mem::replace(&mut self.gone, 0)
    }

    /// Calls `visit` with what sockets told since the last time, and does what the clock asks for.
    pub(super) fn reap(&mut self, now: Tick, mut visit: impl FnMut(WatcherId, SocketEvent)) {
        let mut listens = 0;
        let mut told = std::mem::take(&mut self.told);
        self.polls.reap(|owner, what, good| told.push((owner, what, good)));
        for (owner, what, good) in told.drain(..) {
            match owner {
                Owner::LingeringSocket(ticket) => {
                    self.gone += self.leaving.told(ticket, what, now, &mut self.polls);
                }
                Owner::Watch(slot, _) => {
                    let Some(Some(socket)) = self.by_slot.get_mut(slot) else { continue };
                    if Owner::watch(socket.id) != owner {
                        continue;
                    }
                    let id = socket.id;
                    match what {
                        Readiness::Gone | Readiness::Readable => socket.hearing = false,
                        Readiness::Writable => socket.waiting = false,
                    }
                    match what {
                        // A poll for room that failed is answered by another try; one for hanging up by the next send.
                        Readiness::Gone if !good => {}
                        Readiness::Gone => self.lose(id, &mut visit),
                        Readiness::Readable if listens >= LISTENS_AT_ONCE => {
                            self.resting.push_front((Tick::ZERO, id));
                        }
                        Readiness::Readable => {
                            listens += 1;
                            self.listen(id, now, &mut visit);
                        }
                        Readiness::Writable => self.flush(id, &mut visit),
                    }
                }
            }
        }
        self.told = told;
        while let Some(&(due, id)) = self.resting.front()
            && due <= now
            && listens < LISTENS_AT_ONCE
        {
            listens += 1;
            self.resting.pop_front();
            self.listen(id, now, &mut visit);
        }
        self.gone += self.leaving.tend(now, &mut self.polls);
    }

    fn at(&mut self, id: WatcherId) -> Option<&mut Socket> {
        self.by_slot.get_mut(id.slot())?.as_mut().filter(|socket| socket.id == id)
    }

    /// The peer is gone.
    fn lose(&mut self, id: WatcherId, visit: &mut impl FnMut(WatcherId, SocketEvent)) {
        let Some(slot) = self.by_slot.get_mut(id.slot()) else { return };
        if let Some(mut socket) = slot.take_if(|socket| socket.id == id) {
            socket.forget(&mut self.polls);
            self.gone += 1;
            let stalled = matches!(socket_error(&socket.fd), Ok(Err(Errno::TIMEDOUT)));
            visit(id, SocketEvent::Gone { stalled });
        }
    }

    /// There is room: first for what a wrap still has to send, then for the engine.
    fn flush(&mut self, id: WatcherId, visit: &mut impl FnMut(WatcherId, SocketEvent)) {
        let Some(Some(socket)) = self.by_slot.get_mut(id.slot()) else { return };
        match socket.wrap.as_mut().map_or(Some(true), |wrap| wrap.flush(&socket.fd)) {
            Some(true) => {
                socket.wrap.take_if(|wrap| wrap.is_spent());
                visit(id, SocketEvent::Writable);
            }
            Some(false) => socket.wait(&mut self.polls),
            None => self.lose(id, visit),
        }
    }

    /// Reads what a wrapped client said.
    fn listen(&mut self, id: WatcherId, now: Tick, visit: &mut impl FnMut(WatcherId, SocketEvent)) {
        let mut scrap = std::mem::take(&mut self.scrap);
        scrap.resize(READ_BYTES, 0);
        self.hear_from(id, &mut scrap, now, visit);
        self.scrap = scrap;
    }

    fn hear_from(
        &mut self,
        id: WatcherId,
        scrap: &mut [u8],
        now: Tick,
        visit: &mut impl FnMut(WatcherId, SocketEvent),
    ) {
        let Some(Some(socket)) = self.by_slot.get_mut(id.slot()) else { return };
        if socket.id != id {
            return;
        }
        let Some(wrap) = &mut socket.wrap else { return };
        let leftover = socket.leftover.take();
        let said = match &leftover {
            Some(leftover) => Said::Plain(leftover),
            None => match recv(&socket.fd, &mut scrap[..], RecvFlags::DONTWAIT) {
                Ok((read, _)) if read > 0 => Said::OnWire(&scrap[..read]),
                Err(Errno::AGAIN | Errno::INTR) => Said::OnWire(&[]),
                Ok(_) | Err(_) => return self.lose(id, visit),
            },
        };
        let reading = wrap.read(&mut self.shared, said);
        let flushed = wrap.flush(&socket.fd);
        // Who has said as much as is kept is only heard hanging up.
        let soon = wrap.hears() && now.since(wrap.heard) < LISTEN_EVERY;
        wrap.heard = now;
        match (flushed, reading) {
            (None, _) => self.lose(id, visit),
            (Some(_), Reading::Over) => {
                // The answer goes out behind whatever frame is under way, and then the connection ends.
                if let Some(socket) = self.at(id) {
                    socket.keep_alive = false;
                }
                let _ = self.part(id, true, now);
                visit(id, SocketEvent::Gone { stalled: false });
            }
            (Some(empty), Reading::Open) => {
                let Some(Some(socket)) = self.by_slot.get_mut(id.slot()) else { return };
                if !empty {
                    socket.wait(&mut self.polls);
                }
                if soon {
                    self.resting.push_back((now.plus(LISTEN_EVERY), id));
                } else {
                    socket.hear(&mut self.polls);
                }
            }
        }
    }

    /// Hands what is polled for to the kernel.
    pub(super) fn submit(&mut self) {
        self.polls.submit();
    }

    /// Bytes that the table of sockets takes.
    pub(super) const fn bytes(&self) -> usize {
        size_of::<Option<Socket>>() * self.by_slot.capacity()
    }

    /// Whether a socket told something that was not reaped, or not heard out.
    pub(super) fn told(&mut self) -> bool {
        self.due() == Some(Tick::ZERO) || self.polls.told()
    }

    /// When a client is to be listened to again.
    pub(super) fn due(&self) -> Option<Tick> {
        self.resting.front().map(|(due, _)| *due)
    }

    /// Offers something to one watcher; what is compressed in the shared buffers is of the same bytes.
    fn offer(&mut self, to: WatcherId, what: Offered<'_>) -> Sent {
        let Some(Some(socket)) = self.by_slot.get_mut(to.slot()) else { return Sent::Gone };
        if socket.id != to {
            return Sent::Gone;
        }
        let wrapped = match (&mut socket.wrap, what) {
            (None, _) => {
                return match send_now(&socket.fd, what.plain()) {
                    Some(taken) => socket.took(taken, what, &mut self.polls),
                    None => Sent::Gone,
                };
            }
            (Some(wrap), Offered::Messages(run)) => wrap.offer(&mut self.shared, run, &socket.fd),
            (Some(wrap), Offered::Heartbeat) => wrap.heartbeat(&mut self.shared, &socket.fd),
        };
        match wrapped {
            Wrapped::Took(taken, tail) => {
                if tail || taken < what.len() {
                    socket.wait(&mut self.polls);
                }
                Sent::Took(taken)
            }
            Wrapped::Gone => Sent::Gone,
        }
    }

    /// Offers the same to several, with one visit to the kernel for those whose wire form it is.
    fn offer_together(&mut self, to: &[WatcherId], what: Offered<'_>, answers: &mut Vec<Sent>) {
        let (mut fds, mut places) = std::mem::take(&mut self.batch);
        fds.clear();
        places.clear();
        let mut sends = self.sends.take();
        for &id in to {
            match self.by_slot.get(id.slot()) {
                Some(Some(socket)) if socket.id == id && socket.wrap.is_none() => {
                    fds.push(socket.fd.as_raw_fd());
                    places.push(answers.len());
                    // What stands if the ring breaks before it comes to this one.
                    answers.push(Sent::Took(0));
                }
                _ => answers.push(self.offer(id, what)),
            }
        }
        let first = answers.len() - to.len();
        let bytes = what.plain();
        let done = sends.as_mut().map_or(Ok(()), |ring| {
            ring.send(&fds, bytes, |at, outcome| {
                let place = std::mem::replace(&mut places[at], TOLD);
                let taken = match outcome {
                    Ok(taken) => taken,
                    Err(error) if is_full(Errno::from_raw_os_error(error)) => 0,
                    Err(_) => {
                        answers[place] = Sent::Gone;
                        return;
                    }
                };
                answers[place] = match self.by_slot.get_mut(to[place - first].slot()) {
                    Some(Some(socket)) if taken < bytes.len() => socket.took(taken, what, &mut self.polls),
                    _ => Sent::Took(taken),
                };
            })
        });
        match done {
            Ok(()) => self.sends = sends,
            Err(error) => {
                crate::log::warn(&format!("sends on an io_uring fail, going on with send(2): {error}"));
                for place in places.iter().copied().filter(|place| *place != TOLD) {
                    answers[place] = self.offer(to[place - first], what);
                }
            }
        }
        self.batch = (fds, places);
    }

    fn offer_each(&mut self, to: &[WatcherId], what: Offered<'_>, sent: &mut Vec<Sent>) {
        self.shared.begin();
        if self.sends.is_some() && to.len() > 1 {
            self.offer_together(to, what, sent);
        } else {
            sent.extend(to.iter().map(|id| self.offer(*id, what)));
        }
    }
}

/// What is offered to sockets.
#[derive(Clone, Copy, Debug)]
enum Offered<'a> {
    Messages(Run<'a>),
    Heartbeat,
}

impl<'a> Offered<'a> {
    /// What goes to a socket whose bytes are plain chunks.
    fn plain(self) -> &'a [u8] {
        match self {
            Self::Messages(run) => run.bytes(),
            Self::Heartbeat => http1::HEARTBEAT,
        }
    }

    /// How many bytes of it a socket may take before it is full.
    fn len(self) -> usize {
        match self {
            Self::Messages(run) => run.bytes().len(),
            // A wrap takes it whole, or none of it and is full.
            Self::Heartbeat => 1,
        }
    }
}

impl Socket {
    /// The kernel took so much of what goes out plain.
    fn took(&mut self, taken: usize, what: Offered<'_>, polls: &mut Polls) -> Sent {
        let all = what.plain();
        match what {
            Offered::Messages(_) if taken < all.len() => self.wait(polls),
            // Of a sign of life the engine sends nothing again.
            Offered::Heartbeat if taken > 0 && taken < all.len() => {
                self.wrap = Some(Wrap::of_tail(&all[taken..]));
                self.wait(polls);
            }
            Offered::Messages(_) | Offered::Heartbeat => {}
        }
        Sent::Took(taken)
    }
}

impl Outlet for Sockets {
    fn send(&mut self, to: WatcherId, run: Run<'_>) -> Sent {
        self.shared.begin();
        self.offer(to, Offered::Messages(run))
    }

    fn send_each(&mut self, to: &[WatcherId], run: Run<'_>, sent: &mut Vec<Sent>) {
        self.offer_each(to, Offered::Messages(run), sent);
    }

    fn heartbeat(&mut self, to: &[WatcherId], sent: &mut Vec<Sent>) {
        self.offer_each(to, Offered::Heartbeat, sent);
    }

    fn end(&mut self, to: WatcherId) -> Sent {
        let Some(Some(socket)) = self.by_slot.get_mut(to.slot()) else { return Sent::Gone };
        if socket.id != to {
            return Sent::Gone;
        }
        let wrap = socket.wrap.get_or_insert_with(|| Wrap::of_tail(b""));
        let ended = wrap.end(&socket.fd);
        socket.wrap.take_if(|wrap| wrap.is_spent());
        ended.map_or(Sent::Gone, Sent::Took)
    }
}

#[cfg(test)]
mod tests;
