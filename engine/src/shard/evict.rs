//! The ends of a watch: out of the window, or with the shard.
//!
//! A watcher that the window has left behind is told 410 if it stands between two frames, and is cut off if it
//! stands inside one: it never sees a gap as if nothing were missing.

use bytes::Bytes;

use super::{Outlet, Shard};
use crate::frame;
use crate::limits::SENDS_PER_TURN;
use crate::tick::Tick;
use crate::watcher::{Phase, WatcherId};

impl Shard {
    /// Ends watches whose sockets are full and whose place in the window is forgotten.
    pub(super) fn evict_lapped(&mut self, now: Tick) {
        while let Some(&(position, id)) = self.blocked.first() {
            if position >= self.feed.ring.oldest() {
                return;
            }
            self.evict(id, now);
        }
    }

    /// Ends a watch that missed something.
    pub(super) fn evict(&mut self, id: WatcherId, now: Tick) {
        self.stats.evicted += 1;
        let Some(watcher) = self.table.get(id) else { return };
        if watcher.at_boundary() {
            self.expire(id, now);
        } else {
            self.end(id, false);
        }
    }

    /// Leaves a watch only the 410 and the end to send.
    pub(super) fn expire(&mut self, id: WatcherId, now: Tick) {
        let Some(watcher) = self.table.get(id) else { return };
        let status = frame::expired_status(watcher.start, self.feed.ring.forgotten());
        let mut last = Vec::with_capacity(256);
        frame::error(&mut last, &status);
        last.extend_from_slice(frame::END);
        if self.conclude(id, Bytes::from(last), now) {
            self.queue(id);
        }
    }

    /// Tells a few watchers that the shard closes. True when there were any.
    pub(super) fn drain_some(&mut self, outlet: &mut impl Outlet, now: Tick) -> bool {
        let mut any = false;
        for _ in 0..SENDS_PER_TURN {
            let Some(id) = self.draining.pop_front() else { break };
            any = true;
            self.send_bookmark(id, outlet);
            let over = self.table.get(id).is_none_or(|w| w.ending || matches!(w.phase, Phase::Draining));
            if !over {
                self.finish(id, outlet, now);
            }
        }
        any
    }
}
