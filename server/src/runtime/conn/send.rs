//! Offers of the engine: passed to the kernel directly if they are in the wire form, else collected in the outbox.

use std::os::fd::AsRawFd as _;

use revcast_engine::limits::PAGE_BYTES;
use revcast_engine::{Sent, WatcherId};
use rustix::io::Errno;

use super::offer::Offer;
use super::table::Slot;
use super::unsent::{is_full, send_now};
use super::{Conn, Conns, Place, Streams};
use crate::runtime::sys::polls::Owner;
use crate::runtime::sys::sends::Sends;

/// Collected bytes beyond this are passed to the kernel before the end of the turn.
const OUTBOX_BYTES_MAX: usize = 1 << 20;

impl Offer<'_> {
    /// The bytes to send directly to a stream whose wire form is the engine's own.
    fn verbatim<'b>(&'b self, conn: &Conn) -> &'b [u8] {
        match (self, &conn.streams) {
            (Self::Messages(run), _) if conn.rests_within_messages() => run.bytes(),
            // What the kernel does not take of these is copied, so they are limited to a page.
            (Self::Messages(run), _) => &run.bytes()[..run.page(PAGE_BYTES)],
            (Self::Heartbeat, Streams::One(stream)) => stream.wire_stream.heartbeat(),
            (Self::Heartbeat, Streams::None | Streams::Http2(_)) => b"",
        }
    }
}

impl Conns {
    /// The next offers have other bytes: compressed output of earlier ones is not reused.
    pub(in crate::runtime) const fn begin(&mut self) {
        self.compressor.begin();
    }

    /// Offers something to a stream.
    pub(in crate::runtime) fn offer(&mut self, place: Place, to: WatcherId, what: Offer<'_>) -> Sent {
        let slot = place.conn();
        if let Some(key) = place.key() {
            return self.collect_frames(slot, key, to, what);
        }
        let Some(conn) = sole_conn(&mut self.slots, place, to) else { return Sent::Gone };
        if !conn.is_direct() {
            return self.collect(slot, what);
        }
        let bytes = what.verbatim(conn);
        match send_now(&conn.fd, bytes) {
            Some(taken) => self.took(slot, taken, bytes, what),
            None => Sent::Gone,
        }
    }

    /// Offers the same to several streams, with one system call for those whose wire form it is. `place_of` returns where a
    /// watch's stream is.
    pub(in crate::runtime) fn offer_each(
        &mut self,
        to: &[WatcherId],
        what: Offer<'_>,
        place_of: impl Fn(WatcherId) -> Option<Place>,
        answers: &mut Vec<Sent>,
    ) {
        self.begin();
        let (mut fds, mut places) = std::mem::take(&mut self.batch);
        fds.clear();
        places.clear();
        // Chunks only, so the bytes are the same for all.
        let mut verbatim: &[u8] = b"";
        let mut rest = to;
        while let Some((&id, after)) = rest.split_first() {
            let Some(place) = place_of(id) else {
                answers.push(Sent::Gone);
                rest = after;
                continue;
            };
            if let Some(key) = place.key() {
                let served = self.offer_group((place, key), rest, &place_of, what, answers);
                rest = &rest[served..];
                continue;
            }
            rest = after;
            match sole_conn(&mut self.slots, place, id)
                .filter(|conn| conn.is_direct() && conn.rests_within_messages())
            {
                Some(conn) => {
                    fds.push(conn.fd.as_raw_fd());
                    verbatim = what.verbatim(conn);
                    places.push((answers.len(), place.conn()));
                    // Replaced when the outcome is known.
                    answers.push(Sent::Took(0));
                }
                None => answers.push(self.offer(place, id, what)),
            }
        }
        let mut sends = self.sends.take_if(|_| fds.len() > 1);
        let sent = sends.as_mut().map(|sends| sends.send(&fds, |_| verbatim));
        let (outcomes, result) = sent.unwrap_or((&[], Ok(())));
        for (number, &(at, slot)) in places.iter().enumerate() {
            let taken = match outcomes.get(number).copied().flatten() {
                Some(outcome) => taken(outcome),
                // There is no ring, or it failed before.
                None => self.slots[slot as usize].conn.as_ref().and_then(|it| send_now(&it.fd, verbatim)),
            };
            answers[at] = match taken {
                Some(taken) if taken == verbatim.len() => Sent::Took(taken),
                Some(taken) => self.took(slot, taken, verbatim, what),
                None => Sent::Gone,
            };
        }
        if let Some(sends) = sends {
            self.keep(sends, result);
        }
        self.batch = (fds, places);
    }

