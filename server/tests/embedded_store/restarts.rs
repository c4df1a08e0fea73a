//! What is there again after a restart or a crash.

use bytes::Bytes;
use revcast::source::embedded::{ClockFault, Progress, Store, StoreConfig, Undeclared};
use revcast::source::{Action, Expect, Op, Txn, TxnError};
use revcast_engine::gap::Gap;
use revcast_engine::key::{Key, ResourceId};

use crate::damage::tamper;
use crate::{
    Dir, NO_FLOOR, State, T0, at, base, durable, history, key, leased, names, open, put, replay, rev, state,
    write,
};

#[test]
fn what_was_flushed_survives_and_what_was_not_does_not() {
    let dir = Dir::new();
    let (mut store, recovery) = open(&dir.0);
    assert_eq!((recovery.revision, store.revision(), store.compacted()), (rev(1), rev(1), rev(1)));
    let cluster = store.cluster();
    for n in 0..5 {
        store.apply(&Txn::one(key(&format!("k{n}")), Expect::Absent, put("v")), T0).expect("applied");
    }
    assert_eq!(store.pending(), 5);
    store.flush().expect("the disk works");
    assert_eq!(store.pending(), 0);
    store.apply(&Txn::one(key("late"), Expect::Absent, put("v")), T0).expect("applied");
    let crashed = dir.after_crash();
    drop(store);

    for dir in [&dir, &crashed] {
        let (mut store, recovery) = open(&dir.0);
        assert_eq!((recovery.revision, store.revision(), store.len()), (rev(6), rev(6), 5));
        assert_eq!(store.cluster(), cluster);
        let revisions: Vec<u64> = history(&recovery).iter().map(|batch| batch.revision.get()).collect();
        assert_eq!(revisions, [2, 3, 4, 5, 6]);
        assert_eq!(write(&mut store, "next", put("v"), T0), rev(7));
    }
}

#[test]
fn leases_survive_a_restart_from_log_and_from_checkpoint() {
    for compact in [false, true] {
        let dir = Dir::new();
        let (mut store, _) = open(&dir.0);
        write(&mut store, "a", leased("v", 100), T0);
        write(&mut store, "b", leased("v", 200), T0);
        write(&mut store, "c", leased("v", 50), T0);
        write(&mut store, "c", put("v"), T0);
        if compact {
            store.compact(store.revision(), T0).expect("compacted");
        }
        drop(store);
        let (mut store, _) = open(&dir.0);
        assert_eq!(store.next_expiry(), Some(at(100)));
        // It expired while the store was closed: the first call finds it.
        let batches = store.expire(at(150), usize::MAX);
        assert_eq!(batches.len(), 1);
        assert_eq!((batches[0].revision, &batches[0].changes[0].key), (rev(6), &key("a")));
        store.flush().expect("the disk works");
        drop(store);
        let (store, recovery) = open(&dir.0);
        assert_eq!((store.revision(), store.next_expiry()), (rev(6), Some(at(200))));
        assert_eq!(state(&recovery).into_keys().collect::<Vec<_>>(), [key("b"), key("c")]);
    }
}

#[test]
fn a_crash_after_any_step_of_a_compaction_loses_nothing() {
    let dir = Dir::new();
    let config = StoreConfig { fold_revisions_max: 3, ..durable(&dir.0) };
    let (mut store, _) = Store::open(&config).expect("the store opens");
    let mut all = Vec::new();
    for n in 0..40_u32 {
        let name = format!("k{}", n % 7);
        let action = if n % 5 == 4 { Action::Delete } else { put(&n.to_string()) };
        match store.apply(&Txn::one(key(&name), Expect::Any, action), T0) {
            Ok(batch) => all.push(batch),
            Err(error) => assert!(matches!(error, TxnError::NotFound { .. }), "{error}"),
        }
    }
    store.flush().expect("the disk works");
    let newest = store.revision();
    let upto = rev(newest.get() - 4);
    store.begin_compact(upto, T0).expect("begun");
    let mut steps = 0;
    loop {
        let progress = store.compact_step(T0).expect("the disk works");
        steps += 1;
        // Writes go on between the steps.
        all.push(store.apply(&Txn::one(key("other"), Expect::Any, put("x")), T0).expect("applied"));
        store.flush().expect("the disk works");

        let crashed = dir.after_crash();
        let (after, recovery) = open(&crashed.0);
        assert_eq!((after.revision(), after.compacted()), (store.revision(), store.compacted()));
        let mut expected = State::new();
        let (old, new): (Vec<_>, Vec<_>) = all.iter().cloned().partition(|b| b.revision <= store.compacted());
        old.iter().for_each(|batch| replay(&mut expected, batch));
        assert_eq!(base(&recovery), expected, "step {steps}");
        assert_eq!(history(&recovery), new, "step {steps}");
        if progress == Progress::Done {
            break;
        }
    }
    assert!(steps > 5, "only {steps} steps");
    assert_eq!(store.compacted(), upto);
    assert_eq!(store.compact_step(T0), Ok(Progress::Done));
}

