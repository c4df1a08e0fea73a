//! Keys and values: where objects are stored, and errors for values that cannot be read.

use revcast_tests::etcd::{Op, Options, Release};
use serde_json::{Value, json};

use super::{CONFIG_MAPS, config_map, eventually, pair, short};

#[test]
fn objects_lie_where_kubernetes_puts_them() {
    let flags = ["--resource", "example.com/v1/widgets/Widget/namespaced"];
    let pair = pair(Release::V3_4, Options::default(), &flags);
    let (client, control) = (pair.server.client(), pair.etcd.control());
    for (collection, kind, key) in [
        ("/api/v1/namespaces/a/configmaps", "ConfigMap", "/registry/configmaps/a/x"),
        ("/api/v1/namespaces/a/services", "Service", "/registry/services/specs/a/x"),
        ("/api/v1/namespaces/a/endpoints", "Endpoints", "/registry/services/endpoints/a/x"),
        ("/api/v1/nodes", "Node", "/registry/minions/x"),
        ("/api/v1/namespaces/a/replicationcontrollers", "ReplicationController", "/registry/controllers/a/x"),
        ("/apis/networking.k8s.io/v1/namespaces/a/ingresses", "Ingress", "/registry/ingress/a/x"),
        ("/apis/apps/v1/namespaces/a/deployments", "Deployment", "/registry/deployments/a/x"),
        ("/apis/example.com/v1/namespaces/a/widgets", "Widget", "/registry/example.com/widgets/a/x"),
    ] {
        let reply = client.send("POST", collection, &json!({"metadata": {"name": "x"}}));
        assert_eq!(reply.status, 201, "{collection}: {}", reply.text());
        let stored = control.get(key).unwrap().unwrap_or_else(|| panic!("nothing is at {key}"));
        let value: Value = serde_json::from_slice(&stored.value).unwrap();
        assert_eq!(value["kind"], kind);
        // As in Kubernetes, the version is not in the value: it is the key's.
        assert_eq!(value["metadata"]["resourceVersion"], Value::Null);
        assert_eq!(reply.json()["metadata"]["resourceVersion"], stored.mod_revision.to_string());
        // And objects that others write there are found.
        let changed = String::from_utf8(stored.value).unwrap().replace("\"name\":\"x\"", "\"name\":\"y\"");
        let at = control.put(&key.replace("/x", "/y"), &changed).unwrap();
        let got = client.get(&format!("{collection}/y"));
        assert_eq!(
            (got.status, got.json()["metadata"]["resourceVersion"].clone()),
            (200, json!(at.to_string()))
        );
    }
    // Foreign keys are skipped, and counted.
    for key in [
        "/registry/masterleases/10.0.0.1",
        "/registry/configmaps/odd",
        "compact_rev_key",
        "/other/configmaps/a/x",
    ] {
        control.put(key, "not for us").unwrap();
    }
    assert_eq!(client.get("/api/v1/configmaps").json()["items"].as_array().unwrap().len(), 2);
    eventually("the count of foreign keys", || {
        pair.server.metric("revcast_source_events_ignored_total") == 4
    });
}

#[test]
fn another_prefix_is_another_world() {
    let pair = pair(Release::V3_5, Options::default(), &["--etcd-prefix", "/clusters/one/"]);
    let (client, control) = (pair.server.client(), pair.etcd.control());
    control.put("/registry/configmaps/a/theirs", config_map("theirs", "1")).unwrap();
    control.put("/clusters/one/configmaps/a/ours", config_map("ours", "1")).unwrap();
    let list = client.get(CONFIG_MAPS).json();
    assert_eq!(
        (list["items"].as_array().unwrap().len(), list["items"][0]["metadata"]["name"].clone()),
        (1, json!("ours"))
    );
}

