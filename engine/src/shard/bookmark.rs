//! Timers: bookmarks, and deadlines of watches.
//!
//! A bookmark names the revision up to which the shard has dispatched, and goes to live watchers between rounds only:
//! so everything up to it was sent to *that* watcher.

use bytes::Bytes;

use super::catchup::UnderWay;
use super::{Outlet, Run, Sent, Shard};
use crate::encoding::{Shown, Subject};
use crate::failpoints::{Failpoint, is_on};
use crate::limits::{BOOKMARK_BEFORE_DEADLINE, DRAIN_GRACE, SENDS_PER_TURN, TIMER_STEPS};
use crate::message::MessageKind;
use crate::revision::{Position, Revision};
use crate::ring::Missing;
use crate::tick::Tick;
use crate::watcher::class::ClassKey;
use crate::watcher::{End, Pending, Phase, QueueState, Watcher, WatcherId};

impl Shard {
    /// Sets when the watcher's next bookmark is due.
    pub(super) fn plan_bookmark(&self, watcher: &mut Watcher, now: Tick) {
        watcher.next_bookmark = watcher.deadline;
        if watcher.bookmarks {
            // Up to a tenth early, so that watches that were opened together spread over time.
            let early = self.config.bookmark_interval.mul_f64(0.1 * f64::from(255 - watcher.jitter) / 255.0);
            let grid = self.config.bookmark_interval / TIMER_STEPS;
            let regular = now.plus(self.config.bookmark_interval - early).on_grid(grid);
            let last = watcher.deadline.minus(BOOKMARK_BEFORE_DEADLINE);
            watcher.next_bookmark = if now < last { regular.min(last) } else { watcher.deadline };
        }
    }

    /// Serves watchers whose timers are due, a few per turn. True when there were any.
    pub(super) fn tend_due(&mut self, outlet: &mut impl Outlet, now: Tick) -> bool {
        let mut tended = false;
        debug_assert!(self.quiet.ids.is_empty(), "every turn ends with its heartbeats");
        for _ in 0..SENDS_PER_TURN {
            let Some(id) = self.table.first_due(now) else { break };
            tended = true;
            let Some(watcher) = self.table.get(id) else { break };
            if watcher.ending && matches!(watcher.phase, Phase::Initial(_)) {
                // It did not take its state in time, and must not take the part that it has for the whole.
                self.expire(id, now);
            } else if watcher.ending || matches!(watcher.phase, Phase::Draining) {
                // It had time to take what it is owed, and did not.
                self.end(id, false);
            } else if now >= watcher.deadline {
                self.because(id, End::Deadline);
                self.finish(id, outlet, now);
            } else {
                self.tend(id, outlet, now);
            }
        }
        self.send_heartbeats(outlet);
        tended
    }

    /// Sends a watcher the bookmark that is due, or notes it for a heartbeat.
    fn tend(&mut self, id: WatcherId, outlet: &mut impl Outlet, now: Tick) {
        let Some(watcher) = self.table.get(id) else { return };
        let quiet = now >= watcher.next_heartbeat;
        let mut told = false;
        if now >= watcher.next_bookmark {
            self.replan(id, now);
            told = self.send_bookmark(id, outlet);
        }
        if told {
            self.put_off_heartbeat(id, now);
        } else if quiet && self.wants_heartbeat(id, now) {
            self.quiet.ids.push(id);
        }
        if let Some(due) = self.table.get(id).map(Watcher::next_due) {
            self.table.schedule(id, due);
        }
    }

    fn replan(&mut self, id: WatcherId, now: Tick) {
        let Some(watcher) = self.table.get(id) else { return };
        let mut planned = Watcher { phase: Phase::Draining, rest: None, place: QueueState::None, ..*watcher };
        self.plan_bookmark(&mut planned, now);
        let next = planned.next_bookmark;
        if let Some(watcher) = self.table.get_mut(id) {
            watcher.next_bookmark = next;
        }
    }

    /// Sends a bookmark to a live watcher that asked for bookmarks and did not begin at that revision. True when it was
    /// offered one.
    pub(super) fn send_bookmark(&mut self, id: WatcherId, outlet: &mut impl Outlet) -> bool {
        let revision = if is_on(Failpoint::BookmarkTooEarly) { self.feed.revision() } else { self.revision };
        let Some((watcher, class)) = self.table.pair(id) else { return false };
        if !watcher.bookmarks || revision <= watcher.start || !matches!(watcher.phase, Phase::Live) {
            return false;
        }
        let bytes = match &class.bookmark {
            Some((made, bytes)) if *made == revision => bytes.clone(),
            _ => {
                let key = class.key.clone();
                let mut out = Vec::with_capacity(128);
                key.framing.push_with(&mut out, |out| self.push_bookmark(out, &key, revision, false));
                let bytes = Bytes::from(out);
                if let Some((_, class)) = self.table.pair(id) {
                    class.bookmark = Some((revision, bytes.clone()));
                }
                bytes
            }
        };
        match outlet.send(id, Run::new(&bytes, &[bytes.len()], 0)) {
            Sent::Gone => self.end(id, false),
            Sent::Took(taken) => {
                self.stats.bytes_sent += taken as u64;
                self.stats.bookmarks_sent += 1;
                let whole = taken >= bytes.len();
                let opened = self.table.pair(id).is_none_or(|(_, class)| class.key.opened);
                if whole && opened {
                    return true;
                }
                self.fall_behind(id, Phase::CatchingUp { cursor: self.dispatched, offset: 0 });
                self.table.open(id);
                if whole {
                    self.queue(id);
                } else {
                    if let Some(watcher) = self.table.get_mut(id) {
                        watcher.rest = Some(Box::new(Pending::new(bytes, taken)));
                    }
                    self.block(id);
                }
            }
        }
        true
    }

