//! Interest: what an event costs a shard with 10,000 classes of one watcher each, of which it matches one or none.
//!
//! `looked_up` is 10,000 kubelets, each with the pods of its node: found by the value; `other_labels` is 10,000 watches, each of
//! a different label that no object has. `evaluated` is 10,000 selectors that only exclude: no index can look these up, so
//! each is evaluated. Times are per event, with the ring, the round around it
//! and the delivery; `one_watcher` is the same events to a shard with a single watcher that matches all of them, and
//! `nobody` to one without any. `/1` is one event per round, with a complete turn and the clock for each; `/256`
//! shares a round.
//!
//! `one_node` is one match that stays in the processor's caches; in `all_nodes` each event is of another of 10,000 pods on
//! 10,000 nodes, so its match was last touched 10,000 events ago.

mod support;

use std::time::Duration;

use bytes::Bytes;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use revcast_engine::key::Key;
use revcast_engine::selector::{FieldSelector, LabelSelector, Selector};
use support::{Engine, Watched, value};

const CLASSES: usize = 10_000;
/// Small, for they are decoded between the turns that are timed.
const OBJECT_BYTES: usize = 256;

fn on_node(number: usize) -> Selector {
    let text = format!("spec.nodeName=node-{number}");
    let fields = FieldSelector::parse(&text, &support::pod()).expect("it is valid");
    Selector::new(LabelSelector::default(), fields)
}

fn labelled(text: &str) -> Selector {
    Selector::new(LabelSelector::parse(text).expect("it is valid"), FieldSelector::default())
}

fn other_label(number: usize) -> Selector {
    labelled(&format!("k{number}=v"))
}

fn none_of(number: usize) -> Selector {
    labelled(&format!("app notin (web,a{number})"))
}

/// A pod on each of so many nodes, in an order that no prefetcher guesses.
fn pods(nodes: usize) -> Vec<(Key, Bytes)> {
    let engine = Engine::new();
    let numbers = (0..nodes).map(|number| number * 7919 % nodes);
    let pod = |number: usize| {
        let (name, node) = (format!("pod-{number}"), format!("node-{number}"));
        (engine.key(&name), value(&name, &node, OBJECT_BYTES))
    };
    numbers.map(pod).collect()
}

/// Events to a shard with a watcher for each selector, each event for `deliveries` of them.
fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    selectors: impl Iterator<Item = Selector>,
    pods: &[(Key, Bytes)],
    deliveries: u64,
) {
    let mut watched = Watched::new(selectors);
    let mut stream = pods.iter().cycle();
    // Once over all of them, so that every match had one before.
    watched.time_stream(pods.len() as u64, 256, &mut stream, deliveries);
    for a_round in [1, 256] {
        group.bench_function(BenchmarkId::new(name, a_round), |b| {
            b.iter_custom(|n| watched.time_stream(n, a_round, &mut stream, deliveries));
        });
    }
}

fn candidates(c: &mut Criterion) {
    let mut group = c.benchmark_group("interest");
    // Making an event takes many times as long as what is timed.
    group.measurement_time(Duration::from_millis(100)).sample_size(20);
    let (one_node, all_nodes) = (pods(1), pods(CLASSES));
    let everything = || std::iter::once(Selector::everything());
    measure(&mut group, "nobody/one_node", std::iter::empty(), &one_node, 0);
    measure(&mut group, "one_watcher/one_node", everything(), &one_node, 1);
    measure(&mut group, "one_watcher/all_nodes", everything(), &all_nodes, 1);
    measure(&mut group, "looked_up/one_node", (0..CLASSES).map(on_node), &one_node, 1);
    measure(&mut group, "looked_up/all_nodes", (0..CLASSES).map(on_node), &all_nodes, 1);
    measure(&mut group, "looked_up/none_cares", (CLASSES..2 * CLASSES).map(on_node), &all_nodes, 0);
    measure(&mut group, "looked_up/other_labels", (0..CLASSES).map(other_label), &one_node, 0);
    measure(&mut group, "evaluated/none_cares", (0..CLASSES).map(none_of), &one_node, 0);
}

criterion_group!(benches, candidates);
criterion_main!(benches);
