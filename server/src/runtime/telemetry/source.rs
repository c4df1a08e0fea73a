//! The source of changes: its staleness, its epochs, its writes.
//!
//! All names are present whatever the source is; with the embedded store those of a remote source are constant.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::page::Page;
use crate::runtime::shared::Shared;

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn truth(flag: &AtomicBool) -> u64 {
    u64::from(flag.load(Ordering::Relaxed))
}

pub(super) fn render(page: &mut Page, shared: &Shared) {
    let stats = &shared.commands.stats;
    page.counter("revcast_writes_total", "Transactions made.", read(&stats.writes));
    page.counter("revcast_writes_refused_total", "Transactions refused.", read(&stats.refused));
    page.counter(
        "revcast_leases_expired_total",
        "Objects deleted because they had expired.",
        read(&stats.expired),
    );
    page.counter("revcast_store_flushes_total", "Groups of writes made durable.", read(&stats.flushes));
    page.counter(
        "revcast_source_backlogged_total",
        "Times that the source waited for a shard.",
        read(&stats.backlogged),
    );
    page.gauge(
        "revcast_store_compacted_revision",
        "The revision up to which the store has compacted history.",
        read(&stats.compacted),
    );
    page.gauge("revcast_store_full", "1 while the store has no room and refuses writes.", truth(&stats.full));
    page.gauge(
        "revcast_store_failed",
        "1 when the store has failed and refuses writes.",
        truth(&stats.failed),
    );
    remote(page, shared);
}

/// What there is to report about a remote source.
fn remote(page: &mut Page, shared: &Shared) {
    let epoch = shared.app.epoch();
    let stats = &shared.commands.stats.remote;
    // The embedded store publishes before it answers a writer.
    let stale = if shared.remote { stats.stale().map_or(f64::NAN, |age| age.as_secs_f64()) } else { 0.0 };
    page.gauge(
        "revcast_source_stale_seconds",
        "How long ago the state here was last proven to have every write; NaN: never.",
        stale,
    );
    page.gauge(
        "revcast_source_epoch",
        "Which history of revisions is served, counted from the start.",
        epoch.number,
    );
    page.gauge(
        "revcast_source_ready",
        "1 when the state of the source is loaded and valid.",
        u64::from(epoch.is_ready()),
    );
    for (name, help, counter) in [
        ("revcast_source_watches_total", "Watch streams that were opened.", &stats.watches),
        (
            "revcast_source_watch_restarts_total",
            "Watch streams and attempts at one that ended.",
            &stats.breaks,
        ),
        ("revcast_source_loads_total", "Times that the whole state was loaded.", &stats.loads),
        ("revcast_source_loaded_objects_total", "Objects that were loaded.", &stats.loaded_objects),
        (
            "revcast_source_read_index_requests_total",
            "Times that etcd was asked for its newest revision.",
            &stats.questions,
        ),
        ("revcast_source_answered_total", "Shards that were answered by those.", &stats.answered),
        (
            "revcast_source_progress_requests_total",
            "Times that a watch was asked for its progress.",
            &stats.progress_requests,
        ),
        (
            "revcast_source_events_repeated_total",
            "Events that arrived again and were dropped.",
            &stats.repeated,
        ),
        (
            "revcast_source_events_ignored_total",
            "Events of keys that belong to no served resource.",
            &stats.foreign,
        ),
        (
            "revcast_source_failures_total",
            "Requests to etcd that failed for lack of a connection.",
            &stats.failures,
        ),
        ("revcast_source_leases_total", "Leases that were granted.", &stats.leases),
    ] {
        page.counter(name, help, read(counter));
    }
}
