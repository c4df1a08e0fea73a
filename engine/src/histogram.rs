//! Durations in buckets, as plain integers.
//!
//! Owns the bounds that all stages share, so that they can be compared. One observation is a search in 19 numbers and
//! two additions; nothing is allocated. It never reads a clock and names no metric.

use std::time::Duration;

/// The upper bounds, in nanoseconds: 10 µs to 10 s in steps of 1, 2.5 and 5.
pub const BOUNDS_NS: [u64; 19] = [
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];
/// One for each bound, and one for longer durations.
pub const BUCKETS: usize = BOUNDS_NS.len() + 1;

/// Counts of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    sum_ns: u64,
}

impl Histogram {
    /// The bucket of a duration; a duration equal to a bound belongs to that bound's bucket.
    #[must_use]
    pub fn bucket(took_ns: u64) -> usize {
        BOUNDS_NS.partition_point(|bound| *bound < took_ns)
    }

    /// From counts by bucket, and the sum of the durations.
    #[must_use]
    pub const fn of(counts: [u64; BUCKETS], sum_ns: u64) -> Self {
        Self { counts, sum_ns }
    }

    /// Counts one duration.
    pub fn observe(&mut self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.counts[Self::bucket(took_ns)] += 1;
        self.sum_ns = self.sum_ns.saturating_add(took_ns);
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            counts: std::array::from_fn(|at| self.counts[at] + other.counts[at]),
            sum_ns: self.sum_ns.saturating_add(other.sum_ns),
        }
    }

    /// Counts by bucket, not cumulative.
    #[must_use]
    pub const fn counts(&self) -> &[u64; BUCKETS] {
        &self.counts
    }

    /// The count of all observations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all durations, in nanoseconds.
    #[must_use]
    pub const fn sum_ns(&self) -> u64 {
        self.sum_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let at = [0, 10_000, 10_001, 25_000, 10_000_000_000, 10_000_000_001, u64::MAX];
        assert_eq!(at.map(Histogram::bucket), [0, 0, 1, 1, 18, 19, 19]);
        assert!(BOUNDS_NS.is_sorted());
    }

    #[test]
    fn what_is_observed_is_counted_and_added_up() {
        let mut one = Histogram::default();
        [1, 11, 600].iter().for_each(|us| one.observe(Duration::from_micros(*us)));
        let both = one.plus(&one);
        assert_eq!((both.count(), both.sum_ns()), (6, 1_224_000));
        assert_eq!((both.counts()[0], both.counts()[1], both.counts()[6]), (2, 2, 2));
        one.observe(Duration::MAX);
        assert_eq!((one.counts()[BUCKETS - 1], one.sum_ns()), (1, u64::MAX));
    }
}
