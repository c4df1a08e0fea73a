//! Odd requests that might confuse the server.

use revcast_tests::client::Client;
use revcast_tests::server::Server;
use serde_json::{Value, json};

use crate::{MAPS, map, names, newest, post, revision, told};

/// Name, request, status, and a part of the reply.
type Row = (&'static str, &'static str, &'static str, u16, &'static str);

/// Of requests without a body on: `t/a` (app=a), `t/a.b`, `t/b` (app=b), `u/a`, ClusterRole `system:x`, Node `n`.
const ROWS: &[Row] = &[
    ("a slash after a collection", "GET", "/api/v1/namespaces/t/configmaps/", 200, "ConfigMapList"),
    ("a slash after an object", "GET", "/api/v1/namespaces/t/configmaps/a/", 200, "\"name\":\"a\""),
    ("two slashes", "GET", "/api/v1/namespaces/t//configmaps", 404, "404 page not found"),
    ("an empty namespace", "GET", "/api/v1/namespaces//configmaps", 400, "namespace"),
    ("an escaped dot", "GET", "/api/v1/namespaces/t/configmaps/a%2Eb", 200, "\"name\":\"a.b\""),
    ("an escaped letter", "GET", "/api/v1/%6eamespaces/t/configm%61ps/%61", 200, "\"name\":\"a\""),
    ("an escaped slash", "GET", "/api/v1/namespaces/t/configmaps%2Fa", 400, ""),
    ("a percent sign", "GET", "/api/v1/namespaces/t/configmaps/a%25", 400, "may not contain '%'"),
    (
        "a name that nothing can have",
        "GET",
        "/api/v1/namespaces/t/configmaps/NOT_A_NAME",
        404,
        "configmaps \\\"NOT_A_NAME\\\" not found",
    ),
    ("a colon in a name", "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:x", 200, "system:x"),
    (
        "an escaped colon",
        "GET",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Ax",
        200,
        "system:x",
    ),
    (
        "a name of 300 letters",
        "GET",
        "/api/v1/namespaces/t/configmaps/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        400,
        "",
    ),
    ("a group in the wrong place", "GET", "/api/apps/v1/deployments", 404, ""),
    ("a group without versions", "GET", "/apis/apps", 200, "\"kind\":\"APIGroup\""),
    ("an unknown version of a group", "GET", "/apis/apps/v1beta1", 404, ""),
    ("an object of all namespaces", "GET", "/api/v1/configmaps/a", 404, "could not find"),
    ("an object in a namespace that has none", "GET", "/api/v1/namespaces/t/nodes/n", 404, "could not find"),
    ("watch as a name", "GET", "/api/v1/watch", 404, ""),
    ("a namespace called watch", "GET", "/api/v1/namespaces/watch/configmaps", 200, "\"items\":[]"),
    ("a namespace called status", "GET", "/api/v1/namespaces/status/configmaps", 200, "\"items\":[]"),
    ("an object called status", "GET", "/api/v1/namespaces/t/configmaps/status", 404, "not found"),
    ("a namespace's finalize", "GET", "/api/v1/namespaces/t/finalize", 404, "could not find"),
    ("a fragment in the query", "GET", "/api/v1/namespaces/t/configmaps?limit=1%23", 400, "invalid syntax"),
    ("only ampersands", "GET", "/api/v1/namespaces/t/configmaps?&&&", 200, "ConfigMapList"),
    ("a value without a name", "GET", "/api/v1/namespaces/t/configmaps?=x", 200, "ConfigMapList"),
    ("a second question mark", "GET", "/api/v1/namespaces/t/configmaps?limit=1?", 400, "parsing \\\"1?\\\""),
    ("a broken escape", "GET", "/api/v1/namespaces/t/configmaps?labelSelector=%zz", 400, ""),
    ("bytes that are no text", "GET", "/api/v1/namespaces/t/configmaps?labelSelector=%ff", 400, ""),
    ("a NUL", "GET", "/api/v1/namespaces/t/configmaps?labelSelector=%00", 400, ""),
    (
        "a version with a sign",
        "GET",
        "/api/v1/namespaces/t/configmaps?resourceVersion=%2B5",
        400,
        "parsing \\\"+5\\\": invalid syntax",
    ),
    (
        "a version with a plus for a space",
        "GET",
        "/api/v1/namespaces/t/configmaps?resourceVersion=+5",
        400,
        "parsing \\\" 5\\\": invalid syntax",
    ),
    (
        "a version with an underscore",
        "GET",
        "/api/v1/namespaces/t/configmaps?resourceVersion=1_0",
        400,
        "invalid syntax",
    ),
    (
        "a version in other digits",
        "GET",
        "/api/v1/namespaces/t/configmaps?resourceVersion=%D9%A3",
        400,
        "invalid syntax",
    ),
    (
        "a version with a quote",
        "GET",
        "/api/v1/namespaces/t/configmaps?resourceVersion=%22",
        400,
        r#"Invalid value: \"\\\"\": strconv.ParseUint: parsing \"\\\"\": invalid"#,
    ),
    (
        "a version of a GET in words",
        "GET",
        "/api/v1/namespaces/t/configmaps/none?resourceVersion=latest",
        400,
        "parsing \\\"latest\\\"",
    ),
    (
        "a version of a WATCH in words",
        "GET",
        "/api/v1/namespaces/t/configmaps?watch=1&resourceVersion=latest",
        400,
        "\"reason\":\"BadRequest\"",
    ),
    (
        "versions twice",
        "GET",
        "/api/v1/namespaces/t/configmaps?resourceVersion=0&resourceVersion=abc",
        200,
        "ConfigMapList",
    ),
    (
        "a selector on one name, a page of one",
        "GET",
        "/api/v1/namespaces/t/configmaps?fieldSelector=metadata.name%3Da&limit=1",
        200,
        "\"items\":[{\"metadata\":{\"name\":\"a\"",
    ),
    (
        "a selector that contradicts the namespace",
        "GET",
        "/api/v1/namespaces/t/configmaps?fieldSelector=metadata.namespace%3Du,metadata.name%3Da",
        200,
        "\"items\":[]",
    ),
    (
        "in and not in",
        "GET",
        "/api/v1/namespaces/t/configmaps?labelSelector=app+in+(a),app+notin+(a)",
        200,
        "\"items\":[]",
    ),
    (
        "a field of another type",
        "GET",
        "/api/v1/namespaces/t/configmaps?fieldSelector=spec.nodeName%3Dn",
        400,
        "is not a known field selector",
    ),
    (
        "fields are not labels",
        "GET",
        "/api/v1/namespaces/t/configmaps?labelSelector=metadata.name%3Da",
        200,
        "\"items\":[]",
    ),
    (
        "a field with a set",
        "GET",
        "/api/v1/namespaces/t/configmaps?fieldSelector=metadata.name+in+(a)",
        400,
        "can't understand",
    ),
    ("a body on a GET", "GET", "/api/v1/namespaces/t/configmaps?limit=1", 200, "ConfigMapList"),
    ("a DELETE of what is not there", "DELETE", "/api/v1/namespaces/t/configmaps/none", 404, "not found"),
    ("a DELETE of everything everywhere", "DELETE", "/api/v1/configmaps", 405, "MethodNotAllowed"),
    ("a DELETE of a part", "DELETE", "/api/v1/nodes/n/status", 405, "MethodNotAllowed"),
    ("a DELETE of a watch", "DELETE", "/api/v1/watch/namespaces/t/configmaps/a", 405, "MethodNotAllowed"),
    ("a POST on an object", "POST", "/api/v1/namespaces/t/configmaps/a", 405, "MethodNotAllowed"),
    ("a POST of nothing", "POST", "/api/v1/namespaces/t/configmaps", 400, "BadRequest"),
    ("a PUT of nothing", "PUT", "/api/v1/namespaces/t/configmaps/a", 400, "BadRequest"),
    ("a PATCH without a type", "PATCH", "/api/v1/namespaces/t/configmaps/a", 415, "UnsupportedMediaType"),
    ("TRACE", "TRACE", "/api/v1/namespaces/t/configmaps", 405, ""),
    ("an invented method", "BREW", "/api/v1/namespaces/t/configmaps", 405, ""),
];

