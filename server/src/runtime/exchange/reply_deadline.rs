//! The deadline of a reply: a peer that reads slowly must not hold a list, and the snapshot that the list is made of, for as
//! long as it likes.

use std::time::{Duration, Instant};

/// Bytes per second that a peer must take on average, after the time that every reply has.
const BYTES_PER_SECOND: u64 = 64 << 10;

/// The deadline of one reply.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime) struct ReplyDeadline {
    begun: Instant,
    grace: Duration,
    sent: u64,
}

impl ReplyDeadline {
    /// For a reply that begins now and has at least `grace`.
    pub(in crate::runtime) fn new(grace: Duration) -> Self {
        Self { begun: Instant::now(), grace, sent: 0 }
    }

    /// The peer took this many bytes.
    pub(in crate::runtime) fn took(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }

    /// The time that is left.
    pub(in crate::runtime) fn left(&self, now: Instant) -> Duration {
        let earned = Duration::from_millis(self.sent.saturating_mul(1000) / BYTES_PER_SECOND);
        (self.grace + earned).saturating_sub(now.saturating_duration_since(self.begun))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_earns_time() {
        let mut pace = ReplyDeadline::new(Duration::from_secs(60));
        let after = |seconds| pace.begun + Duration::from_secs(seconds);
        let (begun, later, late) = (after(0), after(59), after(61));
        assert_eq!(pace.left(begun), Duration::from_secs(60));
        assert_eq!(pace.left(later), Duration::from_secs(1));
        assert_eq!(pace.left(late), Duration::ZERO);
        pace.took(640 << 10);
        assert_eq!(pace.left(late), Duration::from_secs(9));
    }
}
