//! The shard: one turn after another over 100 to 100,000 live watchers, into an outlet that counts and takes everything.
//!
//! Only the shard's turns are timed, and what they delivered is asserted. The figure that counts is the time per delivery,
//! which Criterion shows as elements a second; it is the engine's own share, without a system call. It should be the same
//! for every number of watchers. What a delivery touches of its watcher is its number, 8 bytes in an array that is
//! read from end to end; nothing else, so 100,000 watchers are 0.8 MB that the prefetcher brings.

mod support;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use revcast_engine::selector::{FieldSelector, LabelSelector, Selector};
use support::Watched;

/// Selectors that all match the bench's object, in `classes` classes.
fn matching(number: usize, classes: usize) -> Selector {
    let text = format!("tier notin (n{})", number % classes);
    Selector::new(LabelSelector::parse(&text).expect("it is valid"), FieldSelector::default())
}

/// Deliveries of `watchers` watchers in `classes` classes, with 1 and with 16 events a round: a run of 16 messages is one
/// send a watcher, and a delivery is still one event to one watcher.
fn delivering(c: &mut Criterion, classes: usize, watchers: &[usize]) {
    let mut group = c.benchmark_group(format!("shard/{classes}_classes"));
    for &watchers in watchers {
        let mut watched = Watched::new((0..watchers).map(|number| matching(number, classes)));
        assert_eq!(watched.shard.stats().classes, classes as u64);
        group.throughput(Throughput::Elements(watchers as u64));
        for events in [1, 16] {
            group.bench_function(BenchmarkId::new(format!("{events}_events_a_round"), watchers), |b| {
                b.iter_custom(|n| watched.time_rounds(n, events, "node-1", watchers as u64));
            });
        }
        let (sends, rounds) = (watched.outlet.sends, watched.shard.stats().rounds);
        assert_eq!(sends, rounds * watchers as u64, "one send a watcher and round");
    }
}

fn turns(c: &mut Criterion) {
    delivering(c, 1, &[100, 1_000, 10_000, 100_000]);
    delivering(c, 1_000, &[1_000, 10_000, 100_000]);
    delivering(c, 10_000, &[10_000]);
}

criterion_group!(benches, turns);
criterion_main!(benches);
