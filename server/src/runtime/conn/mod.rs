//! Connections that carry watches: each owns its descriptor, its TLS session and its streams.
//!
//! One table for one shard. What a turn sends goes out in two ways. A stream that is alone on its connection, and whose wire
//! form is the engine's own, is offered the shared bytes at once; the engine remembers what the kernel did not take. All other
//! bytes (compressed, sealed, of several streams, of ends and heartbeats) are collected in the [`Outbox`] and handed to the
//! kernel once for each connection, when the turn is over; what the kernel does not take then is kept by the connection, which
//! takes nothing more until it is gone. So a slow client costs a page or a message, whatever else it is owed.
//!
//! Never decides what a watch is sent, and knows no request.

mod linger;
mod outbox;
#[cfg(test)]
mod over_tls;
mod send;
mod table;
#[cfg(test)]
mod tests;
pub(super) mod tls;
mod unsent;

use std::os::fd::OwnedFd;

use revcast_engine::WatcherId;
use revcast_engine::tick::Tick;

use super::admission::CountGuard;
use super::sys::polls::Readiness;
use crate::wire::coding::Coding;
use linger::Linger;
pub(super) use send::Offer;
pub(super) use table::{ConnEvent, Conns};
use tls::TlsSession;
use unsent::Unsent;
#[cfg(test)]
pub(super) use unsent::send_now;

/// What a client may send after its request before it is not read any more: plain bytes, kept for when the stream is over.
const UNREAD_BYTES_MAX: usize = 16 << 10;

/// A connection on its way between its owners: a task that carries requests, and a shard that carries watches.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) socket: OwnedFd,
    pub(super) tls: TlsSession,
    /// Wire bytes that go out before all others.
    pub(super) unsent: Vec<u8>,
    /// Plain bytes that were read and not used yet.
    pub(super) unread: Vec<u8>,
    /// How the connection is counted, if it is.
    pub(super) permit: Option<CountGuard>,
    /// Whether it carries another request when its streams are over.
    pub(super) keep_alive: bool,
}

/// One watch's part of a connection.
#[derive(Debug)]
struct Stream {
    id: WatcherId,
    coding: Coding,
}

/// The streams of one connection: mostly one.
#[derive(Debug)]
enum Streams {
    One(Stream),
    Several(Vec<Stream>),
}

impl Streams {
    const NONE: Self = Self::Several(Vec::new());

    fn as_slice(&self) -> &[Stream] {
        match self {
            Self::One(stream) => std::slice::from_ref(stream),
            Self::Several(streams) => streams,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [Stream] {
        match self {
            Self::One(stream) => std::slice::from_mut(stream),
            Self::Several(streams) => streams,
        }
    }

    #[inline]
    fn find(&mut self, id: WatcherId) -> Option<&mut Stream> {
        self.as_mut_slice().iter_mut().find(|stream| stream.id == id)
    }

    fn push(&mut self, stream: Stream) {
        *self = match std::mem::replace(self, Self::NONE) {
            Self::Several(streams) if streams.is_empty() => Self::One(stream),
            Self::Several(mut streams) => {
                streams.push(stream);
                Self::Several(streams)
            }
            Self::One(first) => Self::Several(vec![first, stream]),
        };
    }

    fn remove(&mut self, id: WatcherId) -> Option<Stream> {
        match std::mem::replace(self, Self::NONE) {
            Self::One(stream) if stream.id == id => Some(stream),
            Self::One(stream) => {
                *self = Self::One(stream);
                None
            }
            Self::Several(mut streams) => {
                let at = streams.iter().position(|stream| stream.id == id);
                let removed = at.map(|at| streams.swap_remove(at));
                *self = match streams.len() {
                    1 => streams.pop().map_or(Self::NONE, Self::One),
                    _ => Self::Several(streams),
                };
                removed
            }
        }
    }
}

/// One connection.
#[derive(Debug)]
struct Conn {
    fd: OwnedFd,
    /// None are left while it lingers.
    streams: Streams,
    keep_alive: bool,
    /// Whether something to read, or the peer hanging up, is polled for.
    polled_to_read: Option<Readiness>,
    /// Whether room is polled for.
    polled_to_write: bool,
    /// Whether bytes of it are in the outbox.
    is_queued: bool,
    /// A send failed: its streams are told at the next look.
    is_broken: bool,
    /// What most connections have nothing of.
    rare: Option<Box<Rare>>,
}

/// What of a connection is not there while bytes go out as they are, all of them, and it is not counted by name.
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

// What an idle watch costs here; `engine/DECISIONS.md` says so.
const _: () = assert!(size_of::<Option<Conn>>() <= 56);

impl Conn {
    fn new(link: Link) -> Self {
        let Link { socket, tls, unsent, unread, permit, keep_alive } = link;
        let unsent = Unsent::of(unsent);
        let rare = Rare { tls, unsent, unread, read_at: Tick::ZERO, permit, linger: None };
        Self {
            fd: socket,
            streams: Streams::NONE,
            keep_alive,
            polled_to_read: None,
            polled_to_write: false,
            is_queued: false,
            is_broken: false,
            rare: (!rare.is_spent()).then(|| Box::new(rare)),
        }
    }

    fn into_link(self) -> Link {
        let Rare { tls, unsent, unread, permit, .. } = self.rare.map_or_else(Rare::default, |rare| *rare);
        let (unsent, keep_alive) = (unsent.into_bytes(), self.keep_alive);
        Link { socket: self.fd, tls, unsent, unread, permit, keep_alive }
    }

    /// What it has beside its descriptor, made if there was nothing.
    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    fn drop_spent(&mut self) {
        // When a client was last read is kept: that bounds how often it is.
        if !self.is_read_by_stream() {
            self.rare.take_if(|rare| rare.is_spent());
        }
    }

    /// Whether bytes wait that the kernel did not take.
    #[inline]
    fn is_full(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| !rare.unsent.is_empty())
    }

    /// Whether the engine's bytes may go to the kernel as they are, now.
    #[inline]
    fn is_direct(&self) -> bool {
        !self.is_queued
            && matches!(&self.streams, Streams::One(stream) if stream.coding.is_verbatim())
            && self.rare.as_ref().is_none_or(|rare| rare.tls.is_none() && rare.unsent.is_empty())
    }

    /// Whether the engine remembers what of a message the kernel did not take.
    #[inline]
    fn rests_within_messages(&self) -> bool {
        matches!(&self.streams, Streams::One(stream) if stream.coding.rests_within_messages())
    }

    /// Whether what the client sends is read; otherwise only its hanging up is waited for.
    fn is_read(&self) -> bool {
        let Some(rare) = &self.rare else { return self.is_read_by_stream() };
        rare.linger.is_some()
            || self.is_read_by_stream()
            || (rare.tls.is_some() && rare.unread.len() < UNREAD_BYTES_MAX)
    }

    /// Whether its one stream has two directions.
    fn is_read_by_stream(&self) -> bool {
        matches!(&self.streams, Streams::One(stream) if stream.coding.reads())
    }
}
