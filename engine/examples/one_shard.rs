//! A guided tour of the engine: one publisher, one shard, three watchers, and every byte that they are sent.
//!
//! ```text
//! cargo run -p revcast-engine --example one_shard
//! ```
//!
//! There is no socket, no clock and no thread here, because the engine uses none of them: this file is the driver. It
//! passes the changes and the time, reports when a reader has room, and takes the bytes. Everything that is printed is
//! asserted first.
#![allow(clippy::print_stdout, reason = "a tour tells its story on standard output")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use revcast_engine::change::{Batch, Change};
use revcast_engine::encoding::{Encoding, JsonOnly};
use revcast_engine::framing::{BARE, Framing, HEAD_MAX};
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::resource::{Resource, Schema};
use revcast_engine::revision::Revision;
use revcast_engine::selector::{FieldSelector, LabelSelector, Selector};
use revcast_engine::tick::Tick;
use revcast_engine::{
    Ended, Outlet, Publisher, RingLimits, Run, Scope, Sent, Shard, ShardConfig, Start, Subscription, Turn,
    WatcherId,
};

/// The framing of some clients' wires: the length before, a comma after (a netstring). Others have [`BARE`] messages,
/// one after another.
static NETSTRING: Framing = Framing {
    name: "netstring",
    head: |len, room| {
        let text = format!("{len}:");
        room[HEAD_MAX - text.len()..].copy_from_slice(text.as_bytes());
        text.len()
    },
    tail: b",",
};

/// The heartbeat of these wires, and the end of a stream: chosen by the driver.
const HEARTBEAT: &[u8] = b" ";
const END: &[u8] = b"end";

/// What a client has received, and how many bytes it would take now.
#[derive(Debug)]
struct Client {
    framing: &'static Framing,
    received: Vec<u8>,
    room: usize,
}

/// The sockets: one buffer per watcher. The engine only sees the trait.
#[derive(Debug, Default)]
struct Clients(HashMap<WatcherId, Client>);

impl Outlet for Clients {
    fn send(&mut self, to: WatcherId, run: Run<'_>) -> Sent {
        let Some(client) = self.0.get_mut(&to) else { return Sent::Gone };
        let bytes = run.bytes();
        // Like a non-blocking send(2): as much as fits. Less than offered means "full, I will call you".
        let taken = bytes.len().min(client.room);
        client.received.extend_from_slice(&bytes[..taken]);
        client.room -= taken;
        Sent::Took(taken)
    }

    fn heartbeat(&mut self, to: &[WatcherId], sent: &mut Vec<Sent>) {
        for id in to {
            let Some(client) = self.0.get_mut(id) else {
                sent.push(Sent::Gone);
                continue;
            };
            // A client without room has bytes on their way: it needs no heartbeat.
            let taken = HEARTBEAT.len().min(client.room);
            client.received.extend_from_slice(&HEARTBEAT[..taken]);
            client.room -= taken;
            sent.push(Sent::Took(taken));
        }
    }

    fn end(&mut self, to: WatcherId) -> Sent {
        let Some(client) = self.0.get_mut(&to) else { return Sent::Gone };
        // A real driver would keep what the socket does not take, and close the stream after it.
        client.received.extend_from_slice(END);
        Sent::Took(END.len())
    }
}

impl Clients {
    fn connect(&mut self, id: WatcherId, framing: &'static Framing, room: usize) {
        self.0.insert(id, Client { framing, received: Vec::new(), room });
    }

    /// Asserts that a client has received exactly these watch events since the last call, and prints them.
    fn expect(&mut self, name: &str, id: WatcherId, lines: &[String]) {
        let client = self.0.get_mut(&id).expect("it is connected");
        let received = std::mem::take(&mut client.received);
        // A message is one JSON line with its newline, in the framing of the client's wire.
        let framed = |line: &String| {
            let mut framed = Vec::new();
            client.framing.push(&mut framed, format!("{line}\n").as_bytes());
            String::from_utf8(framed).expect("messages are text")
        };
        let expected: String = lines.iter().map(framed).collect();
        let received = String::from_utf8(received).expect("messages are text");
        assert_eq!(received, expected, "{name}");
        for line in lines {
            println!("  {name:<5} got {:?}", framed(line));
        }
        if lines.is_empty() {
            println!("  {name:<5} got nothing");
        }
    }
}

