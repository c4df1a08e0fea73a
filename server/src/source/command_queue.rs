//! The command queue between the shards and the thread of the source: commands there, answers back.
//!
//! Owns the queue of commands and the source's counts. Any thread may submit a command; one thread takes them. It never waits.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;
use revcast_engine::Object;
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;

use super::{SourceError, Txn, TxnError};
use crate::durations::Durations;
use crate::progress::StepProgress;

/// Commands that may wait; further ones are refused.
const COMMANDS_MAX: usize = 4096;

/// The address of an answer: a shard, and its own ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// The shard.
    pub shard: usize,
    /// The shard's number for the command.
    pub ticket: u64,
}

/// A command for the source's thread.
#[derive(Debug)]
pub enum Command {
    /// Make this transaction.
    Write(Txn, Asker),
    /// Compact history up to this revision.
    Compact(Revision, Asker),
    /// Return a revision that is at least that of every write acknowledged before this command.
    Newest(Asker),
    /// Return the newest state of a key in the store itself.
    Get(Key, Asker),
}

/// An answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The transaction is durable, as this revision.
    Written(Revision),
    /// Nothing was changed.
    Refused(TxnError),
    /// History is compacted up to here.
    Compacted(Revision),
    /// Nothing was compacted, and why.
    NotCompacted(String),
    /// The newest revision, and the number of the epoch that it belongs to.
    Newest {
        /// See [`super::epoch::Epoch::number`].
        epoch: u64,
        /// It includes everything that was acknowledged before the command.
        revision: Revision,
    },
    /// The newest state of a key; `None`: it has no value.
    Found(Option<Arc<Object>>),
    /// The source could not answer.
    Unanswered(SourceError),
}

/// The shards, as the source's thread sees them.
pub trait Shards: Send + Sync {
    /// Something new is visible, or to be done.
    fn wake_all(&self);
    /// An answer for one of them.
    fn answer(&self, to: Asker, answer: Answer);
}

/// Counts of the source, for metrics.
#[derive(Debug, Default)]
pub struct SourceStats {
    /// Transactions made.
    pub writes: AtomicU64,
    /// Transactions refused.
    pub refused: AtomicU64,
    /// Keys deleted because they had expired.
    pub expired: AtomicU64,
    /// Flushes of a group to disk (or to nothing, in memory).
    pub flushes: AtomicU64,
    /// Times that the source waited because shards still needed half of the ring.
    pub backlogged: AtomicU64,
    /// The revision up to which the store has compacted history.
    pub compacted: AtomicU64,
    /// From when the source had changes until they were visible to shards, one observation per publication.
    pub publishing: Durations,
    /// The disk is full: writes are refused until there is room.
    pub full: AtomicBool,
    /// The disk failed: every write is refused.
    pub failed: AtomicBool,
    /// How far the start of the source, or the end of the server is.
    pub progress: Arc<StepProgress>,
    /// Counts of a remote source.
    pub remote: RemoteStats,
}

/// Counts of a remote source, for metrics and readiness.
#[derive(Debug)]
pub struct RemoteStats {
    born: Instant,
    /// Nanoseconds from `born` to the newest moment for which it is proven that everything written before is visible here; 0:
    /// none.
    proven: AtomicU64,
    /// Watch streams that were opened.
    pub watches: AtomicU64,
    /// Loads of the whole state.
    pub loads: AtomicU64,
    /// Objects that were loaded.
    pub loaded_objects: AtomicU64,
    /// Requests for the source's newest revision.
    pub questions: AtomicU64,
    /// Shards that were answered by them.
    pub answered: AtomicU64,
    /// Requests for progress on a watch stream.
    pub progress_requests: AtomicU64,
    /// Events that were sent a second time, or from before the requested revision; they were dropped.
    pub repeated: AtomicU64,
    /// Events of keys that belong to no served resource.
    pub foreign: AtomicU64,
    /// Watch streams that failed, or were ended because of invalid responses.
    pub breaks: AtomicU64,
    /// Requests that failed.
    pub failures: AtomicU64,
    /// Leases that were granted.
    pub leases: AtomicU64,
    /// A kube-apiserver keeps its objects there too.
    pub is_cluster: AtomicBool,
    /// The etcd cluster that is served; 0: none yet.
    pub cluster: AtomicU64,
}

impl Default for RemoteStats {
    fn default() -> Self {
        Self {
            born: Instant::now(),
            proven: AtomicU64::new(0),
            watches: AtomicU64::new(0),
            loads: AtomicU64::new(0),
            loaded_objects: AtomicU64::new(0),
            questions: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            progress_requests: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            foreign: AtomicU64::new(0),
            breaks: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            leases: AtomicU64::new(0),
            is_cluster: AtomicBool::new(false),
            cluster: AtomicU64::new(0),
        }
    }
}

impl RemoteStats {
    /// Everything that was written before `moment` is visible here.
    pub fn prove(&self, moment: Instant) {
        let since = moment.saturating_duration_since(self.born).as_nanos();
        self.proven.fetch_max(u64::try_from(since).unwrap_or(u64::MAX).max(1), Ordering::AcqRel);
    }

    /// Nothing is proven any more: another epoch begins.
    pub fn disprove(&self) {
        self.proven.store(0, Ordering::Release);
    }

    /// The age of the newest proof; `None`: there is none.
    #[must_use]
    pub fn stale(&self) -> Option<Duration> {
        match self.proven.load(Ordering::Acquire) {
            0 => None,
            proven => Some(self.born.elapsed().saturating_sub(Duration::from_nanos(proven))),
        }
    }
}

/// Where shards submit commands.
pub struct CommandQueue {
    commands: ArrayQueue<Command>,
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
    closing: AtomicBool,
    /// Counts of the source.
    pub stats: SourceStats,
}

/// Too many commands wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl CommandQueue {
    /// An empty queue without a waker.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            commands: ArrayQueue::new(COMMANDS_MAX),
            waker: OnceLock::new(),
            closing: AtomicBool::new(false),
            stats: SourceStats::default(),
        })
    }

    /// Submits a command; its answer comes through [`Shards::answer`].
    ///
    /// # Errors
    /// [`Full`]: the command was not accepted.
    pub fn submit(&self, command: Command) -> Result<(), Full> {
        self.commands.push(command).map_err(|_| Full)?;
        self.wake();
        Ok(())
    }

    /// Asks the thread to finish what is waiting and to end.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.wake();
    }

    /// Registers the waker, which other threads call when there is work. The first registration wins.
    pub fn set_waker(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.waker.set(Box::new(wake));
    }

    /// The next command.
    #[must_use]
    pub fn take(&self) -> Option<Command> {
        self.commands.pop()
    }

    /// Whether [`CommandQueue::close`] was called.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Wakes the thread, although there may be no work.
    pub fn wake(&self) {
        if let Some(wake) = self.waker.get() {
            wake();
        }
    }
}

impl fmt::Debug for CommandQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandQueue").field("waiting", &self.commands.len()).finish_non_exhaustive()
    }
}
