//! Requests by verb and code, and their durations.

use std::sync::atomic::Ordering;

use revcast_engine::histogram::Histogram;

use super::page::{Kind, Page};
use crate::http::request_info::Verb;
use crate::runtime::shards::ShardHandle;
use crate::runtime::tally::CODES;

pub(super) fn render(page: &mut Page, handles: &[ShardHandle]) {
    let all = || handles.iter().map(|handle| &handle.tally.requests);
    let sums = Verb::ALL
        .iter()
        .flat_map(|verb| CODES.iter().enumerate().map(move |(at, (_, code))| (*verb, *code, at)));
    let sums = sums.map(|(verb, code, at)| {
        let sum: u64 = all().map(|it| it.counts[verb as usize][at].load(Ordering::Relaxed)).sum();
        (vec![("verb", verb.as_str()), ("code", code)], sum)
    });
    // Combinations that never occurred are left out, except one line per verb, so that a rate begins at zero.
    page.many(
        Kind::Counter,
        "revcast_http_requests_total",
        "Requests by verb and code. 0: the connection broke before a reply.",
        sums.filter(|(labels, sum)| *sum > 0 || labels[1].1 == "200"),
    );
    page.histograms(
        "revcast_http_request_duration_seconds",
        "From a request's head to the end of its reply; of a watch to the head of its reply.",
        "verb",
        Verb::ALL.iter().map(|verb| {
            let none = Histogram::default();
            (verb.as_str(), all().fold(none, |sum, it| sum.plus(&it.durations[*verb as usize].load())))
        }),
    );
}
