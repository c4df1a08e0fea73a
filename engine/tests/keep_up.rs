//! Watches whose sockets take everything are never expired, however slow their shard is and whatever it sends; and
//! watches that take nothing keep no memory of their own.

#[path = "framings/counted.rs"]
mod counted;
#[path = "allocations/counting.rs"]
mod counting;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use counted::{COUNTED, Counted};
use counting::held;
use revcast_engine::change::{Batch, Change};
use revcast_engine::encoding::Encoding;
use revcast_engine::framing::{BARE, Framing};
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::limits::DRAIN_GRACE;
use revcast_engine::resource::{Resource, Schema};
use revcast_engine::revision::Revision;
use revcast_engine::selector::{FieldSelector, LabelSelector, Selector};
use revcast_engine::tick::Tick;
use revcast_engine::{
    End, Feed, Outlet, Publisher, RingLimits, Run, Scope, Sent, Shard, ShardConfig, Start, Subscription,
    Turn, WatcherId,
};

const OBJECT_BYTES: usize = 1 << 20;
const OBJECTS: u64 = 32;
const WATCHERS: usize = 40;

/// Counts what each took, and has room for so much of each.
#[derive(Debug)]
struct Sockets {
    room: usize,
    took: HashMap<WatcherId, usize>,
    last: HashMap<WatcherId, Vec<u8>>,
    ended: HashSet<WatcherId>,
}

impl Outlet for Sockets {
    fn send(&mut self, to: WatcherId, run: Run<'_>) -> Sent {
        assert!(!self.ended.contains(&to), "bytes after the end");
        let bytes = run.bytes();
        let took = self.took.entry(to).or_default();
        let taken = bytes.len().min(self.room - *took);
        *took += taken;
        if taken > 0 {
            self.last.insert(to, bytes[..taken.min(1 << 12)].to_vec());
        }
        Sent::Took(taken)
    }

    fn heartbeat(&mut self, _: &[WatcherId], _: &mut Vec<Sent>) {
        unreachable!("they are off")
    }

    fn end(&mut self, to: WatcherId) -> Sent {
        assert!(self.ended.insert(to), "ended twice");
        Sent::Took(0)
    }
}

struct World {
    publisher: Publisher,
    feed: Feed,
    shard: Shard,
    sockets: Sockets,
    maps: ResourceId,
    revision: u64,
    now: Tick,
    ends: Vec<End>,
}

impl World {
    fn new(ring_bytes: u64, room: usize) -> Self {
        let mut schema = Schema::new();
        let maps = schema.add(Resource::new("v1", "ConfigMap", true, Vec::new()));
        let limits = RingLimits { events: 1 << 10, bytes: ring_bytes };
        let (publisher, feed) =
            Publisher::new(Arc::new(schema), Arc::new(Counted), limits, 1, Revision::ZERO);
        let config = ShardConfig { heartbeat_interval: None, ..ShardConfig::default() };
        let shard = Shard::new(0, feed.clone(), config);
        let sockets = Sockets { room, took: HashMap::new(), last: HashMap::new(), ended: HashSet::new() };
        let now = Tick::from_nanos(1_000_000_000);
        Self { publisher, feed, shard, sockets, maps, revision: 0, now, ends: Vec::new() }
    }

    fn watch(&mut self, start: Start) -> WatcherId {
        self.watch_of("web", start, &COUNTED)
    }

    fn watch_of(&mut self, app: &str, start: Start, framing: &'static Framing) -> WatcherId {
        let labels = LabelSelector::parse(&format!("app={app}")).expect("valid");
        let wish = Subscription {
            scope: Scope::all(self.maps),
            selector: Selector::new(labels, FieldSelector::default()),
            encoding: Encoding::Json,
            framing,
            start,
            bookmarks: false,
            timeout: Duration::from_secs(3600),
            jitter: 0,
            as_of_seconds: 0,
        };
        self.shard.subscribe(wish, self.now)
    }

    fn batch(&mut self, value: Option<&Bytes>, objects: std::ops::Range<u64>) -> Batch {
        self.revision += 1;
        let key = |number| Key::new(self.maps, Some("n"), &format!("m{number}"));
        let changes = objects.map(|number| Change { key: key(number), value: value.cloned() }).collect();
        Batch { revision: Revision::new(self.revision), changes }
    }

    /// One turn, which takes so long.
    fn turn(&mut self, takes: Duration) -> Turn {
        let turn = self.shard.turn(&mut self.sockets, self.now);
        self.now = self.now.plus(takes);
        while let Some(ended) = self.shard.poll_ended() {
            self.ends.push(ended.why);
        }
        turn
    }

    /// Publishes a batch as the server's publisher does: it waits while it should.
    fn write(&mut self, batch: &Batch, turn_takes: Duration) {
        let mut turns = 0;
        while self.publisher.should_wait(batch) {
            self.turn(turn_takes);
            turns += 1;
            assert!(turns < 1_000_000, "the source waits for ever");
        }
        self.publisher.handle_batch(batch, 0).expect("newer");
        self.publisher.publish();
    }

    fn settle(&mut self) {
        while self.turn(Duration::ZERO) == Turn::Again {}
    }
}

fn large(app: &str) -> Bytes {
    object(app, OBJECT_BYTES)
}

