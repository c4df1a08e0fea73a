//! Paths: methods, resources that are not served, subresources, the deprecated `/watch/` paths, and names.

use revcast_tests::server::Server;
use serde_json::json;

use crate::{MAPS, assert_failure, initial_names, map, newest, post, revision, told};

const NOT_ALLOWED: (u16, &str, &str) =
    (405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
const UNKNOWN: (u16, &str, &str) = (404, "NotFound", "the server could not find the requested resource");

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Path, and its methods.
const PLACES: &[(&str, &str)] = &[
    ("/api/v1/namespaces/t/configmaps", "GET POST DELETE"),
    ("/api/v1/configmaps", "GET"),
    ("/api/v1/namespaces/t/configmaps/a", "GET PUT PATCH DELETE"),
    ("/api/v1/nodes", "GET POST DELETE"),
    ("/api/v1/nodes/n", "GET PUT PATCH DELETE"),
    ("/api/v1/nodes/n/status", "GET PUT PATCH"),
    ("/api/v1/namespaces/t/pods/p/status", "GET PUT PATCH"),
    ("/api/v1/namespaces", "GET POST DELETE"),
    ("/api/v1/namespaces/t", "GET PUT PATCH DELETE"),
    ("/api/v1/namespaces/t/status", "GET PUT PATCH"),
    ("/apis/apps/v1/namespaces/t/deployments", "GET POST DELETE"),
    ("/apis/apps/v1/namespaces/t/deployments/d", "GET PUT PATCH DELETE"),
    ("/apis/apps/v1/namespaces/t/deployments/d/status", "GET PUT PATCH"),
    ("/api/v1/watch/configmaps", "GET"),
    ("/api/v1/watch/namespaces/t/configmaps", "GET"),
    ("/api/v1/watch/namespaces/t/configmaps/a", "GET"),
];

/// Paths of resources and subresources that are not served, in served groups.
const NOT_SERVED: &[&str] = &[
    "/api/v1/widgets",
    "/api/v1/namespaces/t/widgets",
    "/api/v1/namespaces/t/widgets/w",
    "/api/v1/namespaces/t/widgets/w/status",
    "/api/v1/namespaces/t/ConfigMaps",
    "/api/v1/namespaces/t/configmap",
    "/api/v1/namespaces/t/cm",
    "/apis/apps/v1/pods",
    "/api/v1/watch/widgets",
    "/api/v1/watch/namespaces/t/widgets/w",
];

#[test]
fn methods() {
    let server = Server::start(&[]);
    let client = server.client();
    for (path, taken) in PLACES {
        for method in METHODS {
            // Supported methods are tested elsewhere, and would write.
            if taken.split(' ').any(|known| known == method) {
                continue;
            }
            let reply = client.request(method, path, &[("content-type", "application/json")], b"{}");
            assert_eq!(reply.header("content-type"), Some("application/json"), "{method} {path}");
            let allow = taken.replace(' ', ", ");
            assert_eq!(reply.header("allow"), Some(allow.as_str()), "{method} {path}");
            if method == "HEAD" {
                assert_eq!((reply.status, reply.body.len()), (405, 0), "{path}");
                assert_eq!(reply.header("content-length"), Some("197"), "as recorded: {path}");
            } else {
                assert_failure(&reply, NOT_ALLOWED, "{}", &format!("{method} {path}"));
            }
        }
    }
    for path in NOT_SERVED {
        for method in METHODS.iter().filter(|method| **method != "HEAD") {
            let reply = client.request(method, path, &[("content-type", "application/json")], b"{}");
            assert_failure(&reply, UNKNOWN, "{}", &format!("{method} {path}"));
        }
        assert_eq!(client.request("HEAD", path, &[], &[]).status, 404, "{path}");
        assert_failure(&client.get(&format!("{path}?watch=true")), UNKNOWN, "{}", path);
    }
    for path in [
        "/apis/nope.example/v1/widgets",
        "/apis/nope.example/v1/namespaces/t/widgets/w",
        "/apis/apps/v9/deployments",
        "/api/v2/configmaps",
        "/nothing",
        "/api/v1/namespaces/t/configmaps/a/b/c",
    ] {
        for method in ["GET", "POST", "PUT", "DELETE"] {
            let reply = client.request(method, path, &[], &[]);
            assert_eq!(
                (reply.status, reply.text().as_str()),
                (404, "404 page not found\n"),
                "{method} {path}"
            );
            assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"), "{method} {path}");
            assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{method} {path}");
        }
    }
    assert_eq!(newest(&client), newest(&client));
}

#[test]
fn parts_of_objects() {
    let server = Server::start(&[]);
    let client = server.client();
    let deployments = "/apis/apps/v1/namespaces/t/deployments";
    let made = post(
        &client,
        deployments,
        &json!({"metadata": {"name": "d", "labels": {"a": "b"}}, "spec": {"replicas": 1}}),
    );
    let (one, status) = (format!("{deployments}/d"), format!("{deployments}/d/status"));
    assert_eq!(client.get(&status).json(), made);
    for subresource in ["scale", "log", "exec", "nothing"] {
        assert_failure(&client.get(&format!("{one}/{subresource}")), UNKNOWN, "{}", subresource);
    }
    assert_failure(&client.get(&format!("{MAPS}/a/status")), UNKNOWN, "{}", "config maps have no status");
    // A watch by name is ignored, also on a subresource.
    assert_eq!(client.get(&format!("{status}?watch=true")).json(), made);
    // Only the status is written, whatever else is sent.
    let sent = json!({"metadata": {"name": "d", "labels": {"a": "c"}}, "spec": {"replicas": 9}, "status": {"replicas": 1}});
    let put = client.send("PUT", &status, &sent);
    assert_eq!(put.status, 200, "{}", put.text());
    let put = put.json();
    // Stored in protobuf, it has all that its type always has.
    assert_eq!(
        (&put["spec"], &put["spec"]["replicas"], &put["status"]),
        (&made["spec"], &json!(1), &json!({"replicas": 1}))
    );
    assert_eq!((&put["metadata"]["labels"], &put["metadata"]["generation"]), (&json!({"a": "b"}), &json!(1)));
    assert_eq!(revision(&put), revision(&made) + 1);
    let patched = client
        .patch(&status, "merge-patch", &json!({"spec": {"replicas": 7}, "status": {"readyReplicas": 1}}))
        .json();
    assert_eq!(
        (&patched["spec"], &patched["status"]),
        (&made["spec"], &json!({"replicas": 1, "readyReplicas": 1}))
    );
    let nothing = client.patch(&status, "merge-patch", &json!({"spec": {"replicas": 7}})).json();
    assert_eq!(nothing, patched, "nothing that counts: no write");
    let json_patch = json!([{"op": "replace", "path": "/status/readyReplicas", "value": 2}]);
    assert_eq!(client.patch(&status, "json-patch", &json_patch).json()["status"]["readyReplicas"], 2);
    let stale = json!({"metadata": {"name": "d", "resourceVersion": "1"}, "status": {}});
    assert_eq!(client.send("PUT", &status, &stale).status, 409);
    assert_eq!(
        client
            .send("PUT", &format!("{deployments}/none/status"), &json!({"metadata": {"name": "none"}}))
            .status,
        404
    );
    // The main path counts changes of the spec, not of the status.
    let wish = client.patch(&one, "merge-patch", &json!({"spec": {"replicas": 2}})).json();
    assert_eq!(wish["metadata"]["generation"], 2);
    let label = client.patch(&one, "merge-patch", &json!({"metadata": {"labels": {"x": "y"}}})).json();
    assert_eq!(label["metadata"]["generation"], 2);
}

#[test]
fn deprecated_watches_and_single_names() {
    let server = Server::start(&[]);
    let client = server.client();
    let start = newest(&client);
    for (namespace, name) in [("t", "a"), ("t", "b"), ("u", "a")] {
        post(
            &client,
            &format!("/api/v1/namespaces/{namespace}/configmaps"),
            &map(name, &json!({"app": name})),
        );
    }
    post(&client, "/api/v1/nodes", &json!({"metadata": {"name": "n"}}));
    for (path, expected) in [
        ("/api/v1/watch/configmaps", "a b a"),
        ("/api/v1/watch/namespaces/t/configmaps", "a b"),
        ("/api/v1/watch/namespaces/t/configmaps/a", "a"),
        ("/api/v1/watch/namespaces/t/configmaps/none", ""),
        ("/api/v1/watch/namespaces/nowhere/configmaps", ""),
        ("/api/v1/watch/nodes", "n"),
        ("/api/v1/watch/nodes/n", "n"),
        ("/api/v1/watch/configmaps?labelSelector=app%3Db", "b"),
        ("/api/v1/watch/configmaps?watch=false", "a b a"),
        ("/api/v1/watch/configmaps?watch=0", "a b a"),
        ("/api/v1/watch/namespaces/t/configmaps/a?labelSelector=app%3Db", ""),
        ("/api/v1/watch/namespaces/t/configmaps/a?fieldSelector=metadata.name%3Da", "a"),
        (
            "/api/v1/watch/namespaces/t/configmaps/a?fieldSelector=metadata.name%3Da,metadata.namespace%3Dt",
            "a",
        ),
        ("/api/v1/configmaps?fieldSelector=metadata.name%3Da", "a a"),
        ("/api/v1/namespaces/t/configmaps?fieldSelector=metadata.name%3Da", "a"),
        ("/api/v1/nodes?fieldSelector=metadata.name%3Dn", "n"),
    ] {
        assert_eq!(initial_names(&client, path), expected, "{path}");
        let mark = if path.contains('?') { '&' } else { '?' };
        let from = format!("{path}{mark}watch=1&resourceVersion={start}&timeoutSeconds=-1");
        assert!(client.watch(&from).is_ok(), "{path}");
    }
    for selector in [
        "metadata.name%3Dz",
        "metadata.name!%3Da",
        "metadata.namespace%3Dt",
        "metadata.name%3Da,metadata.name%3Db",
    ] {
        let path = format!("/api/v1/watch/namespaces/t/configmaps/a?fieldSelector={selector}");
        let failure = (400, "BadRequest", "fieldSelector metadata.name doesn't match requested name");
        assert_failure(&client.get(&path), failure, "", &path);
    }
    // By name a watch is a GET, whatever the query.
    for query in [
        "watch=true",
        "watch=1&resourceVersion=0",
        "watch=true&labelSelector=%3D&fieldSelector=x&limit=x&timeoutSeconds=x",
    ] {
        let reply = client.get(&format!("{MAPS}/a?{query}"));
        assert_eq!((reply.status, &reply.json()["metadata"]["name"]), (200, &json!("a")), "{query}");
    }
    // A namespaced resource by name needs its namespace.
    assert_eq!(client.get("/api/v1/configmaps/a").status, 404);
    assert_eq!(client.get("/api/v1/watch/configmaps/a").status, 404);
    assert_eq!(client.get("/api/v1/namespaces/t/nodes").status, 404);
    // A watch of one name gets events of that name only.
    let mut one = client
        .watch(&format!("{MAPS}?watch=1&fieldSelector=metadata.name%3Db&resourceVersion={}", newest(&client)))
        .unwrap();
    for name in ["a", "b", "a"] {
        let reply = client.patch(
            &format!("{MAPS}/{name}"),
            "merge-patch",
            &json!({"data": {"n": newest(&client).to_string()}}),
        );
        assert_eq!(reply.status, 200);
    }
    assert_eq!(client.request("DELETE", &format!("{MAPS}/b"), &[], &[]).status, 200);
    assert_eq!(one.events(2).iter().map(told).collect::<Vec<_>>(), ["MODIFIED b", "DELETED b"]);
}
