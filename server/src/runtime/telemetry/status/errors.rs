//! What went wrong since the start, by reason. Requests by code: those that were refused or failed, and 0 for a connection that broke
//! before a reply.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value, json};

use crate::runtime::shards::ShardHandle;
use crate::runtime::shared::Shared;
use crate::runtime::tally::{CODES, Ending, FAILURES, Refusal};

/// The lowest code of a refusal.
const REFUSED: u16 = 400;

pub(super) fn render(shared: &Shared) -> Value {
    let handles = &shared.handles.0;
    let sum = |read: &dyn Fn(&ShardHandle) -> &AtomicU64| -> u64 {
        handles.iter().map(|handle| read(handle).load(Ordering::Relaxed)).sum()
    };
    let of_code = |at: usize| -> u64 {
        let verbs = handles.iter().flat_map(|handle| &handle.tally.requests.counts);
        verbs.map(|codes| codes[at].load(Ordering::Relaxed)).sum()
    };
    let codes = CODES.iter().enumerate().filter(|(_, (code, _))| *code == 0 || *code >= REFUSED);
    let requests = codes.map(|(at, (_, name))| (*name, of_code(at))).filter(|(_, count)| *count > 0);
    let ended = Ending::ALL.map(|why| (why.name(), sum(&|handle| &handle.tally.ended[why as usize])));
    let refused = Refusal::ALL.map(|why| (why.name(), sum(&|handle| &handle.tally.refused[why as usize])));
    let upstream = FAILURES.iter().enumerate();
    let upstream = upstream.map(|(at, name)| (*name, sum(&|handle| &handle.tally.upstream.failures[at])));
    let mut streams: BTreeMap<&str, u64> = BTreeMap::new();
    for (reason, count) in handles.iter().flat_map(|handle| handle.tally.http2.streams_by_reason()) {
        *streams.entry(reason).or_default() += count;
    }
    let remote = &shared.commands.stats.remote;
    json!({
        "requests": object(requests),
        "watchesEnded": object(ended),
        "connectionsRefused": object(refused),
        "http2StreamsFailed": object(streams),
        "upstream": object(upstream),
        "source": {
            "failures": remote.failures.load(Ordering::Relaxed),
            "watchRestarts": remote.breaks.load(Ordering::Relaxed),
        },
        "panics": shared.panics.load(Ordering::Relaxed),
        "logLinesDropped": crate::log::dropped(),
        "auditLinesDropped": shared.audit.as_ref().map_or(0, |audit| audit.counts().1),
    })
}

fn object<'a>(counts: impl IntoIterator<Item = (&'a str, u64)>) -> Value {
    let members = counts.into_iter().map(|(name, count)| (name.to_owned(), count.into()));
    Value::Object(members.collect::<Map<_, _>>())
}
