//! The index: 10,000 objects, read by page, by snapshot, and as they were some events ago.

mod support;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use revcast_engine::revision::Revision;
use support::{Engine, value};

const OBJECTS: usize = 10_000;
const PAGE: usize = 500;

fn loaded() -> Engine {
    let mut engine = Engine::new();
    engine.load(OBJECTS, 256);
    engine
}

fn writing(c: &mut Criterion) {
    let mut group = c.benchmark_group("index/write");
    let mut engine = loaded();
    let value = value("pod-1", "node-1", 256);
    let keys: Vec<_> = (0..OBJECTS).map(|n| engine.key(&format!("pod-{n:06}"))).collect();
    let mut at = 0;
    // With decode, which nobody can put an object in without.
    group.bench_function("load_over_10000", |b| {
        b.iter(|| {
            at = (at + 7919) % OBJECTS;
            engine.publisher.load(keys[at].clone(), Revision::new(1), &value)
        });
    });
    group.bench_function("publish_snapshot", |b| b.iter(|| engine.publisher.publish()));
    // A snapshot is held meanwhile, so what changes is copied: the price of its being immutable.
    let held = engine.feed.snapshot();
    group.bench_function("load_and_publish_while_held", |b| {
        b.iter(|| {
            at = (at + 7919) % OBJECTS;
            engine.publisher.load(keys[at].clone(), Revision::new(1), &value);
            engine.publisher.publish();
        });
    });
    drop(held);
}

fn reading(c: &mut Criterion) {
    let mut group = c.benchmark_group("index/read");
    let engine = loaded();
    group.bench_function("snapshot", |b| b.iter(|| engine.feed.snapshot()));
    let snapshot = engine.feed.snapshot();
    let key = engine.key("pod-004242");
    group.bench_function("get", |b| b.iter(|| black_box(snapshot.get(&key))));
    group.throughput(Throughput::Elements(PAGE as u64));
    group.bench_function("page_of_500", |b| {
        b.iter(|| {
            let page = snapshot.list(engine.pods, Some("default"), Some("default/pod-004242")).take(PAGE);
            page.map(|object| object.json().len()).sum::<usize>()
        });
    });
}

fn looking_back(c: &mut Criterion) {
    let mut group = c.benchmark_group("index/past");
    let mut engine = loaded();
    let value = value("pod-1", "node-1", 256);
    for number in 0..10_000 {
        let key = engine.key(&format!("pod-{:06}", number * 7919 % OBJECTS));
        engine.put(&key, Some(&value));
    }
    engine.publisher.publish();
    for events in [0, 100, 10_000] {
        let revision = Revision::new(engine.revision - events);
        group.bench_function(BenchmarkId::new("make", events), |b| {
            b.iter(|| engine.feed.past(engine.pods, revision).expect("the window reaches back"));
        });
        let past = engine.feed.past(engine.pods, revision).expect("the window reaches back");
        group.bench_function(BenchmarkId::new("page_of_500", events), |b| {
            b.iter(|| {
                let page = past.list(Some("default"), Some("default/pod-004242")).take(PAGE);
                page.map(|object| object.json().len()).sum::<usize>()
            });
        });
    }
}

criterion_group!(benches, writing, reading, looking_back);
criterion_main!(benches);
