//! What a shard's connections of HTTP/2 do.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::wire::http2::{Counts, ErrorCode};

/// What is open now.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::runtime) struct Open {
    pub(in crate::runtime) connections: usize,
    pub(in crate::runtime) streams: usize,
    pub(in crate::runtime) watches: usize,
}

/// Counts of one shard.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Http2Tally {
    /// Open connections, their streams, and how many of those carry watches.
    pub(in crate::runtime) connections: AtomicU64,
    pub(in crate::runtime) streams: AtomicU64,
    pub(in crate::runtime) watches: AtomicU64,
    reset_by_client: AtomicU64,
    reset: AtomicU64,
    refused: AtomicU64,
    too_large: AtomicU64,
    /// Connections that ended because the client broke a rule, by the code that it was told.
    faults: [AtomicU64; ErrorCode::ALL.len()],
}

fn add(to: &AtomicU64, count: u32) {
    to.fetch_add(u64::from(count), Ordering::Relaxed);
}

impl Http2Tally {
    pub(in crate::runtime) fn put(&self, open: Open) {
        let Open { connections, streams, watches } = open;
        self.connections.store(connections as u64, Ordering::Relaxed);
        self.streams.store(streams as u64, Ordering::Relaxed);
        self.watches.store(watches as u64, Ordering::Relaxed);
    }

    pub(in crate::runtime) fn add(&self, counts: &Counts) {
        add(&self.reset_by_client, counts.reset_by_peer);
        add(&self.reset, counts.reset.saturating_sub(counts.refused));
        add(&self.refused, counts.refused);
        add(&self.too_large, counts.too_large);
    }

    pub(in crate::runtime) fn failed(&self, code: ErrorCode) {
        if let Some(at) = ErrorCode::ALL.iter().position(|known| *known == code) {
            add(&self.faults[at], 1);
        }
    }

    /// Streams that did not end as usual, by the reason.
    pub(in crate::runtime) fn streams_by_reason(&self) -> [(&'static str, u64); 4] {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("reset_by_client", read(&self.reset_by_client)),
            ("protocol", read(&self.reset)),
            ("limit", read(&self.refused)),
            ("fields_too_large", read(&self.too_large)),
        ]
    }

    /// Connections that ended because the client broke a rule.
    pub(in crate::runtime) fn faults(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.faults.iter().map(|count| count.load(Ordering::Relaxed));
        ErrorCode::ALL.iter().map(|code| code.name()).zip(counts)
    }
}
