//! Resources that are added and removed while shards serve watches.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use revcast_engine::change::{Batch, Change};
use revcast_engine::encoding::{Encoding, JsonOnly};
use revcast_engine::framing::BARE;
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::resource::{Field, Resource, Schema};
use revcast_engine::revision::Revision;
use revcast_engine::selector::Selector;
use revcast_engine::tick::Tick;
use revcast_engine::{
    Feed, Outlet, Publisher, RingLimits, Run, Scope, Sent, Shard, ShardConfig, Start, Subscription, Turn,
    WatcherId,
};

/// Takes everything.
#[derive(Debug, Default)]
struct Sink(HashMap<WatcherId, Vec<u8>>);

impl Outlet for Sink {
    fn send(&mut self, to: WatcherId, run: Run<'_>) -> Sent {
        self.0.entry(to).or_default().extend_from_slice(run.bytes());
        Sent::Took(run.bytes().len())
    }

    fn heartbeat(&mut self, _: &[WatcherId], _: &mut Vec<Sent>) {
        unreachable!("no time passes")
    }

    fn end(&mut self, _: WatcherId) -> Sent {
        Sent::Took(0)
    }
}

struct World {
    publisher: Publisher,
    feed: Feed,
    shard: Shard,
    sink: Sink,
}

impl World {
    /// With one resource, at revision 5.
    fn new() -> (Self, ResourceId) {
        let mut schema = Schema::new();
        let first = schema.add(Resource::new("v1", "ConfigMap", true, vec![]));
        let (publisher, feed) =
            Publisher::new(Arc::new(schema), Arc::new(JsonOnly), RingLimits::default(), 1, Revision::new(5));
        let shard = Shard::new(0, feed.clone(), ShardConfig::default());
        (Self { publisher, feed, shard, sink: Sink::default() }, first)
    }

    fn watch(&mut self, resource: ResourceId, start: Start) -> WatcherId {
        let wish = Subscription {
            scope: Scope::all(resource),
            selector: Selector::everything(),
            encoding: Encoding::Json,
            framing: &BARE,
            start,
            bookmarks: false,
            timeout: Duration::MAX,
            jitter: 0,
            as_of_seconds: 0,
        };
        let id = self.shard.subscribe(wish, Tick::ZERO);
        self.settle();
        id
    }

    fn write(&mut self, revision: u64, resource: ResourceId, name: &str, value: Option<&str>) {
        let change = Change { key: Key::new(resource, Some("n"), name), value: value.map(object_of) };
        let batch = Batch { revision: Revision::new(revision), changes: vec![change] };
        self.publisher.handle_batch(&batch, 0).expect("newer");
        self.publisher.publish();
        self.settle();
    }

    fn settle(&mut self) {
        while self.shard.turn(&mut self.sink, Tick::ZERO) == Turn::Again {}
    }

    fn text(&self, id: WatcherId) -> &str {
        let bytes = self.sink.0.get(&id).map_or(&[][..], Vec::as_slice);
        std::str::from_utf8(bytes).expect("messages are text")
    }

    fn names(&self, resource: ResourceId) -> Vec<(String, u64)> {
        let snapshot = self.feed.snapshot();
        let objects = snapshot.list(resource, None, None);
        objects.map(|object| (object.key().name().to_owned(), object.revision().get())).collect()
    }
}

fn object_of(color: &str) -> Bytes {
    format!(r#"{{"metadata":{{}},"spec":{{"color":"{color}"}}}}"#).into()
}

#[test]
fn a_resource_is_added_with_the_objects_that_it_has() {
    let (mut world, first) = World::new();
    let before = world.watch(first, Start::Latest);
    world.write(6, first, "a", Some("red"));

    let fields = vec![Field::at("spec.color")];
    let widgets = world.feed.schema().grow(Resource::new("example.com/v1", "Widget", true, fields));
    assert_eq!(world.names(widgets), [], "the snapshot is older than the resource");
    for (name, revision) in [("x", 3), ("y", 4)] {
        let key = Key::new(widgets, Some("n"), name);
        world.publisher.load(key, Revision::new(revision), &object_of("blue"));
    }
    world.publisher.add(widgets, Revision::new(7));
    world.write(7, first, "b", Some("red"));
    assert_eq!(world.names(widgets), [("x".to_owned(), 3), ("y".to_owned(), 4)]);

    // From the state, from its revision on, and from before: of that nothing is known.
    let state = world.watch(widgets, Start::State { end_mark: false });
    let after = world.watch(widgets, Start::After(Revision::new(7)));
    let too_old = world.watch(widgets, Start::After(Revision::new(6)));
    assert!(world.text(too_old).contains("too old resource version: 6 (7)"), "{}", world.text(too_old));
    assert!(world.feed.past(widgets, Revision::new(6)).is_err_and(|expired| expired.oldest.get() == 7));
    assert!(world.feed.past(first, Revision::new(6)).is_ok(), "another resource has its history");
    world.write(8, widgets, "x", Some("green"));
    world.write(9, widgets, "y", None);
    for (id, whole) in
        [(state, ["ADDED", "ADDED", "MODIFIED", "DELETED"].as_slice()), (after, &["MODIFIED", "DELETED"])]
    {
        let lines = world.text(id).lines();
        let kinds: Vec<&str> = lines.map(|line| line.split('"').nth(3).expect("a type")).collect();
        assert_eq!(kinds, whole);
    }
    assert_eq!(world.feed.past(widgets, Revision::new(8)).expect("known").list(None, None).count(), 2);
    assert_eq!(world.text(before).lines().count(), 2, "a watch of another resource sees nothing of it");
}

#[test]
fn a_resource_is_removed_with_its_objects() {
    let (mut world, first) = World::new();
    world.write(6, first, "a", Some("red"));
    let widgets = world.feed.schema().grow(Resource::new("example.com/v1", "Widget", true, vec![]));
    world.write(7, widgets, "x", Some("blue"));
    world.publisher.load(Key::new(widgets, Some("n"), "bad"), Revision::new(7), &Bytes::from_static(b"{"));
    world.write(8, first, "b", Some("red"));
    assert_eq!((world.feed.unreadable(widgets), world.names(widgets).len()), (1, 2));
    let bytes = world.feed.snapshot().bytes();

    world.publisher.unload(widgets);
    world.publisher.publish();
    assert_eq!((world.names(widgets), world.names(first).len()), (vec![], 2));
    assert_eq!((world.feed.unreadable_total(), world.feed.unreadable(widgets)), (0, 0));
    assert!(world.feed.snapshot().bytes() < bytes);
    // It may come back, in another row.
    let again = world.feed.schema().grow(Resource::new("example.com/v1", "Widget", true, vec![]));
    assert_ne!(again, widgets);
    world.write(9, again, "x", Some("blue"));
    assert_eq!(world.names(again), [("x".to_owned(), 9)]);
}