    /// Whether a watch may end here: between two messages, not between two events of one revision, and not within its
    /// initial state. Its client resumes after the last revision that it saw, which may be newer than objects that were
    /// not sent yet: they are sent in the order of their keys.
    pub(super) fn may_end(&self, id: WatcherId) -> bool {
        let Some(watcher) = self.table.get(id) else { return false };
        if !watcher.at_boundary() {
            return false;
        }
        let cursor = match watcher.phase {
            Phase::Initial(_) => return is_on(Failpoint::EndWithinState),
            Phase::CatchingUp { cursor, .. } => cursor,
            Phase::Live | Phase::Parked { .. } | Phase::Draining => return true,
        };
        let next = match self.feed.ring.get(cursor) {
            Ok(next) => next,
            Err(Missing::NotYet) => return true,
            // This cannot be decided any more: it will get 410.
            Err(Missing::Lapped) => return false,
        };
        let before = cursor.get().checked_sub(1).map(Position::new);
        match before.map(|before| self.feed.ring.get(before)) {
            None => true,
            Some(Ok(before)) => before.revision < next.revision,
            // The event before is forgotten: did it belong to the same revision?
            Some(Err(_)) => !self.feed.ring.is_torn(next.revision),
        }
    }

    /// Ends a watch at the next position where it may end: at once, if it is at one.
    pub(super) fn finish(&mut self, id: WatcherId, outlet: &mut impl Outlet, now: Tick) {
        let may_end = self.may_end(id);
        let Some(watcher) = self.table.get_mut(id) else { return };
        if !may_end {
            watcher.ending = true;
            self.table.schedule(id, now.plus(DRAIN_GRACE));
            return;
        }
        if self.conclude(id, None, now) && self.send_rest(id, outlet) {
            self.end_stream(id, outlet);
        }
    }

    /// Replaces pending output by the rest of the message under way, then `last`; then the watch ends. True when they
    /// may be sent now, false when the outlet is known to have no room, or when the message cannot be made any more:
    /// then the watch is cut off.
    pub(super) fn conclude(&mut self, id: WatcherId, last: Option<Bytes>, now: Tick) -> bool {
        match self.under_way(id) {
            UnderWay::Nothing => self.conclude_with(id, last.map(|last| Pending::new(last, 0)), now),
            UnderWay::Message(rest) => self.conclude_with(id, Some(Pending { last, ..rest }), now),
            UnderWay::Lost => {
                self.end(id, false);
                false
            }
        }
    }

    /// The same, when the rest is known.
    pub(super) fn conclude_with(&mut self, id: WatcherId, rest: Option<Pending>, now: Tick) -> bool {
        self.table.leave_live(id);
        self.release(id);
        let Some(watcher) = self.table.get_mut(id) else { return false };
        if let Phase::Parked { floor } = watcher.phase {
            self.parked.remove(&(floor, id));
        }
        watcher.phase = Phase::Draining;
        watcher.ending = false;
        watcher.rest = rest.map(Box::new);
        let place = std::mem::replace(&mut watcher.place, QueueState::None);
        self.table.schedule(id, now.plus(DRAIN_GRACE));
        match place {
            // An id that is left in the queue is skipped.
            QueueState::None | QueueState::Queued => true,
            QueueState::Blocked => {
                self.block(id);
                false
            }
        }
    }

    /// Appends the payload of a bookmark.
    pub(super) fn push_bookmark(
        &self,
        out: &mut Vec<u8>,
        key: &ClassKey,
        revision: Revision,
        initial_end: bool,
    ) {
        let schema = &self.feed.schema;
        let resource = key.scope.resources(schema.len()).next().map(|id| (id, schema.get(id)));
        let subject = Subject::Bookmark { resource, initial_end };
        let shown = Shown { kind: MessageKind::Bookmark, subject, revision, as_of_seconds: 0 };
        // Every resource of the watch has a form in its encoding, or it were refused: a bookmark has one too.
        let _ = key.encoding.push(out, &*self.feed.encoder, shown, !key.opened);
    }
}
