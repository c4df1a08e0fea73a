//! Messages, as the publisher makes them: a change decoded, framed, indexed and staged. And the Status of a 410.

mod support;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use revcast_engine::encoding::{Failure, json};
use revcast_engine::envelope;
use revcast_engine::revision::Revision;
use support::{Engine, value};

fn making(c: &mut Criterion) {
    let mut group = c.benchmark_group("frame");
    for bytes in [1024, 16 * 1024] {
        let value = value("pod-1", "node-1", bytes);
        group.throughput(Throughput::Bytes(value.len() as u64));
        let mut engine = Engine::new();
        let key = engine.key("pod-1");
        group.bench_function(BenchmarkId::new("modified", bytes), |b| {
            b.iter(|| {
                engine.put(&key, Some(&value));
                engine.publisher.publish();
            });
        });
        assert_eq!(engine.feed.messages_made(), engine.revision, "a message a change");
        let made = (engine.feed.messages_made(), engine.revision);
        // The second half makes a message of the last state with another version.
        group.bench_function(BenchmarkId::new("added_then_deleted", bytes), |b| {
            let key = engine.key("pod-2");
            b.iter(|| {
                engine.put(&key, Some(&value));
                engine.put(&key, None);
                engine.publisher.publish();
            });
        });
        assert_eq!(engine.feed.messages_made() - made.0, engine.revision - made.1, "and one for its end");
    }
    let mut out = Vec::new();
    let failure = Failure::Expired { asked: Revision::new(1), oldest: Revision::new(132) };
    let status = json::status(&failure);
    group.throughput(Throughput::Bytes(status.len() as u64));
    group.bench_function("error", |b| {
        b.iter(|| {
            out.clear();
            envelope::error(&mut out, &status);
        });
    });
    assert!(out.windows(status.len()).any(|part| part == status), "the Status is in it");
}

criterion_group!(benches, making);
criterion_main!(benches);
