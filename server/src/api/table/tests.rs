//! Tables compared with recordings of a real server, and printers with hand-made objects.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::*;
use crate::api::resources::Registry;

const RECORDED: &str = include_str!("../../../tests/fixtures/recorded-tables.txt");

/// What is built in. It takes a millisecond to make.
static BUILTIN: LazyLock<Registry> = LazyLock::new(Registry::builtin);

fn resource<'a>(registry: &'a Registry, plural: &str) -> &'a ApiResource {
    registry.iter().find(|resource| resource.plural == plural).expect("a built-in resource")
}

fn columns(resource: &ApiResource) -> String {
    let mut out = Vec::new();
    append_column_definitions(&mut out, resource);
    String::from_utf8(out).expect("JSON is UTF-8")
}

fn row(resource: &ApiResource, object: &[u8], include: IncludeObject, now: &str) -> String {
    let mut out = Vec::new();
    append_row(&mut out, resource, object, include, MetaVersion::V1, age::parse(now).expect("a time"))
        .expect("an object");
    String::from_utf8(out).expect("JSON is UTF-8")
}

fn cells(plural: &str, object: &Value, now: &str) -> Value {
    let resource = resource(&BUILTIN, plural);
    let row: Value =
        serde_json::from_str(&row(resource, object.to_string().as_bytes(), IncludeObject::None, now))
            .expect("a row is JSON");
    let columns: Value = serde_json::from_str(&columns(resource)).expect("columns are JSON");
    let count = |value: &Value| value.as_array().map(Vec::len);
    // Rows of addresses have one more, as recorded.
    let more = usize::from(plural == "ipaddresses");
    assert_eq!(
        count(&row["cells"]),
        count(&columns).map(|columns| columns + more),
        "{plural}: a cell a column"
    );
    row["cells"].clone()
}

/// The cells of an object called x, made two days and an hour before.
pub(super) fn printed(printer: Printer, object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"] = json!({ "name": "x", "creationTimestamp": "2026-11-19T05:00:00Z" });
    let mut out = vec![b'['];
    printer.print(&object, &mut Cells::new(&mut out), age::parse(NOW).expect("a time"));
    out.push(b']');
    serde_json::from_slice(&out).expect("cells are JSON")
}

/// The n-th JSON line of the recording.
fn recorded(n: usize) -> &'static str {
    RECORDED.lines().filter(|line| line.starts_with('{')).nth(n).expect("a recorded reply")
}

/// The object of a recorded row: its metadata, and data with one entry.
fn object_of(metadata: &str) -> Vec<u8> {
    format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{metadata},"data":{{"k":"v"}}}}"#)
        .into_bytes()
}

