//! POST, PUT and PATCH.

use revcast_engine::revision::Revision;
use serde_json::{Value, json};

use super::{Ask, CONFIG_MAPS, World};
use crate::frontend::WriteError;
use crate::source::{Action, Expect, StorageError, Txn, TxnError};

const MERGE: &str = "application/merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";

fn number(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_new_object_is_completed() {
    let world = World::with_json();
    let body = json!({"data": {"k": "v"}, "metadata": {"labels": {"a": "b"}, "name": "cm1", "creationTimestamp": null,
        "uid": "mine", "generation": 7, "selfLink": "/x", "x": 1}});
    let got = world.send("POST", CONFIG_MAPS, &body);
    assert_eq!(got.code, 201);
    let uid = got.json()["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!((uid.len(), &uid[14..15]), (36, "4"));
    let expected = format!(
        "{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{{\"name\":\"cm1\",\"namespace\":\"t1\",\"uid\":\"{uid}\",\
         \"resourceVersion\":\"2\",\"creationTimestamp\":\"2026-11-21T05:38:13Z\",\"labels\":{{\"a\":\"b\"}},\"x\":1}},\
         \"data\":{{\"k\":\"v\"}}}}\n"
    );
    assert_eq!(got.body, expected);
    let again = world.send("POST", CONFIG_MAPS, &body);
    assert_eq!((again.code, again.message().as_str()), (409, "configmaps \"cm1\" already exists"));
    assert_eq!(again.json()["reason"], "AlreadyExists");
    let pretty = world.send("POST", &format!("{CONFIG_MAPS}?pretty=1"), &json!({"metadata": {"name": "p"}}));
    assert!(pretty.body.starts_with("{\n  \"kind\": \"ConfigMap\",\n"));
}

#[test]
fn what_kubectl_shows_is_filled_in() {
    let world = World::new();
    let made = |target: &str, body: Value| {
        let got = world.send("POST", target, &body);
        assert_eq!(got.code, 201, "{}", got.body);
        got.json()
    };
    let pod = made("/api/v1/namespaces/a/pods", json!({"metadata": {"name": "p"}, "spec": {}}));
    assert_eq!((&pod["status"]["phase"], &pod["metadata"]["generation"]), (&json!("Pending"), &json!(1)));
    let space = made("/api/v1/namespaces", json!({"metadata": {"name": "a"}}));
    assert_eq!(space["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "a"}));
    assert_eq!(space["spec"], json!({"finalizers": ["kubernetes"]}));
    assert_eq!(space["status"], json!({"phase": "Active"}));
    assert_eq!(made("/api/v1/namespaces/a/secrets", json!({"metadata": {"name": "s"}}))["type"], "Opaque");
    // A status is written through its own path only; only a node can be created with one.
    let running =
        made("/api/v1/namespaces/a/pods", json!({"metadata": {"name": "q"}, "status": {"phase": "Running"}}));
    assert_eq!(running["status"], json!({"phase": "Pending"}));
    let node = made("/api/v1/nodes", json!({"metadata": {"name": "n"}, "status": {"phase": "Running"}}));
    assert_eq!(node["status"]["phase"], "Running");
}

#[test]
fn names_are_made_up() {
    let world = World::new();
    let body = json!({"metadata": {"generateName": "job-"}});
    let names: Vec<String> = (0..3)
        .map(|_| {
            world.send("POST", CONFIG_MAPS, &body).json()["metadata"]["name"].as_str().unwrap().to_owned()
        })
        .collect();
    assert!(names.iter().all(|name| name.len() == 9 && name.starts_with("job-")), "{names:?}");
    assert!(names[0] != names[1] && names[1] != names[2]);
    // A name that is taken is tried again with another one.
    world.host.random.set(1);
    let next = world.send("POST", CONFIG_MAPS, &body);
    assert_eq!(next.code, 201, "{}", next.body);
}

#[test]
fn what_is_not_right_is_refused() {
    let world = World::new();
    let post = |body: Value| world.send("POST", CONFIG_MAPS, &body);
    for (body, code, part) in [
        (json!([]), 400, "not a JSON object"),
        (json!({"kind": "Pod", "metadata": {"name": "a"}}), 400, "cannot be handled as a ConfigMap"),
        (json!({"apiVersion": "v2", "metadata": {"name": "a"}}), 400, "expected API version (v1)"),
        (json!({"metadata": {"name": "a", "namespace": "t2"}}), 400, "does not match the namespace"),
        (json!({"metadata": {"name": "a", "resourceVersion": "5"}}), 400, "should not be set"),
        (json!({"metadata": {"name": "a", "labels": {"k": 1}}}), 400, "metadata.labels must be"),
        (json!({"metadata": {"name": "a", "finalizers": "x"}}), 400, "metadata.finalizers must be"),
        (json!({"metadata": {"name": 1}}), 400, "metadata.name must be text"),
        (json!({"metadata": "x"}), 400, "metadata is not an object"),
        (json!({"kind": 1}), 400, "kind must be text"),
        (json!({}), 422, "name or generateName is required"),
        (json!({"metadata": {"name": "Bad_Name"}}), 422, "a lowercase RFC 1123 subdomain"),
        (json!({"metadata": {"name": "a", "labels": {"k ey": "v"}}}), 422, "metadata.labels"),
        (json!({"metadata": {"name": "a", "labels": {"k": "-"}}}), 422, "a valid label must be"),
        (json!({"metadata": {"name": "a", "annotations": {"k": "v".repeat(300_000)}}}), 422, "262144"),
    ] {
        let got = post(body.clone());
        assert_eq!(got.code, code, "{body} {}", got.body);
        assert!(got.message().contains(part), "{body} {}", got.message());
    }
    let causes =
        post(json!({"metadata": {"name": "B", "labels": {"k": "-"}}})).json()["details"]["causes"].clone();
    assert_eq!(causes.as_array().map(Vec::len), Some(2));
    let media = |media: &str, body: &str| {
        let mut ask = Ask::new("POST", CONFIG_MAPS).with("Content-Type", media);
        ask.body = body.to_owned().into();
        world.ask(&ask)
    };
    assert_eq!(media("text/yaml", "kind: ConfigMap").code, 415);
    assert_eq!(media("application/json", "").code, 400);
    assert_eq!(media("application/json", "{\"metadata\":").code, 400);
    assert_eq!(media("application/json", &"[".repeat(100_000)).code, 400);
    assert_eq!(media("Application/JSON; charset=utf-8", r#"{"metadata":{"name":"ok"}}"#).code, 201);
    let coded = Ask::new("POST", CONFIG_MAPS).with("Content-Encoding", "gzip").json(&json!({}));
    assert_eq!(world.ask(&coded).code, 415);
    let everywhere = world.send("POST", "/api/v1/configmaps", &json!({"metadata": {"name": "a"}}));
    assert_eq!((everywhere.code, everywhere.whole().allow), (405, Some("GET")));
    assert_eq!(world.host.writes.get(), 1);
}

#[test]
fn dry_runs_write_nothing() {
    let world = World::new();
    let target = format!("{CONFIG_MAPS}?dryRun=All");
    let body = json!({"metadata": {"name": "cm1"}, "data": {"k": "1"}});
    let got = world.send("POST", &target, &body);
    assert_eq!((got.code, &got.json()["metadata"]["resourceVersion"]), (201, &Value::Null));
    assert_eq!(world.get(&format!("{CONFIG_MAPS}/cm1")).code, 404);
    world.config_map("cm1", "old");
    assert_eq!(world.send("POST", &target, &body).code, 409);
    let one = format!("{CONFIG_MAPS}/cm1?dryRun=All");
    let put = world.send("PUT", &one, &body);
    assert_eq!((put.code, &put.json()["data"]["k"]), (200, &json!("1")));
    assert_eq!(world.patch(&one, MERGE, &json!({"data": {"k": "2"}})).json()["data"]["k"], "2");
    assert_eq!(world.ask(&Ask::new("DELETE", &one)).code, 200);
    assert_eq!(world.send("DELETE", &format!("{CONFIG_MAPS}/cm1"), &json!({"dryRun": ["All"]})).code, 200);
    assert_eq!(world.get(&format!("{CONFIG_MAPS}/cm1")).json()["data"]["k"], "old");
    assert_eq!(world.send("POST", &format!("{CONFIG_MAPS}?dryRun=Some"), &body).code, 422);
    assert_eq!(world.host.writes.get(), 1);
}

#[test]
fn an_update_keeps_what_a_client_cannot_change() {
    let world = World::with_json();
    let target = "/api/v1/namespaces/t1/pods";
    let old = world.send("POST", target, &json!({"metadata": {"name": "p"}, "spec": {"a": 1}})).json();
    let one = format!("{target}/p");
    let body = json!({"metadata": {"name": "p", "creationTimestamp": "2000-01-01T00:00:00Z", "generation": 9,
        "deletionTimestamp": "2000-01-01T00:00:00Z", "labels": {"x": "y"}}, "spec": {"a": 2}, "status": {"phase": "Running"}});
    let got = world.send("PUT", &one, &body);
    assert_eq!(got.code, 200, "{}", got.body);
    let new = got.json();
    for member in ["uid", "creationTimestamp", "namespace"] {
        assert_eq!(new["metadata"][member], old["metadata"][member]);
    }
    assert_eq!(new["metadata"]["deletionTimestamp"], Value::Null);
    assert_eq!((&new["metadata"]["generation"], number(&new)), (&json!(2), number(&old) + 1));
    assert_eq!(new["status"]["phase"], "Pending", "it has a path of its own");
    // Only metadata and status: the same generation.
    let mut next = new.clone();
    next["metadata"]["labels"]["x"] = json!("z");
    next["status"]["phase"] = json!("Failed");
    let next = world.send("PUT", &one, &next).json();
    assert_eq!(next["metadata"]["generation"], 2);
    // The same again, in another order and without a revision: nothing is written.
    let writes = world.host.writes.get();
    let same = json!({"status": {"phase": "Failed"}, "spec": {"a": 2}, "metadata": {"labels": {"x": "z"}, "name": "p"}});
    let got = world.send("PUT", &one, &same);
    assert_eq!((got.code, got.json()), (200, next));
    assert_eq!(world.host.writes.get(), writes);
}

#[test]
fn updates_that_cannot_be() {
    let world = World::new();
    let one = format!("{CONFIG_MAPS}/cm1");
    let body = json!({"metadata": {"name": "cm1"}});
    let got = world.send("PUT", &one, &body);
    assert_eq!((got.code, got.message().as_str()), (404, "configmaps \"cm1\" not found"));
    let old = world.config_map("cm1", "x");
    assert_eq!(world.send("PUT", &one, &json!({"metadata": {"name": "cm2"}})).code, 400);
    assert_eq!(world.send("PUT", &one, &json!({"metadata": {"name": "cm1", "namespace": "t2"}})).code, 400);
    let uid = world.send("PUT", &one, &json!({"metadata": {"name": "cm1", "uid": "other"}}));
    assert_eq!(uid.code, 409);
    let real = old["metadata"]["uid"].as_str().unwrap();
    let text = format!(
        "Operation cannot be fulfilled on configmaps \"cm1\": Precondition failed: UID in precondition: other, UID in object meta: {real}"
    );
    assert_eq!(uid.message(), text);
    assert_eq!(
        world.send("PUT", &one, &json!({"metadata": {"name": "cm1", "resourceVersion": "abc"}})).code,
        400
    );
    let nameless = world.send("PUT", &one, &json!({"data": {}}));
    let why = "the name of the object (cm1 based on URL) was undeterminable: name must be provided";
    assert_eq!((nameless.code, nameless.message().as_str()), (400, why));
    let stale = world.send("PUT", &one, &json!({"metadata": {"name": "cm1", "resourceVersion": "1"}}));
    assert_eq!(stale.code, 409);
    assert_eq!(
        stale.message(),
        "Operation cannot be fulfilled on configmaps \"cm1\": the object has been modified; please apply your changes \
         to the latest version and try again"
    );
    let version = &old["metadata"]["resourceVersion"];
    let fresh = json!({"metadata": {"name": "cm1", "resourceVersion": version}, "data": {"k": "y"}});
    assert_eq!(world.send("PUT", &one, &fresh).code, 200);
    assert_eq!(world.send("PUT", &one, &fresh).code, 409, "it is stale now");
}

/// Another client's write of `cm1`.
pub(super) fn rival(world: &World, value: &str) -> Txn {
    let json = format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"cm1","namespace":"t1"}},"data":{{"rival":"{value}"}}}}"#
    );
    let action = Action::Put { value: bytes::Bytes::from(json).into(), ttl: None };
    Txn::one(world.key("configmaps", "t1", "cm1"), Expect::Any, action)
}

#[test]
fn races_are_run_again_unless_a_revision_was_named() {
    let world = World::new();
    let one = format!("{CONFIG_MAPS}/cm1");
    let old = world.config_map("cm1", "x");
    world.host.rivals.borrow_mut().push(rival(&world, "1"));
    let got = world.patch(&one, MERGE, &json!({"data": {"mine": "1"}}));
    assert_eq!((got.code, &got.json()["data"]), (200, &json!({"rival": "1", "mine": "1"})));
    world.host.rivals.borrow_mut().push(rival(&world, "2"));
    let mine = json!({"metadata": {"name": "cm1"}, "data": {"mine": "2"}});
    assert_eq!(world.send("PUT", &one, &mine).json()["data"], mine["data"]);

    // A body that is no JSON is parsed again as what it was, as often as the race is lost.
    for rivals in 1..4 {
        let yaml = format!(
            "kind: ConfigMap\napiVersion: v1\nmetadata: {{name: cm1}}\ndata: {{mine: 'over {rivals}'}}\n"
        );
        world.host.rivals.borrow_mut().extend((0..rivals).map(|n| rival(&world, &format!("{rivals} {n}"))));
        let put = Ask { body: yaml.into(), ..Ask::new("PUT", &one) };
        let got = world.ask(&put.with("Content-Type", "application/yaml"));
        let mine = json!({"mine": format!("over {rivals}")});
        assert_eq!((got.code, &got.json()["data"]), (200, &mine), "{}", got.body);
        assert!(world.host.rivals.borrow().is_empty(), "it lost {rivals} times");
    }

    let version = world.get(&one).json()["metadata"]["resourceVersion"].clone();
    for (method, media) in [("PUT", "application/json"), ("PATCH", MERGE)] {
        world.host.rivals.borrow_mut().push(rival(&world, "3"));
        let body = json!({"metadata": {"name": "cm1", "resourceVersion": version}, "data": {"mine": method}});
        let got = world.ask(&Ask::new(method, &one).with("Content-Type", media).json(&body));
        assert_eq!(got.code, 409, "{method} {}", got.body);
        world.host.rivals.borrow_mut().clear();
    }
    for attempt in 0..5 {
        world.host.rivals.borrow_mut().push(rival(&world, &format!("again{attempt}")));
    }
    assert_eq!(world.patch(&one, MERGE, &json!({"data": {"mine": "4"}})).code, 409, "after five attempts");
    assert!(world.host.rivals.borrow().is_empty());
    let gone = Txn::one(world.key("configmaps", "t1", "cm1"), Expect::Any, Action::Delete);
    world.host.rivals.borrow_mut().push(gone);
    assert_eq!(world.patch(&one, MERGE, &json!({"data": {"mine": "5"}})).code, 404);
    assert_ne!(old["metadata"]["uid"], world.config_map("cm1", "x")["metadata"]["uid"]);
}

#[test]
fn patches() {
    let world = World::new();
    let one = format!("{CONFIG_MAPS}/cm1");
    assert_eq!(world.patch(&one, MERGE, &json!({})).code, 404);
    world.config_map("cm1", "x");
    let merged = world.patch(
        &one,
        MERGE,
        &json!({"metadata": {"labels": {"app": null, "b": "c"}}, "data": {"n": "1"}}),
    );
    assert_eq!(merged.json()["metadata"]["labels"], json!({"b": "c"}));
    assert_eq!(merged.json()["data"], json!({"k": "x", "n": "1"}));
    let done = world.patch(
        &one,
        OPERATIONS,
        &json!([{"op": "test", "path": "/data/k", "value": "x"}, {"op": "replace", "path": "/data/k", "value": "y"},
            {"op": "remove", "path": "/data/n"}]),
    );
    assert_eq!(done.json()["data"], json!({"k": "y"}), "{}", done.body);
    let writes = world.host.writes.get();
    let failed = world.patch(&one, OPERATIONS, &json!([{"op": "test", "path": "/data/k", "value": "x"}]));
    assert_eq!(failed.code, 422);
    assert!(failed.message().contains("testing path /data/k failed"), "{}", failed.message());
    for (media, body, code) in [
        (OPERATIONS, json!([{"op": "remove", "path": "/data/none"}]), 422),
        (OPERATIONS, json!([{"op": "what", "path": "/"}]), 400),
        (OPERATIONS, json!({}), 400),
        (OPERATIONS, json!([{"op": "replace", "path": "", "value": 3}]), 422),
        (MERGE, json!(3), 422),
        (MERGE, json!({"metadata": {"name": "other"}}), 400),
        (MERGE, json!({"metadata": null, "kind": "Pod"}), 400),
        (MERGE, json!({"metadata": {"uid": "other"}}), 409),
        (MERGE, json!({"metadata": {"labels": {"a": "!"}}}), 422),
        (MERGE, json!({"data": {"k": "y"}}), 200),
        ("application/json", json!({}), 415),
    ] {
        let got = world.patch(&one, media, &body);
        assert_eq!(got.code, code, "{media} {body} {}", got.body);
        if code == 415 {
            let taken = "application/json-patch+json, application/merge-patch+json, \
                         application/strategic-merge-patch+json, application/apply-patch+yaml";
            assert!(got.message().ends_with(taken), "{}", got.message());
        }
    }
    // A copy of a copy of a copy: refused long before it fills the memory.
    let mut bomb = vec![json!({"op": "add", "path": "/data/b", "value": ["0123456789"]})];
    bomb.extend((0..64).map(|_| json!({"op": "copy", "from": "/data/b", "path": "/data/b/-"})));
    assert_eq!(world.patch(&one, OPERATIONS, &json!(bomb)).code, 413);
    let many: Vec<Value> = (0..10_001).map(|_| json!({"op": "test", "path": "", "value": 1})).collect();
    assert_eq!(world.patch(&one, OPERATIONS, &json!(many)).code, 413);
    assert_eq!(world.host.writes.get(), writes, "none of these wrote");
}

/// Each operation is harmless, and all of them would overflow a stack or keep a core busy for minutes.
#[test]
fn patches_that_dig_or_shift_are_refused() {
    let world = World::new();
    let one = "/apis/example.com/v1/namespaces/t1/widgets/w";
    let target = "/apis/example.com/v1/namespaces/t1/widgets";
    let list: Vec<u8> = vec![0; 100_000];
    let body = json!({"metadata": {"name": "w"}, "spec": {"list": list}});
    assert_eq!(world.send("POST", target, &body).code, 201);
    let nest = |levels: usize| (0..levels).fold(json!([]), |inner, _| json!([inner]));
    let inside = format!("/b{}", "/0".repeat(100));
    let round = [
        json!({"op": "add", "path": "/b", "value": nest(100)}),
        json!({"op": "move", "from": "/a", "path": format!("{inside}/-")}),
        json!({"op": "move", "from": "/b", "path": "/a"}),
    ];
    let mut deep = vec![json!({"op": "add", "path": "/a", "value": 0})];
    deep.extend((0..3_000).flat_map(|_| round.clone()));
    let got = world.patch(one, OPERATIONS, &json!(deep));
    assert_eq!(got.code, 400, "{}", got.body);
    assert!(got.message().contains("deeper than 127 levels"), "{}", got.message());
    let wide = format!("{{\"spec\":{{\"list\":[0{}]}}}}", ",0".repeat(600_000));
    let mut ask = Ask::new("PATCH", one).with("Content-Type", MERGE);
    ask.body = wide.into();
    assert_eq!(world.ask(&ask).code, 413);
    let text = json!({"spec": {"csv": "1,2,[{".repeat(300_000)}});
    assert_eq!(world.patch(one, MERGE, &text).code, 200, "what stands in a string is one value");
    // As deep as allowed, again and again, is accepted.
    let mut level = vec![json!({"op": "add", "path": "/a", "value": nest(60)})];
    level.extend((0..20).map(|_| json!({"op": "add", "path": "/b", "value": nest(60)})));
    assert_eq!(world.patch(one, OPERATIONS, &json!(level)).code, 200);
    let first: Vec<Value> =
        (0..1_000).map(|_| json!({"op": "add", "path": "/spec/list/0", "value": 1})).collect();
    let got = world.patch(one, OPERATIONS, &json!(first));
    assert_eq!(got.code, 413, "{}", got.body);
    assert_eq!(world.patch(one, OPERATIONS, &json!(first[..100])).code, 200);
}

/// Bodies have limits; what patches make of them, step by step, has its own.
#[test]
fn patches_do_not_add_up_to_more_than_an_object_may_have() {
    let world = World::new();
    let target = "/apis/example.com/v1/namespaces/t1/widgets";
    let one = format!("{target}/w");
    assert_eq!(world.send("POST", target, &json!({"metadata": {"name": "w"}})).code, 201);
    let patch = |query: &str, media: &str, body: String| {
        let target = format!("{one}{query}");
        let mut ask = Ask::new("PATCH", &target).with("Content-Type", media);
        ask.body = body.into();
        world.ask(&ask)
    };
    let list = format!("[0{}]", ",0".repeat(400_000));
    assert_eq!(patch("", MERGE, format!("{{\"a\":{list}}}")).code, 200);
    let got = patch("", MERGE, format!("{{\"b\":{list}}}"));
    assert_eq!(got.code, 413, "{}", got.body);
    let message = got.message();
    assert!(message.contains("limit is 625000 values, and the object would have 800"), "{message}");

    let text = "x".repeat(5 << 19);
    assert_eq!(patch("", MERGE, format!("{{\"a\":null,\"c\":\"{text}\"}}")).code, 200);
    let writes = world.host.writes.get();
    let merged = format!("{{\"d\":\"{text}\"}}");
    let copied = json!([{"op": "copy", "from": "/c", "path": "/d"}]).to_string();
    let applied = format!("{{\"apiVersion\":\"example.com/v1\",\"kind\":\"Widget\",\"d\":\"{text}\"}}");
    for (query, media, body) in [
        ("", MERGE, merged.clone()),
        ("?dryRun=All", MERGE, merged),
        ("", OPERATIONS, copied),
        ("?fieldManager=m", "application/apply-patch+yaml", applied),
    ] {
        let got = patch(query, media, body);
        assert_eq!(got.code, 413, "{media}");
        let message = got.message();
        assert!(message.contains("limit is 4194304, and the object would have 524"), "{media}: {message}");
    }
    assert_eq!(world.host.writes.get(), writes);
}

/// Others may write more than a client can here. Such an object stays usable, does not grow, and can be deleted.
#[test]
fn what_is_too_large_already_does_not_grow() {
    let world = World::new();
    let value = format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"cm1","namespace":"t1","uid":"u","finalizers":["a.b/c","a.b/d"]}},"data":{{"k":"{}"}}}}"#,
        "x".repeat(5 << 20)
    );
    let action = Action::Put { value: bytes::Bytes::from(value).into(), ttl: None };
    let txn = Txn::one(world.key("configmaps", "t1", "cm1"), Expect::Absent, action);
    world.host.commit(&txn).expect("the store takes it");
    let one = format!("{CONFIG_MAPS}/cm1");
    let patch = |metadata: Value| world.patch(&one, MERGE, &json!({"metadata": metadata})).code;
    assert_eq!(patch(json!({"labels": {"a": "b"}})), 413);
    assert_eq!(patch(json!({"finalizers": ["a.b/c"]})), 200);
    assert_eq!(patch(json!({"finalizers": ["a.b/e"]})), 200, "as long as it was");
    assert_eq!(patch(json!({"finalizers": ["a.b/ee"]})), 413);
    let marked = world.ask(&Ask::new("DELETE", &one));
    assert_eq!(marked.code, 200);
    assert!(marked.json()["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(patch(json!({"finalizers": null})), 200);
    assert_eq!(world.get(&one).code, 404);
}

#[test]
fn the_status_path_changes_status_alone() {
    let world = World::new();
    let target = "/apis/example.com/v1/namespaces/t1/widgets";
    world.send(
        "POST",
        target,
        &json!({"metadata": {"name": "w"}, "spec": {"color": "red"}, "status": {"n": 1}}),
    );
    let one = format!("{target}/w/status");
    assert_eq!(world.get(&one).json()["status"], Value::Null, "nothing is born with it");
    let body = json!({"metadata": {"name": "w", "labels": {"a": "b"}}, "spec": {"color": "blue"}, "status": {"n": 2}});
    let got = world.send("PUT", &one, &body).json();
    assert_eq!((&got["spec"]["color"], &got["status"]), (&json!("red"), &json!({"n": 2})));
    assert_eq!((&got["metadata"]["labels"], &got["metadata"]["generation"]), (&Value::Null, &json!(1)));
    let got = world.patch(&one, MERGE, &json!({"spec": {"color": "blue"}, "status": {"m": 3}})).json();
    assert_eq!((&got["spec"]["color"], &got["status"]), (&json!("red"), &json!({"n": 2, "m": 3})));
    let writes = world.host.writes.get();
    for body in [json!({"status": null}), json!({"status": {"n": 9}})] {
        let got = world.patch(&format!("{target}/w"), MERGE, &body).json();
        assert_eq!(got["status"], json!({"n": 2, "m": 3}), "the main path changes all else");
    }
    assert_eq!(world.host.writes.get(), writes);
    assert_eq!(world.send("DELETE", &one, &json!({})).code, 405);
    assert_eq!(world.get("/apis/apps/v1/namespaces/t1/deployments/d/scale").code, 404);
}

#[test]
fn a_store_that_cannot_write_says_why() {
    let world = World::new();
    let body = json!({"metadata": {"name": "cm1"}});
    let storage = StorageError::new(std::path::Path::new("store.redb"), "No space left on device");
    let full = StorageError::full(std::path::Path::new("store.redb"), "No space left on device");
    for (error, code, retry, part) in [
        (WriteError::Refused(TxnError::Storage(full)), 507, None, "no restart is needed"),
        (WriteError::Busy, 429, Some(1), "try again"),
        (WriteError::Closed, 503, Some(1), "closing"),
        (WriteError::Refused(TxnError::Storage(storage)), 500, None, "No space left"),
        (WriteError::Refused(TxnError::ValueTooLarge { op: 0, bytes: 1 }), 413, None, "limit is"),
    ] {
        *world.host.refuse.borrow_mut() = Some(error);
        let got = world.send("POST", CONFIG_MAPS, &body);
        assert_eq!((got.code, got.whole().retry_after_seconds), (code, retry), "{}", got.body);
        assert!(got.message().contains(part), "{}", got.message());
    }
}

/// Values take more memory than their text: they are charged before they are parsed, those of the stored object too.
#[test]
fn many_values_are_charged() {
    let mut world = World::with_json();
    let object = |values: usize| json!({"metadata": {"name": "cm1"}, "x": vec![0; values]});
    assert_eq!(world.send("POST", CONFIG_MAPS, &object(10_000)).code, 201);
    world.budget = 1 << 20;
    let one = format!("{CONFIG_MAPS}/cm1");
    for (method, target, body) in [
        ("POST", CONFIG_MAPS, &object(10_000)),
        ("PUT", &one, &object(10_000)),
        ("PUT", &one, &object(1)),
        ("PATCH", &one, &json!({"x": null})),
    ] {
        let headers = [(
            "Content-Type",
            if method == "PATCH" { "application/merge-patch+json" } else { "application/json" },
        )];
        let got = world.ask(&Ask {
            method,
            target,
            headers: headers.to_vec(),
            body: body.to_string().into(),
            http: "HTTP/1.1",
        });
        assert_eq!(got.code, 429, "{method} {}", got.body);
    }
    world.budget = 8 << 20;
    assert_eq!(world.send("PUT", &one, &object(1)).code, 200);
}

/// A stored object is sent without a copy.
#[test]
fn a_get_shares_what_the_store_has() {
    let world = World::with_json();
    world.config_map("cm1", "x");
    let one = format!("{CONFIG_MAPS}/cm1");
    let got = world.get(&one);
    assert!(!got.whole().body.is_unique() && got.whole().end == b"\n", "{got:?}");
    assert!(got.body.ends_with("}\n"));
    let got = world.get(&format!("{one}?pretty=true"));
    assert!(got.whole().body.is_unique() && got.whole().end.is_empty());
}

#[test]
fn events_have_a_lease() {
    let world = World::new();
    let got = world.send(
        "POST",
        "/api/v1/namespaces/t1/events",
        &json!({"metadata": {"name": "e"}, "reason": "x"}),
    );
    assert_eq!(got.code, 201);
    assert!(world.host.store.borrow().next_expiry().is_some());
    world.config_map("cm1", "x");
    let due = world.host.store.borrow_mut().expire(crate::source::WallTime::from_millis(u64::MAX), 10);
    assert_eq!((due.len(), due[0].revision), (1, Revision::new(4)));
}
