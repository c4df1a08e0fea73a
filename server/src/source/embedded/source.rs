//! The embedded store as a source: durable revisions out, in groups.
//!
//! Owns the store, and the order of steps: apply, flush, publish, answer. The writes of a turn share one flush. Its thread is
//! used for nothing else: a turn waits for the disk and for shards that lag.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_lite::future::block_on;
use revcast_engine::Publisher;
use revcast_engine::change::Batch;
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;

use super::{CompactError, Progress, Store};
use crate::abort_on_panic::AbortOnPanic;
use crate::clock::Clock;
use crate::source::command_queue::{Answer, CommandQueue, Shards, SourceStats};
use crate::source::driver::{Reply, Source, drive};
use crate::source::feeder::{BACKLOG_POLL, Feeder};
use crate::source::{StorageError, Txn, TxnError, WallTime};

/// Keys that one turn expires.
const EXPIRE_MAX: usize = 256;

/// Starts the thread. The publisher has replayed the store's past.
///
/// # Errors
/// The system refuses another thread.
pub fn start(
    store: Store,
    publisher: Publisher,
    commands: Arc<CommandQueue>,
    shards: Arc<dyn Shards>,
    clock: Clock,
    compact_interval: Option<Duration>,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("publisher".into()).spawn(move || {
        let _vital = AbortOnPanic("the publisher's thread");
        let thread = std::thread::current();
        commands.set_waker(move || thread.unpark());
        let feeder = Feeder::new(publisher, Arc::clone(&commands), Arc::clone(&shards), clock);
        let mut source = EmbeddedSource {
            store,
            feeder,
            clock,
            commands: Arc::clone(&commands),
            compact_interval,
            next_compaction: compact_interval.map(|interval| Instant::now() + interval),
            compacting: false,
            to_compact: Vec::new(),
            group: Group::default(),
        };
        // It parks the thread itself, which a command wakes: there is never a pending future.
        block_on(drive(&mut source, commands, shards));
    })
}

/// What was begun and is done in the next turn.
#[derive(Default)]
struct Group {
    writes: Vec<(Txn, Reply)>,
    /// Requests for a key; for the newest revision, if there is none.
    questions: Vec<(Option<Key>, Reply)>,
    compactions: Vec<(Revision, Reply)>,
}

impl Group {
    const fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.questions.is_empty() && self.compactions.is_empty()
    }
}

/// One write of the current group: the address of its answer, and its result.
struct Pending {
    reply: Reply,
    outcome: Result<Revision, TxnError>,
}

struct EmbeddedSource {
    store: Store,
    feeder: Feeder,
    clock: Clock,
    commands: Arc<CommandQueue>,
    compact_interval: Option<Duration>,
    next_compaction: Option<Instant>,
    compacting: bool,
    /// Requested compactions, and up to which revision.
    to_compact: Vec<(Revision, Reply)>,
    group: Group,
}

impl Source for EmbeddedSource {
    fn write(&mut self, txn: Txn, reply: Reply) {
        self.group.writes.push((txn, reply));
    }

    fn get(&mut self, key: Key, reply: Reply) {
        self.group.questions.push((Some(key), reply));
    }

    fn newest_revision(&mut self, reply: Reply) {
        self.group.questions.push((None, reply));
    }

    fn compact(&mut self, upto: Revision, reply: Reply) {
        self.group.compactions.push((upto, reply));
    }

    async fn turn(&mut self) -> bool {
        let expired = self.due_leases();
        self.feeder.set_arrival(self.clock.now());
        let worked = !self.group.is_empty() || !expired.is_empty();
        if worked {
            self.commit(expired);
        }
        // Memory may have become scarce since.
        if self.feeder.trim() {
            self.feeder.show();
        }
        let compacted = self.compact_some();
        worked || compacted
    }

    async fn sleep(&mut self) {
        let now = wall_now();
        let lease = self
            .store
            .next_expiry()
            .map(|due| Duration::from_millis(due.as_millis().saturating_sub(now.as_millis()).max(1)));
        let compaction = self.next_compaction.map(|due| due.saturating_duration_since(Instant::now()));
        match [lease, compaction].into_iter().flatten().min() {
            Some(time) => std::thread::park_timeout(time),
            None => std::thread::park(),
        }
    }
}

impl EmbeddedSource {
    fn due_leases(&mut self) -> Vec<Batch> {
        let now = wall_now();
        match self.store.next_expiry() {
            Some(due) if due <= now => self.store.expire(now, EXPIRE_MAX),
            _ => Vec::new(),
        }
    }