    /// Ends a stream that is between two messages: the end of its wire form is sent after everything else.
    pub(in crate::runtime) fn end(&mut self, place: Place, to: WatcherId) -> Sent {
        let slot = place.conn();
        if let Some(key) = place.key() {
            return self.end_frames(slot, key, to);
        }
        let Self { slots, outbox, .. } = self;
        let Some(conn) = sole_conn(slots, place, to) else { return Sent::Gone };
        let Streams::One(stream) = &mut conn.streams else { return Sent::Gone };
        let mut last = Vec::new();
        stream.wire_stream.push_end(&mut last);
        let done = if conn.is_full() {
            conn.append(&last)
        } else {
            let session = conn.rare.as_mut().and_then(|rare| rare.tls.as_deref_mut());
            let again = std::mem::replace(&mut conn.is_queued, true);
            outbox.put(slot, &last, session, again).ok()
        };
        done.map_or(Sent::Gone, |()| Sent::Took(last.len()))
    }

    /// Passes what was collected to the kernel, once per connection.
    pub(in crate::runtime) fn flush(&mut self) {
        if self.outbox.is_empty() {
            return;
        }
        self.outbox.gather();
        let mut outbox = std::mem::take(&mut self.outbox);
        let (mut fds, mut places) = std::mem::take(&mut self.batch);
        fds.clear();
        places.clear();
        for at in 0..outbox.pieces() {
            let slot = outbox.piece(at).0;
            let Some(conn) = &mut self.slots[slot as usize].conn else { continue };
            // Frames of all streams go into the same records.
            if let (Streams::Http2(_), Some(rare)) = (&conn.streams, &mut conn.rare)
                && let Some(session) = &mut rare.tls
                && outbox.seal(at, session).is_err()
            {
                conn.is_broken = true;
                self.broken.push(Owner { slot, generation: self.slots[slot as usize].generation });
                continue;
            }
            fds.push(conn.fd.as_raw_fd());
            places.push((at, slot));
        }
        let mut sends = self.sends.take_if(|_| fds.len() > 1);
        let sent = sends.as_mut().map(|sends| sends.send(&fds, |at| outbox.piece(places[at].0).1));
        let (outcomes, result) = sent.unwrap_or((&[], Ok(())));
        for (number, &(at, slot)) in places.iter().enumerate() {
            let bytes = outbox.piece(at).1;
            let taken = match outcomes.get(number).copied().flatten() {
                Some(outcome) => taken(outcome),
                // There is no ring, or it failed before.
                None => self.slots[slot as usize].conn.as_ref().and_then(|conn| send_now(&conn.fd, bytes)),
            };
            self.was_sent(slot, bytes, taken);
        }
        if let Some(sends) = sends {
            self.keep(sends, result);
        }
        self.outbox = outbox;
        self.outbox.clear();
        self.batch = (fds, places);
    }

    /// The ring is used again, unless it failed.
    fn keep(&mut self, sends: Sends, result: std::io::Result<()>) {
        match result {
            Ok(()) => self.sends = Some(sends),
            Err(error) => {
                crate::log::warn(&format!("sends on an io_uring fail, falling back to send(2): {error}"));
            }
        }
    }

