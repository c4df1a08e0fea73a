//! What a task does on its stream of a connection of HTTP/2, between turns.

use std::net::SocketAddr;

use revcast_engine::tick::Tick;
use rustix::net::getpeername;

use super::Carried;
use crate::runtime::conn::{Conns, Place};
use crate::runtime::sys::polls::Owner;
use crate::wire::http2::{ErrorCode, StreamKey};

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

impl Conns {
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
            let (unread, _) = stream.take_rest();
            http2.wire.consume(key, unread.len());
        }
        http2.idle_since = now;
        self.after_task(owner);
    }

    /// The address of a connection's peer.
    pub(in crate::runtime) fn peer(&mut self, owner: Owner) -> Option<SocketAddr> {
        let address = getpeername(&self.at(owner)?.fd).ok()??;
        address.try_into().ok()
    }

    /// The same for a stream's connection.
    pub(in crate::runtime) fn peer_at(&mut self, place: Place) -> Option<SocketAddr> {
        self.peer(self.owner(place.conn()))
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
    pub(super) fn after_task(&mut self, owner: Owner) {
        let Some(http2) = self.at(owner).and_then(|conn| conn.http2()) else { return };
        if http2.wire.refuses_new() && http2.wire.open_streams() == 0 {
            self.read_soon(owner);
        } else if http2.wire.has_control() {
            self.pass_on(owner, &mut Vec::new());
        }
    }
}
