//! Patches as a table: the object, the patch, the result.

use serde_json::json;

use super::*;
use crate::api::resources::Registry;

fn patched(kind: &str, object: Value, patch: Value) -> Result<Value, Fault> {
    let registry = Registry::builtin();
    let of = crate::api::merge::of(registry.iter().find(|resource| resource.kind == kind).expect(kind));
    let (Value::Object(mut object), Value::Object(patch)) = (object, patch) else { panic!("objects") };
    merge(&mut object, patch, of).map(|()| Value::Object(object))
}

/// A pod with those containers.
fn containers(list: Value) -> Value {
    json!({"spec": {"containers": list}})
}

#[test]
fn objects_and_lists_merge() {
    let two = json!([{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "1"}]);
    for (kind, object, patch, expected) in [
        // Like a merge patch, where the type defines nothing else.
        (
            "ConfigMap",
            json!({"data": {"a": "1", "b": "2"}}),
            json!({"data": {"a": null, "c": "3"}}),
            json!({"data": {"b": "2", "c": "3"}}),
        ),
        ("ConfigMap", json!({}), json!({"data": {"a": null, "c": "3"}}), json!({"data": {"c": "3"}})),
        ("ConfigMap", json!({"data": {"a": "1"}}), json!({"data": null}), json!({})),
        ("ConfigMap", json!({"data": {"a": "1"}}), json!({"data": "x"}), json!({"data": "x"})),
        // Items by their key.
        (
            "Pod",
            containers(two.clone()),
            containers(json!([{"name": "b", "image": "2"}])),
            containers(json!([{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "2"}])),
        ),
        (
            "Pod",
            containers(two.clone()),
            containers(json!([{"name": "c", "image": "3", "tty": null}])),
            containers(json!([{"name": "c", "image": "3"}, {"name": "a", "image": "1", "args": ["x"]},
                {"name": "b", "image": "1"}])),
        ),
        (
            "Pod",
            containers(two.clone()),
            containers(json!([{"name": "a", "args": ["y"]}])),
            containers(json!([{"name": "a", "image": "1", "args": ["y"]}, {"name": "b", "image": "1"}])),
        ),
        ("Pod", containers(two.clone()), containers(json!([])), containers(two.clone())),
        ("Pod", json!({"spec": {}}), containers(two.clone()), containers(two.clone())),
        // Ports are other lists in other places.
        (
            "Service",
            json!({"spec": {"ports": [{"port": 80}, {"port": 443}]}}),
            json!({"spec": {"ports": [{"port": 443, "name": "tls"}]}}),
            json!({"spec": {"ports": [{"port": 80}, {"port": 443, "name": "tls"}]}}),
        ),
        (
            "Pod",
            containers(json!([{"name": "a", "ports": [{"containerPort": 80}]}])),
            containers(json!([{"name": "a", "ports": [{"containerPort": 80, "name": "web"}]}])),
            containers(json!([{"name": "a", "ports": [{"containerPort": 80, "name": "web"}]}])),
        ),
        // Lists that are one value.
        (
            "Node",
            json!({"spec": {"taints": [{"key": "a"}]}}),
            json!({"spec": {"taints": [{"key": "b"}]}}),
            json!({"spec": {"taints": [{"key": "b"}]}}),
        ),
        (
            "ServiceAccount",
            json!({"imagePullSecrets": [{"name": "a"}], "secrets": [{"name": "a"}]}),
            json!({"imagePullSecrets": [{"name": "b"}], "secrets": [{"name": "b"}]}),
            json!({"imagePullSecrets": [{"name": "b"}], "secrets": [{"name": "b"}, {"name": "a"}]}),
        ),
        // A selector that is replaced, one that is merged.
        (
            "PodDisruptionBudget",
            json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}),
            json!({"spec": {"selector": {"matchLabels": {"c": "d"}}}}),
            json!({"spec": {"selector": {"matchLabels": {"c": "d"}}}}),
        ),
        (
            "Deployment",
            json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}),
            json!({"spec": {"selector": {"matchLabels": {"c": "d"}}}}),
            json!({"spec": {"selector": {"matchLabels": {"a": "b", "c": "d"}}}}),
        ),
        // Scalars, each once.
        (
            "Pod",
            json!({"metadata": {"finalizers": ["a/a", "b/b"]}}),
            json!({"metadata": {"finalizers": ["b/b", "c/c"]}}),
            json!({"metadata": {"finalizers": ["a/a", "b/b", "c/c"]}}),
        ),
        // What the list has twice counts once for the patch: the first.
        (
            "Pod",
            containers(
                json!([{"name": "a", "ports": [{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]}]),
            ),
            containers(json!([{"name": "a", "ports": [{"containerPort": 53, "name": "dns"}]}])),
            containers(
                json!([{"name": "a", "ports": [{"containerPort": 53, "protocol": "TCP", "name": "dns"}, {"containerPort": 53, "protocol": "UDP"}]}]),
            ),
        ),
    ] {
        assert_eq!(patched(kind, object, patch.clone()), Ok(expected), "{kind} {patch}");
    }
}

