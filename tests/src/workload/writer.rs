//! Writes directly to the store at a given rate: single keys, several in one revision, and deletes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use revcast_sim::rng::Rng;

use super::Workload;
use super::objects::{Kind, NAMESPACES, WRITTEN, key, object};
use crate::etcd::{Gateway, Op};

/// A key that no server shows, written all the time: it moves every watcher's proof beyond earlier writes.
const TICKS: &str = "/registry/ticks/of/a-clock";
/// Most writes a second over one connection, each after the answer to the one before: on a busy machine that takes milliseconds.
const RATE_OF_ONE: u64 = 50;
/// How many times slower it is in the slow mode.
const SLOWER: u32 = 8;
const TICK_EVERY: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
struct Shared {
    written: AtomicU64,
    newest: AtomicU64,
    /// Whether it writes ticks only.
    rests: AtomicBool,
    /// Whether it is in the slow mode.
    slow: AtomicBool,
}

/// A writer that runs.
#[derive(Debug)]
pub struct Writer {
    workload: Arc<Workload>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Writer {
    /// Starts one with this many writes a second.
    #[must_use]
    pub fn start(workload: &Arc<Workload>, gateway: Gateway, rate: u64, seed: u64) -> Self {
        let shared: Arc<Shared> = Arc::default();
        let connections = rate.div_ceil(RATE_OF_ONE).max(1);
        let pace = Duration::from_nanos(1_000_000_000 * connections / rate.max(1));
        let threads = (0..connections)
            .map(|number| {
                let mut work =
                    Work { gateway: gateway.another(), rng: Rng::new(seed + number), sequence: number << 40 };
                let (of, ours) = (Arc::clone(workload), Arc::clone(&shared));
                std::thread::spawn(move || work.write_until_over(&of, &ours, pace))
            })
            .collect();
        Self { workload: Arc::clone(workload), shared, threads }
    }

    /// Switches the slow mode. A store that replaces another one must not reach the revisions of that one before all
    /// clients know: a client that resumes from a revision of both cannot be told from a client of the new one.
    pub fn slow(&self, slow: bool) {
        self.shared.slow.store(slow, Ordering::SeqCst);
    }

    /// Ticks only from now on.
    pub fn rest(&self) {
        self.shared.rests.store(true, Ordering::SeqCst);
        // Waits for the writer that holds the lock.
        drop(self.workload.pause_writes());
    }

    /// Writes that were acknowledged.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.shared.written.load(Ordering::SeqCst)
    }

    /// The revision of the last of them.
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.shared.newest.load(Ordering::SeqCst)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.workload.end();
        let failed = self.threads.drain(..).filter_map(|thread| thread.join().err()).count() > 0;
        assert!(std::thread::panicking() || !failed, "the writer panicked: see above");
    }
}

struct Work {
    gateway: Gateway,
    rng: Rng,
    sequence: u64,
}

impl Work {
    fn write_until_over(&mut self, workload: &Workload, shared: &Shared, pace: Duration) {
        let (mut next, mut ticked) = (Instant::now(), Instant::now());
        while !workload.is_over() {
            let now = Instant::now();
            if now < next {
                std::thread::sleep(next - now);
            }
            let pace = if shared.slow.load(Ordering::SeqCst) { pace * SLOWER } else { pace };
            // Writes missed during an outage are not made up for.
            next = (next + pace).max(now.checked_sub(pace * 20).unwrap_or(now));
            let ticks = now.duration_since(ticked) > TICK_EVERY;
            if shared.rests.load(Ordering::SeqCst) && !ticks {
                continue;
            }
            let _permit = workload.write_permit();
            let done = if ticks {
                ticked = now;
                self.tick()
            } else {
                self.write(workload)
            };
            match done {
                Ok(revision) => {
                    shared.written.fetch_add(1, Ordering::SeqCst);
                    shared.newest.fetch_max(revision, Ordering::SeqCst);
                }
                // The store is away. The write may have happened, or will: the log shows it.
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn tick(&mut self) -> Result<u64, String> {
        self.sequence += 1;
        self.gateway.txn(&[Op::Put(TICKS, self.sequence.to_string().as_bytes())])
    }

    fn write(&mut self, workload: &Workload) -> Result<u64, String> {
        let count = if self.rng.percent(20) { self.rng.range(2, 4) } else { 1 };
        let mut changes: Vec<(String, Option<Vec<u8>>)> = Vec::new();
        while changes.len() < count {
            let kind = if self.rng.percent(50) { Kind::ConfigMap } else { Kind::Pod };
            let namespace = NAMESPACES[self.rng.below(WRITTEN)];
            let name = format!("n{:02}", self.rng.below(workload.names()));
            let key = key(kind, namespace, &name);
            // A revision changes a key once.
            if changes.iter().any(|(other, _)| *other == key) {
                continue;
            }
            self.sequence += 1;
            let value = (!self.rng.percent(12)).then(|| {
                let object = object(kind, namespace, &name, self.sequence, &mut self.rng);
                workload.media_type().stored(&object, &mut self.rng)
            });
            changes.push((key, value));
        }
        let ops: Vec<Op<'_>> = changes
            .iter()
            .map(|(key, value)| value.as_ref().map_or(Op::Delete(key), |value| Op::Put(key, value)))
            .collect();
        self.gateway.txn(&ops)
    }
}
