//! Connections that carry watches: each owns its descriptor, its TLS session and its streams.
//!
//! One table per shard. A connection of HTTP/1.1 carries one stream, one of HTTP/2 many ([`http2`]). The output of a turn takes one
//! of three paths. A stream that is alone on its connection, and whose wire form is the engine's own, is offered the shared bytes
//! directly; the engine remembers what the kernel did not take. What four or more streams of one plain HTTP/2 connection are sent alike
//! goes out at once, too (`http2/gather`). All other bytes (compressed, encrypted, of several streams, of ends) are collected in the
//! [`Outbox`] and passed to the kernel once per connection at the end of the turn, or earlier when they are many; what the kernel does
//! not take then is kept by the connection, which accepts no more until it is sent. So a slow client costs a page or a message, however
//! much is pending for it.
//!
//! Never decides what a watch is sent. Of requests it only knows those on streams, as bytes that come in and go out.

mod event;
mod http2;
mod linger;
mod offer;
mod outbox;
#[cfg(test)]
mod over_http2;
#[cfg(test)]
mod over_tls;
mod pages;
mod read_budget;
mod request_stream;
mod send;
mod table;
#[cfg(test)]
mod tests;
pub(super) mod tls;
mod unsent;

use std::num::NonZeroU32;
use std::os::fd::OwnedFd;

use revcast_engine::WatcherId;
use revcast_engine::tick::Tick;
use rustix::io::ioctl_fionbio;

use super::admission::CountGuard;
use super::sys::polls::Readiness;
use crate::wire::http2::StreamKey;
use crate::wire::stream::WireStream;
pub(super) use event::ConnEvent;
use http2::Http2;
pub(super) use http2::{Frames, Http2Timing, NewRequest, Put};
use linger::Linger;
pub(super) use offer::Offer;
use pages::SharedPages;
pub(super) use request_stream::{Piece, RequestStream};
pub(super) use table::Conns;
use tls::TlsSession;
use unsent::Unsent;
pub(super) use unsent::send_now;

/// Plain bytes that a client may send after its request before reading stops; they are kept until the stream ends.
const UNREAD_BYTES_MAX: usize = 16 << 10;

/// A connection on its way between its owners: a task that carries requests, and a shard that carries watches.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) socket: OwnedFd,
    pub(super) tls: TlsSession,
    /// Wire bytes to send before all others.
    pub(super) unsent: Vec<u8>,
    /// Plain bytes that were read and not used yet.
    pub(super) unread: Vec<u8>,
    /// How the connection is counted, if it is.
    pub(super) permit: Option<CountGuard>,
    /// Whether it carries another request when its streams have ended.
    pub(super) keep_alive: bool,
}

/// One watch's part of a connection.
#[derive(Debug)]
struct Stream {
    id: WatcherId,
    wire_stream: WireStream,
}

/// What a connection carries.
#[derive(Debug)]
enum Streams {
    /// Nothing any more.
    None,
    /// A watch.
    One(Stream),
    Http2(Box<Http2>),
}

/// Where a watch's stream is: a connection's slot, and the stream's place in the connection if there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The slot, and one.
    conn: NonZeroU32,
    stream: u32,
}

impl Place {
    const ONLY: u32 = u32::MAX;

    /// Of the only stream of a connection.
    pub(super) const fn alone(conn: u32) -> Self {
        Self { conn: NonZeroU32::MIN.saturating_add(conn), stream: Self::ONLY }
    }

    pub(super) const fn among(conn: u32, key: StreamKey) -> Self {
        Self { stream: key.index(), ..Self::alone(conn) }
    }

    /// The connections one after another, and the streams of each; 0: alone on its connection.
    pub(super) fn order(self) -> u64 {
        if self.stream == Self::ONLY { 0 } else { u64::from(self.conn.get()) << 32 | u64::from(self.stream) }
    }

    /// The connection's slot.
    #[inline]
    pub(super) const fn conn(self) -> u32 {
        self.conn.get() - 1
    }

    #[inline]
    const fn key(self) -> Option<StreamKey> {
        if self.stream == Self::ONLY { None } else { Some(StreamKey::at(self.stream)) }
    }
}

