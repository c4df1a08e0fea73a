//! The database file: a checkpoint of the state at the compacted revision, and the log of every revision after it.
//!
//! Owns the tables, the changes that wait for the next group commit, and the folding of log into checkpoint. It does not check
//! writes or know the newest state: that is the store's part.
//!
//! ```text
//! meta      format, cluster, revision (newest), compacted    u64 each
//! objects   key -> object record                             the state at `compacted`
//! history   revision -> revision record                      every write after `compacted`
//! lives     where a life began -> newest revision before it  those that began after `compacted`
//! ```
//!
//! History has no gaps except those in `lives`. Format 1 had no `lives`: its file is one life.
//!
//! Each redb transaction takes the file from one consistent state to another; recovery never has to complete a step.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};
use revcast_engine::change::Batch;
use revcast_engine::gap::Gap;
use revcast_engine::revision::Revision;

use super::lives::Lives;
use super::record::{self, Names, Object, RecordError, State};
use crate::source::WallTime;

pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
pub(super) const OBJECTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("objects");
pub(super) const HISTORY: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("history");
pub(super) const LIVES: TableDefinition<'_, u64, u64> = TableDefinition::new("lives");

/// The layout described above. A higher one was written by a later revcast.
pub(super) const FORMAT: u64 = 2;
/// The oldest layout that is read; the next start upgrades it.
pub(super) const FORMAT_MIN: u64 = 1;
/// A folding step ends early after it read this much, so that a write never waits long for it.
const FOLD_BYTES_MAX: usize = 4 << 20;

/// The numbers in `meta`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) cluster: u64,
    pub(super) revision: Revision,
    pub(super) compacted: Revision,
}

impl Marks {
    /// The revision of the first write that `history` must have, if there is one.
    pub(super) fn history_start(&self, lives: &Lives) -> Revision {
        // A fresh store of format 1 was at revision 1, which wrote nothing, and nothing was compacted.
        lives.write_after(self.compacted.max(super::FRESH))
    }
}

/// A fault of the file, or of the disk.
#[derive(Debug)]
pub(super) enum Fault {
    Redb(redb::Error),
    Record {
        place: String,
        error: RecordError,
    },
    Gap {
        expected: Revision,
        found: Option<Revision>,
    },
    Mark(&'static str),
    /// An error or panic of redb.
    Panic(String),
    /// The file could not be reopened after a failed commit.
    Shut(String),
}

impl<E: Into<redb::Error>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Redb(error.into())
    }
}

impl Fault {
    pub(super) fn history(revision: u64) -> impl FnOnce(RecordError) -> Self {
        move |error| Self::Record { place: format!("revision {revision}"), error }
    }

    pub(super) fn object(key: &[u8]) -> impl FnOnce(RecordError) -> Self + '_ {
        move |error| Self::Record { place: format!("object {:?}", String::from_utf8_lossy(key)), error }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redb(error) => error.fmt(f),
            Self::Record { place, error } => write!(f, "{place}: {error}"),
            Self::Gap { expected, found: Some(found) } => {
                write!(f, "the log has revision {found} where {expected} belongs")
            }
            Self::Gap { expected, found: None } => write!(f, "the log ends before revision {expected}"),
            Self::Shut(why) => f.write_str(why),
            Self::Panic(said) => write!(f, "redb panicked: {said}"),
            Self::Mark(name) => write!(f, "the mark {name:?} is missing or wrong"),
        }
    }
}

impl Fault {
    /// Whether there was no room: on the disk, in a quota, below a limit of file sizes.
    pub(super) fn is_full(&self) -> bool {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(self, Self::Redb(redb::Error::Io(error))
            if matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge))
    }
}

/// How to reopen the file.
pub(super) type Reopen = Box<dyn Fn() -> Result<(Database, Marks), Fault> + Send>;

