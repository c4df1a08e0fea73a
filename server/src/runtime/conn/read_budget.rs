//! How long clients are read between two turns.
//!
//! What clients send may cost much more than its bytes tell: field blocks, requests that end at once. While the watches have work,
//! reading gets a share of the time of their turns, and pays back what a read took beyond it.

use std::time::Duration;

/// The share of a turn's time: less than requests get, since most of what is read is small.
const SHARE: u32 = 8;
/// Reading gets so much of a short turn.
const SLICE_MIN: Duration = Duration::from_micros(50);
/// The most that is paid back: a connection that must be read is not kept waiting for longer than eight times this.
const DEBT_MAX: Duration = Duration::from_millis(5);

/// Time that reading may take.
#[derive(Debug)]
pub(in crate::runtime) struct ReadBudget {
    left: Duration,
    debt: Duration,
}

impl Default for ReadBudget {
    fn default() -> Self {
        Self { left: Duration::MAX, debt: Duration::ZERO }
    }
}

impl ReadBudget {
    /// The watches had a turn, which took so long. `None`: they have nothing to do.
    pub(in crate::runtime) fn earn(&mut self, turn: Option<Duration>) {
        let Some(turn) = turn else {
            *self = Self::default();
            return;
        };
        let slice = SLICE_MIN.max(turn / SHARE);
        self.left = slice.saturating_sub(self.debt);
        self.debt = self.debt.saturating_sub(slice);
    }

    /// Whether more may be read.
    pub(super) const fn is_left(&self) -> bool {
        !self.left.is_zero()
    }

    /// How much more; [`Duration::MAX`]: the watches have nothing to do.
    pub(super) const fn left(&self) -> Duration {
        self.left
    }

    /// A read took so long.
    pub(super) fn spend(&mut self, took: Duration) {
        self.debt = (self.debt + took.saturating_sub(self.left)).min(DEBT_MAX);
        if self.left < Duration::MAX {
            self.left = self.left.saturating_sub(took);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn micros(number: u64) -> Duration {
        Duration::from_micros(number)
    }

    #[test]
    fn reading_gets_its_share_of_the_time() {
        for (turn, read) in [(800, 10), (800, 300), (100, 30), (4_000, 501)] {
            let mut budget = ReadBudget::default();
            let (mut turns, mut reads) = (Duration::ZERO, Duration::ZERO);
            for _ in 0..10_000 {
                turns += micros(turn);
                budget.earn(Some(micros(turn)));
                while budget.is_left() {
                    budget.spend(micros(read));
                    reads += micros(read);
                }
            }
            let share = reads.as_secs_f64() / turns.as_secs_f64();
            let expected = (f64::from(50).max(turn as f64 / 8.0)) / turn as f64;
            assert!((share / expected - 1.0).abs() < 0.01, "{turn} {read}: {share} for {expected}");
        }
    }

    #[test]
    fn a_long_read_is_paid_back_within_limits_and_forgotten_when_nothing_else_waits() {
        let mut budget = ReadBudget::default();
        budget.earn(Some(micros(800)));
        budget.spend(Duration::from_secs(1));
        let mut turns = 0;
        while !budget.is_left() {
            budget.earn(Some(micros(800)));
            turns += 1;
        }
        assert_eq!(turns, 51, "5 ms, 100 us of each turn");
        budget.spend(Duration::from_secs(1));
        budget.earn(None);
        budget.spend(Duration::from_secs(1));
        assert!(budget.is_left(), "the shard has nothing else to do");
    }
}
