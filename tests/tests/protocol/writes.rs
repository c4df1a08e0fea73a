//! Writes: what the server sets, what clients cannot change, what makes no event, and what is refused, with its causes.

use revcast_tests::client::{Client, Response};
use revcast_tests::server::Server;
use serde_json::{Value, json};

use crate::{MAPS, assert_failure, invalid_options, map, names, newest, post, revision};

const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/t/deployments";

#[test]
fn what_the_server_sets() {
    let server = Server::start(&[]);
    let client = server.client();
    let object = json!({"metadata": {"name": "a", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7,
        "deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 3, "selfLink": "/x", "resourceVersion": "",
        "labels": null, "annotations": {"k": "v"}}, "data": {"k": "v"}});
    let made = post(&client, MAPS, &object);
    let metadata = &made["metadata"];
    assert_eq!(
        (&made["kind"], &made["apiVersion"], &metadata["namespace"]),
        (&json!("ConfigMap"), &json!("v1"), &json!("t"))
    );
    let uid = metadata["uid"].as_str().unwrap();
    assert!(uid.len() == 36 && uid.as_bytes()[14] == b'4', "{uid}");
    let time = metadata["creationTimestamp"].as_str().unwrap();
    assert!(time.len() == 20 && time.ends_with('Z') && time > "2026", "{time}");
    for member in ["generation", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "labels"] {
        assert!(metadata.get(member).is_none(), "{member}: {made}");
    }
    assert_eq!(revision(&made), newest(&client));
    assert_eq!(client.get(&format!("{MAPS}/a")).json(), made);
    // generateName: five characters, no vowels; a given name takes precedence; a long one is cut to the length of a
    // label.
    let of = |metadata: Value| post(&client, MAPS, &json!({"metadata": metadata}))["metadata"].clone();
    let generated = of(json!({"generateName": "web-"}));
    let name = generated["name"].as_str().unwrap();
    assert!(
        name.len() == 9 && name.starts_with("web-") && !name[4..].contains(['a', 'e', 'i', 'o', 'u']),
        "{name}"
    );
    assert_eq!(generated["generateName"], "web-");
    assert_ne!(of(json!({"generateName": "web-"}))["name"], generated["name"]);
    assert_eq!(of(json!({"generateName": "web-", "name": "given"}))["name"], "given");
    let long = of(json!({"generateName": "x".repeat(80)}));
    assert_eq!(long["name"].as_str().unwrap().len(), 63);
    // Generation: 1 for kinds with a spec, more for every change of the spec, and never the client's value.
    let deployment = post(
        &client,
        DEPLOYMENTS,
        &json!({"metadata": {"name": "d", "generation": 9}, "spec": {"replicas": 1}}),
    );
    assert_eq!(deployment["metadata"]["generation"], 1);
    let one = format!("{DEPLOYMENTS}/d");
    for (patch, generation) in [
        (json!({"metadata": {"labels": {"a": "b"}}}), 1),
        (json!({"metadata": {"generation": 99, "annotations": {"x": "y"}}}), 1),
        (json!({"spec": {"replicas": 2}}), 2),
        (json!({"spec": {"replicas": 2}}), 2),
        (json!({"spec": {"paused": true}}), 3),
        (json!({"spec": {"paused": null}}), 4),
    ] {
        let reply = client.patch(&one, "merge-patch", &patch).json();
        assert_eq!(reply["metadata"]["generation"], generation, "{patch}");
    }
    // Immutable members are taken from the stored object.
    let before = client.get(&format!("{MAPS}/a")).json();
    let mut changed = before.clone();
    changed["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    changed["data"]["k"] = json!("w");
    let after = client.send("PUT", &format!("{MAPS}/a"), &changed).json();
    assert_eq!(after["metadata"]["creationTimestamp"], before["metadata"]["creationTimestamp"]);
    assert_eq!((&after["metadata"]["uid"], revision(&after)), (&before["metadata"]["uid"], newest(&client)));
}

#[test]
fn nothing_new_is_no_event() {
    let server = Server::start(&[]);
    let client = server.client();
    let made = post(&client, MAPS, &map("a", &json!({"x": "y"})));
    let one = format!("{MAPS}/a");
    let mut bare = made.clone();
    for member in ["resourceVersion", "uid", "creationTimestamp", "namespace"] {
        bare["metadata"].as_object_mut().unwrap().shift_remove(member);
    }
    let mut turned = json!({"data": made["data"], "metadata": {}});
    for (name, value) in made["metadata"].as_object().unwrap().iter().rev() {
        turned["metadata"][name] = value.clone();
    }
    let put = |body: &Value| client.send("PUT", &one, body);
    let patch = |kind: &str, body: &Value| {
        client.request("PATCH", &one, &[("content-type", kind)], body.to_string().as_bytes())
    };
    let replies: Vec<(&str, Response)> = vec![
        ("PUT of what was read", put(&made)),
        ("PUT without what the server sets", put(&bare)),
        ("PUT in another order", put(&turned)),
        ("an empty merge patch", patch(MERGE, &json!({}))),
        (
            "a merge patch of what is there",
            patch(MERGE, &json!({"data": {"k": "v"}, "metadata": {"labels": {"x": "y"}}})),
        ),
        ("a merge patch that removes nothing", patch(MERGE, &json!({"data": {"none": null}}))),
        ("an empty JSON patch", patch(JSON_PATCH, &json!([]))),
        (
            "a JSON patch of what is there",
            patch(JSON_PATCH, &json!([{"op": "replace", "path": "/data/k", "value": "v"}])),
        ),
        (
            "a JSON patch that takes itself back",
            patch(
                JSON_PATCH,
                &json!([{"op": "add", "path": "/data/z", "value": "1"}, {"op": "remove", "path": "/data/z"}]),
            ),
        ),
        ("a test", patch(JSON_PATCH, &json!([{"op": "test", "path": "/data/k", "value": "v"}]))),
    ];
    for (what, reply) in replies {
        assert_eq!((reply.status, reply.json()), (200, made.clone()), "{what}");
    }
    assert_eq!(newest(&client), revision(&made), "no revision either");
    let path = format!("{MAPS}?watch=1&resourceVersion={}&timeoutSeconds=1", revision(&made));
    assert!(client.watch(&path).unwrap().rest().is_empty());
}

#[test]
fn dry_runs_write_nothing() {
    let server = Server::start(&[]);
    let client = server.client();
    let made = post(&client, MAPS, &map("a", &json!({"x": "y"})));
    let held = post(&client, MAPS, &json!({"metadata": {"name": "held", "finalizers": ["example.com/a"]}}));
    let one = format!("{MAPS}/a?dryRun=All");
    let created = client.send("POST", &format!("{MAPS}?dryRun=All"), &map("b", &json!({})));
    assert_eq!((created.status, &created.json()["metadata"]["name"]), (201, &json!("b")));
    assert!(
        created.json()["metadata"].get("resourceVersion").is_none()
            && created.json()["metadata"]["uid"].is_string()
    );
    let generated =
        client.send("POST", &format!("{MAPS}?dryRun=All"), &json!({"metadata": {"generateName": "g-"}}));
    assert_eq!(generated.json()["metadata"]["name"].as_str().map(str::len), Some(7));
    assert_eq!(client.send("POST", &format!("{MAPS}?dryRun=All"), &map("a", &json!({}))).status, 409);
    assert_eq!(client.send("POST", &format!("{MAPS}?dryRun=All"), &map("Bad", &json!({}))).status, 422);
    let changed = json!({"metadata": {"name": "a"}, "data": {"k": "w"}});
    let put = client.send("PUT", &one, &changed);
    assert_eq!(
        (put.status, &put.json()["data"]["k"], revision(&put.json())),
        (200, &json!("w"), revision(&made))
    );
    let patched = client.patch(&one, "merge-patch", &json!({"data": {"k": "z"}}));
    assert_eq!((patched.status, &patched.json()["data"]["k"]), (200, &json!("z")));
    let stale = json!({"metadata": {"name": "a", "resourceVersion": "1"}});
    assert_eq!(client.send("PUT", &one, &stale).status, 409, "it would be refused, so it is");
    let gone = client.request("DELETE", &one, &[], &[]);
    assert_eq!((gone.status, &gone.json()["status"]), (200, &json!("Success")));
    let marked = client.request("DELETE", &format!("{MAPS}/held?dryRun=All"), &[], &[]).json();
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let in_body = client.send(
        "DELETE",
        &format!("{MAPS}/a"),
        &json!({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}),
    );
    assert_eq!(in_body.status, 200);
    let all = client.request("DELETE", &format!("{MAPS}?dryRun=All"), &[], &[]).json();
    assert_eq!(names(&all), "a held");
    assert_eq!(newest(&client), revision(&held));
    assert_eq!(client.get(&format!("{MAPS}/a")).json(), made);
}

const TOO_LONG: (&str, &str, &str) =
    ("FieldValueTooLong", "Too long: may not be more than 128 bytes", "fieldManager");
const VALIDATION: (&str, &str, &str) = (
    "FieldValueNotSupported",
    "Unsupported value: \"Foo\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
    "fieldValidation",
);

fn dry_run(values: &str) -> (&'static str, String, &'static str) {
    let message = format!("Unsupported value: []string{{{values}}}: supported values: \"All\"");
    ("FieldValueNotSupported", message, "dryRun")
}

#[test]
fn options_of_writes() {
    let server = Server::start(&[]);
    let client = server.client();
    let made = post(&client, MAPS, &map("a", &json!({})));
    let one = format!("{MAPS}/a");
    let long = format!("fieldManager={}", "m".repeat(129));
    let (foo, none, two) = (dry_run("\"Foo\""), dry_run("\"\""), dry_run("\"All\", \"all\""));
    type Cause<'a> = (&'a str, &'a str, &'a str);
    fn as_cause<'a>(cause: &'a (&'static str, String, &'static str)) -> Cause<'a> {
        (cause.0, cause.1.as_str(), cause.2)
    }
    let rows: Vec<(String, Vec<Cause<'_>>)> = vec![
        (long.clone(), vec![TOO_LONG]),
        ("dryRun=Foo".to_owned(), vec![as_cause(&foo)]),
        ("dryRun=".to_owned(), vec![as_cause(&none)]),
        ("dryRun=All&dryRun=all".to_owned(), vec![as_cause(&two)]),
        ("fieldValidation=Foo".to_owned(), vec![VALIDATION]),
        (format!("fieldValidation=Foo&dryRun=Foo&{long}"), vec![TOO_LONG, as_cause(&foo), VALIDATION]),
    ];
    for (query, causes) in &rows {
        for (method, kind, path, body, media) in [
            ("POST", "CreateOptions", MAPS, map("b", &json!({})), "application/json"),
            ("PUT", "UpdateOptions", &*one, made.clone(), "application/json"),
            ("PATCH", "PatchOptions", &*one, json!({}), MERGE),
        ] {
            let (message, details) = invalid_options(kind, causes);
            let reply = client.request(
                method,
                &format!("{path}?{query}"),
                &[("content-type", media)],
                body.to_string().as_bytes(),
            );
            assert_failure(&reply, (422, "Invalid", &message), &details, &format!("{method} {query}"));
        }
    }
    for query in ["dryRun=Foo", "dryRun="] {
        let cause = if query == "dryRun=" { &none } else { &foo };
        let (message, details) = invalid_options("DeleteOptions", &[as_cause(cause)]);
        for path in [&*one, MAPS] {
            let reply = client.request("DELETE", &format!("{path}?{query}"), &[], &[]);
            assert_failure(&reply, (422, "Invalid", &message), &details, path);
        }
    }
    let policy = (
        "FieldValueNotSupported",
        "Unsupported value: \"Foo\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
        "propagationPolicy",
    );
    let (message, details) = invalid_options("DeleteOptions", &[policy]);
    assert_failure(
        &client.request("DELETE", &format!("{one}?propagationPolicy=Foo"), &[], &[]),
        (422, "Invalid", &message),
        &details,
        "policy",
    );
    let force = ("FieldValueForbidden", "Forbidden: may not be specified for non-apply patch", "force");
    let (message, details) = invalid_options("PatchOptions", &[force]);
    assert_failure(
        &client.patch(&format!("{one}?force=true"), "merge-patch", &json!({})),
        (422, "Invalid", &message),
        &details,
        "force",
    );
    let seconds = client.request("DELETE", &format!("{one}?gracePeriodSeconds=x"), &[], &[]);
    assert_failure(
        &seconds,
        (400, "BadRequest", "strconv.ParseInt: parsing \"x\": invalid syntax"),
        "",
        "seconds",
    );
    assert_eq!(client.get(&one).json(), made);
    // And those that are right.
    for query in [
        "fieldManager=kubectl-create&fieldValidation=Strict",
        "fieldValidation=Warn",
        "fieldValidation=Ignore",
        "fieldValidation=",
        "fieldManager=",
        "pretty=true&timeout=5s&unknown=1",
    ] {
        assert_eq!(client.send("PUT", &format!("{one}?{query}"), &made).status, 200, "{query}");
    }
    let longest = format!("fieldManager={}", "m".repeat(128));
    assert_eq!(client.send("PUT", &format!("{one}?{longest}"), &made).status, 200);
}

