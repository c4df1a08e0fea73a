//! The store on a failing disk: refused writes, and power cuts that lose or tear what was not synced.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use redb::StorageBackend;
use revcast_engine::change::Batch;
use revcast_engine::gap::Gap;
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::revision::Revision;

use super::log::{Fault, Log, Reopen};
use super::record::Names;
use super::{CompactError, FULL_PAUSE, Progress, Recovery, Store, StoreConfig, open};
use crate::source::{Action, Expect, Txn, TxnError, WallTime};

/// Operations since the last sync.
#[derive(Clone, Debug)]
enum Told {
    Length(usize),
    Write(usize, Vec<u8>),
}

#[derive(Default)]
struct Platter {
    /// The content that survives a power cut for certain.
    synced: Vec<u8>,
    /// The content that a reader sees.
    seen: Vec<u8>,
    unsynced: Vec<Told>,
    /// Write operations until the disk fails. `None`: it does not.
    calls_left: Option<u32>,
    /// The capacity in bytes. `None`: unlimited.
    room: Option<usize>,
}

/// A disk in memory. Its clones share the content.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<Platter>>);

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Disk")
    }
}

impl Told {
    /// Does it on this content, or only the beginning of what is written.
    fn apply(&self, content: &mut Vec<u8>, written: Option<usize>) {
        match self {
            Self::Length(length) => set_len(content, *length),
            Self::Write(at, data) => {
                let end = written.unwrap_or(data.len());
                if content.len() < at + end {
                    set_len(content, at + end);
                }
                content[*at..at + end].copy_from_slice(&data[..end]);
            }
        }
    }
}

/// `Vec::resize` goes byte by byte where it is not optimised.
fn set_len(content: &mut Vec<u8>, length: usize) {
    content.truncate(length);
    content.extend_from_slice(&vec![0; length - content.len()]);
}

impl Platter {
    fn room_for(&self, len: usize) -> Result<(), io::Error> {
        let fits = len <= self.seen.len() || self.room.is_none_or(|room| len <= room);
        if fits { Ok(()) } else { Err(io::Error::from(io::ErrorKind::StorageFull)) }
    }
}

impl Disk {
    /// Limits the capacity to the current content and this many bytes more; `None`: unlimited.
    fn give_room(&self, more: Option<usize>) {
        let mut platter = self.platter();
        platter.room = more.map(|more| platter.seen.len() + more);
    }

    fn platter(&self) -> MutexGuard<'_, Platter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk fails permanently after this many write operations.
    fn fail_after(&self, calls: u32) {
        self.platter().calls_left = Some(calls);
    }

    fn changing(&self) -> Result<MutexGuard<'_, Platter>, io::Error> {
        let mut platter = self.platter();
        match &mut platter.calls_left {
            Some(0) => Err(io::Error::other("the disk is broken")),
            Some(left) => {
                *left -= 1;
                Ok(platter)
            }
            None => Ok(platter),
        }
    }

    /// The disk after a power cut: any part of what was not synced may be there.
    fn after_power_cut(&self, random: &mut Random) -> Self {
        let platter = self.platter();
        let mut image = platter.synced.clone();
        for told in &platter.unsynced {
            if random.below(3) == 0 {
                continue;
            }
            let written = match told {
                // Disks are atomic per sector, not per write.
                Told::Write(_, data) if random.below(4) == 0 => {
                    Some(random.below(data.len() / 512 + 1) * 512)
                }
                Told::Write(..) | Told::Length(_) => None,
            };
            told.apply(&mut image, written);
        }
        Self(Arc::new(Mutex::new(Platter { synced: image.clone(), seen: image, ..Platter::default() })))
    }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("a test's disk is small")
}

