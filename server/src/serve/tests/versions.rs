//! Requests in a version that objects are not kept in.

use revcast_engine::encoding::{Encode, Encoding, Shown, Subject, View};
use revcast_engine::key::Key;
use revcast_engine::message::MessageKind;
use revcast_engine::selector::Selector;
use serde_json::{Value, json};

use super::World;
use crate::http::response::PROTOBUF;

const OLD: &str = "/apis/autoscaling/v1/namespaces/t1/horizontalpodautoscalers";
const NEW: &str = "/apis/autoscaling/v2/namespaces/t1/horizontalpodautoscalers";
const CORE_EVENTS: &str = "/api/v1/namespaces/t1/events";
const NEW_EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/t1/events";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const BETA_ADDRESSES: &str = "/apis/networking.k8s.io/v1beta1/ipaddresses";
const MERGE: &str = "application/merge-patch+json";

fn world() -> World {
    let world = World::new();
    let autoscaler = json!({
        "metadata": {"name": "a"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"}, "metrics": [
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
        ]},
    });
    assert_eq!(world.send("POST", NEW, &autoscaler).code, 201);
    for name in ["p", "q"] {
        let event = json!({
            "metadata": {"name": format!("of-{name}")}, "message": "m",
            "involvedObject": {"kind": "Pod", "name": name}, "reportingComponent": "c",
        });
        assert_eq!(world.send("POST", CORE_EVENTS, &event).code, 201);
    }
    world
}