#[test]
fn an_undeclared_resource_is_kept_and_told() {
    let dir = Dir::new();
    let (mut store, _) = open(&dir.0);
    write(&mut store, "a", put("config"), T0);
    let deployment = |n: u32| Key::new(ResourceId::new(2), Some("prod"), &format!("d{n}"));
    let create = |n| Op { key: deployment(n), expect: Expect::Absent, action: leased("deployment", 10) };
    store.apply(&Txn { ops: vec![create(0), create(1), create(2)] }, T0).expect("applied");
    store.apply(&Txn::one(deployment(2), Expect::Exists, Action::Delete), T0).expect("applied");
    store.compact(rev(3), T0).expect("compacted");
    drop(store);

    // Removed from the schema, and the rows of the others move.
    let fewer = StoreConfig::durable(&dir.0, names(&["v1/nodes", "v1/configmaps"]), NO_FLOOR);
    let (mut store, recovery) = Store::open(&fewer).expect("the store opens");
    let told = Undeclared { resource: "apps/v1/deployments".to_owned(), objects: 2 };
    assert_eq!((&recovery.undeclared, store.len(), store.revision()), (&vec![told], 1, rev(4)));
    let moved = Key::new(ResourceId::new(1), Some("default"), "a");
    assert_eq!(base(&recovery).into_keys().collect::<Vec<_>>(), [moved]);
    assert_eq!(history(&recovery), [], "what is not declared is not replayed");
    drop(recovery);
    assert_eq!(store.expire(at(1000), 10), [], "what is not declared does not expire");
    store.compact(rev(4), T0).expect("compacted");
    drop(store);

    let (mut store, recovery) = open(&dir.0);
    assert_eq!((recovery.undeclared.len(), store.len()), (0, 3));
    assert_eq!(state(&recovery)[&deployment(1)], (rev(3), Bytes::from_static(b"deployment")));
    assert_eq!(store.expire(at(1000), 10).len(), 2);
}

#[test]
fn a_file_from_before_lives_were_kept_is_one_life() {
    use redb::TableDefinition;
    const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
    const LIVES: TableDefinition<'_, u64, u64> = TableDefinition::new("lives");
    // Format 1 began at 1, and compacted up to none.
    for writes in [0, 3] {
        let dir = Dir::new();
        let (mut store, _) = open(&dir.0);
        for n in 0..writes {
            write(&mut store, &format!("k{n}"), put("v"), T0);
        }
        let last = store.revision();
        assert_eq!(last, rev(1 + writes));
        drop(store);
        tamper(&dir, |txn| {
            let mut meta = txn.open_table(META).expect("meta");
            meta.insert("format", 1).expect("inserted");
            meta.insert("compacted", 0).expect("inserted");
            drop(meta);
            assert!(txn.delete_table(LIVES).expect("deleted"));
        });

        // A clock that is behind begins no life, and the file stays as it is.
        drop(open(&dir.0));
        let later = StoreConfig { started_at: T0, ..durable(&dir.0) };
        let birth = rev(T0.as_millis() * 1000);
        let gaps = vec![Gap { last, next: birth }];
        let (mut store, recovery) = Store::open(&later).expect("the store opens");
        assert_eq!(
            (store.revision(), &recovery.gaps, recovery.clock),
            (birth, &gaps, Some(ClockFault::Implausible { now: T0 }))
        );
        assert_eq!(history(&recovery).len() as u64, writes);
        drop(recovery);
        assert_eq!(write(&mut store, "new", put("v"), T0), birth.next());
        drop(store);

        let (mut store, recovery) = open(&dir.0);
        let behind = ClockFault::Behind { now: NO_FLOOR, stored: birth.next() };
        assert_eq!((store.revision(), &recovery.gaps, recovery.clock), (birth.next(), &gaps, Some(behind)));
        assert_eq!(history(&recovery).len() as u64, writes + 1);
        // Within the gap there is nothing but what was before it.
        let between = rev(birth.get() - 5);
        assert_eq!(
            store.compact(between, T0).map(|done| (done.revision, done.folded)),
            Ok((between, writes))
        );
        drop((store, recovery));
        let (mut store, recovery) = open(&dir.0);
        assert_eq!((recovery.compacted, &recovery.gaps, history(&recovery).len()), (between, &gaps, 1));
        store.compact(birth.next(), T0).expect("compacted");
        drop((store, recovery));
        assert_eq!(open(&dir.0).1.gaps, [], "what is compacted needs no gap");
    }
}
