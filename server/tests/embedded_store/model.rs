//! Random lives of a store against a model that keeps everything.
//!
//! A failure prints its seed; `REVCAST_STORE_SEED=N cargo test -p revcast --test embedded_store model` replays it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use revcast::source::embedded::{CompactError, Progress, Recovery, Store, StoreConfig};
use revcast::source::{Action, Expect, Op, Txn, TxnError, WallTime};
use revcast_engine::change::{Batch, Change};
use revcast_engine::gap::Gap;
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::revision::Revision;

use crate::{Dir, NO_FLOOR, Random, State, T0, base, history, replay, rev};

const SEEDS: u64 = 60;
const STEPS: usize = 250;
const RESOURCES: [&str; 3] = ["v1/configmaps", "v1/nodes", "apps/v1/deployments"];
const OBJECTS: [(usize, Option<&str>, &str); 9] = [
    (0, Some("default"), "a"),
    (0, Some("default"), "b"),
    (0, Some("default-b"), "a"),
    (0, Some("default"), "a/b"),
    (1, None, "default"),
    (1, None, "node-1"),
    (2, Some("default"), "a"),
    (2, Some("x"), "y"),
    (2, Some("x"), "z"),
];

/// A revision and what it changed, in places of [`OBJECTS`].
type Past = (Revision, Vec<(usize, Option<Bytes>)>);

/// The whole history, by index into [`OBJECTS`], so that the rows of the schema may move.
#[derive(Clone)]
struct Model {
    /// The revision of the newest write, or where the newest life began.
    revision: Revision,
    /// What was skipped before each life but the first.
    gaps: Vec<Gap>,
    past: Vec<Past>,
    now: BTreeMap<usize, (Revision, Option<WallTime>)>,
    compacted: Revision,
    /// Where a begun compaction ends.
    folding: Option<Revision>,
}

impl Model {
    /// A store whose first life begins.
    fn new(started_at: WallTime) -> Self {
        let revision = rev((started_at.as_millis() * 1000).max(1));
        Self {
            revision,
            gaps: Vec::new(),
            past: Vec::new(),
            now: BTreeMap::new(),
            compacted: revision,
            folding: None,
        }
    }

    /// The next life begins.
    fn begin(&mut self, started_at: WallTime) {
        let floor = rev(started_at.as_millis() * 1000);
        self.folding = None;
        if floor > self.revision {
            self.gaps.push(Gap { last: self.revision, next: floor });
            self.revision = floor;
        }
    }

    fn check(&self, ops: &[(usize, Expect, Action)]) -> Result<(), TxnError> {
        for (op, (object, expect, action)) in ops.iter().enumerate() {
            let found = self.now.get(object).map(|(revision, _)| *revision);
            match (expect, found) {
                (Expect::Absent, Some(_)) | (Expect::Exists | Expect::At(_), None) => {
                    return Err(TxnError::Conflict { op, found });
                }
                (Expect::At(wanted), Some(there)) if *wanted != there => {
                    return Err(TxnError::Conflict { op, found });
                }
                (_, None) if matches!(action, Action::Delete) => return Err(TxnError::NotFound { op }),
                _ => {}
            }
        }
        Ok(())
    }

    fn commit(&mut self, changes: Vec<(usize, Option<Bytes>, Option<WallTime>)>) {
        let revision = self.revision.next();
        self.revision = revision;
        for (object, value, expires) in &changes {
            match value {
                Some(_) => drop(self.now.insert(*object, (revision, *expires))),
                None => drop(self.now.remove(object)),
            }
        }
        let changes = changes.into_iter().map(|(object, value, _)| (object, value)).collect();
        self.past.push((revision, changes));
    }

    fn next_expiry(&self) -> Option<WallTime> {
        self.now.values().filter_map(|(_, expires)| *expires).min()
    }
}

