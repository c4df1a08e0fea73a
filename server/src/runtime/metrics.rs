//! Counts as Prometheus reads them, rendered from copies.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use revcast_engine::Stats;

use super::local::Shared;

/// Everything, in the text format 0.0.4.
pub(super) fn render(shared: &Shared) -> String {
    let mut out = String::with_capacity(8 << 10);
    let shards: Vec<Stats> = shared.doors.0.iter().map(|door| door.stats.load()).collect();
    let source = &shared.desk.stats;
    let epoch = shared.app.epoch();
    let feed = &epoch.feed;
    let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);

    per_shard(&mut out, &shards, "revcast_watchers", "gauge", "Watches that are open.", |s| s.watchers);
    per_shard(
        &mut out,
        &shards,
        "revcast_watchers_live",
        "gauge",
        "Open watches that have seen everything dispatched.",
        |s| s.live,
    );
    per_shard(
        &mut out,
        &shards,
        "revcast_classes",
        "gauge",
        "Classes of watches with equal interest.",
        |s| s.classes,
    );
    per_shard(&mut out, &shards, "revcast_watches_started_total", "counter", "Watches that began.", |s| {
        s.watches_started
    });
    per_shard(
        &mut out,
        &shards,
        "revcast_watches_ended_total",
        "counter",
        "Watches that ended, however.",
        |s| s.watches_ended,
    );
    per_shard(
        &mut out,
        &shards,
        "revcast_watches_evicted_total",
        "counter",
        "Watches that fell out of the window.",
        |s| s.evicted,
    );
    per_shard(
        &mut out,
        &shards,
        "revcast_events_sent_total",
        "counter",
        "Events handed to watchers whole.",
        |s| s.events_sent,
    );
    per_shard(
        &mut out,
        &shards,
        "revcast_bytes_sent_total",
        "counter",
        "Bytes that sockets of watches took.",
        |s| s.bytes_sent,
    );
    per_shard(
        &mut out,
        &shards,
        "revcast_bookmarks_sent_total",
        "counter",
        "Bookmarks handed to watchers.",
        |s| s.bookmarks_sent,
    );
    per_shard(
        &mut out,
        &shards,
        "revcast_heartbeats_sent_total",
        "counter",
        "Spaces sent to watches that were quiet.",
        |s| s.heartbeats_sent,
    );
    per_shard(
        &mut out,
        &shards,
        "revcast_sends_blocked_total",
        "counter",
        "Sends that a socket did not take whole.",
        |s| s.blocked,
    );
    per_shard(
        &mut out,
        &shards,
        "revcast_events_dispatched_total",
        "counter",
        "Events taken from the ring.",
        |s| s.events_dispatched,
    );
    per_shard(&mut out, &shards, "revcast_rounds_total", "counter", "Rounds of dispatch.", |s| s.rounds);

    let connections = shared.crowd.connections() as u64;
    one(&mut out, "revcast_connections", "gauge", "Connections that carry requests.", connections);
    let turned_away = read(&shared.crowd.turned_away);
    let help = "Connections beyond max-connections or max-connections-per-address.";
    one(&mut out, "revcast_connections_refused_total", "counter", help, turned_away);
    let panics = read(&shared.panics);
    one(&mut out, "revcast_panics_total", "counter", "Requests that panicked.", panics);
    one(
        &mut out,
        "revcast_frames_serialized_total",
        "counter",
        "Frames serialized: at most one an event, kind and encoding.",
        shared.app.epochs().frames_made(),
    );
    one(&mut out, "revcast_revision", "gauge", "The newest visible revision.", feed.revision().get());
    one(
        &mut out,
        "revcast_forgotten_revision",
        "gauge",
        "The newest revision that cannot be replayed.",
        feed.forgotten().get(),
    );
    one(&mut out, "revcast_window_events", "gauge", "Events in the ring.", feed.window());
    one(
        &mut out,
        "revcast_window_bytes",
        "gauge",
        "Bytes of frames that the ring keeps.",
        read(&source.window_bytes),
    );
    one(
        &mut out,
        "revcast_objects_unreadable",
        "gauge",
        "Objects whose stored value is none that revcast understands.",
        feed.unreadable_total() as u64,
    );
    one(&mut out, "revcast_objects", "gauge", "Objects in the index.", feed.snapshot().total() as u64);
    one(&mut out, "revcast_writes_total", "counter", "Transactions made.", read(&source.writes));
    one(&mut out, "revcast_writes_refused_total", "counter", "Transactions refused.", read(&source.refused));
    one(
        &mut out,
        "revcast_leases_expired_total",
        "counter",
        "Objects deleted because their time was over.",
        read(&source.expired),
    );
    one(
        &mut out,
        "revcast_store_flushes_total",
        "counter",
        "Groups of writes made durable.",
        read(&source.flushes),
    );
    one(
        &mut out,
        "revcast_source_backlogged_total",
        "counter",
        "Times that the source waited for a shard.",
        read(&source.backlogged),
    );
    one(
        &mut out,
        "revcast_store_compacted_revision",
        "gauge",
        "The revision up to which the store has forgotten history.",
        read(&source.compacted),
    );
    one(
        &mut out,
        "revcast_store_full",
        "gauge",
        "1 while the store has no room and refuses writes.",
        u64::from(source.full.load(Ordering::Relaxed)),
    );
    one(
        &mut out,
        "revcast_store_failed",
        "gauge",
        "1 when the store has failed and refuses writes.",
        u64::from(source.failed.load(Ordering::Relaxed)),
    );
    if shared.remote {
        remote(&mut out, shared);
    }
    one(&mut out, "revcast_watchers_max", "gauge", "Watches that may be open.", shared.watchers_max as u64);
    one(
        &mut out,
        "revcast_uptime_seconds",
        "gauge",
        "Since the server started.",
        shared.started.elapsed().as_secs(),
    );
    out
}

