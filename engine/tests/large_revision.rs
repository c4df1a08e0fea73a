//! One revision of very many events for very many selectors: turns stay short, memory does not grow, and each watcher
//! is sent everything once, whichever watches begin and end while the revision is being sorted.

#[path = "framings/counted.rs"]
mod counted;
#[path = "allocations/counting.rs"]
mod counting;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use counted::{COUNTED, Counted};
use counting::held;
use revcast_engine::change::{Batch, Change};
use revcast_engine::encoding::Encoding;
use revcast_engine::framing::{BARE, Framing};
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::limits::{PAGE_SCAN, SENDS_PER_TURN};
use revcast_engine::resource::{Resource, Schema};
use revcast_engine::revision::Revision;
use revcast_engine::selector::{FieldSelector, LabelSelector, Selector};
use revcast_engine::tick::Tick;
use revcast_engine::{
    Feed, Outlet, Publisher, RingLimits, Run, Scope, Sent, Shard, ShardConfig, Start, Subscription, Turn,
    WatcherId,
};

const OBJECTS: usize = 20_000;
const CLASSES: usize = 100;
const WATCHERS: usize = 3 * CLASSES;

/// Takes everything, and counts the messages.
#[derive(Debug, Default)]
struct Sockets(HashMap<WatcherId, usize>);

impl Outlet for Sockets {
    fn send(&mut self, to: WatcherId, run: Run<'_>) -> Sent {
        // Each is one line, in both framings.
        let messages = run.bytes().iter().filter(|byte| **byte == b'\n').count();
        *self.0.entry(to).or_default() += messages;
        Sent::Took(run.bytes().len())
    }

    fn heartbeat(&mut self, _: &[WatcherId], _: &mut Vec<Sent>) {
        unreachable!("they are off")
    }

    fn end(&mut self, _: WatcherId) -> Sent {
        Sent::Took(0)
    }
}

struct World {
    publisher: Publisher,
    feed: Feed,
    shard: Shard,
    sockets: Sockets,
    maps: ResourceId,
    watchers: Vec<WatcherId>,
}

impl World {
    /// Objects of `app=web`, and live watches of them in [`CLASSES`] classes.
    fn new() -> Self {
        let mut schema = Schema::new();
        let maps = schema.add(Resource::new("v1", "ConfigMap", true, Vec::new()));
        let limits = RingLimits { events: 1 << 16, ..RingLimits::default() };
        let (mut publisher, feed) =
            Publisher::new(Arc::new(schema), Arc::new(Counted), limits, 1, Revision::ZERO);
        for number in 0..OBJECTS {
            publisher.load(key(maps, number), Revision::new(1), &value(number, "web"));
        }
        publisher.loaded(Revision::new(1));
        let config = ShardConfig { heartbeat_interval: None, ..ShardConfig::default() };
        let shard = Shard::new(0, feed.clone(), config);
        let sockets = Sockets::default();
        let mut world = Self { publisher, feed, shard, sockets, maps, watchers: Vec::new() };
        for number in 0..WATCHERS {
            // Every second class in another framing than the one that messages are made in.
            let framing = if number.is_multiple_of(2) { &COUNTED } else { &BARE };
            let id = world.watch(&format!("app=web,tier!=n{}", number % CLASSES), framing, Start::Latest);
            world.watchers.push(id);
        }
        world.settle();
        assert_eq!((world.shard.stats().live, world.shard.stats().classes), (300, 100));
        world
    }

    fn watch(&mut self, labels: &str, framing: &'static Framing, start: Start) -> WatcherId {
        let labels = LabelSelector::parse(labels).expect("a selector");
        let wish = Subscription {
            scope: Scope::all(self.maps),
            selector: Selector::new(labels, FieldSelector::default()),
            encoding: Encoding::Json,
            framing,
            start,
            bookmarks: false,
            timeout: Duration::MAX,
            jitter: 0,
            as_of_seconds: 0,
        };
        self.shard.subscribe(wish, Tick::ZERO)
    }

    /// A revision in which the first objects become those of another app: DELETED to all watchers, in messages that the
    /// shard makes when it reaches them.
    fn change(&mut self, revision: u64, objects: usize, app: &str) {
        let change = |number| Change { key: key(self.maps, number), value: Some(value(number, app)) };
        let changes = (0..objects).map(change).collect();
        let batch = Batch { revision: Revision::new(revision), changes };
        self.publisher.handle_batch(&batch, 0).expect("newer");
        self.publisher.publish();
    }

    fn turn(&mut self) -> Turn {
        self.shard.turn(&mut self.sockets, Tick::ZERO)
    }

