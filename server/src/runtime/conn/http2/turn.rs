//! What a turn does on connections of HTTP/2: it reads them, and collects what their streams send.

use std::time::{Duration, Instant};

use revcast_engine::limits::PAGE_BYTES;
use revcast_engine::tick::Tick;
use revcast_engine::{Sent, WatcherId};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::{Arrivals, Carried, Http2, Watch};
use crate::runtime::conn::event::ConnEvent;
use crate::runtime::conn::offer::Offer;
use crate::runtime::conn::tls::State;
use crate::runtime::conn::{Conn, Conns, Streams};
use crate::runtime::sys::polls::Owner;
use crate::wire::http2::{Connection, StreamKey};
use crate::wire::stream::WireStream;

/// Bytes of a client's frames that are taken at once while the watches have work: up to forty requests.
const TAKEN_AT_ONCE: usize = 1 << 10;
/// Bytes of one connection that are collected in a turn before they go to the kernel.
const QUEUED_BYTES_MAX: usize = 256 << 10;

impl Conns {
    /// Offers something to a watch's stream, to be sent at the end of the turn.
    pub(in crate::runtime::conn) fn collect_frames(
        &mut self,
        slot: u32,
        key: StreamKey,
        to: WatcherId,
        what: Offer<'_>,
    ) -> Sent {
        let owner = self.owner(slot);
        let Self { slots, outbox, polls, compressor, http2: table, .. } = self;
        let Some(conn) = slots.get_mut(slot as usize).and_then(|slot| slot.conn.as_mut()) else {
            return Sent::Gone;
        };
        let (is_full, again) = (conn.is_full(), conn.is_queued);
        let Streams::Http2(http2) = &mut conn.streams else { return Sent::Gone };
        let Http2 { wire, queued, .. } = &mut **http2;
        let Some(Carried::Watch(watch)) = wire.carried_mut(key).filter(|_| !conn.is_broken) else {
            return Sent::Gone;
        };
        if watch.id != to {
            return Sent::Gone;
        }
        let before = outbox.len();
        let (is_bare, has_rest) = (matches!(watch.wire_stream, WireStream::Bare), !watch.rest.is_empty());
        let space = watch.wire_stream.heartbeat();
        let (taken, is_all) = match what {
            _ if is_full || has_rest => (0, false),
            // The engine keeps the position in a message, so there may be a part of one.
            Offer::Messages(run) if is_bare => {
                let pushed = outbox.put_with(slot, again, |out| wire.push_data(key, run.bytes(), false, out));
                (pushed.bytes, pushed.is_all)
            }
            Offer::Messages(run) if wire.room(key) > 0 => {
                let page = &run.bytes()[..run.page(PAGE_BYTES)];
                // The stream's own form is made apart from the connection.
                let Some(Carried::Watch(watch)) = wire.carried_mut(key) else { return Sent::Gone };
                let mut wire_stream = std::mem::replace(&mut watch.wire_stream, WireStream::Bare);
                let coded = wire_stream.encode(compressor, page);
                let pushed = outbox.put_with(slot, again, |out| wire.push_data(key, coded, false, out));
                if let Some(Carried::Watch(watch)) = wire.carried_mut(key) {
                    watch.rest.extend_from_slice(&coded[pushed.bytes..]);
                    watch.wire_stream = wire_stream;
                }
                (page.len(), what.is_all(page.len()))
            }
            Offer::Messages(_) => {
                wire.want_room(key);
                (0, false)
            }
            Offer::Heartbeat => {
                // Nobody waits to send a space.
                if table.timing.ping_after.is_none() && wire.room(key) >= space.len() {
                    outbox.put_with(slot, again, |out| wire.push_data(key, space, false, out));
                }
                (0, true)
            }
        };
        let put = outbox.len() - before;
        *queued += put;
        let is_over = *queued > QUEUED_BYTES_MAX;
        if !is_all {
            let has_room = wire.room(key) > 0;
            if let Some(Carried::Watch(watch)) = wire.carried_mut(key) {
                watch.is_blocked = true;
            }
            // If it is not the windows that are lacking, it is the socket, or there is more to take at once.
            if is_full || has_room {
                conn.poll_to_write(owner, polls);
            }
        }
        conn.is_queued |= put > 0;
        if is_over || self.is_outbox_full() {
            self.flush();
        }
        Sent::Took(taken)
    }

    /// Ends a watch's stream after everything that it was sent.
    pub(in crate::runtime::conn) fn end_frames(&mut self, slot: u32, key: StreamKey, to: WatcherId) -> Sent {
        let Self { slots, outbox, .. } = self;
        let Some(conn) = slots.get_mut(slot as usize).and_then(|slot| slot.conn.as_mut()) else {
            return Sent::Gone;
        };
        let (is_full, again) = (conn.is_full(), conn.is_queued);
        let Streams::Http2(http2) = &mut conn.streams else { return Sent::Gone };
        let Http2 { wire, queued, .. } = &mut **http2;
        let Some(Carried::Watch(watch)) = wire.carried_mut(key).filter(|_| !conn.is_broken) else {
            return Sent::Gone;
        };
        if watch.id != to {
            return Sent::Gone;
        }
        watch.wire_stream.push_end(&mut watch.rest);
        let mut rest = std::mem::take(&mut watch.rest);
        let len = rest.len();
        if !is_full {
            let before = outbox.len();
            let pushed = outbox.put_with(slot, again, |out| wire.push_data(key, &rest, true, out));
            rest.drain(..pushed.bytes);
            *queued += outbox.len() - before;
            conn.is_queued |= outbox.len() > before;
        }
        // What is left goes out when there is room.
        if let Some(Carried::Watch(watch)) = wire.carried_mut(key) {
            watch.rest = rest;
        }
        Sent::Took(len)
    }

