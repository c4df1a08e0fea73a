//! The same message for many streams of one connection: one system call, and one copy for all connections.

use revcast_engine::{Sent, WatcherId};

use super::{Carried, Http2};
use crate::runtime::conn::offer::Offer;
use crate::runtime::conn::pages::SharedPages;
use crate::runtime::conn::unsent::send_now;
use crate::runtime::conn::{Conn, Conns, Place, Streams};
use crate::wire::http2::{Connection, FRAME_HEAD_BYTES, StreamKey, push_data_head, set_stream};

/// From so many streams on a system call of their own is worth it.
const STREAMS_MIN: usize = 4;
/// Bytes of one system call: they stay in the CPU's caches while one connection after another is sent them.
const GATHERED_BYTES_MAX: usize = 128 << 10;
/// From so many bytes on shared pages are less work than a copy.
const SHARED_BYTES_MIN: usize = 16 << 10;
/// Bytes that went to so many connections are worth pages of their own, which cost as much as so many copies.
const COPIES_MAX: u32 = 3;

/// What is offered to several streams of a connection.
#[derive(Debug, Default)]
pub(in crate::runtime::conn) struct Gathered {
    frames: SharedFrames,
    /// The streams to which an offer is made.
    keys: Vec<StreamKey>,
}

/// Frames with the same message, which differ in their streams.
#[derive(Debug, Default)]
struct SharedFrames {
    bytes: Vec<u8>,
    /// Of one frame.
    size: usize,
    /// The stream of each frame in `bytes`; 0: none yet.
    named: Vec<u32>,
    /// The streams that take it.
    streams: Vec<u32>,
    /// How many connections were sent copies of `bytes` as they are.
    copies: u32,
    /// How many of `bytes`, from the first on, are in the shared pages.
    shared: usize,
}

impl SharedFrames {
    /// Makes frames with `message`, one for each of the streams. Returns their bytes: so many of the first ones.
    fn make(&mut self, message: &[u8]) -> usize {
        let size = FRAME_HEAD_BYTES + message.len();
        let len = size * self.streams.len();
        // A turn after another offers the same.
        if self.size != size || self.bytes.get(FRAME_HEAD_BYTES..size) != Some(message) {
            self.bytes.clear();
            self.named.clear();
            self.size = size;
            (self.copies, self.shared) = (0, 0);
        }
        while self.bytes.len() < len {
            push_data_head(&mut self.bytes, message.len());
            self.bytes.extend_from_slice(message);
            self.named.push(0);
        }
        // Clients open streams alike: the frames of one connection name mostly those of the next.
        let frames = self.bytes.chunks_exact_mut(size).zip(&mut self.named);
        let mut has_changed = false;
        for ((frame, named), &stream) in frames.zip(&self.streams) {
            if *named != stream {
                *named = stream;
                set_stream(frame, stream);
                has_changed = true;
            }
        }
        if has_changed {
            (self.copies, self.shared) = (0, 0);
        }
        len
    }

    /// Sends the first `len` bytes. Returns how many the kernel took; `None`: the connection failed.
    fn send(&mut self, to: &mut Conn, len: usize, pages: &mut SharedPages) -> Option<usize> {
        let bytes = &self.bytes[..len];
        if len < SHARED_BYTES_MIN {
            return send_now(&to.fd, bytes);
        }
        if len > self.shared {
            if self.copies < COPIES_MAX {
                self.copies += 1;
                return send_now(&to.fd, bytes);
            }
            // After a failure some more are copied before the next attempt.
            (self.copies, self.shared) = (0, if pages.put(&self.bytes) { self.bytes.len() } else { 0 });
        }
        if len <= self.shared { to.send_shared(bytes, pages) } else { send_now(&to.fd, bytes) }
    }
}

