//! Each rule holds for a good history, and is violated by its fault.

use super::{End, Kind, Log, Object, Rule, Seen, Segment, Violation, Watcher, check, none};
use crate::etcd::{Change, Entry, Record};

fn put(mod_revision: u64, key: &str, value: &str) -> Record {
    Record { mod_revision, key: key.to_owned(), change: Change::Put(value.into()) }
}

fn delete(mod_revision: u64, key: &str) -> Record {
    Record { mod_revision, key: key.to_owned(), change: Change::Delete }
}

/// Values that begin with `+` match. `/a/0` exists from the start, `/b/1` is out of scope.
fn log() -> Log {
    let zero = Entry {
        key: "/a/0".to_owned(),
        value: b"+0".to_vec(),
        create_revision: 2,
        mod_revision: 3,
        version: 2,
    };
    let records = vec![
        put(5, "/a/1", "+1"),
        put(6, "/a/2", "-2"),
        put(7, "/a/2", "+3"),
        put(7, "/a/1", "+4"),
        put(7, "/a/3", "+5"),
        put(8, "/b/1", "+6"),
        put(9, "/a/1", "-7"),
        delete(10, "/a/3"),
        delete(11, "/a/1"),
        put(12, "/a/2", "+8"),
    ];
    Log::new(4, &[zero], records).expect("a log")
}

fn wants(key: &str, value: &[u8]) -> bool {
    key.starts_with("/a/") && value.starts_with(b"+")
}

fn object(key: &str, revision: u64, value: &str) -> Object {
    Object { key: key.to_owned(), revision, value: value.into() }
}

fn list(revision: u64, objects: &[(&str, u64, &str)]) -> Seen {
    let objects = objects.iter().map(|(key, revision, value)| object(key, *revision, value)).collect();
    Seen::List { revision, objects }
}

fn added(key: &str, revision: u64, value: &str) -> Seen {
    Seen::Event(Kind::Added, object(key, revision, value))
}

fn modified(key: &str, revision: u64, value: &str) -> Seen {
    Seen::Event(Kind::Modified, object(key, revision, value))
}

fn deleted(key: &str, revision: u64, value: &str) -> Seen {
    Seen::Event(Kind::Deleted, object(key, revision, value))
}

/// A correct history: a list at 4, every event, bookmarks.
fn good() -> Vec<Seen> {
    vec![
        list(4, &[("/a/0", 3, "+0")]),
        added("/a/1", 5, "+1"),
        Seen::Bookmark(6),
        added("/a/3", 7, "+5"),
        added("/a/2", 7, "+3"),
        modified("/a/1", 7, "+4"),
        Seen::Bookmark(8),
        deleted("/a/1", 9, "+4"),
        deleted("/a/3", 10, "+5"),
        Seen::Bookmark(11),
        modified("/a/2", 12, "+8"),
        Seen::End(End::Clean),
    ]
}

fn judged(segments: Vec<Segment>, logs: &[Log]) -> Vec<Violation> {
    check(logs, &[Watcher { name: "w".to_owned(), keys: "/a/".to_owned(), wants: &wants, segments }])
}

fn breaches_of(seen: Vec<Seen>, reached: Option<u64>) -> Vec<(Rule, u64)> {
    let found = judged(vec![Segment { epoch: 0, seen, reached }], &[log()]);
    found.into_iter().map(|violation| (violation.rule, violation.revision)).collect()
}

fn breaches(seen: Vec<Seen>) -> Vec<(Rule, u64)> {
    breaches_of(seen, None)
}

/// The good history with one part replaced.
fn with(at: std::ops::Range<usize>, instead: &[Seen]) -> Vec<Seen> {
    let mut seen = good();
    seen.splice(at, instead.iter().cloned());
    seen
}

