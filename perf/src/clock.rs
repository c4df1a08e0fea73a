//! The one clock: CLOCK_MONOTONIC in nanoseconds. All processes of a machine share it, so that a time stamped by the
//! writer can be compared by a watcher in another process.

use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::Duration;

pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec)
        .unwrap_or(0)
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

/// A duration in nanoseconds; at most 584 years.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Sleeps until the clock shows `at_ns`. Returns at once when that has passed.
pub(crate) fn sleep_until(at_ns: u64) {
    let wait_ns = at_ns.saturating_sub(now_ns());
    if wait_ns > 0 {
        std::thread::sleep(Duration::from_nanos(wait_ns));
    }
}

/// A timeout for `poll` and `epoll_wait`.
pub(crate) fn timeout(wait_ns: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(wait_ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(wait_ns % 1_000_000_000).unwrap_or(0),
    }
}
