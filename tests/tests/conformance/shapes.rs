//! Tables and bare metadata, as requested by kubectl and metadata informers.

use revcast_tests::server::Server;
use serde_json::json;

use crate::{create, newest, update};

const TABLE: (&str, &str) = ("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json");
const METADATA: (&str, &str) = ("Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io");

#[test]
fn tables() {
    let server = Server::start(&[]);
    let client = server.client();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.7", "containerStatuses": [{"name": "c", "ready": true, "restartCount": 2, "state": {"running": {}}}]}});
    assert_eq!(client.send("POST", "/api/v1/namespaces/s/pods", &pod).status, 201);
    assert_eq!(client.send("PUT", "/api/v1/namespaces/s/pods/p/status", &pod).status, 200);
    let get = |path: &str| client.request("GET", path, &[TABLE], &[]).json();
    let table = get("/api/v1/namespaces/s/pods");
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    let columns: Vec<&str> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(columns[..7], ["Name", "Ready", "Status", "Restarts", "Age", "IP", "Node"]);
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(cells[..4], [json!("p"), json!("1/1"), json!("Running"), json!("2")]);
    assert_eq!(cells[5..7], [json!("10.0.0.7"), json!("n1")]);
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let of_one = get("/api/v1/namespaces/s/pods/p");
    // But for the age, which may be a second more.
    let mut cells_of_one = of_one["rows"][0]["cells"].as_array().unwrap().clone();
    cells_of_one[4] = cells[4].clone();
    assert_eq!(cells_of_one, *cells);
    let full = get("/api/v1/namespaces/s/pods?includeObject=Object");
    assert_eq!(full["rows"][0]["object"]["spec"]["nodeName"], "n1");
    assert_eq!(full["rows"][0]["object"]["kind"], "Pod");
}

#[test]
fn watched_tables_name_their_columns_once() {
    let server = Server::start(&["--bookmark-interval", "1s"]);
    let client = server.client();
    create(&client, "s", "one", "1");
    create(&client, "s", "two", "1");
    let path = "/api/v1/namespaces/s/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut first = client.watch_as(path, &[TABLE]).unwrap();
    let mut second = client.watch_as(path, &[TABLE]).unwrap();
    for watch in [&mut first, &mut second] {
        let events = watch.events(3);
        let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
        assert_eq!(kinds, ["ADDED", "ADDED", "BOOKMARK"]);
        let named: Vec<bool> =
            events.iter().map(|(_, table)| table["columnDefinitions"].is_array()).collect();
        assert_eq!(named, [true, false, false]);
        assert!(events[1].1["columnDefinitions"].is_null());
        assert_eq!(events[0].1["rows"][0]["cells"][0], "one");
        let mark = events[2].1.to_string();
        assert!(mark.contains(r#""k8s.io/initial-events-end":"true""#), "{mark}");
        assert_eq!(events[2].1["kind"], "Table");
    }
    let changed = update(&client, "s", "two", "2");
    for watch in [&mut first, &mut second] {
        let (kind, table) = watch.next_event();
        assert_eq!(kind, "MODIFIED");
        assert!(table["columnDefinitions"].is_null());
        assert_eq!(table["metadata"]["resourceVersion"], changed.to_string());
        assert_eq!(table["rows"][0]["object"]["metadata"]["resourceVersion"], changed.to_string());
    }
}

#[test]
fn bare_metadata() {
    let server = Server::start(&["--bookmark-interval", "1s"]);
    let client = server.client();
    let start = newest(&client);
    create(&client, "s", "one", "1");
    let path =
        format!("/api/v1/namespaces/s/configmaps?watch=1&allowWatchBookmarks=true&resourceVersion={start}");
    let mut watch = client.watch_as(&path, &[METADATA]).unwrap();
    let (kind, object) = watch.next_event();
    assert_eq!((kind.as_str(), object["kind"].as_str()), ("ADDED", Some("PartialObjectMetadata")));
    assert_eq!(object["apiVersion"], "meta.k8s.io/v1");
    assert!(object.get("data").is_none() && object["metadata"]["labels"]["app"] == "a");
    let (kind, object) = watch.next_event();
    assert_eq!((kind.as_str(), object["kind"].as_str()), ("BOOKMARK", Some("PartialObjectMetadata")));
    let got = client.request("GET", "/api/v1/namespaces/s/configmaps/one", &[METADATA], &[]).json();
    assert_eq!(got["kind"], "PartialObjectMetadata");
    assert!(got.get("data").is_none());
}
