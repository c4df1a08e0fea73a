//! The shard closes: its watches are told to go on elsewhere, one after another over a time, so that they do not all arrive
//! there at once.
//!
//! It owns who is still to be told, and when. What one is told (a last bookmark, the end) is what any watch is told
//! whose time is over.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Outlet, Shard};
use crate::limits::{DRAIN_GRACE, SENDS_PER_TURN};
use crate::tick::Tick;
use crate::watcher::{End, Phase, WatcherId};

/// Who is still to be told.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// With the next turn, and why.
    at_once: VecDeque<(WatcherId, End)>,
    /// In their turn.
    waiting: VecDeque<WatcherId>,
    began: Tick,
    over: Duration,
    /// How many were waiting when it began.
    total: usize,
    /// How many of them were told, or had gone by themselves.
    told: usize,
}

impl Drain {
    fn begin(&mut self, ids: impl Iterator<Item = WatcherId>, over: Duration, now: Tick) {
        self.waiting.clear();
        self.waiting.extend(ids);
        (self.began, self.over, self.total, self.told) = (now, over, self.waiting.len(), 0);
    }

    /// How many are to be told by then: one at the beginning, the last a little before the end.
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

    /// When somebody is to be told next.
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

    /// Whether somebody is to be told whatever the time is.
    pub(super) fn has_work(&self) -> bool {
        !self.at_once.is_empty() || !self.waiting.is_empty() && (self.over.is_zero() || self.told == 0)
    }
}

impl Shard {
    /// Ends every watch that is there, evenly over this time: a last bookmark where one is welcome, then the end of the stream.
    /// A watch that is within its initial state has as much of the time as the state may take, from now on: what is not taken by
    /// then could not be told of before the server is gone. Again: those who were not told yet are, over the new time from now
    /// on.
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

    /// Ends one watch with the next turn, as [`Shard::drain`] does, and for this reason: one that comes to a shard that closes, or
    /// that may not go on.
    pub fn dismiss(&mut self, id: WatcherId, why: End) {
        self.drain.at_once.push_back((id, why));
    }

    /// Tells a few watchers whose turn it is to go on elsewhere. True when there were any.
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
