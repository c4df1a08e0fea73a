//! Resources that CustomResourceDefinitions in etcd define: served without being declared, changed and withdrawn with them.
//! kube-apiserver's behaviour is recorded in transcript 36.

use std::time::{Duration, Instant};

use revcast_tests::proxy::Proxy;
use serde_json::{Value, json};

use super::{Options, Pair, Release, eventually, pair, short};

pub(super) const FOLDER: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions";
pub(super) const GADGETS: &str = "/apis/example.com/v1/namespaces/default/gadgets";

/// A definition as kube-apiserver stores it: in the form of v1beta1.
pub(super) fn definition(versions: &[&str]) -> Value {
    let names = json!({ "plural": "gadgets", "singular": "gadget", "shortNames": ["gd"], "kind": "Gadget",
        "listKind": "GadgetList" });
    let version = |name: &&str| json!({ "name": name, "served": true, "storage": *name == versions[0] });
    json!({
        "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1beta1",
        "metadata": { "name": "gadgets.example.com", "uid": "u", "creationTimestamp": "2026-11-23T05:47:26Z" },
        "spec": {
            "group": "example.com", "version": versions[0], "names": names, "scope": "Namespaced",
            "validation": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            "subresources": { "status": {} },
            "versions": versions.iter().map(version).collect::<Vec<_>>(),
            "selectableFields": [{ "jsonPath": ".spec.color" }],
            "conversion": { "strategy": "None" }, "preserveUnknownFields": false
        },
        "status": {
            "conditions": [{ "type": "NamesAccepted", "status": "True" }, { "type": "Established", "status": "True" }],
            "acceptedNames": names, "storedVersions": [versions[0]]
        }
    })
}

pub(super) fn gadget(name: &str, color: &str) -> String {
    let text = json!({ "apiVersion": "example.com/v1", "kind": "Gadget",
        "metadata": { "name": name, "namespace": "default", "creationTimestamp": "2026-11-23T05:47:26Z" },
        "spec": { "color": color } });
    format!("{text}\n")
}

pub(super) fn key(name: &str) -> String {
    format!("/registry/example.com/gadgets/default/{name}")
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    items.iter().filter_map(|item| item["metadata"]["name"].as_str()).collect()
}

/// The first definition was served after this time, or one of some more is within a second: others may keep the machine busy for longer.
fn within_a_second(both: &Pair, first: Duration) {
    let (client, control) = (both.server.client(), both.etcd.control());
    let mut time = first;
    for group in ["one.example.org", "two.example.org", "three.example.org"] {
        if time < Duration::from_secs(1) {
            break;
        }
        let text = definition(&["v1"]).to_string().replace("example.com", group);
        control.put(&format!("{FOLDER}/gadgets.{group}"), text).unwrap();
        let (began, path) = (Instant::now(), GADGETS.replace("example.com", group));
        eventually("another kind is served", || client.get(&path).status == 200);
        time = began.elapsed();
    }
    assert!(time < Duration::from_secs(1), "served after {first:?}, and after {time:?}");
}

