//! autoscaling/v1 of v2 HorizontalPodAutoscaler: one target of CPU is a member, everything else that v1 does not have is in
//! annotations (`pkg/apis/autoscaling/v1/conversion.go` of Kubernetes, and the types of `autoscaling/v1`).

use revcast_engine::escape;
use serde_json::{Map, Value, json};

type Members = Map<String, Value>;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

pub(super) fn v1_of_v2(mut members: Members) -> Result<Members, String> {
    let mut told = Members::new();
    if let Some(Value::Object(spec)) = members.get_mut("spec") {
        let metrics = list(spec.shift_remove("metrics"));
        let cpu =
            metrics.iter().find(|metric| is_cpu(metric)).and_then(|metric| utilization(metric, "target"));
        spec.extend(cpu.map(|cpu| ("targetCPUUtilizationPercentage".to_owned(), cpu.clone())));
        let others =
            metrics.iter().filter(|metric| !is_cpu(metric) || utilization(metric, "target").is_none());
        note(&mut told, METRICS, others.map(|metric| metric_of(metric, &TARGETS)).collect());
        if let Some(behavior @ Value::Object(_)) = spec.shift_remove("behavior") {
            told.insert(BEHAVIOR.to_owned(), annotation(&behavior_of(&behavior)));
        }
    }
    if let Some(Value::Object(status)) = members.get_mut("status") {
        let metrics = list(status.shift_remove("currentMetrics"));
        let mut cpu = metrics
            .iter()
            .filter(|metric| is_cpu(metric))
            .filter_map(|metric| utilization(metric, "current"));
        status.extend(cpu.next_back().map(|cpu| ("currentCPUUtilizationPercentage".to_owned(), cpu.clone())));
        note(&mut told, CURRENT_METRICS, metrics.iter().map(|metric| metric_of(metric, &CURRENT)).collect());
        let conditions = list(status.shift_remove("conditions"));
        let five = ["type", "status", "lastTransitionTime", "reason", "message"];
        note(&mut told, CONDITIONS, conditions.iter().map(|condition| some_of(condition, &five)).collect());
    }
    if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
        let mut annotations = match metadata.shift_remove("annotations") {
            Some(Value::Object(annotations)) => annotations,
            _ => Members::new(),
        };
        // Those that are there are of an earlier conversion.
        annotations
            .retain(|name, _| ![METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR].contains(&name.as_str()));
        annotations.extend(told);
        if !annotations.is_empty() {
            metadata.insert("annotations".to_owned(), Value::Object(annotations));
        }
    }
    Ok(members)
}

fn list(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn is_cpu(metric: &Value) -> bool {
    metric["type"] == "Resource" && metric["resource"]["name"] == "cpu"
}

/// The utilization of a metric of a resource.
fn utilization<'m>(metric: &'m Value, which: &str) -> Option<&'m Value> {
    metric["resource"][which].get("averageUtilization")
}

/// Keeps a list as an annotation, if it has items.
fn note(told: &mut Members, name: &str, items: Vec<Value>) {
    if !items.is_empty() {
        told.insert(name.to_owned(), annotation(&Value::Array(items)));
    }
}

/// JSON as text, with Go's escapes.
fn annotation(value: &Value) -> Value {
    String::from_utf8_lossy(&escape::escaped(value.to_string().as_bytes())).into_owned().into()
}

/// These members of an object, in this order.
fn some_of(object: &Value, names: &[&str]) -> Value {
    let found = names.iter().filter_map(|name| Some(((*name).to_owned(), object.get(name)?.clone())));
    Value::Object(found.collect())
}

/// How v1 calls the values of a metric.
struct Names {
    /// Where v2 has them: `target`, `current`.
    of: &'static str,
    value: &'static str,
    average_value: &'static str,
    average_utilization: &'static str,
    /// Whether an external metric has no value where there is none, rather than zero.
    may_lack_value: bool,
    /// Whether the same is so for the average of a resource.
    may_lack_average: bool,
}

const TARGETS: Names = Names {
    of: "target",
    value: "targetValue",
    average_value: "targetAverageValue",
    average_utilization: "targetAverageUtilization",
    may_lack_value: true,
    may_lack_average: true,
};

const CURRENT: Names = Names {
    of: "current",
    value: "currentValue",
    average_value: "currentAverageValue",
    average_utilization: "currentAverageUtilization",
    may_lack_value: false,
    may_lack_average: false,
};