impl StorageBackend for Disk {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.platter().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let platter = self.platter();
        let from = platter.seen.get(place(offset)..place(offset) + out.len());
        out.copy_from_slice(from.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        let mut platter = self.changing()?;
        platter.room_for(place(len))?;
        set_len(&mut platter.seen, place(len));
        platter.unsynced.push(Told::Length(place(len)));
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        let mut platter = self.changing()?;
        for told in std::mem::take(&mut platter.unsynced) {
            told.apply(&mut platter.synced, None);
        }
        assert_eq!(platter.synced.len(), platter.seen.len(), "what was told is all there is");
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let mut platter = self.changing()?;
        let at = place(offset);
        platter.seen[at..at + data.len()].copy_from_slice(data);
        platter.unsynced.push(Told::Write(at, data.to_vec()));
        Ok(())
    }
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % n as u64).expect("less than a usize")
    }
}

fn store_on(disk: &Disk) -> (Store, Recovery) {
    store_at(disk, WallTime::default())
}

/// The store that is started on this disk at this moment.
fn store_at(disk: &Disk, started_at: WallTime) -> (Store, Recovery) {
    try_store_at(disk, started_at).expect("the store is whole")
}

/// The same, where the disk may fail during the start.
fn try_store_at(disk: &Disk, started_at: WallTime) -> Result<(Store, Recovery), String> {
    let path = PathBuf::from("/disk");
    let new = disk.platter().seen.is_empty();
    let db = redb::Builder::new().create_with_backend(disk.clone()).map_err(|error| error.to_string())?;
    if new {
        open::write_empty(&db, super::lives::floor(started_at).max(super::FRESH)).expect("the disk works");
    }
    let marks = open::read_marks(Path::new("/disk"), &db).expect("the marks are there");
    let lives = open::read_lives(&db, &marks).expect("the lives are there");
    let lock = std::fs::File::open("/dev/null").expect("any file will do as a lock");
    let config =
        StoreConfig { fold_revisions_max: 5, ..StoreConfig::memory(vec!["v1/nodes".to_owned()], started_at) };
    let names = Names::new(&config.resources).expect("a good name");
    let log = Log::new(path, db, (marks, lives), lock, reopen(disk));
    Store::with_log(&config, names, Some(log)).map_err(|error| error.to_string())
}

fn reopen(disk: &Disk) -> Reopen {
    let disk = disk.clone();
    Box::new(move || {
        let db = redb::Builder::new().create_with_backend(disk.clone())?;
        let marks =
            open::read_marks(Path::new("/disk"), &db).map_err(|error| Fault::Shut(error.to_string()))?;
        Ok((db, marks))
    })
}

fn put(n: usize, size: usize, ttl: Option<Duration>) -> Txn {
    let key = Key::new(ResourceId::new(0), None, &format!("node-{n}"));
    Txn::one(key, Expect::Any, Action::Put { value: Bytes::from(vec![b'x'; size]).into(), ttl })
}

#[test]
fn after_the_disk_failed_nothing_is_promised_any_more() {
    let disk = Disk::default();
    let (mut store, _) = store_on(&disk);
    let second = Some(Duration::from_secs(1));
    store.apply(&put(1, 10, second), WallTime::default()).expect("applied");
    store.flush().expect("the disk works");
    assert!(store.next_expiry().is_some());

    store.apply(&put(2, 10, None), WallTime::default()).expect("applied");
    disk.fail_after(0);
    let error = store.flush().expect_err("the disk fails");
    assert!(error.to_string().starts_with("the store /disk failed: "), "{error}");
    disk.platter().calls_left = None;

    assert_eq!(store.flush(), Err(error.clone()), "a disk that works again changes nothing");
    assert_eq!(store.apply(&put(3, 10, None), WallTime::default()), Err(TxnError::Storage(error.clone())));
    assert_eq!(
        store.compact(Revision::new(2), WallTime::default()),
        Err(CompactError::Storage(error.clone()))
    );
    assert_eq!(store.compact_step(WallTime::default()), Err(error));
    assert_eq!(store.next_expiry(), None);
    assert_eq!(store.expire(WallTime::from_millis(u64::MAX), 9), []);
    drop(store);

    let (store, recovery) = store_on(&disk.after_power_cut(&mut Random(0)));
    assert_eq!(store.revision(), Revision::new(2), "the acknowledged write is there");
    assert_eq!(recovery.history().count(), 1);
}

