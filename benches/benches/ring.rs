//! The ring: what an entry costs its writer and each of its readers, compared with structures that could replace it.
//!
//! Every reader sees every entry. What is comparable, and what is not:
//!
//! - `ring`: ours. Written once, read by position, any number of times; a reader that is too late is informed.
//! - `broadcast` (tokio): the most similar. Written once for all; a late receiver is informed how many it missed. It
//!   cannot go back, so a reader that begins at an older revision has nothing to read. Read with `try_recv`: no wake-ups.
//! - `locked_deque`: a `VecDeque` in a mutex, with the position of its front. It can do all that the ring does, and
//!   readers wait for the writer and for each other.
//! - `array_queues` (crossbeam): a queue gives an entry to one reader, so each reader has one and the writer pushes
//!   into all. A full one drops its oldest entry without informing its reader; it cannot go back either.
//!
//! Entries are `Arc`s in all four, as events are. The threads of `threads/` share the cores: with more readers
//! than cores the figure shows how the structure behaves when its users take turns, not how it scales.

#[path = "ring/fan.rs"]
mod fan;

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fan::{ArrayQueues, Broadcast, Fan, Found, Item, LockedDeque, Reads, Ring, SLOTS};
use revcast_engine::revision::{Position, Revision};
use revcast_engine::ring;

const READERS: [usize; 3] = [1, 2, 4];
/// [`SLOTS`] as entries are counted.
const ENTRIES: u64 = SLOTS as u64;

type Group<'a> = BenchmarkGroup<'a, WallTime>;

/// Runs `bench` with each structure and each number of readers.
macro_rules! each_fan {
    ($c:expr, $group:literal, $bench:ident) => {{
        let mut group = $c.benchmark_group($group);
        for readers in READERS {
            $bench::<Ring>(&mut group, readers);
            $bench::<Broadcast>(&mut group, readers);
            $bench::<LockedDeque>(&mut group, readers);
            $bench::<ArrayQueues>(&mut group, readers);
        }
    }};
}

fn id<F: Fan>(readers: usize) -> BenchmarkId {
    BenchmarkId::new(F::NAME, format!("{readers}_readers"))
}

/// Reads `entries` entries, from `from` on and without a gap.
fn read_all(reader: &mut impl Reads, from: u64, entries: u64) {
    for number in from..from + entries {
        match reader.read() {
            Found::Entry(entry) => assert_eq!(black_box(entry).0, number, "the next one"),
            missing @ (Found::Nothing | Found::Missed) => panic!("{missing:?} at {number}"),
        }
    }
}

/// One thread. There are no reads, so each write displaces the oldest entry: the cost of a reader that lags a whole ring.
fn writing_full<F: Fan>(group: &mut Group<'_>, readers: usize) {
    let (mut fan, mut all) = F::new(readers);
    let mut next = 0;
    for _ in 0..SLOTS {
        fan.write(next);
        next += 1;
    }
    group.bench_function(id::<F>(readers), |b| {
        b.iter(|| {
            fan.write(next);
            next += 1;
        });
    });
    for reader in &mut all {
        if F::TELLS && next > ENTRIES {
            assert!(matches!(reader.read(), Found::Missed), "it lags");
        }
        read_all(reader, next - ENTRIES, ENTRIES);
        assert!(matches!(reader.read(), Found::Nothing));
    }
}

/// One thread. Every reader reads what was written: per read, the writes not counted.
fn reading<F: Fan>(group: &mut Group<'_>, readers: usize) {
    let (mut fan, mut all) = F::new(readers);
    let mut next = 0;
    group.bench_function(id::<F>(readers), |b| {
        b.iter_custom(|reads| {
            let entries = reads.div_ceil(readers as u64);
            let mut spent = Duration::ZERO;
            let mut left = entries;
            while left > 0 {
                let some = left.min(ENTRIES);
                for _ in 0..some {
                    fan.write(next);
                    next += 1;
                }
                let start = Instant::now();
                for reader in &mut all {
                    read_all(reader, next - some, some);
                }
                spent += start.elapsed();
                left -= some;
            }
            spent
        });
    });
}

