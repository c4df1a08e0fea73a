//! The embedded store: revisions, expectations, leases and compaction, in memory or in one file.
//!
//! Owns which revision wrote each key, when it expires, and the next revision. Keeps no value in memory: values go to the
//! engine's index and, if there is a data directory, to the file. The store is used by the publisher's thread; it waits only
//! for the disk, starts no thread and reads no clock: `source` drives it.
//!
//! A write is applied immediately and durable after the next [`Store::flush`], which commits everything that was applied since
//! the previous one (group commit). Answer a writer only after the flush: an acknowledged write is never lost.
//!
//! Each start begins a life of the store (`lives`): its revisions continue above a minimum that the caller's clock sets, and
//! the first write is the one after that. So no revision of a lost store is ever taken for one of this store.

#[cfg(test)]
mod faults;
mod lease;
mod lives;
mod log;
mod open;
mod options;
mod record;
mod recovery;
mod replay;
mod source;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use revcast_engine::change::{Batch, Change};
use revcast_engine::gap::Gap;
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;

pub use self::lives::ClockFault;
pub use self::open::OpenError;
pub use self::options::EmbeddedOptions;
pub use self::recovery::{BaseObject, Recovery, Undeclared};
pub use self::replay::replay;
pub use self::source::{start, wall_now};

use self::lease::Leases;
use self::log::Log;
use self::record::Names;
use self::recovery::Presence;
use super::{
    Action, Expect, KEY_BYTES_MAX, Op, StorageError, TXN_OPS_MAX, Txn, TxnError, VALUE_BYTES_MAX, WallTime,
};
use crate::progress::StepProgress;

/// How long writes are refused for lack of room before the disk is tried again.
const FULL_PAUSE: Duration = Duration::from_secs(1);

/// The lowest revision at which a store begins: 0 means "any" on the wire.
const FRESH: Revision = Revision::new(1);

/// How to open a store.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// Where the file is; created if missing. `None`: in memory, lost at the end of the process.
    pub dir: Option<PathBuf>,
    /// The stable name of each row of the schema, in row order: `v1/configmaps`, `apps/v1/deployments`. Names, not
    /// rows, are written to disk.
    pub resources: Vec<String>,
    /// Memory for pages of the file, in bytes.
    pub cache_bytes: usize,
    /// Revisions that one step of compaction folds at most.
    pub fold_revisions_max: usize,
    /// The time at the start, which sets the minimum of its revisions: microseconds since 1970.
    pub started_at: WallTime,
    /// Where it is told how far that is, and the replay of what it returns.
    pub progress: Arc<StepProgress>,
}

impl StoreConfig {
    /// A store in memory.
    #[must_use]
    pub fn memory(resources: Vec<String>, started_at: WallTime) -> Self {
        Self {
            dir: None,
            resources,
            cache_bytes: 64 << 20,
            fold_revisions_max: 256,
            started_at,
            progress: Arc::default(),
        }
    }

    /// A store in `dir`.
    #[must_use]
    pub fn durable(dir: impl Into<PathBuf>, resources: Vec<String>, started_at: WallTime) -> Self {
        Self { dir: Some(dir.into()), ..Self::memory(resources, started_at) }
    }
}

/// The embedded store.
#[derive(Debug)]
pub struct Store {
    names: Arc<Names>,
    cluster: u64,
    revision: Revision,
    compacted: Revision,
    /// The target of the compaction in progress.
    folding: Option<Revision>,
    fold_revisions_max: usize,
    /// Which revision wrote each key that has a value.
    modified: HashMap<Key, Revision>,
    leases: Leases,
    log: Option<Log>,
    /// The changes of the group that is not durable yet, oldest first: to undo them if there is no room.
    undo: Vec<Before>,
    /// There was no room: nothing is applied for a while.
    full: Option<Full>,
    /// The newest time that was given.
    now: WallTime,
    /// The disk failed: nothing is applied or acknowledged any more.
    failed: Option<StorageError>,
}

/// A key as it was before a change.
#[derive(Debug)]
struct Before {
    key: Key,
    modified: Option<Revision>,
    expires: Option<WallTime>,
}

/// There was no room.
#[derive(Clone, Debug)]
struct Full {
    error: StorageError,
    since: WallTime,
}

impl Full {
    /// Whether it is too early to try the disk again. A clock that went back ends the wait.
    fn lasts(&self, now: WallTime) -> bool {
        now >= self.since && now < self.since.plus(FULL_PAUSE)
    }
}

/// A finished compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// History up to here is compacted.
    pub revision: Revision,
    /// How many revisions were folded into the checkpoint; none in memory.
    pub folded: u64,
}

/// The progress of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing is left to do.
    Done,
    /// Call [`Store::compact_step`] again.
    More,
}

