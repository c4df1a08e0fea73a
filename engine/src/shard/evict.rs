//! The ends of a watch: out of the window, at an unreadable value, with the source's history, or with the shard.
//!
//! A watcher that the window has passed gets 410 after the message that it is inside; if that message cannot be made
//! any more, it is cut off. It never continues over a gap as if nothing were missing.

use bytes::Bytes;

use super::{Shard, refusal};
use crate::encoding::{Encoding, Failure, json};
use crate::envelope;
use crate::key::ResourceId;
use crate::object::Object;
use crate::revision::Revision;
use crate::tick::Tick;
use crate::watcher::class::{Class, ClassKey};
use crate::watcher::{End, Pending, Phase, WatcherId};

impl Shard {
    /// Ends watches whose sockets are full and whose position in the window is forgotten.
    pub(super) fn evict_lapped(&mut self, now: Tick) {
        while let Some((position, slot)) = self.blocked.first() {
            if position >= self.feed.ring.oldest() {
                return;
            }
            self.evict(self.table.id(slot), now);
        }
    }

    /// Ends a watch that missed something, because the window passed it or because its history is lost.
    pub(super) fn evict(&mut self, id: WatcherId, now: Tick) {
        if self.abandoned {
            self.stats.abandoned += 1;
            self.because(id, End::Abandoned);
        } else {
            self.stats.evicted += 1;
            self.because(id, End::Lapped);
        }
        self.expire(id, now);
    }

    /// Ends a watch of an abandoned shard. If its last bytes were begun, it may take the rest.
    pub(super) fn give_up(&mut self, id: WatcherId, now: Tick) {
        let Some(watcher) = self.table.get(id) else { return };
        if watcher.between_messages() || !matches!(watcher.phase, Phase::Draining) {
            self.evict(id, now);
        }
    }

    /// Replaces pending output by the ERROR event for an unreadable value in scope, and the end.
    pub(super) fn refuse(&mut self, id: WatcherId, object: &Object, now: Tick) {
        let Some(class) = self.table.class_of(id) else { return };
        let Some(refusal) = refusal(&self.feed, object, &class.key) else { return };
        let last = self.framed(&refusal, &class.key);
        self.refuse_with(id, last, now);
    }

    /// The same for a watch in an encoding that does not show what a resource in its scope holds.
    pub(super) fn refuse_form(&mut self, id: WatcherId, resource: ResourceId, now: Tick) {
        let Some(class) = self.table.class_of(id) else { return };
        let resource = self.feed.schema.get(resource).qualified_plural();
        let last = self.failure(&Failure::NoForm { resource: &resource }, &class.key);
        self.refuse_with(id, last, now);
    }

    pub(super) fn refuse_with(&mut self, id: WatcherId, last: Bytes, now: Tick) {
        self.stats.refused += 1;
        self.because(id, End::Refused);
        if self.conclude(id, Some(last), now) {
            self.queue(id);
        }
    }

    /// The same, when the outlet took `sent` bytes of the message and is full.
    pub(super) fn refuse_within(&mut self, id: WatcherId, last: Bytes, sent: usize, now: Tick) {
        self.stats.refused += 1;
        self.because(id, End::Refused);
        if self.conclude_with(id, Some(Pending::new(last, sent)), now) {
            self.block(id);
        }
    }

    /// Replaces pending output by a 410 and the end, after the message under way.
    pub(super) fn expire(&mut self, id: WatcherId, now: Tick) {
        let (Some(watcher), Some(Class { key, .. })) = (self.table.get(id), self.table.class_of(id)) else {
            return;
        };
        let ring = &self.feed.ring;
        // After history is lost nothing can be replayed, whatever the ring still holds.
        let gone = if self.abandoned { ring.progress() } else { Revision::ZERO };
        let skipped = self.feed.gap_around(watcher.start).map_or(Revision::ZERO, |gap| gap.next);
        let since = self.feed.known_since(key.scope.resources(self.feed.schema.len()));
        let oldest = ring.forgotten().max(gone).max(skipped).max(since);
        let failure = Failure::Expired { asked: watcher.start, oldest };
        let last = self.failure(&failure, key);
        if self.conclude(id, Some(last), now) {
            self.queue(id);
        }
    }

    /// The ERROR event for a class, in its framing.
    fn failure(&self, failure: &Failure<'_>, key: &ClassKey) -> Bytes {
        let mut last = Vec::with_capacity(256);
        key.framing.push_with(&mut last, |out| match key.encoding {
            Encoding::Json => envelope::error(out, &json::status(failure)),
            encoding @ (Encoding::Protobuf | Encoding::Other(_)) => {
                self.feed.encoder.failure(out, encoding, failure)
            }
        });
        last.into()
    }
}
