//! Limits of etcd: sizes, room, leases.

use std::time::{Duration, Instant};

use revcast_tests::etcd::{Options, Release};
use serde_json::json;

use super::{CONFIG_MAPS, config_map, pair, short};

#[test]
fn an_object_that_etcd_does_not_take_is_too_large() {
    let options = Options { request_bytes_max: Some(64 << 10), ..Options::default() };
    let pair = pair(Release::V3_5, options, &[]);
    let client = pair.server.client();
    let large = json!({"metadata": {"name": "large"}, "data": {"k": "x".repeat(100 << 10)}});
    let reply = client.send("POST", CONFIG_MAPS, &large);
    assert_eq!(reply.status, 413, "{}", reply.text());
    assert_eq!(client.send("POST", CONFIG_MAPS, &json!({"metadata": {"name": "small"}})).status, 201);
}

#[test]
fn a_full_etcd_refuses_writes_and_watches_go_on() {
    let options = Options { quota_bytes: Some(2 << 20), ..Options::default() };
    let pair = pair(Release::V3_4, options, &[]);
    let client = pair.server.client();
    let mut watch = client.watch(&format!("{CONFIG_MAPS}?watch=1")).unwrap();
    let mut made = 0;
    let refused = (0..200)
        .map(|number| {
            let body =
                json!({"metadata": {"name": format!("m-{number}")}, "data": {"k": "x".repeat(60 << 10)}});
            client.send("POST", CONFIG_MAPS, &body)
        })
        .inspect(|reply| made += usize::from(reply.status == 201))
        .find(|reply| reply.status != 201)
        .expect("the quota is reached");
    assert_eq!(refused.status, 507, "{}", refused.text());
    assert!(refused.text().contains("space exceeded"), "{}", refused.text());
    assert_eq!(watch.events(made).len(), made);
    assert_eq!(client.get(&format!("{CONFIG_MAPS}?limit=1")).status, 200, "reads go on");
}

#[test]
fn what_has_a_lease_ends_with_it() {
    let pair = pair(Release::V3_4, Options::default(), &["--event-ttl", "2s"]);
    let client = pair.server.client();
    let mut watch = client.watch("/api/v1/namespaces/a/events?watch=1").unwrap();
    let began = Instant::now();
    for name in ["e1", "e2"] {
        let reply = client.send("POST", "/api/v1/namespaces/a/events", &json!({"metadata": {"name": name}}));
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
    assert_eq!(watch.events(2).iter().map(short).collect::<Vec<_>>(), ["ADDED e1", "ADDED e2"]);
    let mut gone: Vec<String> = watch.events(2).iter().map(short).collect();
    gone.sort();
    assert_eq!(gone, ["DELETED e1", "DELETED e2"]);
    assert!(began.elapsed() >= Duration::from_secs(2), "never early: {:?}", began.elapsed());
    // A lease is shared for a twentieth of its time: for 100 ms.
    let leases = pair.server.metric("revcast_source_leases_total");
    assert!((1..=2).contains(&leases), "{leases}");
}

#[test]
fn one_lease_serves_what_is_written_together() {
    let pair = pair(Release::V3_4, Options::default(), &["--event-ttl", "1h"]);
    let client = pair.server.client();
    for name in ["e1", "e2", "e3"] {
        let reply = client.send("POST", "/api/v1/namespaces/a/events", &json!({"metadata": {"name": name}}));
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
    assert_eq!(pair.server.metric("revcast_source_leases_total"), 1);
}

#[test]
fn who_loses_a_race_is_told() {
    let pair = pair(Release::V3_5, Options::default(), &[]);
    let (client, control) = (pair.server.client(), pair.etcd.control());
    let made = client.send("POST", CONFIG_MAPS, &json!({"metadata": {"name": "x"}})).json();
    assert_eq!(client.send("POST", CONFIG_MAPS, &json!({"metadata": {"name": "x"}})).status, 409);
    control.put("/registry/configmaps/a/x", config_map("x", "theirs")).unwrap();
    // The writer's copy is old: whether or not the cache has seen the other write.
    let mut mine = made.clone();
    mine["data"] = json!({"k": "mine"});
    assert_eq!(client.send("PUT", &format!("{CONFIG_MAPS}/x"), &mine).status, 409);
    // Without a version the update is made on the current object.
    mine["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    mine["metadata"].as_object_mut().unwrap().remove("uid");
    let put = client.send("PUT", &format!("{CONFIG_MAPS}/x"), &mine);
    assert_eq!((put.status, put.json()["data"]["k"].clone()), (200, json!("mine")));
    assert_eq!(client.send("DELETE", &format!("{CONFIG_MAPS}/x"), &json!({})).status, 200);
    assert_eq!(client.send("DELETE", &format!("{CONFIG_MAPS}/x"), &json!({})).status, 404);
    assert_eq!(control.get("/registry/configmaps/a/x").unwrap().map(|entry| entry.value), None);
}
