//! What a store returns to its caller at the start: the state at the compacted revision, and every revision after it.
//!
//! Owns reading the file as a stream: neither the values nor the log are ever completely in memory. Never changes anything.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use revcast_engine::change::{Batch, Change};
use revcast_engine::gap::Gap;
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;

use super::lives::ClockFault;
use super::log::{Fault, Log, View};
use super::record::{self, Named, Names};
use crate::progress::{Step, StepProgress};
use crate::source::{StorageError, WallTime};

/// A store's past. Replay [`Recovery::base`], then [`Recovery::history`], then drop it: until then the file cannot reuse the
/// space of what is compacted.
#[derive(Debug)]
pub struct Recovery {
    /// The newest revision: the next write gets the one after it.
    pub revision: Revision,
    /// The revision of the base; history begins after it. For a store that was never compacted, that of its creation.
    pub compacted: Revision,
    /// The revisions that were never written between two lives, oldest first. The last gap may end at `revision`.
    pub gaps: Vec<Gap>,
    /// The clock does not keep revisions above those of a lost store.
    pub clock: Option<ClockFault>,
    /// Objects that stay on disk but are not served, because their resource is not declared any more.
    pub undeclared: Vec<Undeclared>,
    file: Option<Contents>,
    progress: Arc<StepProgress>,
}

/// Objects of a resource that is not declared. They are kept, hidden and without expiry, until it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undeclared {
    /// The name under which it was declared.
    pub resource: String,
    /// How many objects it has.
    pub objects: usize,
}

/// One object of the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseObject {
    /// Which object.
    pub key: Key,
    /// The revision that wrote it.
    pub revision: Revision,
    /// The object as JSON.
    pub value: Bytes,
}

#[derive(Debug)]
struct Contents {
    view: View,
    names: Arc<Names>,
    path: PathBuf,
}

impl Recovery {
    /// An empty past.
    pub(super) fn none(birth: Revision, clock: Option<ClockFault>) -> Self {
        Self {
            revision: birth,
            compacted: birth,
            gaps: Vec::new(),
            clock,
            undeclared: Vec::new(),
            file: None,
            progress: Arc::default(),
        }
    }

    /// The past in a file that [`scan`] found complete.
    pub(super) fn of(
        log: &Log,
        names: &Arc<Names>,
        undeclared: Vec<Undeclared>,
        clock: Option<ClockFault>,
        progress: &Arc<StepProgress>,
    ) -> Result<Self, Fault> {
        Ok(Self {
            revision: log.revision(),
            compacted: log.durable().compacted,
            gaps: log.lives().gaps().to_vec(),
            clock,
            undeclared,
            file: Some(Contents { view: log.view()?, names: Arc::clone(names), path: log.path().to_owned() }),
            progress: Arc::clone(progress),
        })
    }

    /// The count of what [`Recovery::base`] and [`Recovery::history`] give, or some more.
    pub(super) fn records(&self) -> Result<u64, StorageError> {
        self.file.as_ref().map_or(Ok(0), |file| file.said(file.view.records()))
    }

    /// Where it is told how far a replay is.
    pub(super) const fn progress(&self) -> &Arc<StepProgress> {
        &self.progress
    }

    /// The state at the compacted revision, in the order of the stored keys.
    pub fn base(&self) -> impl Iterator<Item = Result<BaseObject, StorageError>> + '_ {
        self.file.iter().flat_map(|file| {
            let (range, fault) = opened(file.view.objects.range::<&[u8]>(..));
            let objects = range.into_iter().flatten().filter_map(|entry| {
                let (key, value) = match entry {
                    Ok(entry) => entry,
                    Err(error) => return Some(Err(error.into())),
                };
                base_object(&file.names, key.value(), value.value()).transpose()
            });
            objects.chain(fault.into_iter().map(Err)).map(|item| file.said(item))
        })
    }

    /// Every write after the compacted revision, in order. A revision that changed only undeclared resources is left out.
    pub fn history(&self) -> impl Iterator<Item = Result<Batch, StorageError>> + '_ {
        self.file.iter().flat_map(|file| {
            let (range, fault) = opened(file.view.history.range::<u64>(..));
            let batches = range.into_iter().flatten().filter_map(|entry| {
                let (revision, value) = match entry {
                    Ok(entry) => entry,
                    Err(error) => return Some(Err(error.into())),
                };
                match batch(&file.names, revision.value(), value.value()) {
                    Ok(batch) if batch.changes.is_empty() => None,
                    read => Some(read),
                }
            });
            batches.chain(fault.into_iter().map(Err)).map(|item| file.said(item))
        })
    }
}

