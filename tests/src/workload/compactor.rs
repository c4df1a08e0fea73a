//! Who compacts etcd while clients run.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::etcd::Gateway;

/// Compacts etcd, until it is dropped.
#[derive(Debug)]
pub struct Compactor(Arc<AtomicBool>);

impl Compactor {
    /// Every second, to the revision of this time ago.
    #[must_use]
    pub fn start(endpoint: &str, ago: Duration) -> Self {
        let (mut gateway, over) = (Gateway::new(endpoint), Arc::<AtomicBool>::default());
        let stops = Arc::clone(&over);
        std::thread::spawn(move || {
            let mut known = VecDeque::new();
            while !stops.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_secs(1));
                // etcd may be away.
                known.extend(gateway.revision().map(|revision| (Instant::now(), revision)));
                while let Some((at, revision)) = known.front().copied()
                    && at.elapsed() >= ago
                {
                    known.pop_front();
                    let _ = gateway.compact(revision);
                }
            }
        });
        Self(over)
    }
}

impl Drop for Compactor {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