    fn settle(&mut self) {
        while self.turn() == Turn::Again {}
    }

    fn messages(&self, id: WatcherId) -> usize {
        self.sockets.0.get(&id).copied().unwrap_or(0)
    }
}

fn key(maps: ResourceId, number: usize) -> Key {
    Key::new(maps, Some("n"), &format!("m{number}"))
}

fn value(number: usize, app: &str) -> Bytes {
    let text = format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"m{number}","namespace":"n","labels":{{"app":"{app}"}}}}}}"#
    );
    text.into()
}

#[test]
fn a_turn_is_short_and_no_class_keeps_the_messages() {
    let mut world = World::new();
    world.change(2, OBJECTS, "db");
    let before = held();
    let (mut made, mut left, mut most) = (0, 0, 0);
    loop {
        let was = (world.feed.messages_made(), world.shard.stats().live);
        let turn = world.turn();
        made = made.max(world.feed.messages_made() - was.0);
        left = left.max(was.1.saturating_sub(world.shard.stats().live));
        most = most.max(held() - before);
        if turn != Turn::Again {
            break;
        }
    }
    assert!(made <= PAGE_SCAN as u64, "{made} events were sorted in one turn");
    assert!(left <= SENDS_PER_TURN as u64, "{left} watchers were left to the ring in one turn");
    // The messages themselves stay in the ring: 300 bytes each, and a little.
    let ring = i64::try_from(400 * OBJECTS).expect("small");
    assert!(most < ring + (8 << 20), "{most} bytes were held meanwhile");
    assert!(held() - before < ring + (2 << 20), "{} bytes are kept", held() - before);
    for &id in &world.watchers {
        assert_eq!(world.messages(id), OBJECTS, "{id:?}");
    }
    assert_eq!(world.shard.stats().live, WATCHERS as u64);
}

/// Turns until the first of those that sort the revision is over.
fn pause(world: &mut World) {
    let before = world.shard.stats();
    while world.shard.stats().rounds_paused == before.rounds_paused {
        assert_eq!(world.turn(), Turn::Again, "the revision is sorted at once");
    }
    assert_eq!(world.shard.stats().rounds, before.rounds, "it is not sorted yet");
}

#[test]
fn who_comes_and_goes_while_a_revision_is_sorted_has_everything_once() {
    let mut world = World::new();
    world.change(2, OBJECTS, "db");
    pause(&mut world);
    // A class is removed, and another one gets its number. It gets what comes after the revision.
    let gone: Vec<WatcherId> = world.watchers.iter().copied().step_by(CLASSES).collect();
    gone.iter().for_each(|&id| assert!(world.shard.forget(id).is_some()));
    let newcomer = world.watch("app=db", &COUNTED, Start::Latest);
    // One of a class ends, and another one begins that must get all of the revision.
    assert!(world.shard.forget(world.watchers[1]).is_some());
    let again = world.watch("app=web,tier!=n1", &BARE, Start::After(Revision::new(1)));
    world.settle();
    world.change(3, 1, "ui");
    world.settle();
    assert_eq!((world.messages(newcomer), world.messages(again)), (1, OBJECTS));
    let staying = world.watchers.iter().filter(|id| !gone.contains(id) && **id != world.watchers[1]);
    let mut count = 0;
    for &id in staying {
        assert_eq!(world.messages(id), OBJECTS, "{id:?}");
        count += 1;
    }
    assert_eq!((count, world.shard.stats().live), (WATCHERS - 4, WATCHERS as u64 - 2));
}

#[test]
fn a_shard_that_is_given_up_while_a_revision_is_sorted_tells_everybody_410() {
    let mut world = World::new();
    world.change(2, OBJECTS, "db");
    pause(&mut world);
    world.shard.abandon(Tick::ZERO);
    world.settle();
    let stats = world.shard.stats();
    assert_eq!((stats.abandoned, stats.evicted), (WATCHERS as u64, 0));
    assert_eq!((stats.watchers, stats.events_sent), (0, 0));
}

#[test]
fn what_is_compacted_while_a_revision_is_sorted_stays_until_it_is_sent() {
    let mut world = World::new();
    world.change(2, OBJECTS, "db");
    pause(&mut world);
    world.publisher.compact(Revision::new(2));
    world.change(3, 1, "ui");
    world.settle();
    let stats = world.shard.stats();
    assert_eq!((stats.evicted, stats.live), (0, WATCHERS as u64));
    for &id in &world.watchers {
        assert_eq!(world.messages(id), OBJECTS, "{id:?}");
    }
}