#[test]
fn a_definition_comes_changes_and_goes() {
    for release in Release::ALL {
        let both = pair(release, Options::default(), &[]);
        let (client, control) = (both.server.client(), both.etcd.control());
        let put =
            |value: &Value| control.put(&format!("{FOLDER}/gadgets.example.com"), value.to_string()).unwrap();
        let mut others = client.watch("/api/v1/namespaces/a/configmaps?watch=1").unwrap();
        // An object that is older than its definition is loaded with it.
        control.put(&key("older"), gadget("older", "red")).unwrap();
        assert_eq!(client.get(GADGETS).status, 404);

        let defined = put(&definition(&["v1", "v2"]));
        let began = Instant::now();
        eventually("gadgets are served", || client.get(GADGETS).status == 200);
        within_a_second(&both, began.elapsed());
        let list = client.get(GADGETS).json();
        assert_eq!((names(&list), &list["kind"]), (vec!["older"], &json!("GadgetList")));
        let resources = client.get("/apis/example.com/v1").json();
        assert_eq!(resources["resources"][0]["shortNames"], json!(["gd"]));
        assert_eq!(resources["resources"][1]["name"], "gadgets/status");
        assert_eq!(client.get("/apis/example.com").json()["versions"][0]["version"], "v2");
        assert!(client.get("/openapi/v3/apis/example.com/v2").status == 200);
        // Nothing is known of before: 410, and not an empty history.
        let mut too_old =
            client.watch(&format!("{GADGETS}?watch=1&resourceVersion={}", defined - 1)).unwrap();
        assert_eq!(short(&too_old.next_event()), "ERROR 410");

        let mut first = client.watch(&format!("{GADGETS}?watch=1")).unwrap();
        let red = "fieldSelector=spec.color%3Dred";
        let mut second = client.watch(&format!("/apis/example.com/v2/gadgets?watch=1&{red}")).unwrap();
        assert_eq!(short(&first.next_event()), "ADDED older");
        let (kind, object) = second.next_event();
        assert_eq!((&*kind, &object["apiVersion"]), ("ADDED", &json!("example.com/v2")));
        control.put(&key("new"), gadget("new", "blue")).unwrap();
        assert_eq!(short(&first.next_event()), "ADDED new");
        control.put(&key("new"), gadget("new", "red")).unwrap();
        assert_eq!(short(&first.next_event()), "MODIFIED new");
        assert_eq!(short(&second.next_event()), "ADDED new");

        // A column: Tables have it, and a watch that shows no table goes on.
        let mut value = definition(&["v1", "v2"]);
        value["spec"]["additionalPrinterColumns"] =
            json!([{ "name": "Color", "type": "string", "JSONPath": ".spec.color" }]);
        let as_table = [("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
        let table = || client.request("GET", GADGETS, &as_table, b"").json();
        assert_eq!(table()["columnDefinitions"][1]["name"], "Age");
        let mut rows = client.watch_as(&format!("{GADGETS}?watch=1"), &as_table).unwrap();
        assert_eq!(rows.events(2).len(), 2);
        put(&value);
        eventually("the column is shown", || table()["columnDefinitions"][1]["name"] == "Color");
        let cells: Vec<Value> =
            table()["rows"].as_array().unwrap().iter().map(|row| row["cells"].clone()).collect();
        assert_eq!(cells, [json!(["new", "red"]), json!(["older", "red"])]);
        assert_eq!(rows.rest(), [], "its columns are others now");

        // A version goes: its watches end, and those of the other go on.
        value["spec"]["versions"][1]["served"] = false.into();
        put(&value);
        assert_eq!(second.rest(), [], "a clean end");
        eventually("v2 is gone", || client.get("/apis/example.com/v2/gadgets").status == 404);
        control.put(&key("new"), gadget("new", "green")).unwrap();
        assert_eq!(short(&first.next_event()), "MODIFIED new");

        // A field that is selectable is read from all objects again.
        value["spec"]["selectableFields"] =
            json!([{ "jsonPath": ".spec.color" }, { "jsonPath": ".spec.size" }]);
        put(&value);
        assert_eq!(first.rest(), []);
        let sized = format!("{GADGETS}?fieldSelector=spec.size%3D");
        eventually("sizes are selectable", || client.get(&sized).status == 200);
        assert_eq!(names(&client.get(&sized).json()), ["new", "older"]);
        let mut third = client.watch(&format!("{GADGETS}?watch=1&{red}")).unwrap();
        assert_eq!(short(&third.next_event()), "ADDED older");

        // It goes, with its objects.
        control.del(&key("older")).unwrap();
        control.del(&key("new")).unwrap();
        assert_eq!(short(&third.next_event()), "DELETED older");
        control.del(&format!("{FOLDER}/gadgets.example.com")).unwrap();
        assert_eq!(third.rest(), []);
        eventually("gadgets are gone", || client.get(GADGETS).status == 404);
        assert_eq!(client.get("/apis/example.com").status, 404);
        put(&definition(&["v1"]));
        eventually("gadgets are back", || client.get(GADGETS).status == 200);
        assert_eq!(names(&client.get(GADGETS).json()), [""; 0]);

        // Watches of other resources have seen nothing of all this.
        control.put("/registry/configmaps/a/x", super::config_map("x", "1")).unwrap();
        assert_eq!(short(&others.next_event()), "ADDED x");
    }
}

/// What is there at the start is served from the start; what cannot be served says so and is not in the way.
#[test]
fn definitions_are_there_at_the_start() {
    let etcd = super::Etcd::start(Release::V3_5, Options::default());
    let control = etcd.control();
    control.put(&format!("{FOLDER}/gadgets.example.com"), definition(&["v1"]).to_string()).unwrap();
    control.put(&format!("{FOLDER}/other.example.com"), "{\"spec\":{}}").unwrap();
    let mut waits = definition(&["v1"]);
    waits["metadata"]["name"] = "waits.example.com".into();
    waits["spec"]["names"]["plural"] = "waits".into();
    waits["status"] = json!({ "conditions": [{ "type": "Established", "status": "False" }] });
    control.put(&format!("{FOLDER}/waits.example.com"), waits.to_string()).unwrap();
    for number in 0..50 {
        let name = format!("g{number}");
        control.put(&key(&name), gadget(&name, "red")).unwrap();
    }
    let server = super::Server::start(&["--etcd-endpoints", &etcd.endpoint()]);
    let client = server.client();
    assert_eq!(names(&client.get(GADGETS).json()).len(), 50);
    assert_eq!(client.get("/apis/example.com/v1/waits").status, 404);
    // It is established later.
    waits["status"]["conditions"][0]["status"] = "True".into();
    control.put(&format!("{FOLDER}/waits.example.com"), waits.to_string()).unwrap();
    eventually("waits are served", || client.get("/apis/example.com/v1/waits").status == 200);
    // Written here, it is stored under the key that kube-apiserver uses.
    let posted = client.send("POST", GADGETS, &serde_json::from_str(&gadget("posted", "blue")).unwrap());
    assert_eq!(posted.status, 201, "{}", posted.text());
    assert!(control.get(&key("posted")).unwrap().is_some());
}

/// Objects keep the version that they were written in. Without a webhook only `apiVersion` differs; with one, what is stored in
/// another version is refused by name.
#[test]
fn versions_are_converted_or_refused_by_name() {
    let both = pair(Release::V3_5, Options::default(), &[]);
    let (client, control) = (both.server.client(), both.etcd.control());
    let mut value = definition(&["v2", "v1"]);
    value["status"]["storedVersions"] = json!(["v1", "v2"]);
    let put =
        |value: &Value| control.put(&format!("{FOLDER}/gadgets.example.com"), value.to_string()).unwrap();
    control.put(&key("a"), gadget("a", "red")).unwrap();
    put(&value);
    let second = "/apis/example.com/v2/namespaces/default/gadgets";
    eventually("gadgets are served", || client.get(second).status == 200);
    for (path, version) in [(GADGETS, "example.com/v1"), (second, "example.com/v2")] {
        assert_eq!(client.get(path).json()["items"][0]["apiVersion"], version);
        assert_eq!(client.get(&format!("{path}/a")).json()["apiVersion"], version);
    }
    value["spec"]["conversion"] = json!({ "strategy": "Webhook" });
    put(&value);
    eventually("a webhook is to convert", || client.get(second).status == 500);
    let refused = client.get(&format!("{second}/a"));
    assert!(refused.status == 500 && refused.text().contains("webhook"), "{}", refused.text());
    assert_eq!(client.get(GADGETS).json()["items"][0]["apiVersion"], "example.com/v1");
}

/// The connection to etcd breaks after a definition was seen, and before the objects of its resource are there. Nothing of it is
/// served until all are; then every change since the definition is told.
#[test]
fn etcd_fails_between_a_definition_and_its_objects() {
    const DELAY: Duration = Duration::from_millis(400);
    for (release, is_compacted) in
        Release::ALL.into_iter().flat_map(|release| [(release, false), (release, true)])
    {
        let etcd = super::Etcd::start(release, Options::default());
        let proxy = Proxy::start(&etcd.address());
        let server = super::Server::start(&["--etcd-endpoints", &format!("http://{}", proxy.address())]);
        let (client, control) = (server.client(), etcd.control());
        for name in ["goes", "stays"] {
            control.put(&key(name), gadget(name, "red")).unwrap();
        }
        control.put("/registry/configmaps/a/first", super::config_map("first", "1")).unwrap();
        let mut others = client.watch("/api/v1/namespaces/a/configmaps?watch=1&resourceVersion=0").unwrap();
        assert_eq!(short(&others.next_event()), "ADDED first");
        assert_eq!(client.get(GADGETS).status, 404);

        // What is asked for next, after the definition is told, are the objects. The reply does not arrive.
        proxy.delay(DELAY);
        let value = definition(&["v1"]).to_string();
        let defined = control.put(&format!("{FOLDER}/gadgets.example.com"), value).unwrap();
        std::thread::sleep(DELAY * 9 / 10);
        let asked = proxy.bytes_up();
        let request = u64::try_from(2 * "/registry/example.com/gadgets/".len()).unwrap();
        eventually("the objects are asked for", || proxy.bytes_up() >= asked + request);
        proxy.cut();
        proxy.delay(Duration::ZERO);
        control.del(&key("goes")).unwrap();
        let newest = control.put(&key("comes"), gadget("comes", "blue")).unwrap();
        for _ in 0..20 {
            assert_eq!(client.get(&format!("{GADGETS}?resourceVersion=0")).status, 404, "{release:?}");
            std::thread::sleep(Duration::from_millis(25));
        }
        if is_compacted {
            control.compact(newest).unwrap();
        }
        proxy.heal();
        eventually("gadgets are served", || client.get(GADGETS).status == 200);
        assert_eq!(names(&client.get(GADGETS).json()), ["comes", "stays"], "{release:?}");
        let mut since = client.watch(&format!("{GADGETS}?watch=1&resourceVersion={defined}")).unwrap();
        if is_compacted {
            // What was between is not known any more, of any resource.
            assert_eq!(short(&since.next_event()), "ERROR 410", "{release:?}");
            assert_eq!(short(&others.next_event()), "ERROR 410", "{release:?}");
            continue;
        }
        let told: Vec<String> = since.events(2).iter().map(short).collect();
        assert_eq!(told, ["DELETED goes", "ADDED comes"], "{release:?}");
        control.put("/registry/configmaps/a/x", super::config_map("x", "1")).unwrap();
        assert_eq!(short(&others.next_event()), "ADDED x", "others have seen nothing of it");
        assert_eq!(server.metric("revcast_source_epoch"), 1, "{release:?}");
    }
}