fn object(app: &str, bytes: usize) -> Bytes {
    let text = "x".repeat(bytes);
    let labels = format!(r#"{{"app":"{app}"}}"#);
    format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"namespace":"n","labels":{labels}}},"data":{{"k":"{text}"}}}}"#
    )
    .into()
}

#[test]
fn whoever_takes_everything_is_never_expired_by_a_slow_shard() {
    let mut world = World::new(8 << 20, usize::MAX);
    // More at once than is sent in one offer, so that they fall behind; then the shard is busy with others for a third
    // of a second, and has time for little more.
    let framings = [&COUNTED, &BARE, &COUNTED];
    let few = framings.map(|framing| world.watch_of("web", Start::Latest, framing));
    for _ in 0..1_000 {
        world.watch_of("db", Start::Latest, &COUNTED);
    }
    world.settle();
    for _ in 0..12 {
        let mut batch = world.batch(Some(&large("web")), 0..3);
        let key = Key::new(world.maps, Some("n"), "small");
        batch.changes.push(Change { key, value: Some(object("db", 10)) });
        world.write(&batch, Duration::from_millis(20));
    }
    world.settle();
    assert_eq!(world.ends, [], "no watcher was sent anything but events");
    let stats = world.shard.stats();
    assert_eq!((stats.live, stats.events_sent), (1_003, 12 * (1_000 + 3 * few.len() as u64)));
}

#[test]
fn whoever_takes_nothing_holds_up_nobody() {
    let mut world = World::new(8 << 20, 1 << 20);
    for _ in 0..WATCHERS {
        world.watch(Start::Latest);
    }
    world.settle();
    let value = large("web");
    let began = world.now;
    for _ in 0..8 {
        let batch = world.batch(Some(&value), 0..4);
        world.write(&batch, Duration::from_millis(1));
    }
    let took = world.now.since(began);
    assert!(took < Duration::from_secs(3), "the source waited {took:?} for those that take nothing");
}

/// A drain ends before those within their initial state would be served in turn: they are told in time.
#[test]
fn a_drain_tells_those_within_their_initial_state_before_it_is_over() {
    drain_within_state(&COUNTED, OBJECT_BYTES);
    // In another framing than the one that messages are made in, the rest of a short object is kept for each.
    drain_within_state(&BARE, 60_000);
}

fn drain_within_state(framing: &'static Framing, object_bytes: usize) {
    for (over, by) in [(8, DRAIN_GRACE), (4, Duration::from_secs(4)), (0, DRAIN_GRACE)] {
        let mut world = World::new(64 << 20, 100 << 10);
        let value = object("web", object_bytes);
        for number in 0..4 {
            let batch = world.batch(Some(&value), number..number + 1);
            world.write(&batch, Duration::ZERO);
        }
        let state = Start::State { end_mark: false };
        let slow: Vec<_> = (0..20).map(|_| world.watch_of("web", state, framing)).collect();
        world.settle();
        assert!(slow.iter().all(|id| world.sockets.took[id] == 100 << 10), "all stand within an object");
        world.shard.drain(Duration::from_secs(over), world.now);
        let end = world.now.plus(by);
        world.settle();
        assert_eq!(world.ends, [], "they have time to take their state");
        world.now = end;
        world.settle();
        // The rest of each watch's object, and the 410, wait for the socket: there is room from now on.
        world.sockets.room = usize::MAX;
        slow.iter().for_each(|id| world.shard.writable(*id));
        world.settle();
        assert_eq!(world.ends, [End::Drained; 20], "over {over} s");
        for id in slow {
            let last = String::from_utf8_lossy(&world.sockets.last[&id]).into_owned();
            assert!(last.contains("\"code\":410") && world.sockets.ended.contains(&id), "{last:.100}");
        }
    }
}

#[test]
fn those_that_end_within_an_object_share_its_rest() {
    let mut world = World::new(64 << 20, 100 << 10);
    let value = large("web");
    for _ in 0..2 {
        // Changed once: there is no message that adds it.
        let batch = world.batch(Some(&value), 0..1);
        world.write(&batch, Duration::ZERO);
    }
    for _ in 0..WATCHERS {
        world.watch(Start::State { end_mark: false });
    }
    world.settle();
    let before = held();
    world.shard.drain(Duration::from_secs(8), world.now);
    world.now = world.now.plus(DRAIN_GRACE);
    world.settle();
    let more = held() - before;
    assert!(more < 2 * OBJECT_BYTES as i64, "{more} bytes for the ends of {WATCHERS} watches");
}

#[test]
fn messages_that_are_made_count_against_a_turn() {
    let mut world = World::new(256 << 20, usize::MAX);
    let batch = world.batch(Some(&large("web")), 0..OBJECTS);
    world.write(&batch, Duration::ZERO);
    world.watch(Start::Latest);
    world.settle();
    // Each object belongs to another app now: the shard makes the DELETED message.
    let batch = world.batch(Some(&large("db")), 0..OBJECTS);
    world.write(&batch, Duration::ZERO);
    let (before, mut most) = (world.feed.messages_made(), 0);
    loop {
        let made = world.feed.messages_made();
        let turn = world.turn(Duration::ZERO);
        most = most.max(world.feed.messages_made() - made);
        if turn != Turn::Again {
            break;
        }
    }
    assert_eq!(world.feed.messages_made() - before, OBJECTS);
    assert_eq!(most, 1, "a turn makes one message of 1 MiB");
}
