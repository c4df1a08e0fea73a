//! What a client asks before it asks for objects: discovery in its three forms, versions, health, declared resources.

use revcast_tests::server::Server;
use serde_json::{Value, json};

use crate::{names, revision, told};

const AGGREGATED: (&str, &str) =
    ("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json");
const WIDGETS: &str = "example.com/v1/widgets/Widget/namespaced";
const PLANETS: &str = "example.com/v1/planets/Planet/cluster";

/// The resource of this name in an `APIResourceList`.
fn find(list: &Value, name: &str) -> Value {
    let found = list["resources"].as_array().unwrap().iter().find(|resource| resource["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {list}")).clone()
}

#[test]
fn three_forms() {
    let server = Server::start(&["--resource", WIDGETS, "--resource", PLANETS]);
    let client = server.client();
    assert_eq!(client.get("/api").json()["versions"], json!(["v1"]));
    let groups = client.get("/apis").json();
    assert_eq!(groups["kind"], "APIGroupList");
    let group_names: Vec<&str> =
        groups["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap()).collect();
    for group in ["apps", "batch", "coordination.k8s.io", "discovery.k8s.io", "example.com"] {
        assert!(group_names.contains(&group), "{group} in {group_names:?}");
    }
    let core = client.get("/api/v1").json();
    assert_eq!(core["kind"], "APIResourceList");
    let maps = find(&core, "configmaps");
    assert_eq!(
        (&maps["kind"], &maps["namespaced"], &maps["shortNames"]),
        (&json!("ConfigMap"), &json!(true), &json!(["cm"]))
    );
    for verb in ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"] {
        assert!(maps["verbs"].as_array().unwrap().contains(&json!(verb)), "{verb}");
    }
    let declared = client.get("/apis/example.com/v1").json();
    assert_eq!(find(&declared, "widgets")["namespaced"], true);
    assert_eq!(find(&declared, "planets")["namespaced"], false);

    for path in ["/api", "/apis"] {
        let reply = client.request("GET", path, &[AGGREGATED], &[]);
        assert_eq!(reply.json()["kind"], "APIGroupDiscoveryList", "{path}");
        assert!(reply.header("content-type").unwrap().contains("as=APIGroupDiscoveryList"));
        assert_eq!(reply.header("vary"), Some("Accept"));
        let etag = reply.header("etag").expect("an ETag").to_owned();
        let again = client.request("GET", path, &[AGGREGATED, ("If-None-Match", &etag)], &[]);
        assert_eq!((again.status, again.body.len()), (304, 0));
    }
}

#[test]
fn versions_and_health() {
    let server = Server::start(&[]);
    let client = server.client();
    let version = client.get("/version").json();
    assert_eq!(version["major"], "1");
    assert!(version["gitVersion"].as_str().unwrap().starts_with("v1."));
    for check in ["/healthz", "/livez", "/readyz", "/livez/ping", "/readyz/ping"] {
        let reply = client.get(check);
        assert_eq!((reply.status, reply.text().as_str()), (200, "ok"), "{check}");
        assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"), "{check}");
    }
    assert!(client.get("/readyz?verbose").text().ends_with("readyz check passed\n"));
    assert!(client.get("/readyz?verbose&exclude=ping").text().contains("[+]ping excluded: ok\n"));
    assert_eq!(client.get("/livez/nothing").status, 404);
    assert_eq!(server.admin_client().get("/readyz").status, 200);
    let metrics = server.admin_client().get("/metrics");
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    for name in [
        "revcast_watchers",
        "revcast_events_sent_total",
        "revcast_frames_serialized_total",
        "revcast_revision",
    ] {
        let _ = server.metric(name);
    }
    assert_eq!(client.get("/metrics").status, 404, "operators have a listener of their own");
    assert!(server.greeting.len() < 10, "{:?}", server.greeting);
}

#[test]
fn declared_resources_are_as_good_as_others() {
    let server = Server::start(&["--resource", WIDGETS, "--resource", PLANETS]);
    let client = server.client();
    let planets = "/apis/example.com/v1/planets";
    let mut watch =
        client.watch(&format!("{planets}?watch=1&resourceVersion={}", crate::newest(&client))).unwrap();
    let mars = json!({"apiVersion": "example.com/v1", "kind": "Planet", "metadata": {"name": "mars"}, "spec": {"moons": 2}});
    let made = client.send("POST", planets, &mars);
    assert_eq!(made.status, 201, "{}", made.text());
    assert!(made.json()["metadata"].get("namespace").is_none());
    let widget = json!({"metadata": {"name": "w"}, "spec": {"size": 1}});
    let widgets = "/apis/example.com/v1/namespaces/d/widgets";
    assert_eq!(client.send("POST", widgets, &widget).status, 201);
    let patch = json!([{"op": "replace", "path": "/spec/moons", "value": 3}]);
    assert_eq!(client.patch(&format!("{planets}/mars"), "json-patch", &patch).status, 200);
    assert_eq!(client.request("DELETE", &format!("{planets}/mars"), &[], &[]).status, 200);
    let seen = watch.events(3);
    assert_eq!(seen.iter().map(told).collect::<Vec<_>>(), ["ADDED mars", "MODIFIED mars", "DELETED mars"]);
    assert_eq!((&seen[0].1["kind"], &seen[0].1["apiVersion"]), (&json!("Planet"), &json!("example.com/v1")));
    assert_eq!(seen[2].1["spec"]["moons"], 3);
    assert_eq!(revision(&seen[2].1), revision(&made.json()) + 3);
    let list = client.get("/apis/example.com/v1/widgets").json();
    assert_eq!((&list["kind"], names(&list)), (&json!("WidgetList"), vec!["w".to_owned()]));
    // Where a resource has no namespaces, or needs one.
    assert_eq!(client.get("/apis/example.com/v1/namespaces/d/planets").status, 404);
    assert_eq!(client.send("POST", "/apis/example.com/v1/widgets", &widget).status, 405);
    // A list of theirs carries kinds in its items, as custom resources do.
    assert_eq!(list["items"][0]["kind"], "Widget");
}