/// Writes, compacts and closes until the disk fails. Returns every batch, the newest acknowledged revision, and the revision of
/// the newest finished step of a compaction.
fn live(disk: &Disk, random: &mut Random) -> (Vec<Batch>, Revision, Revision) {
    let (mut store, _) = store_on(disk);
    disk.fail_after(u32::try_from(random.below(400)).expect("small"));
    let (mut all, mut acknowledged, mut compacted) = (Vec::new(), Revision::ZERO, Revision::ZERO);
    for _ in 0..200 {
        for _ in 0..random.below(4) {
            let txn = put(random.below(20), random.below(6000), None);
            all.push(store.apply(&txn, WallTime::default()).expect("the disk did not fail yet"));
        }
        let flushed = store.flush();
        if flushed.is_err() {
            break;
        }
        acknowledged = store.revision();
        if random.below(10) == 0 && store.begin_compact(store.revision(), WallTime::default()).is_err() {
            continue;
        }
        match store.compact_step(WallTime::default()) {
            Ok(Progress::Done | Progress::More) => compacted = store.compacted(),
            Err(_) => break,
        }
    }
    (all, acknowledged, compacted)
}

#[test]
fn a_power_cut_at_any_moment_keeps_what_was_acknowledged() {
    let (mut failed, mut unfinished) = (0, 0);
    for seed in 0..300 {
        let mut random = Random(seed);
        let disk = Disk::default();
        let (all, acknowledged, compacted) = live(&disk, &mut random);
        failed += u32::from(disk.platter().calls_left == Some(0));

        let (store, recovery) = store_on(&disk.after_power_cut(&mut random));
        let revision = store.revision();
        let newest = all.last().map_or(Revision::new(1), |batch| batch.revision);
        assert!(revision >= acknowledged && revision <= newest, "seed {seed}: {revision} of {acknowledged}");
        assert!(store.compacted() >= compacted, "seed {seed}");
        unfinished += u32::from(revision < newest);

        let history: Vec<Batch> = recovery.history().map(|batch| batch.expect("whole")).collect();
        let kept = |batch: &&Batch| batch.revision > store.compacted() && batch.revision <= revision;
        let expected: Vec<Batch> = all.iter().filter(kept).cloned().collect();
        assert_eq!(history, expected, "seed {seed}");
        for object in recovery.base() {
            let object = object.expect("whole");
            let wrote = all
                .iter()
                .rfind(|batch| batch.revision <= store.compacted() && batch.changes[0].key == object.key);
            let wrote = wrote.expect("something wrote it");
            assert_eq!(
                (object.revision, Some(object.value)),
                (wrote.revision, wrote.changes[0].value.clone())
            );
        }
    }
    assert!(
        failed > 200 && unfinished > 20,
        "the disk failed {failed} times, {unfinished} with writes to lose"
    );
}

