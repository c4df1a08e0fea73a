//! Revisions across restarts: a client continues from its revision if the store is the same, and gets 410 if it is
//! not: in memory, with a data directory that was lost, and with an older copy of it.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use revcast_tests::client::Client;
use revcast_tests::server::{Scratch, Server, embedded_only};
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/r/configmaps";

/// The state of a client when the server ends.
struct Held {
    /// The revision of its list.
    revision: u64,
    /// Where that list continues.
    token: String,
}

fn create(client: &Client, name: &str) -> u64 {
    let reply = client.send("POST", MAPS, &json!({"metadata": {"name": name}}));
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Creates three objects and lists the first of all.
fn hold(client: &Client, prefix: &str) -> Held {
    let revision = (0..3).map(|n| create(client, &format!("{prefix}{n}"))).max().unwrap();
    let list = client.get(&format!("{MAPS}?limit=1")).json();
    assert_eq!(list["metadata"]["resourceVersion"], revision.to_string());
    Held { revision, token: list["metadata"]["continue"].as_str().unwrap().to_owned() }
}

/// The replies for a client with this state: to a watch, to two exact lists, to the next page; and to a list and a read
/// that may be newer.
fn told(client: &Client, held: &Held) -> ([u64; 4], [u64; 2]) {
    let revision = held.revision;
    let watch = client.watch(&format!("{MAPS}?watch=1&resourceVersion={revision}&timeoutSeconds=1"));
    let events = watch.unwrap().rest();
    let watched = match events.last() {
        Some((kind, object)) if kind == "ERROR" => object["code"].as_u64().unwrap(),
        _ => 200,
    };
    let status = |query: &str| u64::from(client.get(&format!("{MAPS}?{query}")).status);
    let exact = status(&format!("resourceVersionMatch=Exact&resourceVersion={revision}"));
    let implied = status(&format!("limit=2&resourceVersion={revision}"));
    let page = status(&format!("limit=2&continue={}", held.token));
    let newer = status(&format!("resourceVersionMatch=NotOlderThan&resourceVersion={revision}"));
    ([watched, exact, implied, page], [newer, status(&format!("resourceVersion={revision}"))])
}

const SERVED: ([u64; 4], [u64; 2]) = ([200; 4], [200; 2]);
/// After a new list it continues.
const EXPIRED: ([u64; 4], [u64; 2]) = ([410; 4], [200; 2]);

/// A client that lists again is served, and gets later changes.
fn goes_on(client: &Client) {
    let start = client.newest();
    let mut watch = client.watch(&format!("{MAPS}?watch=1&resourceVersion={start}")).unwrap();
    let revision = create(client, &format!("new-{start}"));
    assert!(revision > start);
    assert_eq!(watch.next_event().1["metadata"]["resourceVersion"], revision.to_string());
}

#[test]
fn in_memory_nothing_of_the_life_before_is_answered() {
    if !embedded_only("its store ends with it") {
        return;
    }
    let server = Server::start(&[]);
    let held = hold(&server.client(), "a");
    assert_eq!(told(&server.client(), &held), SERVED);
    server.kill();

    let server = Server::start(&[]);
    assert!(server.client().newest() > held.revision, "revisions never go back");
    assert_eq!(told(&server.client(), &held), EXPIRED);
    goes_on(&server.client());
    assert_eq!(told(&server.client(), &held), EXPIRED, "also when there is a history again");
}

#[test]
fn a_data_dir_goes_on_and_a_lost_or_older_one_says_so() {
    if !embedded_only("it starts the server on its --data-dir") {
        return;
    }
    let scratch = Scratch::new("restarts");
    let (data, copy) = (format!("{}/data", scratch.path()), format!("{}/copy", scratch.path()));
    let file = |dir: &str| Path::new(dir).join("revcast.redb");
    let start = || Server::start(&["--data-dir", &data]);

    let server = start();
    let first = hold(&server.client(), "a");
    server.kill();

    // After a crash, and after a graceful end: a client that resumes misses nothing, from any revision.
    let server = start();
    let client = server.client();
    let born = client.newest();
    assert!(born > first.revision);
    assert_eq!(told(&client, &first), SERVED);
    let from = first.revision - 2;
    let mut watch = client.watch(&format!("{MAPS}?watch=1&resourceVersion={from}")).unwrap();
    let next = create(&client, "b");
    let seen: Vec<_> = watch
        .events(3)
        .into_iter()
        .map(|(_, object)| object["metadata"]["resourceVersion"].clone())
        .collect();
    assert_eq!(seen, [from + 1, from + 2, next].map(|revision| json!(revision.to_string())));
    drop(watch);
    assert_eq!(server.terminate(), Some(0));
    std::fs::create_dir(&copy).unwrap();
    std::fs::copy(file(&data), file(&copy)).unwrap();

    let server = start();
    let client = server.client();
    assert_eq!(told(&client, &first), SERVED);
    let born = Held { revision: born, token: first.token.clone() };
    assert_eq!(told(&client, &born), SERVED, "a life began there, and a client may have listed it");
    let lost = hold(&client, "c");
    goes_on(&client);
    assert_eq!(server.terminate(), Some(0));

    // The copy has the first starts, and not the lost one.
    std::fs::copy(file(&copy), file(&data)).unwrap();
    let server = start();
    let client = server.client();
    assert!(client.newest() > lost.revision);
    assert_eq!((told(&client, &first), told(&client, &born)), (SERVED, SERVED));
    assert_eq!(told(&client, &lost), EXPIRED);
    goes_on(&client);
    assert_eq!(told(&client, &lost), EXPIRED);
    assert_eq!(server.terminate(), Some(0));

    std::fs::remove_dir_all(&data).unwrap();
    let server = start();
    let client = server.client();
    for held in [&first, &born, &lost] {
        assert_eq!(told(&client, held), EXPIRED);
    }
    goes_on(&client);
}
