//! The one clock: CLOCK_MONOTONIC in ns, which all processes share, so that a watcher can compare what a writer stamped.

use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::Duration;

pub(crate) const SECOND_NS: u64 = 1_000_000_000;

pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * SECOND_NS + now.tv_nsec.unsigned_abs()
}

/// A duration in nanoseconds; at most 584 years.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn sleep_until(at_ns: u64) {
    std::thread::sleep(Duration::from_nanos(at_ns.saturating_sub(now_ns())));
}

/// A timeout for `poll` and `epoll_wait`.
pub(crate) fn timeout(wait_ns: u64) -> Timespec {
    Timespec::try_from(Duration::from_nanos(wait_ns)).expect("64 bits of nanoseconds are 584 years")
}
