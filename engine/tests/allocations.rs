//! Allocations per delivery: none, whatever the watchers' interests, the number of events per round, and full sockets.
//!
//! A real publisher feeds a real shard with 10,000 watchers. Only the shard's turns are counted: a batch is decoded
//! once, whatever the watches. What may allocate is named with its bound: a class's first run, a class's bookmark, a
//! message of another kind.

#[path = "framings/counted.rs"]
mod counted;
#[path = "allocations/counting.rs"]
mod counting;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use counted::{COUNTED, Counted};
use counting::allocations;
use revcast_engine::change::{Batch, Change};
use revcast_engine::encoding::Encoding;
use revcast_engine::framing::{BARE, Framing};
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::limits::HEARTBEAT_INTERVAL_DEFAULT;
use revcast_engine::resource::{Field, Resource, Schema};
use revcast_engine::revision::Revision;
use revcast_engine::selector::{FieldSelector, LabelSelector, Selector};
use revcast_engine::tick::Tick;
use revcast_engine::{
    Feed, Outlet, Publisher, RingLimits, Run, Scope, Sent, Shard, ShardConfig, Start, Subscription, Turn,
    WatcherId,
};

const WATCHERS: usize = 10_000;
/// After this many rounds every buffer has its final size.
const WARM_UP: u64 = 20;
const ROUNDS: u64 = 200;
/// The allocations of one bookmark: its class's key, its bytes as they grow, the shared reference count.
const A_BOOKMARK: u64 = 6;
/// The allocations of one message: the object's text, its list entry, the message, its shrinking, the shared reference
/// count.
const A_MESSAGE: u64 = 5;

fn pod() -> Resource {
    Resource::new("v1", "Pod", true, vec![Field::at("spec.nodeName")])
}

/// About 1 KiB.
fn value(name: &str, node: &str) -> Bytes {
    let text = format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"n","labels":{{"app":"web"}}}},"spec":{{"nodeName":"{node}","padding":"{}"}}}}"#,
        "x".repeat(900)
    );
    text.into()
}

fn on_node(number: usize) -> Selector {
    let text = format!("spec.nodeName=node-{number}");
    Selector::new(LabelSelector::default(), FieldSelector::parse(&text, &pod()).expect("valid"))
}

/// All match every pod of these tests; as many classes as numbers.
fn any_pod(number: usize) -> Selector {
    let text = format!("tier notin (n{number})");
    Selector::new(LabelSelector::parse(&text).expect("valid"), FieldSelector::default())
}

/// Takes everything, but only half of an offer for the slots whose turn it is to be full.
#[derive(Debug)]
struct Sink {
    sends: u64,
    /// The one of every ten slots that is full, while there is one.
    full: Option<usize>,
    stuck: Vec<WatcherId>,
}

impl Outlet for Sink {
    fn send(&mut self, to: WatcherId, run: Run<'_>) -> Sent {
        let bytes = run.bytes();
        self.sends += 1;
        if self.full.is_some_and(|full| to.slot() % 10 == full) {
            self.stuck.push(to);
            return Sent::Took(bytes.len() / 2);
        }
        Sent::Took(bytes.len())
    }

    fn heartbeat(&mut self, to: &[WatcherId], sent: &mut Vec<Sent>) {
        sent.extend(to.iter().map(|_| Sent::Took(1)));
    }

    fn end(&mut self, _: WatcherId) -> Sent {
        unreachable!("nothing ends them")
    }
}

struct World {
    publisher: Publisher,
    feed: Feed,
    shard: Shard,
    sink: Sink,
    pods: ResourceId,
    revision: u64,
    now: Tick,
}

impl World {
    /// A shard with one live watcher for each selector.
    fn new(selectors: impl IntoIterator<Item = Selector>, bookmarks: bool) -> Self {
        Self::framed(selectors, &COUNTED, bookmarks)
    }

