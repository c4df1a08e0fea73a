//! What stands between the engine's frames and a socket whose bytes are not plain HTTP chunks.
//!
//! The engine knows chunks only; a socket with a [`Wrap`] has another form on the wire: WebSocket frames or a gzip
//! stream, and below them, or below the chunks themselves, TLS. The contract:
//!
//! - A wrap takes whole frames or nothing, so that its watcher always stands between two frames: a page of them at most
//!   (it ends with the frame that fills it). It makes their wire form and keeps, in its tail, what the kernel does not take; while a
//!   tail is left it takes nothing. So a slow client costs one page or one frame, whatever else it is owed.
//! - What is the same for everybody is made once: [`Tools`] keep the wire form of what was offered last, for all
//!   members of a class. A wrap has no compressor and no page of its own.
//! - TLS is made for each socket anew, from what all share, in one buffer of the shard.
//! - A wrap that hears is read, and answers between two frames.
//! - The last chunk becomes the wire form's own end. The connection carries no other request behind it, unless only TLS is
//!   different from plain chunks.

mod gzip;
mod websocket;

use std::os::fd::{AsFd, OwnedFd};

use revcast_engine::limits::PAGE_BYTES;
use revcast_engine::tick::Tick;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::super::serve::Wire;
use super::session::Stand;
use super::transport::Keys;

/// Bytes of a client that are read at once.
pub(super) const READ_BYTES: usize = 16 << 10;
/// What a client may say behind its request before it is not read any more: plain bytes, kept for when the stream is over.
const KEPT_BYTES: usize = 16 << 10;

/// What the wire form of frames may have more than the frames: heads, ends, an answer or two.
const TAIL_SLACK: usize = 16 << 10;

/// One frame of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame<'a> {
    /// A chunk, and what is in it.
    Payload(&'a [u8]),
    /// The last chunk.
    End,
}

/// The frame that `bytes` begin with, and its length; `None`: they begin with no whole frame.
fn first_frame(bytes: &[u8]) -> Option<(Frame<'_>, usize)> {
    let digits = bytes.iter().take(16).take_while(|b| b.is_ascii_hexdigit()).count();
    let size = std::str::from_utf8(&bytes[..digits]).ok()?;
    let size = usize::from_str_radix(size, 16).ok()?;
    let start = digits + 2;
    let end = start.checked_add(size)?;
    let payload = bytes.get(start..end)?;
    if &bytes[digits..start] != b"\r\n" || bytes.get(end..end + 2)? != b"\r\n" {
        return None;
    }
    Some((if size == 0 { Frame::End } else { Frame::Payload(payload) }, end + 2))
}

/// Calls `visit` for the frames at the head of `bytes` that a wrap takes at once: a page, which ends with the frame that
/// fills it. How many bytes they are; 0: there is no whole frame.
fn each_frame<'a>(bytes: &'a [u8], mut visit: impl FnMut(Frame<'a>)) -> usize {
    let mut taken = 0;
    while taken < PAGE_BYTES
        && let Some((frame, len)) = first_frame(&bytes[taken..])
    {
        visit(frame);
        taken += len;
    }
    taken
}

/// What all wraps of a shard share: buffers, the compressor, and the wire form of what was offered last.
#[derive(Debug, Default)]
pub(super) struct Tools {
    websocket: websocket::Made,
    gzip: gzip::Press,
    chunks: Whole,
    /// Records: as long as any so far. What is behind those of now is of others.
    wire: Vec<u8>,
    heard: Vec<u8>,
}

/// How many bytes of plain chunks are taken at once. 0: that was not counted yet.
#[derive(Debug, Default)]
struct Whole(usize);

impl Whole {
    fn take<'a>(&mut self, frames: &'a [u8]) -> (usize, &'a [u8]) {
        if self.0 == 0 {
            self.0 = each_frame(frames, |_| {});
        }
        (self.0, &frames[..self.0])
    }
}

impl Tools {
    /// What follows is about other bytes than before.
    pub(super) fn begin(&mut self) {
        self.websocket.clear();
        self.gzip.clear();
        self.chunks.0 = 0;
    }
}

