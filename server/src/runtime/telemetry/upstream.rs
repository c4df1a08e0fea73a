//! Forwarded requests, and the connections that carry them.

use std::sync::atomic::{AtomicU64, Ordering};

use revcast_engine::histogram::Histogram;

use super::page::{Kind, Page};
use crate::runtime::shards::ShardHandle;
use crate::runtime::tally::{CODES, FAILURES, UpstreamTally};

pub(super) fn render(page: &mut Page, handles: &[ShardHandle]) {
    let all = || handles.iter().map(|handle| &handle.tally.upstream);
    let sum = |read: &dyn Fn(&UpstreamTally) -> &AtomicU64| -> u64 {
        all().map(|tally| read(tally).load(Ordering::Relaxed)).sum()
    };
    page.many(
        Kind::Counter,
        "revcast_upstream_requests_total",
        "Requests that the upstream answered, by code.",
        CODES
            .iter()
            .enumerate()
            .map(|(at, (_, code))| (vec![("code", *code)], sum(&|tally| &tally.codes[at])))
            .filter(|(labels, count)| *count > 0 || labels[0].1 == "200"),
    );
    page.each(
        Kind::Counter,
        "revcast_upstream_failures_total",
        "Requests to the upstream that got no complete reply, by reason.",
        "reason",
        FAILURES.iter().enumerate().map(|(at, reason)| (*reason, sum(&|tally| &tally.failures[at]))),
    );
    page.each(
        Kind::Gauge,
        "revcast_upstream_connections",
        "Connections to the upstream.",
        "state",
        [("busy", sum(&|tally| &tally.busy)), ("idle", sum(&|tally| &tally.idle))],
    );
    let none = Histogram::default();
    page.histograms(
        "revcast_upstream_request_duration_seconds",
        "From a forwarded request's head to the head of its reply.",
        "",
        [("", all().fold(none, |sum, tally| sum.plus(&tally.durations.load())))],
    );
}
