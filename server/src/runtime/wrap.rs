//! What stands between the engine's messages and a socket whose bytes are more than those messages in their framing.
//!
//! A socket with a [`Wrap`] has a state of its own on the wire: a gzip stream, a WebSocket's answers, TLS below either or below
//! plain chunks, or a few bytes that did not fit. The contract:
//!
//! - A wrap takes whole messages or nothing, so that its watcher always stands between two messages: a page of them at most
//!   (it ends with the message that fills it). It makes their wire form and keeps, in its tail, what the kernel does not take;
//!   while a tail is left it takes nothing. So a slow client costs one page or one message, whatever else it is owed.
//! - What is the same for everybody is made once: the engine makes messages in their framing, and [`SharedBuffers`] keep the
//!   compressed form of what was offered last, for all members of a class. A wrap has no compressor and no page of its own.
//! - TLS is made for each socket anew, from what all share, in one buffer of the shard.
//! - A wrap whose client is read answers between two messages.
//! - The stream's end becomes the wire form's own end. The connection carries no other request behind it, unless only TLS is
//!   different from plain chunks.

use std::os::fd::{AsFd, OwnedFd};

use revcast_engine::Run;
use revcast_engine::limits::PAGE_BYTES;
use revcast_engine::tick::Tick;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::super::serve::Wire;
use super::session::Stand;
use super::transport::TlsSession;
use crate::wire::websocket::Reading;
use crate::wire::{gzip, http1, websocket};

/// Bytes of a client that are read at once.
pub(super) const READ_BYTES: usize = 16 << 10;
/// What a client may say behind its request before it is not read any more: plain bytes, kept for when the stream is over.
const KEPT_BYTES: usize = 16 << 10;

/// What the wire form of messages may have more than the messages: heads, ends, an answer or two.
const TAIL_SLACK: usize = 16 << 10;

/// What all wraps of a shard share: buffers, and the compressed form of what was offered last.
#[derive(Debug, Default)]
pub(super) struct SharedBuffers {
    gzip: gzip::Compressor,
    /// Records: as long as any so far. What is behind those of now is of others.
    records: Vec<u8>,
    plain: Vec<u8>,
}

impl SharedBuffers {
    /// What follows is about other bytes than before.
    pub(super) const fn begin(&mut self) {
        self.gzip.begin();
    }
}

/// The wire form of one socket, and where it stands in it.
#[derive(Debug)]
pub(super) struct Wrap {
    coding: Coding,
    tls: TlsSession,
    tail: Tail,
    /// What the client said behind its request, when it is read and this is not its place.
    kept: Vec<u8>,
    /// When its client was last listened to.
    pub(super) heard: Tick,
}

#[derive(Debug)]
enum Coding {
    /// As the engine makes them: what is different is TLS, or that there is a tail.
    Chunks,
    /// The same, and its client is read.
    WebSocket(websocket::Peer),
    Gzip(gzip::Stream),
}

/// What a client said.
#[derive(Clone, Copy, Debug)]
pub(super) enum Said<'a> {
    /// As it came from the socket.
    OnWire(&'a [u8]),
    /// Read with its request, and plain already.
    Plain(&'a [u8]),
}

/// What became of messages that were offered to a wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrapped {
    /// So many bytes of them were taken; whether a tail is left.
    Took(usize, bool),
    /// The connection broke.
    Gone,
}

impl Wrap {
    /// The wrap of a watch that begins; `None`: its bytes go out as they are.
    pub(super) fn new(wire: &Wire, tls: TlsSession) -> Option<Box<Self>> {
        let coding = match wire {
            Wire::Chunked if tls.is_none() => return None,
            Wire::Chunked => Coding::Chunks,
            Wire::WebSocket(_) => Coding::WebSocket(websocket::Peer::default()),
            Wire::Gzip => Coding::Gzip(gzip::Stream::default()),
        };
        Some(Box::new(Self { coding, tls, tail: Tail::default(), kept: Vec::new(), heard: Tick::ZERO }))
    }

    /// The wrap of a plain connection that did not take all of what the engine does not send again.
    pub(super) fn of_tail(rest: &[u8]) -> Box<Self> {
        let tail = Tail { bytes: rest.to_vec(), sent: 0 };
        Box::new(Self { coding: Coding::Chunks, tls: None, tail, kept: Vec::new(), heard: Tick::ZERO })
    }

    /// Whether it is one that nothing is left of: bytes go out as they are again.
    pub(super) const fn is_spent(&self) -> bool {
        matches!(self.coding, Coding::Chunks)
            && self.tls.is_none()
            && self.tail.is_empty()
            && self.kept.is_empty()
    }

    /// Takes messages for `to`.
    pub(super) fn offer(&mut self, shared: &mut SharedBuffers, run: Run<'_>, to: &OwnedFd) -> Wrapped {
        debug_assert!(!run.is_begun(), "what was taken of a message was all of it");
        if !self.tail.is_empty() {
            return Wrapped::Took(0, true);
        }
        let taken = run.page(PAGE_BYTES);
        self.put(shared, &run.bytes()[..taken], to)
    }