/// The bytes of the metadata in the n-th row of a recorded reply.
fn metadata_of(reply: &str, n: usize) -> &str {
    let start = r#""apiVersion":"meta.k8s.io/v1","metadata":"#;
    let rows = reply.split_once(r#""rows":["#).map_or(reply, |(_, rows)| rows);
    let row = rows.split(start).nth(n + 1).expect("a row");
    let end = row.find("]}").expect("the end of managedFields") + "]}".len();
    &row[..end]
}

#[test]
fn a_list_of_rows_is_as_recorded() {
    let registry = &*BUILTIN;
    let config_maps = resource(registry, "configmaps");
    let reply = recorded(0);
    let head = reply.split_once(r#","columnDefinitions":"#).expect("a table").0;
    let rows: Vec<String> = (0..2)
        .map(|n| {
            let object = object_of(metadata_of(reply, n));
            row(config_maps, &object, IncludeObject::Metadata, "2026-11-21T05:38:13Z")
        })
        .collect();
    let ours =
        format!(r#"{head},"columnDefinitions":{},"rows":[{}]}}"#, columns(config_maps), rows.join(","));
    assert_eq!(ours, reply);
}

#[test]
fn rows_without_objects_and_rows_of_events_are_as_recorded() {
    let registry = &*BUILTIN;
    let config_maps = resource(registry, "configmaps");
    let object = object_of(metadata_of(recorded(0), 0));
    let none = row(config_maps, &object, IncludeObject::None, "2026-11-21T05:38:13Z");
    assert!(recorded(1).ends_with(&format!(r#""rows":[{none}]}}"#)));
    for event in [recorded(2), recorded(3)] {
        let object = object_of(metadata_of(event, 0));
        let ours = row(config_maps, &object, IncludeObject::Metadata, "2026-11-21T05:38:13Z");
        assert!(event.ends_with(&format!(r#""rows":[{ours}]}}}}"#)), "{ours}\n{event}");
    }
    let whole = row(config_maps, &object, IncludeObject::Object, "2026-11-21T05:38:13Z");
    let object = String::from_utf8(object).expect("JSON is UTF-8");
    assert_eq!(whole, format!(r#"{{"cells":["cm1",1,"60s"],"object":{object}}}"#));
}

#[test]
fn partial_metadata_is_as_recorded() {
    let list = recorded(4);
    let mut out = Vec::new();
    // The first such member belongs to the list.
    append_partial_metadata(&mut out, &object_of(metadata_of(list, 1)), MetaVersion::V1).expect("an object");
    let ours = String::from_utf8(out).expect("JSON is UTF-8");
    assert!(list.ends_with(&format!(r#""items":[{ours}]}}"#)), "{ours}\n{list}");
}

#[test]
fn what_is_no_object_appends_nothing() {
    let registry = &*BUILTIN;
    for bad in ["", "null", "[]", "{}", r#"{"metadata":{}"#, "\u{0}"] {
        let mut out = b"before".to_vec();
        let result = append_row(
            &mut out,
            resource(registry, "pods"),
            bad.as_bytes(),
            IncludeObject::Metadata,
            MetaVersion::V1,
            0,
        );
        assert!(
            result.is_err() && append_partial_metadata(&mut out, bad.as_bytes(), MetaVersion::V1).is_err(),
            "{bad}"
        );
        assert_eq!(out, b"before");
    }
}

/// Values of every type at every path that a printer reads: no panic, and always one cell per column.
#[test]
fn objects_of_any_shape_give_a_row() {
    let registry = &*BUILTIN;
    let odd =
        [json!(null), json!([]), json!({}), json!("x"), json!(-1), json!(1.5), json!([null, {}, [], "x", 7])];
    for resource in registry.iter() {
        for value in &odd {
            for place in
                ["spec", "status", "data", "subsets", "endpoints", "ports", "series", "involvedObject"]
            {
                let object = json!({ "metadata": value, place: value });
                cells(&resource.plural, &object, "2026-11-21T05:38:13Z");
                let nested = json!({ "metadata": { "labels": value }, place: {
                    "conditions": value, "containers": value, "initContainers": value, "template": value,
                    "selector": value, "metrics": value, "rules": value, "addresses": value,
                    "containerStatuses": value, "initContainerStatuses": value, "loadBalancer": value,
                    "paramKind": value, "paramRef": value, "parentRef": value, "cidrs": value, "taint": value,
                    "pools": value, "limited": value, "tokenRequests": value, "storageVersions": value,
                    "allocation": value, "distinguisherMethod": value, "capacity": { "storage": value },
                }});
                cells(&resource.plural, &nested, "2026-11-21T05:38:13Z");
            }
        }
    }
}

const NOW: &str = "2026-11-21T06:00:00Z";

fn pod(spec: &Value, status: &Value) -> Vec<String> {
    pod_with(&json!({ "name": "p", "creationTimestamp": "2026-11-21T05:55:00Z" }), spec, status)
}

fn pod_with(metadata: &Value, spec: &Value, status: &Value) -> Vec<String> {
    let cells = cells("pods", &json!({ "metadata": metadata, "spec": spec, "status": status }), NOW);
    cells.as_array().expect("cells").iter().map(|c| c.as_str().expect("text").to_owned()).collect()
}

#[test]
fn a_running_pod_shows_where_it_runs() {
    let spec = json!({ "nodeName": "n1", "containers": [{"name":"a"},{"name":"b"}],
        "readinessGates": [{"conditionType":"g1"},{"conditionType":"g2"}] });
    let status = json!({ "phase": "Running", "podIP": "10.0.0.1",
        "conditions": [{"type":"g1","status":"True"},{"type":"g2","status":"False"}],
        "containerStatuses": [
            {"name":"a","ready":true,"restartCount":0,"state":{"running":{}}},
            {"name":"b","ready":true,"restartCount":3,"state":{"running":{}},
             "lastState":{"terminated":{"finishedAt":"2026-11-21T05:55:00Z"}}}]});
    let expected = ["p", "2/2", "Running", "3 (5m ago)", "5m", "10.0.0.1", "n1", "<none>", "1/2"];
    assert_eq!(pod(&spec, &status), expected);
    let empty = pod(&json!({ "containers": [{"name":"a"}] }), &json!({ "phase": "Pending" }));
    assert_eq!(empty, ["p", "0/1", "Pending", "0", "5m", "<none>", "<none>", "<none>", "<none>"]);
}

#[test]
fn the_status_of_a_pod_is_that_of_its_containers() {
    let state = |state: &Value| json!({ "phase": "Running", "containerStatuses": [{"name":"a","restartCount":0,"state":state}]});
    let spec = json!({ "containers": [{"name":"a"}] });
    let cases = [
        (json!({"waiting":{"reason":"CrashLoopBackOff"}}), "CrashLoopBackOff"),
        (json!({"waiting":{"reason":"ContainerCreating"}}), "ContainerCreating"),
        (json!({"waiting":{}}), "Running"),
        (json!({"terminated":{"reason":"Error","exitCode":1}}), "Error"),
        (json!({"terminated":{"exitCode":137}}), "ExitCode:137"),
        (json!({"terminated":{"exitCode":137,"signal":9}}), "Signal:9"),
        (json!({"terminated":{"reason":"Completed","exitCode":0}}), "Completed"),
    ];
    for (given, expected) in cases {
        assert_eq!(pod(&spec, &state(&given))[2], expected);
    }
    let evicted = json!({ "phase": "Failed", "reason": "Evicted" });
    assert_eq!(pod(&spec, &evicted)[2], "Evicted");
    let gated =
        json!({ "phase": "Pending", "conditions": [{"type":"PodScheduled","reason":"SchedulingGated"}]});
    assert_eq!(pod(&spec, &gated)[2], "SchedulingGated");
}

#[test]
fn one_running_container_keeps_a_pod_from_being_completed() {
    let spec = json!({ "containers": [{"name":"a"},{"name":"b"}] });
    let status = |ready: &str| {
        json!({ "phase": "Running",
        "conditions": [{"type":"Ready","status":ready}],
        "containerStatuses": [
            {"name":"a","restartCount":0,"state":{"terminated":{"reason":"Completed","exitCode":0}}},
            {"name":"b","ready":true,"restartCount":0,"state":{"running":{}}}]})
    };
    assert_eq!(pod(&spec, &status("True"))[1..3], ["1/2", "Running"]);
    assert_eq!(pod(&spec, &status("False"))[1..3], ["1/2", "NotReady"]);
}

#[test]
fn init_containers_come_first() {
    let spec = json!({ "initContainers": [{"name":"i"},{"name":"j"}], "containers": [{"name":"a"}] });
    let status = |second: &Value| {
        json!({ "phase": "Pending",
        "initContainerStatuses": [
            {"name":"i","restartCount":1,"state":{"terminated":{"exitCode":0}}},
            {"name":"j","restartCount":2,"state":second}],
        "containerStatuses": [{"name":"a","restartCount":7,"state":{"waiting":{"reason":"PodInitializing"}}}]})
    };
    let cases = [
        (json!({"running":{}}), "Init:1/2"),
        (json!({"waiting":{"reason":"PodInitializing"}}), "Init:1/2"),
        (json!({"waiting":{"reason":"CrashLoopBackOff"}}), "Init:CrashLoopBackOff"),
        (json!({"terminated":{"exitCode":3}}), "Init:ExitCode:3"),
        (json!({"terminated":{"exitCode":3,"signal":6}}), "Init:Signal:6"),
        (json!({"terminated":{"exitCode":3,"reason":"Error"}}), "Init:Error"),
    ];
    for (given, expected) in cases {
        assert_eq!(pod(&spec, &status(&given))[1..4], ["0/1", expected, "3"]);
    }
    let done = pod(&spec, &status(&json!({"terminated":{"exitCode":0}})));
    assert_eq!(done[1..4], ["0/1", "PodInitializing", "7"]);
}

#[test]
fn sidecars_count_as_containers() {
    let spec =
        json!({ "initContainers": [{"name":"s","restartPolicy":"Always"}], "containers": [{"name":"a"}] });
    let status = json!({ "phase": "Running",
        "initContainerStatuses": [{"name":"s","restartCount":2,"started":true,"ready":true,"state":{"running":{}},
            "lastState":{"terminated":{"finishedAt":"2026-11-21T05:59:00Z"}}}],
        "containerStatuses": [{"name":"a","restartCount":1,"ready":true,"state":{"running":{}}}]});
    assert_eq!(pod(&spec, &status)[1..4], ["2/2", "Running", "3 (60s ago)"]);
}

#[test]
fn pods_that_are_deleted_say_so() {
    let metadata = json!({ "name": "p", "deletionTimestamp": "2026-11-21T05:59:00Z" });
    let spec = json!({ "containers": [{"name":"a"}] });
    for (status, expected) in [
        (json!({ "phase": "Running" }), "Terminating"),
        (json!({ "phase": "Running", "reason": "NodeLost" }), "Unknown"),
        (json!({ "phase": "Succeeded" }), "Succeeded"),
    ] {
        let cells = pod_with(&metadata, &spec, &status);
        assert_eq!((cells[2].as_str(), cells[4].as_str()), (expected, "<unknown>"));
    }
    let registry = &*BUILTIN;
    let done = json!({ "metadata": {}, "status": { "phase": "Succeeded" } }).to_string();
    let row = row(resource(registry, "pods"), done.as_bytes(), IncludeObject::None, NOW);
    assert!(
        row.contains(r#"],"conditions":[{"type":"Completed","status":"True","reason":"Succeeded","#),
        "{row}"
    );
}

#[test]
fn other_rows_are_those_of_kubernetes() {
    let meta = json!({ "name": "x", "creationTimestamp": "2026-11-19T05:00:00Z" });
    let template = json!({ "spec": { "containers": [{"name":"a","image":"i:1"},{"name":"b","image":"i:2"}],
        "nodeSelector": {"disk":"ssd"} } });
    let cases = [
        ("namespaces", json!({ "status": {"phase":"Active"} }), json!(["x", "Active", "2d1h"])),
        ("secrets", json!({ "type": "t", "data": {"a":"","b":""} }), json!(["x", "t", 2, "2d1h"])),
        ("configmaps", json!({ "data": {"a":""}, "binaryData": {"b":""} }), json!(["x", 2, "2d1h"])),
        ("serviceaccounts", json!({}), json!(["x", "2d1h"])),
        ("leases", json!({ "spec": {"holderIdentity":"me"} }), json!(["x", "me", "2d1h"])),
        ("roles", json!({}), json!(["x", "2026-11-19T05:00:00Z"])),
        ("customresourcedefinitions", json!({}), json!(["x", "2026-11-19T05:00:00Z"])),
        (
            "services",
            json!({ "spec": {"type":"NodePort","clusterIP":"10.0.0.9","selector":{"b":"2","a":"1"},
            "ports":[{"port":80,"nodePort":30080,"protocol":"TCP"},{"port":53,"protocol":"UDP"}]} }),
            json!(["x", "NodePort", "10.0.0.9", "<none>", "80:30080/TCP,53/UDP", "2d1h", "a=1,b=2"]),
        ),
        (
            "services",
            json!({ "spec": {"type":"LoadBalancer"} }),
            json!(["x", "LoadBalancer", "<none>", "<pending>", "<none>", "2d1h", "<none>"]),
        ),
        (
            "services",
            json!({ "spec": {"type":"LoadBalancer","clusterIPs":["c"],"externalIPs":["e"]},
            "status": {"loadBalancer":{"ingress":[{"hostname":"h"},{"ip":"1"}]}} }),
            json!(["x", "LoadBalancer", "c", "1,h,e", "<none>", "2d1h", "<none>"]),
        ),
        (
            "services",
            json!({ "spec": {"type":"ExternalName","externalName":"h"} }),
            json!(["x", "ExternalName", "<none>", "h", "<none>", "2d1h", "<none>"]),
        ),
        (
            "endpoints",
            json!({ "subsets": [{"addresses":[{"ip":"a"},{"ip":"::1"}],"ports":[{"port":1},{"port":2}]}] }),
            json!(["x", "a:1,[::1]:1,a:2 + 1 more...", "2d1h"]),
        ),
        ("endpoints", json!({ "subsets": [{"addresses":[{"ip":"a"}]}] }), json!(["x", "a", "2d1h"])),
        ("endpoints", json!({}), json!(["x", "<none>", "2d1h"])),
        (
            "endpointslices",
            json!({ "addressType":"IPv4", "ports":[{"port":80},{"name":"n"},{}],
            "endpoints":[{"addresses":["1","2"]},{"addresses":["3","4"]}] }),
            json!(["x", "IPv4", "80,n,", "1,2,3 + 1 more...", "2d1h"]),
        ),
        (
            "ingresses",
            json!({ "spec": {"ingressClassName":"c","rules":[{"host":"a"},{"host":"b"}],"tls":[{}]} }),
            json!(["x", "c", "a,b", "", "80, 443", "2d1h"]),
        ),
        ("ingresses", json!({}), json!(["x", "<none>", "*", "", "80", "2d1h"])),
        (
            "deployments",
            json!({ "spec": {"replicas":3,"template":template,"selector":{"matchLabels":{"app":"w"},
            "matchExpressions":[{"key":"z","operator":"In","values":["2","1"]},{"key":"b","operator":"DoesNotExist"}]}},
            "status": {"readyReplicas":2,"updatedReplicas":3,"availableReplicas":1} }),
            json!(["x", "2/3", 3, 1, "2d1h", "a,b", "i:1,i:2", "app=w,!b,z in (1,2)"]),
        ),
        (
            "replicasets",
            json!({ "spec": {"replicas":0,"template":template,"selector":{"matchLabels":{"app":"w"}}} }),
            json!(["x", 0, 0, 0, "2d1h", "a,b", "i:1,i:2", "app=w"]),
        ),
        (
            "replicationcontrollers",
            json!({ "spec": {"template":template,"selector":{"app":"w"}} }),
            json!(["x", 1, 0, 0, "2d1h", "a,b", "i:1,i:2", "app=w"]),
        ),
        (
            "statefulsets",
            json!({ "spec": {"template":template}, "status": {"readyReplicas":1} }),
            json!(["x", "1/1", "2d1h", "a,b", "i:1,i:2"]),
        ),
        (
            "daemonsets",
            json!({ "spec": {"template":template,"selector":{"matchExpressions":[{"key":"k","operator":"Exists"}]}},
            "status": {"desiredNumberScheduled":5,"currentNumberScheduled":4,"numberReady":3,"updatedNumberScheduled":2,
            "numberAvailable":1} }),
            json!(["x", 5, 4, 3, 2, 1, "disk=ssd", "2d1h", "a,b", "i:1,i:2", "k"]),
        ),
        (
            "jobs",
            json!({ "spec": {"completions":2,"template":template}, "status": {"succeeded":2,
            "startTime":"2026-11-21T05:00:00Z","completionTime":"2026-11-21T05:02:05Z",
            "conditions":[{"type":"Complete","status":"True"}]} }),
            json!(["x", "Complete", "2/2", "2m5s", "2d1h", "a,b", "i:1,i:2", "<none>"]),
        ),
        (
            "jobs",
            json!({ "spec": {"parallelism":3}, "status": {"startTime":"2026-11-21T05:59:50Z"} }),
            json!(["x", "Running", "0/1 of 3", "10s", "2d1h", "", "", "<none>"]),
        ),
        (
            "cronjobs",
            json!({ "spec": {"schedule":"* * * * *","suspend":true,"jobTemplate":{"spec":{"template":template}}},
            "status": {"active":[{}],"lastScheduleTime":"2026-11-21T05:59:00Z"} }),
            json!(["x", "* * * * *", "<none>", "True", 1, "60s", "2d1h", "a,b", "i:1,i:2", "<none>"]),
        ),
        (
            "persistentvolumes",
            json!({ "spec": {"capacity":{"storage":"5Gi"},"accessModes":["ReadWriteMany","ReadWriteOnce"],
            "persistentVolumeReclaimPolicy":"Delete","claimRef":{"namespace":"n","name":"c"},"storageClassName":"s"},
            "status": {"phase":"Bound"} }),
            json!([
                "x",
                "5Gi",
                "RWO,RWX",
                "Delete",
                "Bound",
                "n/c",
                "s",
                "<unset>",
                "",
                "2d1h",
                "Filesystem"
            ]),
        ),
        (
            "persistentvolumeclaims",
            json!({ "spec": {"volumeName":"v","storageClassName":"s"},
            "status": {"phase":"Bound","capacity":{"storage":"5Gi"},"accessModes":["ReadWriteOncePod"]} }),
            json!(["x", "Bound", "v", "5Gi", "RWOP", "s", "<unset>", "2d1h", "Filesystem"]),
        ),
        (
            "persistentvolumeclaims",
            json!({ "status": {"phase":"Pending","capacity":{"storage":"5Gi"}} }),
            json!(["x", "Pending", "", "", "", "", "<unset>", "2d1h", "Filesystem"]),
        ),
        (
            "events",
            json!({ "type":"Warning","reason":"BackOff","message":" m\n","count":4,
            "involvedObject":{"kind":"Pod","name":"p","fieldPath":"f"},"source":{"component":"kubelet","host":"n1"},
            "firstTimestamp":"2026-11-21T05:00:00Z","lastTimestamp":"2026-11-21T05:59:00Z" }),
            json!(["60s", "Warning", "BackOff", "pod/p", "f", "kubelet, n1", "m", "60m", 4, "x"]),
        ),
        (
            "events",
            json!({ "eventTime":"2026-11-21T05:59:00.000000Z","reportingComponent":"c",
            "series":{"count":9,"lastObservedTime":"2026-11-21T05:59:50.000000Z"} }),
            json!(["10s", "", "", "", "", "c", "", "60s", 9, "x"]),
        ),
        (
            "nodes",
            json!({ "spec": {"unschedulable":true}, "status": {"conditions":[{"type":"Ready","status":"True"}],
            "addresses":[{"type":"InternalIP","address":"10.1.1.1"}],"nodeInfo":{"kubeletVersion":"v1","osImage":"os"}} }),
            json!([
                "x",
                "Ready,SchedulingDisabled",
                "<none>",
                "2d1h",
                "v1",
                "10.1.1.1",
                "<none>",
                "os",
                "<unknown>",
                "<unknown>"
            ]),
        ),
        (
            "horizontalpodautoscalers",
            json!({ "spec": {"scaleTargetRef":{"kind":"Deployment","name":"d"},"maxReplicas":9,
            "metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"averageUtilization":80}}},
                {"type":"Pods","pods":{"target":{"averageValue":"2k"}}},
                {"type":"External","external":{"target":{"value":"5"}}}]},
            "status": {"currentReplicas":2,"currentMetrics":[
                {"type":"Resource","resource":{"name":"cpu","current":{"averageUtilization":10}}}]} }),
            json!(["x", "Deployment/d", "cpu: 10%/80%, <unknown>/2k + 1 more...", "1", 9, 2, "2d1h"]),
        ),
        (
            "storageclasses",
            json!({ "provisioner": "p", "allowVolumeExpansion": true }),
            json!(["x", "p", "Delete", "Immediate", true, "2d1h"]),
        ),
        ("volumeattributesclasses", json!({ "driverName": "d" }), json!(["x", "d", "2d1h"])),
        (
            "ingressclasses",
            json!({ "spec": {"controller":"c","parameters":{"apiGroup":"g","kind":"K","name":"n"}} }),
            json!(["x", "c", "K.g/n", "2d1h"]),
        ),
        ("ingressclasses", json!({ "spec": {"controller":"c"} }), json!(["x", "c", "<none>", "2d1h"])),
        (
            "networkpolicies",
            json!({ "spec": {"podSelector":{"matchLabels":{"a":"b"}}} }),
            json!(["x", "a=b", "2d1h"]),
        ),
        ("networkpolicies", json!({ "spec": {"podSelector":{}} }), json!(["x", "<none>", "2d1h"])),
        (
            "priorityclasses",
            json!({ "value": 1000, "globalDefault": true, "preemptionPolicy": "Never" }),
            json!(["x", 1000, true, "2d1h", "Never"]),
        ),
        ("runtimeclasses", json!({ "handler": "h" }), json!(["x", "h", "2d1h"])),
        (
            "poddisruptionbudgets",
            json!({ "spec": {"minAvailable":"50%"}, "status": {"disruptionsAllowed":2} }),
            json!(["x", "50%", "N/A", 2, "2d1h"]),
        ),
        (
            "rolebindings",
            json!({ "roleRef": {"kind":"Role","name":"r"}, "subjects": [{"kind":"User","name":"u"},
            {"kind":"Group","name":"g"},{"kind":"ServiceAccount","namespace":"n","name":"s"},{"kind":"User","name":"v"}] }),
            json!(["x", "Role/r", "2d1h", "u, v", "g", "n/s"]),
        ),
        (
            "clusterrolebindings",
            json!({ "roleRef": {"kind":"ClusterRole","name":"r"} }),
            json!(["x", "ClusterRole/r", "2d1h", "", "", ""]),
        ),
        (
            "certificatesigningrequests",
            json!({ "spec": {"signerName":"s","username":"u","expirationSeconds":3600},
            "status": {"conditions":[{"type":"Approved"}],"certificate":"Zm9v"} }),
            json!(["x", "2d1h", "s", "u", "60m", "Approved,Issued"]),
        ),
        (
            "certificatesigningrequests",
            json!({ "status": {"conditions":[{"type":"Failed"}]} }),
            json!(["x", "2d1h", "<none>", "", "<none>", "Pending,Failed"]),
        ),
        (
            "resourcequotas",
            json!({ "status": {"hard":{"pods":10,"limits.cpu":"4","cpu":"2"},"used":{"pods":"3","limits.cpu":"1"}} }),
            json!(["x", "cpu: 0/2, pods: 3/10", "limits.cpu: 1/4", "2d1h"]),
        ),
        ("apiservices", json!({}), json!(["x", "Local", "Unknown", "2d1h"])),
        (
            "apiservices",
            json!({ "spec": {"service":{"namespace":"n","name":"s"}},
            "status": {"conditions":[{"type":"Available","status":"False","reason":"Gone"}]} }),
            json!(["x", "n/s", "False (Gone)", "2d1h"]),
        ),
        ("mutatingwebhookconfigurations", json!({ "webhooks": [{}, {}] }), json!(["x", 2, "2d1h"])),
        ("csinodes", json!({ "spec": {"drivers":[{}]} }), json!(["x", 1, "2d1h"])),
        (
            "volumeattachments",
            json!({ "spec": {"attacher":"a","source":{"persistentVolumeName":"v"},"nodeName":"n"}, "status": {"attached":true} }),
            json!(["x", "a", "v", "n", true, "2d1h"]),
        ),
        (
            "podtemplates",
            json!({ "template": {"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}} }),
            json!(["x", "c", "i", "a=b"]),
        ),
        ("controllerrevisions", json!({ "revision": 3 }), json!(["x", "<none>", 3, "2d1h"])),
    ];
    for (plural, mut object, expected) in cases {
        object["metadata"] = meta.clone();
        assert_eq!(cells(plural, &object, NOW), expected, "{plural}");
    }
}

/// The result of `work`, if it takes no longer than a limit that is generous for linear cost, and short for quadratic
/// cost.
fn soon<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (made, wait) = std::sync::mpsc::channel();
    // Not joined: work that takes minutes would block the test for as long.
    std::thread::spawn(move || made.send(work()));
    wait.recv_timeout(std::time::Duration::from_secs(30))
        .expect("in time for work that is linear in the object")
}

const MANY: usize = 50_000;

#[test]
fn each_address_with_each_port_is_counted_and_not_made() {
    let subset = |addresses: usize, ports: usize| {
        let ips: Vec<Value> = (0..addresses).map(|n| json!({"ip": format!("10.0.0.{n}")})).collect();
        json!({"addresses": ips, "ports": (1..=ports).map(|n| json!({"port": n})).collect::<Vec<_>>()})
    };
    let shown = move |subsets: Value| {
        soon(move || {
            cells("endpoints", &json!({"metadata": {}, "subsets": subsets}), "2026-11-21T05:38:13Z")[1]
                .clone()
        })
    };
    assert_eq!(
        shown(json!([subset(MANY, MANY)])),
        format!("10.0.0.0:1,10.0.0.1:1,10.0.0.2:1 + {} more...", MANY * MANY - 3)
    );
    assert_eq!(
        shown(json!([subset(1, 1), subset(2, 2), subset(MANY, 0), subset(0, MANY)])),
        format!("10.0.0.0:1,10.0.0.0:1,10.0.0.1:1 + {} more...", MANY + 2)
    );
    assert_eq!(shown(json!([subset(3, 1)])), "10.0.0.0:1,10.0.0.1:1,10.0.0.2:1");
    assert_eq!(shown(json!([subset(0, MANY), subset(2, 0)])), "10.0.0.0,10.0.0.1");
    assert_eq!(shown(json!([subset(0, 3)])), "");
}

#[test]
fn pods_of_many_parts_are_not_compared_all_with_all() {
    let names = |prefix: &'static str| (0..MANY).map(move |n| format!("{prefix}{n}"));
    let init: Vec<Value> = names("c").map(|name| json!({"name": name, "restartPolicy": "Always"})).collect();
    let statuses: Vec<Value> = names("c")
        .map(|name| json!({"name": name, "started": true, "ready": true, "restartCount": 1}))
        .collect();
    let row = soon(move || {
        pod(&json!({"initContainers": init}), &json!({"initContainerStatuses": statuses, "phase": "Running"}))
    });
    assert_eq!(row[1..4], [format!("{MANY}/{MANY}"), "Running".to_owned(), MANY.to_string()]);

    let gates: Vec<Value> = names("g").map(|name| json!({"conditionType": name})).collect();
    // The first of a type counts.
    let more = [json!({"type": "g0", "status": "False"}), json!({"type": "g1", "status": "False"})];
    let conditions: Vec<Value> = [json!({"type": "g1"})]
        .into_iter()
        .chain(names("g").map(|name| json!({"type": name, "status": "True"})))
        .chain(more)
        .collect();
    let row = soon(move || pod(&json!({"readinessGates": gates}), &json!({"conditions": conditions})));
    assert_eq!(row[8], format!("{}/{MANY}", MANY - 1));
}

#[test]
fn cells_are_spelled_as_go_spells_them() {
    let registry = &*BUILTIN;
    let object = json!({"metadata": {"name": "a"}, "type": "<&>\u{2028}\u{2014}"});
    let row = row(
        resource(registry, "secrets"),
        object.to_string().as_bytes(),
        IncludeObject::None,
        "2026-11-21T05:38:13Z",
    );
    assert!(row.starts_with("{\"cells\":[\"a\",\"\\u003c\\u0026\\u003e\\u2028\u{2014}\",0,"), "{row}");
}

#[test]
fn the_roles_of_a_node_are_in_its_labels() {
    let node = json!({ "metadata": { "labels": { "node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge",
        "node-role.kubernetes.io/": "x", "other": "y" } } });
    assert_eq!(cells("nodes", &node, NOW)[2], "edge,worker");
    assert_eq!(cells("nodes", &node, NOW)[1], "Unknown");
}

#[test]
fn declared_resources_show_their_age() {
    let mut registry = Registry::new();
    let id = registry.declare("example.com/v1/widgets/Widget/namespaced").expect("a good value");
    let widgets = registry.iter().find(|resource| resource.row == id).expect("declared just now");
    let object = br#"{"metadata":{"name":"w","creationTimestamp":"2026-11-21T05:59:00Z"}}"#;
    let row = row(widgets, object, IncludeObject::None, NOW);
    assert_eq!(row, r#"{"cells":["w","60s"],"object":null}"#);
    assert!(columns(widgets).contains(r#"{"name":"Age","type":"date","format":"","description":"Creat"#));
}

#[test]
fn the_class_for_who_names_none_is_marked() {
    for annotation in
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"]
    {
        let class = json!({ "metadata": { "name": "fast", "annotations": { (annotation): "true" } } });
        assert_eq!(cells("storageclasses", &class, NOW)[0], "fast (default)");
        let class = json!({ "metadata": { "name": "fast", "annotations": { (annotation): "false" } } });
        assert_eq!(cells("storageclasses", &class, NOW)[0], "fast");
    }
    let annotation = "volumeattributesclass.alpha.kubernetes.io/is-default-class";
    let class = json!({ "metadata": { "name": "gold", "annotations": { (annotation): "true" } } });
    assert_eq!(cells("volumeattributesclasses", &class, NOW)[0], "gold (default)");
    let revision = json!({ "metadata": { "name": "r", "ownerReferences": [
        { "apiVersion": "v1", "kind": "Pod", "name": "no" },
        { "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": true } ] } });
    assert_eq!(cells("controllerrevisions", &revision, NOW)[1], "daemonset.apps/d");
}
