//! The index and its snapshots: 100,000 objects, written, read one by one and by page, walked, and as they were some events ago.
//!
//! Writing includes the decoding of the object: subtract `decode/nested` of 256 bytes.

mod support;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use revcast_engine::revision::Revision;
use support::{Engine, value};

const OBJECTS: usize = 100_000;
const OBJECT_BYTES: usize = 256;
const PAGE: usize = 500;
/// Of the ring, for past states.
const EVENTS: u64 = 10_000;

fn name(number: usize) -> String {
    format!("pod-{:06}", number % OBJECTS)
}

fn writing(c: &mut Criterion, engine: &mut Engine) {
    let mut group = c.benchmark_group("index/write");
    let value = value("pod-1", "node-1", OBJECT_BYTES);
    let keys: Vec<_> = (0..OBJECTS).map(|number| engine.key(&name(number))).collect();
    let mut at = 0;
    group.bench_function("load", |b| {
        b.iter(|| {
            at = (at + 7919) % OBJECTS;
            engine.publisher.load(keys[at].clone(), Revision::new(1), &value)
        });
    });
    // What changes is copied if a snapshot holds it: the price of its being immutable. This is how the publisher lives.
    group.bench_function("load_and_publish", |b| {
        b.iter(|| {
            at = (at + 7919) % OBJECTS;
            engine.publisher.load(keys[at].clone(), Revision::new(1), &value);
            engine.publisher.publish();
        });
    });
    assert_eq!(engine.feed.snapshot().len(engine.pods), OBJECTS, "objects were replaced, none was added");
}

fn snapshots(c: &mut Criterion, engine: &mut Engine) {
    let mut group = c.benchmark_group("index/snapshot");
    group.bench_function("publish", |b| b.iter(|| engine.publisher.publish()));
    group.bench_function("take", |b| b.iter(|| engine.feed.snapshot()));
    let snapshot = engine.feed.snapshot();
    let keys: Vec<_> = (0..1024).map(|number| engine.key(&name(number * 7919))).collect();
    let mut at = 0;
    group.bench_function("get", |b| {
        b.iter(|| {
            at = (at + 1) % keys.len();
            assert!(black_box(snapshot.get(&keys[at])).is_some());
        });
    });
    group.throughput(Throughput::Elements(PAGE as u64));
    group.bench_function("page_of_500", |b| {
        b.iter(|| {
            let page = snapshot.list(engine.pods, Some("default"), Some("default/pod-004242")).take(PAGE);
            let (objects, bytes) = page
                .fold((0, 0), |(objects, bytes), object| (objects + 1, bytes + object.value().bytes().len()));
            assert_eq!(objects, PAGE);
            bytes
        });
    });
    group.throughput(Throughput::Elements(OBJECTS as u64));
    group.bench_function("walk", |b| {
        b.iter(|| {
            let all = snapshot.list(engine.pods, None, None);
            let (objects, bytes) = all
                .fold((0, 0), |(objects, bytes), object| (objects + 1, bytes + object.value().bytes().len()));
            assert_eq!(objects, OBJECTS);
            bytes
        });
    });
}

fn looking_back(c: &mut Criterion, engine: &mut Engine) {
    let mut group = c.benchmark_group("index/past");
    let value = value("pod-1", "node-2", OBJECT_BYTES);
    for number in 0..EVENTS {
        let key = engine.key(&name(usize::try_from(number).expect("small") * 7919));
        engine.put(&key, Some(&value));
        // As a publisher does, so that a snapshot is kept every so many events.
        engine.publisher.publish();
    }
    for events in [0, 100, EVENTS - 1] {
        let revision = Revision::new(engine.revision - events);
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new("make", events), |b| {
            b.iter(|| engine.feed.past(engine.pods, revision).expect("the window reaches back"));
        });
        let past = engine.feed.past(engine.pods, revision).expect("the window reaches back");
        let newer = past.list(None, None).filter(|object| object.revision() > revision).count();
        assert_eq!((newer, past.list(None, None).count()), (0, OBJECTS), "{events} events ago");
        group.throughput(Throughput::Elements(PAGE as u64));
        group.bench_function(BenchmarkId::new("page_of_500", events), |b| {
            b.iter(|| {
                let page = past.list(Some("default"), Some("default/pod-004242")).take(PAGE);
                page.map(|object| object.value().bytes().len()).sum::<usize>()
            });
        });
    }
}

fn all(c: &mut Criterion) {
    // Loaded once: it takes longer than most of what is measured here.
    let mut engine = Engine::new();
    engine.load(OBJECTS, OBJECT_BYTES);
    writing(c, &mut engine);
    snapshots(c, &mut engine);
    looking_back(c, &mut engine);
}

criterion_group!(benches, all);
criterion_main!(benches);