#[test]
fn a_good_history_breaks_nothing() {
    assert_eq!(breaches_of(good(), Some(12)), []);
    // From any list on, and with a break between any two revisions.
    let at_seven = list(7, &[("/a/0", 3, "+0"), ("/a/3", 7, "+5"), ("/a/2", 7, "+3"), ("/a/1", 7, "+4")]);
    assert_eq!(breaches(with(0..6, &[at_seven])), []);
    for (at, from) in [(1, 4), (2, 5), (3, 6), (6, 7), (7, 8), (8, 9), (9, 10), (10, 11), (11, 12)] {
        for end in [End::Cut, End::Clean] {
            assert_eq!(
                breaches_of(with(at..at, &[Seen::End(end), Seen::Resume(from)]), Some(12)),
                [],
                "{at}"
            );
        }
    }
    // A break inside a revision, and again from before it.
    let again = [Seen::End(End::Cut), Seen::Resume(6), added("/a/3", 7, "+5")];
    assert_eq!(breaches(with(4..4, &again)), []);
    // 410, and a new list.
    let again = [Seen::End(End::Expired), list(5, &[("/a/0", 3, "+0"), ("/a/1", 5, "+1")])];
    assert_eq!(breaches(with(2..2, &again)), []);
    // A stream that is not waited for may stop anywhere.
    assert_eq!(breaches(good()[..8].to_vec()), []);
}

#[test]
fn filter() {
    assert_eq!(breaches(with(2..2, &[added("/a/2", 6, "-2")])), [(Rule::Filter, 6)]);
    assert_eq!(breaches(with(7..7, &[added("/b/1", 8, "+6")])), [(Rule::Filter, 8)]);
    // It stopped matching at 9: its deletion does not concern this watcher.
    assert_eq!(breaches(with(9..9, &[deleted("/a/1", 11, "-7")])), [(Rule::Filter, 11)]);
    let shown = list(6, &[("/a/0", 3, "+0"), ("/a/1", 5, "+1"), ("/a/2", 6, "-2")]);
    assert_eq!(breaches(vec![shown]), [(Rule::Filter, 6)]);
}

#[test]
fn faithful() {
    // Each is at the right place, with other content.
    for (at, instead, revision) in [
        (1, modified("/a/1", 5, "+1"), 5),
        (1, added("/a/1", 5, "+old"), 5),
        (4, modified("/a/2", 7, "+3"), 7),
        (7, modified("/a/1", 9, "-7"), 9),
        (7, deleted("/a/1", 9, "-7"), 9),
        (7, deleted("/a/1", 9, "+1"), 9),
        (8, deleted("/a/3", 10, ""), 10),
    ] {
        assert_eq!(breaches(with(at..at + 1, &[instead])), [(Rule::Faithful, revision)], "{at}");
    }
    assert_eq!(breaches(with(3..3, &[added("/a/9", 6, "+9")])), [(Rule::Faithful, 6)]);
    for objects in [[("/a/0", 3, "+1")], [("/a/0", 4, "+0")]] {
        assert_eq!(breaches(vec![list(4, &objects)]), [(Rule::Faithful, 4)], "{objects:?}");
    }
    assert_eq!(breaches(vec![list(4, &[("/a/0", 3, "+0"), ("/a/1", 5, "+1")])]), [(Rule::Faithful, 4)]);
    assert_eq!(breaches(vec![list(13, &[])]), [(Rule::Faithful, 13)]);
    assert_eq!(breaches(vec![list(3, &[])]), [(Rule::Faithful, 3)]);
}

#[test]
fn ordered() {
    let mut swapped = good();
    swapped.swap(7, 8);
    assert_eq!(breaches(swapped), [(Rule::Ordered, 9)]);
    assert_eq!(breaches(with(9..9, &[Seen::Bookmark(8)])), [(Rule::Ordered, 8)]);
    assert_eq!(breaches(with(3..3, &[Seen::Bookmark(5)])), [(Rule::Ordered, 5)]);
    let back = [Seen::End(End::Expired), list(5, &[("/a/0", 3, "+0"), ("/a/1", 5, "+1")])];
    assert_eq!(breaches(with(3..3, &back)), [(Rule::Ordered, 5)], "a list of the past");
}

