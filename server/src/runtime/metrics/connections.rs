//! Connections: open, accepted, refused.

use std::sync::atomic::{AtomicU64, Ordering};

use super::page::{Kind, Page};
use super::tally::Refusal;
use crate::runtime::handoff::Door;

pub(super) fn render(page: &mut Page, doors: &[Door]) {
    let sum = |read: fn(&Door) -> &AtomicU64| -> u64 {
        doors.iter().map(|door| read(door).load(Ordering::Relaxed)).sum()
    };
    let watches: usize = doors.iter().map(|door| door.watchers.load(Ordering::Relaxed)).sum();
    page.each(
        Kind::Gauge,
        "revcast_connections_open",
        "Open connections, by what they carry now.",
        "carries",
        [("requests", sum(|door| &door.tally.open)), ("watch", watches as u64)],
    );
    page.counter(
        "revcast_connections_accepted_total",
        "Connections that were accepted and served.",
        sum(|door| &door.tally.accepted),
    );
    page.each(
        Kind::Counter,
        "revcast_connections_refused_total",
        "Connections that were accepted and not served, by reason.",
        "reason",
        Refusal::ALL.map(|why| {
            let count: u64 =
                doors.iter().map(|door| door.tally.refused[why as usize].load(Ordering::Relaxed)).sum();
            (why.name(), count)
        }),
    );
}
