//! The same message for many streams of one connection: one system call, and no copy.

use std::io::IoSlice;

use revcast_engine::{Sent, WatcherId};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::{Carried, Http2};
use crate::runtime::conn::send::Offer;
use crate::runtime::conn::unsent::is_full;
use crate::runtime::conn::{Conns, Place, Streams};
use crate::wire::coding::Coding;

/// From so many streams on a system call of their own is worth it.
const STREAMS_MIN: usize = 4;
/// Streams of one system call: it takes 1,024 slices at most (`IOV_MAX`), two for each.
const STREAMS_MAX: usize = 512;

impl Conns {
    /// Offers the same to several streams of one connection.
    pub(in crate::runtime::conn) fn offer_group(
        &mut self,
        slot: u32,
        to: &[WatcherId],
        what: Offer<'_>,
        place_of: &impl Fn(WatcherId) -> Option<Place>,
        answers: &mut Vec<Sent>,
    ) {
        let first = answers.len();
        if let (Offer::Messages(run), STREAMS_MIN..) = (what, to.len()) {
            for part in to.chunks(STREAMS_MAX) {
                self.gather(slot, part, run.bytes(), place_of, answers);
            }
        }
        answers.resize(first + to.len(), Sent::Took(0));
        // Those that need more than a head before the message.
        for (answer, &id) in answers[first..].iter_mut().zip(to) {
            if *answer == Sent::Took(0) {
                let key = place_of(id).and_then(Place::key);
                *answer = key.map_or(Sent::Gone, |key| self.collect_frames(slot, key, id, what));
            }
        }
    }

    /// Sends a message on the streams that take all of it in one frame; the answer of the others is that they took nothing.
    fn gather(
        &mut self,
        slot: u32,
        to: &[WatcherId],
        message: &[u8],
        place_of: &impl Fn(WatcherId) -> Option<Place>,
        answers: &mut Vec<Sent>,
    ) {
        let owner = self.owner(slot);
        let Self { slots, polls, broken, heads, .. } = self;
        let conn = slots.get_mut(slot as usize).and_then(|slot| slot.conn.as_mut());
        // Bytes that wait go first, and records are made of what a whole turn sends.
        let is_plain =
            conn.as_ref().and_then(|conn| conn.rare.as_ref()).is_none_or(|rare| rare.tls.is_none());
        let conn = conn.filter(|conn| is_plain && !conn.is_queued && !conn.is_broken && !conn.is_full());
        let Some(conn) = conn else { return answers.extend(to.iter().map(|_| Sent::Took(0))) };
        let Streams::Http2(http2) = &mut conn.streams else { return };
        let Http2 { wire, .. } = &mut **http2;
        heads.clear();
        for &id in to {
            let key = place_of(id).and_then(Place::key).filter(|key| {
                matches!(wire.carried(*key), Some(Carried::Watch(watch))
                    if watch.id == id && matches!(watch.coding, Coding::Bare) && watch.rest.is_empty())
            });
            let head = key.and_then(|key| wire.begin_frame(key, message.len()));
            answers.push(Sent::Took(head.map_or(0, |_| message.len())));
            heads.extend(head);
        }
        if heads.is_empty() {
            return;
        }
        let mut parts = Vec::with_capacity(2 * heads.len());
        for head in heads.iter() {
            parts.push(IoSlice::new(head));
            parts.push(IoSlice::new(message));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut taken = match sendmsg(&conn.fd, &parts, &mut SendAncillaryBuffer::default(), flags) {
            Ok(taken) => taken,
            Err(error) if is_full(error) => 0,
            Err(_) => {
                conn.is_broken = true;
                broken.push(owner);
                return;
            }
        };
        self.sends_directly = true;
        // What the kernel did not take is kept.
        for part in &parts {
            let skipped = taken.min(part.len());
            taken -= skipped;
            if skipped < part.len() {
                conn.rare().unsent.tail().extend_from_slice(&part[skipped..]);
            }
        }
        if conn.is_full() {
            conn.poll_to_write(owner, polls);
        }
    }
}
