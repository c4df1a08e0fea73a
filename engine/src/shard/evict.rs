//! The ends of a watch: out of the window, at a value that nobody can read, with the source's history, or with the shard.
//!
//! A watcher that the window has left behind is told 410 if it stands between two frames, and is cut off if it
//! stands inside one: it never sees a gap as if nothing were missing.

use bytes::Bytes;

use super::Shard;
use crate::frame;
use crate::object::Object;
use crate::revision::Revision;
use crate::tick::Tick;
use crate::watcher::{End, Phase, WatcherId};

impl Shard {
    /// Ends watches whose sockets are full and whose place in the window is forgotten.
    pub(super) fn evict_lapped(&mut self, now: Tick) {
        while let Some((position, slot)) = self.blocked.first() {
            if position >= self.feed.ring.oldest() {
                return;
            }
            self.evict(self.table.id(slot), now);
        }
    }

    /// Ends a watch that missed something.
    pub(super) fn evict(&mut self, id: WatcherId, now: Tick) {
        self.stats.evicted += 1;
        self.because(id, if self.abandoned { End::Abandoned } else { End::Lapped });
        self.expire(id, now);
    }

    /// Whether other bytes than those of the frame under way would break the stream.
    fn is_within_frame(&self, id: WatcherId) -> bool {
        self.table.get(id).is_some_and(|watcher| !watcher.between_frames())
    }

    /// Ends a watch of a shard that is given up. One that has begun to take its last bytes may take the rest.
    pub(super) fn give_up(&mut self, id: WatcherId, now: Tick) {
        let Some(watcher) = self.table.get(id) else { return };
        if watcher.between_frames() || !matches!(watcher.phase, Phase::Draining) {
            self.evict(id, now);
        }
    }

    /// Leaves a watch only the word that a value which it covers is unreadable, and the end; or cuts it off within a frame.
    pub(super) fn refuse(&mut self, id: WatcherId, object: &Object, now: Tick) {
        let Some(last) = object.refusal() else { return };
        self.stats.refused += 1;
        self.because(id, End::Refused);
        if self.is_within_frame(id) {
            self.end(id, false);
        } else if self.conclude(id, last.clone(), now) {
            self.queue(id);
        }
    }

    /// The same, when the socket took `sent` bytes of it and is full.
    pub(super) fn refuse_within(&mut self, id: WatcherId, last: Bytes, sent: usize, now: Tick) {
        self.stats.refused += 1;
        self.because(id, End::Refused);
        if !self.conclude(id, last, now) {
            return;
        }
        if let Some(rest) = self.table.get_mut(id).and_then(|watcher| watcher.rest.as_mut()) {
            rest.sent = sent;
        }
        self.block(id);
    }

    /// Leaves a watch only the 410 and the end to send, or cuts it off within a frame.
    pub(super) fn expire(&mut self, id: WatcherId, now: Tick) {
        if self.is_within_frame(id) {
            self.end(id, false);
            return;
        }
        let Some(watcher) = self.table.get(id) else { return };
        let ring = &self.feed.ring;
        // Of a history that is gone nothing can be replayed, whatever the ring still holds.
        let gone = if self.abandoned { ring.progress() } else { Revision::ZERO };
        let skipped = self.feed.gap_around(watcher.start).map_or(Revision::ZERO, |gap| gap.next);
        let status = frame::expired_status(watcher.start, ring.forgotten().max(gone).max(skipped));
        let mut last = Vec::with_capacity(256);
        frame::error(&mut last, &status);
        last.extend_from_slice(frame::END);
        if self.conclude(id, Bytes::from(last), now) {
            self.queue(id);
        }
    }
}
