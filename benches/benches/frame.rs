//! Frames, as the publisher makes them: a change decoded, framed, indexed and staged. And the Status of a 410.

mod support;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use revcast_engine::frame;
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
        assert_eq!(engine.feed.frames_made(), engine.revision, "a frame a change");
        let made = (engine.feed.frames_made(), engine.revision);
        // The second half makes a frame of the last state with another version.
        group.bench_function(BenchmarkId::new("added_then_deleted", bytes), |b| {
            let key = engine.key("pod-2");
            b.iter(|| {
                engine.put(&key, Some(&value));
                engine.put(&key, None);
                engine.publisher.publish();
            });
        });
        assert_eq!(engine.feed.frames_made() - made.0, engine.revision - made.1, "and one for its end");
    }
    let mut out = Vec::new();
    let status = frame::expired_status(Revision::new(1), Revision::new(132));
    group.throughput(Throughput::Bytes(status.len() as u64));
    group.bench_function("error", |b| {
        b.iter(|| {
            out.clear();
            frame::error(&mut out, &status);
        });
    });
    assert!(out.windows(status.len()).any(|part| part == status), "the Status is in it");
}

criterion_group!(benches, making);
criterion_main!(benches);
