//! Watches of ranges of keys: in one resource, across several, of JSON and of any bytes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use revcast_engine::change::{Batch, Change};
use revcast_engine::encoding::{Encode, Encoding, Subject, View};
use revcast_engine::framing::BARE;
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::key_range::KeyRange;
use revcast_engine::message::MessageKind;
use revcast_engine::resource::{Codec, Resource, Schema};
use revcast_engine::revision::Revision;
use revcast_engine::selector::{FieldSelector, LabelSelector, Selector};
use revcast_engine::tick::Tick;
use revcast_engine::{
    Feed, Outlet, Publisher, RingLimits, Run, Scope, Sent, Shard, ShardConfig, Start, Subscription, Turn,
    WatcherId,
};

const MAPS: ResourceId = ResourceId::new(0);
const BLOBS: ResourceId = ResourceId::new(1);
const NODES: ResourceId = ResourceId::new(2);

/// Names what it is told: the kind of the event, the key, and how long the value is.
#[derive(Debug)]
struct Names;

impl Encode for Names {
    fn event(&self, out: &mut Vec<u8>, view: View<'_>) -> Result<(), String> {
        let text = match view.event.subject {
            Subject::Object { key, value } => {
                let sign = match view.event.kind {
                    MessageKind::Added => "+",
                    MessageKind::Modified => "=",
                    MessageKind::Deleted | MessageKind::Bookmark => "-",
                };
                let codec = if value.codec() == Codec::Kubernetes { "" } else { "*" };
                format!("{sign}{}:{}{codec} ", key.resource().row(), key.path())
            }
            Subject::Bookmark { resource, initial_end } => {
                let row = resource.map_or_else(|| "none".to_owned(), |(id, _)| id.row().to_string());
                format!("|{row}@{}{} ", view.event.revision, if initial_end { "!" } else { "" })
            }
        };
        out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn shows(&self, _: u32, _: &Resource) -> bool {
        true
    }

    fn first_differs(&self, _: u32) -> bool {
        false
    }
}

#[derive(Default)]
struct Socket(Vec<u8>);

impl Outlet for Socket {
    fn send(&mut self, _: WatcherId, run: Run<'_>) -> Sent {
        self.0.extend_from_slice(run.bytes());
        Sent::Took(run.bytes().len())
    }

    fn heartbeat(&mut self, to: &[WatcherId], sent: &mut Vec<Sent>) {
        sent.resize(sent.len() + to.len(), Sent::Took(0));
    }

    fn end(&mut self, _: WatcherId) -> Sent {
        self.0.extend_from_slice(b"end");
        Sent::Took(3)
    }
}

struct World {
    publisher: Publisher,
    feed: Feed,
    shard: Shard,
    revision: u64,
    now: Tick,
}

impl World {
    fn new(slots: usize) -> Self {
        let mut schema = Schema::new();
        schema.add(Resource::new("v1", "ConfigMap", true, vec![]));
        schema.add(Resource::new("v1", "Blob", true, vec![]).with_codec(Codec::Opaque));
        schema.add(Resource::new("v1", "Node", false, vec![]));
        let limits = RingLimits { events: slots, bytes: 1 << 30 };
        let (publisher, feed) =
            Publisher::with_small_ring(Arc::new(schema), Arc::new(Names), limits, 1, Revision::ZERO);
        let shard = Shard::new(0, feed.clone(), ShardConfig::default());
        Self { publisher, feed, shard, revision: 0, now: Tick::ZERO }
    }

