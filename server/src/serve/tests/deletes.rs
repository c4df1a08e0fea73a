//! DELETE of objects and collections.

use serde_json::{Value, json};

use super::{Ask, CONFIG_MAPS, World};

#[test]
fn an_object_goes_at_once() {
    let world = World::new();
    let old = world.config_map("cm1", "x");
    let one = format!("{CONFIG_MAPS}/cm1");
    let got = world.send(
        "DELETE",
        &one,
        &json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}),
    );
    let uid = old["metadata"]["uid"].as_str().unwrap();
    let expected = format!(
        "{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"status\":\"Success\",\
         \"details\":{{\"name\":\"cm1\",\"kind\":\"configmaps\",\"uid\":\"{uid}\"}}}}\n"
    );
    assert_eq!((got.code, got.body), (200, expected));
    assert_eq!(world.send("DELETE", &one, &json!({})).code, 404);
    assert_eq!(world.get(&one).code, 404);
}

#[test]
fn preconditions() {
    let world = World::new();
    let old = world.config_map("cm1", "x");
    let one = format!("{CONFIG_MAPS}/cm1?gracePeriodSeconds=0");
    let when = |preconditions: Value| world.send("DELETE", &one, &json!({"preconditions": preconditions}));
    let uid = when(json!({"uid": "other"}));
    assert_eq!(uid.code, 409);
    let expected = format!(
        "Operation cannot be fulfilled on ConfigMap \"cm1\": the UID in the precondition (other) does not match the UID in \
         record ({}). The object might have been deleted and then recreated",
        old["metadata"]["uid"].as_str().unwrap()
    );
    assert_eq!(uid.message(), expected);
    assert_eq!(when(json!({"resourceVersion": "1"})).code, 409);
    assert_eq!(world.send("DELETE", &one, &json!({"kind": "Pod"})).code, 400);
    assert_eq!(world.send("DELETE", &one, &json!({"propagationPolicy": "Sideways"})).code, 422);
    let metadata = &old["metadata"];
    let right = json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]});
    assert_eq!(when(right).code, 200);
}

