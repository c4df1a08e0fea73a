//! Watches: where they start, what they get, and how it arrives.

use std::time::Duration;

use revcast_tests::server::Server;
use serde_json::json;

use crate::{create, delete, newest, revision, told, update};

#[test]
fn a_future_start_drops_what_is_not_newer() {
    let server = Server::start(&[]);
    let client = server.client();
    let start = create(&client, "w", "one", "0") + 3;
    let mut watch =
        client.watch(&format!("/api/v1/namespaces/w/configmaps?watch=1&resourceVersion={start}")).unwrap();
    let revisions: Vec<u64> =
        (1..=5).map(|number| update(&client, "w", "one", &number.to_string())).collect();
    let seen: Vec<u64> = watch.events(2).iter().map(|(_, object)| revision(object)).collect();
    assert_eq!(seen, revisions[3..]);
    assert!(watch.is_quiet_for(Duration::from_millis(300)));
}

#[test]
fn state_and_what_follows_without_a_seam() {
    const OBJECTS: usize = 300;
    let server = Server::start(&[]);
    let client = server.client();
    for number in 0..OBJECTS {
        create(&client, "w", &format!("n{number:03}"), "0");
    }
    std::thread::scope(|scope| {
        let writer = client.clone();
        let writing = scope.spawn(move || {
            for round in 1..=3 {
                for number in 0..OBJECTS {
                    update(&writer, "w", &format!("n{number:03}"), &round.to_string());
                }
            }
            create(&writer, "w", "the-end", "0")
        });
        let watchers: Vec<_> = (0..8_u64)
            .map(|number| {
                let client = client.clone();
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(20 * number));
                    let path = "/api/v1/namespaces/w/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
                    let mut watch = client.watch(path).unwrap();
                    let mut state = std::collections::BTreeMap::new();
                    let mut marked = None;
                    let mut last = 0;
                    loop {
                        let (kind, object) = watch.next_event();
                        let at = revision(&object);
                        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                        match (kind.as_str(), marked) {
                            ("BOOKMARK", None) => {
                                assert_eq!(object["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
                                marked = Some(at);
                                assert!(state.len() >= OBJECTS, "the mark is after the state");
                                assert!(state.values().all(|revision| *revision <= at));
                                last = at;
                                // A late one begins when everything is written.
                                if state.contains_key("the-end") {
                                    return state;
                                }
                                continue;
                            }
                            ("ADDED", None) => {
                                assert!(state.last_key_value().is_none_or(|(last, _)| *last < name), "in key order");
                            }
                            ("ADDED" | "MODIFIED", Some(_)) => {
                                assert!(at > last, "{at} after {last}");
                                last = at;
                            }
                            _ => panic!("{kind} {object}"),
                        }
                        let ends = name == "the-end";
                        state.insert(name, at);
                        if ends && marked.is_some() {
                            return state;
                        }
                    }
                })
            })
            .collect();
        let end = writing.join().unwrap();
        let list = client.get("/api/v1/namespaces/w/configmaps").json();
        let truth: std::collections::BTreeMap<String, u64> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| (item["metadata"]["name"].as_str().unwrap().to_owned(), revision(item)))
            .collect();
        assert_eq!(truth["the-end"], end);
        for watcher in watchers {
            assert_eq!(watcher.join().unwrap(), truth);
        }
    });
}

#[test]
fn state_not_older_than_a_revision_is_whole() {
    let server = Server::start(&[]);
    let client = server.client();
    create(&client, "w", "a", "0");
    let middle = create(&client, "w", "b", "0");
    create(&client, "w", "c", "0");
    let path = format!(
        "/api/v1/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion={middle}&timeoutSeconds=1"
    );
    let told_all: Vec<String> = client.watch(&path).unwrap().rest().iter().map(told).collect();
    assert_eq!(told_all, ["ADDED a", "ADDED b", "ADDED c"], "the state, not the changes since {middle}");
}

