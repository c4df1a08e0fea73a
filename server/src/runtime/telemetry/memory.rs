//! Memory by use.

use std::sync::atomic::Ordering;

use super::page::{Kind, Page};
use crate::runtime::shared::Shared;

/// Bytes by kind, in the order of the output.
pub(in crate::runtime) fn kinds(shared: &Shared) -> [(&'static str, u64); 5] {
    let tallies = || shared.handles.0.iter().map(|handle| &handle.tally);
    let epoch = shared.app.epoch();
    [
        ("window", epoch.feed.window_bytes()),
        ("index", epoch.feed.snapshot().bytes()),
        ("watchers", tallies().map(|tally| tally.watchers_bytes.load(Ordering::Relaxed)).sum()),
        ("pages", tallies().map(|tally| tally.pages_bytes.load(Ordering::Relaxed)).sum()),
        ("requests", shared.account.charged()),
    ]
}

pub(super) fn render(page: &mut Page, shared: &Shared) {
    page.each(
        Kind::Gauge,
        "revcast_memory_bytes",
        "Memory by what it is for. Window and index share the newest states.",
        "kind",
        kinds(shared),
    );
    page.gauge(
        "revcast_memory_max_bytes",
        "Resident memory that the process may take; 0: as much as there is.",
        shared.memory.max.unwrap_or(0),
    );
}
