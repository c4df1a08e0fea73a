//! Requests by verb and code, and their durations.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::durations::{Durations, add};
use crate::http::request_info::Verb;

/// The codes that are counted separately; any other is `other`. 0: the connection failed before there was a reply.
pub(in crate::runtime) const CODES: [(u16, &str); 32] = [
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
    (413, "413"),
    (414, "414"),
    (415, "415"),
    (417, "417"),
    (422, "422"),
    (429, "429"),
    (431, "431"),
    (500, "500"),
    (501, "501"),
    (502, "502"),
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
    pub(in crate::runtime) counts: [[AtomicU64; CODES.len()]; VERBS],
    pub(in crate::runtime) durations: [Durations; VERBS],
}

impl Requests {
    /// Counts a finished request, or a watch whose head was sent.
    pub(in crate::runtime) fn count(&self, verb: Verb, code: u16, took: Duration) {
        let at = CODES.iter().position(|(known, _)| *known == code).unwrap_or(CODES.len() - 1);
        add(&self.counts[verb as usize][at], 1);
        self.durations[verb as usize].observe(took);
    }
}