#[test]
fn directives() {
    let three = json!([{"name": "a", "v": 1}, {"name": "b", "v": 1}, {"name": "c", "v": 1}]);
    for (object, patch, expected) in [
        // $patch of items.
        (
            containers(three.clone()),
            containers(json!([{"name": "b", "$patch": "delete"}])),
            containers(json!([{"name": "a", "v": 1}, {"name": "c", "v": 1}])),
        ),
        (
            containers(three.clone()),
            containers(json!([{"name": "x", "$patch": "delete"}])),
            containers(three.clone()),
        ),
        (
            containers(three.clone()),
            containers(json!([{"$patch": "replace"}, {"name": "z", "v": 2}])),
            containers(json!([{"name": "z", "v": 2}])),
        ),
        (containers(three.clone()), containers(json!([{"$patch": "replace"}])), containers(json!([]))),
        // $patch of objects.
        (
            json!({"spec": {"a": 1, "b": 2}}),
            json!({"spec": {"$patch": "replace", "c": 3}}),
            json!({"spec": {"c": 3}}),
        ),
        (json!({"spec": {"a": 1, "b": 2}}), json!({"spec": {"$patch": "delete"}}), json!({"spec": {}})),
        (
            json!({"spec": {"a": 1}}),
            json!({"spec": {"$patch": "merge", "b": 2}}),
            json!({"spec": {"a": 1, "b": 2}}),
        ),
        (
            json!({}),
            json!({"spec": {"$patch": "replace", "c": 3}, "x": {"$patch": "delete"}}),
            json!({"spec": {"c": 3}}),
        ),
        (
            json!({}),
            containers(json!([{"name": "a", "$patch": "delete"}, {"name": "b"}])),
            containers(json!([{"name": "b"}])),
        ),
        // $retainKeys.
        (
            json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}),
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
            json!({"spec": {"strategy": {"type": "Recreate"}}}),
        ),
        (
            json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
            json!({"spec": {"volumes": [{"$retainKeys": ["name", "secret"], "name": "v", "secret": {"secretName": "s"}}]}}),
            json!({"spec": {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}}),
        ),
        (json!({"spec": {"a": 1}}), json!({"spec": {"$retainKeys": [], "b": null}}), json!({"spec": {}})),
        // $deleteFromPrimitiveList.
        (
            json!({"metadata": {"finalizers": ["a/a", "b/b"]}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/a"]}}),
            json!({"metadata": {"finalizers": ["b/b"]}}),
        ),
        (
            json!({"metadata": {"finalizers": ["a/a", "b/b"]}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/a"], "finalizers": ["c/c"],
                "$setElementOrder/finalizers": ["c/c", "b/b"]}}),
            json!({"metadata": {"finalizers": ["c/c", "b/b"]}}),
        ),
        (
            json!({"metadata": {}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/a"]}}),
            json!({"metadata": {}}),
        ),
        // $setElementOrder.
        (
            containers(three.clone()),
            json!({"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}}),
            containers(json!([{"name": "b", "v": 1}, {"name": "c", "v": 1}, {"name": "a", "v": 1}])),
        ),
        (
            containers(three.clone()),
            json!({"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "d"}, {"name": "a"}],
                "containers": [{"name": "d", "v": 2}, {"name": "a", "v": 3}, {"name": "b", "$patch": "delete"}]}}),
            containers(json!([{"name": "c", "v": 1}, {"name": "d", "v": 2}, {"name": "a", "v": 3}])),
        ),
        (
            json!({"spec": {}}),
            json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
            "containers": [{"name": "b"}, {"name": "a"}]}}),
            containers(json!([{"name": "b"}, {"name": "a"}])),
        ),
        (
            json!({"spec": {}}),
            json!({"spec": {"$setElementOrder/containers": [{"name": "b"}]}}),
            json!({"spec": {}}),
        ),
        (
            containers(three.clone()),
            json!({"spec": {"$setElementOrder/containers": [], "containers": null}}),
            json!({"spec": {}}),
        ),
        // In lists that are one value they are dropped.
        (
            json!({"spec": {"tolerations": [{"key": "a"}]}}),
            json!({"spec": {"tolerations": [{"$patch": "replace"}, {"key": "b"}]}}),
            json!({"spec": {"tolerations": [{"key": "b"}]}}),
        ),
        (
            json!({"spec": {"tolerations": [{"key": "a"}]}}),
            json!({"spec": {"$setElementOrder/tolerations": [{"key": "a"}]}}),
            json!({"spec": {"tolerations": [{"key": "a"}]}}),
        ),
    ] {
        assert_eq!(patched("Pod", object, patch.clone()), Ok(expected), "{patch}");
    }
}

