//! Rows that no recording has: values that kube-apiserver's printers treat in a way of their own.

use std::sync::Arc;

use serde_json::{Value, json};

use super::tests::printed;
use super::*;
use crate::api::printer_columns::PrinterColumns;
use crate::api::resources::Registry;

/// The cell at `index`.
fn cell(printer: Printer, object: &Value, index: usize) -> Value {
    printed(printer, object)[index].clone()
}

#[test]
fn selectors_that_are_empty_or_invalid() {
    let none = json!({ "spec": {"selector":{}} });
    let missing = json!({ "spec": {} });
    let select = |operator: &str, values: Value| {
        json!({ "spec": { "selector": {
        "matchLabels": {"a":"b"},
        "matchExpressions": [{"key":"k","operator":operator,"values":values}] } } })
    };
    for (object, deployment, others) in [
        (none, "", "<none>"),
        (missing, "", "<none>"),
        (select("Like", json!(["v"])), "<invalid>", "<error>"),
        (select("In", json!([])), "<invalid>", "<error>"),
        (select("Exists", json!(["v"])), "<invalid>", "<error>"),
        (select("NotIn", json!(["v", "u"])), "a=b,k notin (u,v)", "a=b,k notin (u,v)"),
    ] {
        assert_eq!(cell(Printer::Deployments, &object, 7), deployment, "{object}");
        assert_eq!(cell(Printer::ReplicaSets, &object, 7), others, "{object}");
    }
    let controller = json!({ "kind": "ReplicationController",
        "spec": { "template": {"metadata":{"labels":{"app":"x"}}} } });
    assert_eq!(cell(Printer::ReplicaSets, &controller, 7), "app=x");
}

#[test]
fn the_first_condition_of_a_job_and_the_last_of_a_node_decide() {
    let conditions = |kind: &str, all: &[&str]| {
        let all: Vec<Value> = all.iter().map(|status| json!({ "type": kind, "status": status })).collect();
        json!({ "status": { "conditions": all } })
    };
    assert_eq!(cell(Printer::Jobs, &conditions("Complete", &["True", "False"]), 1), "Complete");
    assert_eq!(cell(Printer::Jobs, &conditions("Complete", &["False", "True"]), 1), "Running");
    assert_eq!(cell(Printer::Jobs, &conditions("Suspended", &["True"]), 1), "Suspended");
    assert_eq!(cell(Printer::Nodes, &conditions("Ready", &["True", "False"]), 1), "NotReady");
    assert_eq!(cell(Printer::Nodes, &conditions("Ready", &["Unknown", "True"]), 1), "Ready");
}

#[test]
fn what_is_set_to_nothing_is_not_missing() {
    for (printer, object, index, shown) in [
        (Printer::CronJobs, json!({ "spec": {"timeZone":""} }), 2, ""),
        (Printer::CronJobs, json!({ "spec": {"timeZone":null} }), 2, "<none>"),
        (Printer::Ingresses, json!({ "spec": {"ingressClassName":""} }), 1, ""),
        (Printer::PersistentVolumeClaims, json!({ "spec": {"volumeAttributesClassName":""} }), 6, ""),
        (
            Printer::IngressClasses,
            json!({ "spec": {"parameters":{"apiGroup":"","kind":"K","name":"n"}} }),
            2,
            "K./n",
        ),
        (Printer::IngressClasses, json!({ "spec": {"parameters":{"kind":"K","name":"n"}} }), 2, "K/n"),
        (Printer::EndpointSlices, json!({ "ports": [{"port":0},{"name":""},{"name":"n"}] }), 2, "0,,n"),
        (Printer::EndpointSlices, json!({ "ports": [{}] }), 2, "<unset>"),
        (Printer::CsiDrivers, json!({ "spec": {"tokenRequests":[]} }), 4, ""),
        (
            Printer::Deployments,
            json!({ "spec": {"template":{"spec":{"containers":[{"name":"a"},{"image":"i"}]}}} }),
            6,
            ",i",
        ),
    ] {
        assert_eq!(cell(printer, &object, index), shown, "{printer:?} {object}");
    }
    assert_eq!(cell(Printer::Events, &json!({ "count": 0 }), 8), 1);
    assert_eq!(cell(Printer::Events, &json!({ "count": -2 }), 8), -2);
    assert_eq!(cell(Printer::Events, &json!({ "count": 5, "series": {} }), 8), 0);
}

