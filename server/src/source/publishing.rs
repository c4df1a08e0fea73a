//! The publisher's thread over the embedded store: commands in, durable and visible revisions out.
//!
//! Owns the store and the engine's publisher, and the order between them: apply, flush, publish, answer. A group of
//! waiting writes shares one flush. It never touches a socket; shards learn of news through [`Shards`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use revcast_engine::Publisher;
use revcast_engine::change::Batch;
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;

use super::command_queue::{Answer, Asker, Command, CommandQueue, Shards, SourceStats};
use super::embedded::{CompactError, Progress, Recovery, Store};
use super::{StorageError, TxnError, WallTime};
use crate::abort_on_panic::AbortOnPanic;
use crate::clock::Clock;

/// Writes that share one flush.
const GROUP_MAX: usize = 256;
/// Keys that one pass expires.
const EXPIRE_MAX: usize = 256;
/// Of frames that are replayed, so many bytes become visible together: what they push out of the window is let go then.
const REPLAY_BYTES: u64 = 1 << 20;
/// As many revisions at most.
const REPLAY_REVISIONS: usize = 1024;
/// How often the source looks whether such a shard has caught up.
const BACKLOG_POLL: Duration = Duration::from_micros(200);

/// Replays what the store remembers through the publisher, so that the window survives a restart.
///
/// # Errors
/// The file cannot be read, or its revisions do not grow; one line either way.
pub fn replay(recovery: &Recovery, publisher: &mut Publisher) -> Result<(), String> {
    let now = seconds(wall_now());
    for object in recovery.base() {
        let object = object.map_err(|error| error.to_string())?;
        publisher.load(object.key, object.revision, &object.value);
    }
    publisher.loaded(recovery.compacted);
    let mut gaps = recovery.gaps.iter().copied().peekable();
    // A delete has no value: its frame is a copy of what is gone, which it keeps besides. The window counts it.
    let (mut shown, mut revisions) = (publisher.window_bytes(), 0);
    for batch in recovery.history() {
        let batch = batch.map_err(|error| error.to_string())?;
        while let Some(gap) = gaps.next_if(|gap| gap.next < batch.revision) {
            publisher.skip(gap);
        }
        publisher
            .handle_batch(&batch, now)
            .map_err(|error| format!("the stored revision {} cannot be served: {error}", batch.revision))?;
        revisions += 1;
        if publisher.window_bytes() >= shown + REPLAY_BYTES || revisions >= REPLAY_REVISIONS {
            publisher.publish();
            (shown, revisions) = (publisher.window_bytes(), 0);
        }
    }
    gaps.for_each(|gap| publisher.skip(gap));
    publisher.handle_progress(recovery.revision);
    publisher.publish();
    Ok(())
}

/// Starts the publisher's thread.
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
        let next_compaction = compact_interval.map(|interval| Instant::now() + interval);
        let mut thread = Publishing {
            store,
            publisher,
            commands,
            shards,
            clock,
            compact_interval,
            next_compaction,
            compacting: false,
            to_compact: Vec::new(),
            group: Vec::new(),
        };
        thread.run();
    })
}

/// One write of the group under way: whom to answer, and what happened.
struct Pending {
    asker: Asker,
    outcome: Result<(Revision, Vec<Key>), TxnError>,
}

struct Publishing {
    store: Store,
    publisher: Publisher,
    commands: Arc<CommandQueue>,
    shards: Arc<dyn Shards>,
    clock: Clock,
    compact_interval: Option<Duration>,
    next_compaction: Option<Instant>,
    compacting: bool,
    /// Who waits for a compaction, and up to where.
    to_compact: Vec<(Revision, Asker)>,
    group: Vec<Command>,
}