/// The wire form of one socket, and where it stands in it.
#[derive(Debug)]
pub(super) struct Wrap {
    coding: Coding,
    tls: Keys,
    tail: Tail,
    /// What the client said behind its request, when it is read and this is not its place.
    kept: Vec<u8>,
    /// When its client was last listened to.
    pub(super) heard: Tick,
}

#[derive(Debug)]
enum Coding {
    /// As the engine makes them: what is different is TLS.
    Chunks,
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

/// How a client goes on that was listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hearing {
    GoesOn,
    /// It said goodbye, or what no client may say; the answer to that is in the tail.
    Over,
}

/// What became of frames that were offered to a wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrapped {
    /// So many bytes of them were taken; whether a tail is left.
    Took(usize, bool),
    /// The connection broke.
    Gone,
}

impl Wrap {
    /// The wrap of a watch that begins; `None`: its bytes go out as they are.
    pub(super) fn new(wire: &Wire, tls: Keys) -> Option<Box<Self>> {
        let coding = match wire {
            Wire::Chunked if tls.is_none() => return None,
            Wire::Chunked => Coding::Chunks,
            Wire::WebSocket(_) => Coding::WebSocket(websocket::Peer::default()),
            Wire::Gzip => Coding::Gzip(gzip::Stream::default()),
        };
        Some(Box::new(Self { coding, tls, tail: Tail::default(), kept: Vec::new(), heard: Tick::ZERO }))
    }

    /// Takes frames for `to`.
    pub(super) fn offer(&mut self, tools: &mut Tools, bytes: &[u8], to: &OwnedFd) -> Wrapped {
        if !self.tail.is_empty() {
            return Wrapped::Took(0, true);
        }
        let (taken, wire) = match &mut self.coding {
            Coding::Chunks => tools.chunks.take(bytes),
            Coding::WebSocket(_) => tools.websocket.make(bytes),
            Coding::Gzip(stream) => stream.make(&mut tools.gzip, bytes),
        };
        debug_assert!(taken > 0, "the engine offers whole frames to who stands between two");
        if taken == 0 {
            return Wrapped::Gone;
        }
        let wire = match &mut self.tls {
            None => wire,
            Some(session) => match session.seal_at(wire, &mut tools.wire, 0) {
                Ok(end) => &tools.wire[..end],
                Err(_) => return Wrapped::Gone,
            },
        };
        match send_now(to, wire) {
            Some(sent) => {
                self.tail.keep(&wire[sent..], taken);
                Wrapped::Took(taken, !self.tail.is_empty())
            }
            None => Wrapped::Gone,
        }
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
    pub(super) fn hear(&mut self, tools: &mut Tools, said: Said<'_>) -> Hearing {
        // Who does not read what it was sent is not answered.
        let busy = !self.tail.is_empty();
        let mut heard = Ok(Stand::Open);
        let plain = match (said, &mut self.tls) {
            (Said::OnWire(bytes), Some(session)) => {
                tools.heard.clear();
                heard = session.hear(bytes, &mut tools.heard, &mut self.tail.bytes);
                &tools.heard
            }
            (Said::OnWire(bytes), None) | (Said::Plain(bytes), _) => bytes,
        };
        let mut hearing = Hearing::GoesOn;
        if let Coding::WebSocket(peer) = &mut self.coding {
            let mut answer = Vec::new();
            hearing = peer.hear(plain, busy, &mut answer);
            if self.answer(&answer).is_none() {
                return Hearing::Over;
            }
        } else {
            self.kept.extend_from_slice(plain);
        }
        if heard == Ok(Stand::Open) { hearing } else { Hearing::Over }
    }

    /// What must still be sent when its watch is over and nothing follows.
    pub(super) fn into_tail(mut self) -> Tail {
        if let Some(session) = &mut self.tls {
            session.close(&mut self.tail.bytes);
        }
        self.tail
    }

    /// What the next request needs: the keys, wire bytes that go first, and what the client said already.
    pub(super) fn into_parts(self) -> (Keys, Vec<u8>, Vec<u8>) {
        let Tail { mut bytes, sent } = self.tail;
        bytes.drain(..sent);
        (self.tls, bytes, self.kept)
    }
}

/// Bytes of the wire form that the kernel did not take yet. They end where a frame of the wire ends.
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