/// One store, its model, and the model as it was at the last flush.
struct Life {
    random: Random,
    dir: Option<Dir>,
    /// Which row each of [`RESOURCES`] has now.
    rows: [usize; 3],
    store: Store,
    model: Model,
    flushed: Model,
    clock: WallTime,
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let dir = (!seed.is_multiple_of(4)).then(Dir::new);
        let rows = [0, 1, 2];
        let started_at = WallTime::from_millis(random.below(3) as u64);
        let (store, _) = open(dir.as_ref(), &rows, started_at);
        let model = Model::new(started_at);
        Self { random, dir, rows, store, flushed: model.clone(), model, clock: T0 }
    }

    fn key(&self, object: usize) -> Key {
        let (resource, namespace, name) = OBJECTS[object];
        let row = u16::try_from(self.rows[resource]).expect("three rows");
        Key::new(ResourceId::new(row), namespace, name)
    }

    fn batch(&self, (revision, changes): &Past) -> Batch {
        let changes =
            changes.iter().map(|(object, value)| Change { key: self.key(*object), value: value.clone() });
        Batch { revision: *revision, changes: changes.collect() }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..55 => self.write(),
            55..70 => self.flush(),
            70..80 => self.expire(),
            80..84 => self.compact(),
            84..87 => self.begin_compact(),
            87..93 => self.compact_step(),
            _ => self.reopen(),
        }
        self.agree();
    }

    fn write(&mut self) {
        let mut ops = Vec::new();
        for object in 0..OBJECTS.len() {
            if self.random.below(5) > 0 {
                continue;
            }
            let expect = match self.random.below(6) {
                0 => Expect::Absent,
                1 => Expect::Exists,
                2 => Expect::At(rev(1 + self.random.below(40) as u64)),
                3 => Expect::At(self.model.now.get(&object).map_or(rev(2), |(revision, _)| *revision)),
                _ => Expect::Any,
            };
            let ttl =
                (self.random.below(3) == 0).then(|| Duration::from_millis(self.random.below(50) as u64));
            let action = match self.random.below(4) {
                0 => Action::Delete,
                _ => Action::Put { value: Bytes::from(vec![b'v'; self.random.below(300)]).into(), ttl },
            };
            ops.push((object, expect, action));
        }
        if ops.is_empty() {
            return;
        }
        let txn = ops.iter().map(|(object, expect, action)| Op {
            key: self.key(*object),
            expect: *expect,
            action: action.clone(),
        });
        let answer = self.store.apply(&Txn { ops: txn.collect() }, self.clock);
        if let Err(error) = self.model.check(&ops) {
            assert_eq!(answer, Err(error));
            return;
        }
        let changes = ops.into_iter().map(|(object, _, action)| match action {
            Action::Put { value, ttl } => {
                (object, Some(value.bytes().clone()), ttl.map(|ttl| self.clock.plus(ttl)))
            }
            Action::Delete => (object, None, None),
        });
        self.model.commit(changes.collect());
        assert_eq!(answer, Ok(self.batch(self.model.past.last().expect("just written"))));
    }

    fn flush(&mut self) {
        self.store.flush().expect("the disk works");
        self.flushed = self.model.clone();
    }

    fn expire(&mut self) {
        self.clock = self.clock.plus(Duration::from_millis(self.random.below(30) as u64));
        let max = 1 + self.random.below(4);
        let batches = self.store.expire(self.clock, max);
        let due = |model: &Model, clock| {
            model.now.values().filter(|(_, expires)| expires.is_some_and(|at| at <= clock)).count()
        };
        assert_eq!(batches.len(), due(&self.model, self.clock).min(max));
        for batch in batches {
            // The order among equals is the store's; the time must be the soonest.
            let object = (0..OBJECTS.len())
                .find(|&object| self.key(object) == batch.changes[0].key)
                .expect("an object of ours");
            assert_eq!(self.model.now[&object].1, self.model.next_expiry());
            self.model.commit(vec![(object, None, None)]);
            assert_eq!(batch, self.batch(self.model.past.last().expect("just written")));
        }
    }

    /// A revision around the interesting ones: those of writes, and those that were skipped.
    fn some_revision(&mut self) -> Revision {
        if !self.model.past.is_empty() && self.random.below(2) == 0 {
            return self.model.past[self.random.below(self.model.past.len())].0;
        }
        let low = self.model.compacted.get().saturating_sub(2);
        let span = self.model.revision.get() - low + 3;
        rev(low + self.random.below(usize::try_from(span).expect("small")) as u64)
    }

    fn refusal(&self, asked: Revision) -> Option<CompactError> {
        let compacted = self.model.compacted;
        let newest = self.model.revision;
        if asked <= compacted {
            return Some(CompactError::Compacted { asked, compacted });
        }
        (asked > newest).then_some(CompactError::Future { asked, newest })
    }

    fn compact(&mut self) {
        let upto = self.some_revision();
        match (self.refusal(upto), self.store.compact(upto, self.clock)) {
            (Some(error), answer) => assert_eq!(answer, Err(error)),
            (None, answer) => {
                // One that runs already is finished with it.
                let upto = self.model.folding.map_or(upto, |folding| folding.max(upto));
                assert_eq!(answer.map(|done| done.revision), Ok(upto));
                (self.model.compacted, self.model.folding) = (upto, None);
                self.folded();
            }
        }
    }

    fn begin_compact(&mut self) {
        let upto = self.some_revision();
        let refusal = self.refusal(upto);
        assert_eq!(self.store.begin_compact(upto, self.clock), refusal.clone().map_or(Ok(()), Err));
        if refusal.is_none() {
            self.model.folding = self.model.folding.max(Some(upto));
        }
    }

    fn compact_step(&mut self) {
        let progress = self.store.compact_step(self.clock).expect("the disk works");
        let Some(upto) = self.model.folding else {
            assert_eq!(progress, Progress::Done);
            return;
        };
        let compacted = self.store.compacted();
        assert!(compacted > self.model.compacted && compacted <= upto);
        assert_eq!(progress == Progress::Done, compacted == upto);
        self.model.compacted = compacted;
        if compacted == upto {
            self.model.folding = None;
        }
        self.folded();
    }

    /// A compaction flushes what it needs, and only then; either way its mark is durable.
    fn folded(&mut self) {
        if self.store.pending() == 0 {
            self.flushed = self.model.clone();
        }
        self.flushed.compacted = self.model.compacted;
    }

    fn reopen(&mut self) {
        let Some(dir) = self.dir.take() else { return };
        let crashed = match self.random.below(3) {
            // A clean end, with or without a last flush.
            0 => {
                self.flush();
                None
            }
            1 => None,
            _ => Some(dir.after_crash()),
        };
        if self.random.below(2) == 0 {
            self.rows.rotate_left(1);
        }
        // The old store lets go of the directory first.
        self.store = open(None, &self.rows, NO_FLOOR).0;
        let dir = crashed.unwrap_or(dir);
        self.model = self.flushed.clone();
        // The clock was set back, or some of the starts are close together.
        let soon = self.model.revision.get() / 1000 + self.random.below(3) as u64;
        let started_at = if self.random.below(4) == 0 { NO_FLOOR } else { WallTime::from_millis(soon) };
        let (store, recovery) = open(Some(&dir), &self.rows, started_at);
        (self.store, self.dir) = (store, Some(dir));
        self.model.begin(started_at);
        self.flushed = self.model.clone();
        self.recovered(&recovery);
    }

    fn recovered(&self, recovery: &Recovery) {
        assert_eq!((recovery.revision, recovery.compacted), (self.model.revision, self.model.compacted));
        let told = self.model.gaps.iter().filter(|gap| gap.next > self.model.compacted);
        assert_eq!(recovery.gaps, told.copied().collect::<Vec<_>>());
        assert_eq!(recovery.undeclared, []);
        let all: Vec<Batch> = self.model.past.iter().map(|past| self.batch(past)).collect();
        let (old, new): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|batch| batch.revision <= self.model.compacted);
        let mut checkpoint = State::new();
        old.iter().for_each(|batch| replay(&mut checkpoint, batch));
        assert_eq!(base(recovery), checkpoint);
        assert_eq!(history(recovery), new);
    }

    fn agree(&self) {
        assert_eq!(self.store.revision(), self.model.revision);
        assert_eq!(self.store.compacted(), self.model.compacted);
        assert_eq!(self.store.next_expiry(), self.model.next_expiry());
        assert_eq!(self.store.len(), self.model.now.len());
        for object in 0..OBJECTS.len() {
            let modified = self.model.now.get(&object).map(|(revision, _)| *revision);
            assert_eq!(self.store.modified(&self.key(object)), modified);
        }
    }
}