#[test]
fn unique() {
    assert_eq!(breaches(with(2..2, &[added("/a/1", 5, "+1")])), [(Rule::Unique, 5)]);
    assert_eq!(breaches(with(9..9, &[added("/a/1", 5, "+1")])), [(Rule::Unique, 5)], "however late");
    assert_eq!(breaches(with(1..1, &[added("/a/0", 3, "+0")])), [(Rule::Unique, 3)], "as the list showed");
    let twice = list(4, &[("/a/0", 3, "+0"), ("/a/0", 3, "+0")]);
    assert_eq!(breaches(with(0..1, &[twice])), [(Rule::Unique, 4)]);
}

#[test]
fn reliable() {
    // A newer event proves it, or the test does.
    assert_eq!(breaches(with(8..10, &[])), [(Rule::Reliable, 10)]);
    let early = good()[..7].to_vec();
    assert_eq!(breaches_of(early.clone(), Some(8)), []);
    assert_eq!(breaches_of(early, Some(10)), [(Rule::Reliable, 9), (Rule::Reliable, 10)]);
    assert_eq!(breaches_of(with(11..12, &[Seen::End(End::Cut), Seen::Resume(12)]), Some(12)), []);
    assert_eq!(breaches(vec![list(5, &[("/a/0", 3, "+0")])]), [(Rule::Reliable, 5)], "a list, too");
    // A transition that was not sent.
    let silent = with(7..8, &[]);
    assert_eq!(breaches(silent), [(Rule::Bookmarkable, 11), (Rule::Reliable, 9)]);
}

#[test]
fn atomic() {
    // A bookmark, another revision, an end between two events of one revision.
    let inside = breaches(with(4..4, &[Seen::Bookmark(6)]));
    assert_eq!(inside, [(Rule::Ordered, 6), (Rule::Atomic, 7)]);
    let early = breaches(with(5..5, &[Seen::Bookmark(7)]));
    assert_eq!(early, [(Rule::Atomic, 7), (Rule::Bookmarkable, 7)]);
    let mut mixed = good();
    mixed.swap(5, 7);
    assert!(breaches(mixed).contains(&(Rule::Atomic, 7)));
    for end in [End::Clean, End::Expired] {
        let mut half = good()[..5].to_vec();
        half.push(Seen::End(end));
        assert_eq!(breaches(half), [(Rule::Atomic, 7)], "{end:?}");
    }
    let mut broken = good()[..5].to_vec();
    broken.push(Seen::End(End::Cut));
    assert_eq!(breaches(broken), [], "a connection breaks anywhere");
}

#[test]
fn bookmarkable() {
    let mut early = good();
    early.swap(1, 2);
    assert_eq!(breaches(early), [(Rule::Bookmarkable, 6)]);
    // Ahead of etcd.
    assert_eq!(breaches(with(11..11, &[Seen::Bookmark(13)])), [(Rule::Bookmarkable, 13)]);
    // For an event that never comes it breaks another rule as well.
    assert_eq!(breaches(with(1..2, &[])), [(Rule::Bookmarkable, 6), (Rule::Reliable, 5)]);
}

#[test]
fn resumable() {
    let resumed = |at: usize, from: u64| breaches(with(at..at, &[Seen::End(End::Cut), Seen::Resume(from)]));
    // A gap: ahead of what it saw, or inside a revision whose rest does not come.
    assert_eq!(resumed(3, 7)[0], (Rule::Resumable, 7));
    let rest_lost = [Seen::End(End::Cut), Seen::Resume(7)];
    assert_eq!(breaches(with(4..6, &rest_lost)), [(Rule::Resumable, 7), (Rule::Resumable, 7)]);
    // A repeat.
    let again = [Seen::End(End::Clean), Seen::Resume(5), added("/a/1", 5, "+1")];
    assert_eq!(breaches(with(2..2, &again)), [(Rule::Resumable, 5)]);
    // Events after a resume are checked like all others.
    let lost = [Seen::End(End::Cut), Seen::Resume(8)];
    assert_eq!(breaches(with(7..8, &lost)), [(Rule::Bookmarkable, 11), (Rule::Reliable, 9)]);
}

