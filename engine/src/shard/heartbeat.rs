//! Heartbeats on watches that were sent nothing for a while.
//!
//! They keep proxies and load balancers from cutting an idle stream, and an unacknowledged one is how the kernel
//! detects that a peer has vanished. A delivery costs nothing for them: the time of the last send is kept per class and
//! round. A heartbeat is sent between two messages only, and has no revision; its bytes are the outlet's.

use super::{Outlet, Sent, Shard, ShardConfig};
use crate::failpoints::{Failpoint, is_on};
use crate::limits::TIMER_STEPS;
use crate::tick::Tick;
use crate::watcher::{Phase, QueueState, Watcher, WatcherId};

/// The watchers that get a heartbeat in the turn under way, and the results. Reused.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    pub(super) ids: Vec<WatcherId>,
    sent: Vec<Sent>,
}

impl ShardConfig {
    /// When a heartbeat is due for a watcher that was sent something at `since`, perhaps with others: up to a tenth
    /// early, so that watches that were opened together spread over time.
    pub(super) fn first_heartbeat(&self, watcher: &Watcher, since: Tick) -> Tick {
        let Some(interval) = self.heartbeat_interval else { return watcher.deadline };
        let early = interval.mul_f64(0.1 * f64::from(255 - watcher.jitter) / 255.0);
        since.plus(interval - early).on_grid(interval / TIMER_STEPS)
    }
}

impl Shard {
    /// The watcher was sent something of its own: its heartbeat is postponed, within its place on the grid.
    pub(super) fn put_off_heartbeat(&mut self, id: WatcherId, now: Tick) {
        let Some(interval) = self.config.heartbeat_interval else { return };
        if let Some(watcher) = self.table.get_mut(id) {
            watcher.next_heartbeat = now.plus(interval).on_grid(interval / TIMER_STEPS);
        }
    }

    /// Whether a watcher is due for a heartbeat now: it is between two messages and was idle for the interval. A
    /// socket that is known to be full needs none: more bytes wait for it.
    pub(super) fn wants_heartbeat(&mut self, id: WatcherId, now: Tick) -> bool {
        let config = self.config;
        if config.heartbeat_interval.is_none() {
            return false;
        }
        self.put_off_heartbeat(id, now);
        let Some((watcher, class)) = self.table.pair(id) else { return false };
        if !self.feed.encoder.has_heartbeats(class.key.encoding) {
            return false;
        }
        let full = matches!(watcher.place, QueueState::Blocked);
        if (full || !watcher.at_boundary()) && !is_on(Failpoint::HeartbeatAnywhere) {
            return false;
        }
        let served = class.served.filter(|_| matches!(watcher.phase, Phase::Live));
        let Some(next) =
            served.map(|served| config.first_heartbeat(watcher, served)).filter(|next| *next > now)
        else {
            return true;
        };
        watcher.next_heartbeat = next;
        false
    }

    /// Sends a heartbeat to all watchers that [want](Shard::wants_heartbeat) one, together.
    pub(super) fn send_heartbeats(&mut self, outlet: &mut impl Outlet) {
        if self.quiet.ids.is_empty() {
            return;
        }
        let Quiet { mut ids, mut sent } = std::mem::take(&mut self.quiet);
        outlet.heartbeat(&ids, &mut sent);
        debug_assert_eq!(ids.len(), sent.len(), "the outlet answers for every member");
        for (&id, &what) in ids.iter().zip(&sent) {
            match what {
                Sent::Gone => self.end(id, false),
                // Other bytes are on their way to it already.
                Sent::Took(0) => {}
                Sent::Took(taken) => {
                    self.stats.bytes_sent += taken as u64;
                    self.stats.heartbeats_sent += 1;
                }
            }
        }
        ids.clear();
        sent.clear();
        self.quiet = Quiet { ids, sent };
    }
}
