//! Forwarded requests by code, their durations, and why there was no reply.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::requests::CODES;
use crate::durations::{Durations, add};
use crate::upstream::UpstreamError;

/// The names of [`UpstreamError`].
pub(in crate::runtime) const FAILURES: [&str; 6] =
    ["absent", "unreachable", "slow", "broken", "request", "busy"];

/// The forwarded requests of one shard.
#[derive(Debug, Default)]
pub(in crate::runtime) struct UpstreamTally {
    pub(in crate::runtime) codes: [AtomicU64; CODES.len()],
    pub(in crate::runtime) failures: [AtomicU64; FAILURES.len()],
    pub(in crate::runtime) durations: Durations,
    /// Connections that carry a request.
    pub(in crate::runtime) busy: AtomicU64,
    /// Those that wait for one.
    pub(in crate::runtime) idle: AtomicU64,
}

impl UpstreamTally {
    /// The head of a reply came.
    pub(in crate::runtime) fn answered(&self, code: u16, took: Duration) {
        let at = CODES.iter().position(|(known, _)| *known == code).unwrap_or(CODES.len() - 1);
        add(&self.codes[at], 1);
        self.durations.observe(took);
    }

    /// So many connections are open, and so many of them idle.
    pub(in crate::runtime) fn connections(&self, (open, idle): (usize, usize)) {
        self.busy.store(open.saturating_sub(idle) as u64, Ordering::Relaxed);
        self.idle.store(idle as u64, Ordering::Relaxed);
    }

    /// There is no reply, or not all of it.
    pub(in crate::runtime) fn failed(&self, error: &UpstreamError) {
        if let Some(at) = FAILURES.iter().position(|name| *name == error.name()) {
            add(&self.failures[at], 1);
        }
    }
}
