//! Latencies in an HdrHistogram: nanoseconds, three significant digits, up to one hour. As text they are (value, count)
//! pairs, and merge without loss, because all histograms have the same buckets.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::ops::Deref;

const HIGHEST_NS: u64 = 3_600_000_000_000;
const LOWEST_NS: u64 = 1_000;

/// The recorded buckets: the highest value of each and how often it was met.
type Pairs = Vec<(u64, u64)>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Pairs", into = "Pairs")]
pub(crate) struct Latency(Histogram<u64>);

impl Default for Latency {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, 3);
        Self(histogram.expect("1 µs to one hour with three digits is a valid range"))
    }
}

impl From<Pairs> for Latency {
    fn from(pairs: Pairs) -> Self {
        let mut latency = Self::default();
        pairs.into_iter().for_each(|(ns, count)| latency.0.saturating_record_n(ns, count));
        latency
    }
}

impl From<Latency> for Pairs {
    fn from(Latency(histogram): Latency) -> Self {
        histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
    }
}

impl Deref for Latency {
    type Target = Histogram<u64>;

    fn deref(&self) -> &Histogram<u64> {
        &self.0
    }
}

impl Latency {
    pub(crate) fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all have the same buckets");
    }

    /// The latency that `quantile` (0..=1) of the recorded ones do not exceed; 0 when none was recorded.
    pub(crate) fn at(&self, quantile: f64) -> u64 {
        self.value_at_quantile(quantile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_and_merging_change_nothing() {
        let mut one = Latency::default();
        for ns in [0, 900, 12_345, 999_999, 1_000_000, 123_456_789, 3_000_000_000, u64::MAX] {
            one.record(ns);
            one.record(ns);
        }
        let again = Latency::from(Pairs::from(one.clone()));
        assert_eq!(again, one);
        let mut merged = Latency::default();
        merged.add(&again);
        assert_eq!(Pairs::from(merged.clone()), Pairs::from(one.clone()));
        let ends = |latency: &Latency| [0.0, 0.5, 0.99, 1.0].map(|at| latency.at(at));
        assert_eq!((ends(&merged), merged.min(), merged.max()), (ends(&one), one.min(), one.max()));
        let error = one.at(0.75).abs_diff(123_456_789);
        assert!(error <= 123_457, "three digits hold: {error} ns off");
    }
}