#[test]
fn objects_are_read_in_every_version_and_format() {
    let world = world();
    let one = world.get(&format!("{OLD}/a")).json();
    assert_eq!(
        (&one["apiVersion"], &one["spec"]["targetCPUUtilizationPercentage"]),
        (&json!("autoscaling/v1"), &json!(50))
    );
    let list = world.get(OLD);
    assert!(
        list.body.starts_with(r#"{"kind":"HorizontalPodAutoscalerList","apiVersion":"autoscaling/v1","#),
        "{}",
        list.body
    );
    let mut item = one.clone();
    item.as_object_mut().unwrap().retain(|name, _| !["kind", "apiVersion"].contains(&name.as_str()));
    assert_eq!(list.json()["items"], json!([item]));
    assert_eq!(world.get_as(&format!("{OLD}/a"), PROTOBUF).json(), one);
    assert_eq!(world.get_as(OLD, PROTOBUF).json()["items"], json!([item]));
    // The cells are of what is kept; the object is in the version that was asked.
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let row = |target: &str| world.get_as(target, table).json()["rows"][0].clone();
    let (old, new) = (row(&format!("{OLD}?includeObject=Object")), row(NEW));
    assert_eq!(old["object"], one);
    assert_eq!(old["cells"], new["cells"]);
    assert_eq!(world.get_as(&format!("{OLD}/a?includeObject=Object"), table).json()["rows"][0], old);
    let yaml = world.get_as(OLD, "application/yaml").body;
    assert!(
        yaml.contains("targetCPUUtilizationPercentage: 50") && yaml.contains("apiVersion: autoscaling/v1"),
        "{yaml}"
    );
}

#[test]
fn versions_have_selectors_of_their_own() {
    let world = world();
    let names = |target: &str| {
        let list = world.get(target).json();
        let items = list["items"].as_array().unwrap_or_else(|| panic!("{list}")).clone();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        names(&format!("{NEW_EVENTS}?fieldSelector=regarding.name%3Dp,reportingController%3Dc")),
        ["of-p"]
    );
    assert_eq!(names(&format!("{CORE_EVENTS}?fieldSelector=involvedObject.name%3Dq")), ["of-q"]);
    assert_eq!(world.get(&format!("{NEW_EVENTS}?fieldSelector=involvedObject.name%3Dp")).code, 400);
    assert_eq!(world.get(&format!("{CORE_EVENTS}?fieldSelector=regarding.name%3Dp")).code, 400);
    assert_eq!(world.get(&format!("{NEW_EVENTS}/of-p")).json()["note"], "m");
}

/// What a watch of this target is sent of an object.
fn message(world: &World, target: &str, accept: &str, key: &Key, kind: MessageKind) -> (Encoding, Vec<u8>) {
    let watch_request = world.get_as(target, accept).watch_request();
    let Encoding::Other(encoding) = watch_request.subscription.encoding else {
        panic!("not of this version: {:?}", watch_request.subscription.encoding)
    };
    let encoder = super::Encoder::new(std::sync::Arc::clone(world.app.catalogs()));
    let publisher = world.host.publisher.borrow();
    let object = publisher.get(key).expect("the object");
    let subject = match kind {
        MessageKind::Bookmark => {
            let row = world.app.catalogs().schema().get(key.resource());
            Subject::Bookmark { resource: Some((key.resource(), row)), initial_end: false }
        }
        MessageKind::Added | MessageKind::Modified | MessageKind::Deleted => {
            Subject::Object { key, value: object.value() }
        }
    };
    let event = Shown { kind, subject, revision: object.revision(), as_of_seconds: super::NOW };
    let mut out = Vec::new();
    encoder.event(&mut out, View { encoding, first: false, event }).expect("a form");
    (watch_request.subscription.encoding, out)
}

#[test]
fn a_watch_has_changes_in_its_version() {
    let world = world();
    let row = |group: &str, version: &str, plural: &str| {
        world.app.catalog().registry.find(group, version, plural).unwrap().row
    };
    let key = Key::new(row("autoscaling", "v1", "horizontalpodautoscalers"), Some("t1"), "a");
    let target = format!("{OLD}?watch=1");
    let json = "application/json";
    let (encoding, event) = message(&world, &target, json, &key, MessageKind::Modified);
    let event: Value = serde_json::from_slice(&event).unwrap();
    assert_eq!(
        (&event["type"], &event["object"]),
        (&json!("MODIFIED"), &world.get(&format!("{OLD}/a")).json())
    );
    let (_, bookmark) = message(&world, &target, json, &key, MessageKind::Bookmark);
    let bookmark: Value = serde_json::from_slice(&bookmark).unwrap();
    assert_eq!(bookmark["object"]["apiVersion"], "autoscaling/v1");
    let (packed, event) = message(&world, &target, PROTOBUF, &key, MessageKind::Deleted);
    assert!(packed != encoding && event.windows(14).any(|part| part == b"autoscaling/v1"));
    // A watch of the version that is kept shares its bytes with all others; metadata is the same for all versions.
    assert_eq!(world.get(&format!("{NEW}?watch=1")).watch_request().subscription.encoding, Encoding::Json);
    let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let of = |target: &str| {
        world.get_as(&format!("{target}?watch=1"), metadata).watch_request().subscription.encoding
    };
    assert_eq!(of(OLD), of(NEW));
    let watch_request =
        world.get(&format!("{NEW_EVENTS}?watch=1&fieldSelector=regarding.name%3Dp")).watch_request();
    assert_ne!(watch_request.subscription.selector, Selector::everything());
}

#[test]
fn what_differs_in_its_version_only_is_written_in_any() {
    let world = World::new();
    let body = json!({"apiVersion": "networking.k8s.io/v1beta1", "kind": "IPAddress", "metadata": {"name": "10.0.0.1"}, "spec": {}});
    let made = world.send("POST", BETA_ADDRESSES, &body);
    assert_eq!((made.code, &made.json()["apiVersion"]), (201, &json!("networking.k8s.io/v1beta1")));
    let stored = format!("{ADDRESSES}/10.0.0.1");
    assert_eq!(world.get(&stored).json()["apiVersion"], "networking.k8s.io/v1");
    let at = format!("{BETA_ADDRESSES}/10.0.0.1");
    let patched = world.patch(&at, MERGE, &json!({"metadata": {"labels": {"a": "b"}}}));
    assert_eq!((patched.code, &patched.json()["apiVersion"]), (200, &json!("networking.k8s.io/v1beta1")));
    let mut put = patched.json();
    put["spec"] = json!({"parentRef": {"name": "s"}});
    assert_eq!(world.send("PUT", &at, &put).code, 200);
    let found = world.get(&stored).json();
    assert_eq!((&found["apiVersion"], &found["spec"]), (&json!("networking.k8s.io/v1"), &put["spec"]));
    // A body of the other version is not for this path.
    assert_eq!(world.send("PUT", &stored, &put).code, 400);
    assert_eq!(world.ask(&super::Ask::new("DELETE", &at)).code, 200);
    assert_eq!(world.get(&stored).code, 404);
}

#[test]
fn events_are_written_under_both_names() {
    let world = world();
    let body = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "new"}, "note": "n",
        "regarding": {"kind": "Pod", "name": "p"}, "reportingController": "c",
    });
    let made = world.send("POST", NEW_EVENTS, &body);
    assert_eq!((made.code, &made.json()["note"]), (201, &json!("n")), "{}", made.body);
    let core = format!("{CORE_EVENTS}/new");
    let stored = world.get(&core).json();
    assert_eq!((&stored["apiVersion"], &stored["message"]), (&json!("v1"), &json!("n")));
    assert_eq!((&stored["reportingComponent"], stored.get("note")), (&json!("c"), None));
    let new = format!("{NEW_EVENTS}/new");
    assert_eq!(world.patch(&new, MERGE, &json!({"note": "o"})).json()["note"], "o");
    let stored = world.get(&core).json();
    assert_eq!((&stored["message"], &stored["involvedObject"]["name"]), (&json!("o"), &json!("p")));
    let apply = world.patch(&format!("{new}?fieldManager=m"), "application/apply-patch+yaml", &body);
    assert!(apply.code == 400 && apply.message().ends_with("write it as v1"), "{}", apply.body);
}

#[test]
fn what_differs_in_its_members_is_written_as_it_is_kept() {
    let world = world();
    let told = |got: super::Got| (got.code, got.message());
    let why = "a HorizontalPodAutoscaler cannot be written as autoscaling/v1, which has other members than what is stored: \
               write it as autoscaling/v2";
    for (method, target) in [("POST", OLD.to_owned()), ("PUT", format!("{OLD}/a"))] {
        let got = world.send(method, &target, &json!({"metadata": {"name": "a"}}));
        assert_eq!(told(got), (400, why.to_owned()), "{method}");
    }
    assert_eq!(told(world.patch(&format!("{OLD}/a"), MERGE, &json!({}))), (400, why.to_owned()));
    let gone = world.ask(&super::Ask::new("DELETE", &format!("{OLD}/a")));
    assert_eq!((gone.code, &gone.json()["status"]), (200, &json!("Success")));
    assert_eq!(world.get(&format!("{NEW}/a")).code, 404);
}
