//! Connections of HTTP/2 and their streams.

use std::sync::atomic::Ordering;

use super::page::{Kind, Page};
use crate::runtime::shards::ShardHandle;

pub(super) fn render(page: &mut Page, handles: &[ShardHandle]) {
    let streams =
        handles.iter().map(|handle| handle.tally.http2.streams.load(Ordering::Relaxed)).sum::<u64>();
    page.gauge("revcast_http2_streams_open", "Open streams of all connections of HTTP/2.", streams);
    let mut ended = [("", 0); 4];
    for handle in handles {
        for (sum, (reason, count)) in ended.iter_mut().zip(handle.tally.http2.streams_by_reason()) {
            *sum = (reason, sum.1 + count);
        }
    }
    page.each(
        Kind::Counter,
        "revcast_http2_streams_failed_total",
        "Streams that were reset or refused, by reason.",
        "reason",
        ended,
    );
    let mut faults: Vec<(&str, u64)> = Vec::new();
    for handle in handles {
        for (at, (code, count)) in handle.tally.http2.faults().enumerate() {
            match faults.get_mut(at) {
                Some(sum) => sum.1 += count,
                None => faults.push((code, count)),
            }
        }
    }
    page.each(
        Kind::Counter,
        "revcast_http2_connections_failed_total",
        "Connections that were ended with GOAWAY because the client broke a rule, by its code.",
        "code",
        faults,
    );
}