/// What there is to tell of a source elsewhere.
fn remote(out: &mut String, shared: &Shared) {
    let epoch = shared.app.epoch();
    let stats = &shared.desk.stats.remote;
    let name = "revcast_source_stale_seconds";
    head(
        out,
        name,
        "gauge",
        "How long ago everything then written was last proven to be visible here; NaN: never.",
    );
    let stale = stats.stale().map_or(f64::NAN, |age| age.as_secs_f64());
    let _ = writeln!(out, "{name} {stale}");
    one(
        out,
        "revcast_source_epoch",
        "gauge",
        "Which line of revisions is served, counted from the start.",
        epoch.number,
    );
    one(
        out,
        "revcast_source_ready",
        "gauge",
        "1 when a state of etcd is loaded and holds.",
        epoch.is_ready().into(),
    );
    let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    for (name, help, counter) in [
        ("revcast_source_watches_total", "Watch streams that were opened.", &stats.watches),
        ("revcast_source_breaks_total", "Watch streams and attempts at one that ended.", &stats.breaks),
        ("revcast_source_loads_total", "Times that the whole state was loaded.", &stats.loads),
        ("revcast_source_loaded_objects_total", "Objects that were loaded.", &stats.loaded_objects),
        (
            "revcast_source_questions_total",
            "Times that etcd was asked for its newest revision.",
            &stats.questions,
        ),
        ("revcast_source_answered_total", "Shards whose readers were answered by those.", &stats.answered),
        (
            "revcast_source_progress_requests_total",
            "Times that a watch was asked how far it is.",
            &stats.progress_requests,
        ),
        ("revcast_source_events_repeated_total", "Events that came again and were dropped.", &stats.repeated),
        (
            "revcast_source_events_foreign_total",
            "Events of keys that belong to no served resource.",
            &stats.foreign,
        ),
        (
            "revcast_source_failures_total",
            "Requests to etcd that failed for want of a connection.",
            &stats.failures,
        ),
        ("revcast_source_leases_total", "Leases that were granted.", &stats.leases),
    ] {
        one(out, name, "counter", help, read(counter));
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn one(out: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    head(out, name, kind, help);
    let _ = writeln!(out, "{name} {value}");
}

fn per_shard(
    out: &mut String,
    shards: &[Stats],
    name: &str,
    kind: &str,
    help: &str,
    read: impl Fn(&Stats) -> u64,
) {
    head(out, name, kind, help);
    for (number, stats) in shards.iter().enumerate() {
        let _ = writeln!(out, "{name}{{shard=\"{number}\"}} {}", read(stats));
    }
}
