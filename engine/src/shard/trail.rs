//! Which events of the ring concern a class that has watchers which lag.
//!
//! It owns the positions of those events, back to where it reaches: rounds note what is new, whoever lags or not, and what is
//! older is searched once for all watchers of the class. So a watcher that lags looks at what it will be sent, and the events
//! that come meanwhile cost it nothing: otherwise thousands of watchers that begin together, each with few events, would all
//! look at every event, and where that takes longer than the next events need to come, none would ever be live.
//!
//! Only a page that found little makes a class search: where many events concern it, a watcher is sent most of what it looks at.
//! A trail is short: a class that many events concern loses the oldest positions, and its watchers read the ring there.

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
    /// Searches older events for the class of a watcher, if few concern it, until its trail reaches this position or is as long as it may be. False: a
    /// turn's time is over.
    pub(super) fn search_back(&mut self, id: WatcherId, to: Position) -> bool {
        let (mut looks, max) = (PAGE_SCAN.min(self.config.looks_per_turn.max(1)), self.config.run_messages);
        let Some((_, class)) = self.table.pair(id) else { return true };
        let trail = &mut class.trail;
        if !trail.is_sparse {
            return true;
        }
        while let Some(from) = trail.from.filter(|from| *from > to)
            && trail.events.len() < max
        {
            if looks == 0 {
                return false;
            }
            looks -= 1;
            let at = Position::new(from.get() - 1);
            // What is forgotten is told by whoever needs it.
            let Ok(event) = self.feed.ring.get(at) else { break };
            if concerns(&class.key, &event) {
                trail.events.push_front(at);
            }
            trail.from = Some(at);
        }
        true
    }
}
