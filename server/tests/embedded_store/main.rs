//! The embedded store from outside: what it promises to writers, across restarts, crashes and damage.

mod damage;
mod model;
mod restarts;
mod writes;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use revcast::source::embedded::{Recovery, Store, StoreConfig};
use revcast::source::{Action, Expect, Txn, WallTime};
use revcast_engine::change::{Batch, Change};
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::revision::Revision;

const NAMES: [&str; 3] = ["v1/configmaps", "v1/nodes", "apps/v1/deployments"];
const T0: WallTime = WallTime::from_millis(1_700_000_000_000);
/// A start that leaves revisions where they are: the first life begins at 1, and no later one leaves a gap.
const NO_FLOOR: WallTime = WallTime::from_millis(0);

/// A directory of this test's own, gone at its end.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("revcast-store-{}-{n}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary directory is writable");
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("revcast.redb")
    }

    /// What a crash at this moment would leave: the file as it is, its owner still at work.
    fn after_crash(&self) -> Self {
        let copy = Self::new();
        fs::copy(self.file(), copy.file()).expect("the file can be copied");
        copy
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn names(of: &[&str]) -> Vec<String> {
    of.iter().map(|&name| name.to_owned()).collect()
}

fn durable(dir: &Path) -> StoreConfig {
    StoreConfig { cache_bytes: 4 << 20, ..StoreConfig::durable(dir, names(&NAMES), NO_FLOOR) }
}

fn open(dir: &Path) -> (Store, Recovery) {
    Store::open(&durable(dir)).expect("the store opens")
}

fn memory() -> Store {
    Store::open(&StoreConfig::memory(names(&NAMES), NO_FLOOR)).expect("a store in memory opens").0
}

fn key(name: &str) -> Key {
    Key::new(ResourceId::new(0), Some("default"), name)
}

fn put(value: &str) -> Action {
    Action::Put { value: Bytes::copy_from_slice(value.as_bytes()).into(), ttl: None }
}

fn leased(value: &str, ms: u64) -> Action {
    Action::Put {
        value: Bytes::copy_from_slice(value.as_bytes()).into(),
        ttl: Some(Duration::from_millis(ms)),
    }
}

fn at(ms: u64) -> WallTime {
    T0.plus(Duration::from_millis(ms))
}

const fn rev(n: u64) -> Revision {
    Revision::new(n)
}

/// Writes without a condition and makes it durable.
fn write(store: &mut Store, name: &str, action: Action, now: WallTime) -> Revision {
    let batch = store.apply(&Txn::one(key(name), Expect::Any, action), now).expect("the write is applied");
    store.flush().expect("the disk works");
    batch.revision
}

type State = BTreeMap<Key, (Revision, Bytes)>;

fn replay(state: &mut State, batch: &Batch) {
    for Change { key, value } in &batch.changes {
        match value {
            Some(value) => drop(state.insert(key.clone(), (batch.revision, value.clone()))),
            None => drop(state.remove(key)),
        }
    }
}

fn base(recovery: &Recovery) -> State {
    recovery
        .base()
        .map(|object| {
            let object = object.expect("the base is readable");
            (object.key, (object.revision, object.value))
        })
        .collect()
}

fn history(recovery: &Recovery) -> Vec<Batch> {
    recovery.history().collect::<Result<_, _>>().expect("the log is readable")
}

/// The newest state, as a caller that replays everything sees it.
fn state(recovery: &Recovery) -> State {
    let mut state = base(recovery);
    history(recovery).iter().for_each(|batch| replay(&mut state, batch));
    state
}

/// splitmix64: small, seeded, good enough to choose with.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % n as u64).expect("less than a usize")
    }
}
