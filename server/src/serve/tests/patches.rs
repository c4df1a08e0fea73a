//! Strategic merge patches, as kubectl sends them.

use serde_json::{Value, json};

use super::{CONFIG_MAPS, World};

const STRATEGIC: &str = "application/strategic-merge-patch+json";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/t1/deployments";

fn deployment(world: &World) -> Value {
    let pod = json!({"containers": [
        {"name": "web", "image": "web:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "ports": [{"containerPort": 80}]},
        {"name": "side", "image": "side:1"}]});
    let body = json!({"metadata": {"name": "d"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod}}});
    let got = world.send("POST", DEPLOYMENTS, &body);
    assert_eq!(got.code, 201, "{}", got.body);
    got.json()
}

#[test]
fn what_kubectl_patches() {
    let world = World::with_json();
    let one = format!("{DEPLOYMENTS}/d");
    let old = deployment(&world);
    let patch = |body: Value| {
        let got = world.patch(&one, STRATEGIC, &body);
        assert_eq!(got.code, 200, "{body} {}", got.body);
        got.json()
    };
    let template = |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
    // set image
    let new = patch(
        json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "web"}, {"name": "side"}],
        "containers": [{"name": "side", "image": "side:2"}]}}}}),
    );
    assert_eq!(new["spec"]["template"]["spec"]["containers"][1], json!({"name": "side", "image": "side:2"}));
    assert_eq!(
        new["spec"]["template"]["spec"]["containers"][0],
        old["spec"]["template"]["spec"]["containers"][0]
    );
    assert_eq!(new["metadata"]["generation"], 2);
    // set env A=9 B-
    let new = patch(template(
        json!([{"name": "web", "env": [{"name": "A", "value": "9"}, {"$patch": "delete", "name": "B"}]}]),
    ));
    assert_eq!(new["spec"]["template"]["spec"]["containers"][0]["env"], json!([{"name": "A", "value": "9"}]));
    // apply of another strategy
    let new = patch(
        json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate", "rollingUpdate": null}}}),
    );
    assert_eq!(new["spec"]["strategy"], json!({"type": "Recreate"}));
    let writes = world.host.writes.get();
    let same = patch(template(json!([{"name": "side", "image": "side:2"}])));
    assert_eq!((same, world.host.writes.get()), (new, writes), "the same again is not written");

    let node = "/api/v1/nodes";
    assert_eq!(world.send("POST", node, &json!({"metadata": {"name": "n"}, "spec": {}})).code, 201);
    let node = format!("{node}/n");
    let taints = json!([{"key": "k", "effect": "NoSchedule"}]);
    assert_eq!(
        world.patch(&node, STRATEGIC, &json!({"spec": {"taints": taints}})).json()["spec"]["taints"],
        taints
    );
    let cordoned = world.patch(&node, STRATEGIC, &json!({"spec": {"unschedulable": true}})).json();
    assert_eq!(cordoned["spec"], json!({"taints": taints, "unschedulable": true}));
    let ready = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    let status = format!("{node}/status");
    assert_eq!(
        world
            .patch(
                &status,
                STRATEGIC,
                &json!({"status": {"conditions": [{"type": "Disk", "status": "False"}]}})
            )
            .code,
        200
    );
    world.patch(&status, STRATEGIC, &ready("False"));
    let conditions = world.patch(&status, STRATEGIC, &ready("True")).json()["status"]["conditions"].clone();
    assert_eq!(conditions, json!([{"type": "Ready", "status": "True"}, {"type": "Disk", "status": "False"}]));
}