    /// Keeps what was not sent of the wire form of `of` bytes of frames.
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

/// The bytes that stand before the first frame, behind the head of the reply.
pub(super) fn opening(wire: &Wire) -> &'static [u8] {
    match wire {
        Wire::Chunked | Wire::WebSocket(_) => b"",
        Wire::Gzip => gzip::OPENING,
    }
}

/// A reply over a WebSocket that is one stream of frames and its end.
pub(super) fn as_websocket(frames: &[u8]) -> Vec<u8> {
    let mut made = websocket::Made::default();
    made.make(frames).1.to_vec()
}

#[cfg(test)]
mod sealed;

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    use revcast_engine::frame;

    use super::*;

    fn chunk(payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        crate::http::response::push_chunk(&mut out, payload);
        out
    }

    #[test]
    fn frames_are_found_whole() {
        let mut bytes = chunk(b"abc\n");
        bytes.extend_from_slice(&chunk(&[b'x'; 300]));
        bytes.extend_from_slice(frame::END);
        let mut seen = Vec::new();
        assert_eq!(each_frame(&bytes, |frame| seen.push(frame)), bytes.len());
        assert_eq!(seen, [Frame::Payload(b"abc\n"), Frame::Payload(&[b'x'; 300]), Frame::End]);
        // The engine's own frames are such.
        let mut error = Vec::new();
        frame::error(&mut error, b"{}");
        assert!(matches!(first_frame(&error), Some((Frame::Payload(_), len)) if len == error.len()));
        for part in 0..error.len() {
            assert_eq!(first_frame(&error[..part]), None, "cut at {part}");
        }
        for wrong in
            [&b""[..], b"\r\n", b"3\r\nabcd\n", b"3\nabc\r\n", b"x\r\nabc\r\n", b"ffffffffffffffff\r\na\r\n"]
        {
            assert_eq!(first_frame(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_wrap_takes_a_page_or_one_frame() {
        let small = chunk(&[b'x'; 30_000]);
        let five = [&small[..]; 5].concat();
        assert_eq!(each_frame(&five, |_| {}), 3 * small.len(), "as the engine's pages end");
        let large = chunk(&vec![b'x'; 1 << 20]);
        assert_eq!(each_frame(&[&large[..], &small].concat(), |_| {}), large.len());
        assert_eq!(each_frame(&[&small[..], &large, &small].concat(), |_| {}), small.len() + large.len());
    }

    /// What is not read stays in the tail, bounded, and comes out in order.
    #[test]
    fn a_socket_that_is_full_keeps_a_tail_and_takes_nothing() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
        let ours = OwnedFd::from(ours);
        let mut wrap = Wrap::new(&Wire::Gzip, None).expect("a wrap");
        let mut tools = Tools::default();
        // Noise: deflate cannot make it smaller.
        let noise = gzip::tests::noise(1 << 20);
        let frame = chunk(&noise);
        let mut taken = 0;
        let mut expected = Vec::new();
        loop {
            tools.begin();
            match wrap.offer(&mut tools, &frame, &ours) {
                Wrapped::Took(0, true) => break,
                Wrapped::Took(bytes, _) => {
                    assert_eq!(bytes, frame.len(), "all or nothing");
                    expected.extend_from_slice(&noise);
                    taken += 1;
                }
                Wrapped::Gone => panic!("the peer is there"),
            }
            assert!(taken < 100, "a socket that nobody reads gets full");
        }
        assert!(wrap.tail.bytes.len() <= frame.len() + frame.len() / 7 + TAIL_SLACK);
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).map(|_| all)
        });
        while !wrap.flush(&ours).expect("the peer is there") {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        tools.begin();
        assert_eq!(wrap.offer(&mut tools, frame::END, &ours), Wrapped::Took(frame::END.len(), false));
        drop(ours);
        let wire = reader.join().expect("the reader").expect("all of it");
        let stream = [gzip::OPENING, &wire].concat();
        assert!(gzip::tests::unzipped(&stream) == expected, "what comes out is what went in");
    }
}
