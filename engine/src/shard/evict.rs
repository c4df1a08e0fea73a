//! The ends of a watch: out of the window, at a value that nobody can read, with the source's history, or with the shard.
//!
//! A watcher that the window has left behind is told 410, after the frame that it stands in; if that frame cannot be made any
//! more, it is cut off. It never sees a gap as if nothing were missing.

use bytes::Bytes;

use super::Shard;
use crate::frame;
use crate::object::Object;
use crate::revision::Revision;
use crate::tick::Tick;
use crate::watcher::{End, Phase, Rest, WatcherId};

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

    /// Ends a watch of a shard that is given up. One that has begun to take its last bytes may take the rest.
    pub(super) fn give_up(&mut self, id: WatcherId, now: Tick) {
        let Some(watcher) = self.table.get(id) else { return };
        if watcher.between_frames() || !matches!(watcher.phase, Phase::Draining) {
            self.evict(id, now);
        }
    }

    /// Leaves a watch only the word that a value which it covers is unreadable, and the end.
    pub(super) fn refuse(&mut self, id: WatcherId, object: &Object, now: Tick) {
        let Some(last) = object.refusal() else { return };
        self.stats.refused += 1;
        self.because(id, End::Refused);
        if self.conclude(id, last.clone(), now) {
            self.queue(id);
        }
    }

    /// The same, when the socket took `sent` bytes of it and is full.
    pub(super) fn refuse_within(&mut self, id: WatcherId, last: Bytes, sent: usize, now: Tick) {
        self.stats.refused += 1;
        self.because(id, End::Refused);
        if self.conclude_with(id, Rest::new(last, sent), now) {
            self.block(id);
        }
    }

    /// Leaves a watch only the 410 and the end to send, after the frame under way.
    pub(super) fn expire(&mut self, id: WatcherId, now: Tick) {
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
