//! Instructions of the engine's hot paths.
//!
//! `cargo xtask counts` runs this under valgrind and compares the counts with those in `counts.toml`: the same source and the
//! same compiler give the same counts on any machine, however busy it is. What is counted is the function below, without its
//! preparation and without what is dropped afterwards.
#![allow(clippy::exit, missing_debug_implementations, unused_qualifications, reason = "the macros' code")]

#[path = "../benches/support/mod.rs"]
mod support;

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use gungraun::{library_benchmark, library_benchmark_group, main};
use revcast_engine::change::{Batch, Change};
use revcast_engine::codec::{Decoder, Reading};
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;
use revcast_engine::selector::{FieldSelector, LabelSelector, Selector};
use revcast_engine::{Object, Start};
use support::{Watched, value};

/// Events of a page of catch-up.
const PAGE_EVENTS: usize = 100;

fn everything(watchers: usize) -> Vec<Selector> {
    vec![Selector::everything(); watchers]
}

fn labelled(text: &str) -> Selector {
    Selector::new(LabelSelector::parse(text).expect("it is valid"), FieldSelector::default())
}

fn excluding(number: usize) -> Selector {
    labelled(&format!("tier notin (n{number})"))
}

fn on_node(number: usize) -> Selector {
    let text = format!("spec.nodeName=node-{number}");
    let fields = FieldSelector::parse(&text, &support::pod()).expect("it is valid");
    Selector::new(LabelSelector::default(), fields)
}

/// Live watchers of these selectors that have had rounds before, and `events` events that are not dispatched yet.
fn waiting(selectors: Vec<Selector>, events: usize) -> Watched {
    let mut watched = Watched::new(selectors);
    for _ in 0..3 {
        watched.publish(events, "node-1");
        watched.settle();
    }
    watched.publish(events, "node-1");
    watched
}

fn one_class(watchers: usize) -> Watched {
    waiting(everything(watchers), 1)
}

fn sixteen_events(watchers: usize) -> Watched {
    waiting(everything(watchers), 16)
}

fn classes(count: usize) -> Watched {
    waiting((0..count).map(excluding).collect(), 1)
}

fn nodes(count: usize) -> Watched {
    waiting((0..count).map(on_node).collect(), 1)
}

/// Watchers of what an event makes them lose: its DELETED message is made for them.
fn losing(watchers: usize) -> Watched {
    let mut watched = waiting(vec![on_node(1); watchers], 1);
    watched.settle();
    watched.publish(1, "node-2");
    watched
}

// A round: from the ring to the outlet.
#[library_benchmark]
#[bench::one_watcher(one_class(1))]
#[bench::hundred_watchers(one_class(100))]
#[bench::ten_thousand_watchers(one_class(10_000))]
#[bench::hundred_watchers_of_16_events(sixteen_events(100))]
#[bench::hundred_classes(classes(100))]
#[bench::one_of_1000_nodes(nodes(1_000))]
#[bench::another_frame(losing(1))]
fn round(mut watched: Watched) -> Watched {
    watched.settle();
    watched
}

fn behind(events: usize) -> Watched {
    let mut watched = waiting(Vec::new(), events);
    // The first has made the buffers as large as they need to be. The second is of another class: its page is its own.
    for selector in [Selector::everything(), labelled("app=web")] {
        watched.settle();
        watched.subscribe(selector, Start::After(Revision::new(3)));
    }
    watched
}

fn beginning(objects: usize) -> Watched {
    let mut watched = Watched::new(Vec::new());
    watched.engine.load(objects, 512);
    watched.engine.publisher.publish();
    for _ in 0..2 {
        watched.settle();
        watched.subscribe(Selector::everything(), Start::State { end_mark: true });
    }
    watched
}

// A watch that begins: until it is live.
#[library_benchmark]
#[bench::after_a_revision(behind(PAGE_EVENTS))]
#[bench::with_the_state(beginning(PAGE_EVENTS))]
fn page(mut watched: Watched) -> Watched {
    watched.settle();
    watched
}

fn object(bytes: usize) -> (Decoder, Key, Bytes) {
    let mut decoder = Decoder::new();
    let (key, value) = (support::Engine::new().key("pod-1"), value("pod-1", "node-1", bytes));
    // What a decoder keeps for the next value is there.
    black_box(Object::read(&mut decoder, &support::pod(), key.clone(), &value, Revision::new(1)));
    (decoder, key, value)
}

// A stored value to attributes and served bytes.
#[library_benchmark]
#[bench::of_1_kib(object(1 << 10))]
#[bench::of_16_kib(object(16 << 10))]
fn decode((mut decoder, key, value): (Decoder, Key, Bytes)) -> (Decoder, Object) {
    let object = Object::read(&mut decoder, &support::pod(), key, &value, Revision::new(7));
    (decoder, object)
}

fn engine() -> (support::Engine, Key, Bytes) {
    let mut engine = support::Engine::new();
    engine.load(1_000, 512);
    let (key, value) = (engine.key("pod-000500"), value("pod-000500", "node-1", 1 << 10));
    engine.put(&key, Some(&value));
    engine.publisher.publish();
    (engine, key, value)
}

// A change: decoded, indexed, into the ring, and visible.
#[library_benchmark]
#[bench::of_1_kib(engine())]
fn publish((mut engine, key, value): (support::Engine, Key, Bytes)) -> support::Engine {
    engine.put(&key, Some(&value));
    engine.publisher.publish();
    engine
}

fn engine_with_a_reading() -> (support::Engine, Batch, [Option<Arc<Reading>>; 1]) {
    let (mut engine, key, value) = engine();
    engine.revision += 1;
    let reading = Decoder::new().read(&support::pod(), &value).expect("it is an object");
    let changes = vec![Change { key, value: Some(value) }];
    let batch = Batch { revision: Revision::new(engine.revision), changes };
    (engine, batch, [Some(Arc::new(reading))])
}

// The same of a value that was read when it was checked.
#[library_benchmark]
#[bench::of_1_kib(engine_with_a_reading())]
fn publish_read(
    (mut engine, batch, readings): (support::Engine, Batch, [Option<Arc<Reading>>; 1]),
) -> support::Engine {
    engine.publisher.handle_batch_with(&batch, &readings, 0).expect("it is newer");
    engine.publisher.publish();
    engine
}

library_benchmark_group!(name = shard, benchmarks = [round, page]);
library_benchmark_group!(name = publisher, benchmarks = [decode, publish, publish_read]);
main!(library_benchmark_groups = shard, publisher);