#[test]
fn epochs() {
    // The store goes back to revision 7, and 8 to 9 have another meaning from then on.
    let state: Vec<Entry> = [("/a/0", 3, "+0"), ("/a/1", 7, "+4"), ("/a/2", 7, "+3"), ("/a/3", 7, "+5")]
        .map(|(key, mod_revision, value)| Entry {
            key: key.to_owned(),
            value: value.into(),
            create_revision: 2,
            mod_revision,
            version: 1,
        })
        .into();
    let second = Log::new(7, &state, vec![put(8, "/a/1", "+other"), delete(9, "/a/0")]).expect("a log");
    let logs = [log(), second];
    let mut before = good();
    before.truncate(9);
    before.push(Seen::End(End::Expired));
    let after = |start: Seen| {
        let seen = vec![start, modified("/a/1", 8, "+other"), deleted("/a/0", 9, "+0"), Seen::Bookmark(9)];
        Segment { epoch: 1, seen, reached: Some(9) }
    };
    let first = Segment { epoch: 0, seen: before.clone(), reached: None };
    let shown = list(7, &[("/a/0", 3, "+0"), ("/a/1", 7, "+4"), ("/a/2", 7, "+3"), ("/a/3", 7, "+5")]);
    none(&judged(vec![first.clone(), after(shown)], &logs));
    // A revision of one epoch has no meaning in another.
    let found = judged(vec![first, after(Seen::Resume(7))], &logs);
    assert_eq!(
        found.iter().map(|found| (found.epoch, found.rule)).collect::<Vec<_>>(),
        [(1, Rule::Resumable)]
    );
    // A watcher that does not know of the second epoch gets events that the first never had.
    before.pop();
    before.push(modified("/a/1", 11, "+other"));
    assert!(
        judged(vec![Segment { epoch: 0, seen: before, reached: None }], &logs)
            .iter()
            .any(|found| { (found.epoch, found.rule, found.revision) == (0, Rule::Filter, 11) })
    );
}

#[test]
fn violations_name_everything() {
    let found = judged(vec![Segment { epoch: 0, seen: with(8..10, &[]), reached: None }], &[log()]);
    let text = found[0].to_string();
    assert_eq!(
        text,
        "watcher w, epoch 0, revision 10: not Reliable: DELETED of /a/3 never came, and 11 is reached"
    );
    let said = std::panic::catch_unwind(|| none(&found)).expect_err("it fails");
    assert!(said.downcast_ref::<String>().is_some_and(|said| said.contains(&text)));
    none(&[]);
}

#[test]
fn what_is_no_log_is_refused() {
    let refused = |records: Vec<Record>, why: &str| {
        let said = Log::new(4, &[], records).expect_err(why);
        assert!(said.contains(why), "{said}");
    };
    refused(vec![put(6, "a", "1"), put(5, "b", "1")], "revision 5 of b comes after 6");
    refused(vec![put(4, "a", "1")], "revision 4 of a comes after 4");
    refused(vec![put(5, "a", "1"), put(5, "a", "2")], "a changes twice in revision 5");
    refused(vec![put(5, "a", "1"), delete(6, "a"), put(6, "a", "2")], "a changes twice in revision 6");
    refused(vec![delete(5, "a")], "deletes a, which is not there");
    refused(vec![put(5, "a", "1"), delete(6, "a"), delete(7, "a")], "revision 7 deletes a");
}

#[test]
fn values_are_brought_to_one_form() {
    let upper = |value: &[u8]| value.to_ascii_uppercase();
    let log =
        Log::new(1, &[], vec![put(2, "/a/1", "+x"), delete(3, "/a/1")]).expect("a log").with_values(upper);
    let seen = vec![list(1, &[]), added("/a/1", 2, "+X"), deleted("/a/1", 3, "+X")];
    none(&judged(vec![Segment { epoch: 0, seen, reached: Some(3) }], &[log]));
}
