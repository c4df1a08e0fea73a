//! Older events, put before those of the window while it is read.

use std::sync::Arc;

use super::Publisher;
use crate::event::BYTES_FIRST;
use crate::failpoints::{Failpoint, is_on};
use crate::history::{History, OlderEvents};
use crate::revision::{Position, Revision};

impl Publisher {
    /// Begins to collect what led to the state that is loaded and visible now, since revision `from`.
    #[must_use]
    pub fn history(&self, from: Revision) -> History {
        History::new(&self.feed, from, self.events_max)
    }

    /// Puts older events before those of the window, as far as there is room, and makes them visible: watches and exact lists may
    /// begin within them from now on. Returns how many. None are put there when the window does not reach back to their end any
    /// more.
    pub fn prepend(&mut self, older: OlderEvents) -> usize {
        let OlderEvents { events, snapshots, from, is_torn, to } = older;
        if self.ring.oldest() != Position::FIRST || self.feed.forgotten() != to {
            return 0;
        }
        let slots =
            self.events_max as u64 - self.ring.next().since(self.ring.oldest()).min(self.events_max as u64);
        let slots = usize::try_from(slots.min(self.ring.room())).unwrap_or(usize::MAX);
        let bytes = self.bytes_max().saturating_sub(self.window_bytes());
        let mut first = events.len().saturating_sub(slots);
        first += events[first..].partition_point(|event| BYTES_FIRST - event.bytes_before() > bytes);
        // A revision is there as a whole.
        let cut = first.checked_sub(1).map(|last| events[last].revision);
        if let Some(cut) = cut.filter(|_| !is_on(Failpoint::OlderRevisionSplit)) {
            first = events.partition_point(|event| event.revision <= cut);
        }
        let begin = Position::new(Position::FIRST.get() - (events.len() - first) as u64);
        let added = events[first..].iter().rev().map(Arc::clone);
        let kept = self.feed.kept.load();
        let older = snapshots.iter().filter(|snapshot| snapshot.position() >= begin);
        self.feed.kept.store(Arc::new(older.chain(kept.iter()).map(Arc::clone).collect()));
        let of_cut =
            |cut: Revision| events[..first].iter().rev().take_while(move |event| event.revision == cut);
        let is_torn = cut.map_or(is_torn, |cut| of_cut(cut).nth(1).is_some());
        self.ring.prepend(added, cut.unwrap_or(from), is_torn);
        self.count_forgotten();
        events.len() - first
    }
}