impl Publishing {
    fn run(&mut self) {
        loop {
            let closing = self.commands.is_closing();
            while self.group.len() < GROUP_MAX
                && let Some(command) = self.commands.take()
            {
                self.group.push(command);
            }
            let expired = self.due_leases();
            self.publisher.set_arrival(self.clock.now());
            let worked = !self.group.is_empty() || !expired.is_empty();
            if worked {
                self.commit(expired);
            }
            // Memory may have become scarce since.
            if self.publisher.trim() {
                self.commands.stats.window_bytes.store(self.publisher.window_bytes(), Ordering::Relaxed);
                self.shards.published();
            }
            let compacted = self.compact_some();
            if worked || compacted {
                continue;
            }
            if closing {
                return;
            }
            self.sleep();
        }
    }

    /// Backpressure: makes visible what was taken, and waits until shards have room for this batch too.
    fn make_room(&mut self, batch: &Batch) {
        let weight = self.publisher.weigh(batch);
        if !self.publisher.should_wait(weight) {
            return;
        }
        self.commands.stats.backlogged.fetch_add(1, Ordering::Relaxed);
        self.show();
        while self.publisher.should_wait(weight) && !self.commands.is_closing() {
            std::thread::park_timeout(BACKLOG_POLL);
        }
    }

    /// Makes what the publisher took visible.
    fn show(&mut self) {
        self.publisher.publish();
        self.commands.stats.window_bytes.store(self.publisher.window_bytes(), Ordering::Relaxed);
        self.shards.published();
    }

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
        let stats = &self.commands.stats;
        let expirations = expired.len() as u64;
        let mut batches = expired;
        let mut pending = Vec::new();
        let mut compactions = Vec::new();
        let mut questions = Vec::new();
        for command in self.group.drain(..) {
            match command {
                Command::Write(txn, asker) => {
                    let outcome = self.store.apply(&txn, now).map(|batch| {
                        let revision = batch.revision;
                        batches.push(batch);
                        (revision, txn.ops.into_iter().map(|op| op.key).collect())
                    });
                    pending.push(Pending { asker, outcome });
                }
                Command::Compact(revision, asker) => compactions.push((revision, asker)),
                Command::Newest(asker) => questions.push((None, asker)),
                Command::Get(key, asker) => questions.push((Some(key), asker)),
            }
        }
        let flushed = self.store.flush();
        // For want of room all of a group is undone, and questions alone write nothing.
        if flushed.is_ok() && !batches.is_empty() {
            stats.expired.fetch_add(expirations, Ordering::Relaxed);
            stats.flushes.fetch_add(1, Ordering::Relaxed);
        }
        // Who asked for what cannot be tells nothing of the disk.
        if flushed.is_err() || !batches.is_empty() {
            note_disk(stats, flushed.as_ref().err());
        }
        let answers = match flushed {
            Ok(()) => self.publish(&batches, pending, seconds(now)),
            Err(error) => refuse_all(&pending, &error),
        };
        for (asker, answer) in answers {
            self.shards.answer(asker, answer);
        }
        // What is visible now holds everything that was acknowledged before the question.
        for (key, asker) in questions {
            let answer = match key {
                None => Answer::Newest { epoch: 0, revision: self.publisher.revision() },
                Some(key) => Answer::Found(self.publisher.get(&key).cloned()),
            };
            self.shards.answer(asker, answer);
        }
        for (revision, asker) in compactions {
            match self.store.begin_compact(revision, now) {
                Ok(()) => {
                    self.compacting = true;
                    self.to_compact.push((revision, asker));
                }
                Err(error) => self.shards.answer(asker, not_compacted(error)),
            }
        }
    }

    /// Publishes durable batches in order. The states for the answers are picked up as of each write, so a writer
    /// sees what it wrote itself, not what came after it in the group.
    fn publish(
        &mut self,
        batches: &[Batch],
        pending: Vec<Pending>,
        as_of_seconds: u64,
    ) -> Vec<(Asker, Answer)> {
        let arrived = self.publisher.arrival();
        let mut answers = Vec::with_capacity(pending.len());
        let mut pending = pending.into_iter().peekable();
        let mut take_refused = |answers: &mut Vec<_>, until: Option<Revision>| {
            while let Some(next) = pending.peek() {
                if matches!(&next.outcome, Ok((revision, _)) if Some(*revision) != until) {
                    break;
                }
                let Some(Pending { asker, outcome }) = pending.next() else { break };
                match outcome {
                    Ok((revision, keys)) => return Some((asker, revision, keys)),
                    Err(error) => answers.push((asker, Answer::Refused(error))),
                }
            }
            None
        };
        for batch in batches {
            self.make_room(batch);
            // The edge decodes every value before it writes it, with the same decoder.
            if let Err(error) = self.publisher.handle_batch(batch, as_of_seconds) {
                panic!("revision {} was accepted and cannot be published: {error}", batch.revision);
            }
            if let Some((asker, revision, keys)) = take_refused(&mut answers, Some(batch.revision)) {
                let objects = keys.iter().map(|key| self.publisher.get(key).cloned()).collect();
                answers.push((asker, Answer::Written(revision, objects)));
            }
        }
        let unanswered = take_refused(&mut answers, None);
        debug_assert!(unanswered.is_none(), "every batch was published");
        self.show();
        let stats = &self.commands.stats;
        if !batches.is_empty() {
            stats.publishing.observe(self.clock.now().since(arrived));
        }
        let written = answers.iter().filter(|(_, answer)| matches!(answer, Answer::Written(..))).count();
        stats.writes.fetch_add(written as u64, Ordering::Relaxed);
        stats.refused.fetch_add((answers.len() - written) as u64, Ordering::Relaxed);
        answers
    }

    /// One step of a compaction, if one runs or is due. True when there is more to do at once.
    fn compact_some(&mut self) -> bool {
        let now = wall_now();
        if let (Some(due), Some(interval)) = (self.next_compaction, self.compact_interval)
            && Instant::now() >= due
        {
            self.next_compaction = Some(Instant::now() + interval);
            // What the ring can replay is kept, so that it can after a restart.
            match self.store.begin_compact(self.publisher.forgotten(), now) {
                Ok(()) => self.compacting = true,
                // Nothing was forgotten since.
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
            // For want of room it is tried again when the next one is due.
            for (_, asker) in self.to_compact.drain(..) {
                self.shards.answer(asker, not_compacted(CompactError::Storage(error.clone())));
            }
        }
        self.compacting
    }

    /// Forgets, and answers, what was asked for and is done.
    fn answer_compacted(&mut self, compacted: Revision) {
        let done: Vec<_> = self.to_compact.extract_if(.., |(revision, _)| *revision <= compacted).collect();
        let Some(newest) = done.iter().map(|(revision, _)| *revision).max() else { return };
        self.publisher.compact(newest);
        self.publisher.publish();
        self.shards.published();
        for (revision, asker) in done {
            self.shards.answer(asker, Answer::Compacted(revision));
        }
    }

    /// Until a command comes, a lease ends or a compaction is due.
    fn sleep(&self) {
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

/// Tells of a disk that has no room, or is broken, or has room again: the log once, the metrics all the while.
fn note_disk(stats: &SourceStats, error: Option<&StorageError>) {
    match error {
        None => {
            if stats.full.swap(false, Ordering::AcqRel) {
                crate::log::info("the store has room again: writes are taken");
            }
        }
        Some(error) if error.is_full() => {
            if !stats.full.swap(true, Ordering::AcqRel) {
                crate::log::error(&format!("{error}; writes are refused with 507, reads and watches go on"));
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

fn refuse_all(pending: &[Pending], error: &StorageError) -> Vec<(Asker, Answer)> {
    pending
        .iter()
        .map(|write| {
            let error = match &write.outcome {
                Ok(_) => TxnError::Storage(error.clone()),
                Err(own) => own.clone(),
            };
            (write.asker, Answer::Refused(error))
        })
        .collect()
}

/// What the clock says: leases, and the floor of revisions, go by it.
#[must_use]
pub fn wall_now() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

const fn seconds(time: WallTime) -> u64 {
    time.as_millis() / 1000
}