impl Conns {
    /// Offers the same to the first watches of `to`, as far as they are on the connection of the first, which is at `place`.
    /// Returns how many these are.
    pub(in crate::runtime::conn) fn offer_group(
        &mut self,
        (place, first_key): (Place, StreamKey),
        to: &[WatcherId],
        place_of: impl Fn(WatcherId) -> Option<Place>,
        what: Offer<'_>,
        answers: &mut Vec<Sent>,
    ) -> usize {
        let slot = place.conn();
        let mut gathered = std::mem::take(&mut self.gathered);
        if let Offer::Messages(run) = what {
            let most = (GATHERED_BYTES_MAX / (FRAME_HEAD_BYTES + run.bytes().len())).max(1);
            let row = self.row(slot, first_key, to, &place_of).min(most);
            if row >= STREAMS_MIN
                && self.gather(slot, run.bytes(), &mut gathered.frames, |wire, len, streams| {
                    wire.begin_row(len, first_key, row, streams);
                })
            {
                answers.resize(answers.len() + row, Sent::Took(run.bytes().len()));
                self.gathered = gathered;
                return row;
            }
        }
        gathered.keys.clear();
        let wire = self.http2_at(slot).map(|http2| &http2.wire);
        // Watches of a connection come mostly in the order of their streams.
        let mut next = first_key;
        gathered.keys.extend(to.iter().map_while(|&id| {
            let key = if wire.is_some_and(|wire| wire.is_sender(next, id.bits())) {
                next
            } else {
                place_of(id).filter(|other| other.conn() == slot)?.key()?
            };
            next = key.next();
            Some(key)
        }));
        let to = &to[..gathered.keys.len()];
        let first = answers.len();
        if let (Offer::Messages(run), STREAMS_MIN..) = (what, to.len()) {
            let most = (GATHERED_BYTES_MAX / (FRAME_HEAD_BYTES + run.bytes().len())).max(1);
            for (to, keys) in to.chunks(most).zip(gathered.keys.chunks(most)) {
                let senders = to.iter().map(|id| id.bits());
                let end = answers.len() + to.len();
                self.gather(slot, run.bytes(), &mut gathered.frames, |wire, len, streams| {
                    wire.begin_frames(len, keys.iter().copied().zip(senders), |stream| {
                        answers.push(Sent::Took(stream.map_or(0, |_| len)));
                        streams.extend(stream);
                    });
                });
                answers.resize(end, Sent::Took(0));
            }
        }
        answers.resize(first + to.len(), Sent::Took(0));
        // Those that need more than a head before the message.
        for ((answer, &id), &key) in answers[first..].iter_mut().zip(to).zip(&gathered.keys) {
            if *answer == Sent::Took(0) {
                *answer = self.collect_frames(slot, key, id, what);
            }
        }
        self.gathered = gathered;
        to.len()
    }

    /// How many of the first watches of `to` have streams whose keys follow one another: all those of the connection, or none.
    fn row(
        &self,
        slot: u32,
        first: StreamKey,
        to: &[WatcherId],
        place_of: impl Fn(WatcherId) -> Option<Place>,
    ) -> usize {
        let senders = to.iter().map(|id| id.bits());
        let row = self.http2_at(slot).map_or(0, |http2| http2.wire.senders_in_row(first, senders));
        let next = to.get(row).and_then(|&id| place_of(id));
        if next.is_some_and(|next| next.conn() == slot) { 0 } else { row }
    }

