//! The life of a server and of objects: leases, limits, a graceful end, and a restart that no client notices.

use std::time::{Duration, Instant};

use revcast_tests::server::{Scratch, Server, embedded_only};
use serde_json::json;

use crate::{create, newest, revision, told, update};

#[test]
fn events_are_deleted_in_time() {
    let server = Server::start(&["--event-ttl", "2s"]);
    let client = server.client();
    let events = "/api/v1/namespaces/d/events";
    let mut watch = client.watch(&format!("{events}?watch=1&resourceVersion={}", newest(&client))).unwrap();
    let event = json!({"metadata": {"name": "e1"}, "involvedObject": {"kind": "Pod", "name": "p"}, "reason": "Started"});
    assert_eq!(client.send("POST", events, &event).status, 201);
    create(&client, "d", "stays", "1");
    let begun = Instant::now();
    assert_eq!(told(&watch.next_event()), "ADDED e1");
    let (kind, object) = watch.next_event();
    assert_eq!((kind.as_str(), object["reason"].as_str()), ("DELETED", Some("Started")));
    assert!(begun.elapsed() > Duration::from_secs(1), "not at once");
    assert!(client.get(events).json()["items"].as_array().unwrap().is_empty());
    assert_eq!(client.get("/api/v1/namespaces/d/configmaps/stays").status, 200);
}

/// Whether every shard has dispatched everything up to this revision, which all its watchers then get.
fn has_seen(server: &Server, revision: u64) -> bool {
    let status = server.admin_client().get("/status").json();
    let shards = status["shards"].as_array().expect("a list of shards");
    assert!(!shards.is_empty(), "{status}");
    shards.iter().all(|shard| shard["revision"].as_u64() >= Some(revision) && shard["behind"] == 0)
}

#[test]
fn sigterm_ends_watches_with_a_bookmark() {
    let server = Server::start(&[]);
    let client = server.client();
    let start = create(&client, "d", "one", "1");
    let path = "/api/v1/namespaces/d/configmaps?watch=1";
    let mut asked: Vec<_> = (0..4)
        .map(|_| client.watch(&format!("{path}&allowWatchBookmarks=true&resourceVersion={start}")).unwrap())
        .collect();
    let mut silent = client.watch(&format!("{path}&resourceVersion={start}")).unwrap();
    let mut idle = client.connect().unwrap();
    assert_eq!(idle.request("GET", "/livez", &[], &[]).unwrap().status, 200);
    let last = create(&client, "elsewhere", "one", "1");
    // With etcd a write is answered before its event has come back; what no shard has seen is in no bookmark.
    let begun = Instant::now();
    while !has_seen(&server, last) {
        assert!(begun.elapsed() < Duration::from_secs(10), "{}", server.admin_client().get("/status").text());
        std::thread::sleep(Duration::from_millis(5));
    }
    let begun = Instant::now();
    assert_eq!(server.terminate(), Some(0), "the exit code");
    // The last of five ends after 6.4 s at most; the server waits ten seconds for slow ones.
    assert!(begun.elapsed() < Duration::from_millis(9_500), "an idle connection does not hold the end up");
    for watch in &mut asked {
        let events = watch.rest();
        let (kind, object) = events.last().expect("a last bookmark");
        assert_eq!((kind.as_str(), revision(object)), ("BOOKMARK", last));
    }
    assert!(silent.rest().is_empty(), "the last chunk, nothing before it");
}

#[test]
fn a_restart_is_no_410() {
    if !embedded_only("it restarts the server on a --data-dir") {
        return;
    }
    let scratch = Scratch::new("restart");
    let options = ["--data-dir", scratch.path()];
    let server = Server::start(&options);
    let client = server.client();
    let start = create(&client, "d", "one", "0");
    let path = "/api/v1/namespaces/d/configmaps?watch=1";
    let mut watch = client.watch(&format!("{path}&resourceVersion={start}")).unwrap();
    let before: Vec<u64> = (1..=20).map(|number| update(&client, "d", "one", &number.to_string())).collect();
    let seen: Vec<u64> = watch.events(10).iter().map(|(_, object)| revision(object)).collect();
    assert_eq!(seen, before[..10]);
    let state = client.get("/api/v1/namespaces/d/configmaps").json();
    // Once gracefully and once not.
    assert_eq!(server.terminate(), Some(0));
    let server = Server::start(&options);
    let client = server.client();
    let resume = |client: &revcast_tests::client::Client| {
        let mut watch =
            client.watch(&format!("{path}&resourceVersion={}&timeoutSeconds=1", before[9])).unwrap();
        let events = watch.rest();
        assert!(events.iter().all(|(kind, _)| kind == "MODIFIED"), "{events:?}");
        events.iter().map(|(_, object)| revision(object)).collect::<Vec<u64>>()
    };
    assert_eq!(resume(&client), before[10..], "resumed where it stopped");
    let again = client.get("/api/v1/namespaces/d/configmaps").json();
    assert_eq!(again["items"], state["items"]);
    let next = update(&client, "d", "one", "after");
    assert!(next > before[19]);
    server.kill();
    let server = Server::start(&options);
    assert_eq!(resume(&server.client()), [&before[10..], &[next]].concat(), "after kill -9 too");
}

#[test]
fn no_more_watches_than_may_be() {
    let server = Server::start(&["--max-watchers", "3"]);
    let client = server.client();
    let path = "/api/v1/configmaps?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let mut open: Vec<_> = (0..3).map(|_| client.watch(path).unwrap()).collect();
    server.wait_for_metric("revcast_watchers", 3);
    let refused = client.get(path);
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")), "{}", refused.text());
    assert_eq!(refused.json()["reason"], "TooManyRequests");
    create(&client, "d", "one", "1");
    for watch in &mut open {
        assert_eq!(told(&watch.next_event()), "ADDED one");
    }
    open.pop();
    server.wait_for_metric("revcast_watchers", 2);
    let mut late = client.watch(path).unwrap();
    create(&client, "d", "two", "1");
    assert_eq!(told(&late.next_event()), "ADDED two");
}