/// Why a compaction was refused. The texts begin as etcd's do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompactError {
    /// The requested revision is compacted already.
    Compacted {
        /// The requested revision.
        asked: Revision,
        /// The compacted revision.
        compacted: Revision,
    },
    /// The requested revision is not written yet.
    Future {
        /// The requested revision.
        asked: Revision,
        /// The newest revision.
        newest: Revision,
    },
    /// The disk failed.
    Storage(StorageError),
}

impl fmt::Display for CompactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compacted { asked, compacted } => write!(
                f,
                "mvcc: required revision has been compacted: the request asks for {asked}, ask for more than \
                 {compacted}"
            ),
            Self::Future { asked, newest } => write!(
                f,
                "mvcc: required revision is a future revision: the request asks for {asked}, ask for at most {newest}"
            ),
            Self::Storage(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CompactError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Storage(error) => Some(error),
            Self::Compacted { .. } | Self::Future { .. } => None,
        }
    }
}

impl From<StorageError> for CompactError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl Store {
    /// Opens the store, reads it once, and returns its past for the caller to replay.
    ///
    /// # Errors
    /// See [`OpenError`]; nothing was changed then.
    pub fn open(config: &StoreConfig) -> Result<(Self, Recovery), OpenError> {
        let names = Names::new(&config.resources).map_err(OpenError::Resources)?;
        let birth = lives::floor(config.started_at).max(FRESH);
        let log = config.dir.as_deref().map(|dir| open::open(dir, config.cache_bytes, birth)).transpose()?;
        Self::with_log(config, names, log)
    }

    /// Reads what `log` holds, if there is one, and begins a life.
    fn with_log(config: &StoreConfig, names: Names, log: Option<Log>) -> Result<(Self, Recovery), OpenError> {
        let floor = lives::floor(config.started_at).max(FRESH);
        let mut store = Self {
            names: Arc::new(names),
            cluster: new_cluster(),
            revision: floor,
            compacted: floor,
            folding: None,
            fold_revisions_max: config.fold_revisions_max,
            modified: HashMap::new(),
            leases: Leases::default(),
            log: None,
            undo: Vec::new(),
            full: None,
            now: config.started_at,
            failed: None,
        };
        let Some(mut log) = log else {
            return Ok((store, Recovery::none(floor, ClockFault::of(config.started_at, floor))));
        };
        let recovery = store.recover(&mut log, config);
        let recovery = recovery.map_err(|fault| OpenError::fault(log.path(), &fault))?;
        store.log = Some(log);
        Ok((store, recovery))
    }

    /// Reads the state in `log`, and begins a life only after it was read completely.
    fn recover(&mut self, log: &mut Log, config: &StoreConfig) -> Result<Recovery, log::Fault> {
        let undeclared =
            recovery::scan(log, &self.names, &config.progress, |key, revision, presence| match presence {
                Presence::There { expires } => {
                    self.leases.set(&key, expires);
                    self.modified.insert(key, revision);
                }
                Presence::Gone => {
                    self.leases.set(&key, None);
                    self.modified.remove(&key);
                }
            })?;
        let marks = log.durable();
        let clock = ClockFault::of(config.started_at, marks.revision);
        if self.revision > marks.revision {
            log.begin_life(Gap { last: marks.revision, next: self.revision });
            // Stored before a client can learn a revision of it. Without room it waits for the first write. If it is lost with
            // that, its revisions are in the gap before the next life, and a client that names one gets 410.
            match log.flush() {
                Err(fault) if fault.is_full() => log.take_back()?,
                done => done?,
            }
        }
        (self.cluster, self.revision, self.compacted) = (marks.cluster, log.revision(), marks.compacted);
        Recovery::of(log, &self.names, undeclared, clock, &config.progress)
    }

    /// Applies all of `txn` in the next revision, or nothing. Not durable before the next [`Store::flush`].
    ///
    /// A key whose lease expired exists until [`Store::expire`] deletes it.
    ///
    /// # Errors
    /// The first fault of the request, or that the disk failed before, or is full.
    ///
    /// # Panics
    /// If a key's resource is not a row of [`StoreConfig::resources`].
    pub fn apply(&mut self, txn: &Txn, now: WallTime) -> Result<Batch, TxnError> {
        self.now = now;
        self.ready().map_err(TxnError::Storage)?;
        self.check(&txn.ops)?;
        let mut changes = Vec::with_capacity(txn.ops.len());
        let mut expiries = Vec::with_capacity(txn.ops.len());
        for Op { key, action, .. } in &txn.ops {
            let (value, expires) = match action {
                Action::Put { value, ttl } => (Some(value.bytes().clone()), ttl.map(|ttl| now.plus(ttl))),
                Action::Delete => (None, None),
            };
            changes.push(Change { key: key.clone(), value });
            expiries.push(expires);
        }
        Ok(self.commit(changes, &expiries))
    }