    /// Sends a message in one frame on each of the streams for which `begin` takes room, and appends the number. Returns whether it
    /// is sent on any.
    fn gather(
        &mut self,
        slot: u32,
        message: &[u8],
        frames: &mut SharedFrames,
        begin: impl FnOnce(&mut Connection<Carried>, usize, &mut Vec<u32>),
    ) -> bool {
        let Some(conn) = self.slots.get_mut(slot as usize).and_then(|slot| slot.conn.as_mut()) else {
            return false;
        };
        // Bytes that wait go first, and records are made of what a whole turn sends.
        let is_plain = conn.rare.as_ref().is_none_or(|rare| rare.tls.is_none());
        let is_direct = is_plain && !conn.is_queued && !conn.is_broken && !conn.is_full();
        let Streams::Http2(http2) = &mut conn.streams else { return false };
        let Http2 { wire, .. } = &mut **http2;
        if !is_direct || wire.has_control() {
            return false;
        }
        frames.streams.clear();
        begin(wire, message.len(), &mut frames.streams);
        if frames.streams.is_empty() {
            return false;
        }
        let len = frames.make(message);
        let taken = frames.send(conn, len, &mut self.pages);
        self.was_sent(slot, &frames.bytes[..len], taken);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::runtime::conn::tests::{link, pair};

    #[test]
    fn frames_name_the_streams_that_are_asked_for_whatever_they_named_before() {
        let mut frames = SharedFrames::default();
        for (message, streams) in [
            (&b"one"[..], &[1_u32, 3, 5][..]),
            (b"one", &[1, 3, 5]),
            (b"one", &[3, 5, 7, 9]),
            (b"one", &[1]),
            (b"two", &[3, 5]),
            (b"two", &[3, 5, 7]),
            (b"", &[7]),
            (b"", &[7, 9]),
            (b"three", &[7, 9, 1]),
        ] {
            frames.streams = streams.to_vec();
            let expected: Vec<u8> = streams
                .iter()
                .flat_map(|stream| {
                    let mut frame = Vec::new();
                    push_data_head(&mut frame, message.len());
                    set_stream(&mut frame, *stream);
                    frame.extend_from_slice(message);
                    frame
                })
                .collect();
            let len = frames.make(message);
            assert_eq!(&frames.bytes[..len], expected, "{message:?} for {streams:?}");
        }
    }

    #[test]
    fn frames_that_many_connections_get_go_into_pages_once_and_again_when_they_change() {
        let message = vec![b'm'; SHARED_BYTES_MIN / 4];
        let mut connections: Vec<_> = (0..6)
            .map(|_| {
                let (ours, theirs) = pair();
                (Conn::new(link(ours, None), Streams::None), theirs, Vec::new())
            })
            .collect();
        let (mut frames, mut pages) = (SharedFrames::default(), SharedPages::default());
        let mut send_each = |message: &[u8], streams: &[u32], pages: &mut SharedPages| {
            let mut in_pages = Vec::new();
            for (conn, theirs, expected) in &mut connections {
                frames.streams = streams.to_vec();
                let len = frames.make(message);
                let taken = frames.send(conn, len, pages).expect("an open connection");
                assert_eq!(taken, len, "there is room");
                expected.extend_from_slice(&frames.bytes[..len]);
                in_pages.push(len <= frames.shared);
                // What the first ones get is read at once, the rest when it is all sent.
                if in_pages.len() <= 3 {
                    let mut got = vec![0; expected.len()];
                    theirs.read_exact(&mut got).expect("what was sent");
                    assert!(got == *expected);
                    expected.clear();
                }
            }
            in_pages
        };
        let after_copies = [false, false, false, true, true, true];
        let streams = [1, 3, 5, 7];
        assert_eq!(send_each(&message, &streams, &mut pages), after_copies);
        assert_eq!(send_each(&message, &streams, &mut pages), [true; 6], "another turn offers the same");
        // Of so few bytes a copy is sent.
        send_each(&message, &streams[..3], &mut pages);
        assert_eq!(send_each(&message, &[3, 5, 7, 9], &mut pages), after_copies, "other streams");
        let changed = vec![b'n'; message.len()];
        assert_eq!(send_each(&changed, &[3, 5, 7, 9], &mut pages), after_copies, "another message");
        assert_eq!(send_each(&changed, &[3, 5, 7, 9, 11], &mut pages), after_copies, "more streams");
        assert_eq!(send_each(&changed, &[3, 5, 7, 9], &mut pages), [true; 6], "some of them");
        let mut off = SharedPages::Off;
        assert_eq!(send_each(&message, &streams, &mut off), [false; 6]);
        for (conn, mut theirs, expected) in connections {
            drop(conn);
            let mut got = Vec::new();
            theirs.read_to_end(&mut got).expect("what was sent");
            assert!(got == expected);
        }
    }
}
