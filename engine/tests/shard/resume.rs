//! What a client gets that resumes after a revision of which it may have seen a part.

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

/// The end of a stream.
const END: &[u8] = b"the end\n";

#[derive(Default)]
struct Socket(Vec<u8>);

impl Outlet for Socket {
    fn send(&mut self, _: WatcherId, run: Run<'_>) -> Sent {
        self.0.extend_from_slice(run.bytes());
        Sent::Took(run.bytes().len())
    }

    fn heartbeat(&mut self, _: &[WatcherId], _: &mut Vec<Sent>) {
        unreachable!("no time passes")
    }

    fn end(&mut self, _: WatcherId) -> Sent {
        self.0.extend_from_slice(END);
        Sent::Took(END.len())
    }
}

struct World {
    publisher: Publisher,
    shard: Shard,
}

impl World {
    fn new(slots: usize) -> Self {
        let mut schema = Schema::new();
        schema.add(Resource::new("v1", "ConfigMap", true, vec![]));
        let limits = RingLimits { events: slots, bytes: 1 << 30 };
        let (publisher, feed) =
            Publisher::with_small_ring(Arc::new(schema), Arc::new(JsonOnly), limits, 1, Revision::ZERO);
        Self { publisher, shard: Shard::new(0, feed, ShardConfig::default()) }
    }

    /// Writes or deletes these names of a namespace in one revision.
    fn commit(&mut self, revision: u64, namespace: &str, names: &[String], there: bool) {
        let value = there.then(|| Bytes::from_static(b"{\"metadata\":{}}"));
        let change =
            |name: &String| Change { key: Key::new(MAPS, Some(namespace), name), value: value.clone() };
        let batch = Batch { revision: Revision::new(revision), changes: names.iter().map(change).collect() };
        self.publisher.handle_batch(&batch, 0).expect("newer");
        self.publisher.publish();
        self.settle(&mut Socket::default());
    }

    fn settle(&mut self, socket: &mut Socket) {
        while self.shard.turn(socket, Tick::ZERO) == Turn::Again {}
    }

    /// What a watch of a namespace gets that begins after `revision`: the types of the events, and the end.
    fn after(&mut self, revision: u64, namespace: &str) -> Vec<String> {
        let wish = Subscription {
            scope: Scope::of_namespace(MAPS, namespace),
            selector: Selector::everything(),
            encoding: Encoding::Json,
            framing: &BARE,
            start: Start::After(Revision::new(revision)),
            bookmarks: false,
            timeout: Duration::MAX,
            jitter: 0,
            as_of_seconds: 0,
        };
        let id = self.shard.subscribe(wish, Tick::ZERO);
        let mut socket = Socket::default();
        self.settle(&mut socket);
        self.shard.forget(id);
        let text = String::from_utf8(socket.0).expect("text");
        let told = |line: &str| {
            if line.as_bytes() == END.trim_ascii_end() {
                return Some(line.to_owned());
            }
            let kind = line.split('"').nth(3)?.to_owned();
            let code = line.split_once("\"code\":").map(|(_, code)| code[..3].to_owned());
            Some(match code {
                Some(code) => format!("{kind} {code}"),
                None => kind,
            })
        };
        text.lines().map(|line| told(line).unwrap_or_else(|| format!("{line:?}"))).collect()
    }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("n{number:05}")).collect()
}

#[test]
fn a_revision_with_several_events_for_a_watch_comes_again() {
    let mut world = World::new(64);
    world.commit(1, "a", &names(1), true);
    world.commit(2, "a", &names(4), true);
    world.commit(3, "b", &names(3), true);
    world.commit(4, "a", &names(2), false);
    // Of revision 2 the client may have seen any part; 3 does not concern it.
    assert_eq!(
        world.after(2, "a"),
        ["MODIFIED", "ADDED", "ADDED", "ADDED", "DELETED", "DELETED"],
        "what it may have missed, then what is newer"
    );
    assert_eq!(world.after(3, "a"), ["DELETED", "DELETED"]);
    assert_eq!(world.after(4, "a"), ["DELETED", "DELETED"]);
    // One event is seen or not: nothing to send again.
    assert_eq!(world.after(1, "a").len(), 6);
    assert_eq!(world.after(1, "b").len(), 3);
    assert_eq!(world.after(2, "b").len(), 3);
}

#[test]
fn of_a_revision_that_is_forgotten_in_part_nothing_is_skipped() {
    let mut world = World::new(8);
    world.commit(1, "a", &names(4), true);
    world.commit(2, "a", &names(1), true);
    world.commit(3, "a", &names(1), true);
    assert_eq!(world.after(1, "a").len(), 6, "all four of 1, and what is newer");
    world.commit(4, "a", &names(4), true);
    assert_eq!(world.after(1, "a"), ["ERROR 410", "the end"], "two of four are left");
    assert_eq!(world.after(2, "a").len(), 5);
    world.commit(5, "a", &names(8), true);
    assert_eq!(world.after(4, "a"), ["ERROR 410", "the end"]);
    assert_eq!(world.after(5, "a").len(), 8, "the newest revision stays whole, however large");
}

/// A lease with a thousand keys, a prefix that is deleted: the ring grows temporarily, and holds all of it.
#[test]
fn a_revision_larger_than_the_ring_comes_whole_and_again() {
    let mut world = World::new(64);
    let many = names(3 * PAGE_SCAN);
    world.commit(1, "a", &many, true);
    world.commit(2, "a", &many, false);
    assert_eq!(world.after(2, "a").len(), many.len());
    assert_eq!(world.after(1, "a"), ["ERROR 410", "the end"]);
    world.commit(3, "b", &names(1), true);
    assert_eq!(world.after(2, "a"), ["ERROR 410", "the end"]);
    assert_eq!(world.after(3, "a"), [""; 0]);
}
