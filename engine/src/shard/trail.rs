//! The search for older events that concern a class of which some watchers lag.
//!
//! It owns when a class searches, and fills the class's [trail](crate::watcher::trail) backwards; rounds note there what is new. So a
//! watcher that lags looks at what it will be sent, and the events that come meanwhile cost it nothing: otherwise thousands of
//! watchers that begin together, each with few events, would all look at every event, and where that takes longer than the next
//! events need to come, none would ever be live.
//!
//! Only a page that found little makes a class search: where many events concern it, a watcher is sent most of what it looks at, and
//! the ring is read forwards. It sends nothing.

use super::Shard;
use crate::event::Event;
use crate::limits::PAGE_SCAN;
use crate::revision::Position;
use crate::watcher::WatcherId;
use crate::watcher::class::ClassKey;

/// Whether a watch of this class may be sent something because of an event.
#[inline(never)]
pub(super) fn concerns(key: &ClassKey, event: &Event) -> bool {
    key.covers(event.key()) && (event.refusal().is_some() || key.verdict(event).is_some())
}

impl Shard {
    /// Searches older events for the class of a watcher, if few concern it, until its trail reaches this position or is as long as
    /// it may be. False: a turn's time is over.
    pub(super) fn search_back(&mut self, id: WatcherId, to: Position) -> bool {
        let Some((_, class)) = self.table.pair(id) else { return true };
        for _ in 0..PAGE_SCAN.min(self.config.looks_per_turn.max(1)) {
            let Some(at) = class.trail.to_search(to, self.config.run_messages) else { return true };
            // What is forgotten is told by whoever needs it.
            let Ok(event) = self.feed.ring.get(at) else { return true };
            class.trail.searched(at, concerns(&class.key, &event));
        }
        false
    }
}
