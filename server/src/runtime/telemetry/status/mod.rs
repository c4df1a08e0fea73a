//! `/status`: the state of the server, as one JSON document for people and scripts.
//!
//! Owns the names in it, which do not change; more may be added. It is read from the same copies as the metrics. What only grows, such
//! as counts and buckets, is since the start: rates are differences of two documents.

mod errors;
mod stages;
mod watchers;

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::memory::kinds;
use super::page::seconds;
use crate::runtime::shared::Shared;
use crate::runtime::sys::procfs;
use crate::serve::{Life, why_not_cached};
use crate::upstream::Current;

/// The document, for people.
pub(in crate::runtime) fn render(shared: &Shared) -> String {
    let mut text = serde_json::to_string_pretty(&document(shared)).unwrap_or_default();
    text.push('\n');
    text
}

/// The document as one line.
pub(in crate::runtime) fn line(shared: &Shared) -> String {
    format!("{}\n", document(shared))
}

/// Times are in seconds, memory in bytes.
fn document(shared: &Shared) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptimeSeconds": shared.clock.elapsed().as_secs_f64(),
        "startedAt": jiff::Timestamp::try_from(shared.clock.started_at()).ok().map(|at| format!("{at:.3}")),
        "life": match shared.app.life() {
            Life::Starting => "starting",
            Life::Serving => "serving",
            Life::Lingering => "leaving",
            Life::Closing => "closing",
        },
        "listen": {
            "api": shared.listen.to_string(),
            "admin": shared.admin_listen.map(|address| address.to_string()),
        },
        // null: memory has no limit.
        "limits": {
            "watchers": shared.watchers_max,
            "shards": shared.handles.0.len(),
            "memory": shared.memory.max,
        },
        "source": source(shared),
        // null: there is none.
        "upstream": shared.upstream.as_ref().map(|upstream| beside(shared, upstream)),
        "window": window(shared),
        "memory": memory(shared),
        "shards": shards(shared),
        "totals": totals(shared),
        "watchers": watchers::render(shared),
        "stages": stages::render(shared),
        "errors": errors::render(shared),
    })
}

fn totals(shared: &Shared) -> Value {
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    json!({
        "eventsReceived": shared.app.epochs().events(),
        "messagesSerialized": shared.app.epochs().messages_made(),
        "writes": read(&shared.commands.stats.writes),
    })
}

fn source(shared: &Shared) -> Value {
    let epoch = shared.app.epoch();
    let remote = &shared.commands.stats.remote;
    let snapshot = epoch.feed.snapshot();
    let unreadable = snapshot.unreadable_by_reason().filter(|(_, count)| *count > 0);
    let unreadable: serde_json::Map<String, Value> =
        unreadable.map(|(reason, count)| (reason.name().to_owned(), count.into())).collect();
    let stale = if shared.remote { remote.stale().map(|age| age.as_secs_f64()) } else { Some(0.0) };
    json!({
        "kind": if shared.remote { "etcd" } else { "embedded" },
        "is": shared.source,
        "ready": epoch.is_ready(),
        "revision": epoch.feed.revision().get(),
        "epoch": epoch.number,
        // null: there is no proof yet.
        "staleSeconds": stale,
        "objects": snapshot.total(),
        "unreadable": snapshot.unreadable_total(),
        "unreadableByReason": unreadable,
        "failed": shared.commands.stats.failed.load(Ordering::Relaxed),
    })
}

/// The API server beside this one, and which of its resources are served here.
fn beside(shared: &Shared, upstream: &Current) -> Value {
    let terms = upstream.terms();
    let places = terms.places.iter().map(|place| {
        json!({
            "url": place.endpoint.to_string(),
            "addresses": place.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    });
    let catalog = shared.app.catalog();
    let resources = catalog.registry.iter().map(|resource| {
        let why = why_not_cached(&shared.app, resource);
        json!({
            "resource": format!("{}/{}", resource.api_version(), resource.plural),
            "servedFrom": if why.is_none() { "cache" } else { "upstream" },
            "because": why,
        })
    });
    json!({
        "endpoints": places.collect::<Vec<_>>(),
        "identity": upstream.options().identity.to_string(),
        "resources": resources.collect::<Vec<_>>(),
    })
}

fn window(shared: &Shared) -> Value {
    let epoch = shared.app.epoch();
    let oldest = epoch.feed.oldest();
    let age = oldest.map(|(_, arrived)| shared.clock.now().since(arrived).as_secs_f64());
    json!({
        "events": epoch.feed.window(),
        "eventsMax": shared.ring.events,
        "bytes": epoch.feed.window_bytes(),
        "bytesMax": epoch.feed.window_bytes_max(),
        // null: the window is empty.
        "oldestRevision": oldest.map(|(revision, _)| revision.get()),
        "forgottenRevision": epoch.feed.forgotten().get(),
        "ageSeconds": age,
    })
}

fn memory(shared: &Shared) -> Value {
    let mut all: serde_json::Map<String, Value> =
        kinds(shared).into_iter().map(|(kind, bytes)| (kind.to_owned(), bytes.into())).collect();
    all.insert("resident".to_owned(), procfs::memory().map(|(resident, _)| resident).into());
    Value::Object(all)
}

fn shards(shared: &Shared) -> Vec<Value> {
    let now = shared.clock.now();
    let of = |(number, handle): (usize, &crate::runtime::shards::ShardHandle)| {
        let stats = handle.stats.load();
        let (events, ns) = handle.tally.lag();
        json!({
            "number": number,
            "watchers": stats.watchers,
            "live": stats.live,
            "behind": stats.watchers.saturating_sub(stats.live),
            "blocked": handle.tally.blocked.load(Ordering::Relaxed),
            "classes": stats.classes,
            "revision": handle.tally.revision.load(Ordering::Relaxed),
            "lagEvents": events,
            "lagSeconds": std::time::Duration::from_nanos(ns).as_secs_f64(),
            "eventsSent": stats.events_sent,
            "bytesSent": stats.bytes_sent,
            "cpuSeconds": seconds(handle.tally.cpu_ns.load(Ordering::Relaxed)),
            "lastTurnSecondsAgo": now.since(handle.tally.last_turn()).as_secs_f64(),
        })
    };
    shared.handles.0.iter().enumerate().map(of).collect()
}