#[test]
fn what_is_not_right_is_refused() {
    let world = World::new();
    let one = format!("{DEPLOYMENTS}/d");
    assert_eq!(world.patch(&one, STRATEGIC, &json!({})).code, 404);
    let old = deployment(&world);
    let containers = |list: Value| json!({"spec": {"template": {"spec": {"containers": list}}}});
    for (body, code, part) in [
        (json!([]), 400, "is not a patch"),
        (json!("x"), 400, "is not a patch"),
        (json!({"spec": {"$patch": "what"}}), 400, "unknown patch type"),
        (json!({"spec": {"$retainKeys": 1}}), 400, "invalid patch format of retainKeys"),
        (
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": 1}}),
            400,
            "invalid patch format of primitive list",
        ),
        (json!({"spec": {"template": {"spec": {"$setElementOrder/containers": 1}}}}), 400, "setElementOrder"),
        (containers(json!([{"image": "x"}])), 422, "does not contain declared merge key: name"),
        (containers(json!(["x"])), 422, "list element types are not identical"),
        (json!({"metadata": {"name": "e"}}), 400, "does not match the name"),
        (json!({"metadata": {"uid": "other"}}), 409, "Precondition failed"),
        (json!({"metadata": {"resourceVersion": "1"}}), 409, "has been modified"),
        (json!({"metadata": {"labels": {"a": "!"}}}), 422, "metadata.labels"),
    ] {
        let got = world.patch(&one, STRATEGIC, &body);
        assert_eq!(got.code, code, "{body} {}", got.body);
        assert!(got.message().contains(part), "{body} {}", got.message());
    }
    assert_eq!(world.get(&one).json(), old);
    let deep = format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200));
    let mut ask = super::Ask::new("PATCH", &one).with("Content-Type", STRATEGIC);
    ask.body = deep.into();
    assert_eq!(world.ask(&ask).code, 400, "too deep to read");
    // A declared resource has no types for it.
    let widgets = "/apis/example.com/v1/namespaces/t1/widgets";
    world.send("POST", widgets, &json!({"metadata": {"name": "w"}}));
    let got = world.patch(&format!("{widgets}/w"), STRATEGIC, &json!({}));
    assert_eq!(got.code, 415);
    assert!(!got.message().contains("strategic"), "{}", got.message());
}

#[test]
fn what_could_not_be_read_again_is_not_stored() {
    let world = World::with_json();
    world.config_map("cm1", "]]\\\"[[");
    let one = format!("{CONFIG_MAPS}/cm1");
    let deep = |levels: usize| (0..levels).fold(json!(1), |inside, _| json!([inside]));
    let add = |path: &str, levels: usize| {
        let body = json!([{"op": "add", "path": path, "value": deep(levels)}]);
        world.patch(&one, "application/json-patch+json", &body)
    };
    assert_eq!(add("/x", 100).code, 200);
    let inner = format!("/x{}", "/0".repeat(100));
    let got = add(&inner, 27);
    assert_eq!(got.code, 400, "{}", got.body);
    assert!(got.message().contains("deeper than 127 levels"), "{}", got.message());
    assert_eq!(add(&inner, 26).code, 200);
    let owners = json!({"apiVersion": "v1", "kind": "ConfigMap", "x": world.get(&one).json()["x"]});
    assert_eq!(
        world.patch(&format!("{one}?fieldManager=a"), "application/apply-patch+yaml", &owners).code,
        200
    );
    let maps = (0..125).fold(json!(1), |inside, _| json!({"m": inside}));
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "y": maps});
    let got = world.patch(&format!("{one}?fieldManager=b"), "application/apply-patch+yaml", &applied);
    assert_eq!(got.code, 400, "its fields would be too deep: {}", got.body);
    assert_eq!(world.ask(&super::Ask::new("DELETE", &one)).code, 200);
}

#[test]
fn races_are_run_again() {
    let world = World::new();
    world.config_map("cm1", "x");
    let one = format!("{CONFIG_MAPS}/cm1");
    world.host.rivals.borrow_mut().push(super::writes::rival(&world, "1"));
    let got = world.patch(&one, STRATEGIC, &json!({"data": {"mine": "1"}}));
    assert_eq!((got.code, &got.json()["data"]), (200, &json!({"rival": "1", "mine": "1"})));
}
