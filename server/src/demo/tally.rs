//! What the demo counts, and how long deliveries took.

use std::time::Duration;

/// Each power of two of microseconds is divided into this many buckets: a percentile is right to 3 %.
const PARTS: usize = 32;
const PARTS_LOG2: usize = PARTS.trailing_zeros() as usize;
/// Buckets up to 2^32 µs, an hour.
const BUCKETS: usize = PARTS * 28;

/// Durations in buckets.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }
}

impl Latencies {
    pub(super) fn observe(&mut self, took: Duration) {
        let micros = usize::try_from(took.as_micros()).unwrap_or(usize::MAX);
        self.counts[bucket(micros).min(BUCKETS - 1)] += 1;
        self.total += 1;
    }

    /// Adds these and clears them.
    pub(super) fn take(&mut self, from: &mut Self) {
        self.counts.iter_mut().zip(&from.counts).for_each(|(sum, count)| *sum += count);
        self.total += from.total;
        from.counts.fill(0);
        from.total = 0;
    }

    /// The duration that this share (in thousandths) of all deliveries did not exceed, in microseconds; `None`: there were none.
    pub(super) fn permille(&self, share: u64) -> Option<u64> {
        let rank = (self.total * share).div_ceil(1000).max(1);
        let mut seen = 0;
        let reaches = |count: &u64| {
            seen += count;
            seen >= rank
        };
        self.counts.iter().position(reaches).map(|bucket| upper(bucket) as u64)
    }
}

const fn bucket(micros: usize) -> usize {
    if micros < PARTS {
        return micros;
    }
    let shift = micros.ilog2() as usize - PARTS_LOG2;
    (shift + 1) * PARTS + (micros >> shift) - PARTS
}

/// The largest duration of a bucket.
const fn upper(bucket: usize) -> usize {
    match bucket / PARTS {
        0 => bucket,
        power => ((bucket % PARTS + PARTS + 1) << (power - 1)) - 1,
    }
}

/// Counts since the start.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// Writes that were taken.
    pub(super) writes: u64,
    /// Writes that were refused, because another client had changed the object.
    pub(super) refused: u64,
    /// Events that those writes caused.
    pub(super) events: u64,
    /// Events that watchers were sent.
    pub(super) deliveries: u64,
    /// Those of them that other clients caused.
    pub(super) foreign: u64,
    /// Events that a watcher was not sent.
    pub(super) lost: u64,
    /// Events that a watcher was sent a second time, or after a newer one.
    pub(super) out_of_order: u64,
    /// Watches that ended and were resumed.
    pub(super) resumed: u64,
    /// Watches that could not be resumed: their clients listed again.
    pub(super) relisted: u64,
    /// Requests without a usable reply.
    pub(super) faults: u64,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn percentiles_are_near() {
        let mut part = Latencies::default();
        for micros in 1..=1000 {
            part.observe(Duration::from_micros(micros));
        }
        let mut all = Latencies::default();
        assert_eq!(all.permille(500), None);
        all.take(&mut part);
        assert_eq!(part.permille(500), None);
        for (share, exact) in [(500, 500), (990, 990), (1000, 1000), (10, 10), (0, 1)] {
            let near = all.permille(share).unwrap();
            assert!((exact..=exact + exact / 30).contains(&near), "{share}: {near}");
        }
        // A duration is never above its bucket's bound, nor within the bucket below.
        for micros in (0..100_000).step_by(7) {
            assert!(
                upper(bucket(micros)) >= micros && (micros == 0 || upper(bucket(micros) - 1) < micros),
                "{micros}"
            );
        }
        all.observe(Duration::MAX);
        assert!(all.permille(1000).unwrap() > 1 << 31);
    }
}
