//! Directories and files that are not as they should be.

use std::fs;
use std::path::Path;

use crate::{Dir, NO_FLOOR, Random, T0, durable, key, names, open, put, rev, state, write};
use revcast::source::embedded::{OpenError, Store, StoreConfig};

fn refused(dir: &Path) -> OpenError {
    match Store::open(&durable(dir)) {
        Ok(_) => panic!("{} opened", dir.display()),
        Err(error) => {
            let line = error.to_string();
            assert!(
                line.starts_with("cannot open the store: ") && !line.contains('\n') && line.contains("; "),
                "{line}"
            );
            error
        }
    }
}

#[test]
fn a_directory_is_made_for_this_user_and_held_by_one() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = Dir::new();
    let deep = dir.0.join("a/b");
    let (store, _) = open(&deep);
    assert_eq!(fs::metadata(&deep).expect("made").permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(deep.join("revcast.redb")).expect("made").permissions().mode() & 0o777, 0o600);
    assert!(matches!(refused(&deep), OpenError::Locked(path) if path == deep));
    drop(store);
    open(&deep);
}

#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    let dir = Dir::new();
    let file = dir.0.join("file");
    fs::write(&file, "hello").expect("written");
    assert!(matches!(refused(&file), OpenError::WrongKind(_)));
    assert!(matches!(refused(&file.join("below")), OpenError::WrongKind(_)));

    let odd = Dir::new();
    fs::create_dir(odd.file()).expect("made");
    assert!(matches!(refused(&odd.0), OpenError::WrongKind(_)));

    for content in [&b""[..], b"hello", &[0; 8192]] {
        let odd = Dir::new();
        fs::write(odd.file(), content).expect("written");
        assert!(matches!(refused(&odd.0), OpenError::Corrupt { .. }), "{} bytes", content.len());
        assert_eq!(fs::read(odd.file()).expect("still there"), content);
    }

    let foreign = Dir::new();
    drop(redb::Database::create(foreign.file()).expect("created"));
    assert!(matches!(refused(&foreign.0), OpenError::Corrupt { .. }));

    let twice = StoreConfig::memory(names(&["v1/nodes", "v1/nodes"]), NO_FLOOR);
    assert!(matches!(Store::open(&twice), Err(OpenError::Resources(_))));
}

#[test]
fn a_birth_that_was_cut_short_is_repeated() {
    let dir = Dir::new();
    fs::write(dir.0.join("revcast.redb.new"), b"redb half a header").expect("written");
    let (store, _) = open(&dir.0);
    assert_eq!(store.revision(), rev(1));
    assert!(!dir.0.join("revcast.redb.new").exists());
}

/// Changes the tables without the store.
pub(crate) fn tamper(dir: &Dir, change: impl FnOnce(&redb::WriteTransaction)) {
    let db = redb::Database::open(dir.file()).expect("the file opens");
    let txn = db.begin_write().expect("a transaction");
    change(&txn);
    txn.commit().expect("committed");
}

#[test]
fn a_file_that_contradicts_itself_is_refused() {
    use redb::TableDefinition;
    const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
    const HISTORY: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("history");
    const LIVES: TableDefinition<'_, u64, u64> = TableDefinition::new("lives");
    const OBJECTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("objects");
    let mark = |txn: &redb::WriteTransaction, name: &str, value: u64| {
        txn.open_table(META).expect("meta").insert(name, value).expect("inserted");
    };
    let made = || {
        let dir = Dir::new();
        let (mut store, _) = open(&dir.0);
        for n in 0..6 {
            write(&mut store, &n.to_string(), put("v"), T0);
        }
        store.compact(rev(3), T0).expect("compacted");
        dir
    };
    let dir = made();
    tamper(&dir, |txn| mark(txn, "format", 3));
    assert!(matches!(refused(&dir.0), OpenError::NewerFormat { found: 3, .. }));

    let damages: [&dyn Fn(&redb::WriteTransaction); 10] = [
        &|txn| drop(txn.open_table(LIVES).expect("lives").insert(9, 8).expect("inserted")),
        &|txn| assert!(txn.delete_table(LIVES).expect("deleted")),
        &|txn| mark(txn, "format", 0),
        &|txn| mark(txn, "revision", 9),
        &|txn| mark(txn, "revision", 5),
        &|txn| mark(txn, "compacted", 2),
        &|txn| mark(txn, "compacted", 8),
        &|txn| drop(txn.open_table(META).expect("meta").remove("cluster").expect("removed")),
        &|txn| drop(txn.open_table(HISTORY).expect("log").remove(5).expect("removed")),
        &|txn| {
            drop(txn.open_table(OBJECTS).expect("objects").insert(&b"x\0y"[..], &b"?"[..]).expect("inserted"))
        },
    ];
    for (n, damage) in damages.iter().enumerate() {
        let dir = made();
        tamper(&dir, damage);
        assert!(matches!(refused(&dir.0), OpenError::Corrupt { .. }), "damage {n}");
    }
}

/// Truncates, or flips some bits; half of them in the header and the first pages.
fn damaged(good: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = good.to_vec();
    if random.below(5) == 0 {
        bytes.truncate(random.below(good.len()));
        return bytes;
    }
    for _ in 0..=random.below(20) {
        let end = if random.below(2) == 0 { 8192 } else { good.len() };
        bytes[random.below(end)] ^= 1 << random.below(8);
    }
    bytes
}

#[test]
fn a_damaged_file_is_refused_or_whole() {
    let dir = Dir::new();
    let (mut store, _) = open(&dir.0);
    for n in 0..200 {
        write(&mut store, &n.to_string(), put(&"x".repeat(200)), T0);
    }
    store.compact(rev(100), T0).expect("compacted");
    write(&mut store, "last", put("x"), T0);
    let unclean = dir.after_crash();
    drop(store);
    let written = state(&open(&dir.0).1);

    for (source, clean, seeds) in [(&dir, true, 0..150), (&unclean, false, 150..300)] {
        let good = fs::read(source.file()).expect("readable");
        let mut refused = 0;
        for seed in seeds {
            eprintln!("seed {seed}");
            let victim = Dir::new();
            fs::write(victim.file(), damaged(&good, &mut Random::new(seed))).expect("written");
            match Store::open(&durable(&victim.0)) {
                Err(_) => refused += 1,
                Ok((mut store, recovery)) => {
                    // After a crash a damaged newest commit counts as torn: the previous one is used.
                    let mut found = state(&recovery);
                    if !clean && store.revision() == rev(201) {
                        found.insert(key("last"), (rev(202), "x".into()));
                    }
                    assert_eq!(found, written);
                    write(&mut store, "again", put("x"), T0);
                }
            }
        }
        assert!(refused > 20, "{refused} refused");
    }
}