    /// One revision that writes (`+`) or deletes (`-`) or spoils (`!`) these keys, as in `+a/x`; `maps` unless a row is named.
    fn commit(&mut self, changes: &[(ResourceId, &str)]) {
        self.revision += 1;
        let change = |&(resource, what): &(ResourceId, &str)| {
            let (sign, path) = what.split_at(1);
            let key = match path.split_once('/') {
                Some((namespace, name)) => Key::new(resource, Some(namespace), name),
                None => Key::new(resource, None, path),
            };
            let value = match sign {
                "+" => Some(Bytes::from_static(b"{\"metadata\":{}}")),
                "!" => Some(Bytes::from_static(b"k8s\0")),
                _ => None,
            };
            Change { key, value }
        };
        let batch =
            Batch { revision: Revision::new(self.revision), changes: changes.iter().map(change).collect() };
        self.publisher.handle_batch(&batch, 0).expect("newer");
        self.publisher.publish();
    }

    fn settle(&mut self) -> String {
        let mut socket = Socket::default();
        while self.shard.turn(&mut socket, self.now) == Turn::Again {}
        String::from_utf8(socket.0).expect("text").trim_end().to_owned()
    }

    fn watch_selected(&mut self, range: &KeyRange, selector: Selector, start: Start) -> WatcherId {
        let wish = Subscription {
            scope: Scope::Keys(range.clone()),
            selector,
            encoding: Encoding::Other(0),
            framing: &BARE,
            start,
            bookmarks: true,
            timeout: Duration::from_nanos(u64::MAX / 2),
            jitter: 0,
            as_of_seconds: 0,
        };
        self.shard.subscribe(wish, self.now)
    }

    fn watch(&mut self, range: &KeyRange, start: Start) -> WatcherId {
        self.watch_selected(range, Selector::everything(), start)
    }