    /// Takes a sign of life for `to`. How many bytes of the wire, and whether a tail is left; none while one is left.
    pub(super) fn heartbeat(&mut self, shared: &mut SharedBuffers, to: &OwnedFd) -> Wrapped {
        if !self.tail.is_empty() {
            return Wrapped::Took(0, true);
        }
        let sign = match self.coding {
            Coding::Chunks => http1::HEARTBEAT,
            Coding::WebSocket(_) => websocket::HEARTBEAT,
            // White space, as in a chunk.
            Coding::Gzip(_) => b" ",
        };
        self.put(shared, sign, to)
    }

    /// Makes the wire form of bytes, sends what the kernel takes and keeps the rest.
    fn put(&mut self, shared: &mut SharedBuffers, bytes: &[u8], to: &OwnedFd) -> Wrapped {
        let wire = match &mut self.coding {
            Coding::Chunks | Coding::WebSocket(_) => bytes,
            Coding::Gzip(stream) => stream.make(&mut shared.gzip, bytes),
        };
        let wire = match &mut self.tls {
            None => wire,
            Some(session) => match session.seal_at(wire, &mut shared.records, 0) {
                Ok(end) => &shared.records[..end],
                Err(_) => return Wrapped::Gone,
            },
        };
        match send_now(to, wire) {
            Some(sent) => {
                self.tail.keep(&wire[sent..], bytes.len());
                Wrapped::Took(bytes.len(), !self.tail.is_empty())
            }
            None => Wrapped::Gone,
        }
    }

    /// Ends the stream: its last bytes go out behind the tail. How many of them; `None`: the connection broke.
    pub(super) fn end(&mut self, to: &OwnedFd) -> Option<usize> {
        let mut last = Vec::new();
        match &self.coding {
            Coding::Chunks => last.extend_from_slice(http1::LAST_CHUNK),
            Coding::WebSocket(_) => websocket::push_end(&mut last),
            Coding::Gzip(stream) => stream.push_end(&mut last),
        }
        self.answer(&last)?;
        self.tail.flush(to)?;
        Some(last.len())
    }

    /// Sends what is left of the tail. `None`: the connection broke; else whether all of it went.
    pub(super) fn flush(&mut self, to: &OwnedFd) -> Option<bool> {
        let mut empty = self.tail.flush(to)?;
        if empty && let Coding::WebSocket(peer) = &mut self.coding {
            let mut pong = Vec::new();
            peer.settle(&mut pong);
            self.answer(&pong)?;
            empty = self.tail.flush(to)?;
        }
        Some(empty)
    }

    /// Puts an answer into the tail. `None`: the connection broke.
    fn answer(&mut self, plain: &[u8]) -> Option<()> {
        match &mut self.tls {
            None => self.tail.bytes.extend_from_slice(plain),
            Some(session) => session.seal(plain, &mut self.tail.bytes).ok()?,
        }
        Some(())
    }

    /// Whether its client is read.
    pub(super) fn hears(&self) -> bool {
        matches!(self.coding, Coding::WebSocket(_)) || (self.tls.is_some() && self.kept.len() < KEPT_BYTES)
    }

    /// Whether the connection can carry another request when the watch is over.
    pub(super) const fn goes_on(&self) -> bool {
        matches!(self.coding, Coding::Chunks)
    }

    /// What the client sent. What is to be answered waits in the tail: flush it.
    pub(super) fn read(&mut self, shared: &mut SharedBuffers, said: Said<'_>) -> Reading {
        // Who does not read what it was sent is not answered.
        let busy = !self.tail.is_empty();
        let mut heard = Ok(Stand::Open);
        let plain = match (said, &mut self.tls) {
            (Said::OnWire(bytes), Some(session)) => {
                shared.plain.clear();
                heard = session.hear(bytes, &mut shared.plain, &mut self.tail.bytes);
                &shared.plain
            }
            (Said::OnWire(bytes), None) | (Said::Plain(bytes), _) => bytes,
        };
        let mut reading = Reading::Open;
        if let Coding::WebSocket(peer) = &mut self.coding {
            let mut answer = Vec::new();
            reading = peer.read(plain, busy, &mut answer);
            if self.answer(&answer).is_none() {
                return Reading::Over;
            }
        } else {
            self.kept.extend_from_slice(plain);
        }
        if heard == Ok(Stand::Open) { reading } else { Reading::Over }
    }

    /// What must still be sent when its watch is over and nothing follows.
    pub(super) fn into_tail(mut self) -> Tail {
        if let Some(session) = &mut self.tls {
            session.close(&mut self.tail.bytes);
        }
        self.tail
    }

