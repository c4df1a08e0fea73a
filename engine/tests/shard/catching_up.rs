//! Watchers that begin together, each far back and with few events of its own, while events come as fast as one of them is read: they
//! must become live nevertheless.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use revcast_engine::change::{Batch, Change};
use revcast_engine::encoding::{Encoding, JsonOnly};
use revcast_engine::framing::BARE;
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::limits::PAGE_SCAN;
use revcast_engine::resource::{Resource, Schema};
use revcast_engine::revision::Revision;
use revcast_engine::selector::Selector;
use revcast_engine::tick::Tick;
use revcast_engine::{
    Outlet, Publisher, RingLimits, Run, Scope, Sent, Shard, ShardConfig, Start, Subscription, Turn, WatcherId,
};

const MAPS: ResourceId = ResourceId::new(0);
const WATCHERS: usize = 200;
/// Watchers that are live from the start.
const LIVE: usize = 50;
/// So many times a page of events comes before all watchers are live, at most.
const PASSES: usize = 100;
/// Pages that the history has.
const PAGES: usize = 8;
/// The time of a turn.
const TURN: Duration = Duration::from_micros(100);

/// Counts the messages of each watcher.
struct Sockets(Vec<usize>);

impl Outlet for Sockets {
    fn send(&mut self, to: WatcherId, run: Run<'_>) -> Sent {
        self.0[to.slot()] += run.bytes().iter().filter(|byte| **byte == b'\n').count();
        Sent::Took(run.bytes().len())
    }

    fn heartbeat(&mut self, _: &[WatcherId], _: &mut Vec<Sent>) {
        unreachable!("they are off")
    }

    fn end(&mut self, _: WatcherId) -> Sent {
        unreachable!("nothing ends them")
    }
}

struct World {
    publisher: Publisher,
    shard: Shard,
    sockets: Sockets,
    revision: u64,
    now: Tick,
}

impl World {
    fn new() -> Self {
        let mut schema = Schema::new();
        schema.add(Resource::new("v1", "ConfigMap", true, vec![]));
        let limits = RingLimits { events: 1 << 16, bytes: 1 << 30 };
        let (publisher, feed) =
            Publisher::new(Arc::new(schema), Arc::new(JsonOnly), limits, 1, Revision::ZERO);
        let config = ShardConfig { heartbeat_interval: None, ..ShardConfig::default() };
        let shard = Shard::new(0, feed, config);
        Self { publisher, shard, sockets: Sockets(vec![0; LIVE + WATCHERS]), revision: 0, now: Tick::ZERO }
    }

    fn put(&mut self, namespace: &str) {
        self.revision += 1;
        let key = Key::new(MAPS, Some(namespace), "a");
        let change = Change { key, value: Some(Bytes::from_static(b"{\"metadata\":{}}")) };
        let batch = Batch { revision: Revision::new(self.revision), changes: vec![change] };
        self.publisher.handle_batch(&batch, 0).expect("newer");
    }

    /// So many events that concern no watcher, and one for each of some watchers.
    fn busy(&mut self, count: usize, watchers: std::ops::Range<usize>) {
        (0..count).for_each(|_| self.put("busy"));
        watchers.for_each(|number| self.put(&format!("own-{number}")));
        self.publisher.publish();
    }

    /// Turns until all is dispatched to the live watchers.
    fn dispatch(&mut self) {
        while self.shard.stats().events_dispatched < self.revision {
            self.now = self.now.plus(TURN);
            self.shard.turn(&mut self.sockets, self.now);
        }
    }

    fn subscribe(&mut self, namespace: &str, start: Start) {
        let wish = Subscription {
            scope: Scope::of_namespace(MAPS, namespace),
            selector: Selector::everything(),
            encoding: Encoding::Json,
            framing: &BARE,
            start,
            bookmarks: false,
            timeout: Duration::MAX,
            jitter: 0,
            as_of_seconds: 0,
        };
        self.shard.subscribe(wish, self.now);
    }
}

#[test]
fn events_that_come_meanwhile_do_not_keep_watchers_from_becoming_live() {
    let mut world = World::new();
    (WATCHERS..WATCHERS + LIVE).for_each(|_| world.subscribe("busy", Start::Latest));
    world.busy(1, 0..0);
    for _ in 0..PAGES {
        world.busy(PAGE_SCAN, 0..WATCHERS);
        world.dispatch();
    }
    assert_eq!(world.shard.stats().live, LIVE as u64);
    (0..WATCHERS)
        .for_each(|number| world.subscribe(&format!("own-{number}"), Start::After(Revision::new(1))));
    // There are always newer events, so that only a part of the time is granted.
    let mut passes = 0;
    while world.shard.stats().live < (LIVE + WATCHERS) as u64 {
        assert!(passes < PASSES, "{:?}", world.shard.stats());
        world.busy(PAGE_SCAN, passes..passes + 1);
        world.dispatch();
        passes += 1;
    }
    while world.shard.turn(&mut world.sockets, world.now) == Turn::Again {}
    let busy = 1 + (PAGES + passes) * PAGE_SCAN;
    let own = |number| PAGES + usize::from(number < passes);
    let expected: Vec<usize> = std::iter::repeat_n(busy, LIVE).chain((0..WATCHERS).map(own)).collect();
    assert_eq!(world.sockets.0, expected);
}
