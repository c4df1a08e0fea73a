//! A histogram that one thread fills and any thread reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use revcast_engine::histogram::{BUCKETS, Histogram};

/// Counts by bucket. Each is right; together they may be some observations apart.
#[derive(Debug, Default)]
pub struct Durations {
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

impl Durations {
    /// Counts one. Only one thread may: it neither locks nor asks other cores.
    pub fn observe(&self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        add(&self.counts[Histogram::bucket(took_ns)], 1);
        add(&self.sum_ns, took_ns);
    }

    /// Puts a copy of another one here.
    pub fn store(&self, histogram: &Histogram) {
        for (slot, count) in self.counts.iter().zip(histogram.counts()) {
            slot.store(*count, Ordering::Relaxed);
        }
        self.sum_ns.store(histogram.sum_ns(), Ordering::Relaxed);
    }

    /// A copy.
    #[must_use]
    pub fn load(&self) -> Histogram {
        let counts = std::array::from_fn(|at| self.counts[at].load(Ordering::Relaxed));
        Histogram::of(counts, self.sum_ns.load(Ordering::Relaxed))
    }
}

/// Adds to a count that only this thread writes.
pub(crate) fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_observed_is_read_elsewhere() {
        let durations = Durations::default();
        durations.observe(Duration::from_micros(3));
        durations.observe(Duration::from_secs(20));
        let read = std::thread::scope(|scope| scope.spawn(|| durations.load()).join().expect("a reader"));
        assert_eq!((read.count(), read.sum_ns()), (2, 20_000_003_000));
        assert_eq!((read.counts()[0], read.counts()[BUCKETS - 1]), (1, 1));
        let copy = Durations::default();
        copy.store(&read);
        assert_eq!(copy.load(), read);
    }
}