/// Turns the shard until it has nothing to do now. A turn is short, so that a real driver can check its sockets between
/// two.
fn settle(shard: &mut Shard, clients: &mut Clients, now: Tick) {
    while shard.turn(clients, now) == Turn::Again {}
}

/// An object as a client stored it: no kind, no apiVersion, no version.
fn stored(name: &str, tier: &str) -> Bytes {
    format!(r#"{{"metadata":{{"name":"{name}","namespace":"shop","labels":{{"tier":"{tier}"}}}}}}"#).into()
}

/// The same object as it is served: what it lacked was spliced in, the rest was not touched.
fn served(event: &str, name: &str, tier: &str, version: u64) -> String {
    format!(
        r#"{{"type":"{event}","object":{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"shop","resourceVersion":"{version}","labels":{{"tier":"{tier}"}}}}}}}}"#
    )
}

fn bookmark(version: u64, annotations: &str) -> String {
    format!(
        r#"{{"type":"BOOKMARK","object":{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"{annotations}}}}}}}"#
    )
}

fn wish(
    resource: ResourceId,
    selector: Selector,
    framing: &'static Framing,
    start: Start,
    bookmarks: bool,
) -> Subscription {
    Subscription {
        scope: Scope::all(resource),
        selector,
        encoding: Encoding::Json,
        framing,
        start,
        bookmarks,
        timeout: Duration::from_secs(3_600),
        jitter: 0,
        as_of_seconds: 0,
    }
}

fn main() {
    println!("1. A schema names what is served. The publisher loads the state at revision 10: one object.");
    let mut schema = Schema::new();
    let maps = schema.add(Resource::new("v1", "ConfigMap", true, vec![]));
    let (mut publisher, feed) =
        Publisher::new(Arc::new(schema), Arc::new(JsonOnly), RingLimits::default(), 1, Revision::ZERO);
    let key = |name| Key::new(maps, Some("shop"), name);
    publisher.load(key("door"), Revision::new(10), &stored("door", "front"));
    publisher.loaded(Revision::new(10));
    // Loading serialized it, inside the message that announces it. It is not serialized again.
    assert_eq!(feed.messages_made(), 1);

    println!("\n2. Three watches on one shard. `whole` requests the state first, and a mark where it ends.");
    let mut shard = Shard::new(0, feed.clone(), ShardConfig::default());
    let mut clients = Clients::default();
    let start = Tick::ZERO;
    let web = Selector::new(LabelSelector::parse("tier=web").expect("it is valid"), FieldSelector::default());
    let state = Start::State { end_mark: true };
    let whole = shard.subscribe(wish(maps, Selector::everything(), &BARE, state, true), start);
    let label = shard.subscribe(wish(maps, web, &NETSTRING, Start::Latest, false), start);
    let after = Start::After(Revision::new(10));
    let slow = shard.subscribe(wish(maps, Selector::everything(), &BARE, after, false), start);
    clients.connect(whole, &BARE, usize::MAX);
    clients.connect(label, &NETSTRING, usize::MAX);
    clients.connect(slow, &BARE, 10);
    settle(&mut shard, &mut clients, start);
    let mark = r#","annotations":{"k8s.io/initial-events-end":"true"}"#;
    clients.expect("whole", whole, &[served("ADDED", "door", "front", 10), bookmark(10, mark)]);
    clients.expect("label", label, &[]);
    clients.expect("slow", slow, &[]);
    // `whole` and `slow` have equal subscriptions: they are one class, with one verdict per event.
    assert_eq!((shard.stats().live, shard.stats().classes), (3, 2));

    println!("\n3. Revision 11 creates `cart` with tier=web, revision 12 moves it to tier=db.");
    for (revision, tier) in [(11, "web"), (12, "db")] {
        let changes = vec![Change { key: key("cart"), value: Some(stored("cart", tier)) }];
        publisher.handle_batch(&Batch { revision: Revision::new(revision), changes }, 0).expect("newer");
    }
    publisher.publish();
    settle(&mut shard, &mut clients, start);
    let (added, modified) = (served("ADDED", "cart", "web", 11), served("MODIFIED", "cart", "db", 12));
    clients.expect("whole", whole, &[added.clone(), modified.clone()]);
    println!("   For tier=web the same change is an end: the last state that matched, with the new version.");
    clients.expect("label", label, &[added.clone(), served("DELETED", "cart", "web", 12)]);

    println!("\n4. `slow` took ten bytes, then was full. It has no queue: its cursor waits in the ring.");
    assert_eq!(clients.0[&slow].received.len(), 10);
    assert_eq!((shard.stats().live, shard.stats().blocked), (2, 1));
    let mut sends = 1;
    while shard.stats().live < 3 {
        clients.0.get_mut(&slow).expect("it is connected").room = 10;
        // The driver's socket became writable: it informs the shard, which continues inside the message.
        shard.writable(slow);
        settle(&mut shard, &mut clients, start);
        sends += 1;
    }
    clients.expect("slow", slow, &[added, modified]);
    println!("   The same bytes in {sends} sends, and the shard never kept a copy for it.");

    println!("\n5. One serialization per event and kind, for all watchers and framings:");
    // `door` loaded, `cart` added, `cart` modified, and the DELETED that a selector made of the last.
    assert_eq!(feed.messages_made(), 4);
    // `whole` 1 + 2 (the end mark is a bookmark), `label` 2, `slow` 2.
    assert_eq!(shard.stats().events_sent, 7);
    println!("   {} messages were made, {} were sent.", feed.messages_made(), shard.stats().events_sent);

    println!(
        "\n6. A minute passes (time is an argument). A watch with bookmarks learns how far it has seen; a watch \
         that was sent nothing for so long gets a heartbeat, whatever that is on its wire."
    );
    let minute = Tick::from_nanos(60_000_000_000);
    clients.0.get_mut(&slow).expect("it is connected").room = 0;
    settle(&mut shard, &mut clients, minute);
    clients.expect("whole", whole, &[bookmark(12, "")]);
    let heard = std::mem::take(&mut clients.0.get_mut(&label).expect("it is connected").received);
    assert_eq!(heard, HEARTBEAT);
    println!("  label got {:?}", String::from_utf8_lossy(&heard));
    // The socket of `slow` is full: it gets none, and is owed none.
    clients.expect("slow", slow, &[]);
    assert_eq!((shard.stats().heartbeats_sent, shard.stats().live), (1, 3));
    assert_eq!(feed.messages_made(), 4);

    println!(
        "\n7. The shard drains: everyone's stream is ended, after which a connection can be used again."
    );
    shard.drain(Duration::ZERO, minute);
    settle(&mut shard, &mut clients, minute);
    let last = format!("{}\n", bookmark(12, ""));
    for (name, id, before) in [("whole", whole, &*last), ("label", label, ""), ("slow", slow, "")] {
        let last = String::from_utf8_lossy(&clients.0[&id].received);
        assert_eq!(last.as_bytes(), [before.as_bytes(), END].concat(), "{name}");
        println!("  {name:<5} got {last:?}");
    }
    let ended: Vec<Ended> = std::iter::from_fn(|| shard.poll_ended()).collect();
    assert!(ended.len() == 3 && ended.iter().all(|end| end.clean));
    println!("   {:#?}", shard.stats());
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_runs() {
        super::main();
    }
}