    /// What a watch of a range is told that begins with the state, and then of `changes`.
    fn told(&mut self, range: &KeyRange, changes: &[(ResourceId, &str)]) -> [String; 2] {
        let id = self.watch(range, Start::State { end_mark: true });
        let state = self.settle();
        self.commit(changes);
        let live = self.settle();
        self.shard.forget(id);
        [state, live]
    }
}

/// Objects of three resources; `a-b` sorts before `a/`.
fn stocked() -> World {
    let mut world = World::new(64);
    let all = [
        (NODES, "+n1"),
        (MAPS, "+b/y"),
        (BLOBS, "+a/x"),
        (MAPS, "+a/x"),
        (MAPS, "+a-b/x"),
        (MAPS, "+a/xy"),
        (BLOBS, "+c/z"),
        (NODES, "+n2"),
    ];
    for one in all {
        world.commit(&[one]);
    }
    world
}

#[test]
fn a_range_is_what_its_bounds_say() {
    let changes = [(MAPS, "+a/x"), (MAPS, "-b/y"), (MAPS, "+a/x0"), (BLOBS, "+a/w"), (NODES, "-n1")];
    for (range, state, live) in [
        (KeyRange::prefix(MAPS, "a/"), "+0:a/x +0:a/xy |0@8!", "=0:a/x +0:a/x0"),
        (KeyRange::prefix(MAPS, "a"), "+0:a-b/x +0:a/x +0:a/xy |0@8!", "=0:a/x +0:a/x0"),
        (KeyRange::prefix(MAPS, ""), "+0:a-b/x +0:a/x +0:a/xy +0:b/y |0@8!", "=0:a/x -0:b/y +0:a/x0"),
        (KeyRange::key(MAPS, "a/x"), "+0:a/x |0@8!", "=0:a/x"),
        (KeyRange::key(MAPS, "a/none"), "|0@8!", ""),
        (KeyRange::new((MAPS, "a/x"), Some((MAPS, "a/xy"))), "+0:a/x |0@8!", "=0:a/x +0:a/x0"),
        // Nothing is in it, whatever is written.
        (KeyRange::new((MAPS, "b"), Some((MAPS, "a"))), "|none@8!", ""),
        (KeyRange::prefix(ResourceId::new(7), ""), "|none@8!", ""),
        (KeyRange::new((MAPS, "b/"), Some((BLOBS, "b"))), "+0:b/y +1:a/x* |0@8!", "-0:b/y +1:a/w*"),
        (
            KeyRange::everything(),
            "+0:a-b/x +0:a/x +0:a/xy +0:b/y +1:a/x* +1:c/z* +2:n1 +2:n2 |0@8!",
            "=0:a/x -0:b/y +0:a/x0 +1:a/w* -2:n1",
        ),
        (KeyRange::new((BLOBS, "b"), None), "+1:c/z* +2:n1 +2:n2 |1@8!", "-2:n1"),
    ] {
        assert_eq!(stocked().told(&range, &changes), [state, live], "{range:?}");
    }
}

#[test]
fn a_range_goes_on_after_a_revision_or_is_told_that_it_cannot() {
    let mut world = stocked();
    let range = KeyRange::new((MAPS, "a/"), Some((BLOBS, "b")));
    let after = |world: &mut World, revision| {
        let id = world.watch(&range, Start::After(Revision::new(revision)));
        let told = world.settle();
        (id, told)
    };
    assert_eq!(after(&mut world, 0).1, "+0:b/y +1:a/x* +0:a/x +0:a/xy");
    assert_eq!(after(&mut world, 3).1, "+0:a/x +0:a/xy");
    // Of a revision with several events for it, all come again.
    world.commit(&[(MAPS, "+a/x"), (NODES, "+n3"), (BLOBS, "-a/x")]);
    world.settle();
    assert_eq!(after(&mut world, 9).1, "=0:a/x -1:a/x*");
    // One that is to come is waited for.
    let (id, told) = after(&mut world, 11);
    assert_eq!(told, "");
    world.commit(&[(MAPS, "+a/x")]);
    world.commit(&[(MAPS, "+a/x")]);
    assert_eq!(world.settle().matches("=0:a/x").count(), 3 * 2, "of the three that are live");
    world.commit(&[(MAPS, "-a/x")]);
    assert_eq!(world.settle().matches("-0:a/x").count(), 4, "and the one that waited");
    assert!(world.shard.contains(id));
    // What is forgotten is told.
    world.publisher.compact(Revision::new(8));
    let (id, told) = after(&mut world, 5);
    assert!(told.contains("too old resource version: 5 (8)") && told.ends_with("end"), "{told}");
    assert!(!world.shard.contains(id));
}

#[test]
fn a_value_in_the_range_that_is_unreadable_is_told() {
    let mut world = stocked();
    let whole = world.watch(&KeyRange::everything(), Start::Latest);
    let beside = world.watch(&KeyRange::prefix(MAPS, "b/"), Start::Latest);
    let parked = world.watch(&KeyRange::key(MAPS, "a/x"), Start::After(Revision::new(50)));
    assert_eq!(world.settle(), "");
    world.commit(&[(MAPS, "!a/x"), (MAPS, "+b/y")]);
    let told = world.settle();
    assert_eq!((told.matches("StorageReadError").count(), told.matches("end").count()), (2, 2), "{told}");
    assert!(told.contains("=0:b/y"), "{told}");
    let there = |world: &World| [whole, beside, parked].map(|id| world.shard.contains(id));
    assert_eq!(there(&world), [false, true, false]);
    for (range, refused) in [
        (KeyRange::prefix(MAPS, "a/"), true),
        (KeyRange::new((MAPS, "a/x"), Some((NODES, ""))), true),
        (KeyRange::new((MAPS, "a/x0"), None), false),
        (KeyRange::prefix(BLOBS, ""), false),
    ] {
        let id = world.watch(&range, Start::Latest);
        assert_eq!(world.settle().contains("StorageReadError"), refused, "{range:?}");
        assert_eq!(world.shard.contains(id), !refused);
        let found = world.feed.snapshot();
        let found = found.unreadable_in_range(&range).map(|object| object.key().path()).collect::<Vec<_>>();
        assert_eq!(found, if refused { vec!["a/x"] } else { vec![] });
    }
}

#[test]
fn a_range_is_listed_now_and_as_it_was() {
    let mut world = stocked();
    world.commit(&[(MAPS, "-a/x"), (BLOBS, "+a/y"), (NODES, "!n1")]);
    let across = KeyRange::new((MAPS, "a/"), Some((NODES, "n2")));
    let paths = |objects: &mut dyn Iterator<Item = &Arc<revcast_engine::Object>>| {
        objects.map(|object| object.key().path().to_owned()).collect::<Vec<_>>()
    };
    let snapshot = world.feed.snapshot();
    assert_eq!(paths(&mut snapshot.range(&across, None)), ["a/xy", "b/y", "a/x", "a/y", "c/z", "n1"]);
    let after = Key::new(BLOBS, Some("a"), "x");
    assert_eq!(paths(&mut snapshot.range(&across, Some(&after))), ["a/y", "c/z", "n1"]);
    let past = world.feed.past_of_range(across.clone(), Revision::new(8)).expect("in the window");
    assert_eq!(paths(&mut past.range(&across, None)), ["a/x", "a/xy", "b/y", "a/x", "c/z", "n1"]);
    assert_eq!(paths(&mut past.range(&across, Some(&after))), ["c/z", "n1"]);
    assert_eq!(paths(&mut past.range(&KeyRange::prefix(BLOBS, "a/"), None)), ["a/x"]);
    assert!(past.first_unreadable_in_range(&across).is_none());
    let now = world.feed.past_of_range(across.clone(), Revision::new(9)).expect("in the window");
    assert_eq!(now.first_unreadable_in_range(&across).map(|object| object.key().path()), Some("n1"));
    assert!(now.first_unreadable_in_range(&KeyRange::prefix(MAPS, "")).is_none());
    world.publisher.compact(Revision::new(9));
    assert!(world.feed.past_of_range(across, Revision::new(8)).is_err());
}

#[test]
fn selectors_and_bookmarks_of_ranges() {
    let mut world = stocked();
    let labels = LabelSelector::parse("app=web").expect("a selector");
    let selected = Selector::new(labels, FieldSelector::default());
    let start = Start::State { end_mark: true };
    world.watch_selected(&KeyRange::everything(), selected, start);
    assert_eq!(world.settle(), "|0@8!", "what is opaque has no labels");
    world.watch(&KeyRange::new((BLOBS, "c"), None), Start::Latest);
    world.commit(&[(MAPS, "+a/x")]);
    assert_eq!(world.settle(), "");
    world.now = world.now.plus(Duration::from_secs(70));
    let mut told: Vec<_> = world.settle().split(' ').map(str::to_owned).collect();
    told.sort_unstable();
    assert_eq!(told, ["|0@9", "|1@9"], "each names the first resource of its range");
}

/// A state of more objects than a page looks at, in two resources: a page goes on in the next one where the last one ended.
#[test]
fn pages_of_a_state_go_on_from_one_resource_into_the_next() {
    let mut world = World::new(64);
    let value = Bytes::from_static(b"{\"metadata\":{}}");
    for (resource, count) in [(MAPS, 1_500), (BLOBS, 3), (NODES, 1_500)] {
        for number in 0..count {
            let namespace = (resource != NODES).then_some("a");
            let key = Key::new(resource, namespace, &format!("{number:04}"));
            world.publisher.load(key, Revision::new(1), &value);
        }
    }
    world.revision = 1;
    world.publisher.loaded(Revision::new(1));
    let range = KeyRange::new((MAPS, "a/0010"), Some((NODES, "1490")));
    world.watch(&range, Start::State { end_mark: true });
    let told = world.settle();
    let rows = |row: usize| told.matches(&format!("+{row}:")).count();
    assert_eq!((rows(0), rows(1), rows(2)), (1_490, 3, 1_490));
    assert!(told.starts_with("+0:a/0010 +0:a/0011 ") && told.ends_with(" +2:1489 |0@1!"));
}
