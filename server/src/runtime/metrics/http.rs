//! Requests by verb and code, and how long they took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use revcast_engine::histogram::Histogram;

use super::page::{Kind, Page};
use crate::durations::{Durations, add};
use crate::http::request_info::Verb;
use crate::runtime::handoff::ShardHandle;

/// The codes that are told apart; any other is `other`. 0: the connection broke before there was a reply.
const CODES: [(u16, &str); 32] = [
    (0, "0"),
    (101, "101"),
    (200, "200"),
    (201, "201"),
    (202, "202"),
    (204, "204"),
    (304, "304"),
    (400, "400"),
    (401, "401"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (406, "406"),
    (408, "408"),
    (409, "409"),
    (410, "410"),
    (411, "411"),
    (412, "412"),
    (413, "413"),
    (414, "414"),
    (415, "415"),
    (417, "417"),
    (422, "422"),
    (429, "429"),
    (431, "431"),
    (500, "500"),
    (501, "501"),
    (503, "503"),
    (504, "504"),
    (505, "505"),
    (507, "507"),
    (u16::MAX, "other"),
];
const VERBS: usize = Verb::ALL.len();

/// The requests of one shard.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Requests {
    counts: [[AtomicU64; CODES.len()]; VERBS],
    durations: [Durations; VERBS],
}

impl Requests {
    /// Counts one that is over, or a watch whose head was sent.
    pub(in crate::runtime) fn count(&self, verb: Verb, code: u16, took: Duration) {
        let at = CODES.iter().position(|(known, _)| *known == code).unwrap_or(CODES.len() - 1);
        add(&self.counts[verb as usize][at], 1);
        self.durations[verb as usize].observe(took);
    }
}

pub(super) fn render(page: &mut Page, handles: &[ShardHandle]) {
    let all = || handles.iter().map(|handle| &handle.tally.requests);
    let sums = Verb::ALL
        .iter()
        .flat_map(|verb| CODES.iter().enumerate().map(move |(at, (_, code))| (*verb, *code, at)));
    let sums = sums.map(|(verb, code, at)| {
        let sum: u64 = all().map(|it| it.counts[verb as usize][at].load(Ordering::Relaxed)).sum();
        (vec![("verb", verb.as_str()), ("code", code)], sum)
    });
    // What never happened is not told, but for one line a verb, so that a rate begins at zero.
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