/// Writes of 20 kB until there is no room, then with room again, repeatedly: what was refused did not happen, what was
/// acknowledged did, also after a power cut.
#[test]
fn without_room_nothing_happens_and_with_room_it_goes_on() {
    let (mut refused, mut written, mut undone) = (0, 0, 0);
    for seed in 0..40 {
        let mut random = Random(seed);
        let disk = Disk::default();
        let (mut store, _) = store_on(&disk);
        let mut now = WallTime::from_millis(1_000_000);
        let mut all: Vec<Batch> = Vec::new();
        let mut modified = vec![None; 20];
        let mut due = vec![None; 20];
        for _ in 0..120 {
            now = now.plus(Duration::from_millis(400));
            match random.below(12) {
                0 | 1 => disk.give_room(Some(random.below(200_000))),
                2 => disk.give_room(None),
                _ => {}
            }
            let (revision, keys) = (store.revision(), store.len());
            let mut group = Vec::new();
            for _ in 0..=random.below(3) {
                let n = random.below(20);
                let ttl = (random.below(4) == 0).then(|| Duration::from_secs(1 << 20));
                match store.apply(&put(n, 20_000, ttl), now) {
                    Ok(batch) => group.push((n, ttl.map(|ttl| now.plus(ttl)), batch)),
                    Err(TxnError::Storage(error)) if error.is_full() => refused += 1,
                    Err(error) => panic!("seed {seed}: {error}"),
                }
            }
            match store.flush() {
                Ok(()) => {
                    for (n, expires, batch) in group {
                        (modified[n], due[n]) = (Some(batch.revision), expires);
                        all.push(batch);
                        written += 1;
                    }
                }
                Err(error) => {
                    assert!(error.is_full(), "seed {seed}: {error}");
                    undone += group.len();
                    assert_eq!((store.revision(), store.len()), (revision, keys), "seed {seed}");
                }
            }
            assert_eq!(store.pending(), 0);
            for (n, revision) in modified.iter().enumerate() {
                let key = Key::new(ResourceId::new(0), None, &format!("node-{n}"));
                assert_eq!((store.modified(&key), store.leases.of(&key)), (*revision, due[n]), "seed {seed}");
            }
            if random.below(6) == 0 && store.begin_compact(store.revision(), now).is_ok() {
                match store.compact_step(now) {
                    Ok(_) => {}
                    Err(error) => assert!(error.is_full(), "seed {seed}: {error}"),
                }
            }
        }
        // With room, and after the pause, a write is accepted.
        disk.give_room(None);
        now = now.plus(FULL_PAUSE);
        all.push(store.apply(&put(0, 10, None), now).expect("there is room"));
        store.flush().expect("there is room");
        let (revision, compacted) = (store.revision(), store.compacted());
        drop(store);
        let (store, recovery) = store_on(&disk.after_power_cut(&mut random));
        assert_eq!((store.revision(), store.compacted()), (revision, compacted), "seed {seed}");
        let history: Vec<Batch> = recovery.history().map(|batch| batch.expect("whole")).collect();
        let expected: Vec<Batch> = all.into_iter().filter(|batch| batch.revision > compacted).collect();
        assert_eq!(history, expected, "seed {seed}");
    }
    assert!(
        refused > 100 && undone > 50 && written > 1000,
        "{refused} refused, {undone} undone, {written} written"
    );
}

/// Fills a disk until not even the smallest write fits; returns the time of that.
fn fill(disk: &Disk, store: &mut Store, mut now: WallTime) -> WallTime {
    disk.give_room(Some(0));
    for size in [20_000, 3000, 10] {
        let mut refused = false;
        for n in 0..10_000 {
            store.apply(&put(100 + n, size, None), now).expect("the disk was asked long ago");
            if let Err(error) = store.flush() {
                assert!(error.is_full(), "{error}");
                refused = true;
                break;
            }
        }
        assert!(refused, "the disk does not fill");
        now = now.plus(FULL_PAUSE);
    }
    now
}

#[test]
fn a_compaction_that_found_no_room_is_begun_again() {
    let disk = Disk::default();
    let (mut store, _) = store_on(&disk);
    let mut now = WallTime::from_millis(1_000_000);
    for n in 0..40 {
        store.apply(&put(n % 20, 20_000, None), now).expect("applied");
        store.flush().expect("there is room");
    }
    now = fill(&disk, &mut store, now);
    let upto = store.revision();
    assert_eq!(store.begin_compact(upto, now), Ok(()));
    let error = loop {
        match store.compact_step(now) {
            Ok(progress) => assert_eq!(progress, Progress::More, "it needs room"),
            Err(error) => break error,
        }
    };
    assert!(error.is_full() && store.compacted() < upto, "{error}");
    assert_eq!(store.compact_step(now), Err(error.clone()));
    assert_eq!(
        store.begin_compact(upto, now),
        Err(CompactError::Storage(error)),
        "it says why, not that it is done"
    );

    // There are no writes meanwhile: the time that a compaction gets is enough.
    disk.give_room(None);
    now = now.plus(FULL_PAUSE);
    assert_eq!(store.begin_compact(upto, now), Ok(()));
    while store.compact_step(now) == Ok(Progress::More) {}
    assert_eq!(store.compacted(), upto);
    drop(store);
    let (store, recovery) = store_on(&disk.after_power_cut(&mut Random(0)));
    assert_eq!((store.compacted(), recovery.history().count()), (upto, 0));
}