#[test]
fn requests() {
    let server = Server::start(&[]);
    let client = server.client();
    for (namespace, name, app) in [("t", "a", "a"), ("t", "a.b", "-"), ("t", "b", "b"), ("u", "a", "a")] {
        let labels = if app == "-" { json!({}) } else { json!({"app": app}) };
        post(&client, &format!("/api/v1/namespaces/{namespace}/configmaps"), &map(name, &labels));
    }
    post(
        &client,
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        &json!({"metadata": {"name": "system:x"}}),
    );
    post(&client, "/api/v1/nodes", &json!({"metadata": {"name": "n"}}));
    let before = newest(&client);
    let mut wrong = Vec::new();
    for (what, method, path, status, part) in ROWS {
        let body: &[u8] = if what.contains("a body on") { b"{}" } else { b"" };
        let reply = client.request(method, path, &[], body);
        if reply.status != *status || !reply.text().contains(part) {
            wrong.push(format!("{what}: {method} {path}: {} {}", reply.status, reply.text()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(newest(&client), before);
}

/// Name, the `Accept` header, and whether it is served.
const ACCEPTS: &[(&str, bool)] = &[
    ("", true),
    ("*/*", true),
    ("application/*", true),
    ("application/json", true),
    ("APPLICATION/JSON", true),
    ("application/json;charset=utf-8", true),
    ("application/json; q=0.1", true),
    ("application/json, */*", true),
    ("application/foo, application/json", true),
    ("application/vnd.kubernetes.protobuf,application/json", true),
    ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
    ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", true),
    ("application/json;as=Nonsense;v=v1;g=meta.k8s.io,application/json", true),
    ("application/foo", false),
    ("text/plain", false),
];

#[test]
fn what_is_accepted() {
    let server = Server::start(&[]);
    let client = server.client();
    post(&client, MAPS, &map("a", &json!({})));
    for (accept, served) in ACCEPTS {
        let headers = [("Accept", *accept)];
        let protobuf = "application/vnd.kubernetes.protobuf";
        let wanted = if accept.starts_with(protobuf) { protobuf } else { "application/json" };
        for path in [MAPS.to_owned(), format!("{MAPS}/a"), format!("{MAPS}?limit=1")] {
            let reply = client.request("GET", &path, &headers, &[]);
            assert_eq!(reply.status, if *served { 200 } else { 406 }, "{accept:?} {path}: {}", reply.text());
            assert!(reply.header("content-type").unwrap().starts_with(wanted), "{accept:?}");
        }
        let watch = client.watch_as(&format!("{MAPS}?watch=1"), &headers);
        assert_eq!(watch.is_ok(), *served, "{accept:?}");
        if let Ok(mut watch) = watch {
            let kind = watch.headers().iter().find(|(name, _)| name == "content-type").unwrap();
            if wanted == protobuf {
                assert_eq!(kind.1, format!("{protobuf};stream=watch"), "{accept:?}");
                continue;
            }
            assert_eq!(kind.1, "application/json", "{accept:?}");
            assert_eq!(watch.next_event().0, "ADDED", "{accept:?}");
        }
    }
}

/// All pages of a list; each as names.
fn pages(client: &Client, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut token = String::new();
    loop {
        let mark = if path.contains('?') { '&' } else { '?' };
        let page = client.get(&format!("{path}{mark}limit=2{token}")).json();
        found.push(names(&page));
        let left = page["metadata"]["remainingItemCount"].as_u64();
        match page["metadata"]["continue"].as_str() {
            None => {
                assert_eq!(left, None);
                return found;
            }
            Some(next) => {
                assert_eq!(
                    left.is_some(),
                    !path.contains("Selector"),
                    "{path}: counted without selectors only"
                );
                token = format!("&continue={next}");
            }
        }
    }
}

#[test]
fn pages_of_everything() {
    let server = Server::start(&[]);
    let client = server.client();
    assert_eq!(pages(&client, MAPS), [""]);
    for (namespace, name) in
        [("t", "b"), ("t-", "x"), ("t", "c"), ("a", "z"), ("t", "a"), ("tt", "a"), ("t", "a-b")]
    {
        let labels = json!({"odd": if ["b", "z"].contains(&name) { "1" } else { "0" }});
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        // A namespace may not end so, but one that sorts between others is needed.
        let path = path.replace("t-/", "t-u/");
        post(&client, &path, &map(name, &labels));
    }
    assert_eq!(pages(&client, "/api/v1/configmaps"), ["z x", "a a-b", "b c", "a"]);
    assert_eq!(pages(&client, MAPS), ["a a-b", "b c"]);
    // Whether later objects match is not checked, there as here: the last page may be empty.
    assert_eq!(pages(&client, "/api/v1/configmaps?labelSelector=odd%3D1"), ["z b", ""]);
    assert_eq!(pages(&client, "/api/v1/configmaps?labelSelector=odd%3D0"), ["x a", "a-b c", "a"]);
    assert_eq!(pages(&client, "/api/v1/configmaps?fieldSelector=metadata.namespace%3Dt"), ["a a-b", "b c"]);
    assert_eq!(pages(&client, "/api/v1/configmaps?fieldSelector=metadata.name%3Da"), ["a a"]);
    assert_eq!(pages(&client, "/api/v1/configmaps?fieldSelector=metadata.name!%3Da"), ["z x", "a-b b", "c"]);
    assert_eq!(pages(&client, "/api/v1/namespaces/t/configmaps?fieldSelector=metadata.name%3Da"), ["a"]);
    assert_eq!(pages(&client, "/api/v1/namespaces/nowhere/configmaps"), [""]);
    // The last page of a list of even length has no token, and one object more gives one.
    post(&client, MAPS, &map("d", &json!({})));
    assert_eq!(pages(&client, MAPS), ["a a-b", "b c", "d"]);
    // A token of one list shows where another continues.
    let page = client.get(&format!("{MAPS}?limit=2")).json();
    let token = page["metadata"]["continue"].as_str().unwrap();
    let rest = |path: &str| names(&client.get(&format!("{path}?continue={token}")).json());
    assert_eq!((rest(MAPS).as_str(), rest("/api/v1/namespaces/tt/configmaps").as_str()), ("b c d", ""));
    assert_eq!(client.request("DELETE", &format!("{MAPS}/b"), &[], &[]).status, 200);
    assert_eq!(rest(MAPS), "b c d", "as of the first page");
    let gone = client.request("DELETE", &format!("{MAPS}?continue={token}"), &[], &[]);
    assert_eq!(
        (gone.status, names(&gone.json()).as_str()),
        (200, "b c d"),
        "what is gone already is passed over"
    );
    assert_eq!(names(&client.get(MAPS).json()), "a a-b");
}

/// Name, body of a POST, status.
fn bodies() -> Vec<(&'static str, String, u16)> {
    let deep = "[".repeat(200) + &"]".repeat(200);
    vec![
        ("a member twice", r#"{"metadata":{"name":"x"},"data":{"k":"1"},"data":{"k":"2"}}"#.to_owned(), 201),
        ("spaces and lines", "\n{ \"metadata\" :\t{\"name\" : \"y\"}\r\n}\n".to_owned(), 201),
        ("nulls", r#"{"kind":null,"apiVersion":null,"metadata":{"name":"z","labels":null,"finalizers":null},"data":null}"#.to_owned(), 201),
        ("escapes", r#"{"metadata":{"name":"\u0077"},"data":{"k":"\u003c\ud83d\ude00\"\\\/"}}"#.to_owned(), 201),
        ("unknown members", r#"{"metadata":{"name":"v","nonsense":{"a":[1,2.5e3,null]}},"anything":[{}]}"#.to_owned(), 201),
        ("a list of one", r#"[{"metadata":{"name":"q"}}]"#.to_owned(), 400),
        ("null", "null".to_owned(), 400),
        ("two objects", r#"{"metadata":{"name":"q"}}{"metadata":{"name":"q"}}"#.to_owned(), 400),
        ("half an object", r#"{"metadata":{"name":"q""#.to_owned(), 400),
        ("a lone surrogate", r#"{"metadata":{"name":"q"},"data":{"k":"\ud800"}}"#.to_owned(), 400),
        ("too deep", format!(r#"{{"metadata":{{"name":"q"}},"data":{deep}}}"#), 400),
        ("no metadata", r#"{"data":{}}"#.to_owned(), 422),
        ("a name of spaces", r#"{"metadata":{"name":" "}}"#.to_owned(), 422),
        ("labels of another type", r#"{"metadata":{"name":"q","labels":["a"]}}"#.to_owned(), 400),
        ("a version", r#"{"metadata":{"name":"q","resourceVersion":"5"}}"#.to_owned(), 400),
        ("a finalizer that is none", r#"{"metadata":{"name":"q","finalizers":["a b"]}}"#.to_owned(), 422),
    ]
}

#[test]
fn bodies_that_are_odd() {
    let server = Server::start(&[]);
    let client = server.client();
    let start = newest(&client);
    let mut made = 0;
    for (what, body, status) in bodies() {
        for media in ["application/json", "application/json; charset=utf-8"] {
            let path = if media.contains("charset") {
                format!("{MAPS}?dryRun=All&watch=true&resourceVersion=x")
            } else {
                MAPS.to_owned()
            };
            let reply = client.request("POST", &path, &[("Content-Type", media)], body.as_bytes());
            let taken = media.contains("charset") && status == 201;
            assert_eq!(reply.status, if taken { 409 } else { status }, "{what}: {}", reply.text());
        }
        made += u64::from(status == 201);
    }
    assert_eq!(newest(&client), start + made);
    let mut watch = client.watch(&format!("{MAPS}?watch=1&resourceVersion={start}")).unwrap();
    let events = watch.events(usize::try_from(made).unwrap());
    assert_eq!(
        events.iter().map(told).collect::<Vec<_>>(),
        ["ADDED x", "ADDED y", "ADDED z", "ADDED w", "ADDED v"]
    );
    assert_eq!(events[0].1["data"], json!({"k": "2"}), "the last of two counts");
    assert_eq!(events[3].1["data"]["k"], "<\u{1f600}\"\\/");
    for (_, object) in &events {
        let one = format!("{MAPS}/{}", object["metadata"]["name"].as_str().unwrap());
        assert_eq!(client.get(&one).json(), *object, "a GET shows what the event did");
        assert_eq!(client.send("PUT", &one, object).json(), *object, "and it can be sent back");
    }
    assert_eq!(newest(&client), start + made);
    // A cluster-scoped object gets no namespace, whatever it contains.
    let node = post(&client, "/api/v1/nodes", &json!({"metadata": {"name": "n", "namespace": "t"}}));
    assert_eq!(node["metadata"].get("namespace"), None);
    let mut again = node.clone();
    again["metadata"]["namespace"] = json!("t");
    assert_eq!(client.send("PUT", "/api/v1/nodes/n", &again).json(), node);
}

#[test]
fn a_revision_is_one_for_all_who_look() {
    let server = Server::start(&[]);
    let client = server.client();
    let one = post(&client, MAPS, &map("a", &json!({})));
    let other = post(&client, "/api/v1/nodes", &json!({"metadata": {"name": "n"}}));
    assert_eq!(revision(&other), revision(&one) + 1, "one line of revisions for all resources");
    for path in [
        MAPS,
        "/api/v1/configmaps",
        "/api/v1/nodes",
        "/apis/apps/v1/deployments",
        "/api/v1/namespaces/none/secrets",
    ] {
        for query in ["", "?resourceVersion=0", "?limit=1", "?labelSelector=x"] {
            assert_eq!(
                revision(&client.get(&format!("{path}{query}")).json()),
                revision(&other),
                "{path}{query}"
            );
        }
    }
    // Items of built-in lists have neither kind nor apiVersion; a single object and an event do; a list is never null.
    let list = client.get(MAPS).json();
    assert_eq!(list["items"][0].get("kind"), None);
    let members: Vec<&String> = list.as_object().unwrap().keys().collect();
    assert_eq!(members, ["kind", "apiVersion", "metadata", "items"]);
    let object: Value = client.get(&format!("{MAPS}/a")).json();
    let members: Vec<&String> = object.as_object().unwrap().keys().collect();
    assert_eq!(members, ["kind", "apiVersion", "metadata", "data"]);
    let members: Vec<&String> = object["metadata"].as_object().unwrap().keys().collect();
    assert_eq!(members, ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]);
    assert!(client.get("/api/v1/namespaces/none/secrets").text().contains(r#""items":[]"#));
}
