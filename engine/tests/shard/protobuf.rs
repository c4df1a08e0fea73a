//! Values that have no form in the encoding of a watch: it gets what comes before them, the reason, and its end.

use std::sync::Arc;
use std::time::Duration;

use revcast_engine::attributes::AttributeTexts;
use revcast_engine::change::{Batch, Change};
use revcast_engine::codec::protobuf;
use revcast_engine::encoding::{Encode, Encoding, Failure, View, json};
use revcast_engine::framing::BARE;
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::message_type::{MessageType, SharedType};
use revcast_engine::resource::{Resource, Schema};
use revcast_engine::revision::Revision;
use revcast_engine::selector::Selector;
use revcast_engine::tick::Tick;
use revcast_engine::{
    Outlet, Publisher, RingLimits, Run, Scope, Sent, Shard, ShardConfig, Start, Subscription, Turn, WatcherId,
};

const MAPS: ResourceId = ResourceId::new(0);

/// Messages that are never stored here.
#[derive(Debug)]
struct Nothing;

impl MessageType for Nothing {
    fn read<'a>(&'a self, _: &'a [u8]) -> Result<AttributeTexts<'a>, String> {
        Ok(AttributeTexts::default())
    }

    fn push_members(&self, _: &mut Vec<u8>, _: &[u8]) {}
}

/// Shows JSON as it is, unless it has a word in it.
#[derive(Debug)]
struct Picky;

impl Encode for Picky {
    fn event(&self, _: &mut Vec<u8>, _: View<'_>) -> Result<(), String> {
        Ok(())
    }

    fn first_differs(&self, _: u32) -> bool {
        false
    }

    fn protobuf(&self, out: &mut Vec<u8>, _: ResourceId, json: &[u8]) -> Result<(), String> {
        let text = String::from_utf8_lossy(json);
        if text.contains("odd") {
            return Err("it is odd".to_owned());
        }
        out.extend_from_slice(json);
        Ok(())
    }

    fn failure(&self, out: &mut Vec<u8>, _: Encoding, failure: &Failure<'_>) {
        protobuf::push_error(out, &json::status(failure));
    }
}

/// What one watch was sent; its socket takes so many bytes in each call.
struct Socket {
    sent: Vec<u8>,
    takes: usize,
    ended: bool,
}

impl Outlet for Socket {
    fn send(&mut self, _: WatcherId, run: Run<'_>) -> Sent {
        let taken = run.bytes().len().min(self.takes);
        self.sent.extend_from_slice(&run.bytes()[..taken]);
        Sent::Took(taken)
    }

    fn heartbeat(&mut self, to: &[WatcherId], sent: &mut Vec<Sent>) {
        sent.extend(to.iter().map(|_| Sent::Took(0)));
    }

    fn end(&mut self, _: WatcherId) -> Sent {
        self.ended = true;
        Sent::Took(0)
    }
}

struct World {
    publisher: Publisher,
    shard: Shard,
    revision: u64,
}

impl World {
    fn new() -> Self {
        let mut schema = Schema::new();
        let maps = Resource::new("v1", "ConfigMap", true, vec![]);
        schema.add(maps.with_message(SharedType::new(Nothing)));
        let limits = RingLimits { events: 1 << 10, bytes: 1 << 20 };
        let (publisher, feed) = Publisher::new(Arc::new(schema), Arc::new(Picky), limits, 1, Revision::ZERO);
        Self { publisher, shard: Shard::new(0, feed, ShardConfig::default()), revision: 0 }
    }

    fn write(&mut self, name: &str, data: &str) {
        self.revision += 1;
        let value =
            format!("{{\"metadata\":{{\"name\":\"{name}\",\"namespace\":\"a\"}},\"data\":\"{data}\"}}");
        let change = Change { key: Key::new(MAPS, Some("a"), name), value: Some(value.into()) };
        let batch = Batch { revision: Revision::new(self.revision), changes: vec![change] };
        self.publisher.handle_batch(&batch, 0).expect("it is newer");
        self.publisher.publish();
    }

    fn watch(&mut self, start: Start) -> WatcherId {
        let subscription = Subscription {
            scope: Scope::all(MAPS),
            selector: Selector::everything(),
            encoding: Encoding::Protobuf,
            framing: &BARE,
            start,
            bookmarks: false,
            timeout: Duration::from_secs(1_000),
            jitter: 0,
            as_of_seconds: 0,
        };
        self.shard.subscribe(subscription, Tick::ZERO)
    }

    /// Turns until nothing is left to do.
    fn settle(&mut self, id: WatcherId, socket: &mut Socket) {
        for _ in 0..10_000 {
            if self.shard.turn(socket, Tick::ZERO) != Turn::Again {
                if socket.takes == usize::MAX || !self.shard.contains(id) {
                    return;
                }
                self.shard.writable(id);
            }
        }
        panic!("the shard turns in circles");
    }
}

fn checked(world: &mut World, id: WatcherId, socket: &mut Socket, before: &[&str]) {
    world.settle(id, socket);
    let text = String::from_utf8_lossy(&socket.sent);
    let added = text.matches("ADDED").count();
    assert_eq!(added, before.len(), "{text}");
    let places: Vec<_> = before.iter().map(|name| text.find(&format!("\"name\":\"{name}\""))).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
    assert!(!text.contains("\"data\":\"odd\"") && !text.contains("late"), "{text}");
    let told = text.find("ERROR").expect("it is told");
    assert!(text[told..].contains("it is odd") && text.matches("ERROR").count() == 1, "{text}");
    assert!(socket.ended && !world.shard.contains(id), "{text}");
    assert_eq!(world.shard.stats().refused, 1);
}

/// Live, in the initial state, and while it catches up; with sockets that take all, and a few bytes at a time.
#[test]
fn a_watch_ends_at_a_value_without_a_form() {
    for takes in [usize::MAX, 7, 1] {
        let socket = || Socket { sent: Vec::new(), takes, ended: false };

        let (mut world, mut live) = (World::new(), socket());
        let id = world.watch(Start::Latest);
        world.shard.turn(&mut live, Tick::ZERO);
        for (name, data) in [("x", "fine"), ("y", "odd"), ("z", "late")] {
            world.write(name, data);
        }
        checked(&mut world, id, &mut live, &["x"]);

        let (mut world, mut state) = (World::new(), socket());
        for (name, data) in [("x", "fine"), ("y", "odd"), ("z", "late")] {
            world.write(name, data);
        }
        let id = world.watch(Start::State { end_mark: false });
        checked(&mut world, id, &mut state, &["x"]);

        let (mut world, mut behind) = (World::new(), socket());
        for (name, data) in [("x", "fine"), ("w", "fine"), ("y", "odd"), ("z", "late")] {
            world.write(name, data);
        }
        let id = world.watch(Start::After(Revision::ZERO));
        checked(&mut world, id, &mut behind, &["x", "w"]);
    }
}
