//! The shard: deliveries to 10,000 live watchers, into an outlet that takes everything.
//!
//! Only the shard's turns are timed. The figure that counts is the time per delivery, which Criterion shows as
//! elements a second.

mod support;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use revcast_engine::selector::{FieldSelector, LabelSelector, Selector};
use support::Watched;

const WATCHERS: usize = 10_000;

/// Selectors that all match the bench's object, in `classes` classes.
fn matching(number: usize, classes: usize) -> Selector {
    let text = format!("tier notin (n{})", number % classes);
    Selector::new(LabelSelector::parse(&text).expect("it is valid"), FieldSelector::default())
}

fn delivering(c: &mut Criterion) {
    let mut group = c.benchmark_group("shard/deliveries_to_10000_live");
    group.throughput(Throughput::Elements(WATCHERS as u64));
    for classes in [1, 1_000, 10_000] {
        let mut watched = Watched::new((0..WATCHERS).map(|number| matching(number, classes)));
        assert_eq!(watched.shard.stats().classes, classes as u64);
        let deliveries = WATCHERS as u64;
        group.bench_function(format!("{classes}_classes"), |b| {
            b.iter_custom(|n| watched.time_rounds(n, 1, "node-1", deliveries));
        });
        assert_eq!(watched.outlet.sends, watched.shard.stats().events_sent, "one send a delivery");
    }
    // Many events at once: a run of 16 frames is one send a watcher. Still per event.
    let mut watched = Watched::new((0..WATCHERS).map(|number| matching(number, 1)));
    group.bench_function("1_classes/16_events_a_round", |b| {
        b.iter_custom(|n| watched.time_rounds(n, 16, "node-1", WATCHERS as u64));
    });
}

criterion_group!(benches, delivering);
criterion_main!(benches);
