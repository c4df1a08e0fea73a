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
        self.feeder.publisher.set_arrival(self.clock.now());
        let worked = !self.group.is_empty() || !expired.is_empty();
        if worked {
            self.commit(expired);
        }
        // Memory may have become scarce since.
        if self.feeder.publisher.trim() {
            self.feeder.publisher.publish();
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
                        self.feeder.publisher.publish();
                        while self.feeder.must_wait(batch) {
                            std::thread::park_timeout(BACKLOG_POLL);
                        }
                    }
                    let taken = self.feeder.publisher.handle_batch_with(batch, readings, seconds(now));
                    // The store gives each revision once, in order.
                    taken.unwrap_or_else(|error| {
                        panic!("revision {} cannot be published: {error}", batch.revision)
                    });
                }
                self.feeder.publisher.publish();
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
                None => Answer::Newest { epoch: 0, revision: self.feeder.publisher.revision() },
                Some(key) => Answer::Found(self.feeder.publisher.get(&key).cloned()),
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
            match self.store.begin_compact(self.feeder.publisher.forgotten(), now) {
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
        self.feeder.publisher.compact(newest);
        self.feeder.publisher.publish();
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Mutex;

    use bytes::Bytes;
    use revcast_engine::codec::Decoder;
    use revcast_engine::encoding::JsonOnly;
    use revcast_engine::key::ResourceId;
    use revcast_engine::resource::{Resource, Schema};
    use revcast_engine::{Object, RingLimits};

    use super::super::StoreConfig;
    use super::*;
    use crate::source::command_queue::{Asker, Command};
    use crate::source::{Action, Expect, NewValue};

    /// Shards that record their answers.
    #[derive(Default)]
    struct Told(Mutex<Vec<Answer>>);

    impl Shards for Told {
        fn wake_all(&self) {}
        fn answer(&self, _: Asker, answer: Answer) {
            self.0.lock().unwrap().push(answer);
        }
    }

    /// What is published of these values of as many keys, which are written in one group.
    fn published(schema: Schema, values: Vec<NewValue>) -> Vec<String> {
        let (store, recovery) = Store::open(&StoreConfig::memory(vec!["pods".into()], wall_now())).unwrap();
        drop(recovery);
        let limits = RingLimits { events: 1024, bytes: 1 << 20 };
        let (publisher, _feed) =
            Publisher::new(Arc::new(schema), Arc::new(JsonOnly), limits, 1, store.revision());
        let (commands, told) = (CommandQueue::new(), Arc::new(Told::default()));
        let key = |n: usize| Key::new(ResourceId::new(0), Some("a"), &format!("p{n}"));
        let to = Asker { shard: 0, ticket: 0 };
        let count = values.len();
        for (n, value) in values.into_iter().enumerate() {
            let txn = Txn::one(key(n), Expect::Absent, Action::Put { value, ttl: None });
            commands.submit(Command::Write(txn, to)).unwrap();
        }
        (0..count).for_each(|n| commands.submit(Command::Get(key(n), to)).unwrap());
        commands.close();
        let shards: Arc<dyn Shards> = Arc::<Told>::clone(&told);
        start(store, publisher, commands, shards, Clock::start(), None).unwrap().join().unwrap();
        let answers = std::mem::take(&mut *told.0.lock().unwrap());
        let found = |answer| if let Answer::Found(found) = answer { found } else { None };
        let text = |object: Arc<Object>| String::from_utf8(object.value().bytes().to_vec()).unwrap();
        answers.into_iter().filter_map(found).map(text).collect()
    }

    #[test]
    fn a_write_is_published_as_it_was_read_and_read_if_it_was_not() {
        let mut schema = Schema::default();
        let pods = Resource::new("v1", "Pod", true, Vec::new());
        schema.add(pods.clone());
        let value = |of: &'static str| Bytes::from_static(of.as_bytes());
        // Of another text than the value: so the two can be told apart.
        let reading = Decoder::new().read(&pods, &value(r#"{"metadata":{"name":"read"}}"#)).unwrap();
        let read = NewValue::read(value(r#"{"metadata":{"name":"value"}}"#), &Arc::new(reading));
        let unread = NewValue::from(value(r#"{"metadata":{"name":"value"}}"#));
        let got = published(schema, vec![unread.clone(), read, unread]);
        let shown = got.iter().map(|text| text.contains(r#""name":"read""#)).collect::<Vec<_>>();
        assert_eq!(shown, [false, true, false], "{got:?}");
    }
}