    /// Produces the wire form of an offer, to be sent at the end of the turn.
    fn collect(&mut self, slot: u32, what: Offer<'_>) -> Sent {
        let owner = self.owner(slot);
        let Some(conn) = &mut self.slots[slot as usize].conn else { return Sent::Gone };
        if conn.is_full() {
            conn.poll_to_write(owner, &mut self.polls);
            return Sent::Took(0);
        }
        let Conn { streams, rare, is_queued, .. } = conn;
        let Streams::One(stream) = streams else { return Sent::Gone };
        let plain = match what {
            Offer::Messages(run) => {
                debug_assert!(!run.is_begun(), "what was taken of a message was all of it");
                &run.bytes()[..run.page(PAGE_BYTES)]
            }
            Offer::Heartbeat => stream.wire_stream.heartbeat(),
        };
        let wire = stream.wire_stream.encode(&mut self.compressor, plain);
        let session = rare.as_mut().and_then(|rare| rare.tls.as_deref_mut());
        let again = std::mem::replace(is_queued, true);
        if self.outbox.put(slot, wire, session, again).is_err() {
            return Sent::Gone;
        }
        let taken = plain.len();
        if !what.is_all(taken) {
            conn.poll_to_write(owner, &mut self.polls);
        }
        if self.is_outbox_full() {
            self.flush();
        }
        Sent::Took(taken)
    }

    /// Whether as much is collected as is passed on at once.
    pub(super) const fn is_outbox_full(&self) -> bool {
        self.outbox.len() > OUTBOX_BYTES_MAX
    }

    /// The kernel took this many bytes of a direct send.
    fn took(&mut self, slot: u32, taken: usize, bytes: &[u8], what: Offer<'_>) -> Sent {
        let owner = self.owner(slot);
        let Self { slots, polls, .. } = self;
        let Some(conn) = &mut slots[slot as usize].conn else { return Sent::Gone };
        if !what.is_all(taken) {
            conn.poll_to_write(owner, polls);
        }
        if taken == bytes.len() {
            return Sent::Took(taken);
        }
        match what {
            // The engine offers the rest again.
            Offer::Messages(_) if taken == 0 || conn.rests_within_messages() => {
                conn.poll_to_write(owner, polls)
            }
            // A watcher whose socket is full needs no heartbeat.
            Offer::Heartbeat if taken == 0 => {}
            Offer::Messages(_) | Offer::Heartbeat => {
                conn.rare().unsent.tail().extend_from_slice(&bytes[taken..]);
                conn.poll_to_write(owner, polls);
                return Sent::Took(bytes.len());
            }
        }
        Sent::Took(taken)
    }

    /// The kernel took this many of the collected bytes; `None`: the connection failed.
    pub(super) fn was_sent(&mut self, slot: u32, bytes: &[u8], taken: Option<usize>) {
        let owner = self.owner(slot);
        let Self { slots, polls, broken, .. } = self;
        let Some(conn) = &mut slots[slot as usize].conn else { return };
        conn.is_queued = false;
        if let Streams::Http2(http2) = &mut conn.streams {
            http2.was_passed_on();
        }
        match taken {
            Some(taken) if taken == bytes.len() => {}
            Some(taken) => {
                conn.rare().unsent.tail().extend_from_slice(&bytes[taken..]);
                conn.poll_to_write(owner, polls);
            }
            None => {
                conn.is_broken = true;
                broken.push(owner);
            }
        }
    }
}

/// The connection of a watch, if that carries it alone.
#[inline]
fn sole_conn(slots: &mut [Slot], place: Place, id: WatcherId) -> Option<&mut Conn> {
    let conn = slots.get_mut(place.conn() as usize)?.conn.as_mut()?;
    let carries = matches!(&conn.streams, Streams::One(stream) if stream.id == id);
    if conn.is_broken || !carries { None } else { Some(conn) }
}

/// The meaning of the ring's outcome: bytes taken; `None`: the connection failed.
fn taken(outcome: Result<usize, i32>) -> Option<usize> {
    match outcome {
        Ok(taken) => Some(taken),
        Err(error) if is_full(Errno::from_raw_os_error(error)) => Some(0),
        Err(_) => None,
    }
}