    /// What the next request needs: the keys, wire bytes that go first, and what the client said already.
    pub(super) fn into_parts(self) -> (TlsSession, Vec<u8>, Vec<u8>) {
        let Tail { mut bytes, sent } = self.tail;
        bytes.drain(..sent);
        (self.tls, bytes, self.kept)
    }
}

/// Bytes of the wire form that the kernel did not take yet. They end where a message ends.
#[derive(Debug, Default)]
pub(super) struct Tail {
    bytes: Vec<u8>,
    sent: usize,
}

impl Tail {
    #[cfg(test)]
    pub(super) const fn of(bytes: Vec<u8>) -> Self {
        Self { bytes, sent: 0 }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Keeps what was not sent of the wire form of `of` bytes of messages.
    fn keep(&mut self, rest: &[u8], of: usize) {
        debug_assert!(self.is_empty(), "nothing is taken while a tail is left");
        // Deflate at level 1 writes rare bytes in 9 bits.
        debug_assert!(rest.len() <= of + of / 7 + TAIL_SLACK, "{} bytes of wire for {of}", rest.len());
        if !rest.is_empty() {
            self.bytes = rest.to_vec();
        }
    }

    /// Sends what the kernel takes. `None`: the connection broke; else whether nothing is left.
    pub(super) fn flush(&mut self, to: &OwnedFd) -> Option<bool> {
        if self.sent < self.bytes.len() {
            self.sent += send_now(to, &self.bytes[self.sent..])?;
        }
        let empty = self.sent == self.bytes.len();
        if empty {
            // Whoever is not behind keeps no buffer.
            *self = Self::default();
        }
        Some(empty)
    }
}

/// Sends without waiting: how many bytes the kernel took. `None`: the connection broke.
pub(super) fn send_now(to: impl AsFd, bytes: &[u8]) -> Option<usize> {
    loop {
        match send(&to, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(taken) => return Some(taken),
            Err(Errno::INTR) => {}
            Err(error) if is_full(error) => return Some(0),
            Err(_) => return None,
        }
    }
}

/// Whether a socket that gives this error may take bytes later.
pub(super) fn is_full(error: Errno) -> bool {
    matches!(error, Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM)
}

#[cfg(test)]
mod sealed;

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// What is not read stays in the tail, bounded, and comes out in order.
    #[test]
    fn a_socket_that_is_full_keeps_a_tail_and_takes_nothing() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
        let ours = OwnedFd::from(ours);
        let mut wrap = Wrap::new(&Wire::Gzip, None).expect("a wrap");
        let mut shared = SharedBuffers::default();
        // Noise: deflate cannot make it smaller.
        let noise = gzip::tests::noise(1 << 20);
        let run = Run::new(&noise, &[1 << 20], 0);
        let mut taken = 0;
        let mut expected = Vec::new();
        loop {
            shared.begin();
            match wrap.offer(&mut shared, run, &ours) {
                Wrapped::Took(0, true) => break,
                Wrapped::Took(bytes, _) => {
                    assert_eq!(bytes, noise.len(), "all or nothing");
                    expected.extend_from_slice(&noise);
                    taken += 1;
                }
                Wrapped::Gone => panic!("the peer is there"),
            }
            assert!(taken < 100, "a socket that nobody reads gets full");
        }
        assert_eq!(wrap.heartbeat(&mut shared, &ours), Wrapped::Took(0, true), "nor a sign of life");
        assert!(wrap.tail.bytes.len() <= noise.len() + noise.len() / 7 + TAIL_SLACK);
        // The end goes out behind what is left.
        assert!(wrap.end(&ours).is_some_and(|bytes| bytes > 10) && !wrap.tail.is_empty());
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).map(|_| all)
        });
        while !wrap.flush(&ours).expect("the peer is there") {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        drop(ours);
        let wire = reader.join().expect("the reader").expect("all of it");
        let stream = [gzip::OPENING, &wire].concat();
        assert!(gzip::tests::unzipped(&stream) == expected, "what comes out is what went in");
    }

    /// What a plain connection did not take of a sign of life goes out before anything else.
    #[test]
    fn the_rest_of_a_sign_of_life_goes_first() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
        let ours = OwnedFd::from(ours);
        let mut wrap = Wrap::of_tail(&http1::HEARTBEAT[2..]);
        let mut shared = SharedBuffers::default();
        let run = Run::new(b"1\r\nx\r\n", &[6], 0);
        assert!(!wrap.is_spent() && wrap.goes_on() && !wrap.hears());
        assert_eq!(wrap.offer(&mut shared, run, &ours), Wrapped::Took(0, true));
        assert_eq!(wrap.flush(&ours), Some(true));
        assert!(wrap.is_spent());
        assert_eq!(wrap.offer(&mut shared, run, &ours), Wrapped::Took(6, false));
        assert_eq!(wrap.end(&ours), Some(5));
        drop((wrap, ours));
        let mut all = Vec::new();
        theirs.read_to_end(&mut all).expect("all of it");
        assert_eq!(all, b"\n \r\n1\r\nx\r\n0\r\n\r\n");
    }
}
