//! From the source to the last watcher: durations since the start, in buckets. The difference of two documents is what happened
//! between them.

use revcast_engine::histogram::{BOUNDS_NS, Histogram};
use serde_json::{Value, json};

use crate::durations::Durations;
use crate::runtime::shards::ShardHandle;
use crate::runtime::shared::Shared;
use crate::runtime::telemetry::page::seconds;

pub(super) fn render(shared: &Shared) -> Value {
    let all = |read: fn(&ShardHandle) -> &Durations| {
        shared.handles.0.iter().fold(Histogram::default(), |sum, handle| sum.plus(&read(handle).load()))
    };
    let of = |histogram: &Histogram| json!({"counts": histogram.counts(), "sumSeconds": seconds(histogram.sum_ns())});
    json!({
        "boundsSeconds": BOUNDS_NS.map(seconds),
        "ring": of(&shared.commands.stats.publishing.load()),
        "firstWrite": of(&all(|handle| &handle.tally.first_write)),
        "lastWrite": of(&all(|handle| &handle.tally.last_write)),
        "turnDelay": of(&all(|handle| &handle.tally.turn_delay)),
    })
}
