//! The mark behind the initial events (KEP-3157) to a client that takes it by halves.

use std::sync::Arc;

use revcast_engine::change::{Batch, Change};
use revcast_engine::encoding::{Encode, Encoding, View};
use revcast_engine::key::Key;
use revcast_engine::resource::{Resource, Schema};
use revcast_engine::revision::Revision;
use revcast_engine::selector::Selector;
use revcast_engine::tick::Tick;
use revcast_engine::{
    Outlet, Publisher, RingLimits, Scope, Sent, Shard, ShardConfig, Start, Subscription, Turn, WatcherId,
};

/// Shows only whether a frame is the first of its watch.
#[derive(Debug)]
struct Columns;

impl Encode for Columns {
    fn append(&self, out: &mut Vec<u8>, view: View<'_>) {
        out.extend_from_slice(if view.first { b"columns" } else { b"rows" });
    }

    fn first_differs(&self, _: u8) -> bool {
        true
    }
}

/// Takes `room` bytes.
#[derive(Debug, Default)]
struct Pipe {
    received: Vec<u8>,
    room: usize,
}

impl Outlet for Pipe {
    fn send(&mut self, _: WatcherId, bytes: &[u8]) -> Sent {
        let taken = bytes.len().min(self.room);
        self.received.extend_from_slice(&bytes[..taken]);
        self.room -= taken;
        Sent::Took(taken)
    }
}

fn settle(shard: &mut Shard, pipe: &mut Pipe) {
    while shard.turn(pipe, Tick::ZERO) == Turn::Again {}
}

#[test]
fn a_mark_cut_anywhere_is_the_first_frame_and_counts_as_one_bookmark() {
    for room in 0..60 {
        let mut schema = Schema::new();
        let resource = schema.add(Resource::new("v1", "ConfigMap", true, vec![]));
        let (mut publisher, feed) =
            Publisher::new(Arc::new(schema), Arc::new(Columns), RingLimits::default(), 1, Revision::new(5));
        let mut shard = Shard::new(0, feed, ShardConfig::default());
        let id = shard.subscribe(
            Subscription {
                scope: Scope { resource, namespace: None, name: None },
                selector: Selector::everything(),
                encoding: Encoding::Other(0),
                start: Start::State { end_mark: true },
                bookmarks: false,
                deadline: Tick::from_nanos(u64::MAX),
                jitter: 0,
                as_of_seconds: 0,
            },
            Tick::ZERO,
        );
        let mut pipe = Pipe { received: Vec::new(), room };
        settle(&mut shard, &mut pipe);
        pipe.room = usize::MAX;
        shard.writable(id);
        settle(&mut shard, &mut pipe);
        let value = Some(r#"{"metadata":{"name":"a","namespace":"n"}}"#.into());
        let changes = vec![Change { key: Key::new(resource, Some("n"), "a"), value }];
        publisher.handle_batch(&Batch { revision: Revision::new(6), changes }, 0).expect("newer");
        publisher.publish();
        settle(&mut shard, &mut pipe);
        let text = String::from_utf8(pipe.received).expect("frames are text");
        let expected = "25\r\n{\"type\":\"BOOKMARK\",\"object\":columns}\n\r\n1f\r\n{\"type\":\"ADDED\",\"object\":rows}\n\r\n";
        assert_eq!(text, expected, "cut after {room} bytes");
        let stats = shard.stats();
        assert_eq!((stats.bookmarks_sent, stats.events_sent), (1, 1), "cut after {room} bytes");
    }
}
