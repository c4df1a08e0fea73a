//! Connections: open, accepted, refused.

use std::sync::atomic::{AtomicU64, Ordering};

use super::page::{Kind, Page};
use crate::runtime::shards::ShardHandle;
use crate::runtime::tally::Refusal;

pub(super) fn render(page: &mut Page, handles: &[ShardHandle]) {
    let sum = |read: fn(&ShardHandle) -> &AtomicU64| -> u64 {
        handles.iter().map(|handle| read(handle).load(Ordering::Relaxed)).sum()
    };
    let http2 = sum(|handle| &handle.tally.http2.connections);
    let alone: u64 = handles
        .iter()
        .map(|handle| handle.watchers.load(Ordering::Relaxed) as u64)
        .sum::<u64>()
        .saturating_sub(sum(|handle| &handle.tally.http2.watches));
    page.each(
        Kind::Gauge,
        "revcast_connections_open",
        "Open connections, by what they carry now.",
        "carries",
        [("requests", sum(|handle| &handle.tally.open)), ("watch", alone), ("http2", http2)],
    );
    page.counter(
        "revcast_connections_accepted_total",
        "Connections that were accepted and served.",
        sum(|handle| &handle.tally.accepted),
    );
    page.each(
        Kind::Counter,
        "revcast_connections_refused_total",
        "Connections that were accepted and not served, by reason.",
        "reason",
        Refusal::ALL.map(|why| {
            let count: u64 =
                handles.iter().map(|handle| handle.tally.refused[why as usize].load(Ordering::Relaxed)).sum();
            (why.name(), count)
        }),
    );
}
