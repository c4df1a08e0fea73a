//! Objects that are stored in protobuf are written and read as those that are stored in JSON.

use revcast_engine::codec::Value as StoredValue;
use serde_json::{Value, json};

use super::{Ask, Bytes, CONFIG_MAPS, Got, World};
use crate::api::protobuf::{MEDIA_TYPE, Release, encode};
use crate::serve::storage::StorageMediaType;

const PODS: &str = "/api/v1/namespaces/t1/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/t1/deployments";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/t1/widgets";

fn packed() -> World {
    World::storing(StorageMediaType::Protobuf, 1024)
}

fn is_packed(world: &World, plural: &str, name: &str) -> bool {
    let key = world.key(plural, "t1", name);
    let publisher = world.host.publisher.borrow();
    matches!(publisher.get(&key).unwrap().value(), StoredValue::Protobuf(_))
}

fn pod(name: &str, node: &str) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i", "resources": {}}],
        "restartPolicy": "Never"}})
}

/// A server's own, which differ between two worlds.
fn settled(got: &Got) -> Value {
    let mut value = got.json();
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.shift_remove("uid");
    }
    value
}

#[test]
fn what_is_written_is_stored_in_protobuf_where_it_can_be() {
    let world = packed();
    world.config_map("a", "<1>");
    assert!(is_packed(&world, "configmaps", "a"));
    assert_eq!(world.get(&format!("{CONFIG_MAPS}/a")).json()["data"], json!({"k": "<1>"}));
    let custom = json!({"metadata": {"name": "w"}, "spec": {"size": 1.5}});
    assert_eq!(world.send("POST", WIDGETS, &custom).code, 201);
    assert_eq!(world.get(&format!("{WIDGETS}/w")).json()["spec"], json!({"size": 1.5}));
    // A protobuf body is stored with what the server sets.
    let body = encode(Release::DEFAULT, pod("p", "n1").to_string().as_bytes()).unwrap();
    let ask = Ask { body: Bytes::from(body), ..Ask::new("POST", PODS).with("Content-Type", MEDIA_TYPE) };
    let got = world.ask(&ask);
    assert_eq!(got.code, 201, "{}", got.body);
    assert!(is_packed(&world, "pods", "p"));
    assert_eq!(got.json()["status"]["phase"], "Pending");
    assert_eq!(got.json()["metadata"]["namespace"], "t1");
}

#[test]
fn what_does_not_fit_its_type_is_refused() {
    let world = packed();
    let got = world.send("POST", CONFIG_MAPS, &json!({"metadata": {"name": "a"}, "data": {"k": 1}}));
    assert_eq!((got.code, world.host.writes.get()), (400, 0));
    let why = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: data: it is not text";
    assert_eq!(got.message(), why);
    world.config_map("a", "1");
    let got =
        world.patch(&format!("{CONFIG_MAPS}/a"), "application/merge-patch+json", &json!({"immutable": "no"}));
    assert_eq!((got.code, world.host.writes.get()), (400, 1), "{}", got.body);
}

/// A member without a place in the type is dropped, or refused if the client would rather know.
#[test]
fn members_that_would_be_lost() {
    let world = packed();
    let odd = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"k": "v"}, "spec": {}});
    let got = world.send("POST", &format!("{CONFIG_MAPS}?fieldValidation=Strict"), &odd);
    let why = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"spec\"";
    assert_eq!((got.code, got.message().as_str(), world.host.writes.get()), (400, why, 0));
    let apply = "application/apply-patch+yaml";
    let got = world.patch(&format!("{CONFIG_MAPS}/a?fieldManager=m"), apply, &odd);
    assert_eq!((got.code, got.message().as_str(), world.host.writes.get()), (400, why, 0));
    for query in ["", "?fieldValidation=Warn", "?fieldValidation=Ignore"] {
        let got = world.send("POST", &format!("{CONFIG_MAPS}{query}"), &odd);
        assert!(matches!(got.code, 201 | 409) && got.json().get("spec").is_none(), "{}", got.body);
    }
    let merge = "application/merge-patch+json";
    let strict = format!("{CONFIG_MAPS}/a?fieldValidation=Strict");
    assert_eq!(world.patch(&strict, merge, &json!({"x": 1})).code, 400);
    assert_eq!(world.patch(&strict, merge, &json!({"data": {"k": "w"}})).code, 200);
    assert_eq!(
        World::with_json().send("POST", &format!("{CONFIG_MAPS}?fieldValidation=Strict"), &odd).code,
        201
    );
}

