//! Latencies in an HdrHistogram: nanoseconds, three significant digits, up to one hour. Histograms of threads and
//! processes travel as (value, count) pairs and merge without loss, because all have the same buckets.

use hdrhistogram::Histogram;

/// Latencies above one hour count as one hour.
const HIGHEST_NS: u64 = 3_600_000_000_000;
const LOWEST_NS: u64 = 1_000;

/// The recorded buckets: the highest value of each and how often it was met.
pub(crate) type Pairs = Vec<(u64, u64)>;

#[derive(Debug)]
pub(crate) struct Latency {
    histogram: Histogram<u64>,
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl Latency {
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, 3)
            .expect("1 µs to one hour with three digits is a valid range");
        Self { histogram }
    }

    pub(crate) fn of<'a>(all: impl IntoIterator<Item = &'a Pairs>) -> Self {
        let mut latency = Self::new();
        all.into_iter().for_each(|pairs| latency.add(pairs));
        latency
    }

    pub(crate) fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
    }

    pub(crate) fn add(&mut self, pairs: &[(u64, u64)]) {
        for &(ns, count) in pairs {
            self.histogram.saturating_record_n(ns, count);
        }
    }

    pub(crate) fn pairs(&self) -> Pairs {
        self.histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
    }

    pub(crate) fn clear(&mut self) {
        self.histogram.reset();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    pub(crate) fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The latency that `quantile` (0..=1) of the recorded ones do not exceed; 0 when none was recorded.
    pub(crate) fn at(&self, quantile: f64) -> u64 {
        self.histogram.value_at_quantile(quantile)
    }

    /// The usual ones: p50, p90, p99, p99.9.
    pub(crate) fn quantiles(&self) -> [u64; 4] {
        [0.5, 0.9, 0.99, 0.999].map(|quantile| self.at(quantile))
    }

    pub(crate) fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    pub(crate) fn max(&self) -> u64 {
        self.histogram.max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_pairs_changes_nothing() {
        let mut one = Latency::new();
        for ns in [0, 900, 12_345, 999_999, 1_000_000, 123_456_789, 3_000_000_000, u64::MAX] {
            one.record(ns);
            one.record(ns);
        }
        let merged = Latency::of([&one.pairs()]);
        assert_eq!(merged.pairs(), one.pairs());
        for quantile in [0.1, 0.5, 0.9, 0.99, 1.0] {
            assert_eq!(merged.at(quantile), one.at(quantile));
        }
        let error = one.at(0.75).abs_diff(123_456_789);
        assert!(error <= 123_457, "three digits hold: {error} ns off");
    }
}
