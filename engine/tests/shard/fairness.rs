//! A shard that always has newer events: watchers that began to lag once must progress as the others do, and get every
//! byte once, wherever they are in a page that others share.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use revcast_engine::change::{Batch, Change};
use revcast_engine::encoding::Encoding;
use revcast_engine::framing::{BARE, Framing};
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::limits::ROUND_REQUIREMENTS;
use revcast_engine::resource::{Resource, Schema};
use revcast_engine::revision::Revision;
use revcast_engine::selector::{FieldSelector, LabelSelector, Selector};
use revcast_engine::tick::Tick;
use revcast_engine::{
    Outlet, Publisher, RingLimits, Run, Scope, Sent, Shard, ShardConfig, Start, Subscription, WatcherId,
};

use crate::counted::{COUNTED, Counted};

const WATCHERS: usize = 200;
/// The duration of one send: a round to all takes 200 ms.
const SEND: Duration = Duration::from_millis(1);

/// Keeps what each watcher took, and lets time pass. Nine of ten are full once, each at another byte.
#[derive(Debug)]
struct Sockets {
    taken: Vec<Vec<u8>>,
    now: Tick,
    filling: bool,
    stuck: Vec<WatcherId>,
}

impl Outlet for Sockets {
    fn send(&mut self, to: WatcherId, run: Run<'_>) -> Sent {
        let bytes = run.bytes();
        self.now = self.now.plus(SEND);
        let slot = to.slot();
        let full = self.filling && !slot.is_multiple_of(10);
        let taken = if full { slot * 37 % bytes.len() } else { bytes.len() };
        self.taken[slot].extend_from_slice(&bytes[..taken]);
        if full {
            self.stuck.push(to);
        }
        Sent::Took(taken)
    }

    fn heartbeat(&mut self, _: &[WatcherId], _: &mut Vec<Sent>) {
        unreachable!("they are off")
    }

    fn end(&mut self, _: WatcherId) -> Sent {
        unreachable!("nothing ends them")
    }
}

/// Of the watcher in a slot.
fn framing(slot: usize) -> &'static Framing {
    if slot.is_multiple_of(2) { &COUNTED } else { &BARE }
}

struct World {
    publisher: Publisher,
    shard: Shard,
    sockets: Sockets,
    configs: ResourceId,
    revision: u64,
}

impl World {
    fn new() -> Self {
        let mut schema = Schema::new();
        let configs = schema.add(Resource::new("v1", "ConfigMap", true, Vec::new()));
        let (publisher, feed) = Publisher::new(
            Arc::new(schema),
            Arc::new(Counted),
            RingLimits { events: 1 << 12, ..RingLimits::default() },
            1,
            Revision::ZERO,
        );
        let shard = Shard::new(0, feed, ShardConfig { heartbeat_interval: None, ..ShardConfig::default() });
        let sockets = Sockets { taken: Vec::new(), now: Tick::ZERO, filling: false, stuck: Vec::new() };
        let mut world = Self { publisher, shard, sockets, configs, revision: 0 };
        for number in 0..WATCHERS {
            // Half of them in the framing that messages are made in, in one class; half in another.
            world.subscribe(Selector::default(), framing(number));
        }
        world
    }

    /// One more watcher, from now on.
    fn subscribe(&mut self, selector: Selector, framing: &'static Framing) {
        let wish = Subscription {
            scope: Scope::all(self.configs),
            selector,
            encoding: Encoding::Json,
            framing,
            start: Start::Latest,
            bookmarks: false,
            timeout: Duration::MAX,
            jitter: 0,
            as_of_seconds: 0,
        };
        let id = self.shard.subscribe(wish, Tick::ZERO);
        let taken = &mut self.sockets.taken;
        taken.resize(taken.len().max(id.slot() + 1), Vec::new());
    }

    fn put(&mut self, count: u64) {
        for _ in 0..count {
            self.revision += 1;
            let text = format!(
                r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"a","namespace":"n"}},"data":{{"n":"{}"}}}}"#,
                self.revision
            );
            let key = Key::new(self.configs, Some("n"), "a");
            let changes = vec![Change { key, value: Some(Bytes::from(text)) }];
            let batch = Batch { revision: Revision::new(self.revision), changes };
            self.publisher.handle_batch(&batch, 0).expect("newer");
        }
        self.publisher.publish();
    }

    /// Turns until this many rounds are over, with newer events all the time.
    fn rounds(&mut self, count: u64) {
        let until = self.shard.stats().rounds + count;
        while self.shard.stats().rounds < until {
            if self.shard.stats().events_dispatched == self.revision {
                self.put(3);
            }
            let now = self.sockets.now;
            self.shard.turn(&mut self.sockets, now);
        }
    }
}

#[test]
fn those_behind_in_a_busy_shard_become_live_again() {
    let mut world = World::new();
    while world.shard.stats().live < WATCHERS as u64 {
        world.shard.turn(&mut world.sockets, Tick::ZERO);
    }
    world.rounds(2);
    // The budget is used up: everything that follows is the fair share.
    world.sockets.filling = true;
    world.rounds(2);
    world.sockets.filling = false;
    let stuck = std::mem::take(&mut world.sockets.stuck);
    assert_eq!(stuck.len(), WATCHERS * 9 / 10);
    stuck.iter().for_each(|id| world.shard.writable(*id));
    world.rounds(8);
    let live = world.shard.stats().live;
    assert!(live >= WATCHERS as u64 * 9 / 10, "{live} of {WATCHERS} after eight rounds");
    // Nothing newer: each ends where the others do.
    for _ in 0..100_000 {
        let now = world.sockets.now;
        world.shard.turn(&mut world.sockets, now);
    }
    assert_eq!(world.shard.stats().live, WATCHERS as u64);
    let firsts = [&world.sockets.taken[0], &world.sockets.taken[1]];
    let mut counted = Vec::new();
    for line in firsts[1].split_inclusive(|byte| *byte == b'\n') {
        COUNTED.push(&mut counted, line);
    }
    assert!(counted == *firsts[0], "the same messages in both framings");
    for (slot, taken) in world.sockets.taken.iter().enumerate() {
        let first = firsts[slot % 2];
        assert_eq!(taken.iter().filter(|byte| **byte == b'\n').count() as u64, world.revision);
        assert!(taken == first, "watcher {slot} got other bytes than the first in its framing");
    }
}

#[test]
fn a_round_ends_early_where_thousands_of_selectors_are_asked() {
    let mut world = World::new();
    let long = |number: usize| (0..20).map(|n| format!("!k{number}-{n}")).collect::<Vec<_>>().join(",");
    let labels: Vec<String> = (0..3_000).map(long).collect();
    for text in &labels {
        let asked = LabelSelector::parse(text).expect("a selector");
        world.subscribe(Selector::new(asked, FieldSelector::default()), &COUNTED);
    }
    while world.shard.stats().live < (WATCHERS + labels.len()) as u64 {
        world.shard.turn(&mut world.sockets, Tick::ZERO);
    }
    let before = world.shard.stats();
    world.put(20);
    while world.shard.stats().rounds == before.rounds {
        let now = world.sockets.now;
        world.shard.turn(&mut world.sockets, now);
    }
    // Each asks 3,000 classes with 20 requirements, and two with none.
    let taken = world.shard.stats().events_dispatched - before.events_dispatched;
    assert_eq!(taken, (ROUND_REQUIREMENTS as u64).div_ceil(labels.len() as u64 * 21 + 2));
}
