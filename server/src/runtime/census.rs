//! Counts of open watches for operators: who asked for one, and what a shard counted.
//!
//! Each shard counts its own watches between its turns, at most once a second for all who ask, and never if nobody does.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use revcast_engine::tick::Tick;
use revcast_engine::{Census, Slow};

/// Between two counts: a little less than what readers wait who ask once a second.
const EVERY: Duration = Duration::from_millis(900);

/// Which counts were asked for.
#[derive(Debug, Default)]
pub(super) struct CensusRequests {
    /// The number of the newest.
    number: AtomicU64,
    /// When it was asked for, in nanoseconds.
    asked_ns: AtomicU64,
}

impl CensusRequests {
    /// The number of the newest count that was asked for; 0: none.
    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// Asks for a count, unless the newest is young enough. True: the shards must be woken.
    pub(super) fn ask(&self, now: Tick) -> bool {
        let asked = self.asked_ns.load(Ordering::Relaxed);
        if self.number() > 0 && now.since(Tick::from_nanos(asked)) < EVERY {
            return false;
        }
        let mine =
            self.asked_ns.compare_exchange(asked, now.as_nanos(), Ordering::Relaxed, Ordering::Relaxed);
        if mine.is_ok() {
            self.number.fetch_add(1, Ordering::Relaxed);
        }
        mine.is_ok()
    }
}

/// What one shard counted.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// The number of the count.
    pub(super) number: u64,
    pub(super) census: Census,
    /// The watches that lag most, with the addresses of their clients.
    pub(super) slowest: Vec<(Slow, Option<SocketAddr>)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_ask_within_a_second_get_one_count() {
        let requests = CensusRequests::default();
        let at = |ms| Tick::ZERO.plus(Duration::from_millis(ms));
        assert_eq!(
            [0, 1, 899, 900, 901, 1799, 1800].map(|ms| requests.ask(at(ms))),
            [true, false, false, true, false, false, true]
        );
        assert_eq!(requests.number(), 3);
    }
}
