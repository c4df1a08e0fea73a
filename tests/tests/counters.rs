//! What the counters prove: an event is serialized once, whatever the number of watchers and shards, and every watcher
//! gets every event. 2,000 watchers; 10,000 with `REVCAST_BIG=1`.
#![allow(clippy::unwrap_used)]

use std::sync::Barrier;

use revcast_tests::client::Watch;
use revcast_tests::server::Server;
use serde_json::json;

const THREADS: usize = 4;
const WRITES: u64 = 20;

fn watchers() -> usize {
    if std::env::var_os("REVCAST_BIG").is_some_and(|value| value == "1") { 10_000 } else { 2_000 }
}

/// The revision in the line of an event.
fn revision(line: &str) -> u64 {
    let behind = line.split(r#""resourceVersion":""#).nth(1).expect("a revision");
    behind.split('"').next().and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn one_serialization_an_event() {
    let watchers = watchers();
    let server = Server::start(&["--shards", "2"]);
    let client = server.client();
    // One prefix: it must be spread over the shards automatically.
    let path =
        "/api/v1/namespaces/c/configmaps?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let opened = Barrier::new(THREADS + 1);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..THREADS)
            .map(|_| {
                let (client, opened) = (client.clone(), &opened);
                scope.spawn(move || {
                    let mut watches: Vec<Watch> =
                        (0..watchers / THREADS).map(|_| client.watch(path).unwrap()).collect();
                    opened.wait();
                    let lines = |watch: &mut Watch| -> Vec<String> {
                        (0..WRITES).map(|_| watch.next_line().unwrap().unwrap()).collect()
                    };
                    let first = lines(&mut watches[0]);
                    for watch in &mut watches[1..] {
                        assert!(lines(watch) == first, "every watcher sees the same");
                    }
                    // Kept, so that they stay open until all is counted.
                    (watches, first)
                })
            })
            .collect();
        opened.wait();
        server.wait_for_metric("revcast_watchers", watchers as u64);
        let spread = server.metrics("revcast_watchers");
        assert_eq!(spread.len(), 2);
        assert!(spread.iter().all(|shard| *shard > watchers as u64 / 4), "spread unevenly: {spread:?}");
        let (frames, sent) =
            (server.metric("revcast_messages_serialized_total"), server.metric("revcast_events_sent_total"));
        let mut connection = client.connect().unwrap();
        let written: Vec<u64> = (0..WRITES)
            .map(|number| {
                let object =
                    json!({"metadata": {"name": format!("n{number}")}, "data": {"k": "x".repeat(1000)}});
                let reply = connection.request(
                    "POST",
                    "/api/v1/namespaces/c/configmaps",
                    &[],
                    object.to_string().as_bytes(),
                );
                let reply = reply.unwrap();
                assert_eq!(reply.status, 201);
                reply.json()["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
            })
            .collect();
        let kept: Vec<_> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        for (_, lines) in &kept {
            assert_eq!(lines.iter().map(|line| revision(line)).collect::<Vec<_>>(), written);
        }
        server.wait_for_metric("revcast_events_sent_total", sent + WRITES * watchers as u64);
        assert_eq!(server.metric("revcast_messages_serialized_total"), frames + WRITES, "one frame an event");
        assert_eq!(server.metric("revcast_watchers_evicted_total"), 0);
        drop(kept);
    });
    server.wait_for_metric("revcast_watchers", 0);
}

#[test]
fn one_more_for_each_kind_and_encoding() {
    let server = Server::start(&["--shards", "2"]);
    let client = server.client();
    let path =
        "/api/v1/namespaces/c/configmaps?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let selected = format!("{path}&labelSelector=app%3Da");
    let metadata = [("Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")];
    let mut plain: Vec<Watch> = (0..10).map(|_| client.watch(path).unwrap()).collect();
    let mut chosen: Vec<Watch> = (0..10).map(|_| client.watch(&selected).unwrap()).collect();
    let mut bare: Vec<Watch> = (0..10).map(|_| client.watch_as(path, &metadata).unwrap()).collect();
    server.wait_for_metric("revcast_watchers", 30);
    let object = json!({"metadata": {"name": "one", "labels": {"app": "b"}}, "data": {"k": "1"}});
    assert_eq!(client.send("POST", "/api/v1/namespaces/c/configmaps", &object).status, 201);
    for watch in plain.iter_mut().chain(&mut bare) {
        assert_eq!(watch.next_event().0, "ADDED");
    }
    let before = server.metric("revcast_messages_serialized_total");
    // MODIFIED to some, ADDED to others, and MODIFIED without its data to the third.
    let patch = json!({"metadata": {"labels": {"app": "a"}}});
    assert_eq!(client.patch("/api/v1/namespaces/c/configmaps/one", "merge-patch", &patch).status, 200);
    for watch in &mut plain {
        assert_eq!(watch.next_event().0, "MODIFIED");
    }
    for watch in &mut chosen {
        assert_eq!(watch.next_event().0, "ADDED");
    }
    for watch in &mut bare {
        let (kind, object) = watch.next_event();
        assert_eq!((kind.as_str(), object.get("data")), ("MODIFIED", None));
    }
    assert_eq!(server.metric("revcast_messages_serialized_total"), before + 3);
}

#[test]
fn one_table_an_event_whatever_the_number_of_watchers() {
    let server = Server::start(&["--shards", "2"]);
    let client = server.client();
    let path =
        "/api/v1/namespaces/c/configmaps?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let table = [("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")];
    let mut watches: Vec<Watch> = (0..20).map(|_| client.watch_as(path, &table).unwrap()).collect();
    server.wait_for_metric("revcast_watchers", 20);
    let write = |name: &str| {
        let before = server.metric("revcast_messages_serialized_total");
        let object = json!({"metadata": {"name": name}, "data": {"k": "1"}});
        assert_eq!(client.send("POST", "/api/v1/namespaces/c/configmaps", &object).status, 201);
        before
    };
    let mut all_see = |name: &str, columns: bool| {
        let mut rows = watches.iter_mut().map(|watch| {
            let (kind, table) = watch.next_event();
            assert_eq!((kind.as_str(), &table["rows"][0]["cells"][0]), ("ADDED", &json!(name)));
            assert_eq!(table["columnDefinitions"].is_array(), columns, "{name}");
            table.to_string()
        });
        let first = rows.next().unwrap();
        assert!(rows.all(|row| row == first), "every watcher sees the same");
    };
    // The object itself, and the Table that names the columns to the twenty.
    let before = write("one");
    all_see("one", true);
    assert_eq!(server.metric("revcast_messages_serialized_total"), before + 2);
    for number in 2..10 {
        let name = format!("n{number}");
        let before = write(&name);
        all_see(&name, false);
        assert_eq!(server.metric("revcast_messages_serialized_total"), before + 2, "{name}");
    }
}
