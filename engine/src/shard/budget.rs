//! The time that a shard grants to watchers that lag while newer events wait for the live ones.
//!
//! It refills with time and is capped. The unused part of a slice is returned, an overdraft is owed. The figures are
//! from kube-apiserver's dispatch budget, which spends it on waiting; here it pays for work only.
//!
//! After a long round the budget is comparatively small. Then a slice is as long as the live watchers' time in the
//! round, per watcher, at most as long as the round or the budget's cap. Otherwise a watcher that lags on a busy shard
//! would never catch up.

use std::time::Duration;

use crate::limits::{BUDGET_CAP, BUDGET_REFILL_PER_SECOND, BUDGET_SLICE};
use crate::tick::Tick;

/// The budget of a shard.
#[derive(Debug)]
pub(crate) struct Budget {
    available_ns: i64,
    refilled: Tick,
    slice: Option<Slice>,
    granted_ns: u64,
    used_ns: u64,
}

/// Time that was granted and may be spent. The last page may overdraw it.
#[derive(Debug)]
struct Slice {
    left_ns: i64,
    /// The part that comes from the budget. The rest is the fair share of a round.
    budgeted_ns: i64,
    since: Tick,
}

const fn nanos(time: Duration) -> i64 {
    // Every duration here is a limit of seconds, or the time between two turns.
    #[allow(clippy::cast_possible_truncation)]
    {
        time.as_nanos() as i64
    }
}

impl Budget {
    pub(crate) const fn new() -> Self {
        Self { available_ns: nanos(BUDGET_CAP), refilled: Tick::ZERO, slice: None, granted_ns: 0, used_ns: 0 }
    }

    /// Nanoseconds that were granted, and those that were used: more, when a last page took longer than was left.
    pub(crate) const fn spent(&self) -> (u64, u64) {
        (self.granted_ns, self.used_ns)
    }

    /// Counts the time since the slice was last settled as spent.
    pub(crate) fn settle(&mut self, now: Tick) {
        if let Some(slice) = &mut self.slice {
            let used = nanos(now.since(slice.since));
            slice.left_ns -= used;
            self.used_ns += used.unsigned_abs();
            slice.since = now;
        }
    }

    /// Takes a slice, if there is none and there is something to grant. True when there is time to spend. `fair`: the
    /// claim of the watchers that lag, whatever the budget holds.
    pub(crate) fn grant(&mut self, now: Tick, fair: Duration) -> bool {
        if self.slice.is_none() {
            self.refill(now);
            let budgeted_ns = self.available_ns.clamp(0, nanos(BUDGET_SLICE));
            let left_ns = budgeted_ns.max(nanos(fair));
            if left_ns <= 0 {
                return false;
            }
            self.available_ns -= budgeted_ns;
            self.granted_ns += left_ns.unsigned_abs();
            self.slice = Some(Slice { left_ns, budgeted_ns, since: now });
        }
        self.slice.as_ref().is_some_and(|slice| slice.left_ns > 0)
    }

    /// The fair share of a round of `round` for `live` watchers: the same time per watcher for those `behind`.
    pub(crate) fn fair(round: Duration, live: u64, behind: usize) -> Duration {
        let share = u32::try_from(behind).unwrap_or(u32::MAX);
        let parts = u32::try_from(live.max(1)).unwrap_or(u32::MAX);
        (round.saturating_mul(share) / parts).min(round.max(BUDGET_CAP))
    }

    /// Ends the slice; unspent time is returned, an overdraft is owed.
    pub(crate) fn give_back(&mut self) {
        if let Some(slice) = self.slice.take() {
            // The fair share is spent first, and what is left of it is dropped.
            self.available_ns =
                (self.available_ns + slice.left_ns.min(slice.budgeted_ns)).min(nanos(BUDGET_CAP));
        }
    }

    fn refill(&mut self, now: Tick) {
        let passed_ns = nanos(now.since(self.refilled)).min(nanos(BUDGET_CAP) * 1000);
        let gained_ns = passed_ns * nanos(BUDGET_REFILL_PER_SECOND) / 1_000_000_000;
        self.available_ns = (self.available_ns + gained_ns).min(nanos(BUDGET_CAP));
        self.refilled = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Tick {
        Tick::from_nanos(us * 1_000)
    }

    /// How many of 100 ms, in pages of 700 µs with live work of 300 µs between slices, go to watchers that lag.
    fn lent_ms(budget: &mut Budget, from_us: u64) -> u64 {
        let (mut now, mut lent) = (from_us, 0);
        while now < from_us + 100_000 {
            while budget.grant(at(now), Duration::ZERO) {
                now += 700;
                lent += 700;
                budget.settle(at(now));
            }
            budget.give_back();
            now += 300;
        }
        lent / 1000
    }

    #[test]
    fn it_is_capped_and_refills_at_its_rate() {
        let mut budget = Budget::new();
        let full = lent_ms(&mut budget, 0);
        assert!((90..=105).contains(&full), "{full}");
        // Empty by now: a twentieth of the time that follows.
        let spent: u64 = (1..=10).map(|i| lent_ms(&mut budget, i * 110_000)).sum();
        assert!((40..=70).contains(&spent), "{spent}");
        let again = lent_ms(&mut budget, 3_600_000_000);
        assert!((90..=105).contains(&again), "{again}");
    }

    #[test]
    fn what_is_not_used_is_given_back() {
        let mut budget = Budget::new();
        assert!(budget.grant(at(0), Duration::ZERO));
        budget.settle(at(3_000));
        budget.give_back();
        assert_eq!(budget.available_ns, 97_000_000);
    }

    #[test]
    fn behind_a_long_round_those_behind_fare_as_the_live_did() {
        let round = Duration::from_millis(200);
        assert_eq!(Budget::fair(round, 100, 10), Duration::from_millis(20));
        assert_eq!(Budget::fair(round, 10, 100), round, "the live wait for no more than a round");
        assert_eq!(Budget::fair(round, 0, 5), round);
        assert_eq!(Budget::fair(Duration::from_millis(1), 10, 90), Duration::from_millis(9));
        assert_eq!(Budget::fair(Duration::from_millis(1), 1, 10_000), BUDGET_CAP);
        let mut budget = Budget { available_ns: -5_000_000, ..Budget::new() };
        let grant = |budget: &mut Budget, us| budget.grant(at(us), Duration::from_millis(20));
        assert!(grant(&mut budget, 0), "the budget is empty, the claim is not");
        budget.settle(at(19_000));
        assert!(grant(&mut budget, 19_000));
        budget.settle(at(21_000));
        assert!(!grant(&mut budget, 21_000));
        budget.give_back();
        assert_eq!(budget.available_ns, -6_000_000, "what was overdrawn is owed");
        let mut budget = Budget::new();
        assert!(grant(&mut budget, 0));
        budget.settle(at(4_000));
        budget.give_back();
        assert_eq!(budget.available_ns, 100_000_000, "the share was spent first");
    }
}
