//! etcd's log of one epoch: the state at its beginning, and every change since then.

use std::collections::BTreeMap;

use super::{Kind, Wants};
use crate::etcd::{Change, Entry, Record};

/// A well-formed log. Nothing is known before its beginning or after its end.
#[derive(Clone, Debug)]
pub struct Log {
    since: u64,
    /// In the order of revisions.
    changes: Vec<Logged>,
    /// Where each key changes.
    of_keys: BTreeMap<String, Vec<usize>>,
    /// By key: its revision and value when the log begins.
    first: BTreeMap<String, State>,
}

/// The revision that wrote a value, and the value.
pub(super) type State = (u64, Vec<u8>);

/// A change, with the state before it.
#[derive(Clone, Debug)]
pub(super) struct Logged {
    pub(super) revision: u64,
    pub(super) key: String,
    pub(super) before: Option<Vec<u8>>,
    pub(super) now: Option<Vec<u8>>,
}

/// The event that a watcher must get for a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due<'a> {
    pub(super) revision: u64,
    pub(super) key: &'a str,
    pub(super) kind: Kind,
    pub(super) value: &'a [u8],
}

impl Log {
    /// The state at revision `since`, and the changes after it.
    ///
    /// # Errors
    /// One line: revisions go back, a key changes twice in one, or a delete deletes nothing. Then it is not a log.
    pub fn new(since: u64, state: &[Entry], records: Vec<Record>) -> Result<Self, String> {
        let entry = |entry: &Entry| (entry.key.clone(), (entry.mod_revision, entry.value.clone()));
        let first: BTreeMap<String, State> = state.iter().map(entry).collect();
        let mut current: BTreeMap<String, State> = first.clone();
        let mut changes: Vec<Logged> = Vec::with_capacity(records.len());
        let mut touched: BTreeMap<String, u64> = BTreeMap::new();
        let mut last = since;
        for Record { mod_revision: revision, key, change } in records {
            if revision <= since || revision < last {
                return Err(format!("revision {revision} of {key} comes after {last}"));
            }
            last = revision;
            if touched.insert(key.clone(), revision) == Some(revision) {
                return Err(format!("{key} changes twice in revision {revision}"));
            }
            let before = current.remove(&key).map(|state| state.1);
            let now = match change {
                Change::Put(value) => Some(value),
                Change::Delete if before.is_none() => {
                    return Err(format!("revision {revision} deletes {key}, which is not there"));
                }
                Change::Delete => None,
            };
            if let Some(value) = &now {
                current.insert(key.clone(), (revision, value.clone()));
            }
            changes.push(Logged { revision, key, before, now });
        }
        let mut of_keys: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, change) in changes.iter().enumerate() {
            of_keys.entry(change.key.clone()).or_default().push(at);
        }
        Ok(Self { since, changes, of_keys, first })
    }

    /// The same, each value in another form.
    #[must_use]
    pub fn with_values(mut self, form: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        let values =
            self.changes.iter_mut().flat_map(|change| [&mut change.before, &mut change.now]).flatten();
        for value in values.chain(self.first.values_mut().map(|state| &mut state.1)) {
            *value = form(value);
        }
        self
    }

    /// The revision after which it begins.
    #[must_use]
    pub const fn since(&self) -> u64 {
        self.since
    }

    /// Its newest revision.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.changes.last().map_or(self.since, |change| change.revision)
    }

    /// Whether a revision changed a key.
    pub(super) fn has(&self, revision: u64, key: &str) -> bool {
        let from = self.changes.partition_point(|change| change.revision < revision);
        let of_it = self.changes[from..].iter().take_while(|change| change.revision == revision);
        of_it.into_iter().any(|change| change.key == key)
    }

    /// The state at a revision within it.
    pub(super) fn state_at(&self, revision: u64) -> BTreeMap<&str, (u64, &[u8])> {
        let first =
            self.first.iter().map(|(key, (written, value))| (key.as_str(), (*written, value.as_slice())));
        let mut state: BTreeMap<&str, (u64, &[u8])> = first.collect();
        for change in self.changes.iter().take_while(|change| change.revision <= revision) {
            match &change.now {
                Some(value) => state.insert(&change.key, (change.revision, value)),
                None => state.remove(change.key.as_str()),
            };
        }
        state
    }

    /// The events that a watcher of keys that begin with `keys` must get, in the order of revisions.
    pub(super) fn due(&self, keys: &str, wants: &Wants) -> Vec<Due<'_>> {
        let theirs = self.of_keys.range(keys.to_owned()..).take_while(|(key, _)| key.starts_with(keys));
        let mut theirs: Vec<usize> = theirs.flat_map(|(_, at)| at).copied().collect();
        theirs.sort_unstable();
        let mut due = Vec::new();
        for Logged { revision, key, before, now } in theirs.into_iter().map(|at| &self.changes[at]) {
            let matching = |value: &&Vec<u8>| wants(key, value);
            let (before, now) = (before.as_ref().filter(matching), now.as_ref().filter(matching));
            let (kind, value) = match (before, now) {
                (None, None) => continue,
                (None, Some(now)) => (Kind::Added, now),
                (Some(_), Some(now)) => (Kind::Modified, now),
                (Some(before), None) => (Kind::Deleted, before),
            };
            due.push(Due { revision: *revision, key, kind, value });
        }
        due
    }
}