/// Threads, one for the writer and one for each reader: from the first write until every reader has read everything, per entry.
fn threads<F: Fan>(group: &mut Group<'_>, readers: usize) {
    group.bench_function(id::<F>(readers), |b| {
        b.iter_custom(|entries| {
            let mut spent = Duration::ZERO;
            let mut left = entries;
            while left > 0 {
                // A structure holds all of it, so no reader is too late and no reader has to be waited for.
                let some = left.min(ENTRIES);
                spent += pass::<F>(readers, some);
                left -= some;
            }
            spent
        });
    });
}

fn pass<F: Fan>(readers: usize, entries: u64) -> Duration {
    let (mut fan, all) = F::new(readers);
    let barrier = Arc::new(Barrier::new(readers + 1));
    let reading: Vec<_> = all
        .into_iter()
        .map(|mut reader| {
            let barrier = Arc::clone(&barrier);
            std::thread::spawn(move || {
                barrier.wait();
                let mut next = 0;
                let mut idle = 0;
                while next < entries {
                    match reader.read() {
                        Found::Entry(entry) => {
                            assert_eq!(black_box(entry).0, next, "the next one");
                            next += 1;
                            idle = 0;
                        }
                        Found::Nothing if idle < 64 => {
                            idle += 1;
                            std::hint::spin_loop();
                        }
                        Found::Nothing => std::thread::yield_now(),
                        Found::Missed => panic!("missed at {next}"),
                    }
                }
            })
        })
        .collect();
    barrier.wait();
    let start = Instant::now();
    for number in 0..entries {
        fan.write(number);
    }
    for thread in reading {
        thread.join().expect("it read everything");
    }
    start.elapsed()
}

/// A reader that is too late learns it and reads the oldest entry instead; `array_queues` have no such thing.
fn lagging<F: Fan>(group: &mut Group<'_>) {
    // Many at a time, for the writes in between take far longer than what is measured.
    let (mut fan, mut readers) = F::new(256);
    let mut next = 1;
    fan.write(0);
    readers.iter_mut().for_each(|reader| read_all(reader, 0, 1));
    group.bench_function(F::NAME, |b| {
        b.iter_custom(|times| {
            let mut spent = Duration::ZERO;
            let mut left = usize::try_from(times).expect("not that many");
            while left > 0 {
                let some = left.min(readers.len());
                for _ in 0..=SLOTS {
                    fan.write(next);
                    next += 1;
                }
                let start = Instant::now();
                for reader in &mut readers[..some] {
                    assert!(matches!(reader.read(), Found::Missed));
                    read_all(reader, next - ENTRIES, 1);
                }
                spent += start.elapsed();
                left -= some;
            }
            spent
        });
    });
}

fn costs(c: &mut Criterion) {
    each_fan!(c, "ring/write_full", writing_full);
    each_fan!(c, "ring/read", reading);
    let mut group = c.benchmark_group("ring/lagging");
    // Many writes for each lag: see `lagging`.
    group.measurement_time(Duration::from_millis(20)).sample_size(10);
    lagging::<Ring>(&mut group);
    lagging::<Broadcast>(&mut group);
    lagging::<LockedDeque>(&mut group);
}

fn together(c: &mut Criterion) {
    each_fan!(c, "ring/threads", threads);
}

/// What only the ring can do: return any entry again, and the position of a revision.
fn replaying(c: &mut Criterion) {
    let mut group = c.benchmark_group("ring/replay");
    let (mut writer, reader) = ring::ring::<Item>(SLOTS, Position::new(0), Revision::ZERO);
    for number in 0..ENTRIES {
        writer.stage(Arc::new(Item(number)), Position::new(u64::MAX));
        writer.publish(Revision::new(number + 1));
    }
    let mut at = 0;
    group.throughput(Throughput::Elements(1));
    group.bench_function("get", |b| {
        b.iter(|| {
            at = (at + 7919) % ENTRIES;
            let entry = reader.get(Position::new(at)).expect("nothing was forgotten");
            assert_eq!(entry.0, at);
        });
    });
    group.bench_function("position_after", |b| {
        b.iter(|| {
            at = (at + 7919) % ENTRIES;
            let position = reader.position_after(Revision::new(at)).expect("nothing was forgotten");
            assert_eq!(position, Position::new(at));
        });
    });
}

criterion_group!(benches, costs, together, replaying);
criterion_main!(benches);