/// Revisions encoded and not yet committed. The buffer is reused from group to group.
#[derive(Debug, Default)]
struct Pending {
    bytes: Vec<u8>,
    revisions: Vec<(Revision, Range<usize>)>,
}

/// The open database file.
pub(super) struct Log {
    path: PathBuf,
    /// `None`: it could not be reopened.
    db: Option<Database>,
    reopen: Reopen,
    pending: Pending,
    durable: Marks,
    lives: Lives,
    /// The start of this life, until it is durable.
    start: Option<Gap>,
    /// Dropped, and so released, after the database.
    _lock: File,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("path", &self.path)
            .field("durable", &self.durable)
            .finish_non_exhaustive()
    }
}

impl Log {
    pub(super) fn new(
        path: PathBuf,
        db: Database,
        (durable, lives): (Marks, Lives),
        lock: File,
        reopen: Reopen,
    ) -> Self {
        let pending = Pending::default();
        Self { path, db: Some(db), reopen, pending, durable, lives, start: None, _lock: lock }
    }

    /// Another life begins at the end of the gap. Durable with the next group commit.
    pub(super) fn begin_life(&mut self, gap: Gap) {
        self.lives.begin(gap);
        self.start = Some(gap);
    }

    /// The newest revision, if nothing waits.
    pub(super) fn revision(&self) -> Revision {
        self.start.map_or(self.durable.revision, |gap| gap.next)
    }

    /// The gaps between the lives of the store.
    pub(super) const fn lives(&self) -> &Lives {
        &self.lives
    }

    /// The durable state of the file.
    pub(super) const fn durable(&self) -> Marks {
        self.durable
    }

    /// The database file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Revisions that wait for the next commit.
    pub(super) const fn pending(&self) -> usize {
        self.pending.revisions.len()
    }

    fn db(&self) -> Result<&Database, Fault> {
        self.db.as_ref().ok_or_else(|| Fault::Shut("it is closed".to_owned()))
    }

    /// Discards what waits, and returns to the state before a failed commit. redb refuses everything after a disk error: the
    /// file is closed and reopened, which also verifies that nothing of the commit is there.
    ///
    /// # Errors
    /// The content of the file is unknown.
    /// It is not known what the file holds.
    pub(super) fn take_back(&mut self) -> Result<(), Fault> {
        self.pending = Pending::default();
        self.db = None;
        let (db, marks) = (self.reopen)()?;
        if marks != self.durable {
            return Err(Fault::Shut("a commit that failed is there nevertheless".to_owned()));
        }
        self.db = Some(db);
        Ok(())
    }

    /// A view of the file as it is now; later writes do not change it.
    pub(super) fn view(&self) -> Result<View, Fault> {
        let txn = self.db()?.begin_read()?;
        Ok(View { objects: txn.open_table(OBJECTS)?, history: txn.open_table(HISTORY)? })
    }

    /// Adds a revision to the group; `expires` returns for each change, in order, when its value expires.
    pub(super) fn append(
        &mut self,
        names: &Names,
        batch: &Batch,
        mut expires: impl FnMut(usize) -> Option<WallTime>,
    ) {
        let start = self.pending.bytes.len();
        record::write_revision(&mut self.pending.bytes, batch.changes.len());
        for (index, change) in batch.changes.iter().enumerate() {
            let state = change.value.as_ref().map(|value| State { expires: expires(index), value });
            record::write_change(&mut self.pending.bytes, names, &change.key, state);
        }
        self.pending.revisions.push((batch.revision, start..self.pending.bytes.len()));
    }

