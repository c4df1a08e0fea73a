//! A shard that closes, in simulated time: ends are spread evenly over the given time, each after a bookmark if the
//! watch asked for bookmarks; a watch that begins meanwhile ends at once.

use std::sync::Arc;
use std::time::Duration;

use revcast_engine::change::{Batch, Change};
use revcast_engine::encoding::{Encode, Encoding, View};
use revcast_engine::framing::BARE;
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::resource::{Resource, Schema};
use revcast_engine::revision::Revision;
use revcast_engine::selector::Selector;
use revcast_engine::tick::Tick;
use revcast_engine::{
    End, Outlet, Publisher, RingLimits, Run, Scope, Sent, Shard, ShardConfig, Start, Subscription, Turn,
    WatcherId,
};

const SECOND: Duration = Duration::from_secs(1);

/// Supports JSON only.
#[derive(Debug)]
struct Plain;

impl Encode for Plain {
    fn event(&self, _: &mut Vec<u8>, _: View<'_>) -> Result<(), String> {
        unreachable!("no watch has another encoding")
    }

    fn first_differs(&self, _: u32) -> bool {
        false
    }
}

/// The end of a stream.
const END: &[u8] = b"the end";

/// Takes everything, and remembers it.
#[derive(Debug, Default)]
struct Clients(Vec<(WatcherId, Vec<u8>)>);

impl Outlet for Clients {
    fn send(&mut self, to: WatcherId, run: Run<'_>) -> Sent {
        self.0.push((to, run.bytes().to_vec()));
        Sent::Took(run.bytes().len())
    }

    fn heartbeat(&mut self, _: &[WatcherId], _: &mut Vec<Sent>) {
        unreachable!("they are off")
    }

    fn end(&mut self, to: WatcherId) -> Sent {
        self.0.push((to, END.to_vec()));
        Sent::Took(END.len())
    }
}

struct Stand {
    publisher: Publisher,
    shard: Shard,
    resource: ResourceId,
    clients: Clients,
    now: Tick,
    /// When each watch ended.
    ends: Vec<Tick>,
}

impl Stand {
    fn new(watchers: usize) -> Self {
        let mut schema = Schema::new();
        let resource = schema.add(Resource::new("v1", "ConfigMap", true, vec![]));
        let (publisher, feed) =
            Publisher::new(Arc::new(schema), Arc::new(Plain), RingLimits::default(), 1, Revision::new(5));
        let config = ShardConfig {
            bookmark_interval: SECOND * 3600,
            heartbeat_interval: None,
            ..ShardConfig::default()
        };
        let shard = Shard::new(0, feed, config);
        let now = Tick::from_nanos(1_000_000_007);
        let mut stand =
            Self { publisher, shard, resource, clients: Clients::default(), now, ends: Vec::new() };
        for number in 0..watchers {
            stand.subscribe(number % 2 == 0);
        }
        stand.write(6);
        stand.settle();
        stand.clients.0.clear();
        stand
    }

    fn subscribe(&mut self, bookmarks: bool) -> WatcherId {
        self.shard.subscribe(
            Subscription {
                scope: Scope::of_namespace(self.resource, "n"),
                selector: Selector::everything(),
                encoding: Encoding::Json,
                framing: &BARE,
                start: Start::Latest,
                bookmarks,
                timeout: Duration::MAX,
                jitter: 0,
                as_of_seconds: 0,
            },
            self.now,
        )
    }

