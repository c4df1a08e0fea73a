//! Decode: labels and fields read, the version spliced in, for objects of several sizes.

mod support;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use revcast_engine::decode::Decoder;

fn decoding(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode");
    let resource = support::pod();
    let mut decoder = Decoder::new();
    for bytes in [1024, 16 * 1024, 256 * 1024] {
        let value = support::value("pod-1", "node-1", bytes);
        group.throughput(Throughput::Bytes(value.len() as u64));
        group.bench_with_input(BenchmarkId::new("one_line", bytes), &value, |b, value| {
            b.iter(|| decoder.check(&resource, value));
        });
    }
    // Written by a person: it is brought onto one line first.
    let value = String::from_utf8_lossy(&support::value("pod-1", "node-1", 1024)).replace(',', ",\n  ");
    group.throughput(Throughput::Bytes(value.len() as u64));
    group.bench_function("many_lines/1024", |b| b.iter(|| decoder.check(&resource, value.as_bytes())));
}

criterion_group!(benches, decoding);
criterion_main!(benches);