/// The same requests in the same order are answered alike.
#[test]
fn both_forms_answer_alike() {
    const MERGE: &str = "application/merge-patch+json";
    const STRATEGIC: &str = "application/strategic-merge-patch+json";
    const APPLY: &str = "application/apply-patch+yaml";
    let (one, deployment) = (format!("{PODS}/p"), format!("{DEPLOYMENTS}/d"));
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
        {"name": "web", "image": "web:1", "resources": {}}]}});
    let whole = json!({"metadata": {"name": "d"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}},
        "template": template, "strategy": {}}, "status": {}});
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}});
    let applied =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {"x": "y"}}});
    let script = [
        ("POST", PODS.to_owned(), "application/json", pod("p", "n1")),
        ("POST", PODS.to_owned(), "application/json", pod("q", "n2")),
        ("POST", PODS.to_owned(), "application/json", pod("q", "n2")),
        ("PATCH", one.clone(), MERGE, json!({"metadata": {"labels": {"new": "1"}}})),
        ("PATCH", one.clone(), MERGE, json!({"metadata": {"labels": {"new": "1"}}})),
        ("PATCH", format!("{one}/status"), MERGE, json!({"status": {"phase": "Running"}})),
        ("PATCH", format!("{one}?fieldManager=m"), APPLY, applied.clone()),
        ("PATCH", format!("{one}?fieldManager=m"), APPLY, applied),
        ("PATCH", one.clone(), MERGE, json!({"metadata": {"resourceVersion": "1", "labels": {"z": "z"}}})),
        ("GET", format!("{PODS}?fieldSelector=spec.nodeName%3Dn1"), "", Value::Null),
        ("GET", format!("{PODS}?fieldSelector=status.phase%3DRunning"), "", Value::Null),
        ("GET", format!("{PODS}?fieldSelector=spec.restartPolicy!%3DNever"), "", Value::Null),
        ("GET", format!("{PODS}?labelSelector=new%3D1"), "", Value::Null),
        ("POST", DEPLOYMENTS.to_owned(), "application/json", whole),
        ("PATCH", deployment.clone(), STRATEGIC, image.clone()),
        ("PATCH", deployment.clone(), STRATEGIC, image),
        ("GET", deployment, "", Value::Null),
        ("DELETE", format!("{PODS}/q"), "", Value::Null),
        ("DELETE", format!("{PODS}?labelSelector=new%3D1"), "", Value::Null),
        ("GET", PODS.to_owned(), "", Value::Null),
    ];
    let (json, packed) = (World::with_json(), packed());
    for (method, target, media, body) in &script {
        let ask = Ask::new(method, target).with("Content-Type", media);
        let ask = if body.is_null() { ask } else { ask.json(body) };
        let (expected, got) = (json.ask(&ask), packed.ask(&ask));
        assert_eq!(got.code, expected.code, "{method} {target} {}", got.body);
        let (mut expected, mut got) = (settled(&expected), settled(&got));
        // The type of a deployment has a status that is written always.
        if target.starts_with(DEPLOYMENTS) {
            for object in [&mut expected, &mut got] {
                object.as_object_mut().unwrap().shift_remove("status");
            }
        }
        for items in [&mut expected, &mut got].into_iter().filter_map(|list| list["items"].as_array_mut()) {
            items
                .iter_mut()
                .for_each(|item| drop(item["metadata"].as_object_mut().unwrap().shift_remove("uid")));
        }
        assert_eq!(got, expected, "{method} {target}");
        assert_eq!(packed.revision(), json.revision(), "{method} {target}");
    }
}

#[test]
fn what_is_tried_only_shows_what_would_be_stored() {
    let world = packed();
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": null, "template": {}}});
    let tried = world.send("POST", &format!("{DEPLOYMENTS}?dryRun=All"), &deployment).json();
    let made = world.send("POST", DEPLOYMENTS, &deployment).json();
    assert_eq!(tried["status"], json!({}));
    assert_eq!((&tried["spec"], &tried["status"]), (&made["spec"], &made["status"]));
}