    fn write(&mut self, revision: u64) {
        let value = Some(r#"{"metadata":{"name":"a","namespace":"n"}}"#.into());
        let changes = vec![Change { key: Key::new(self.resource, Some("n"), "a"), value }];
        self.publisher.handle_batch(&Batch { revision: Revision::new(revision), changes }, 0).expect("newer");
        self.publisher.publish();
    }

    /// Turns until there is nothing to do now; when there is something next.
    fn settle(&mut self) -> Option<Tick> {
        loop {
            let turn = self.shard.turn(&mut self.clients, self.now);
            while let Some(ended) = self.shard.poll_ended() {
                assert!(ended.clean);
                self.ends.push(self.now);
            }
            if let Turn::Sleep { until } = turn {
                return until.filter(|until| *until < Tick::from_nanos(u64::MAX));
            }
        }
    }

    /// Lets time pass from one timer to the next, as a driver would, up to `end`.
    fn run_until(&mut self, end: Tick) {
        while let Some(next) = self.settle().filter(|next| *next <= end) {
            assert!(next > self.now, "it sleeps for something that is due");
            self.now = next;
        }
        self.now = end;
        self.settle();
    }

    fn watchers(&self) -> u64 {
        self.shard.stats().watchers
    }
}

#[test]
fn ends_are_spread_evenly() {
    for watchers in [1_usize, 2, 10, 999, 1000] {
        let mut stand = Stand::new(watchers);
        let began = stand.now;
        stand.shard.drain(SECOND * 8, began);
        assert!(stand.shard.has_work(), "the first is told at once");
        stand.run_until(began.plus(SECOND * 8));
        assert_eq!((stand.ends.len(), stand.watchers()), (watchers, 0));
        assert_eq!(stand.ends[0], began);
        let mut tenths = [0_usize; 10];
        for end in &stand.ends {
            let tenth = end.since(began).as_nanos() * 10 / (SECOND * 8).as_nanos();
            tenths[usize::try_from(tenth).expect("ten")] += 1;
        }
        let (least, most) = (watchers / 10, watchers.div_ceil(10));
        assert!(tenths.iter().all(|count| (least..=most).contains(count)), "{watchers}: {tenths:?}");
    }
}

#[test]
fn each_is_told_what_it_takes() {
    let mut stand = Stand::new(4);
    stand.write(7);
    stand.settle();
    stand.clients.0.clear();
    let began = stand.now;
    stand.shard.drain(SECOND * 4, began);
    // What is written meanwhile reaches the remaining watches, before their end.
    stand.run_until(began.plus(SECOND * 3 / 2));
    assert_eq!(stand.ends.len(), 2);
    stand.write(8);
    stand.run_until(began.plus(SECOND * 4));
    assert_eq!(stand.watchers(), 0);
    let mut told: Vec<(WatcherId, String)> = Vec::new();
    for (id, bytes) in &stand.clients.0 {
        let text = String::from_utf8_lossy(bytes);
        match told.iter_mut().find(|(known, _)| known == id) {
            Some((_, said)) => said.push_str(&text),
            None => told.push((*id, text.into_owned())),
        }
    }
    assert_eq!(told.len(), 4);
    told.sort_by_key(|(id, _)| id.slot());
    for (number, (_, said)) in told.iter().enumerate() {
        assert!(said.ends_with("the end") && said.matches("the end").count() == 1, "{said}");
        assert_eq!(said.contains("BOOKMARK"), number % 2 == 0, "{said}");
        let last = if number < 2 { r#""resourceVersion":"7""# } else { r#""resourceVersion":"8""# };
        assert_eq!(said.contains(last), number % 2 == 0 || number > 1, "{number}: {said}");
        assert_eq!(said.contains("MODIFIED"), number > 1, "{number}: {said}");
    }
}

#[test]
fn a_time_of_nothing_is_at_once_and_hurry_is_possible() {
    let mut stand = Stand::new(300);
    let began = stand.now;
    stand.shard.drain(SECOND * 60, began);
    stand.run_until(began.plus(SECOND * 30));
    assert_eq!(stand.ends.len(), 151, "one at the beginning, and half of the others and one");
    let now = stand.now;
    stand.shard.drain(Duration::ZERO, now);
    assert!(stand.shard.has_work());
    stand.settle();
    assert_eq!((stand.watchers(), stand.now), (0, now));
}

#[test]
fn who_comes_meanwhile_goes_at_once() {
    let mut stand = Stand::new(2);
    let began = stand.now;
    stand.shard.drain(SECOND * 10, began);
    stand.settle();
    assert_eq!(stand.watchers(), 1);
    let late = stand.subscribe(true);
    stand.shard.dismiss(late, End::Drained);
    assert!(stand.shard.has_work());
    stand.settle();
    assert!(!stand.shard.contains(late), "it does not wait for anybody's turn");
    assert_eq!((stand.watchers(), stand.now), (1, began));
    // One that has ended by itself leaves its turn empty: no other ends early for it.
    stand.run_until(began.plus(SECOND * 10));
    assert_eq!(stand.ends.last(), Some(&began.plus(SECOND * 5)));
    assert_eq!(stand.watchers(), 0);
}