    /// The same in any framing; messages are made in [`COUNTED`].
    fn framed(
        selectors: impl IntoIterator<Item = Selector>,
        framing: &'static Framing,
        bookmarks: bool,
    ) -> Self {
        let mut schema = Schema::new();
        let pods = schema.add(pod());
        let limits = RingLimits { events: 1 << 12, ..RingLimits::default() };
        let (publisher, feed) =
            Publisher::new(Arc::new(schema), Arc::new(Counted), limits, 1, Revision::ZERO);
        let shard = Shard::new(0, feed.clone(), ShardConfig::default());
        let sink = Sink { sends: 0, full: None, stuck: Vec::with_capacity(WATCHERS) };
        let mut world = Self { publisher, feed, shard, sink, pods, revision: 0, now: Tick::ZERO };
        let mut watchers = 0;
        for (selector, jitter) in selectors.into_iter().zip((0..=u8::MAX).cycle()) {
            let wish = Subscription {
                scope: Scope::all(pods),
                selector,
                encoding: Encoding::Json,
                framing,
                start: Start::Latest,
                bookmarks,
                timeout: Duration::MAX,
                jitter,
                as_of_seconds: 0,
            };
            world.shard.subscribe(wish, world.now);
            watchers += 1;
        }
        world.turn_all();
        assert_eq!(world.shard.stats().live, watchers);
        world
    }

    fn put(&mut self, name: &str, node: &str) {
        self.revision += 1;
        let changes =
            vec![Change { key: Key::new(self.pods, Some("n"), name), value: Some(value(name, node)) }];
        let batch = Batch { revision: Revision::new(self.revision), changes };
        self.publisher.handle_batch(&batch, 0).expect("newer");
    }

    fn turn_all(&mut self) {
        while self.shard.turn(&mut self.sink, self.now) == Turn::Again {}
    }

    /// The allocations of the turns that brought `events` changes of a pod on `node` to all watchers.
    fn round(&mut self, name: &str, node: &str, events: u64) -> u64 {
        (0..events).for_each(|_| self.put(name, node));
        self.publisher.publish();
        allocations(|| self.turn_all())
    }

    /// The same for `rounds` rounds; the first [`WARM_UP`] are not counted. Asserts that each watcher got everything,
    /// with one send per round.
    /// one send a round.
    fn rounds(&mut self, rounds: u64, events: u64) -> u64 {
        let watchers = self.shard.stats().live;
        for _ in 0..WARM_UP {
            self.round("p", "node", events);
        }
        let (sent, sends) = (self.shard.stats().events_sent, self.sink.sends);
        let asked = (0..rounds).map(|_| self.round("p", "node", events)).sum();
        assert_eq!(self.shard.stats().events_sent - sent, rounds * events * watchers);
        assert_eq!(self.sink.sends - sends, rounds * watchers);
        asked
    }
}

#[test]
fn a_delivery_allocates_nothing() {
    for classes in [1, 100, WATCHERS] {
        for (events, framing) in [(1, &COUNTED), (16, &COUNTED), (1, &BARE), (16, &BARE)] {
            let selectors = (0..WATCHERS).map(|number| any_pod(number % classes));
            let mut world = World::framed(selectors, framing, false);
            assert_eq!(world.shard.stats().classes, classes as u64);
            let rounds = if classes == WATCHERS { ROUNDS / 10 } else { ROUNDS };
            let asked = world.rounds(rounds, events);
            assert_eq!(asked, 0, "{classes} classes, {events} events a round, framing {framing:?}");
        }
    }
}

/// 10,000 selectors, of which each event matches one. A class allocates its run once.
#[test]
fn a_match_among_10_000_selectors_allocates_nothing() {
    for events in [1, 4] {
        let mut world = World::new((0..WATCHERS).map(on_node), false);
        let mut asked = [0; 2];
        for asked in &mut asked {
            for number in 0..WATCHERS {
                *asked += world.round(&format!("p-{number}"), &format!("node-{number}"), events);
            }
        }
        assert_eq!(world.shard.stats().events_sent, 2 * events * WATCHERS as u64);
        assert!(asked[0] <= WATCHERS as u64 + 32, "{} for the first runs of {WATCHERS} classes", asked[0]);
        assert_eq!(asked[1], 0, "{events} events a round");
    }
}

