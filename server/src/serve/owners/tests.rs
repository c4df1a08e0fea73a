//! Applies as a table: the manager of each apply, the resulting object, and its owners.

use serde_json::json;

use super::*;
use crate::api::resources::Registry;

/// An object of a kind that several managers apply to.
struct Shared {
    of: &'static Type,
    object: Members,
    owners: Owners,
    clock: u32,
}

impl Shared {
    fn new(kind: &str) -> Self {
        let registry = Registry::builtin();
        let of =
            registry.iter().find(|r| r.kind == kind).map_or(&crate::api::merge::ANY, crate::api::merge::of);
        Self { of, object: Members::new(), owners: Owners::default(), clock: 0 }
    }

    fn try_apply(&mut self, manager: &str, force: bool, config: &Value) -> Result<(), ApplyFault> {
        self.clock += 1;
        let time = format!("2026-11-21T00:00:{:02}Z", self.clock);
        let applier = Applier { manager, subresource: "", api_version: "v1", force, time: &time };
        let mut owners = self.owners.clone();
        let new = owners.apply(&applier, &self.object, config.as_object().expect("an object"), self.of)?;
        self.object = new;
        self.owners = owners;
        Ok(())
    }

    fn apply(&mut self, manager: &str, config: Value) -> &mut Self {
        self.try_apply(manager, false, &config).unwrap_or_else(|fault| panic!("{config}: {fault:?}"));
        self
    }

    fn force(&mut self, manager: &str, config: Value) -> &mut Self {
        self.try_apply(manager, true, &config).unwrap_or_else(|fault| panic!("{config}: {fault:?}"));
        self
    }

    /// A writer that does not apply.
    fn update(&mut self, object: Value) -> &mut Self {
        let new = object.as_object().expect("an object").clone();
        self.owners.follow(&self.object, &new, self.of);
        self.object = new;
        self
    }

    fn conflicts(&mut self, manager: &str, config: Value) -> Vec<(String, String)> {
        match self.try_apply(manager, false, &config) {
            Err(ApplyFault::Conflicts { listed, more: 0 }) => {
                listed.into_iter().map(|c| (c.manager, c.path)).collect()
            }
            other => panic!("{config}: {other:?}"),
        }
    }

    fn is(&mut self, object: Value) -> &mut Self {
        assert_eq!(Value::Object(self.object.clone()), object);
        self
    }

    /// The fields of a manager; null when there are none.
    fn owned(&self, manager: &str) -> Value {
        let entry = self.owners.entries.iter().find(|entry| entry.manager == manager);
        entry.map_or(Value::Null, |entry| entry.fields.encode())
    }
}

#[test]
fn fields_of_objects() {
    let fields = |kind: &str, config: Value| {
        let mut shared = Shared::new(kind);
        shared.apply("a", config).owned("a")
    };
    for (kind, config, expected) in [
        (
            "ConfigMap",
            json!({"metadata": {"name": "x", "namespace": "y", "uid": "z", "resourceVersion": "1",
            "labels": {"a": "b"}, "finalizers": ["f/f"]}, "data": {"k": "v"}}),
            json!({"f:data": {"f:k": {}}, "f:metadata": {"f:finalizers": {"v:\"f/f\"": {}}, "f:labels": {"f:a": {}}}}),
        ),
        ("ConfigMap", json!({"metadata": {"name": "x"}}), Value::Null),
        ("ConfigMap", json!({"metadata": {}}), Value::Null),
        ("ConfigMap", json!({"data": {}}), json!({"f:data": {}})),
        (
            "Pod",
            json!({"spec": {"containers": [{"name": "c", "image": "i", "args": ["x"],
            "ports": [{"containerPort": 80}]}], "nodeSelector": {"a": "b"}, "tolerations": []}}),
            json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:args": {}, "f:image": {}, "f:name": {},
                "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}},
                "f:nodeSelector": {}, "f:tolerations": {}}}),
        ),
        (
            "Widget",
            json!({"spec": {"containers": [{"name": "c"}], "deep": {"er": 1}}, "metadata": {"ownerReferences": [{"uid": "u"}]}}),
            json!({"f:metadata": {"f:ownerReferences": {"k:{\"uid\":\"u\"}": {".": {}, "f:uid": {}}}},
                "f:spec": {"f:containers": {}, "f:deep": {"f:er": {}}}}),
        ),
    ] {
        let found = fields(kind, config.clone());
        assert_eq!(found, expected, "{config}");
        if !found.is_null() {
            assert_eq!(Fields::decode(&found).map(|fields| fields.encode()), Some(found), "there and back");
        }
    }
}