#[test]
fn what_is_missing_is_what_kubernetes_fills_in() {
    for (printer, index, shown) in [
        (Printer::Namespaces, 1, json!("Active")),
        (Printer::PersistentVolumes, 4, json!("Pending")),
        (Printer::PersistentVolumeClaims, 1, json!("Pending")),
        (Printer::HorizontalPodAutoscalers, 2, json!("cpu: <unknown>/80%")),
        (Printer::CsiDrivers, 1, json!(true)),
        (Printer::CsiDrivers, 6, json!("Persistent")),
        (Printer::IpAddresses, 1, json!("<none>")),
        (Printer::DeviceTaintRules, 4, json!("<unknown>")),
    ] {
        assert_eq!(cell(printer, &json!({}), index), shown, "{printer:?}");
    }
    let no_time = json!({ "metadata": {"name":"x"} });
    let mut out = Vec::new();
    Printer::Default.print(&no_time, &mut Cells::new(&mut out), 0);
    assert_eq!(out, br#""x","0001-01-01T00:00:00Z""#);
}

#[test]
fn rules_without_hosts_count_after_the_third_host() {
    let hosts = |hosts: &[&str]| {
        let rules: Vec<Value> = hosts.iter().map(|host| json!({ "host": host })).collect();
        cell(Printer::Ingresses, &json!({ "spec": { "rules": rules } }), 2)
    };
    assert_eq!(hosts(&["a", "", "b", "c"]), "a,b,c");
    assert_eq!(hosts(&["a", "b", "c", ""]), "a,b,c + 1 more...");
    assert_eq!(hosts(&["a", "", "b", "c", "d"]), "a,b,c + 2 more...");
    assert_eq!(hosts(&["", ""]), "*");
}

#[test]
fn quantities_are_in_the_form_of_kubernetes() {
    let volume =
        |size: Value| cell(Printer::PersistentVolumes, &json!({ "spec": {"capacity":{"storage":size}} }), 1);
    assert_eq!(volume(json!("1.5Gi")), "1536Mi");
    assert_eq!(volume(json!(1024)), "1024");
    assert_eq!(volume(json!("much")), "much");
    assert_eq!(volume(json!([])), "0");
    let autoscaler = |metric: Value, status: Value| {
        let object = json!({ "spec": {"metrics":[metric]}, "status": {"currentMetrics":[status]} });
        cell(Printer::HorizontalPodAutoscalers, &object, 2)
    };
    let external = |target: Value| json!({ "type": "External", "external": { "target": target } });
    assert_eq!(autoscaler(external(json!({"value":"0.5"})), json!({})), "<unknown>/500m");
    assert_eq!(
        autoscaler(external(json!({"value":"2"})), json!({"external":{"current":{"value":"1"}}})),
        "1/2"
    );
    assert_eq!(autoscaler(external(json!({"value":"2"})), json!({"external":{}})), "<nil>/2");
    assert_eq!(
        autoscaler(external(json!({"averageValue":"2"})), json!({"external":{}})),
        "<unknown>/2 (avg)"
    );
    assert_eq!(autoscaler(external(json!({})), json!(null)), "<unknown>/<nil>");
    assert_eq!(autoscaler(json!({ "type": "Other" }), json!({})), "<unknown type>");
}

#[test]
fn a_resource_with_columns_of_its_own_shows_these() {
    let mut registry = Registry::new();
    registry.declare("example.com/v1/widgets/Widget/namespaced").expect("a good value");
    let widgets = registry.find("example.com", "v1", "widgets");
    let mut widgets = widgets.expect("declared just now").clone();
    let spec = json!({ "versions": [{ "name": "v1", "additionalPrinterColumns": [
        { "name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status" },
        { "name": "Size", "type": "integer", "format": "int32", "priority": 1, "jsonPath": ".spec.size" },
        { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" }] }] });
    widgets.columns = Some(Arc::new(PrinterColumns::of_version(&spec, "v1").0));
    let object = json!({ "metadata": {"name":"w","creationTimestamp":"1970-01-01T00:00:00Z"}, "spec": {"size":3},
        "status": {"conditions":[{"type":"Synced","status":"False"},{"type":"Ready","status":"True"}]} });
    let mut out = Vec::new();
    let bytes = object.to_string().into_bytes();
    append_row(&mut out, &widgets, &bytes, IncludeObject::None, MetaVersion::V1, 90).expect("an object");
    assert_eq!(String::from_utf8_lossy(&out), r#"{"cells":["w","True",3,"90s"],"object":null}"#);
    out.clear();
    append_column_definitions(&mut out, &widgets);
    let columns: Value = serde_json::from_slice(&out).expect("JSON");
    let size = json!({ "name": "Size", "type": "integer", "format": "int32", "priority": 1,
        "description": "Custom resource definition column (in JSONPath format): .spec.size" });
    assert_eq!((columns.as_array().map(Vec::len), &columns[2]), (Some(4), &size));
}