/// The failure of a reply: status, reason, and message.
fn told(reply: &Response) -> (u16, String, String) {
    let body = reply.json();
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    (reply.status, text("reason"), text("message"))
}

#[test]
fn objects_that_do_not_fit() {
    let server = Server::start(&[]);
    let client = server.client();
    let made = post(&client, MAPS, &map("a", &json!({})));
    let before = newest(&client);
    let namespace = "the namespace of the provided object does not match the namespace sent on the request";
    let api = "the API version in the data (v2) does not match the expected API version (v1)";
    for (body, message) in [
        (json!({"metadata": {"name": "b", "namespace": "u"}}), namespace),
        (json!({"apiVersion": "v2", "metadata": {"name": "b"}}), api),
        (
            json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "b"}}),
            "Secret in version \"v1\" cannot be handled as a ConfigMap: ",
        ),
        (
            json!({"kind": "configmap", "metadata": {"name": "b"}}),
            "configmap in version \"v1\" cannot be handled as a ConfigMap: ",
        ),
        (
            json!({"metadata": {"name": 5}}),
            "the object provided is unrecognized (must be of type ConfigMap): ",
        ),
        (json!({"metadata": []}), "the object provided is unrecognized (must be of type ConfigMap): "),
        (
            json!({"metadata": {"name": "b", "labels": {"a": 1}}}),
            "the object provided is unrecognized (must be of type ConfigMap): ",
        ),
        (json!([]), "the object provided is unrecognized (must be of type ConfigMap): "),
        (json!("x"), "the object provided is unrecognized (must be of type ConfigMap): "),
    ] {
        let (code, reason, found) = told(&client.send("POST", MAPS, &body));
        assert_eq!((code, reason.as_str()), (400, "BadRequest"), "{body}: {found}");
        assert!(found.starts_with(message), "{body}: {found}");
    }
    let one = format!("{MAPS}/a");
    for (body, message) in [
        (
            json!({"data": {}}),
            "the name of the object (a based on URL) was undeterminable: name must be provided",
        ),
        (
            json!({"metadata": {"name": "b"}}),
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            json!({"metadata": {"name": "a", "namespace": "u"}}),
            "the namespace of the object (u) does not match the namespace on the request (t)",
        ),
        (json!({"metadata": {"name": "a"}, "apiVersion": "v2"}), api),
    ] {
        assert_eq!(
            told(&client.send("PUT", &one, &body)),
            (400, "BadRequest".to_owned(), message.to_owned()),
            "{body}"
        );
    }
    for (patch, message) in [
        (
            json!({"metadata": {"name": "b"}}),
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            json!({"metadata": {"namespace": "u"}}),
            "the namespace of the object (u) does not match the namespace on the request (t)",
        ),
    ] {
        assert_eq!(
            told(&client.patch(&one, "merge-patch", &patch)),
            (400, "BadRequest".to_owned(), message.to_owned()),
            "{patch}"
        );
    }
    // Names and namespaces.
    for (name, path, field) in [
        ("Bad", MAPS.to_owned(), "metadata.name"),
        ("a_b", MAPS.to_owned(), "metadata.name"),
        ("-a", MAPS.to_owned(), "metadata.name"),
        ("a..b", MAPS.to_owned(), "metadata.name"),
        ("a/b", MAPS.to_owned(), "metadata.name"),
        ("fine", MAPS.replace("/t/", "/Bad/"), "metadata.namespace"),
        ("a.b", "/api/v1/namespaces".to_owned(), "metadata.name"),
    ] {
        let reply = client.send("POST", &path, &json!({"metadata": {"name": name}}));
        let body = reply.json();
        assert_eq!((reply.status, &body["reason"]), (422, &json!("Invalid")), "{name}: {body}");
        let causes = body["details"]["causes"].as_array().unwrap();
        assert_eq!(
            (causes.len(), &causes[0]["reason"], &causes[0]["field"]),
            (1, &json!("FieldValueInvalid"), &json!(field)),
            "{body}"
        );
        assert_eq!(body["details"]["name"], name);
    }
    let nameless = client.send("POST", MAPS, &json!({"metadata": {}}));
    let details = r#"{"kind":"ConfigMap","causes":[{"reason":"FieldValueRequired","message":"Required value: name or generateName is required","field":"metadata.name"}]}"#;
    let message =
        "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required";
    assert_failure(&nameless, (422, "Invalid", message), details, "no name");
    let long = client.send("POST", MAPS, &map(&"A".repeat(254), &json!({}))).json();
    assert_eq!(long["details"]["causes"].as_array().unwrap().len(), 2, "too long and not small: {long}");
    let generated = client.send("POST", MAPS, &json!({"metadata": {"generateName": "Bad"}})).json();
    let fields: Vec<&str> = generated["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| cause["field"].as_str().unwrap())
        .collect();
    assert_eq!(fields, ["metadata.generateName", "metadata.name"], "{generated}");
    let labels = client.send("POST", MAPS, &map("b", &json!({"-k": "v", "k": "-v"}))).json();
    assert_eq!(labels["details"]["causes"].as_array().unwrap().len(), 2, "{labels}");
    // Existing names, and objects that do not exist.
    let taken = client.send("POST", MAPS, &map("a", &json!({})));
    assert_failure(
        &taken,
        (409, "AlreadyExists", "configmaps \"a\" already exists"),
        r#"{"name":"a","kind":"configmaps"}"#,
        "taken",
    );
    post(&client, DEPLOYMENTS, &json!({"metadata": {"name": "d"}}));
    let taken = client.send("POST", DEPLOYMENTS, &json!({"metadata": {"name": "d"}}));
    assert_failure(
        &taken,
        (409, "AlreadyExists", "deployments.apps \"d\" already exists"),
        r#"{"name":"d","group":"apps","kind":"deployments"}"#,
        "taken",
    );
    for method in ["GET", "PUT", "PATCH", "DELETE"] {
        let body =
            if method == "GET" { String::new() } else { json!({"metadata": {"name": "x"}}).to_string() };
        let media = if method == "PATCH" { MERGE } else { "application/json" };
        let body = if method == "DELETE" { String::new() } else { body };
        let reply = client.request(method, &format!("{MAPS}/x"), &[("content-type", media)], body.as_bytes());
        assert_failure(
            &reply,
            (404, "NotFound", "configmaps \"x\" not found"),
            r#"{"name":"x","kind":"configmaps"}"#,
            method,
        );
    }
    assert_eq!((client.get(&one).json(), newest(&client)), (made, before + 1));
}

