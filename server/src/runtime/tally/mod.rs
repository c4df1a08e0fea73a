//! What one shard counts in addition to its engine: its turns, connections, requests, and the ends of its watches.
//!
//! Owned by the shard's handle: written by the shard's thread alone, with plain stores, read by the renderer. Nothing here is
//! touched by a delivery. `telemetry` renders it.

mod http2;
mod requests;
mod tls;
mod upstream;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use revcast_engine::tick::Tick;
use revcast_engine::{End, Lag, Memory, Timings};

use crate::durations::{Durations, add};
use http2::Http2Tally;
pub(super) use http2::Open;
pub(super) use requests::{CODES, Requests};
use tls::TlsTally;
pub(super) use upstream::{FAILURES, UpstreamTally};

/// Why a watch ended, from the state of its peer, the engine and the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Ending {
    /// Its client disconnected.
    Closed,
    /// Its timeout expired.
    Deadline,
    /// The server closes.
    Drained,
    /// Its user is not authorized any more.
    Dismissed,
    /// What it watched is not served any more.
    Retired,
    /// The window had passed it.
    Lapped,
    /// The source's history is gone.
    Epoch,
    /// A value in its scope is unreadable.
    Refused,
    /// Its client accepted or acknowledged nothing for too long.
    Stalled,
}

impl Ending {
    pub(in crate::runtime) const ALL: [Self; 9] = [
        Self::Closed,
        Self::Deadline,
        Self::Drained,
        Self::Dismissed,
        Self::Retired,
        Self::Lapped,
        Self::Epoch,
        Self::Refused,
        Self::Stalled,
    ];

    /// `stalled`: its socket timed out.
    pub(in crate::runtime) const fn of(end: End, stalled: bool) -> Self {
        match end {
            End::Gone if stalled => Self::Stalled,
            End::Gone => Self::Closed,
            End::Deadline => Self::Deadline,
            End::Drained => Self::Drained,
            End::Dismissed => Self::Dismissed,
            End::Retired => Self::Retired,
            End::Lapped => Self::Lapped,
            End::Abandoned => Self::Epoch,
            End::Refused => Self::Refused,
        }
    }

    pub(in crate::runtime) const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Deadline => "deadline",
            Self::Drained => "drained",
            Self::Dismissed => "dismissed",
            Self::Retired => "retired",
            Self::Lapped => "lapped",
            Self::Epoch => "epoch",
            Self::Refused => "refused",
            Self::Stalled => "stalled",
        }
    }
}

/// Why a connection was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Refusal {
    /// No descriptor was left for another one.
    Descriptors,
    /// The server closes.
    Closing,
    /// A limit was reached, in all or for one address.
    Limit,
}

impl Refusal {
    pub(in crate::runtime) const ALL: [Self; 3] = [Self::Descriptors, Self::Closing, Self::Limit];

    pub(in crate::runtime) const fn name(self) -> &'static str {
        match self {
            Self::Descriptors => "descriptors",
            Self::Closing => "closing",
            Self::Limit => "limit",
        }
    }
}

/// The counts of one shard.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Tally {
    pub(in crate::runtime) requests: Requests,
    pub(in crate::runtime) upstream: UpstreamTally,
    pub(in crate::runtime) http2: Http2Tally,
    pub(in crate::runtime) tls: TlsTally,
    pub(in crate::runtime) turn_delay: Durations,
    pub(in crate::runtime) first_write: Durations,
    pub(in crate::runtime) last_write: Durations,
    pub(in crate::runtime) granted_ns: AtomicU64,
    pub(in crate::runtime) used_ns: AtomicU64,
    pub(in crate::runtime) accepted: AtomicU64,
    /// Connections that carry requests now; those that carry a watch are counted elsewhere.
    pub(in crate::runtime) open: AtomicU64,
    pub(in crate::runtime) refused: [AtomicU64; Refusal::ALL.len()],
    pub(in crate::runtime) ended: [AtomicU64; Ending::ALL.len()],
    pub(in crate::runtime) revision: AtomicU64,
    last_turn: AtomicU64,
    lag_events: AtomicU64,
    lag_ns: AtomicU64,
    pub(in crate::runtime) blocked: AtomicU64,
    pub(in crate::runtime) watchers_bytes: AtomicU64,
    pub(in crate::runtime) pages_bytes: AtomicU64,
    pub(in crate::runtime) cpu_ns: AtomicU64,
}

impl Tally {
    pub(in crate::runtime) fn accepted(&self) {
        add(&self.accepted, 1);
    }

    pub(in crate::runtime) fn refused(&self, why: Refusal) {
        add(&self.refused[why as usize], 1);
    }

    pub(in crate::runtime) fn opened(&self) {
        add(&self.open, 1);
    }

    pub(in crate::runtime) fn closed(&self) {
        add(&self.open, u64::MAX);
    }

    pub(in crate::runtime) fn ended(&self, ending: Ending, count: u64) {
        add(&self.ended[ending as usize], count);
    }

    pub(in crate::runtime) fn turned(&self, now: Tick) {
        self.last_turn.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// When the newest turn began.
    pub(in crate::runtime) fn last_turn(&self) -> Tick {
        Tick::from_nanos(self.last_turn.load(Ordering::Relaxed))
    }

    pub(in crate::runtime) fn put_timings(&self, timings: &Timings) {
        self.first_write.store(&timings.first_write);
        self.last_write.store(&timings.last_write);
        self.granted_ns.store(timings.granted_ns, Ordering::Relaxed);
        self.used_ns.store(timings.used_ns, Ordering::Relaxed);
    }

    /// `blocked`: watchers whose sockets are full. `cpu`: what the shard's thread used so far.
    pub(in crate::runtime) fn put_look(&self, lag: Lag, blocked: usize, memory: Memory, cpu: Duration) {
        self.cpu_ns.store(u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.lag_events.store(lag.events, Ordering::Relaxed);
        self.lag_ns.store(u64::try_from(lag.time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.blocked.store(blocked as u64, Ordering::Relaxed);
        self.watchers_bytes.store(memory.watchers as u64, Ordering::Relaxed);
        self.pages_bytes.store(memory.pages as u64, Ordering::Relaxed);
    }

    /// The lag of the slowest watcher: events and nanoseconds.
    pub(in crate::runtime) fn lag(&self) -> (u64, u64) {
        (self.lag_events.load(Ordering::Relaxed), self.lag_ns.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places() {
        assert!(Ending::ALL.iter().enumerate().all(|(at, ending)| *ending as usize == at));
        assert!(Refusal::ALL.iter().enumerate().all(|(at, refusal)| *refusal as usize == at));
    }

    #[test]
    fn what_opens_closes() {
        let tally = Tally::default();
        tally.opened();
        tally.opened();
        tally.closed();
        assert_eq!(tally.open.load(Ordering::Relaxed), 1);
        assert_eq!(Ending::of(End::Gone, true), Ending::Stalled);
        assert_eq!(Ending::of(End::Lapped, true), Ending::Lapped);
    }
}