    /// Commits the group: when this returns it is on disk.
    pub(super) fn flush(&mut self) -> Result<(), Fault> {
        let newest = self.pending.revisions.last().map(|&(revision, _)| revision);
        let Some(revision) = newest.or_else(|| self.start.map(|gap| gap.next)) else { return Ok(()) };
        let txn = self.db()?.begin_write()?;
        {
            if let Some(gap) = self.start {
                txn.open_table(LIVES)?.insert(gap.next.get(), gap.last.get())?;
                txn.open_table(META)?.insert("format", FORMAT)?;
            }
            let mut history = txn.open_table(HISTORY)?;
            for (revision, range) in &self.pending.revisions {
                history.insert(revision.get(), &self.pending.bytes[range.clone()])?;
            }
            txn.open_table(META)?.insert("revision", revision.get())?;
        }
        // redb's default durability is Immediate: the commit ends with an fsync.
        txn.commit()?;
        self.durable.revision = revision;
        self.start = None;
        self.pending.revisions.clear();
        self.pending.bytes.clear();
        // The memory of one huge group is not kept.
        self.pending.bytes.shrink_to(FOLD_BYTES_MAX);
        Ok(())
    }

    /// Moves the oldest revisions, none after `upto` and at most `revisions_max`, from the log into the checkpoint, in one
    /// transaction. `upto` must be durable and after the compacted revision.
    pub(super) fn fold(&mut self, upto: Revision, revisions_max: usize) -> Result<u64, Fault> {
        // A life may have written nothing: then there is nothing to move.
        let start = self.durable.history_start(&self.lives);
        let mut compacted = upto;
        let mut folded = 0;
        let txn = self.db()?.begin_write()?;
        {
            let mut history = txn.open_table(HISTORY)?;
            let mut newest = Newest::default();
            let (mut expected, mut last) = (start, self.durable.compacted);
            let mut bytes = 0;
            while expected <= upto {
                if folded >= revisions_max.max(1) as u64 || bytes >= FOLD_BYTES_MAX {
                    compacted = last;
                    break;
                }
                let entry = history.get(expected.get())?.ok_or(Fault::Gap { expected, found: None })?;
                bytes += entry.value().len();
                newest.take(expected, entry.value())?;
                folded += 1;
                (expected, last) = (self.lives.write_after(expected), expected);
            }
            newest.write(&mut txn.open_table(OBJECTS)?)?;
            history.retain_in(..=compacted.get(), |_, _| false)?;
            txn.open_table(LIVES)?.retain_in(..=compacted.get(), |_, _| false)?;
            txn.open_table(META)?.insert("compacted", compacted.get())?;
        }
        txn.commit()?;
        self.durable.compacted = compacted;
        self.lives.forget(compacted);
        Ok(folded)
    }
}

/// The last change of each key in a run of revisions: the checkpoint gets each key once, in order.
#[derive(Default)]
struct Newest(BTreeMap<Vec<u8>, Option<Vec<u8>>>);

impl Newest {
    fn take(&mut self, revision: Revision, bytes: &[u8]) -> Result<(), Fault> {
        for change in record::read_revision(bytes).map_err(Fault::history(revision.get()))? {
            let object = change.state.map(|state| {
                let mut out = Vec::with_capacity(state.value.len() + 24);
                let namespace_len = change.namespace_len;
                record::write_object(&mut out, &Object { modified: revision, namespace_len, state });
                out
            });
            self.0.insert(change.key.to_vec(), object);
        }
        Ok(())
    }

    fn write(self, objects: &mut redb::Table<'_, &[u8], &[u8]>) -> Result<(), Fault> {
        for (key, object) in self.0 {
            match object {
                Some(object) => drop(objects.insert(key.as_slice(), object.as_slice())?),
                None => drop(objects.remove(key.as_slice())?),
            }
        }
        Ok(())
    }
}

/// The tables as they were at one moment.
pub(super) struct View {
    pub(super) objects: redb::ReadOnlyTable<&'static [u8], &'static [u8]>,
    pub(super) history: redb::ReadOnlyTable<u64, &'static [u8]>,
}

impl View {
    /// How many objects and revisions there are. The file knows: nothing is read for it.
    pub(super) fn records(&self) -> Result<u64, Fault> {
        Ok(self.objects.len()? + self.history.len()?)
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").finish_non_exhaustive()
    }
}
