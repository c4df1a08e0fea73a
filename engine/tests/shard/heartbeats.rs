//! When watches that are sent nothing get their heartbeats: never later than promised, and together.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use revcast_engine::change::{Batch, Change};
use revcast_engine::encoding::{Encoding, JsonOnly};
use revcast_engine::framing::BARE;
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::limits::TIMER_STEPS;
use revcast_engine::resource::{Resource, Schema};
use revcast_engine::revision::Revision;
use revcast_engine::selector::Selector;
use revcast_engine::tick::Tick;
use revcast_engine::{
    End, Ended, Outlet, Publisher, RingLimits, Run, Scope, Sent, Shard, ShardConfig, Start, Subscription,
    Turn, WatcherId,
};

const INTERVAL: Duration = Duration::from_secs(16);
const STEP: Duration = Duration::from_millis(5);
/// A tenth, and a step of the grid.
const EARLY_MAX: Duration =
    INTERVAL.checked_div(10).unwrap().checked_add(INTERVAL.checked_div(TIMER_STEPS).unwrap()).unwrap();
const WATCHERS: u8 = 200;

/// Bytes of a heartbeat, on this wire.
const BEAT: usize = 3;

/// When each watch was sent something, or offered a heartbeat.
#[derive(Debug, Default)]
struct Clocked {
    now: Tick,
    sent: HashMap<WatcherId, Vec<Tick>>,
    /// The result of heartbeats that are not taken completely.
    beats: HashMap<WatcherId, Sent>,
}

impl Outlet for Clocked {
    fn send(&mut self, to: WatcherId, run: Run<'_>) -> Sent {
        self.sent.entry(to).or_default().push(self.now);
        Sent::Took(run.bytes().len())
    }

    fn heartbeat(&mut self, to: &[WatcherId], sent: &mut Vec<Sent>) {
        for id in to {
            self.sent.entry(*id).or_default().push(self.now);
            sent.push(self.beats.get(id).copied().unwrap_or(Sent::Took(BEAT)));
        }
    }

    fn end(&mut self, _: WatcherId) -> Sent {
        unreachable!("nothing ends them")
    }
}

struct World {
    publisher: Publisher,
    shard: Shard,
    outlet: Clocked,
    maps: ResourceId,
}

impl World {
    fn new() -> Self {
        let mut schema = Schema::new();
        let maps = schema.add(Resource::new("v1", "ConfigMap", true, vec![]));
        let (publisher, feed) =
            Publisher::new(Arc::new(schema), Arc::new(JsonOnly), RingLimits::default(), 1, Revision::new(5));
        let config = ShardConfig { heartbeat_interval: Some(INTERVAL), ..ShardConfig::default() };
        Self { publisher, shard: Shard::new(0, feed, config), outlet: Clocked::default(), maps }
    }

    fn open(&mut self, jitter: u8) -> WatcherId {
        let wish = Subscription {
            scope: Scope::all(self.maps),
            selector: Selector::everything(),
            encoding: Encoding::Json,
            framing: &BARE,
            start: Start::Latest,
            bookmarks: false,
            timeout: Duration::MAX,
            jitter,
            as_of_seconds: 0,
        };
        self.shard.subscribe(wish, self.outlet.now)
    }

    fn write(&mut self) {
        let value = Some(r#"{"metadata":{"name":"a","namespace":"n"}}"#.into());
        let changes = vec![Change { key: Key::new(self.maps, Some("n"), "a"), value }];
        self.publisher.handle_batch(&Batch { revision: Revision::new(6), changes }, 0).expect("newer");
        self.publisher.publish();
    }

    fn run(&mut self, time: Duration) {
        let until = self.outlet.now.plus(time);
        while self.outlet.now < until {
            self.outlet.now = self.outlet.now.plus(STEP);
            let now = self.outlet.now;
            while self.shard.turn(&mut self.outlet, now) == Turn::Again {}
        }
    }
}

#[test]
fn the_first_is_a_little_early_and_each_other_an_interval_behind_it() {
    let mut world = World::new();
    world.run(Duration::from_millis(700));
    let began = world.outlet.now;
    let ids: Vec<_> = (0..WATCHERS).map(|number| world.open(number)).collect();
    world.run(INTERVAL * 6);
    let mut firsts = BTreeSet::new();
    for id in ids {
        let sent = &world.outlet.sent[&id];
        let first = sent[0].since(began);
        assert!((INTERVAL - EARLY_MAX..=INTERVAL).contains(&first), "the first after {first:?}");
        firsts.insert(first);
        for pair in sent.windows(2) {
            assert_eq!(pair[1].since(pair[0]), INTERVAL, "of {sent:?}");
        }
        assert!((5..=6).contains(&sent.len()), "{}", sent.len());
    }
    assert!((2..=4).contains(&firsts.len()), "those who came together go in a few steps: {firsts:?}");
}

#[test]
fn an_event_puts_them_off_and_nobody_is_quiet_for_longer_than_the_interval() {
    let mut world = World::new();
    let ids: Vec<_> = (0..WATCHERS)
        .map(|number| {
            world.run(Duration::from_millis(70));
            world.open(number)
        })
        .collect();
    world.run(INTERVAL / 3);
    world.write();
    world.run(STEP);
    let event = world.outlet.now;
    world.run(INTERVAL * 3);
    for id in ids {
        let sent = &world.outlet.sent[&id];
        assert!(sent.contains(&event), "all got the event: {sent:?}");
        let behind: Vec<_> = sent.iter().copied().filter(|at| *at >= event).collect();
        let first = behind[1].since(behind[0]);
        assert!((INTERVAL - EARLY_MAX..=INTERVAL).contains(&first), "{first:?} after the event");
        for pair in behind[1..].windows(2) {
            assert_eq!(pair[1].since(pair[0]), INTERVAL, "of {sent:?}");
        }
    }
}

#[test]
fn only_heartbeats_that_are_on_their_way_count_and_nothing_is_owed_of_the_others() {
    let mut world = World::new();
    let ids: Vec<_> = (0..4).map(|_| world.open(0)).collect();
    // One takes it, one takes a part, one has no room, and one peer has disconnected.
    for (id, what) in ids[1..].iter().zip([Sent::Took(1), Sent::Took(0), Sent::Gone]) {
        world.outlet.beats.insert(*id, what);
    }
    world.run(INTERVAL + STEP);
    let stats = world.shard.stats();
    assert_eq!((stats.heartbeats_sent, stats.bytes_sent, stats.blocked), (2, BEAT as u64 + 1, 0));
    assert_eq!((stats.watchers, stats.live), (3, 3), "all others go on as before");
    let ended: Vec<_> = std::iter::from_fn(|| world.shard.poll_ended()).collect();
    assert_eq!(ended, [Ended { id: ids[3], clean: false, why: End::Gone }]);
    // The next one is an interval later also for the one without room, and events reach it as the others.
    world.run(INTERVAL);
    assert_eq!(world.shard.stats().heartbeats_sent, 4);
    world.write();
    world.run(STEP);
    let event = world.outlet.now;
    for id in &ids[..3] {
        let sent = &world.outlet.sent[id];
        assert_eq!((sent.len(), sent.last()), (3, Some(&event)), "{sent:?}");
        assert_eq!(sent[1].since(sent[0]), INTERVAL);
    }
    assert_eq!(world.shard.stats().events_sent, 3);
}