    /// Makes everything that was applied durable, in one commit. Does nothing in memory.
    ///
    /// # Errors
    /// [`StorageError::is_full`]: nothing that was applied since the last flush has happened, and writes are accepted again
    /// once there is room. Otherwise the disk failed: what was applied since the last flush may be lost, and every later
    /// `apply`, `flush` and `compact` returns the same error: only a restart shows what reached the disk.
    pub fn flush(&mut self) -> Result<(), StorageError> {
        self.healthy()?;
        if let Some(full) = &self.full {
            return Err(full.error.clone());
        }
        let Some(log) = &mut self.log else { return Ok(()) };
        match log.flush() {
            Ok(()) => {
                self.undo.clear();
                Ok(())
            }
            Err(fault) => Err(self.broken(&fault)),
        }
    }

    /// When the next key expires. `None` also after the disk failed: nothing expires then.
    #[must_use]
    pub fn next_expiry(&self) -> Option<WallTime> {
        let due = if self.failed.is_some() { None } else { self.leases.next() }?;
        // Nothing can be deleted while the disk is full.
        Some(self.full.as_ref().map_or(due, |full| due.max(full.since.plus(FULL_PAUSE))))
    }

    /// Deletes up to `max` keys whose lease expired at `now`, soonest first, each in its own revision. Not durable before the
    /// next [`Store::flush`].
    pub fn expire(&mut self, now: WallTime, max: usize) -> Vec<Batch> {
        let mut batches = Vec::new();
        self.now = now;
        if self.ready().is_err() {
            return batches;
        }
        while batches.len() < max {
            let Some(due) = self.leases.next() else { break };
            let Some(key) = self.leases.pop_due(now) else { break };
            self.leases.set(&key, Some(due));
            batches.push(self.commit(vec![Change { key, value: None }], &[None]));
        }
        batches
    }

    /// Compacts history up to and including `upto`, in all its steps.
    ///
    /// # Errors
    /// See [`CompactError`].
    pub fn compact(&mut self, upto: Revision, now: WallTime) -> Result<Compacted, CompactError> {
        self.begin_compact(upto, now)?;
        let mut folded = 0;
        loop {
            let (progress, step) = self.step()?;
            folded += step;
            if progress == Progress::Done {
                return Ok(Compacted { revision: self.compacted, folded });
            }
        }
    }

    /// Begins to compact history up to `upto`; [`Store::compact_step`] does it, a bounded part at a time, so that writes can
    /// happen in between. A compaction in progress continues, further if needed: it is done for `upto` when
    /// [`Store::compacted`] has reached it.
    ///
    /// # Errors
    /// See [`CompactError`].
    pub fn begin_compact(&mut self, upto: Revision, now: WallTime) -> Result<(), CompactError> {
        self.now = now;
        self.ready()?;
        let compacted = self.compacted;
        if upto <= compacted {
            return Err(CompactError::Compacted { asked: upto, compacted });
        }
        if upto > self.revision {
            return Err(CompactError::Future { asked: upto, newest: self.revision });
        }
        self.folding = self.folding.max(Some(upto));
        Ok(())
    }

    /// Does one step of the compaction in progress: one commit, which takes the file from one consistent state to the next. A
    /// crash between two steps leaves a store that is compacted less far.
    ///
    /// # Errors
    /// The disk failed, or is full; as for [`Store::flush`]. The compaction then stops where it is: begin again.
    pub fn compact_step(&mut self, now: WallTime) -> Result<Progress, StorageError> {
        self.now = now;
        self.step().map(|(progress, _)| progress)
    }

    /// The compacted revision. While a compaction runs, its progress.
    #[must_use]
    pub const fn compacted(&self) -> Revision {
        self.compacted
    }

    /// The newest revision.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// The revision that wrote the value of `key`; `None`: it has no value.
    #[must_use]
    pub fn modified(&self, key: &Key) -> Option<Revision> {
        self.modified.get(key).copied()
    }

