//! Custom resources against recordings 36 and 35 of kube-apiserver 1.36, byte for byte.

use std::io::Read;

use flate2::read::GzDecoder;
use revcast_engine::key::Key;
use serde_json::{Value, json};

use super::{Ask, World};

const GADGETS: &str = "/apis/example.com/v1/namespaces/default/gadgets";
/// Recording 36, at 18.823 s.
const OBJECT: &str = r#"{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"creationTimestamp":"2026-11-23T06:37:53Z","generation":3,"managedFields":[{"apiVersion":"example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"f:x":{}}},"manager":"unknown","operation":"Update","time":"2026-11-23T06:38:08Z"}],"name":"a","namespace":"default","resourceVersion":"83","uid":"3142213a-c5f2-43bc-8cb8-e3447ea03543"},"spec":{"x":3}}"#;
const TABLES: &[u8] = include_bytes!("../../../tests/fixtures/recorded/35-tables.jsonl.gz");

/// A world with that object as it was stored, at revision 85.
fn recorded() -> World {
    let world = World::new();
    let row = world.app.catalog().registry.find("example.com", "v1", "gadgets").unwrap().row;
    let stored = OBJECT.replace(r#""resourceVersion":"83","#, "") + "\n";
    world.publish_value(83, Key::new(row, Some("default"), "a"), Some(stored.into()));
    world.publish(85, r#"{"metadata":{"name":"x","namespace":"elsewhere"}}"#);
    world
}

#[test]
fn objects_and_lists_are_as_recorded() {
    let world = recorded();
    assert_eq!(world.get(&format!("{GADGETS}/a")).body, format!("{OBJECT}\n"));
    let list = |items: &str, continued: &str| {
        format!(
            "{{\"apiVersion\":\"example.com/v1\",\"items\":[{items}],\"kind\":\"GadgetList\",\"metadata\":{{{continued}\"resourceVersion\":\"85\"}}}}\n"
        )
    };
    assert_eq!(world.get(GADGETS).body, list(OBJECT, r#""continue":"","#));
    let empty = GADGETS.replace("default", "empty");
    assert_eq!(world.get(&empty).body, list("", r#""continue":"","#));
    // The other members of a page are sorted too.
    let row = world.app.catalog().registry.find("example.com", "v1", "gadgets").unwrap().row;
    let other = r#"{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"b"}}"#;
    world.publish_value(86, Key::new(row, Some("default"), "b"), Some(other.into()));
    let page = world.get(&format!("{GADGETS}?limit=1"));
    let token = page.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let continued = format!(r#""continue":"{token}","remainingItemCount":1,"#);
    assert_eq!(page.body, list(OBJECT, &continued).replace("\"85\"}}", "\"86\"}}"));
    let yaml = world.get_as(&empty, "application/yaml").body;
    let expected = "apiVersion: example.com/v1\nitems: []\nkind: GadgetList\nmetadata:\n  continue: \"\"\n  resourceVersion: \"86\"\n";
    assert_eq!(yaml, expected);
    let pretty = world.get(&format!("{empty}?pretty=1")).body;
    let expected = "{\n  \"apiVersion\": \"example.com/v1\",\n  \"items\": [],\n  \"kind\": \"GadgetList\",\n  \"metadata\": {\n    \"continue\": \"\",\n    \"resourceVersion\": \"86\"\n  }\n}";
    assert_eq!(pretty, expected);
}

/// Metadata has a type, whatever has it: its members are in that type's order.
#[test]
fn metadata_alone_is_in_the_order_of_its_type() {
    let world = recorded();
    let metadata = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","namespace":"default","uid":"3142213a-c5f2-43bc-8cb8-e3447ea03543","resourceVersion":"83","generation":3,"creationTimestamp":"2026-11-23T06:37:53Z","managedFields":[{"manager":"unknown","operation":"Update","apiVersion":"example.com/v1","time":"2026-11-23T06:38:08Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"f:x":{}}}}]}}"#;
    let accept = |kind: &str| format!("application/json;as={kind};v=v1;g=meta.k8s.io");
    let one = world.get_as(&format!("{GADGETS}/a"), &accept("PartialObjectMetadata"));
    assert_eq!(one.body, format!("{metadata}\n"));
    let list = world.get_as(GADGETS, &accept("PartialObjectMetadataList")).body;
    let expected = format!(
        "{{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{{\"resourceVersion\":\"85\"}},\"items\":[{metadata}]}}\n"
    );
    assert_eq!(list, expected);
    let table = world.get_as(GADGETS, &accept("Table")).body;
    assert!(table.contains(&format!("\"object\":{metadata}}}]}}")), "{table}");
}

/// What is written here is stored, and answered, as a kube-apiserver does it: sorted, with Go's numbers.
#[test]
fn what_is_written_is_sorted() {
    let world = World::new();
    let body = json!({"spec": {"z": 1.0, "a": {"d": -0.0, "c": [1e21, {"y": "<", "x": null}]}}, "kind": "Gadget",
        "metadata": {"name": "w", "labels": {"b": "2", "a": "1"}}, "apiVersion": "example.com/v1", "alpha": true});
    let made = world.send("POST", GADGETS, &body);
    let spec = r#""spec":{"a":{"c":[1e+21,{"x":null,"y":"\u003c"}],"d":0},"z":1}}"#;
    let head =
        r#"{"alpha":true,"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"creationTimestamp":"#;
    assert_eq!(made.code, 201);
    assert!(made.body.starts_with(head) && made.body.ends_with(&format!("{spec}\n")), "{}", made.body);
    assert!(
        made.body
            .contains(r#""labels":{"a":"1","b":"2"},"name":"w","namespace":"default","resourceVersion":""#)
    );
    assert_eq!(world.get(&format!("{GADGETS}/w")).body, made.body);
    // One that changes nothing is answered in the same way.
    let mut same = made.json();
    same["metadata"].as_object_mut().unwrap().shift_remove("creationTimestamp");
    let again = world.send("PUT", &format!("{GADGETS}/w"), &same);
    assert_eq!((again.code, again.body), (200, made.body));
}

/// A Table of FlowSchemas has its cells by precedence, and the objects beside them in the order of the list.
#[test]
fn flow_schemas_are_printed_as_recorded() {
    let mut text = String::new();
    GzDecoder::new(TABLES).read_to_string(&mut text).unwrap();
    let is_theirs = |line: &Value| line["kind"] == "FlowSchema";
    let line = text.lines().map(|line| serde_json::from_str(line).unwrap()).find(is_theirs).unwrap();
    let world = World::with_json();
    let path = line["path"].as_str().unwrap();
    let row =
        world.app.catalog().registry.find("flowcontrol.apiserver.k8s.io", "v1", "flowschemas").unwrap().row;
    let revision =
        |object: &Value| -> u64 { object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap() };
    let mut objects: Vec<Value> =
        line["rows"].as_array().unwrap().iter().map(|row| row["object"].clone()).collect();
    objects.sort_by_key(revision);
    for object in &objects {
        let name = object["metadata"]["name"].as_str().unwrap();
        world.publish_value(revision(object), Key::new(row, None, name), Some(object.to_string().into()));
    }
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let shown = |target: &str| {
        let table = world.ask(&Ask::new("GET", target).with("Accept", accept)).json();
        let rows = table["rows"].as_array().unwrap().iter();
        let names: Vec<Value> = rows.map(|row| row["object"]["metadata"]["name"].clone()).collect();
        // Ages depend on the time.
        let mut cells: Vec<Value> =
            table["rows"].as_array().unwrap().iter().map(|row| row["cells"].clone()).collect();
        cells.iter_mut().for_each(|cells| cells[4] = Value::Null);
        (names, cells)
    };
    let (names, cells) = shown(path);
    let rows = line["rows"].as_array().unwrap();
    assert_eq!(names, rows.iter().map(|row| row["object"]["metadata"]["name"].clone()).collect::<Vec<_>>());
    let mut recorded: Vec<Value> = rows.iter().map(|row| row["cells"].clone()).collect();
    recorded.iter_mut().for_each(|cells| cells[4] = Value::Null);
    assert_eq!(cells, recorded);
    // Each page is ordered by itself.
    let (names, cells) = shown(&format!("{path}?limit=4"));
    assert_eq!(names, ["catch-all", "deleting-flowschemas", "empties-flowschemas", "exempt"]);
    let printed: Vec<&Value> = cells.iter().map(|cells| &cells[0]).collect();
    assert_eq!(printed, ["exempt", "deleting-flowschemas", "empties-flowschemas", "catch-all"]);
}
