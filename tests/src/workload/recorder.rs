//! etcd's log of the load, kept while etcd may compact it, and over every outage.
//!
//! After an outage it reads some revisions a second time: if etcd's history has changed (as 3.5.1's may when it is
//! killed, etcd #13766), there is no log to check watchers with.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::objects::form;
use crate::etcd::{Gateway, Record};
use crate::history::Log;

#[derive(Debug, Default)]
struct State {
    records: Vec<Record>,
    newest: u64,
    /// etcd may have compacted everything up to here.
    forgotten: u64,
    problem: Option<String>,
    over: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many revisions are read a second time.
const AGAIN: u64 = 50;

/// A growing log of one epoch, without gaps: every revision is in it.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
}

impl Recorder {
    /// Of an empty store, or from where these records end.
    #[must_use]
    pub fn start(gateway: Gateway, records: Vec<Record>) -> Self {
        // Revision 1 is the empty store.
        let newest = records.last().map_or(1, |record| record.mod_revision);
        let shared = Arc::new(Shared::default());
        *shared.lock() = State { records, newest, ..State::default() };
        let ours = Arc::clone(&shared);
        // It ends by itself, within the second that a watch may be silent.
        std::thread::spawn(move || record(gateway, &ours));
        Self { shared }
    }

    /// Waits until it has a revision.
    ///
    /// # Errors
    /// Not in time, or it cannot any more: one line.
    pub fn until(&self, revision: u64, within: Duration) -> Result<(), String> {
        let deadline = Instant::now() + within;
        let mut state = self.shared.lock();
        while state.newest < revision {
            if let Some(problem) = &state.problem {
                return Err(problem.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("the log is at {}, not at {revision}", state.newest));
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// etcd is about to compact everything up to here.
    pub fn forgets(&self, upto: u64) {
        let mut state = self.shared.lock();
        state.forgotten = state.forgotten.max(upto);
    }

    /// The records up to a revision.
    #[must_use]
    pub fn records(&self, upto: u64) -> Vec<Record> {
        let state = self.shared.lock();
        state.records.iter().take_while(|record| record.mod_revision <= upto).cloned().collect()
    }

    /// The complete log, in the form of histories. It ends here.
    ///
    /// # Panics
    /// When etcd's history is not a log.
    #[must_use]
    pub fn into_log(self) -> Log {
        let records = self.records(u64::MAX);
        Log::new(1, &[], records).expect("etcd's log").with_values(form)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.shared.lock().over = true;
    }
}

fn record(mut gateway: Gateway, shared: &Shared) {
    loop {
        let (had, from) = {
            let state = shared.lock();
            if state.over || state.problem.is_some() {
                return;
            }
            // Revision 1 is the empty store.
            let again = (state.newest + 1).saturating_sub(AGAIN);
            (state.newest, again.max(state.forgotten + 1).max(2))
        };
        if let Ok(mut changes) = gateway.changes(from) {
            loop {
                let told = changes.next_records();
                let mut state = shared.lock();
                if state.over {
                    return;
                }
                match told {
                    Ok(records) => take(&mut state, had, records),
                    Err(problem) => {
                        if problem.contains("compact_revision") && from > state.forgotten {
                            state.problem =
                                Some(format!("etcd forgot {from} before it was noted: {problem}"));
                        }
                        break;
                    }
                }
                shared.changed.notify_all();
                if state.problem.is_some() {
                    break;
                }
            }
        }
        shared.changed.notify_all();
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Those up to `had` are known already.
fn take(state: &mut State, had: u64, records: Vec<Record>) {
    for record in records {
        let revision = record.mod_revision;
        if revision <= had {
            let known = state.records.iter().rev().take_while(|known| known.mod_revision >= revision);
            if !known.into_iter().any(|known| *known == record) {
                let (key, newest) = (&record.key, state.newest);
                state.problem = Some(format!(
                    "etcd tells another history than before: {revision} changes {key}, and {newest} was seen"
                ));
                return;
            }
            continue;
        }
        // Each revision changes some key, and every key is watched.
        if revision != state.newest && revision != state.newest + 1 {
            state.problem = Some(format!("etcd's watch goes from {} to {revision}", state.newest));
            return;
        }
        state.newest = revision;
        state.records.push(record);
    }
}

#[cfg(test)]
mod tests {
    use super::{State, take};
    use crate::etcd::{Change, Record};

    fn put(mod_revision: u64, key: &str) -> Record {
        Record { mod_revision, key: key.to_owned(), change: Change::Put(b"1".to_vec()) }
    }

    #[test]
    fn a_log_has_every_revision_once() {
        let mut state = State { newest: 1, ..State::default() };
        take(&mut state, 1, vec![put(2, "a"), put(2, "b"), put(3, "a")]);
        take(&mut state, 3, vec![put(2, "a"), put(2, "b"), put(3, "a"), put(4, "c")]);
        assert_eq!((state.newest, state.records.len(), &state.problem), (4, 4, &None));
        take(&mut state, 4, vec![put(3, "c")]);
        let problem = state.problem.take().expect("another history");
        assert!(problem.contains("another history") && problem.contains("3 changes c"), "{problem}");
        take(&mut state, 4, vec![put(6, "a")]);
        assert!(state.problem.is_some_and(|problem| problem.contains("from 4 to 6")));
    }
}