    /// How many keys have a value; those of undeclared resources are not counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.modified.len()
    }

    /// Whether no key has a value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.modified.is_empty()
    }

    /// Revisions that are applied and not yet durable; always none in memory.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.log.as_ref().map_or(0, Log::pending)
    }

    /// The id of this store's history: drawn at creation, constant.
    #[must_use]
    pub const fn cluster(&self) -> u64 {
        self.cluster
    }

    /// The first fault of a transaction, in the order of its operations.
    fn check(&self, ops: &[Op]) -> Result<(), TxnError> {
        match ops.len() {
            0 => return Err(TxnError::NoOps),
            1..=TXN_OPS_MAX => {}
            ops => return Err(TxnError::TooManyOps { ops }),
        }
        let mut seen = HashSet::with_capacity(if ops.len() > 1 { ops.len() } else { 0 });
        for (op, Op { key, action, .. }) in ops.iter().enumerate() {
            assert!(key.resource().row() < self.names.len(), "a key's resource is a row of the schema");
            let bytes = key.path().len();
            if bytes > KEY_BYTES_MAX {
                return Err(TxnError::KeyTooLong { op, bytes });
            }
            match action {
                Action::Put { value, .. } if value.bytes().len() > VALUE_BYTES_MAX => {
                    return Err(TxnError::ValueTooLarge { op, bytes: value.bytes().len() });
                }
                Action::Put { .. } | Action::Delete => {}
            }
            if ops.len() > 1 && !seen.insert(key) {
                return Err(TxnError::DuplicateKey { op });
            }
        }
        for (op, Op { key, expect, action }) in ops.iter().enumerate() {
            let found = self.modified(key);
            let holds = match expect {
                Expect::Any => true,
                Expect::Absent => found.is_none(),
                Expect::Exists => found.is_some(),
                Expect::At(revision) => found == Some(*revision),
            };
            if !holds {
                return Err(TxnError::Conflict { op, found });
            }
            if found.is_none() && *action == Action::Delete {
                return Err(TxnError::NotFound { op });
            }
        }
        Ok(())
    }

    /// Makes `changes` the next revision. They were checked before.
    fn commit(&mut self, changes: Vec<Change>, expiries: &[Option<WallTime>]) -> Batch {
        self.revision = self.revision.next();
        let batch = Batch { revision: self.revision, changes };
        for (Change { key, value }, expires) in batch.changes.iter().zip(expiries) {
            if self.log.is_some() {
                let (modified, expires) = (self.modified(key), self.leases.of(key));
                self.undo.push(Before { key: key.clone(), modified, expires });
            }
            self.leases.set(key, *expires);
            match value {
                Some(_) => self.modified.insert(key.clone(), self.revision),
                None => self.modified.remove(key),
            };
        }
        if let Some(log) = &mut self.log {
            log.append(&self.names, &batch, |index| expiries[index]);
        }
        batch
    }

    /// One step of a compaction; returns how many revisions it folded.
    fn step(&mut self) -> Result<(Progress, u64), StorageError> {
        let step = self.fold();
        if step.is_err() {
            self.folding = None;
        }
        step
    }

    fn fold(&mut self) -> Result<(Progress, u64), StorageError> {
        self.ready()?;
        let Some(upto) = self.folding else { return Ok((Progress::Done, 0)) };
        let Some(log) = &mut self.log else {
            (self.compacted, self.folding) = (upto, None);
            return Ok((Progress::Done, 0));
        };
        let ready = if upto > log.durable().revision { log.flush() } else { Ok(()) };
        let done = ready.and_then(|()| log.fold(upto, self.fold_revisions_max));
        self.compacted = log.durable().compacted;
        let folded = match done {
            Ok(folded) => folded,
            Err(fault) => return Err(self.broken(&fault)),
        };
        if self.pending() == 0 {
            self.undo.clear();
        }
        if self.compacted >= upto {
            self.folding = None;
            return Ok((Progress::Done, folded));
        }
        Ok((Progress::More, folded))
    }

    /// Handles a fault of the disk: if it is full, the current group did not happen; otherwise the store has failed for good.
    fn broken(&mut self, fault: &log::Fault) -> StorageError {
        let Some(log) = &mut self.log else { unreachable!("there is no disk that could fail") };
        let path = log.path().to_owned();
        let back = if fault.is_full() { log.take_back() } else { Err(log::Fault::Shut(fault.to_string())) };
        match back {
            Err(fault) => {
                let error = StorageError::new(&path, &fault);
                self.failed = Some(error.clone());
                error
            }
            Ok(()) => {
                let error = StorageError::full(&path, fault);
                self.full = Some(Full { error: error.clone(), since: self.now });
                self.undo_group();
                error
            }
        }
    }

    /// Restores the state before the group that was not written.
    fn undo_group(&mut self) {
        for Before { key, modified, expires } in self.undo.drain(..).rev() {
            self.leases.set(&key, expires);
            match modified {
                Some(revision) => drop(self.modified.insert(key, revision)),
                None => drop(self.modified.remove(&key)),
            }
        }
        if let Some(log) = &self.log {
            self.revision = log.revision();
        }
    }

    /// Whether something can be applied now; after the disk was full, it is tried again after a while.
    fn ready(&mut self) -> Result<(), StorageError> {
        self.healthy()?;
        match &self.full {
            None => return Ok(()),
            Some(full) if full.lasts(self.now) => return Err(full.error.clone()),
            Some(_) => self.full = None,
        }
        Ok(())
    }

    fn healthy(&self) -> Result<(), StorageError> {
        self.failed.clone().map_or(Ok(()), Err)
    }
}

/// A number that no other store has, with overwhelming probability.
fn new_cluster() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}