#[test]
fn pods_come_and_go_with_their_node() {
    let server = Server::start(&[]);
    let client = server.client();
    let start = newest(&client);
    let on = |node: &str| {
        client
            .watch(&format!(
                "/api/v1/pods?watch=1&resourceVersion={start}&fieldSelector=spec.nodeName%3D{node}"
            ))
            .unwrap()
    };
    let (mut one, mut two, mut unbound) = (on("node1"), on("node2"), on(""));
    let pods = "/api/v1/namespaces/w/pods";
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    assert_eq!(client.send("POST", pods, &json!({"metadata": {"name": "p1"}, "spec": spec})).status, 201);
    let patch = |body: serde_json::Value| client.patch(&format!("{pods}/p1"), "merge-patch", &body).json();
    let bound = patch(json!({"spec": {"nodeName": "node1"}}));
    let running = json!({"status": {"phase": "Running"}});
    assert_eq!(client.patch(&format!("{pods}/p1/status"), "merge-patch", &running).status, 200);
    let moved = patch(json!({"spec": {"nodeName": "node2"}}));
    assert_eq!(client.request("DELETE", &format!("{pods}/p1"), &[], &[]).status, 200);

    let seen = one.events(3);
    assert_eq!(seen.iter().map(told).collect::<Vec<_>>(), ["ADDED p1", "MODIFIED p1", "DELETED p1"]);
    assert_eq!(seen[0].1["spec"]["nodeName"], "node1");
    assert_eq!(revision(&seen[0].1), revision(&bound));
    // The last state that matched, at the revision of the change that ended it.
    assert_eq!(seen[2].1["spec"]["nodeName"], "node1");
    assert_eq!(seen[2].1["status"]["phase"], "Running");
    assert_eq!(revision(&seen[2].1), revision(&moved));

    // A pod is marked before it is deleted.
    let seen = two.events(3);
    assert_eq!(seen.iter().map(told).collect::<Vec<_>>(), ["ADDED p1", "MODIFIED p1", "DELETED p1"]);
    assert_eq!(seen[1].1["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(revision(&seen[2].1), revision(&moved) + 2);
    assert_eq!(unbound.events(2).iter().map(told).collect::<Vec<_>>(), ["ADDED p1", "DELETED p1"]);
    for watch in [&mut one, &mut two, &mut unbound] {
        assert!(watch.is_quiet_for(Duration::from_millis(200)));
    }
}

#[test]
fn what_happened_is_told_once_and_what_did_not_is_not() {
    let server = Server::start(&[]);
    let client = server.client();
    let first = create(&client, "w", "one", "same");
    let mut watch = client.watch(&format!("/api/v1/configmaps?watch=1&resourceVersion={first}")).unwrap();
    assert_eq!(update(&client, "w", "one", "same"), first, "a change that changes nothing is none");
    delete(&client, "w", "one");
    create(&client, "w", "one", "again");
    let seen = watch.events(2);
    assert_eq!(seen.iter().map(told).collect::<Vec<_>>(), ["DELETED one", "ADDED one"]);
    assert_ne!(seen[0].1["metadata"]["uid"], seen[1].1["metadata"]["uid"]);
    assert_eq!(revision(&seen[1].1), revision(&seen[0].1) + 1);
}

#[test]
fn a_large_event_is_one_chunk_and_a_burst_arrives_in_order() {
    let server = Server::start(&[]);
    let client = server.client();
    let start = newest(&client);
    let path = format!("/api/v1/namespaces/w/configmaps?watch=1&resourceVersion={start}");
    let mut large = client.watch(&path).unwrap();
    let mut burst = client.watch(&path).unwrap();
    create(&client, "w", "large", &"x".repeat(200_000));
    let chunk = large.next_chunk().unwrap().unwrap();
    assert!(chunk.len() > 200_000 && chunk.ends_with("}}\n") && chunk.starts_with(r#"{"type":"ADDED""#));
    // The client does not read while 40 MB are written.
    let written: Vec<u64> = (0..200)
        .map(|number| update(&client, "w", "large", &format!("{number}{}", "y".repeat(200_000))))
        .collect();
    assert_eq!(told(&burst.next_event()), "ADDED large");
    let seen: Vec<u64> = burst.events(200).iter().map(|(_, object)| revision(object)).collect();
    assert_eq!(seen, written);
}

#[test]
fn scopes() {
    let server = Server::start(&[]);
    let client = server.client();
    let start = newest(&client);
    let from = |path: &str| client.watch(&format!("{path}resourceVersion={start}")).unwrap();
    let mut all = from("/api/v1/configmaps?watch=1&");
    let mut space = from("/api/v1/namespaces/w/configmaps?watch=1&");
    let mut named = from("/api/v1/namespaces/w/configmaps?watch=1&fieldSelector=metadata.name%3Dtwo&");
    let mut legacy = from("/api/v1/watch/namespaces/w/configmaps/two?");
    let mut by_space = from("/api/v1/configmaps?watch=1&fieldSelector=metadata.namespace%3Dv&");
    let mut not = from("/api/v1/configmaps?watch=1&labelSelector=app+notin+(a)&");
    create(&client, "v", "two", "1");
    create(&client, "w", "one", "1");
    create(&client, "w", "two", "1");
    create(&client, "wx", "two", "1");
    let other = json!({"metadata": {"name": "free"}});
    assert_eq!(client.send("POST", "/api/v1/namespaces/w/configmaps", &other).status, 201);
    assert_eq!(client.send("POST", "/api/v1/namespaces/w/secrets", &other).status, 201);
    let names = |watch: &mut revcast_tests::client::Watch, count: usize| -> Vec<String> {
        let path = |(_, object): &(String, serde_json::Value)| {
            let field = |name: &str| object["metadata"][name].as_str().unwrap().to_owned();
            field("namespace") + "/" + &field("name")
        };
        let names = watch.events(count).iter().map(path).collect();
        assert!(watch.is_quiet_for(Duration::from_millis(100)));
        names
    };
    assert_eq!(names(&mut all, 5), ["v/two", "w/one", "w/two", "wx/two", "w/free"]);
    assert_eq!(names(&mut space, 3), ["w/one", "w/two", "w/free"]);
    assert_eq!(names(&mut named, 1), ["w/two"]);
    assert_eq!(names(&mut legacy, 1), ["w/two"]);
    assert_eq!(names(&mut by_space, 1), ["v/two"]);
    assert_eq!(names(&mut not, 1), ["w/free"]);
}

#[test]
fn the_head_of_the_reply_is_a_promise() {
    let server = Server::start(&[]);
    let client = server.client();
    let mut writer = client.connect().unwrap();
    let path =
        "/api/v1/namespaces/w/configmaps?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    for number in 0..500 {
        let start = if number % 2 == 0 { "" } else { "&resourceVersion=0" };
        if !start.is_empty() {
            // It begins at this server's state; with etcd the write before may not have come back.
            newest(&client);
        }
        let mut watch = client.watch(&format!("{path}{start}")).unwrap();
        let name = format!("n{number}");
        let body = json!({"metadata": {"name": name}}).to_string();
        let reply = writer.request("POST", "/api/v1/namespaces/w/configmaps", &[], body.as_bytes()).unwrap();
        assert_eq!(reply.status, 201);
        assert_eq!(told(&watch.next_event()), format!("ADDED {name}"), "written after the head of the reply");
    }
}
