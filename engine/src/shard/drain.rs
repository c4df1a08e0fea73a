//! The shard closes: its watches are ended one after another over a time, so that their clients do not all arrive
//! elsewhere at once.
//!
//! It owns which watches are still to end, and when. A watch gets what any watch gets at its deadline: a last bookmark
//! and the end.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Outlet, Shard};
use crate::encoding::Encoding;
use crate::limits::{DRAIN_GRACE, SENDS_PER_TURN};
use crate::scope::Scope;
use crate::tick::Tick;
use crate::watcher::{End, Phase, WatcherId};

/// The watches that are still to end.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// With the next turn, and why.
    at_once: VecDeque<(WatcherId, End)>,
    /// One after another.
    waiting: VecDeque<WatcherId>,
    began: Tick,
    over: Duration,
    /// How many were waiting when it began.
    total: usize,
    /// How many of them were ended, or had ended by themselves.
    told: usize,
}

impl Drain {
    fn begin(&mut self, ids: impl Iterator<Item = WatcherId>, over: Duration, now: Tick) {
        self.waiting.clear();
        self.waiting.extend(ids);
        (self.began, self.over, self.total, self.told) = (now, over, self.waiting.len(), 0);
    }

    /// How many are to have ended by now: one at the beginning, the last a little before the end.
    fn due(&self, now: Tick) -> usize {
        let elapsed = now.since(self.began);
        if elapsed >= self.over {
            return self.total;
        }
        let whole = elapsed.as_nanos() * self.total as u128 / self.over.as_nanos();
        usize::try_from(whole).unwrap_or(usize::MAX).saturating_add(1).min(self.total)
    }

    /// The next one whose turn it is.
    fn next(&mut self, now: Tick) -> Option<(WatcherId, End)> {
        if let Some(dismissed) = self.at_once.pop_front() {
            return Some(dismissed);
        }
        if self.told >= self.due(now) {
            return None;
        }
        self.told += 1;
        self.waiting.pop_front().map(|id| (id, End::Drained))
    }

    /// When the next watch is to end.
    pub(super) fn next_due(&self) -> Option<Tick> {
        if !self.at_once.is_empty() {
            return Some(Tick::ZERO);
        }
        if self.waiting.is_empty() {
            return None;
        }
        let after = (self.over.as_nanos() * self.told as u128).div_ceil(self.total.max(1) as u128);
        let after = u64::try_from(after).unwrap_or(u64::MAX);
        Some(self.began.plus(Duration::from_nanos(after)))
    }

    /// Whether a watch is to end whatever the time is.
    pub(super) fn has_work(&self) -> bool {
        !self.at_once.is_empty() || !self.waiting.is_empty() && (self.over.is_zero() || self.told == 0)
    }
}

impl Shard {
    /// Ends every current watch, evenly over this time: a last bookmark if it asked for bookmarks, then the end of the
    /// stream. A watch within its initial state has at most this time, from now on, to take the state: otherwise the
    /// server would stop before it could be told. When called again, the remaining watches are spread over the new
    /// time.
    pub fn drain(&mut self, over: Duration, now: Tick) {
        self.drain.begin(self.table.ids(), over, now);
        let grace = if over.is_zero() { DRAIN_GRACE } else { DRAIN_GRACE.min(over) };
        let ids: Vec<WatcherId> = self.table.ids().collect();
        for id in ids {
            let Some(watcher) = self.table.get_mut(id) else { continue };
            if matches!(watcher.phase, Phase::Initial(_)) && !watcher.ending {
                watcher.ending = true;
                watcher.end.get_or_insert(End::Drained);
                self.table.schedule(id, now.plus(grace));
            }
        }
    }

    /// The shard does not close after all: the watches whose turn has not come stay.
    pub fn stay(&mut self) {
        self.drain.waiting.clear();
    }

    /// Ends one watch with the next turn, as [`Shard::drain`] does, and for this reason: a watch that was handed to a
    /// closing shard, or that is no longer authorized.
    pub fn dismiss(&mut self, id: WatcherId, why: End) {
        self.drain.at_once.push_back((id, why));
    }

    /// Ends all watches of some scopes and encodings with the next turns: they are not served any more.
    pub fn dismiss_where(&mut self, mut is_retired: impl FnMut(&Scope, Encoding) -> bool) {
        let ids: Vec<WatcherId> = self.table.ids().collect();
        for id in ids {
            let Some(class) = self.table.class_of(id) else { continue };
            if is_retired(&class.key.scope, class.key.encoding) {
                self.dismiss(id, End::Retired);
            }
        }
    }

    /// Ends a few watches whose turn it is. True when there were any.
    pub(super) fn drain_some(&mut self, outlet: &mut impl Outlet, now: Tick) -> bool {
        let mut any = false;
        for _ in 0..SENDS_PER_TURN {
            let Some((id, why)) = self.drain.next(now) else { break };
            any = true;
            self.send_bookmark(id, outlet);
            let Some(watcher) = self.table.get(id) else { continue };
            let ending = watcher.ending;
            match watcher.phase {
                Phase::Draining => {}
                // It gets no more objects: it may not see them.
                Phase::Initial(_) if why == End::Dismissed => {
                    self.because(id, why);
                    self.expire(id, now);
                }
                _ if ending => {}
                Phase::Initial(_) | Phase::CatchingUp { .. } | Phase::Live | Phase::Parked { .. } => {
                    self.because(id, why);
                    self.finish(id, outlet, now);
                }
            }
        }
        any
    }
}
