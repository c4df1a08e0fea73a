//! The mark after the initial events (KEP-3157), to a client that takes it in parts.

use std::sync::Arc;
use std::time::Duration;

use revcast_engine::change::{Batch, Change};
use revcast_engine::encoding::{Encode, Encoding, View};
use revcast_engine::envelope;
use revcast_engine::framing::{BARE, Framing};
use revcast_engine::key::Key;
use revcast_engine::resource::{Resource, Schema};
use revcast_engine::revision::Revision;
use revcast_engine::selector::Selector;
use revcast_engine::tick::Tick;
use revcast_engine::{
    Outlet, Publisher, RingLimits, Run, Scope, Sent, Shard, ShardConfig, Start, Subscription, Turn, WatcherId,
};

use crate::counted::COUNTED;

/// Shows only whether a message is the first of its watch.
#[derive(Debug)]
struct Columns;

impl Encode for Columns {
    fn framing(&self, _: Encoding) -> &'static Framing {
        &COUNTED
    }

    fn event(&self, out: &mut Vec<u8>, view: View<'_>) -> Result<(), String> {
        let shown: &[u8] = if view.first { b"columns" } else { b"rows" };
        envelope::event(out, view.event.kind, |out| out.extend_from_slice(shown));
        Ok(())
    }

    fn first_differs(&self, _: u32) -> bool {
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
    fn send(&mut self, _: WatcherId, run: Run<'_>) -> Sent {
        let bytes = run.bytes();
        let taken = bytes.len().min(self.room);
        self.received.extend_from_slice(&bytes[..taken]);
        self.room -= taken;
        Sent::Took(taken)
    }

    fn heartbeat(&mut self, _: &[WatcherId], _: &mut Vec<Sent>) {
        unreachable!("no time passes")
    }

    fn end(&mut self, _: WatcherId) -> Sent {
        unreachable!("nothing ends it")
    }
}

fn settle(shard: &mut Shard, pipe: &mut Pipe) {
    while shard.turn(pipe, Tick::ZERO) == Turn::Again {}
}

/// What a watch in this framing is sent that first takes `room` bytes, and then everything.
fn told(framing: &'static Framing, room: usize) -> String {
    let mut schema = Schema::new();
    let resource = schema.add(Resource::new("v1", "ConfigMap", true, vec![]));
    let (mut publisher, feed) =
        Publisher::new(Arc::new(schema), Arc::new(Columns), RingLimits::default(), 1, Revision::new(5));
    let mut shard = Shard::new(0, feed, ShardConfig::default());
    let id = shard.subscribe(
        Subscription {
            scope: Scope::all(resource),
            selector: Selector::everything(),
            encoding: Encoding::Other(0),
            framing,
            start: Start::State { end_mark: true },
            bookmarks: false,
            timeout: Duration::MAX,
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
    let stats = shard.stats();
    assert_eq!((stats.bookmarks_sent, stats.events_sent), (1, 1), "{framing:?}, cut after {room} bytes");
    assert_eq!(stats.bytes_sent, pipe.received.len() as u64, "{framing:?}, cut after {room} bytes");
    String::from_utf8(pipe.received).expect("messages are text")
}

#[test]
fn a_mark_cut_anywhere_is_the_first_message_and_counts_as_one_bookmark() {
    let (mark, event) = (r#"{"type":"BOOKMARK","object":columns}"#, r#"{"type":"ADDED","object":rows}"#);
    let counted = format!("37:{mark}\n;31:{event}\n;");
    let bare = format!("{mark}\n{event}\n");
    for room in 0..60 {
        assert_eq!(told(&COUNTED, room), counted, "cut after {room} bytes");
        assert_eq!(told(&BARE, room), bare, "cut after {room} bytes");
    }
}
