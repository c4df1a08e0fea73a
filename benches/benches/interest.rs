//! Interest: what an event costs a shard with 5,000 classes, of which it concerns one or none.
//!
//! `looked_up` is 5,000 kubelets, each with the pods of its node: found by the value. `evaluated` is 5,000
//! selectors that say the same in a way no index can look up, so each is asked. Times are per event, with the ring
//! and the round around it; `nobody` is that round alone.

mod support;

use criterion::{Criterion, criterion_group, criterion_main};
use revcast_engine::selector::{FieldSelector, LabelSelector, Selector};
use support::Watched;

const CLASSES: usize = 5_000;

fn on_node(number: usize) -> Selector {
    let text = format!("spec.nodeName=node-{number}");
    let fields = FieldSelector::parse(&text, &support::pod()).expect("it is valid");
    Selector::new(LabelSelector::default(), fields)
}

fn either_of(number: usize) -> Selector {
    let text = format!("app in (a{number},b{number})");
    Selector::new(LabelSelector::parse(&text).expect("it is valid"), FieldSelector::default())
}

fn candidates(c: &mut Criterion) {
    let mut group = c.benchmark_group("interest/an_event_to_5000_classes");
    let mut nobody = Watched::new([]);
    group.bench_function("nobody", |b| b.iter_custom(|n| nobody.time_rounds(n, 256, "node-17", 0)));
    let mut looked_up = Watched::new((0..CLASSES).map(on_node));
    assert_eq!(looked_up.shard.stats().classes, CLASSES as u64);
    group.bench_function("looked_up/one_cares", |b| {
        b.iter_custom(|n| looked_up.time_rounds(n, 256, "node-17", 1));
    });
    // A shard of its own: the first event's state before would still be on node-17.
    let mut looked_up = Watched::new((0..CLASSES).map(on_node));
    group.bench_function("looked_up/none_cares", |b| {
        b.iter_custom(|n| looked_up.time_rounds(n, 256, "elsewhere", 0));
    });
    let mut evaluated = Watched::new((0..CLASSES).map(either_of));
    group.bench_function("evaluated/none_cares", |b| {
        b.iter_custom(|n| evaluated.time_rounds(n, 256, "node-17", 0));
    });
}

criterion_group!(benches, candidates);
criterion_main!(benches);
