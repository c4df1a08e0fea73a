//! The bodies: as much of each kind as fits into 3 MiB and 500,000 values.

use serde_json::{Value, json};

use super::{Heavy, JSON};

pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const OPERATIONS: &str = "application/json-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn many(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(",")
}

pub(crate) fn endpoints(count: usize) -> Vec<u8> {
    let (ips, ports) =
        (many(count, |_| r#"{"ip":"1"}"#.to_owned()), many(count, |_| r#"{"port":1}"#.to_owned()));
    format!(r#"{{"metadata":{{"name":"e"}},"subsets":[{{"addresses":[{ips}],"ports":[{ports}]}}]}}"#)
        .into_bytes()
}

pub(crate) fn service_ports(count: usize) -> Vec<u8> {
    let ports = many(count, |n| format!(r#"{{"port":{n}}}"#));
    format!(r#"{{"metadata":{{"name":"ports"}},"spec":{{"ports":[{ports}]}}}}"#).into_bytes()
}

pub(crate) fn selector(count: usize) -> Vec<u8> {
    let labels = many(count, |n| format!(r#""l{n}":"v""#));
    format!(r#"{{"metadata":{{"name":"s"}},"spec":{{"selector":{{{labels}}}}}}}"#).into_bytes()
}

/// The two writes of a pod: its spec, and its status.
type Parts = [Box<dyn Fn(&str) -> Vec<u8>>; 2];

fn pod(spec: &str, status: &str) -> Parts {
    [("spec", spec.to_owned()), ("status", status.to_owned())].map(|(part, inside)| {
        let write = move |name: &str| {
            format!(r#"{{"metadata":{{"name":"{name}"}},"{part}":{{{inside}}}}}"#).into_bytes()
        };
        Box::new(write) as Box<dyn Fn(&str) -> Vec<u8>>
    })
}

pub(crate) fn pod_gates(count: usize) -> Parts {
    let gates = many(count, |n| format!(r#"{{"conditionType":"g{n}"}}"#));
    let conditions = many(count, |n| format!(r#"{{"type":"c{n}","status":"True"}}"#));
    pod(&format!(r#""readinessGates":[{gates}]"#), &format!(r#""conditions":[{conditions}]"#))
}

pub(crate) fn pod_sidecars(count: usize) -> Parts {
    let containers = many(count, |n| format!(r#"{{"name":"c{n}","restartPolicy":"Always"}}"#));
    let statuses = many(count, |n| format!(r#"{{"name":"c{n}","started":true,"ready":true}}"#));
    pod(&format!(r#""initContainers":[{containers}]"#), &format!(r#""initContainerStatuses":[{statuses}]"#))
}

/// An object with a list, or a map, at every path that some printer reads.
pub(crate) fn everything(count: usize) -> Vec<u8> {
    let list = |item: Value| -> Value { vec![item; count].into() };
    let map = |value: Value| -> Value {
        (0..count)
            .map(|n| (format!("m{n}"), value.clone()))
            .collect::<serde_json::Map<String, Value>>()
            .into()
    };
    let containers = || list(json!({"name": "c", "image": "i", "restartPolicy": "Always"}));
    let expressions = json!({"key": "k", "operator": "In", "values": ["b", "a"]});
    let selector = json!({"matchLabels": map(json!("v")), "matchExpressions": list(expressions)});
    let template = json!({"metadata": {"labels": map(json!("v"))}, "spec": {"containers": containers()}});
    let everything = json!({
        "metadata": {"name": "everything", "ownerReferences": list(json!({"kind": "K", "name": "n"}))},
        "data": map(json!("dg==")),
        "template": template,
        "subsets": list(json!({"addresses": [{"ip": "1"}, {"ip": "2"}], "ports": [{"port": 1}, {"port": 2}]})),
        "endpoints": list(json!({"addresses": ["1", "2"]})),
        "ports": list(json!({"port": 1})),
        "webhooks": list(json!({})),
        "secrets": list(json!({})),
        "subjects": list(json!({"kind": "ServiceAccount", "name": "n", "namespace": "s"})),
        "spec": {
            "ports": list(json!({"port": 1})),
            "rules": list(json!({"host": "h"})),
            "metrics": list(json!({"type": "Resource", "resource": {"name": "cpu"}})),
            "readinessGates": list(json!({"conditionType": "c"})),
            "initContainers": containers(),
            "containers": containers(),
            "drivers": list(json!({})),
            "accessModes": list(json!("ReadWriteOnce")),
            "externalIPs": list(json!("1")),
            "type": "LoadBalancer",
            "selector": selector,
            "paramRef": {"selector": selector},
            "mutations": list(json!({})),
            "validations": list(json!({})),
            "tokenRequests": list(json!({"audience": "a"})),
            "volumeLifecycleModes": list(json!("Persistent")),
            "cidrs": list(json!("10.0.0.0/8")),
            "template": template,
        },
        "status": {
            "conditions": list(json!({"type": "c", "status": "False"})),
            "addresses": list(json!({"type": "t", "address": "1"})),
            "initContainerStatuses": list(json!({"name": "c", "state": {"terminated": {"exitCode": 0}}})),
            "containerStatuses": list(json!({"name": "c", "state": {"waiting": {"reason": "r"}}})),
            "currentMetrics": list(json!({"type": "Resource"})),
            "loadBalancer": {"ingress": list(json!({"ip": "1"}))},
            "active": list(json!({})),
            "allocation": {},
            "reservedFor": list(json!({})),
            "pools": list(json!({"totalDevices": 1, "validationError": "e"})),
            "storageVersions": list(json!({"apiServerID": "a", "encodingVersion": "v1"})),
            "hard": map(json!("1")),
            "used": map(json!("1")),
        },
    });
    everything.to_string().into_bytes()
}

/// A ConfigMap with this many entries.
pub(crate) fn members(count: usize) -> Vec<u8> {
    let data = many(count, |n| format!(r#""k{n}":"v""#));
    format!(r#"{{"metadata":{{"name":"m","finalizers":["a/b"]}},"data":{{{data}}}}}"#).into_bytes()
}

pub(crate) fn nulls(count: usize) -> Vec<u8> {
    format!(r#"{{"data":{{{}}}}}"#, many(count, |n| format!(r#""k{n}":null"#))).into_bytes()
}

pub(crate) fn order(count: usize) -> Vec<u8> {
    let ports = many(count, |n| format!(r#"{{"port":{}}}"#, count - 1 - n));
    format!(r#"{{"spec":{{"$setElementOrder/ports":[{ports}],"ports":[{{"port":1,"name":"x"}}]}}}}"#)
        .into_bytes()
}

pub(crate) fn primitive(count: usize) -> Vec<u8> {
    let gone = many(count, |n| format!(r#""a/f{n}""#));
    format!(r#"{{"metadata":{{"$deleteFromPrimitiveList/finalizers":[{gone}],"finalizers":["c/d"]}}}}"#)
        .into_bytes()
}

pub(crate) fn same_port(count: usize) -> Vec<u8> {
    format!(r#"{{"spec":{{"ports":[{}]}}}}"#, many(count, |n| format!(r#"{{"port":1,"x":{n}}}"#)))
        .into_bytes()
}

pub(crate) fn directive(count: usize) -> Vec<u8> {
    format!(r#"{{"data":{{"$patch":"<","k":"{}"}}}}"#, "<".repeat(count)).into_bytes()
}

pub(crate) fn copies(count: usize) -> Vec<u8> {
    let op = |n: usize| format!(r#"{{"op":"copy","from":"/data/k{n}","path":"/data/c{n}"}}"#);
    format!("[{}]", many(count, op)).into_bytes()
}

pub(crate) fn doublings(count: usize) -> Vec<u8> {
    let op = |n: usize| format!(r#"{{"op":"copy","from":"/data","path":"/data/d{n}"}}"#);
    format!("[{}]", many(count, op)).into_bytes()
}

/// Each but the last one holds.
pub(crate) fn tests(count: usize) -> Vec<u8> {
    let op = |n: usize| {
        let value = if n + 1 == count { "w" } else { "v" };
        format!(r#"{{"op":"test","path":"/data/k{n}","value":"{value}"}}"#)
    };
    format!("[{}]", many(count, op)).into_bytes()
}

pub(crate) fn insertions(count: usize) -> Vec<u8> {
    format!("[{}]", many(count, |_| r#"{"op":"add","path":"/spec/ports/0","value":1}"#.to_owned()))
        .into_bytes()
}

pub(crate) fn applied(object: &Value) -> Vec<u8> {
    let kind = if object["data"].is_object() { "ConfigMap" } else { "Service" };
    let mut object = object.clone();
    object["apiVersion"] = "v1".into();
    object["kind"] = kind.into();
    object["metadata"].as_object_mut().unwrap().retain(|name, _| name == "name");
    object.to_string().into_bytes()
}

pub(crate) fn yamls() -> Vec<(&'static str, String)> {
    let head = "metadata: {name: y}\n";
    let lines = |count: usize, line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
    let aliases = format!(
        "a: &a0 [x,x,x,x,x,x,x,x,x]\n{}",
        lines(30, &|n| format!("b{n}: &a{} [{}]\n", n + 1, vec![format!("*a{n}"); 9].join(",")))
    );
    vec![
        ("flow lists", "[".repeat(3 << 20)),
        ("flow maps", "{a: ".repeat(700_000)),
        ("questions", "? ".repeat(1 << 20)),
        ("dashes", "- ".repeat(1 << 20)),
        ("letters", format!("{head}data: [{}]", "a,".repeat(1 << 20))),
        ("members", format!("{head}data:\n{}", lines(110_000, &|n| format!("  k{n}: v\n")))),
        ("one scalar", format!("{head}data: {{k: \"{}\"}}", "\\x41".repeat(700_000))),
        ("a block", format!("{head}data:\n  k: |\n{}", "    a\n".repeat(400_000))),
        ("a folded block", format!("{head}data:\n  k: >\n{}", "    a\n".repeat(400_000))),
        ("a plain scalar of lines", format!("{head}data:\n  k: a\n{}", "   a\n".repeat(400_000))),
        ("a key without an end", "a ".repeat(1 << 20)),
        ("a key of much", format!("{head}{}: 1", "k".repeat(3 << 19))),
        ("aliases of aliases", format!("{head}{aliases}")),
        ("anchors", format!("{head}data: [{}]", lines(100_000, &|n| format!("&a{n} x,")))),
        ("one anchor", format!("{head}k: &a x\ndata: [{}]", "*a,".repeat(110_000))),
        ("merges", format!("{head}k: &a {{b: c}}\ndata:\n{}", "  <<: *a\n".repeat(110_000))),
        ("comments", format!("{head}{}", "# a\n".repeat(700_000))),
        ("tags", format!("{head}data: [{}]", "!!str a,".repeat(110_000))),
        ("an unknown tag", format!("{head}k: !!int {}", "<".repeat(1 << 20))),
        ("documents", "---\n".repeat(700_000)),
        ("directives", "%TAG ! !\n".repeat(300_000)),
        ("blanks", " ".repeat(3 << 20)),
        ("line ends", "\n".repeat(3 << 20)),
        ("tabs", format!("{head}data:\n{}", "\t\n".repeat(1 << 20))),
    ]
}

/// A protobuf field that holds bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut left = bytes.len();
    loop {
        let low = u8::try_from(left & 0x7f).unwrap();
        left >>= 7;
        out.push(if left > 0 { low | 0x80 } else { low });
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(bytes);
    out
}

fn protobuf(kind: &str, message: &[u8]) -> Vec<u8> {
    let of = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &of), field(2, message)].concat()
}

pub(crate) fn protobuf_of(kind: &str) -> Vec<u8> {
    protobuf(kind, b"")
}

/// A ConfigMap with this many entries.
pub(crate) fn protobuf_map(count: usize) -> Vec<u8> {
    let entry = |n: usize| field(2, &[field(1, format!("k{n}").as_bytes()), field(2, b"v")].concat());
    let entries: Vec<u8> = (0..count).flat_map(entry).collect();
    protobuf("ConfigMap", &[field(1, &field(1, b"p")), entries].concat())
}

pub(crate) fn selectors() -> Vec<String> {
    let values = (0..1_500).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let terms = |term: &str| vec![term; 7_500 / (term.len() + 1)].join(",");
    vec![
        format!("labelSelector=a+in+({values})"),
        format!("labelSelector={}", terms("a")),
        format!("labelSelector={}", terms("!a")),
        format!("labelSelector={}", "(".repeat(7_500)),
        format!("labelSelector={}", "!".repeat(7_500)),
        format!("fieldSelector={}", terms("metadata.name!%3Da")),
        format!("fieldSelector={}", terms("a")),
        format!("fieldSelector=metadata.name%3D{}", "\\\\".repeat(3_700)),
    ]
}

/// Requests that are wrong in one text, which is long.
pub(crate) fn wrong(long: &str) -> Vec<Heavy> {
    const MAPS: &str = "/api/v1/namespaces/h/configmaps";
    const ONE: &str = "/api/v1/namespaces/h/configmaps/one";
    let with = |member: &str, value: Value| {
        let mut object = json!({"metadata": {"name": "x"}});
        object["metadata"][member] = value;
        object
    };
    let object = |name: &str, body: Value| Heavy::new(name, "POST", MAPS, JSON.1, body.to_string());
    let patch = |name: &str, kind: &str, body: Value| Heavy::new(name, "PATCH", ONE, kind, body.to_string());
    let apply = |name: &str, mut body: Value| {
        body["kind"] = "ConfigMap".into();
        body["apiVersion"] = "v1".into();
        let path = format!("{ONE}?fieldManager=a");
        Heavy::new(name, "PATCH", &path, APPLY, body.to_string())
    };
    let delete = |name: &str, body: Value| Heavy::new(name, "DELETE", ONE, JSON.1, body.to_string());
    let many: Vec<&str> = vec![&long[..long.char_indices().nth(300).map_or(0, |(end, _)| end)]; 400];
    let keys: serde_json::Map<String, Value> =
        (0..400).map(|n| (format!("{n}{}", many[0]), json!(many[0]))).collect();
    vec![
        object("name", with("name", json!(long))),
        object("generateName", json!({"metadata": {"generateName": format!("{long}-")}})),
        object("kind", json!({"kind": long, "metadata": {"name": "x"}})),
        object("apiVersion", json!({"apiVersion": long, "metadata": {"name": "x"}})),
        object("metadata", json!({"metadata": long})),
        object("a text", json!(long)),
        object("namespace", with("namespace", json!(long))),
        object("a label", with("labels", json!({long: long}))),
        object("labels", with("labels", json!(keys))),
        object("labels that are none", with("labels", json!(long))),
        object("annotations", with("annotations", json!(keys))),
        object("finalizers", with("finalizers", json!(many))),
        object("a version", with("resourceVersion", json!(long))),
        Heavy::new("put name", "PUT", ONE, JSON.1, with("name", json!(long)).to_string()),
        Heavy::new(
            "put uid",
            "PUT",
            ONE,
            JSON.1,
            json!({"metadata": {"name": "one", "uid": long}}).to_string(),
        ),
        Heavy::new(
            "put version",
            "PUT",
            ONE,
            JSON.1,
            json!({"metadata": {"name": "one", "resourceVersion": long}}).to_string(),
        ),
        Heavy::new("no JSON", "POST", MAPS, JSON.1, format!("{{{long}")),
        Heavy::new("no YAML", "POST", MAPS, "application/yaml", format!("a: {{b: [{long}")),
        Heavy::new(
            "no number",
            "POST",
            MAPS,
            "application/yaml",
            format!("a: !!int \"{}\"", long.replace(['"', '\\', '\u{1}'], ".")),
        ),
        patch("an operation", OPERATIONS, json!([{"op": long, "path": "/a"}])),
        patch("operations that are a text", OPERATIONS, json!(long)),
        patch(
            "a path",
            OPERATIONS,
            json!([{"op": "remove", "path": format!("/{}", long.replace('~', "."))}]),
        ),
        patch(
            "a test",
            OPERATIONS,
            json!([{"op": "test", "path": format!("/{}", long.replace('~', ".")), "value": 1}]),
        ),
        patch("a value", OPERATIONS, json!([{"op": "replace", "path": "/kind", "value": long}])),
        patch("a patch that is a text", MERGE, json!(long)),
        patch("a kind that is another", MERGE, json!({"kind": long})),
        patch("strategic text", STRATEGIC, json!(long)),
        patch("a directive", STRATEGIC, json!({"$patch": long, "data": {long: long}})),
        patch("kept", STRATEGIC, json!({"$retainKeys": [long], "data": {}})),
        patch(
            "an item without its key",
            STRATEGIC,
            json!({"metadata": {"ownerReferences": [{"name": long}]}}),
        ),
        apply("applied kind", json!({"metadata": {"name": long}})),
        apply("applied owners", json!({"metadata": {"name": "one", "uid": long}})),
        apply("applied items", json!({"metadata": {"name": "one", "ownerReferences": [{"name": long}]}})),
        apply("applied twice", json!({"metadata": {"name": "one", "finalizers": [long, long]}})),
        Heavy::new(
            "applied type",
            "PATCH",
            &format!("{ONE}?fieldManager=a"),
            APPLY,
            json!({"kind": long, "apiVersion": long}).to_string(),
        ),
        delete("options", json!({"kind": long})),
        delete("options of another type", json!({"preconditions": long})),
        delete("a uid", json!({"preconditions": {"uid": long}})),
        delete("a precondition", json!({"preconditions": {"resourceVersion": long}})),
        delete("a policy", json!({"propagationPolicy": long})),
        delete("dry runs", json!({"dryRun": many})),
        Heavy::new("protobuf", "POST", MAPS, PROTOBUF, protobuf_of(long)),
    ]
}

/// A text as part of a query.
pub(crate) fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Requests that are wrong in their first lines.
pub(crate) fn wrong_lines(long: &str) -> Vec<Heavy> {
    const MAPS: &str = "/api/v1/namespaces/h/configmaps";
    let get = |query: &str| Heavy::new(query, "GET", &format!("{MAPS}?{query}={long}"), JSON.1, "{}");
    let post = |query: &str| {
        let body = json!({"metadata": {"name": "y"}}).to_string();
        Heavy::new(query, "POST", &format!("{MAPS}?{query}={long}"), JSON.1, body)
    };
    let mut requests = vec![
        get("resourceVersion"),
        get("continue"),
        get("limit"),
        get("resourceVersion=1&resourceVersionMatch"),
    ];
    requests.extend([get("fieldSelector"), get("watch=1&resourceVersion"), get("watch=1&timeoutSeconds")]);
    requests.extend([post("dryRun"), post("fieldValidation")]);
    requests.push(Heavy::new("a name", "GET", &format!("{MAPS}/{long}"), JSON.1, "{}"));
    requests
}
