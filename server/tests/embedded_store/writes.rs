//! What a write, a lease and a compaction answer.

use bytes::Bytes;
use revcast::source::embedded::{CompactError, Store};
use revcast::source::{Action, Expect, Op, TXN_OPS_MAX, Txn, TxnError, VALUE_BYTES_MAX};
use revcast_engine::change::{Batch, Change};
use revcast_engine::revision::Revision;

use crate::{Dir, T0, at, history, key, leased, memory, open, put, rev, write};

#[test]
fn every_expectation_meets_every_state() {
    let ok = |store: &mut Store, expect, action| {
        store.apply(&Txn::one(key("a"), expect, action), T0).map(|batch| batch.revision)
    };
    let conflict = |found: Option<u64>| Err(TxnError::Conflict { op: 0, found: found.map(rev) });
    let missing = Err(TxnError::NotFound { op: 0 });

    // (expectation, action, answer when absent, answer when written by revision 2)
    let matrix = [
        (Expect::Any, put("x"), Ok(rev(2)), Ok(rev(3))),
        (Expect::Absent, put("x"), Ok(rev(2)), conflict(Some(2))),
        (Expect::Exists, put("x"), conflict(None), Ok(rev(3))),
        (Expect::At(rev(2)), put("x"), conflict(None), Ok(rev(3))),
        (Expect::At(rev(1)), put("x"), conflict(None), conflict(Some(2))),
        (Expect::At(Revision::ZERO), put("x"), conflict(None), conflict(Some(2))),
        (Expect::Any, Action::Delete, missing.clone(), Ok(rev(3))),
        (Expect::Absent, Action::Delete, missing, conflict(Some(2))),
        (Expect::Exists, Action::Delete, conflict(None), Ok(rev(3))),
        (Expect::At(rev(2)), Action::Delete, conflict(None), Ok(rev(3))),
        (Expect::At(rev(1)), Action::Delete, conflict(None), conflict(Some(2))),
    ];
    for (expect, action, absent, present) in matrix {
        let mut store = memory();
        assert_eq!(ok(&mut store, expect, action.clone()), absent, "{expect:?} {action:?}, absent");
        let mut store = memory();
        assert_eq!(ok(&mut store, Expect::Any, put("before")), Ok(rev(2)));
        assert_eq!(ok(&mut store, expect, action.clone()), present, "{expect:?} {action:?}, present");
        let there = present.is_err() || action != Action::Delete;
        assert_eq!(store.modified(&key("a")), there.then(|| present.unwrap_or(rev(2))));
    }
}

#[test]
fn a_transaction_happens_whole_or_not_at_all() {
    let dir = Dir::new();
    let (mut store, _) = open(&dir.0);
    write(&mut store, "a", put("1"), T0);
    let op = |name: &str, expect, action| Op { key: key(name), expect, action };
    let failing = Txn {
        ops: vec![
            op("b", Expect::Absent, put("2")),
            op("a", Expect::Exists, Action::Delete),
            op("c", Expect::At(rev(2)), put("3")),
        ],
    };
    assert_eq!(store.apply(&failing, T0), Err(TxnError::Conflict { op: 2, found: None }));
    assert_eq!((store.revision(), store.len(), store.pending()), (rev(2), 1, 0));

    let good = Txn { ops: failing.ops[..2].to_vec() };
    let batch = store.apply(&good, T0).expect("all expectations hold");
    let changes = vec![
        Change { key: key("b"), value: Some(Bytes::from_static(b"2")) },
        Change { key: key("a"), value: None },
    ];
    assert_eq!(batch, Batch { revision: rev(3), changes });
    store.flush().expect("the disk works");
    drop(store);

    let (store, recovery) = open(&dir.0);
    assert_eq!(history(&recovery)[1], batch);
    assert_eq!((store.len(), store.modified(&key("a")), store.modified(&key("b"))), (1, None, Some(rev(3))));
}

