//! Server-side apply.

use serde_json::{Map, Value, json};

use super::{Ask, CONFIG_MAPS, Got, World};
use crate::http::status::STATUS_BYTES_MAX;

const APPLY: &str = "application/apply-patch+yaml";

fn send(world: &World, target: &str, body: &str) -> Got {
    let mut ask = Ask::new("PATCH", target).with("Content-Type", APPLY);
    ask.body = body.to_owned().into();
    world.ask(&ask)
}

/// Applies `cm1` with these data.
fn apply(world: &World, query: &str, data: &Value) -> Got {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm1"}, "data": data});
    send(world, &format!("{CONFIG_MAPS}/cm1?{query}"), &body.to_string())
}

#[test]
fn an_object_is_made_then_changed() {
    let world = World::new();
    let made = apply(&world, "fieldManager=a", &json!({"k": "1", "l": "1"}));
    assert_eq!(made.code, 201, "{}", made.body);
    let object = made.json();
    assert_eq!(object["metadata"]["namespace"], "t1");
    assert!(object["metadata"]["uid"].is_string() && object["metadata"]["creationTimestamp"].is_string());
    let entry = json!([{"manager": "a", "operation": "Apply", "apiVersion": "v1", "time": "2026-11-21T05:38:13Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:k": {}, "f:l": {}}}}]);
    assert_eq!(object["metadata"]["managedFields"], entry);
    // The same again makes no event.
    let (revision, writes) = (world.revision(), world.host.writes.get());
    let same = apply(&world, "fieldManager=a", &json!({"k": "1", "l": "1"}));
    assert_eq!((same.code, same.json()), (200, object.clone()));
    assert_eq!((world.revision(), world.host.writes.get()), (revision, writes));
    // Nor does it later, with members that are not stored as sent.
    world.host.later.set(5);
    let kept = json!({"name": "cm1", "labels": {}, "finalizers": [], "creationTimestamp": null, "generation": 7, "resourceVersion": "0"});
    let body =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": kept, "data": {"k": "1", "l": "1"}});
    let same = send(&world, &format!("{CONFIG_MAPS}/cm1?fieldManager=a"), &body.to_string());
    assert_eq!((same.code, same.json()), (200, object));
    assert_eq!((world.revision(), world.host.writes.get()), (revision, writes));
    world.host.later.set(0);
    // In YAML, with one changed and one removed.
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cm1\n  labels: {x: 'y'}\ndata:\n  k: '2'\n  none: null\n";
    let got = send(&world, &format!("{CONFIG_MAPS}/cm1?fieldManager=a"), yaml);
    assert_eq!((got.code, &got.json()["data"]), (200, &json!({"k": "2"})), "{}", got.body);
    assert_eq!(got.json()["metadata"]["labels"], json!({"x": "y"}));
}

#[test]
fn managers_meet() {
    let world = World::new();
    assert_eq!(apply(&world, "fieldManager=a", &json!({"k": "1", "l": "1"})).code, 201);
    let got = apply(&world, "fieldManager=b", &json!({"k": "2"}));
    assert_eq!(
        got.body,
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"Apply failed with 1 conflict: \
         conflict with \\\"a\\\": .data.k\",\"reason\":\"Conflict\",\"details\":{\"causes\":[{\"reason\":\"FieldManagerConflict\",\
         \"message\":\"conflict with \\\"a\\\"\",\"field\":\".data.k\"}]},\"code\":409}\n"
    );
    let got = apply(&world, "fieldManager=b", &json!({"k": "2", "l": "2"}));
    let message = "Apply failed with 2 conflicts: conflicts with \"a\":\n- .data.k\n- .data.l";
    assert_eq!((got.code, got.message().as_str()), (409, message));
    assert_eq!(
        apply(&world, "fieldManager=b&force=true", &json!({"k": "2"})).json()["data"],
        json!({"k": "2", "l": "1"})
    );
    let got = apply(&world, "fieldManager=a", &json!({"l": "1"}));
    assert_eq!((got.code, &got.json()["data"]), (200, &json!({"k": "2", "l": "1"})));
    let managers: Vec<Value> = got.json()["metadata"]["managedFields"].as_array().unwrap().clone();
    assert_eq!(managers[0]["fieldsV1"], json!({"f:data": {"f:l": {}}}));
    assert_eq!(managers[1]["fieldsV1"], json!({"f:data": {"f:k": {}}}));

    // Other writers own nothing, but end the ownership of what they change.
    let one = format!("{CONFIG_MAPS}/cm1");
    let merged = world.patch(&one, "application/merge-patch+json", &json!({"data": {"k": "9"}}));
    assert_eq!(
        merged.json()["metadata"]["managedFields"].as_array().map(Vec::len),
        Some(1),
        "{}",
        merged.body
    );
    assert_eq!(apply(&world, "fieldManager=a", &json!({"k": "1", "l": "1"})).code, 200);
    // A PUT without them keeps them; one with an empty list forgets them.
    let put = world.send(
        "PUT",
        &one,
        &json!({"metadata": {"name": "cm1"}, "data": {"k": "1", "l": "1", "m": "1"}}),
    );
    assert_eq!(put.json()["metadata"]["managedFields"].as_array().map(Vec::len), Some(1), "{}", put.body);
    let writes = world.host.writes.get();
    assert_eq!(world.send("PUT", &one, &put.json()).code, 200);
    assert_eq!(world.host.writes.get(), writes, "what was read is sent back: nothing to write");
    let put = world.send("PUT", &one, &json!({"metadata": {"managedFields": []}, "data": {"k": "1"}}));
    assert_eq!(put.json()["metadata"]["managedFields"], Value::Null);
}