#[test]
fn a_life_that_begins_without_room_is_remembered_with_its_first_write() {
    let disk = Disk::default();
    let (mut store, _) = store_at(&disk, WallTime::from_millis(1));
    let mut now = fill(&disk, &mut store, WallTime::from_millis(1_000_000));
    let last = store.revision();
    // To open it again would free a page or two, and the start of a life needs no more.
    let log = store.log.as_mut().expect("it is on a disk");
    log.begin_life(Gap { last, next: Revision::new(2_000_000) });
    store.revision = log.revision();
    store.apply(&put(0, 20_000, None), now).expect("the disk was asked long ago");
    assert!(store.flush().expect_err("there is no room").is_full());
    assert_eq!(store.revision(), Revision::new(2_000_000), "what was refused did not happen");
    drop(store);

    let (mut store, recovery) = store_at(&disk, WallTime::from_millis(3000));
    let gap = Gap { last, next: Revision::new(3_000_000) };
    assert_eq!(
        (store.revision(), &recovery.gaps),
        (gap.next, &vec![gap]),
        "of the life between nothing was kept"
    );
    disk.give_room(None);
    drop(recovery);
    now = now.plus(FULL_PAUSE);
    let wrote = store.apply(&put(0, 20_000, None), now).expect("there is room").revision;
    store.flush().expect("there is room");
    drop(store);
    let (store, recovery) = store_at(&disk.after_power_cut(&mut Random(0)), WallTime::default());
    assert_eq!((store.revision(), &recovery.gaps), (wrote, &vec![gap]));
}

/// Starts, some writes and a power cut at any moment, repeatedly: what a life told any client is never in a gap later, and what
/// it never wrote is always in one.
#[test]
fn a_power_cut_at_any_start_keeps_the_lives_apart() {
    let (mut starts, mut cut_short) = (0, 0);
    for seed in 0..150 {
        let mut random = Random(seed);
        let mut disk = Disk::default();
        drop(store_on(&disk));
        // What clients may know: where lives began, and what was acknowledged.
        let mut told = vec![Revision::new(1)];
        for life in 1..6_u64 {
            disk.fail_after(u32::try_from(random.below(60)).expect("small"));
            let started_at = WallTime::from_millis(life * 10);
            match try_store_at(&disk, started_at) {
                Err(_) => cut_short += 1,
                Ok((mut store, recovery)) => {
                    starts += 1;
                    told.push(store.revision());
                    assert_eq!(store.revision(), Revision::new(life * 10_000), "seed {seed}");
                    drop(recovery);
                    for _ in 0..random.below(5) {
                        let batch = store.apply(&put(random.below(9), 100, None), started_at);
                        if let (Ok(batch), Ok(())) = (batch, store.flush()) {
                            told.push(batch.revision);
                        }
                    }
                }
            }
            disk = disk.after_power_cut(&mut random);
        }
        let (store, recovery) = store_at(&disk, WallTime::from_millis(1000));
        let skipped = |revision: &Revision| recovery.gaps.iter().any(|gap| gap.contains(*revision));
        assert!(!told.iter().any(skipped), "seed {seed}: {told:?} and {:?}", recovery.gaps);
        assert_eq!(store.revision(), Revision::new(1_000_000));
        let written: Vec<Revision> = recovery.history().map(|batch| batch.expect("whole").revision).collect();
        for life in 0..100 {
            // Never reached by a life that writes at most five times.
            assert!(skipped(&Revision::new(life * 10_000 + 7_000)), "seed {seed}, life {life}");
        }
        // A life begins at a revision that wrote nothing.
        let known: Vec<&Revision> =
            told.iter().filter(|told| **told > Revision::new(1) && told.get() % 10_000 > 0).collect();
        assert!(
            known.iter().all(|revision| written.contains(revision)),
            "seed {seed}: {known:?} of {written:?}"
        );
    }
    assert!(starts > 200 && cut_short > 20, "{starts} starts, {cut_short} of them cut short");
}