impl Contents {
    fn said<T>(&self, item: Result<T, Fault>) -> Result<T, StorageError> {
        item.map_err(|fault| StorageError::new(&self.path, fault))
    }
}

/// The result of a change for its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    There { expires: Option<WallTime> },
    Gone,
}

fn opened<T>(range: Result<T, redb::StorageError>) -> (Option<T>, Option<Fault>) {
    match range {
        Ok(range) => (Some(range), None),
        Err(error) => (None, Some(error.into())),
    }
}

fn base_object(names: &Names, key: &[u8], value: &[u8]) -> Result<Option<BaseObject>, Fault> {
    let object = record::read_object(value).map_err(Fault::object(key))?;
    Ok(match names.key(key, object.namespace_len).map_err(Fault::object(key))? {
        Named::Declared(key) => {
            let value = Bytes::copy_from_slice(object.state.value);
            Some(BaseObject { key, revision: object.modified, value })
        }
        Named::Undeclared { .. } => None,
    })
}

fn batch(names: &Names, revision: u64, value: &[u8]) -> Result<Batch, Fault> {
    let mut changes = Vec::new();
    for change in record::read_revision(value).map_err(Fault::history(revision))? {
        match names.key(change.key, change.namespace_len).map_err(Fault::history(revision))? {
            Named::Declared(key) => {
                let value = change.state.map(|state| Bytes::copy_from_slice(state.value));
                changes.push(Change { key, value });
            }
            Named::Undeclared { .. } => {}
        }
    }
    Ok(Batch { revision: Revision::new(revision), changes })
}

/// Reads everything once and calls `visit` with every change, oldest first: the marks must agree with the tables, and every
/// record must be complete.
pub(super) fn scan(
    log: &Log,
    names: &Names,
    progress: &Arc<StepProgress>,
    mut visit: impl FnMut(Key, Revision, Presence),
) -> Result<Vec<Undeclared>, Fault> {
    let (view, marks, lives) = (log.view()?, log.durable(), log.lives());
    let mut undeclared: BTreeMap<String, HashSet<Vec<u8>>> = BTreeMap::new();
    progress.begin(Step::Reading);
    let total = view.records()?;
    // An error ends the process, and so what is shown.
    let mut records = 0;
    let mut read = || {
        records += 1;
        progress.reach(records, total);
    };
    let mut change = |named: Named<'_>, bytes: &[u8], revision: Revision, presence: Presence| match named {
        Named::Declared(key) => visit(key, revision, presence),
        Named::Undeclared { resource } => {
            let keys = undeclared.entry(resource.to_owned()).or_default();
            match presence {
                Presence::There { .. } => keys.insert(bytes.to_vec()),
                Presence::Gone => keys.remove(bytes),
            };
        }
    };
    for entry in view.objects.range::<&[u8]>(..)? {
        read();
        let (key, value) = entry?;
        let bytes = key.value();
        let object = record::read_object(value.value()).map_err(Fault::object(bytes))?;
        let named = names.key(bytes, object.namespace_len).map_err(Fault::object(bytes))?;
        if object.modified > marks.compacted {
            return Err(Fault::Mark("compacted"));
        }
        change(named, bytes, object.modified, Presence::There { expires: object.state.expires });
    }
    let mut expected = marks.history_start(lives);
    for entry in view.history.range::<u64>(..)? {
        read();
        let (number, value) = entry?;
        let number = number.value();
        let revision = Revision::new(number);
        if revision != expected {
            return Err(Fault::Gap { expected, found: Some(revision) });
        }
        for record::Change { key, namespace_len, state } in
            record::read_revision(value.value()).map_err(Fault::history(number))?
        {
            let named = names.key(key, namespace_len).map_err(Fault::history(number))?;
            let presence = state.map_or(Presence::Gone, |state| Presence::There { expires: state.expires });
            change(named, key, revision, presence);
        }
        expected = lives.write_after(revision);
    }
    match expected.cmp(&lives.write_after(marks.revision)) {
        Ordering::Less => return Err(Fault::Gap { expected, found: None }),
        Ordering::Greater => return Err(Fault::Mark("revision")),
        Ordering::Equal => {}
    }
    let kept = undeclared.into_iter().filter(|(_, keys)| !keys.is_empty());
    Ok(kept.map(|(resource, keys)| Undeclared { resource, objects: keys.len() }).collect())
}