#[test]
fn of_very_many_conflicts_some_are_listed() {
    let world = World::new();
    // A long name of a manager that updated, which is not checked: an object may be sent with one.
    let members = |prefix: &str, value: Value| -> Value {
        (0..600).map(|n| (format!("{prefix}{n}"), value.clone())).collect::<Map<String, Value>>().into()
    };
    let owned = members("f:k", json!({}));
    let entries = json!([{"manager": "m".repeat(16 << 10), "operation": "Update", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": owned}}]);
    let data = members("k", json!("1"));
    let made = json!({"metadata": {"name": "cm1", "managedFields": entries}, "data": data});
    assert_eq!(world.send("POST", CONFIG_MAPS, &made).code, 201);
    let changed = members("k", json!("2"));
    let got = apply(&world, "fieldManager=b", &changed);
    assert_eq!(got.code, 409);
    assert!(got.body.len() <= STATUS_BYTES_MAX, "{} bytes", got.body.len());
    let listed = got.json()["details"]["causes"].as_array().map_or(0, Vec::len);
    assert!((30..=60).contains(&listed), "{listed} listed");
    assert!(got.message().starts_with("Apply failed with 600 conflicts: conflicts with \"mm"));
    assert!(got.message().ends_with(&format!("\nand {} more", 600 - listed)));
    assert_eq!(apply(&world, "fieldManager=b&force=true", &changed).code, 200);
}

#[test]
fn what_is_not_right_is_refused() {
    let world = World::new();
    let one = format!("{CONFIG_MAPS}/cm1?fieldManager=a");
    let head = "apiVersion: v1\nkind: ConfigMap\n";
    for (query, body, code, part) in [
        (
            "",
            format!("{head}metadata: {{name: cm1}}\n"),
            422,
            "fieldManager: Required value: is required for apply patch",
        ),
        ("?fieldManager=a&dryRun=x", head.to_owned(), 422, "dryRun"),
        ("?fieldManager=a", String::new(), 400, "error decoding YAML"),
        ("?fieldManager=a", "a: [".to_owned(), 400, "error decoding YAML"),
        ("?fieldManager=a", "[]".to_owned(), 400, "the document is not an object"),
        ("?fieldManager=a", format!("{head}---\n{head}"), 400, "more than one document"),
        ("?fieldManager=a", "data: {}\n".to_owned(), 400, "invalid object type: , Kind="),
        (
            "?fieldManager=a",
            "apiVersion: v2\nkind: ConfigMap\n".to_owned(),
            400,
            "invalid object type: v2, Kind=ConfigMap",
        ),
        (
            "?fieldManager=a",
            "apiVersion: v1\nkind: Pod\n".to_owned(),
            400,
            "invalid object type: v1, Kind=Pod",
        ),
        (
            "?fieldManager=a",
            format!("{head}metadata: {{name: other}}\n"),
            400,
            "does not match the name on the URL",
        ),
        (
            "?fieldManager=a",
            format!("{head}metadata: {{namespace: t2}}\n"),
            400,
            "does not match the namespace",
        ),
        (
            "?fieldManager=a",
            format!("{head}metadata: {{managedFields: []}}\n"),
            400,
            "metadata.managedFields must be nil",
        ),
        ("?fieldManager=a", format!("{head}metadata: x\n"), 400, "metadata is not an object"),
        ("?fieldManager=a", format!("{head}metadata: {{uid: u}}\n"), 409, "uid mismatch"),
        ("?fieldManager=a", format!("{head}metadata: {{resourceVersion: '7'}}\n"), 409, "has been modified"),
        ("?fieldManager=a", format!("{head}metadata: {{labels: {{a: '!'}}}}\n"), 422, "metadata.labels"),
        (
            "?fieldManager=a",
            format!("{head}metadata: {{finalizers: [a/a, a/a]}}\n"),
            400,
            "duplicate entries for key",
        ),
    ] {
        let got = send(&world, &format!("{CONFIG_MAPS}/cm1{query}"), &body);
        assert_eq!(got.code, code, "{body} {}", got.body);
        assert!(got.message().contains(part), "{body} {}", got.message());
    }
    assert_eq!(world.host.writes.get(), 0);
    let made = send(&world, &format!("{one}&dryRun=All"), head);
    assert_eq!((made.code, world.host.writes.get()), (201, 0));
    assert_eq!(send(&world, &one, head).code, 201);
    let stale = send(&world, &one, &format!("{head}metadata: {{resourceVersion: '1'}}\ndata: {{a: b}}\n"));
    assert_eq!(stale.code, 409, "{}", stale.body);
    assert_eq!(send(&world, &one, &format!("{head}metadata: {{uid: other}}\n")).code, 409);
    assert_eq!(send(&world, &format!("{CONFIG_MAPS}/cm1"), head).code, 422, "of one that is there too");
    let elsewhere =
        world.patch(&format!("{CONFIG_MAPS}/cm1?force=true"), "application/merge-patch+json", &json!({}));
    assert_eq!(elsewhere.code, 422, "force is for applies");
}

#[test]
fn declared_resources_and_status() {
    let world = World::new();
    let target = "/apis/example.com/v1/namespaces/t1/widgets/w";
    let body = |status: &str| {
        format!(
            "apiVersion: example.com/v1\nkind: Widget\nspec: {{color: red, list: [{{name: a}}]}}\n{status}"
        )
    };
    let main = format!("{target}?fieldManager=a");
    let status = format!("{target}/status?fieldManager=c");
    assert_eq!(send(&world, &status, &body("status: {num: 1}\n")).code, 404, "a status makes no object");
    let got = send(&world, &main, &body("status: {}\n"));
    assert_eq!((got.code, &got.json()["status"]), (201, &Value::Null), "{}", got.body);
    let got = send(&world, &status, &body("status: {num: 1}\nmetadata: {labels: {x: z}}\n")).json();
    assert_eq!((&got["status"], &got["metadata"]["labels"]), (&json!({"num": 1}), &Value::Null));
    let entries = got["metadata"]["managedFields"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["manager"] == "c").expect("an entry of its own");
    assert_eq!(
        (&entry["subresource"], &entry["fieldsV1"]),
        (&json!("status"), &json!({"f:status": {"f:num": {}}}))
    );
    let got = send(&world, &status, &body("status: {m: 2}\n")).json();
    assert_eq!((&got["status"], &got["spec"]["color"]), (&json!({"m": 2}), &json!("red")));
    // A status that is written without apply loses its owner.
    let put = json!({"metadata": {"name": "w"}, "status": {"m": 3}});
    let got = world.send("PUT", &format!("{target}/status"), &put).json();
    assert_eq!(got["metadata"]["managedFields"].as_array().map(Vec::len), Some(1), "{got}");
    assert_eq!(got["metadata"]["managedFields"][0]["manager"], "a");
}

#[test]
fn races() {
    let world = World::new();
    // Created by another client between the check and the write.
    world.host.rivals.borrow_mut().push(super::writes::rival(&world, "1"));
    let got = apply(&world, "fieldManager=a", &json!({"k": "1"}));
    assert_eq!((got.code, &got.json()["data"]), (200, &json!({"rival": "1", "k": "1"})), "{}", got.body);
    // Changed meanwhile.
    world.host.rivals.borrow_mut().push(super::writes::rival(&world, "2"));
    let got = apply(&world, "fieldManager=a", &json!({"k": "2"}));
    assert_eq!((got.code, &got.json()["data"]), (200, &json!({"rival": "2", "k": "2"})), "{}", got.body);
}
