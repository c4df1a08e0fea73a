//! A reserve of descriptors: when clients have taken the rest, operators and health checks are still answered.
//!
//! The kernel assigns the lowest free number. So a connection whose number is in the reserve shows that none below it is free:
//! on the public listener it is served for one health check, if only a few such are open, or else refused.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Resource, getrlimit};

/// Descriptors that clients do not get; an eighth of all, if there are few.
const RESERVED: u64 = 24;
/// Connections of the public listener that are served from the reserve at once.
const HEALTH_CHECKS_MAX: usize = 8;

/// The reserve of one process.
#[derive(Debug)]
pub(super) struct Reserve {
    /// The first number that is reserved.
    first: RawFd,
    health_checks: AtomicUsize,
}

impl Reserve {
    /// By the limit of this process (nofile).
    pub(super) fn new() -> Arc<Self> {
        Self::of(getrlimit(Resource::Nofile).current)
    }

    fn of(nofile: Option<u64>) -> Arc<Self> {
        let first = nofile.map_or(RawFd::MAX, |nofile| {
            RawFd::try_from(nofile - RESERVED.min(nofile / 8)).unwrap_or(RawFd::MAX)
        });
        Arc::new(Self { first, health_checks: AtomicUsize::new(0) })
    }

    /// Whether a descriptor is one of the reserve.
    pub(super) const fn holds(&self, fd: RawFd) -> bool {
        fd >= self.first
    }

    /// A permit for a connection that makes a health check; `None`: the limit is reached.
    pub(super) fn admit(self: &Arc<Self>) -> Option<HealthPermit> {
        let permit = HealthPermit(Arc::clone(self));
        (self.health_checks.fetch_add(1, Ordering::Relaxed) < HEALTH_CHECKS_MAX).then_some(permit)
    }
}

/// A connection that is served from the reserve.
#[derive(Debug)]
pub(super) struct HealthPermit(Arc<Reserve>);

impl Drop for HealthPermit {
    fn drop(&mut self) {
        self.0.health_checks.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_numbers_are_reserved() {
        let reserve = Reserve::of(Some(1024));
        assert!(!reserve.holds(999) && reserve.holds(1000));
        assert!(Reserve::of(Some(80)).holds(70) && !Reserve::of(Some(80)).holds(69));
        assert!(!Reserve::of(None).holds(1 << 30));
    }

    #[test]
    fn few_health_checks_are_admitted_at_once() {
        let reserve = Reserve::of(Some(1024));
        let mut permits: Vec<_> = (0..HEALTH_CHECKS_MAX).map_while(|_| reserve.admit()).collect();
        assert_eq!(permits.len(), HEALTH_CHECKS_MAX);
        assert!(reserve.admit().is_none());
        permits.pop();
        assert!(reserve.admit().is_some());
    }
}