#[test]
fn finalizers_keep_an_object_until_they_are_gone() {
    let world = World::new();
    let body = json!({"metadata": {"name": "f", "finalizers": ["example.com/a", "example.com/b"]}});
    let made = world.send("POST", CONFIG_MAPS, &body).json();
    let one = format!("{CONFIG_MAPS}/f");
    let marked = world.send("DELETE", &one, &json!({}));
    assert_eq!(
        (marked.code, &marked.json()["metadata"]["deletionTimestamp"]),
        (200, &json!("2026-11-21T05:38:13Z"))
    );
    assert_ne!(marked.json()["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    assert_eq!(world.get(&one).json(), marked.json());
    let again = world.send("DELETE", &one, &json!({}));
    assert_eq!((again.code, again.json()), (200, marked.json()));
    let merge = "application/merge-patch+json";
    let more =
        world.patch(&one, merge, &json!({"metadata": {"finalizers": ["example.com/a", "example.com/c"]}}));
    assert_eq!(more.code, 422);
    assert!(more.message().contains("found new finalizers"));
    let left = world.patch(&one, merge, &json!({"metadata": {"finalizers": ["example.com/b"]}}));
    assert_eq!(left.json()["metadata"]["deletionTimestamp"], marked.json()["metadata"]["deletionTimestamp"]);
    let before = world.revision();
    assert_eq!(world.patch(&one, merge, &json!({"metadata": {"finalizers": null}})).code, 200);
    assert_eq!((world.get(&one).code, world.revision()), (404, before + 1));
}

#[test]
fn a_collection_goes_object_by_object() {
    let world = World::new();
    for i in 0..70 {
        let labels = json!({"odd": (i % 2).to_string()});
        let body = json!({"metadata": {"name": format!("cm{i:02}"), "labels": labels}});
        assert_eq!(world.send("POST", CONFIG_MAPS, &body).code, 201);
    }
    let kept = json!({"metadata": {"name": "kept", "labels": {"odd": "1"}, "finalizers": ["example.com/x"]}});
    assert_eq!(world.send("POST", CONFIG_MAPS, &kept).code, 201);
    let before = world.revision();
    let gone = world.send("DELETE", &format!("{CONFIG_MAPS}?labelSelector=odd%3D1"), &json!({}));
    let list = gone.json();
    assert_eq!((gone.code, &list["kind"]), (200, &json!("ConfigMapList")));
    assert_eq!(list["items"].as_array().map(Vec::len), Some(36));
    assert_eq!(world.revision(), before + 36, "a revision each");
    let rest = world.get(CONFIG_MAPS).json();
    assert_eq!(rest["items"].as_array().map(Vec::len), Some(36));
    let page =
        world.send("DELETE", &format!("{CONFIG_MAPS}?limit=5&labelSelector=odd%3D0"), &json!({})).json();
    assert_eq!(page["items"].as_array().map(Vec::len), Some(5));
    assert!(page["metadata"]["continue"].is_string());
    let dry = world.send("DELETE", &format!("{CONFIG_MAPS}?dryRun=All"), &Value::Null);
    assert_eq!(dry.code, 400, "a body that is null is no DeleteOptions");
    assert_eq!(world.ask(&Ask::new("DELETE", &format!("{CONFIG_MAPS}?dryRun=All"))).code, 200);
    assert_eq!(world.get(CONFIG_MAPS).json()["items"].as_array().map(Vec::len), Some(31));
    let everywhere = world.send("DELETE", "/api/v1/configmaps", &json!({}));
    assert_eq!((everywhere.code, everywhere.whole().allow), (405, Some("GET")));
}

#[test]
fn a_pod_is_marked_before_it_goes() {
    let world = World::new();
    let pods = "/api/v1/namespaces/t1/pods";
    let post = |name: &str, spec: Value| {
        let body = json!({"metadata": {"name": name}, "spec": spec});
        assert_eq!(world.send("POST", pods, &body).code, 201);
        world.revision()
    };
    let before = post("free", json!({"terminationGracePeriodSeconds": 30}));
    let gone = world.send("DELETE", &format!("{pods}/free"), &json!({}));
    assert_eq!((gone.code, &gone.json()["kind"]), (200, &json!("Pod")), "it is shown, not a Status");
    assert_eq!((world.revision(), world.get(&format!("{pods}/free")).code), (before + 2, 404));

    let before = post("bound", json!({"nodeName": "n", "terminationGracePeriodSeconds": 30}));
    let one = format!("{pods}/bound");
    let marked = world.send("DELETE", &one, &json!({})).json();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(world.send("DELETE", &one, &json!({})).json(), marked, "marked once");
    assert_eq!(world.revision(), before + 1);
    let condition = json!({"gracePeriodSeconds": 0, "preconditions": {"resourceVersion": marked["metadata"]["resourceVersion"]}});
    assert_eq!(world.send("DELETE", &one, &condition).code, 200, "its own mark does not break the condition");
    assert_eq!((world.revision(), world.get(&one).code), (before + 3, 404));
}

#[test]
fn what_is_not_there_is_404_whatever_the_method() {
    let world = World::new();
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"] {
        assert_eq!(world.ask(&Ask::new(method, "/api/v1/namespaces/t1/widgets")).code, 404, "{method}");
        assert_eq!(world.ask(&Ask::new(method, "/apis/nope.example/v1/widgets")).code, 404, "{method}");
    }
    let head = world.ask(&Ask::new("HEAD", "/api/v1/configmaps"));
    assert_eq!((head.code, head.whole().allow), (405, Some("GET")));
    let head = world.ask(&Ask::new("HEAD", "/api/v1/nodes"));
    assert_eq!((head.code, head.whole().allow), (405, Some("GET, POST, DELETE")));
}

#[test]
fn a_watch_by_name_takes_no_other_selector() {
    let world = World::new();
    world.config_map("cm1", "x");
    let path = "/api/v1/watch/namespaces/t1/configmaps/cm1";
    for (selector, code) in [
        ("", 200),
        ("metadata.name%3Dcm1", 200),
        ("metadata.name%3Dcm1,metadata.namespace%3Dt1", 200),
        ("metadata.name%3Dz", 400),
        ("metadata.namespace%3Dt1", 400),
        ("metadata.name!%3Dz", 400),
    ] {
        assert_eq!(world.get(&format!("{path}?fieldSelector={selector}")).code, code, "{selector}");
    }
}