#[test]
fn what_is_not_sent_again_goes() {
    let mut map = Shared::new("ConfigMap");
    map.apply("a", json!({"data": {"k": "1", "l": "2"}, "metadata": {"labels": {"x": "y"}}}));
    map.apply("a", json!({"data": {"k": "1"}})).is(json!({"data": {"k": "1"}}));
    map.apply("a", json!({"data": {"k": "2"}})).is(json!({"data": {"k": "2"}}));
    map.apply("a", json!({})).is(json!({}));
    assert!(map.owners.is_empty());

    // A field that was never applied is not removed.
    let mut map = Shared::new("ConfigMap");
    map.update(json!({"data": {"mine": "1"}})).apply("a", json!({"data": {"k": "1"}}));
    map.apply("a", json!({"immutable": true})).is(json!({"data": {"mine": "1"}, "immutable": true}));

    let mut pod = Shared::new("Pod");
    let two = json!([{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "1"}]);
    pod.apply("a", json!({"spec": {"containers": two}}));
    let mut live = pod.object.clone();
    live["spec"]["containers"][1]["tty"] = json!(true);
    pod.update(Value::Object(live));
    pod.apply("a", json!({"spec": {"containers": [{"name": "a", "image": "2"}]}}));
    pod.is(json!({"spec": {"containers": [{"name": "a", "image": "2"}]}}));

    let mut set = Shared::new("ConfigMap");
    set.update(json!({"metadata": {"finalizers": ["o/o"]}}));
    set.apply("a", json!({"metadata": {"finalizers": ["a/a", "b/b"]}}));
    set.apply("a", json!({"metadata": {"finalizers": ["b/b"]}}))
        .is(json!({"metadata": {"finalizers": ["b/b", "o/o"]}}));
    set.apply("a", json!({"metadata": {"labels": {"l": "m"}}}));
    set.is(json!({"metadata": {"finalizers": ["o/o"], "labels": {"l": "m"}}}));
}

