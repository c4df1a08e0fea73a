//! One watch is ended, cleanly, and the others continue.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use revcast_engine::change::{Batch, Change};
use revcast_engine::encoding::{Encoding, JsonOnly};
use revcast_engine::framing::BARE;
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::resource::{Resource, Schema};
use revcast_engine::revision::Revision;
use revcast_engine::selector::Selector;
use revcast_engine::tick::Tick;
use revcast_engine::{
    End, Ended, Outlet, Publisher, RingLimits, Run, Scope, Sent, Shard, ShardConfig, Start, Subscription,
    Turn, WatcherId,
};

/// The end of a stream.
const END: &str = "the end";

/// Takes up to `room` bytes of each watch, or everything if none is set. Ends need no room.
#[derive(Debug, Default)]
struct Pipes {
    received: HashMap<WatcherId, Vec<u8>>,
    room: HashMap<WatcherId, usize>,
}

impl Outlet for Pipes {
    fn send(&mut self, to: WatcherId, run: Run<'_>) -> Sent {
        let bytes = run.bytes();
        let received = self.received.entry(to).or_default();
        let room = self.room.get(&to).map_or(usize::MAX, |room| room.saturating_sub(received.len()));
        let taken = bytes.len().min(room);
        received.extend_from_slice(&bytes[..taken]);
        Sent::Took(taken)
    }

    fn heartbeat(&mut self, _: &[WatcherId], _: &mut Vec<Sent>) {
        unreachable!("no time passes")
    }

    fn end(&mut self, to: WatcherId) -> Sent {
        self.received.entry(to).or_default().extend_from_slice(END.as_bytes());
        Sent::Took(END.len())
    }
}

impl Pipes {
    fn text(&self, id: WatcherId) -> &str {
        self.received.get(&id).map_or("", |bytes| std::str::from_utf8(bytes).expect("messages are text"))
    }
}

fn settle(shard: &mut Shard, pipes: &mut Pipes) {
    while shard.turn(pipes, Tick::ZERO) == Turn::Again {}
}

fn wish(resource: ResourceId, start: Start) -> Subscription {
    Subscription {
        scope: Scope::all(resource),
        selector: Selector::everything(),
        encoding: Encoding::Json,
        framing: &BARE,
        start,
        bookmarks: true,
        timeout: Duration::MAX,
        jitter: 0,
        as_of_seconds: 0,
    }
}

fn write(publisher: &mut Publisher, resource: ResourceId, revision: u64) {
    let value = Some(format!(r#"{{"metadata":{{"name":"a{revision}","namespace":"n"}}}}"#).into());
    let changes = vec![Change { key: Key::new(resource, Some("n"), &format!("a{revision}")), value }];
    publisher.handle_batch(&Batch { revision: Revision::new(revision), changes }, 0).expect("newer");
    publisher.publish();
}

/// After a whole message, and nothing follows.
fn ends_once(text: &str) -> bool {
    text.strip_suffix(END).is_some_and(|before| before.ends_with("}\n") && !before.contains(END))
}

#[test]
fn one_watch_ends_in_any_phase_and_others_go_on() {
    let mut schema = Schema::new();
    let resource = schema.add(Resource::new("v1", "ConfigMap", true, vec![]));
    let (mut publisher, feed) =
        Publisher::new(Arc::new(schema), Arc::new(JsonOnly), RingLimits::default(), 1, Revision::new(5));
    let mut shard = Shard::new(0, feed, ShardConfig::default());
    let mut pipes = Pipes::default();
    let live = shard.subscribe(wish(resource, Start::Latest), Tick::ZERO);
    let other = shard.subscribe(wish(resource, Start::Latest), Tick::ZERO);
    let parked = shard.subscribe(wish(resource, Start::After(Revision::new(50))), Tick::ZERO);
    let slow = shard.subscribe(wish(resource, Start::Latest), Tick::ZERO);
    pipes.room.insert(slow, 10);
    settle(&mut shard, &mut pipes);
    write(&mut publisher, resource, 6);
    settle(&mut shard, &mut pipes);
    assert_eq!(pipes.text(slow).len(), 10, "the slow one stands within a message");

    for id in [live, parked, slow] {
        shard.dismiss(id, End::Dismissed);
    }
    assert!(shard.has_work(), "a driver that sleeps is to turn it");
    settle(&mut shard, &mut pipes);
    let ended: Vec<Ended> = std::iter::from_fn(|| shard.poll_ended()).collect();
    let clean = |id| Ended { id, clean: true, why: End::Dismissed };
    assert_eq!(ended, [clean(live), clean(parked)]);
    assert!(pipes.text(live).contains("BOOKMARK") && ends_once(pipes.text(live)));
    assert_eq!(pipes.text(parked), END);

    // The slow one gets the rest of its message and the end, and nothing newer.
    write(&mut publisher, resource, 7);
    settle(&mut shard, &mut pipes);
    pipes.room.remove(&slow);
    shard.writable(slow);
    settle(&mut shard, &mut pipes);
    assert_eq!(shard.poll_ended(), Some(clean(slow)));
    assert!(pipes.text(slow).contains("a6") && !pipes.text(slow).contains("a7"), "{}", pipes.text(slow));
    assert!(ends_once(pipes.text(slow)));

    assert!(pipes.text(other).contains("a6") && pipes.text(other).contains("a7"));
    assert!(!pipes.text(other).contains(END));
    // An id of a watch that is over, or whose slot has another watch, has no effect.
    let next = shard.subscribe(wish(resource, Start::Latest), Tick::ZERO);
    for id in [live, parked, slow] {
        shard.dismiss(id, End::Dismissed);
    }
    settle(&mut shard, &mut pipes);
    assert_eq!(shard.poll_ended(), None);
    assert!(shard.contains(next) && shard.contains(other));
}
