//! A shard's own measurements: durations of rounds, lag of the slowest watcher, a count by phase, and why watches ended.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use revcast_engine::change::{Batch, Change};
use revcast_engine::encoding::{Encoding, JsonOnly};
use revcast_engine::framing::BARE;
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::resource::{Resource, Schema};
use revcast_engine::revision::Revision;
use revcast_engine::selector::Selector;
use revcast_engine::tick::Tick;
use revcast_engine::{
    Census, End, Feed, Lag, Outlet, PhaseName, Publisher, RingLimits, Run, Scope, Sent, Shard, ShardConfig,
    Start, Subscription, Turn, WatcherId,
};

/// Takes everything, except nothing for one watcher, and nothing ever again for another.
#[derive(Debug, Default)]
struct Sink {
    full: Option<WatcherId>,
    gone: Option<WatcherId>,
}

impl Sink {
    fn take(&self, to: WatcherId, bytes: usize) -> Sent {
        if self.gone == Some(to) {
            Sent::Gone
        } else if self.full == Some(to) {
            Sent::Took(0)
        } else {
            Sent::Took(bytes)
        }
    }
}

impl Outlet for Sink {
    fn send(&mut self, to: WatcherId, run: Run<'_>) -> Sent {
        self.take(to, run.bytes().len())
    }

    fn heartbeat(&mut self, to: &[WatcherId], sent: &mut Vec<Sent>) {
        sent.extend(to.iter().map(|id| self.take(*id, 1)));
    }

    fn end(&mut self, to: WatcherId) -> Sent {
        assert_ne!(self.full, Some(to), "it waits for its socket");
        self.take(to, 1)
    }
}

struct World {
    publisher: Publisher,
    feed: Feed,
    shard: Shard,
    sink: Sink,
    maps: ResourceId,
    revision: u64,
    now: Tick,
}

impl World {
    fn new(ring: usize) -> Self {
        let mut schema = Schema::new();
        let maps = schema.add(Resource::new("v1", "ConfigMap", true, vec![]));
        let limits = RingLimits { events: ring, ..RingLimits::default() };
        let (publisher, feed) =
            Publisher::with_small_ring(Arc::new(schema), Arc::new(JsonOnly), limits, 1, Revision::ZERO);
        let shard = Shard::new(0, feed.clone(), ShardConfig::default());
        // Changes may be older than the first watch.
        let now = Tick::ZERO.plus(Duration::from_secs(1));
        Self { publisher, feed, shard, sink: Sink::default(), maps, revision: 0, now }
    }

    fn watch(&mut self, start: Start, lives: Duration) -> WatcherId {
        let wish = Subscription {
            scope: Scope::all(self.maps),
            selector: Selector::default(),
            encoding: Encoding::Json,
            framing: &BARE,
            start,
            bookmarks: false,
            timeout: lives,
            jitter: 0,
            as_of_seconds: 0,
        };
        let id = self.shard.subscribe(wish, self.now);
        self.turn_all();
        id
    }

    /// One change, which the source had `before` it was published.
    fn put(&mut self, value: &'static str, before: Duration) {
        self.revision += 1;
        let key = Key::new(self.maps, Some("n"), "m");
        let changes = vec![Change { key, value: Some(Bytes::from_static(value.as_bytes())) }];
        self.publisher.set_arrival(self.now.minus(before));
        let batch = Batch { revision: Revision::new(self.revision), changes };
        self.publisher.handle_batch(&batch, 0).expect("newer");
        self.publisher.publish();
    }

    /// Turns until there is nothing to do; each turn takes a millisecond.
    fn turn_all(&mut self) {
        while self.shard.turn(&mut self.sink, self.now) == Turn::Again {
            self.now = self.now.plus(Duration::from_millis(1));
        }
    }

    fn ends(&mut self) -> Vec<(WatcherId, End)> {
        std::iter::from_fn(|| self.shard.poll_ended()).map(|ended| (ended.id, ended.why)).collect()
    }
}

const GOOD: &str = r#"{"kind":"ConfigMap","metadata":{"name":"m","namespace":"n"}}"#;
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_round_is_measured_once_however_many_watch() {
    let mut world = World::new(64);
    world.put(GOOD, Duration::ZERO);
    world.turn_all();
    assert_eq!(world.shard.timings().first_write.count(), 0, "no watcher matched that round");
    for _ in 0..200 {
        world.watch(Start::Latest, HOUR);
    }
    world.put(GOOD, Duration::from_millis(20));
    world.turn_all();
    let timings = world.shard.timings();
    assert_eq!((timings.first_write.count(), timings.last_write.count()), (1, 1));
    // The round begins in one turn, 64 of the 200 are served in each of the four that follow.
    assert_eq!(timings.first_write.sum_ns(), 22_000_000);
    assert_eq!(timings.last_write.sum_ns(), 25_000_000);
    world.put(GOOD, Duration::ZERO);
    world.turn_all();
    assert_eq!(world.shard.timings().last_write.count(), 2);
}

#[test]
fn the_slowest_is_known() {
    let mut world = World::new(64);
    assert_eq!(world.shard.lag(world.now), Lag::default());
    let slow = world.watch(Start::Latest, HOUR);
    world.watch(Start::Latest, HOUR);
    world.sink.full = Some(slow);
    for _ in 0..3 {
        world.put(GOOD, Duration::ZERO);
        world.turn_all();
    }
    let later = world.now.plus(Duration::from_secs(2));
    let lag = world.shard.lag(later);
    assert_eq!(lag.events, 3);
    assert!((2_000..2_020).contains(&lag.time.as_millis()), "{lag:?}");
    world.sink.full = None;
    world.shard.writable(slow);
    world.turn_all();
    assert_eq!(world.shard.lag(later), Lag::default());
    world.put(GOOD, Duration::ZERO);
    assert_eq!(world.shard.lag(world.now).events, 1, "a shard that has not turned lags by all");
}

