//! What the benches share: an engine of one shard, objects of a given size, and an outlet that takes everything.
#![allow(dead_code, reason = "each bench is a crate of its own and uses a part of this")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// The one resource of every bench.
pub(crate) fn pod() -> Resource {
    Resource::new("v1", "Pod", true, vec![Field::at("spec.nodeName"), Field::at("status.phase")])
}

/// A pod of about `bytes` bytes of JSON, as a store holds it.
pub(crate) fn value(name: &str, node: &str, bytes: usize) -> Bytes {
    let front = format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"default","uid":"3f1c7c1e-6f0d-4d39-9d8e-0a5d2d1f7b11","labels":{{"app":"web","tier":"front","track":"stable"}}}},"spec":{{"nodeName":"{node}","containers":["#
    );
    let back = r#"]},"status":{"phase":"Running"}}"#;
    let container = r#"{"name":"main","image":"registry.example/app:1.2.3","args":["--listen","0.0.0.0:80"],"resources":{"limits":{"cpu":"2"}}}"#;
    let mut text = front;
    let mut first = true;
    while text.len() + back.len() + container.len() < bytes || first {
        if !first {
            text.push(',');
        }
        text.push_str(container);
        first = false;
    }
    text.push_str(back);
    text.into()
}

/// Takes everything that it is offered, and reads none of it.
#[derive(Debug, Default)]
pub(crate) struct Null {
    pub(crate) sends: u64,
}

impl Outlet for Null {
    fn send(&mut self, to: WatcherId, run: Run<'_>) -> Sent {
        let bytes = run.bytes();
        black_box((to, bytes));
        self.sends += 1;
        Sent::Took(bytes.len())
    }

    fn send_each(&mut self, to: &[WatcherId], run: Run<'_>, sent: &mut Vec<Sent>) {
        let bytes = run.bytes();
        black_box((to, bytes));
        self.sends += to.len() as u64;
        sent.extend(to.iter().map(|_| Sent::Took(bytes.len())));
    }

    fn heartbeat(&mut self, to: &[WatcherId], sent: &mut Vec<Sent>) {
        sent.extend(to.iter().map(|_| Sent::Took(1)));
    }

    fn end(&mut self, _: WatcherId) -> Sent {
        Sent::Took(0)
    }
}

/// A publisher and what it feeds.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) publisher: Publisher,
    pub(crate) feed: Feed,
    pub(crate) pods: ResourceId,
    pub(crate) revision: u64,
}

impl Engine {
    pub(crate) fn new() -> Self {
        let mut schema = Schema::new();
        let pods = schema.add(pod());
        let limits = RingLimits { events: 1 << 14, ..RingLimits::default() };
        let (publisher, feed) =
            Publisher::new(Arc::new(schema), Arc::new(JsonOnly), limits, 1, Revision::ZERO);
        Self { publisher, feed, pods, revision: 0 }
    }

    pub(crate) fn key(&self, name: &str) -> Key {
        Key::new(self.pods, Some("default"), name)
    }

    /// One change of the next revision, not yet visible.
    pub(crate) fn put(&mut self, key: &Key, value: Option<&Bytes>) {
        self.revision += 1;
        let changes = vec![Change { key: key.clone(), value: value.cloned() }];
        let batch = Batch { revision: Revision::new(self.revision), changes };
        self.publisher.handle_batch(&batch, 0).expect("the bench's objects are objects");
    }

    /// `count` objects loaded, in key order.
    pub(crate) fn load(&mut self, count: usize, bytes: usize) {
        for number in 0..count {
            let name = format!("pod-{number:06}");
            let (key, value) = (self.key(&name), value(&name, "node-1", bytes));
            self.publisher.load(key, Revision::new(1), &value);
        }
        self.revision = 1;
        self.publisher.loaded(Revision::new(1));
    }
}

/// An engine, its shard, and live watchers.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) engine: Engine,
    pub(crate) shard: Shard,
    pub(crate) outlet: Null,
}

impl Watched {
    /// A shard with one live watcher for each selector.
    pub(crate) fn new(selectors: impl IntoIterator<Item = Selector>) -> Self {
        let engine = Engine::new();
        let shard = Shard::new(0, engine.feed.clone(), ShardConfig::default());
        let mut watched = Self { engine, shard, outlet: Null::default() };
        let mut watchers = 0;
        for selector in selectors {
            watched.subscribe(selector, Start::Latest);
            watchers += 1;
        }
        watched.settle();
        assert_eq!(watched.shard.stats().live, watchers, "everyone is live before anything is measured");
        watched
    }

    pub(crate) fn subscribe(&mut self, selector: Selector, start: Start) {
        let wish = Subscription {
            scope: Scope::all(self.engine.pods),
            selector,
            encoding: Encoding::Json,
            framing: &BARE,
            start,
            bookmarks: false,
            timeout: Duration::MAX,
            jitter: 0,
            as_of_seconds: 0,
        };
        self.shard.subscribe(wish, Tick::ZERO);
    }

    /// Makes `events` changes of one object of 1 KiB visible.
    pub(crate) fn publish(&mut self, events: usize, node: &str) {
        let (key, value) = (self.engine.key("pod-1"), value("pod-1", node, 1024));
        for _ in 0..events {
            self.engine.put(&key, Some(&value));
        }
        self.engine.publisher.publish();
    }

    pub(crate) fn settle(&mut self) {
        while self.shard.turn(&mut self.outlet, Tick::ZERO) == Turn::Again {}
    }

    /// [`Watched::time_stream`] of one object.
    pub(crate) fn time_rounds(&mut self, events: u64, a_round: u64, node: &str, deliveries: u64) -> Duration {
        let one = (self.engine.key("pod-1"), value("pod-1", node, 1024));
        self.time_stream(events, a_round, &mut std::iter::repeat(&one), deliveries)
    }

    /// The time that the shard takes for the next `events` of a stream of changes, `a_round` of them published at once.
    /// Only the shard's turns are timed. Asserts that each event went to `deliveries` watchers.
    pub(crate) fn time_stream<'a>(
        &mut self,
        events: u64,
        a_round: u64,
        stream: &mut impl Iterator<Item = &'a (Key, Bytes)>,
        deliveries: u64,
    ) -> Duration {
        let mut spent = Duration::ZERO;
        let before = self.shard.stats().events_sent;
        let mut left = events;
        while left > 0 {
            let now = left.min(a_round);
            for (key, value) in stream.take(usize::try_from(now).expect("a round is short")) {
                self.engine.put(key, Some(value));
            }
            self.engine.publisher.publish();
            let start = Instant::now();
            self.settle();
            spent += start.elapsed();
            left -= now;
        }
        assert_eq!(self.shard.stats().events_sent - before, events * deliveries, "nothing is lost");
        spent
    }
}
