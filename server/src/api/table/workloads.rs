//! Rows of workloads.

use serde_json::Value;

use super::age;
use super::cells::{
    Cells, NONE, at, flag, join, labels, list, number, number_or, or, present, quantity, requirements,
    selector, size, some_of, text, text_if_set,
};

/// The names and images of a template's containers.
pub(super) fn containers(object: &Value, pointer: &str, cells: &mut Cells<'_>) {
    let containers = list(object, pointer);
    cells.text(&join(containers.iter().map(|container| text(container, "/name"))));
    cells.text(&join(containers.iter().map(|container| text(container, "/image"))));
}

const TEMPLATE: &str = "/spec/template/spec/containers";

fn ready_of_wanted(object: &Value) -> String {
    format!("{}/{}", number(object, "/status/readyReplicas"), number_or(object, "/spec/replicas", 1))
}

pub(super) fn deployment(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    cells.text(&ready_of_wanted(object));
    cells.number(number(object, "/status/updatedReplicas"));
    cells.number(number(object, "/status/availableReplicas"));
    cells.age(object, now);
    containers(object, TEMPLATE, cells);
    // Unlike other workloads: an empty selector is an empty cell.
    cells.text(requirements(object, "/spec/selector").as_deref().unwrap_or("<invalid>"));
}

/// Replica sets, and replication controllers, whose selector is a plain map of labels.
pub(super) fn replica_set(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    cells.number(number_or(object, "/spec/replicas", 1));
    cells.number(number(object, "/status/replicas"));
    cells.number(number(object, "/status/readyReplicas"));
    cells.age(object, now);
    containers(object, TEMPLATE, cells);
    let is_label_selector =
        at(object, "/spec/selector/matchLabels").or_else(|| at(object, "/spec/selector/matchExpressions"));
    let plain = is_label_selector.is_none_or(Value::is_string);
    cells.text(&match plain {
        false => selector(object, "/spec/selector"),
        true if size(object, "/spec/selector") > 0 => labels(object, "/spec/selector"),
        // A replication controller without a selector has that of its template.
        true if text(object, "/kind") == "ReplicationController" => {
            labels(object, "/spec/template/metadata/labels")
        }
        true => NONE.to_owned(),
    });
}

pub(super) fn stateful_set(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    cells.text(&ready_of_wanted(object));
    cells.age(object, now);
    containers(object, TEMPLATE, cells);
}

pub(super) fn daemon_set(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    for count in [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ] {
        cells.number(number(object, &format!("/status/{count}")));
    }
    cells.text(&labels(object, "/spec/template/spec/nodeSelector"));
    cells.age(object, now);
    containers(object, TEMPLATE, cells);
    cells.text(&selector(object, "/spec/selector"));
}

pub(super) fn job(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let succeeded = number(object, "/status/succeeded");
    let parallelism = number(object, "/spec/parallelism");
    let completions = match at(object, "/spec/completions").and_then(Value::as_i64) {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    };
    let duration = age::parse(text(object, "/status/startTime")).map(|start| {
        let end = age::parse(text(object, "/status/completionTime")).unwrap_or(now);
        age::human(end.saturating_sub(start))
    });
    cells.name(object);
    cells.text(job_status(object));
    cells.text(&completions);
    cells.text(&duration.unwrap_or_default());
    cells.age(object, now);
    containers(object, TEMPLATE, cells);
    cells.text(&selector(object, "/spec/selector"));
}

fn job_status(object: &Value) -> &'static str {
    // The first of a type decides.
    let has = |kind: &str| {
        let first = list(object, "/status/conditions").iter().find(|c| text(c, "/type") == kind);
        first.is_some_and(|condition| text(condition, "/status") == "True")
    };
    for ended in ["Complete", "Failed"] {
        if has(ended) {
            return ended;
        }
    }
    if present(object, "/metadata/deletionTimestamp") {
        return "Terminating";
    }
    ["Suspended", "FailureTarget", "SuccessCriteriaMet"]
        .into_iter()
        .find(|kind| has(kind))
        .unwrap_or("Running")
}

pub(super) fn cron_job(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let last = match text(object, "/status/lastScheduleTime") {
        "" => NONE.to_owned(),
        time => age::since(time, now),
    };
    cells.name(object);
    cells.text(text(object, "/spec/schedule"));
    cells.text(text_if_set(object, "/spec/timeZone", NONE));
    cells.text(if flag(object, "/spec/suspend") { "True" } else { "False" });
    cells.count(list(object, "/status/active").len());
    cells.text(&last);
    cells.age(object, now);
    containers(object, "/spec/jobTemplate/spec/template/spec/containers", cells);
    cells.text(&selector(object, "/spec/jobTemplate/spec/selector"));
}

pub(super) fn autoscaler(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let target = |member| text(object, member);
    cells.name(object);
    cells.text(&format!("{}/{}", target("/spec/scaleTargetRef/kind"), target("/spec/scaleTargetRef/name")));
    let statuses = list(object, "/status/currentMetrics");
    let metrics = list(object, "/spec/metrics");
    let shown = metrics.iter().enumerate().map(|(index, metric)| metric_target(metric, statuses.get(index)));
    // Without metrics, 80 % of the requested CPU is the target.
    cells.text(or(&some_of(shown, metrics.len(), 2, ", "), "cpu: <unknown>/80%"));
    cells.text(&number_or(object, "/spec/minReplicas", 1).to_string());
    cells.number(number(object, "/spec/maxReplicas"));
    cells.number(number(object, "/status/currentReplicas"));
    cells.age(object, now);
}

/// `cpu: 10%/80%`, `1500m/2k (avg)`: the current and the target value of a metric.
fn metric_target(metric: &Value, status: Option<&Value>) -> String {
    let member = match text(metric, "/type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let status = status.and_then(|status| status.get(member)).filter(|status| status.is_object());
    let current = |value: &str| status.and_then(|status| quantity(status, &format!("/current/{value}")));
    // Go writes a quantity that is missing in this way.
    let nil = || "<nil>".to_owned();
    let unknown = || age::UNKNOWN.to_owned();
    let known = |value: &str| status.map_or_else(unknown, |_| current(value).unwrap_or_else(nil));
    let wanted = |value: &str| quantity(metric, &format!("/{member}/target/{value}"));
    let percent = |value: Option<String>, other: &str| {
        value.map_or_else(|| other.to_owned(), |percent| format!("{percent}%"))
    };
    match (member, wanted("averageValue")) {
        ("resource" | "containerResource", average) => {
            let name = text(metric, &format!("/{member}/name")).to_owned();
            if let Some(average) = average {
                return format!("{name}: {}/{average}", known("averageValue"));
            }
            let now = percent(current("averageUtilization"), age::UNKNOWN);
            format!("{name}: {now}/{}", percent(wanted("averageUtilization"), "<auto>"))
        }
        ("pods", average) => format!("{}/{}", known("averageValue"), average.unwrap_or_else(nil)),
        (_, Some(average)) => format!("{}/{average} (avg)", current("averageValue").unwrap_or_else(unknown)),
        (_, None) => format!("{}/{}", known("value"), wanted("value").unwrap_or_else(nil)),
    }
}