#[test]
fn several_appliers() {
    let mut map = Shared::new("ConfigMap");
    map.apply("a", json!({"data": {"k": "1", "l": "1"}})).apply("b", json!({"data": {"k": "1", "m": "1"}}));
    map.is(json!({"data": {"k": "1", "l": "1", "m": "1"}}));
    // Both own k: neither can change it alone, and it stays when one of them stops applying it.
    assert_eq!(map.conflicts("a", json!({"data": {"k": "2"}})), [("\"b\"".to_owned(), ".data.k".to_owned())]);
    assert_eq!(
        map.conflicts("c", json!({"data": {"k": "2", "m": "2"}})),
        [("\"a\"", ".data.k"), ("\"b\"", ".data.k"), ("\"b\"", ".data.m")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
    );
    map.apply("a", json!({"data": {"l": "1"}})).is(json!({"data": {"k": "1", "l": "1", "m": "1"}}));
    map.apply("b", json!({"data": {"k": "3"}})).is(json!({"data": {"k": "3", "l": "1"}}));
    // Taken by force it has a new owner.
    map.force("c", json!({"data": {"k": "4", "l": "4"}})).is(json!({"data": {"k": "4", "l": "4"}}));
    assert_eq!((map.owned("a"), map.owned("b")), (Value::Null, Value::Null));
    map.apply("b", json!({"data": {"z": "1"}})).is(json!({"data": {"k": "4", "l": "4", "z": "1"}}));

    let mut pod = Shared::new("Pod");
    let container = |image: &str| json!({"spec": {"containers": [{"name": "a", "image": image}]}});
    pod.apply("a", container("1"));
    let path = ".spec.containers[name=\"a\"].image".to_owned();
    assert_eq!(pod.conflicts("b", container("2")), [("\"a\"".to_owned(), path)]);
    pod.apply("b", json!({"spec": {"containers": [{"name": "a", "tty": true}, {"name": "b"}]}}));
    pod.is(json!({"spec": {"containers": [{"name": "a", "image": "1", "tty": true}, {"name": "b"}]}}));
    // The item stays for the other manager, with its fields.
    pod.apply("a", json!({"spec": {"nodeName": "n"}}));
    pod.is(json!({"spec": {"containers": [{"name": "a", "tty": true}, {"name": "b"}], "nodeName": "n"}}));
}

#[test]
fn lists_and_objects_that_are_one_value() {
    let mut pod = Shared::new("Pod");
    pod.apply("a", json!({"spec": {"tolerations": [{"key": "x"}], "nodeSelector": {"a": "b"}}}));
    let conflicts =
        pod.conflicts("b", json!({"spec": {"tolerations": [{"key": "y"}], "nodeSelector": {"c": "d"}}}));
    let paths: Vec<&str> = conflicts.iter().map(|(_, path)| path.as_str()).collect();
    assert_eq!(paths, [".spec.nodeSelector", ".spec.tolerations"]);
    pod.force("b", json!({"spec": {"nodeSelector": {"c": "d"}}}));
    pod.is(json!({"spec": {"tolerations": [{"key": "x"}], "nodeSelector": {"c": "d"}}}));
    let mut widget = Shared::new("Widget");
    widget.apply("a", json!({"spec": {"list": [{"name": "x"}], "map": {"a": 1}}}));
    widget.force("b", json!({"spec": {"list": [{"name": "y"}], "map": {"b": 1}}}));
    widget.is(json!({"spec": {"list": [{"name": "y"}], "map": {"a": 1, "b": 1}}}));
}

#[test]
fn other_writers_take_fields_away_and_own_nothing() {
    let mut map = Shared::new("ConfigMap");
    map.apply("a", json!({"data": {"k": "1", "l": "1", "m": "1"}}));
    map.update(json!({"data": {"k": "9", "l": "1"}}));
    assert_eq!(map.owned("a"), json!({"f:data": {"f:l": {}}}));
    // What another manager set is not removed, and can be set again without a conflict.
    map.apply("a", json!({"data": {"l": "1"}})).is(json!({"data": {"k": "9", "l": "1"}}));
    map.apply("b", json!({"data": {"k": "2"}})).is(json!({"data": {"k": "2", "l": "1"}}));
    map.update(json!({"data": {"k": "0"}}));
    assert!(map.owners.is_empty());
    let mut pod = Shared::new("Pod");
    pod.apply("a", json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]}}));
    pod.update(json!({"spec": {"containers": [{"name": "a", "image": "2"}]}}));
    assert_eq!(
        pod.owned("a"),
        json!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}}}}})
    );
}

#[test]
fn the_same_again_changes_nothing() {
    let mut map = Shared::new("ConfigMap");
    map.apply("a", json!({"data": {"k": "1"}})).apply("b", json!({"data": {"l": "1"}}));
    let (object, owners) = (map.object.clone(), map.owners.encode());
    map.apply("a", json!({"data": {"k": "1"}})).force("b", json!({"data": {"l": "1"}}));
    assert_eq!((map.object.clone(), map.owners.encode()), (object, owners.clone()));
    assert_eq!(Owners::decode(&owners).map(|owners| owners.encode()), Some(owners.clone()));
    assert_eq!(
        owners[0],
        json!({"manager": "a", "operation": "Apply", "apiVersion": "v1", "time": "2026-11-21T00:00:01Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:k": {}}}})
    );
    map.apply("a", json!({"data": {"k": "2"}}));
    assert_eq!(map.owners.encode()[1]["time"], "2026-11-21T00:00:05Z", "a change is dated");
}