#[test]
fn conflicts_and_preconditions() {
    let server = Server::start(&[]);
    let client = server.client();
    let made = post(&client, MAPS, &map("a", &json!({})));
    let one = format!("{MAPS}/a");
    let changed = client.patch(&one, "merge-patch", &json!({"data": {"k": "w"}})).json();
    let modified = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again";
    let details = r#"{"name":"a","kind":"configmaps"}"#;
    assert_failure(&client.send("PUT", &one, &made), (409, "Conflict", modified), details, "PUT");
    let stale =
        json!({"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"k": "x"}});
    assert_failure(&client.patch(&one, "merge-patch", &stale), (409, "Conflict", modified), details, "PATCH");
    for version in ["", "0"] {
        let mut any = changed.clone();
        any["metadata"]["resourceVersion"] = json!(version);
        assert_eq!(client.send("PUT", &one, &any).status, 200, "{version:?} is any");
    }
    let other = json!({"metadata": {"name": "a", "uid": "other"}});
    let (code, reason, message) = told(&client.send("PUT", &one, &other));
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert!(
        message.contains("Precondition failed: UID in precondition: other, UID in object meta: "),
        "{message}"
    );
    let uid = changed["metadata"]["uid"].as_str().unwrap();
    let version = changed["metadata"]["resourceVersion"].as_str().unwrap();
    let when = |client: &Client, conditions: Value| {
        client.send("DELETE", &one, &json!({"preconditions": conditions}))
    };
    let details = r#"{"name":"a","kind":"ConfigMap"}"#;
    let message = format!(
        "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (other) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
    );
    assert_failure(&when(&client, json!({"uid": "other"})), (409, "Conflict", &message), details, "uid");
    let message = format!(
        "Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({version}). The object might have been modified"
    );
    assert_failure(
        &when(&client, json!({"resourceVersion": "1"})),
        (409, "Conflict", &message),
        details,
        "version",
    );
    assert_failure(
        &when(&client, json!({"uid": uid, "resourceVersion": "1"})),
        (409, "Conflict", &message),
        details,
        "both",
    );
    let gone = when(&client, json!({"uid": uid, "resourceVersion": version}));
    let expected = format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Success","details":{{"name":"a","kind":"configmaps","uid":"{uid}"}}}}"#
    );
    assert_eq!((gone.status, gone.text().trim_end()), (200, expected.as_str()));
    post(&client, DEPLOYMENTS, &json!({"metadata": {"name": "d"}}));
    let gone = client.request("DELETE", &format!("{DEPLOYMENTS}/d"), &[], &[]).json();
    assert_eq!(
        (&gone["details"]["group"], &gone["details"]["kind"]),
        (&json!("apps"), &json!("deployments"))
    );
    // Kinds whose DELETE returns the deleted object.
    let accounts = "/api/v1/namespaces/t/serviceaccounts";
    let account = post(&client, accounts, &json!({"metadata": {"name": "s"}}));
    assert_eq!(client.request("DELETE", &format!("{accounts}/s"), &[], &[]).json(), account);
}

#[test]
fn collections_are_deleted_in_parts() {
    let server = Server::start(&[]);
    let client = server.client();
    for n in 0..6 {
        post(&client, MAPS, &map(&format!("n{n}"), &json!({"odd": (n % 2).to_string()})));
    }
    post(&client, "/api/v1/namespaces/u/configmaps", &map("other", &json!({"odd": "1"})));
    let start = newest(&client);
    let delete = |query: &str| client.request("DELETE", &format!("{MAPS}?{query}"), &[], &[]);
    let first = delete("limit=2").json();
    assert_eq!((names(&first).as_str(), &first["kind"]), ("n0 n1", &json!("ConfigMapList")));
    let token = first["metadata"]["continue"].as_str().unwrap();
    assert_eq!(first["metadata"]["remainingItemCount"], 4);
    let second = delete(&format!("limit=1&continue={token}")).json();
    assert_eq!(names(&second), "n2", "as of the first page");
    assert_eq!(names(&delete("labelSelector=odd%3D1").json()), "n3 n5");
    assert_eq!(names(&delete("fieldSelector=metadata.name%3Dnone").json()), "");
    assert_eq!(names(&client.get("/api/v1/configmaps").json()), "n4 other");
    assert_eq!(names(&delete("").json()), "n4");
    assert_eq!(names(&delete("").json()), "");
    let path = format!("{MAPS}?watch=1&resourceVersion={start}&timeoutSeconds=1");
    let events = client.watch(&path).unwrap().rest();
    assert!(events.iter().all(|(kind, _)| kind == "DELETED"));
    let mut gone: Vec<&str> =
        events.iter().map(|(_, object)| object["metadata"]["name"].as_str().unwrap()).collect();
    gone.sort_unstable();
    assert_eq!(gone, ["n0", "n1", "n2", "n3", "n4", "n5"]);
}