    /// Applies the group, makes it durable, makes it visible, and answers: in this order.
    fn commit(&mut self, expired: Vec<Batch>) {
        let now = wall_now();
        let Group { writes, questions, compactions } = std::mem::take(&mut self.group);
        let expirations = expired.len() as u64;
        let mut batches: Vec<_> = expired.into_iter().map(|batch| (batch, Vec::new())).collect();
        let mut pending = Vec::with_capacity(writes.len());
        for (txn, reply) in writes {
            let outcome = self.store.apply(&txn, now).map(|batch| {
                let revision = batch.revision;
                batches.push((batch, txn.into_readings()));
                revision
            });
            pending.push(Pending { reply, outcome });
        }
        let flushed = self.store.flush();
        let stats = &self.commands.stats;
        // If the disk is full a whole group is undone, and reads alone write nothing.
        if flushed.is_ok() && !batches.is_empty() {
            stats.expired.fetch_add(expirations, Ordering::Relaxed);
            stats.flushes.fetch_add(1, Ordering::Relaxed);
        }
        // A request that is invalid says nothing about the disk.
        if flushed.is_err() || !batches.is_empty() {
            note_disk(stats, flushed.as_ref().err());
        }
        match flushed {
            Ok(()) => {
                for (batch, readings) in &batches {
                    if self.feeder.must_wait(batch) {
                        stats.backlogged.fetch_add(1, Ordering::Relaxed);
                        self.feeder.show();
                        while self.feeder.must_wait(batch) {
                            std::thread::park_timeout(BACKLOG_POLL);
                        }
                    }
                    self.feeder.take_read(batch, readings, seconds(now));
                }
                self.feeder.show();
                if !batches.is_empty() {
                    self.feeder.observe_arrived();
                }
                for Pending { reply, outcome } in pending {
                    reply.send(outcome.map_or_else(Answer::Refused, Answer::Written));
                }
            }
            Err(error) => refuse_all(pending, &error),
        }
        // The visible state includes everything that was acknowledged before the request.
        for (key, reply) in questions {
            reply.send(match key {
                None => Answer::Newest { epoch: 0, revision: self.feeder.revision() },
                Some(key) => Answer::Found(self.feeder.get(&key).cloned()),
            });
        }
        for (upto, reply) in compactions {
            match self.store.begin_compact(upto, now) {
                Ok(()) => {
                    self.compacting = true;
                    self.to_compact.push((upto, reply));
                }
                Err(error) => reply.send(not_compacted(error)),
            }
        }
    }

    /// One step of a compaction, if one runs or is due. True if there is more to do now.
    fn compact_some(&mut self) -> bool {
        let now = wall_now();
        if let (Some(due), Some(interval)) = (self.next_compaction, self.compact_interval)
            && Instant::now() >= due
        {
            self.next_compaction = Some(Instant::now() + interval);
            // What the ring can replay is kept, so that it can be replayed after a restart.
            match self.store.begin_compact(self.feeder.forgotten(), now) {
                Ok(()) => self.compacting = true,
                // Nothing was compacted since.
                Err(CompactError::Compacted { .. } | CompactError::Future { .. }) => {}
                Err(CompactError::Storage(error)) => note_disk(&self.commands.stats, Some(&error)),
            }
        }
        if !self.compacting {
            return false;
        }
        let step = self.store.compact_step(now);
        note_disk(&self.commands.stats, step.as_ref().err());
        let compacted = self.store.compacted();
        self.commands.stats.compacted.store(compacted.get(), Ordering::Relaxed);
        self.answer_compacted(compacted);
        self.compacting = matches!(step, Ok(Progress::More));
        if let Err(error) = step {
            // If the disk is full it is tried again when the next one is due.
            for (_, reply) in self.to_compact.drain(..) {
                reply.send(not_compacted(CompactError::Storage(error.clone())));
            }
        }
        self.compacting
    }

    /// Compacts the engine's history, and answers the requests that are done.
    fn answer_compacted(&mut self, compacted: Revision) {
        let done: Vec<_> = self.to_compact.extract_if(.., |(upto, _)| *upto <= compacted).collect();
        let Some(newest) = done.iter().map(|(upto, _)| *upto).max() else { return };
        self.feeder.compact(newest);
        self.feeder.show();
        for (upto, reply) in done {
            reply.send(Answer::Compacted(upto));
        }
    }
}

/// Reports a disk that is full, has failed, or has room again: to the log once, to the metrics continuously.
fn note_disk(stats: &SourceStats, error: Option<&StorageError>) {
    match error {
        None => {
            if stats.full.swap(false, Ordering::AcqRel) {
                crate::log::info("the store has room again: writes are accepted");
            }
        }
        Some(error) if error.is_full() => {
            if !stats.full.swap(true, Ordering::AcqRel) {
                crate::log::error(&format!(
                    "{error}; writes are refused with 507, reads and watches continue"
                ));
            }
        }
        Some(error) => {
            if !stats.failed.swap(true, Ordering::AcqRel) {
                crate::log::error(&error.to_string());
            }
        }
    }
}

fn not_compacted(error: CompactError) -> Answer {
    match error {
        CompactError::Storage(error) => Answer::Refused(TxnError::Storage(error)),
        CompactError::Compacted { .. } | CompactError::Future { .. } => {
            Answer::NotCompacted(error.to_string())
        }
    }
}

fn refuse_all(pending: Vec<Pending>, error: &StorageError) {
    for Pending { reply, outcome } in pending {
        reply.send(Answer::Refused(outcome.err().unwrap_or_else(|| TxnError::Storage(error.clone()))));
    }
}

/// The wall clock: leases and the minimum of revisions follow it.
#[must_use]
pub fn wall_now() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

pub(super) const fn seconds(time: WallTime) -> u64 {
    time.as_millis() / 1000
}