    /// Reads what a peer sent.
    pub(in crate::runtime::conn) fn read_http2(
        &mut self,
        owner: Owner,
        now: Tick,
        news: &mut Vec<(WatcherId, ConnEvent)>,
    ) {
        let (mut wire, mut plain) = self.take_scratch();
        let read = self.at(owner).map(|conn| conn.read_plain(&mut wire, &mut plain));
        match read {
            Some(Some(state)) => {
                // What a closed connection brought last is all taken.
                let most = if state == State::Open { self.read_budget.left() } else { Duration::MAX };
                self.take_frames(owner, &plain, most, now, news);
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

    /// Lets the connection take what a peer sent, in about the time that it may take. The rest is kept for the next turn.
    fn take_frames(
        &mut self,
        owner: Owner,
        bytes: &[u8],
        most: Duration,
        now: Tick,
        news: &mut Vec<(WatcherId, ConnEvent)>,
    ) {
        let began = Instant::now();
        let piece = if most == Duration::MAX { bytes.len().max(1) } else { TAKEN_AT_ONCE };
        let mut taken = 0;
        for piece in bytes.chunks(piece) {
            taken += piece.len();
            let ready = self.receive(owner, now, news, |wire, arrivals| wire.receive(piece, now, arrivals));
            self.send_ready(owner, &ready, news);
            if began.elapsed() >= most {
                break;
            }
        }
        if taken < bytes.len()
            && let Some(conn) = self.at(owner)
        {
            conn.rare().unread.extend_from_slice(&bytes[taken..]);
            // Before others, so that one connection at most keeps what it brought.
            self.read_next(owner);
        }
    }

    /// Lets the connection take what a peer sent. Returns the streams that have something to send.
    pub(super) fn receive(
        &mut self,
        owner: Owner,
        now: Tick,
        news: &mut Vec<(WatcherId, ConnEvent)>,
        take: impl FnOnce(&mut Connection<Carried>, &mut Arrivals<'_>),
    ) -> Vec<StreamKey> {
        let Self { slots, http2: table, .. } = self;
        let Some(conn) = &mut slots[owner.slot as usize].conn else { return Vec::new() };
        let is_busy = conn.is_full();
        let Streams::Http2(http2) = &mut conn.streams else { return Vec::new() };
        let Http2 { wire, client, .. } = &mut **http2;
        let requests = &mut table.requests;
        let mut arrivals =
            Arrivals { owner, client, requests, news, ready: Vec::new(), used: Vec::new(), is_busy, now };
        take(wire, &mut arrivals);
        let Arrivals { ready, used, .. } = arrivals;
        for (key, bytes) in used {
            wire.consume(key, bytes);
        }
        let counts = wire.take_counts();
        if let Some(why) = counts.why {
            crate::log::debug(|| format!("a stream of an HTTP/2 connection was reset: {why}"));
        }
        table.counts.reset_by_peer += counts.reset_by_peer;
        table.counts.reset += counts.reset;
        table.counts.refused += counts.refused;
        table.counts.too_large += counts.too_large;
        ready
    }

    /// Sends what these streams have to send, and tells the engine of those that have room then.
    pub(super) fn send_ready(
        &mut self,
        owner: Owner,
        ready: &[StreamKey],
        news: &mut Vec<(WatcherId, ConnEvent)>,
    ) {
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
                    watch.wire_stream.settle(&mut watch.rest);
                    (std::mem::take(&mut watch.rest), false)
                }
                Some(Carried::Ending(rest, _)) => (std::mem::take(rest), true),
                Some(Carried::Request(_)) | None => continue,
            };
            let pushed = if rest.is_empty() && !ends {
                None
            } else {
                let again = conn.is_queued;
                let pushed = outbox.put_with(owner.slot, again, |out| wire.push_data(key, &rest, ends, out));
                conn.is_queued |= outbox.len() > before;
                Some(pushed)
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
    pub(super) fn go_on(&mut self, owner: Owner, now: Tick, news: &mut Vec<(WatcherId, ConnEvent)>) {
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
            self.http2.faults.push(ended.0.code);
            crate::log::debug(|| format!("an HTTP/2 connection ended: {ended}"));
        }
        match appended {
            Some(()) => self.linger(owner, now, false),
            None => self.close(owner),
        }
    }

    /// What was unsent of a connection is sent: its streams may send again.
    pub(in crate::runtime::conn) fn http2_is_writable(
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
}

impl Conn {
    /// Reads once. `None`: the peer disconnected, or broke TLS.
    fn read_plain(&mut self, wire: &mut [u8], plain: &mut Vec<u8>) -> Option<State> {
        let fd = &self.fd;
        let rare = self.rare.get_or_insert_default();
        if !rare.unread.is_empty() {
            plain.append(&mut std::mem::take(&mut rare.unread));
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
