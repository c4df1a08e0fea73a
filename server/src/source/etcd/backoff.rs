//! The wait before the next attempt.

use std::time::Duration;

/// The initial bound of a wait.
const FIRST: Duration = Duration::from_millis(50);
/// The longest bound.
const LAST: Duration = Duration::from_secs(5);

/// Waits that grow, each drawn uniformly from zero to its bound ("full jitter"), so that clients that failed together do not
/// retry together.
#[derive(Debug)]
pub(super) struct Backoff {
    bound: Duration,
    random: u64,
}

impl Backoff {
    pub(super) fn new() -> Self {
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let seed = u64::from(clock.subsec_nanos()) ^ u64::from(std::process::id()).rotate_left(32);
        Self { bound: FIRST, random: seed | 1 }
    }

    /// The attempt succeeded: the next wait is short again.
    pub(super) const fn reset(&mut self) {
        self.bound = FIRST;
    }

    /// The next wait.
    pub(super) fn next(&mut self) -> Duration {
        // xorshift64: no secret depends on it.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let nanos = u64::try_from(self.bound.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.bound = (self.bound * 2).min(LAST);
        Duration::from_nanos(self.random % nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_begin_again() {
        let mut backoff = Backoff::new();
        let mut longest = Duration::ZERO;
        for attempt in 0..200 {
            let wait = backoff.next();
            assert!(wait < LAST && (attempt > 0 || wait < FIRST), "{wait:?}");
            longest = longest.max(wait);
        }
        assert!(longest > Duration::from_secs(3), "{longest:?}");
        backoff.reset();
        assert!(backoff.next() < FIRST);
    }
}
