//! What a client requests before objects: discovery in its three forms, versions, health, declared resources.

use revcast_tests::server::{Server, Store};
use serde_json::{Value, json};

use crate::{names, revision, told};

const AGGREGATED: (&str, &str) =
    ("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json");
/// The forms that kubectl 1.27 to 1.29 ask for.
const AGGREGATED_BETA: (&str, &str) =
    ("Accept", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json");
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
        assert_eq!((again.header("etag"), again.header("vary")), (Some(etag.as_str()), Some("Accept")));
        // Another form is another document.
        let beta = client.request("GET", path, &[AGGREGATED_BETA, ("If-None-Match", &etag)], &[]);
        assert_eq!((beta.status, &beta.json()["apiVersion"]), (200, &json!("apidiscovery.k8s.io/v2beta1")));
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
        "revcast_messages_serialized_total",
        "revcast_revision",
    ] {
        let _ = server.metric(name);
    }
    assert_eq!(client.get("/metrics").status, 404, "operators have a listener of their own");
    assert!(server.greeting.len() < 10, "{:?}", server.greeting);
}

/// The checks of recording 19, with their headers; kube-apiserver's other checks are for its own parts.
#[test]
fn health_is_as_recorded() {
    let server = Server::start(&[]);
    let client = server.client();
    for (path, nosniff) in [
        ("/healthz", Some("nosniff")),
        ("/livez", Some("nosniff")),
        ("/readyz", Some("nosniff")),
        ("/readyz?verbose", Some("nosniff")),
        ("/healthz/ping", None),
        ("/livez/ping", None),
        ("/readyz/shutdown", None),
        ("/readyz/poststarthook/storage-readiness", None),
    ] {
        let reply = client.get(path);
        assert_eq!(reply.status, 200, "{path}");
        assert_eq!(reply.header("cache-control"), Some("no-cache, private"), "{path}");
        assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"), "{path}");
        assert_eq!(reply.header("x-content-type-options"), nosniff, "{path}");
        assert_eq!(reply.header("content-length"), Some(reply.body.len().to_string().as_str()), "{path}");
    }
    let verbose = client.get("/readyz?verbose").text();
    // Their hooks, informers and controllers do not exist here; log cannot fail. The embedded store is in this process.
    let etcd = if Store::chosen() == Store::Embedded { "" } else { "[+]etcd ok\n" };
    assert_eq!(
        verbose,
        format!(
            "[+]ping ok\n{etcd}[+]poststarthook/storage-readiness ok\n[+]shutdown ok\nreadyz check passed\n"
        )
    );
    assert_eq!(client.get("/livez?verbose").text(), "[+]ping ok\nlivez check passed\n");
    let excluded = client.get("/readyz?verbose&exclude=log&exclude=shutdown").text();
    assert!(excluded.contains("[+]shutdown excluded: ok\n"), "{excluded}");
    assert!(excluded.contains("warn: some health checks cannot be excluded: no matches for \"log\"\n"));
    // An unreachable etcd is no reason for a restart, so liveness has no such part, unlike theirs.
    assert_eq!(client.get("/livez/etcd").status, 404);
}

#[test]
fn openapi_is_there_for_old_and_new_clients() {
    let server = Server::start(&["--resource", WIDGETS]);
    let client = server.client();
    let index = client.get("/openapi/v3").json();
    let url = index["paths"]["apis/example.com/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let widgets = client.get(&url);
    let schema = &widgets.json()["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "Widget");
    let etag = widgets.header("etag").expect("an ETag").to_owned();
    assert_eq!(client.request("GET", &url, &[("If-None-Match", &etag)], &[]).status, 304);
    // kubectl up to 1.28 refuses to create from a file without this document.
    let old = ("Accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf");
    let v2 = client.request("GET", "/openapi/v2?timeout=32s", &[old], &[]);
    assert_eq!((v2.status, &v2.body[..5]), (200, b"\x0a\x032.0".as_slice()));
    let json = client.get("/openapi/v2");
    assert_eq!((json.header("vary"), &json.json()["swagger"]), (Some("Accept"), &json!("2.0")));
    assert_ne!(json.header("etag"), v2.header("etag"));
    for (accept, code) in
        [("application/yaml", 406), ("application/vnd.kubernetes.protobuf", 406), ("*/*", 200)]
    {
        let reply = client.request("GET", "/openapi/v2", &[("Accept", accept)], &[]);
        assert_eq!(reply.status, code, "{accept}");
    }
    for path in
        ["/openapi/v3/apis/none.example/v1", "/openapi/v3/api", "/openapi/v4", "/openapi", "/swagger.json"]
    {
        assert_eq!(client.get(path).status, 404, "{path}");
    }
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
    // When a resource has no namespaces, or needs one.
    assert_eq!(client.get("/apis/example.com/v1/namespaces/d/planets").status, 404);
    assert_eq!(client.send("POST", "/apis/example.com/v1/widgets", &widget).status, 405);
    // Their lists have kinds in the items, as for custom resources.
    assert_eq!(list["items"][0]["kind"], "Widget");
}
