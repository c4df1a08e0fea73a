//! The ring: what an entry costs its writer and each of its readers, next to queues that could carry it instead.
//!
//! A queue gives an entry to one reader only. So for the comparison every reader has a queue of its own, and the
//! writer pushes each entry into all of them; the ring is written once. The queues also cannot replay: this is a
//! comparison of structures, not of equals.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use crossbeam_queue::{ArrayQueue, SegQueue};
use revcast_engine::revision::{Position, Revision};
use revcast_engine::ring::{Entry, Writer, ring};

const SLOTS: usize = 1 << 14;

#[derive(Debug)]
struct Item(u64);

impl Entry for Item {
    fn position(&self) -> Position {
        Position::new(self.0)
    }
    fn revision(&self) -> Revision {
        Revision::new(self.0 + 1)
    }
}

fn put(writer: &mut Writer<Item>) {
    let next = writer.next().get();
    writer.stage(Arc::new(Item(next)));
    writer.publish(Revision::new(next + 1));
}

fn publishing(c: &mut Criterion) {
    let mut group = c.benchmark_group("ring/publish");
    // Full from the beginning: every entry drives the oldest one out, in all three.
    let (mut writer, _reader) = ring::<Item>(SLOTS, Revision::ZERO);
    (0..SLOTS).for_each(|_| put(&mut writer));
    group.bench_function("ring", |b| b.iter(|| put(&mut writer)));
    let array = ArrayQueue::new(SLOTS);
    (0..SLOTS as u64).for_each(|n| drop(array.push(Arc::new(Item(n)))));
    group.bench_function("array_queue", |b| b.iter(|| array.force_push(Arc::new(Item(1)))));
    let seg = SegQueue::new();
    (0..SLOTS as u64).for_each(|n| seg.push(Arc::new(Item(n))));
    group.bench_function("seg_queue", |b| {
        b.iter(|| {
            seg.push(Arc::new(Item(1)));
            seg.pop()
        });
    });
}

fn reading(c: &mut Criterion) {
    let mut group = c.benchmark_group("ring/read");
    let (mut writer, reader) = ring::<Item>(SLOTS, Revision::ZERO);
    (0..SLOTS).for_each(|_| put(&mut writer));
    let mut at = 0;
    group.bench_function("get", |b| {
        b.iter(|| {
            at = (at + 1) % SLOTS as u64;
            reader.get(Position::new(at)).expect("nothing was forgotten")
        });
    });
    group.bench_function("position_after", |b| {
        b.iter(|| {
            at = (at + 7919) % SLOTS as u64;
            reader.position_after(Revision::new(at)).expect("nothing was forgotten")
        });
    });
    // The newest entry, while another thread drives entries through as fast as it can.
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let writing = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            put(&mut writer);
        }
    });
    group.bench_function("get_newest_while_written", |b| {
        b.iter(|| black_box(reader.get(Position::new(reader.head().get() - 1))));
    });
    stop.store(true, Ordering::Relaxed);
    writing.join().expect("the writer ends");
}

fn fanning_out(c: &mut Criterion) {
    const ENTRIES: u64 = 1024;
    let mut group = c.benchmark_group("ring/1024_entries_to_4_readers");
    group.throughput(Throughput::Elements(ENTRIES));
    group.bench_function("ring", |b| {
        b.iter_batched_ref(
            || ring::<Item>(SLOTS, Revision::ZERO),
            |(writer, reader)| {
                (0..ENTRIES).for_each(|_| put(writer));
                for reader in std::iter::repeat_n(&*reader, 4) {
                    for at in 0..ENTRIES {
                        black_box(reader.get(Position::new(at)).expect("nothing was forgotten"));
                    }
                }
            },
            BatchSize::PerIteration,
        );
    });
    group.bench_function("array_queues", |b| {
        b.iter_batched_ref(
            || std::array::from_fn::<_, 4, _>(|_| ArrayQueue::new(SLOTS)),
            |queues| {
                for n in 0..ENTRIES {
                    let entry = Arc::new(Item(n));
                    for queue in &*queues {
                        queue.push(Arc::clone(&entry)).expect("there is room");
                    }
                }
                for queue in &*queues {
                    while let Some(entry) = queue.pop() {
                        black_box(entry);
                    }
                }
            },
            BatchSize::PerIteration,
        );
    });
    group.bench_function("seg_queues", |b| {
        b.iter_batched_ref(
            || std::array::from_fn::<_, 4, _>(|_| SegQueue::new()),
            |queues| {
                for n in 0..ENTRIES {
                    let entry = Arc::new(Item(n));
                    for queue in &*queues {
                        queue.push(Arc::clone(&entry));
                    }
                }
                for queue in &*queues {
                    while let Some(entry) = queue.pop() {
                        black_box(entry);
                    }
                }
            },
            BatchSize::PerIteration,
        );
    });
}

criterion_group!(benches, publishing, reading, fanning_out);
criterion_main!(benches);