#[test]
fn what_cannot_be_done_is_told() {
    let pod = json!({"metadata": {"finalizers": ["a/a"]}, "spec": {"containers": [{"name": "a"}], "nodeName": "n"}});
    let format = |why: &str| Fault::Format(why.to_owned());
    let content = |why: &str| Fault::Content(why.to_owned());
    for (patch, fault) in [
        (json!({"spec": {"$patch": "drop"}}), format("unknown patch type: \"drop\" in map: {}")),
        (json!({"spec": {"$patch": 1}}), format("unknown patch type: 1 in map: {}")),
        (
            containers(json!([{"$patch": "drop"}])),
            format("unknown patch type: \"drop\" in map: {\"$patch\":\"drop\"}"),
        ),
        (
            containers(json!([{"$patch": "merge"}])),
            content("merging lists cannot yet be specified in the patch"),
        ),
        (
            containers(json!([{"image": "i"}])),
            content("map: {\"image\":\"i\"} does not contain declared merge key: name"),
        ),
        (
            containers(json!([{"$patch": "delete"}])),
            content("map: {\"$patch\":\"delete\"} does not contain declared merge key: name"),
        ),
        (containers(json!(["a"])), content("list element types are not identical")),
        (containers(json!([["a"]])), content("lists of lists are not supported")),
        (json!({"metadata": {"finalizers": [{"a": 1}]}}), content("list element types are not identical")),
        (json!({"spec": {"$retainKeys": "name"}}), format("invalid patch format of retainKeys")),
        (json!({"spec": {"$retainKeys": [1]}}), format("invalid patch format of retainKeys")),
        (json!({"spec": {"$retainKeys": ["a"], "b": 1}}), format("invalid patch format of retainKeys")),
        (
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": "a/a"}}),
            format("invalid patch format of primitive list"),
        ),
        (
            json!({"spec": {"$setElementOrder/containers": "a"}}),
            format("invalid patch format of setElementOrder list"),
        ),
        (
            json!({"spec": {"$setElementOrder/containers": ["a"]}}),
            format("invalid patch format of setElementOrder list"),
        ),
        (
            json!({"spec": {"$setElementOrder/containers": [{"image": "i"}]}}),
            content("map: {\"image\":\"i\"} does not contain declared merge key: name"),
        ),
        (
            json!({"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": "x"}}),
            format("invalid patch format of setElementOrder list"),
        ),
        (
            json!({"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}}),
            content(
                "The order in patch list doesn't match $setElementOrder list: \"b\" is not there, or not in its place",
            ),
        ),
    ] {
        assert_eq!(patched("Pod", pod.clone(), patch.clone()), Err(fault), "{patch}");
    }
}

#[test]
fn an_item_is_named_again_so_often() {
    let pod = containers(json!([{"name": "a"}, {"name": "b"}]));
    let changes = |count: usize| -> Vec<Value> { (0..count).map(|n| json!({"name": "a", "n": n})).collect() };
    let last = containers(json!([{"name": "a", "n": REPEATS_MAX}, {"name": "b"}]));
    assert_eq!(patched("Pod", pod.clone(), containers(changes(REPEATS_MAX + 1).into())), Ok(last));
    let refused = patched("Pod", pod.clone(), containers(changes(REPEATS_MAX + 2).into()));
    assert!(matches!(&refused, Err(Fault::Content(why)) if why.contains("name each once")), "{refused:?}");
    // Neither are items that are new to the object.
    let refused = patched("Pod", containers(json!([])), containers(changes(1_000).into()));
    assert!(matches!(refused, Err(Fault::Content(_))), "{refused:?}");
    // Those that replace the list are not merged, and stay as they are.
    let mut replacing = changes(REPEATS_MAX + 2);
    replacing.push(json!({"$patch": "replace"}));
    let replaced = patched("Pod", pod, containers(replacing.into()));
    assert_eq!(replaced, Ok(containers(changes(REPEATS_MAX + 2).into())));
}

#[test]
fn long_lists_take_no_time() {
    let begun = std::time::Instant::now();
    let list = |image: &str| -> Value {
        (0..20_000).map(|n| json!({"name": format!("c{n}"), "image": image})).collect::<Vec<_>>().into()
    };
    let order: Value = (0..20_000).rev().map(|n| json!({"name": format!("c{n}")})).collect::<Vec<_>>().into();
    let patch = json!({"spec": {"$setElementOrder/containers": order, "containers": []}});
    let merged = patched("Pod", containers(list("1")), containers(list("2"))).expect("merges");
    let merged = patched("Pod", merged, patch).expect("orders");
    assert_eq!(merged["spec"]["containers"][0], json!({"name": "c19999", "image": "2"}));
    let data = |value: Value| -> Value {
        json!({"data": (0..100_000).map(|n| (format!("k{n}"), value.clone())).collect::<Members>()})
    };
    assert_eq!(patched("ConfigMap", data(json!("v")), data(Value::Null)), Ok(json!({"data": {}})));
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
}