#[test]
fn a_transaction_arrives_whole() {
    let pair = pair(Release::V3_4, Options::default(), &[]);
    let (client, control) = (pair.server.client(), pair.etcd.control());
    control.put("/registry/configmaps/a/gone", config_map("gone", "1")).unwrap();
    let mut watch = client.watch(&format!("{CONFIG_MAPS}?watch=1")).unwrap();
    assert_eq!(short(&watch.next_event()), "ADDED gone");
    let (x, y) = (config_map("x", "1"), config_map("y", "1"));
    let at = control
        .txn(&[
            Op::Put("/registry/configmaps/a/x", x.as_bytes()),
            Op::Delete("/registry/configmaps/a/gone"),
            Op::Put("/registry/configmaps/a/y", y.as_bytes()),
        ])
        .unwrap();
    let events = watch.events(3);
    assert_eq!(events.iter().map(short).collect::<Vec<_>>(), ["ADDED x", "DELETED gone", "ADDED y"]);
    for (_, object) in &events {
        assert_eq!(object["metadata"]["resourceVersion"], at.to_string());
    }
    let list = client.get(CONFIG_MAPS).json();
    assert_eq!(list["metadata"]["resourceVersion"], at.to_string());
}

/// A value that is not JSON, or of another kind, is reported to each watch and list that covers it; the rest continues.
#[test]
fn a_value_that_is_none_is_told_and_the_rest_goes_on() {
    for release in Release::ALL {
        let pair = pair(release, Options::default(), &[]);
        let (client, control) = (pair.server.client(), pair.etcd.control());
        control.put("/registry/configmaps/a/good", config_map("good", "1")).unwrap();
        control
            .put("/registry/configmaps/b/other", config_map("other", "1").replace("\"a\"", "\"b\""))
            .unwrap();
        let all = "/api/v1/configmaps?watch=1";
        let watch = |path: &str| {
            let mut watch = client.watch(path).unwrap();
            assert_eq!(watch.next_event().0, "ADDED");
            watch
        };
        let mut everything = client.watch(all).unwrap();
        assert_eq!(everything.events(2).len(), 2);
        let mut selected = watch(&format!("{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name%3Dgood"));
        let mut elsewhere = watch("/api/v1/namespaces/b/configmaps?watch=1");
        for (value, says, reason) in [
            (&b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap"[..], "protobuf", "malformed"),
            (b"k8s:enc:aescbc:v1:key1:\x01\x02", "provider aescbc:v1:key1", "encrypted"),
            (b"\xd9\xd9\xf7\xa1\x44kind", "CBOR", "cbor"),
            (b"\0k8s\x01\x80\x08", "compressed", "compressed"),
            (b"\x1f\x8b\x08", "1f 8b 08", "unknown_format"),
            (b"hello", "not JSON", "malformed"),
            (b"[]", "not an object", "not_an_object"),
            (br#"{"kind":"ConfigMap","apiVersion":"v2","metadata":{}}"#, "v2 ConfigMap", "other_version"),
            (
                br#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"bad","namespace":"a"}}"#,
                "Secret",
                "other_type",
            ),
        ] {
            control.put("/registry/configmaps/a/bad", value).unwrap();
            let list = client.get(CONFIG_MAPS);
            assert_eq!(list.status, 500, "{says}: {}", list.text());
            let status = list.json();
            assert_eq!(
                (status["kind"].clone(), status["reason"].clone()),
                (json!("Status"), json!("StorageReadError"))
            );
            let message = status["message"].as_str().unwrap();
            assert!(
                message.contains("a/bad") && message.to_lowercase().contains(&says.to_lowercase()),
                "{message}"
            );
            assert_eq!(client.get(&format!("{CONFIG_MAPS}/bad")).status, 500);
            assert_eq!(
                client.get(&format!("{CONFIG_MAPS}?labelSelector=x")).status,
                500,
                "its labels are unknown"
            );
            let put =
                client.send("PUT", &format!("{CONFIG_MAPS}/bad"), &json!({"metadata": {"name": "bad"}}));
            assert_eq!(put.status, 500, "what cannot be read is not overwritten blindly");
            assert_eq!(pair.server.metric("revcast_objects_unreadable"), 1);
            let of_reason = format!("revcast_objects_unreadable{{reason=\"{reason}\"}}");
            assert_eq!(pair.server.metric(&of_reason), 1, "{of_reason}");
            let refused = client.watch(&format!("{CONFIG_MAPS}?watch=1")).unwrap().rest();
            assert_eq!(refused.iter().map(short).collect::<Vec<_>>(), ["ERROR 500"]);
        }
        // A watch on it was told once, and its stream is over.
        assert_eq!(everything.rest().iter().map(short).collect::<Vec<_>>(), ["ERROR 500"]);
        // The rest continues.
        assert_eq!(client.get(&format!("{CONFIG_MAPS}/good")).status, 200);
        assert_eq!(client.get("/api/v1/namespaces/b/configmaps").status, 200);
        assert_eq!(client.get("/api/v1/secrets").status, 200);
        control.put("/registry/configmaps/a/good", config_map("good", "2")).unwrap();
        control
            .put("/registry/configmaps/b/other", config_map("other", "2").replace("\"a\"", "\"b\""))
            .unwrap();
        assert_eq!(short(&selected.next_event()), "MODIFIED good");
        assert_eq!(short(&elsewhere.next_event()), "MODIFIED other");
        // Readable again.
        control.put("/registry/configmaps/a/bad", config_map("bad", "1")).unwrap();
        assert_eq!(client.get(CONFIG_MAPS).json()["items"].as_array().unwrap().len(), 2);
        assert_eq!(pair.server.metric("revcast_objects_unreadable"), 0);
    }
}

/// A value from before the start is reported too.
#[test]
fn a_value_that_is_none_from_the_start() {
    let etcd = revcast_tests::etcd::Etcd::start(Release::V3_5, Options::default());
    etcd.control().put("/registry/configmaps/a/bad", b"k8s\0\x0a").unwrap();
    etcd.control()
        .put(
            "/registry/secrets/a/good",
            r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"good","namespace":"a"}}"#,
        )
        .unwrap();
    let server = revcast_tests::server::Server::start(&["--etcd-endpoints", &etcd.endpoint()]);
    assert_eq!(server.client().get("/api/v1/configmaps").status, 500);
    assert_eq!(server.client().get("/api/v1/secrets").json()["items"].as_array().unwrap().len(), 1);
    etcd.control().del("/registry/configmaps/a/bad").unwrap();
    assert_eq!(server.client().get("/api/v1/configmaps").status, 200);
}