#[test]
fn entries_of_others_are_honoured() {
    let entries = json!([{"manager": "kube", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {".": {}, "f:k": {}}}, "subresource": "status"}]);
    let mut map = Shared::new("ConfigMap");
    map.update(json!({"data": {"k": "1"}}));
    map.owners = Owners::decode(&entries).expect("entries");
    let manager = "\"kube\" with subresource \"status\" using v1 at 2026-01-01T00:00:00Z".to_owned();
    assert_eq!(map.conflicts("a", json!({"data": {"k": "2"}})), [(manager, ".data.k".to_owned())]);
    map.apply("a", json!({"data": {"k": "1"}}));
    assert_eq!(map.owners.encode()[1], entries[0]);
    // What they own stays when the applier removes it.
    map.apply("a", json!({"immutable": true})).is(json!({"data": {"k": "1"}, "immutable": true}));
    for bad in [
        json!({}),
        json!([1]),
        json!([{}]),
        json!([{"operation": "Apply"}]),
        json!([{"operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"x": {}}}]),
        json!([{"operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:x": 1}}]),
        json!([{"operation": "Apply", "fieldsType": "FieldsV1", "manager": 1}]),
    ] {
        assert_eq!(Owners::decode(&bad), None, "{bad}");
    }
}

#[test]
fn items_that_cannot_be_told_apart() {
    let mut pod = Shared::new("Pod");
    for (containers, part) in [
        (json!([{"name": "a"}, {"name": "a"}]), ".spec.containers: duplicate entries for key [name=\"a\"]"),
        (
            json!([{"image": "a"}]),
            ".spec.containers: element 0: associative list with keys has an element that omits key field \"name\"",
        ),
        (
            json!(["a"]),
            ".spec.containers: element 0: associative list with keys may not have non-map elements",
        ),
        (json!([{"name": "a", "ports": [{"name": "p"}]}]), ".spec.containers[name=\"a\"].ports: element 0: "),
    ] {
        match pod.try_apply("a", false, &json!({"spec": {"containers": containers}})) {
            Err(ApplyFault::List(why)) => assert!(why.starts_with(part), "{why}"),
            other => panic!("{containers}: {other:?}"),
        }
    }
    let finalizers = json!({"metadata": {"finalizers": [["a"]]}});
    assert!(matches!(pod.try_apply("a", false, &finalizers), Err(ApplyFault::List(_))));
    // Invalid stored content is not this applier's error: it stays, and other fields can be applied.
    pod.update(json!({"spec": {"containers": [{"name": "a"}, {"name": "a"}, {"image": "x"}]}}));
    pod.apply("a", json!({"spec": {"containers": [{"name": "a", "tty": true}]}}));
    pod.is(json!({"spec": {"containers": [{"name": "a", "tty": true}, {"name": "a"}, {"image": "x"}]}}));
}

/// A hundred paths with that name in them exceed the limit of paths.
fn long_name() -> String {
    "n".repeat(PATH_BYTES_MAX / 100)
}

/// A widget with 200 members below one long name, the first `changed` of which differ from the other owner's.
fn below_a_long_name(changed: usize) -> Value {
    let members: Members = (0..200).map(|at| (format!("k{at}"), json!(at < changed))).collect();
    let named = Members::from_iter([(long_name(), Value::Object(members))]);
    json!({"spec": named})
}

#[test]
fn paths_take_so_many_bytes() {
    // As many changes as there is room for: the rest stays owned.
    let mut widget = Shared::new("Widget");
    widget.apply("a", below_a_long_name(0)).update(below_a_long_name(90));
    let owned = widget.owned("a");
    assert_eq!(owned["f:spec"][format!("f:{}", long_name())].as_object().map(Map::len), Some(110));
    // More: all ownership is dropped, as if the object had too many values.
    let mut widget = Shared::new("Widget");
    widget.apply("a", below_a_long_name(0)).update(below_a_long_name(110));
    assert!(widget.owners.is_empty());
    // Two owners of the same share that room.
    let mut widget = Shared::new("Widget");
    widget.apply("a", below_a_long_name(0)).apply("b", below_a_long_name(0)).update(below_a_long_name(60));
    assert!(widget.owners.is_empty());

    // The same when a different manager applies: it finds no owners.
    let mut widget = Shared::new("Widget");
    widget.apply("a", below_a_long_name(0));
    match widget.try_apply("b", false, &below_a_long_name(90)) {
        Err(ApplyFault::Conflicts { listed, more }) => assert_eq!(listed.len() + more, 90),
        other => panic!("no conflicts: {:?}", other.is_ok()),
    }
    widget.apply("b", below_a_long_name(110));
    assert!(widget.owned("a").is_null());
    assert_eq!(widget.owners.entries.len(), 1);
    assert!(Value::Object(widget.object) == below_a_long_name(110));
}

#[test]
fn paths_of_many_steps_take_more_than_their_text() {
    let deep = |value: u32| {
        (0..100).fold(json!({"a": value, "b": value}), |inner, _| json!({"c": inner})).as_object().cloned()
    };
    let (old, new) = (deep(1).expect("an object"), deep(2).expect("an object"));
    let of = Shared::new("Widget").of;
    let fields = Fields::of(&old, of).expect("fields");
    let bytes = 2 * 101 * (size_of::<String>() + "f:c".len());
    let mut room = bytes;
    assert_eq!(fields.changes(&old, &new, of, &mut room).map(|changes| changes.len()), Some(2));
    assert_eq!(room, 0);
    assert!(fields.changes(&old, &new, of, &mut (bytes - 1)).is_none());
    assert_eq!(fields.changes(&old, &old, of, &mut 0).map(|changes| changes.len()), Some(0));
}

#[test]
fn a_member_has_one_step() {
    // Steps to items in an object, where there are none, do not lead to the member without a name.
    let steps: Members = (0..50).map(|n| (format!("v:{n}"), json!({}))).collect();
    let entries = json!([{"manager": "a", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": steps}}]);
    let owners = Owners::decode(&entries).expect("entries");
    let data = |value: &str| json!({"data": {"": value}}).as_object().cloned().expect("an object");
    let of = Shared::new("ConfigMap").of;
    let mut room = PATH_BYTES_MAX;
    let changes = owners.entries[0].fields.changes(&data("1"), &data("2"), of, &mut room);
    assert_eq!(changes.map(|changes| changes.len()), Some(0));
    let own = Fields::of(&data("1"), of).expect("fields");
    assert_eq!(own.changes(&data("1"), &data("2"), of, &mut room).map(|changes| changes.len()), Some(1));
}

#[test]
fn conflicts_that_are_listed_take_so_many_bytes() {
    let data = |value: &str| {
        let members: Members = (0..1_000).map(|n| (format!("k{n}"), json!(value))).collect();
        json!({"data": members})
    };
    let mut map = Shared::new("ConfigMap");
    let manager = "m".repeat(CONFLICTS_BYTES_MAX / 100);
    map.apply(&manager, data("1"));
    match map.try_apply("b", false, &data("2")) {
        Err(ApplyFault::Conflicts { listed, more }) => {
            assert!((90..=100).contains(&listed.len()), "{} listed", listed.len());
            assert_eq!(listed.len() + more, 1_000);
        }
        other => panic!("no conflicts: {:?}", other.is_ok()),
    }
    map.force("b", data("2"));
    assert_eq!(map.owners.entries.len(), 1);
}