#[test]
fn shapeless_transactions_are_refused() {
    let mut store = memory();
    let op = |name: &str| Op { key: key(name), expect: Expect::Any, action: put("x") };
    assert_eq!(store.apply(&Txn { ops: vec![] }, T0), Err(TxnError::NoOps));
    let ops: Vec<Op> = (0..=TXN_OPS_MAX).map(|n| op(&n.to_string())).collect();
    assert!(store.apply(&Txn { ops: ops[..TXN_OPS_MAX].to_vec() }, T0).is_ok());
    assert_eq!(store.apply(&Txn { ops }, T0), Err(TxnError::TooManyOps { ops: TXN_OPS_MAX + 1 }));
    let twice = Txn { ops: vec![op("a"), op("b"), op("a")] };
    assert_eq!(store.apply(&twice, T0), Err(TxnError::DuplicateKey { op: 2 }));
    let long = Txn { ops: vec![op(&"x".repeat(5000))] };
    assert_eq!(store.apply(&long, T0), Err(TxnError::KeyTooLong { op: 0, bytes: 5000 + "default/".len() }));
    let bytes = VALUE_BYTES_MAX + 1;
    let large = Action::Put { value: Bytes::from(vec![b' '; bytes]).into(), ttl: None };
    assert_eq!(
        store.apply(&Txn::one(key("a"), Expect::Any, large), T0),
        Err(TxnError::ValueTooLarge { op: 0, bytes })
    );
    assert_eq!(store.revision(), rev(2));
}

#[test]
fn a_lease_ends_is_replaced_and_is_removed() {
    let mut store = memory();
    for (name, ms) in [("short", 10), ("longer", 10), ("kept", 10), ("gone", 10), ("late", 30)] {
        write(&mut store, name, leased("v", ms), T0);
    }
    write(&mut store, "longer", leased("v", 20), at(5));
    write(&mut store, "kept", put("v"), at(5));
    write(&mut store, "gone", Action::Delete, at(5));
    assert_eq!(store.next_expiry(), Some(at(10)));
    assert_eq!(store.expire(at(9), 10), []);
    let revision = store.revision();
    let batches = store.expire(at(10), 10);
    assert_eq!(
        batches,
        [Batch { revision: revision.next(), changes: vec![Change { key: key("short"), value: None }] }]
    );
    // Both are due; one call takes at most `max`.
    assert_eq!(store.expire(at(40), 1)[0].changes[0].key, key("longer"));
    assert_eq!(store.expire(at(40), 5)[0].changes[0].key, key("late"));
    assert_eq!((store.next_expiry(), store.len()), (None, 1));
    assert!(store.modified(&key("kept")).is_some());
}

#[test]
fn compaction_refuses_what_etcd_refuses() {
    let dir = Dir::new();
    for mut store in [memory(), open(&dir.0).0] {
        write(&mut store, "a", put("1"), T0);
        write(&mut store, "a", put("2"), T0);
        let future = store.compact(rev(4), T0);
        assert_eq!(future, Err(CompactError::Future { asked: rev(4), newest: rev(3) }));
        assert!(
            future
                .expect_err("refused")
                .to_string()
                .starts_with("mvcc: required revision is a future revision")
        );
        assert_eq!(store.compact(rev(2), T0).map(|done| done.revision), Ok(rev(2)));
        assert_eq!(store.compacted(), rev(2));
        let again = store.compact(rev(2), T0);
        assert_eq!(again, Err(CompactError::Compacted { asked: rev(2), compacted: rev(2) }));
        assert!(
            again.expect_err("refused").to_string().starts_with("mvcc: required revision has been compacted")
        );
        assert!(store.compact(Revision::ZERO, T0).is_err());
        // A compaction takes what waits with it.
        store.apply(&Txn::one(key("b"), Expect::Any, put("3")), T0).expect("applied");
        assert_eq!(store.compact(rev(4), T0).map(|done| done.revision), Ok(rev(4)));
        assert_eq!((store.compacted(), store.revision(), store.len()), (rev(4), rev(4), 2));
    }
}
