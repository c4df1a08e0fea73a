//! How the TLS handshakes of a shard end.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one shard.
#[derive(Debug, Default)]
pub(in crate::runtime) struct TlsTally {
    full: AtomicU64,
    resumed: AtomicU64,
    abandoned: AtomicU64,
    failed: AtomicU64,
}

impl TlsTally {
    /// A handshake was completed.
    pub(in crate::runtime) fn completed(&self, is_resumed: bool) {
        let count = if is_resumed { &self.resumed } else { &self.full };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection ended before its handshake was complete.
    pub(in crate::runtime) fn ended(&self, error: &io::Error) {
        let is_clients = matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
        );
        let count = if is_clients { &self.abandoned } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// How many ended how.
    pub(in crate::runtime) fn by_result(&self) -> [(&'static str, u64); 4] {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("full", read(&self.full)),
            ("resumed", read(&self.resumed)),
            ("abandoned", read(&self.abandoned)),
            ("failed", read(&self.failed)),
        ]
    }
}