/// Pods that move from node to node are ADDED here and DELETED there: messages that the shard makes, once per event.
#[test]
fn messages_of_another_kind_allocate_once_an_event() {
    let mut world = World::new((0..WATCHERS).map(|number| on_node(number % 10)), false);
    let mut asked = 0;
    let (mut sent, mut made) = (0, 0);
    for round in 0..WARM_UP + ROUNDS {
        if round == WARM_UP {
            (asked, sent) = (0, world.shard.stats().events_sent);
        }
        world.put("p", &format!("node-{}", round % 10));
        world.publisher.publish();
        let before = world.feed.messages_made();
        asked += allocations(|| world.turn_all());
        if round >= WARM_UP {
            made += world.feed.messages_made() - before;
        }
    }
    assert_eq!(made, 2 * ROUNDS);
    assert_eq!(world.shard.stats().events_sent - sent, 2 * ROUNDS * WATCHERS as u64 / 10);
    assert!(asked <= A_MESSAGE * made, "{asked} for {made} messages");
}

#[test]
fn a_heartbeat_allocates_nothing() {
    let mut world = World::new((0..WATCHERS).map(|number| any_pod(number % 100)), false);
    for round in 0..WARM_UP + ROUNDS / 10 {
        let before = world.shard.stats().heartbeats_sent;
        world.now = world.now.plus(HEARTBEAT_INTERVAL_DEFAULT);
        let asked = allocations(|| world.turn_all());
        let beats = world.shard.stats().heartbeats_sent - before;
        assert!(beats >= WATCHERS as u64, "{beats} heartbeats");
        assert!(asked == 0 || round < WARM_UP, "{asked} for {beats} heartbeats");
    }
}

#[test]
fn a_bookmark_allocates_once_a_class() {
    for classes in [1, 100] {
        let mut world = World::new((0..WATCHERS).map(|number| any_pod(number % classes)), true);
        for round in 0..WARM_UP + ROUNDS / 10 {
            world.round("p", "node", 1);
            let before = world.shard.stats().bookmarks_sent;
            world.now = world.now.plus(Duration::from_mins(1));
            let asked = allocations(|| world.turn_all());
            let told = world.shard.stats().bookmarks_sent - before;
            assert!(told >= WATCHERS as u64, "{told} bookmarks");
            let bound = A_BOOKMARK * classes as u64;
            assert!(asked <= bound || round < WARM_UP, "{asked} for {told} bookmarks of {classes} classes");
        }
    }
}

/// One in ten is full in each round, a different one each time. Then it takes pages, made again from the ring.
#[test]
fn being_full_and_catching_up_allocates_nothing() {
    for (events, framing) in [(1, &COUNTED), (16, &COUNTED), (1, &BARE), (16, &BARE)] {
        let selectors = (0..WATCHERS).map(|number| any_pod(number % 100));
        let mut world = World::framed(selectors, framing, false);
        let mut asked = 0;
        for round in 0..WARM_UP + ROUNDS / 4 {
            if round == WARM_UP {
                asked = 0;
            }
            world.sink.full = Some(usize::try_from(round % 10).expect("small"));
            asked += world.round("p", "node", events);
            assert_eq!(world.sink.stuck.len(), WATCHERS / 10);
            assert_eq!(world.shard.stats().live, (WATCHERS - WATCHERS / 10) as u64);
            // What they miss meanwhile is added.
            asked += world.round("p", "node", events);
            world.sink.full = None;
            asked += allocations(|| {
                for &id in &world.sink.stuck {
                    world.shard.writable(id);
                }
            });
            world.sink.stuck.clear();
            asked += allocations(|| world.turn_all());
            assert_eq!(world.shard.stats().live, WATCHERS as u64);
        }
        let sent = (WARM_UP + ROUNDS / 4) * 2 * events * WATCHERS as u64;
        assert_eq!(world.shard.stats().events_sent, sent, "no watcher missed anything");
        assert_eq!(asked, 0, "{events} events a round, framing {framing:?}");
    }
}