/// A resource that is kept in another etcd gets 503 with that etcd, and nothing of it is loaded.
#[test]
fn a_resource_in_another_etcd_is_not_served() {
    let overrides = "/events#http://events.example:2379,apps/deployments#";
    let pair = pair(Release::V3_5, Options::default(), &["--etcd-servers-overrides", overrides]);
    let (client, control) = (pair.server.client(), pair.etcd.control());
    control.put("/registry/events/a/old", "not for us").unwrap();
    control.put("/registry/configmaps/a/x", config_map("x", "1")).unwrap();
    eventually("the config map", || client.get(&format!("{CONFIG_MAPS}/x")).status == 200);
    for (path, says) in [
        ("/api/v1/events", "(http://events.example:2379)"),
        ("/api/v1/namespaces/a/events/old", "events cannot be served from here"),
        ("/api/v1/events?watch=1", "another etcd"),
        ("/apis/apps/v1/namespaces/a/deployments", "deployments.apps cannot be served from here"),
    ] {
        let reply = client.get(path);
        let status = reply.json();
        assert_eq!((reply.status, status["reason"].clone()), (503, json!("ServiceUnavailable")), "{path}");
        assert!(status["message"].as_str().unwrap().contains(says), "{path}: {status}");
    }
    let named = client.get("/api/v1").json();
    let mut names = named["resources"].as_array().unwrap().iter().map(|resource| resource["name"].clone());
    assert!(names.any(|name| name == "events"), "it is not taken for one that does not exist");
    assert_eq!(pair.server.metric("revcast_objects_unreadable"), 0);
}