/// A metric, or the state of one, as v1 has it.
fn metric_of(metric: &Value, names: &Names) -> Value {
    let mut out = Members::new();
    out.insert("type".to_owned(), metric["type"].clone());
    for source in ["object", "pods", "resource", "containerResource", "external"] {
        if let Some(found) = metric.get(source).filter(|found| found.is_object()) {
            out.insert(source.to_owned(), Value::Object(source_of(source, found, names)));
        }
    }
    Value::Object(out)
}

fn source_of(source: &str, found: &Value, names: &Names) -> Members {
    let mut out = Members::new();
    let mut put = |name: &str, value: Option<&Value>| {
        if let Some(value) = value {
            out.insert(name.to_owned(), value.clone());
        }
    };
    let zero = json!("0");
    let values = &found[names.of];
    let (value, average) = (values.get("value"), values.get("averageValue"));
    let (metric, selector) = (found["metric"].get("name"), found["metric"].get("selector"));
    match source {
        "object" => {
            put("target", found.get("describedObject"));
            put("metricName", metric);
            put(names.value, value.or(Some(&zero)));
            put("selector", selector);
            put("averageValue", average);
        }
        "pods" => {
            put("metricName", metric);
            put(names.average_value, average.or(Some(&zero)));
            put("selector", selector);
        }
        "external" => {
            put("metricName", metric);
            put("metricSelector", selector);
            put(names.value, value.or_else(|| (!names.may_lack_value).then_some(&zero)));
            put(names.average_value, average);
        }
        _ => {
            put("name", found.get("name"));
            put(names.average_utilization, values.get("averageUtilization"));
            put(names.average_value, average.or_else(|| (!names.may_lack_average).then_some(&zero)));
            put("container", found.get("container"));
        }
    }
    out
}

/// The behavior, as Go writes a type without names for JSON.
fn behavior_of(behavior: &Value) -> Value {
    let rules = |name: &str| match behavior.get(name) {
        Some(rules @ Value::Object(_)) => {
            let policies = rules.get("policies").and_then(Value::as_array).map(|policies| {
                let policy = |policy: &Value| {
                    json!({"Type": policy["type"], "Value": policy["value"], "PeriodSeconds": policy["periodSeconds"]})
                };
                policies.iter().map(policy).collect::<Vec<_>>()
            });
            json!({
                "StabilizationWindowSeconds": rules["stabilizationWindowSeconds"],
                "SelectPolicy": rules["selectPolicy"],
                "Policies": policies,
                "Tolerance": rules["tolerance"],
            })
        }
        _ => Value::Null,
    };
    json!({"ScaleUp": rules("scaleUp"), "ScaleDown": rules("scaleDown")})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What no recording has: values that are zero where v1 must have one, a target of CPU that is no utilization, and
    /// annotations of an earlier conversion.
    #[test]
    fn what_v1_lacks_is_in_annotations() {
        let v2 = json!({
            "metadata": {"annotations": {METRICS: "old", "own": "x"}},
            "spec": {
                "metrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "2"}}},
                    {"type": "Object", "object": {
                        "describedObject": {"kind": "K", "name": "n"}, "target": {"type": "AverageValue", "averageValue": "<1"},
                        "metric": {"name": "m"},
                    }},
                ],
                "behavior": {"scaleDown": {"tolerance": "50m"}},
            },
            "status": {"currentMetrics": [
                {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 7}}},
                {"type": "External", "external": {"metric": {"name": "q"}, "current": {}}},
            ]},
        });
        let Value::Object(members) = v2 else { panic!("an object") };
        let v1 = v1_of_v2(members).expect("it has a form");
        assert_eq!(v1["spec"], json!({}));
        assert_eq!(v1["status"], json!({"currentCPUUtilizationPercentage": 7}));
        let told = &v1["metadata"]["annotations"];
        assert_eq!(told["own"], "x");
        assert_eq!(
            told[METRICS],
            concat!(
                r#"[{"type":"Resource","resource":{"name":"cpu","targetAverageValue":"2"}},"#,
                r#"{"type":"Object","object":{"target":{"kind":"K","name":"n"},"metricName":"m","#,
                r#""targetValue":"0","averageValue":"\u003c1"}}]"#
            )
        );
        assert_eq!(
            told[CURRENT_METRICS],
            concat!(
                r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":7,"currentAverageValue":"0"}},"#,
                r#"{"type":"External","external":{"metricName":"q","currentValue":"0"}}]"#
            )
        );
        assert_eq!(
            told[BEHAVIOR],
            concat!(
                r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":null,"#,
                r#""Policies":null,"Tolerance":"50m"}}"#
            )
        );
    }
}