/// One connection.
#[derive(Debug)]
struct Conn {
    fd: OwnedFd,
    /// Empty while it lingers.
    streams: Streams,
    keep_alive: bool,
    /// What is polled for on the read side: readability or a hang-up.
    polled_to_read: Option<Readiness>,
    /// Whether writability is polled for.
    polled_to_write: bool,
    /// Whether the outbox has bytes for it.
    is_queued: bool,
    /// A send failed; its streams are informed in the next turn.
    is_broken: bool,
    /// Whether its socket was told never to block.
    is_nonblocking: bool,
    /// State that most connections do not have.
    rare: Option<Box<Rare>>,
}

/// State that a connection does not need while it has no TLS, nothing unsent or unread, no count by name, and is not read.
#[derive(Debug, Default)]
struct Rare {
    tls: TlsSession,
    unsent: Unsent,
    /// What the client sent after its request, when that belongs to no stream.
    unread: Vec<u8>,
    /// When it was last read.
    read_at: Tick,
    permit: Option<CountGuard>,
    linger: Option<Linger>,
}

impl Rare {
    fn is_spent(&self) -> bool {
        self.tls.is_none()
            && self.unsent.is_empty()
            && self.unread.is_empty()
            && self.permit.is_none()
            && self.linger.is_none()
    }
}

// The memory of an idle watch in this table; `engine/DECISIONS.md` states it.
const _: () = assert!(size_of::<Option<Conn>>() <= 56);

impl Conn {
    fn new(link: Link, streams: Streams) -> Self {
        let Link { socket, tls, unsent, unread, permit, keep_alive } = link;
        let unsent = Unsent::of(unsent);
        let rare = Rare { tls, unsent, unread, read_at: Tick::ZERO, permit, linger: None };
        Self {
            fd: socket,
            streams,
            keep_alive,
            polled_to_read: None,
            polled_to_write: false,
            is_queued: false,
            is_broken: false,
            is_nonblocking: false,
            rare: (!rare.is_spent()).then(|| Box::new(rare)),
        }
    }

    fn into_link(self) -> Link {
        let Rare { tls, unsent, unread, permit, .. } = self.rare.map_or_else(Rare::default, |rare| *rare);
        let (unsent, keep_alive) = (unsent.into_bytes(), self.keep_alive);
        Link { socket: self.fd, tls, unsent, unread, permit, keep_alive }
    }

    /// Sends bytes that the shared pages have. Returns how many the kernel took; `None`: the connection failed.
    fn send_shared(&mut self, bytes: &[u8], pages: &mut SharedPages) -> Option<usize> {
        // `sendfile` has no flag for it.
        if !self.is_nonblocking && ioctl_fionbio(&self.fd, true).is_err() {
            return send_now(&self.fd, bytes);
        }
        self.is_nonblocking = true;
        pages.send(&self.fd, bytes)
    }

    /// The rare state, created if there is none.
    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    fn drop_spent(&mut self) {
        // The time of the last read is kept: it limits how often a client is read.
        if !self.is_read_by_stream() {
            self.rare.take_if(|rare| rare.is_spent());
        }
    }

    /// Whether bytes are unsent because the kernel did not take them.
    #[inline]
    fn is_full(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| !rare.unsent.is_empty())
    }

    /// Whether the engine's bytes may be passed to the kernel unchanged now.
    #[inline]
    fn is_direct(&self) -> bool {
        !self.is_queued
            && matches!(&self.streams, Streams::One(stream) if stream.wire_stream.is_verbatim())
            && self.rare.as_ref().is_none_or(|rare| rare.tls.is_none() && rare.unsent.is_empty())
    }

    /// Whether the engine keeps the position within a message that was sent in part.
    #[inline]
    fn rests_within_messages(&self) -> bool {
        matches!(&self.streams, Streams::One(stream) if stream.wire_stream.rests_within_messages())
    }

    /// Whether what the client sends is read; otherwise only a hang-up is polled for.
    fn is_read(&self) -> bool {
        let is_http2 = matches!(self.streams, Streams::Http2(_));
        let Some(rare) = &self.rare else { return is_http2 || self.is_read_by_stream() };
        rare.linger.is_some()
            || self.is_read_by_stream()
            || is_http2
            || (rare.tls.is_some() && rare.unread.len() < UNREAD_BYTES_MAX)
    }

    /// Whether its one stream is bidirectional.
    fn is_read_by_stream(&self) -> bool {
        matches!(&self.streams, Streams::One(stream) if stream.wire_stream.reads())
    }
}