fn open(dir: Option<&Dir>, rows: &[usize; 3], started_at: WallTime) -> (Store, Recovery) {
    let mut resources = vec![String::new(); 3];
    for (name, row) in RESOURCES.iter().zip(rows) {
        resources[*row] = (*name).to_owned();
    }
    let dir = dir.map(|dir| dir.0.clone());
    let memory = StoreConfig::memory(resources, started_at);
    let config = StoreConfig { dir, fold_revisions_max: 4, cache_bytes: 1 << 20, ..memory };
    Store::open(&config).expect("the store opens")
}

#[test]
fn random_lives_agree_with_the_model() {
    let chosen = std::env::var("REVCAST_STORE_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seeds = chosen.map_or(0..SEEDS, |seed: u64| seed..seed + 1);
    let (mut written, mut compacted, mut lives) = (0, 0, 0);
    for seed in seeds {
        eprintln!("REVCAST_STORE_SEED={seed}");
        let mut life = Life::new(seed);
        for _ in 0..STEPS {
            life.step();
        }
        written += life.model.past.len();
        compacted += life.model.past.iter().filter(|(revision, _)| *revision <= life.model.compacted).count();
        lives += life.model.gaps.len();
    }
    assert!(
        chosen.is_some() || (written > 1000 && compacted > 500 && lives > 100),
        "{written} written, {compacted} compacted, {lives} lives began above a gap"
    );
}