#[test]
fn watches_are_counted_in_steps() {
    let mut world = World::new(64);
    for _ in 0..5 {
        world.watch(Start::Latest, HOUR);
    }
    let (slow, slower) = (world.watch(Start::Latest, HOUR), world.watch(Start::Latest, HOUR));
    world.watch(Start::After(Revision::new(1_000)), HOUR);
    world.turn_all();
    let count = |shard: &Shard, looks: usize| {
        let mut census = Census::default();
        let steps = 1 + std::iter::repeat_with(|| shard.count(&mut census, looks))
            .position(|is_over| is_over)
            .expect("it ends");
        (census, steps)
    };
    let (census, _) = count(&world.shard, 8);
    assert!(world.shard.slowest(&census, world.now).is_empty(), "those that are live or wait do not lag");
    for full in [slower, slow] {
        world.sink.full = Some(full);
        world.put(GOOD, Duration::ZERO);
        world.turn_all();
    }
    let (census, steps) = count(&world.shard, 3);
    assert_eq!(steps, 3, "eight slots, three at once");
    let counted: Vec<_> = census.resources().collect();
    let [(resource, counts)] = counted[..] else { panic!("{counted:?}") };
    assert_eq!((resource, counts.total(), census.ranges().total()), (world.maps, 8, 0));
    assert_eq!(PhaseName::ALL.map(|phase| counts.of(phase)), [0, 2, 5, 1, 0]);
    let slowest = world.shard.slowest(&census, world.now.plus(Duration::from_secs(2)));
    assert_eq!(slowest.iter().map(|it| (it.id, it.events)).collect::<Vec<_>>(), [(slower, 2), (slow, 1)]);
    let first = &slowest[0];
    assert!(first.is_blocked && first.phase == PhaseName::CatchingUp && first.time >= Duration::from_secs(2));
    assert_eq!((first.resource, first.events_left, slowest[1].events_left), (Some(world.maps), 0, 1));
    world.shard.forget(slower);
    assert_eq!(world.shard.slowest(&census, world.now).len(), 1, "one that ended since is left out");
}

#[test]
fn an_end_says_why() {
    let mut world = World::new(4);
    let deadline = world.watch(Start::Latest, Duration::from_secs(1));
    world.now = world.now.plus(Duration::from_secs(2));
    world.turn_all();
    assert_eq!(world.ends(), [(deadline, End::Deadline)]);

    let lapped = world.watch(Start::Latest, HOUR);
    let gone = world.watch(Start::Latest, HOUR);
    (world.sink.full, world.sink.gone) = (Some(lapped), Some(gone));
    for _ in 0..8 {
        world.put(GOOD, Duration::ZERO);
        world.turn_all();
        // It was live a moment ago: the window waits for it, but not for ever.
        world.now = world.now.plus(Duration::from_millis(200));
    }
    assert_eq!(world.ends(), [(gone, End::Gone)]);
    world.sink = Sink::default();
    world.shard.writable(lapped);
    world.turn_all();
    assert_eq!(world.ends(), [(lapped, End::Lapped)]);
    let late = world.watch(Start::After(Revision::new(1)), HOUR);
    assert_eq!(world.ends(), [(late, End::Lapped)], "it never began");

    let refused = world.watch(Start::Latest, HOUR);
    world.put("{", Duration::ZERO);
    world.turn_all();
    assert_eq!(world.ends(), [(refused, End::Refused)]);
    world.put(GOOD, Duration::ZERO);
    world.turn_all();

    let hung_up = world.watch(Start::Latest, HOUR);
    assert_eq!((world.shard.forget(hung_up), world.shard.forget(hung_up)), (Some(End::Gone), None));
    let drained = world.watch(Start::Latest, HOUR);
    world.shard.drain(Duration::ZERO, world.now);
    world.turn_all();
    assert_eq!(world.ends(), [(drained, End::Drained)]);
    let abandoned = world.watch(Start::Latest, HOUR);
    world.shard.abandon(world.now);
    world.turn_all();
    assert_eq!(world.ends(), [(abandoned, End::Abandoned)]);
}

#[test]
fn the_window_and_the_index_are_weighed() {
    let mut world = World::new(4);
    assert_eq!((world.feed.oldest(), world.feed.snapshot().bytes()), (None, 0));
    for seconds in 1..=6 {
        world.now = Tick::ZERO.plus(Duration::from_secs(seconds));
        world.put(GOOD, Duration::ZERO);
        world.turn_all();
    }
    let (revision, arrived) = world.feed.oldest().expect("four events");
    assert_eq!((revision, arrived.as_nanos() / 1_000_000_000), (Revision::new(3), 3));
    let bytes = world.feed.snapshot().bytes();
    assert!((GOOD.len() as u64..4 * GOOD.len() as u64).contains(&bytes), "one object: {bytes}");
    world.revision += 1;
    let changes = vec![Change { key: Key::new(world.maps, Some("n"), "m"), value: None }];
    let batch = Batch { revision: Revision::new(world.revision), changes };
    world.publisher.handle_batch(&batch, 0).expect("newer");
    world.publisher.publish();
    assert_eq!(world.feed.snapshot().bytes(), 0);
    let memory = world.shard.memory();
    assert!(memory.watchers == 0 && memory.pages < 1 << 20, "{memory:?}");
}
