//! Rows of workloads.

use serde_json::Value;

use super::age;
use super::cells::{
    Cells, NONE, at, flag, join, labels, list, number, number_or, or, pluck, present, quantity, selector,
    some_of, text, text_or,
};

/// The names and images of a template's containers.
fn containers(object: &Value, pointer: &str, cells: &mut Cells<'_>) {
    let containers = list(object, pointer);
    cells.text(&join(pluck(containers, "/name")));
    cells.text(&join(pluck(containers, "/image")));
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
    cells.text(&selector(object, "/spec/selector"));
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
    cells.text(&if plain { labels(object, "/spec/selector") } else { selector(object, "/spec/selector") });
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
    let has = |kind: &str| {
        let conditions = list(object, "/status/conditions").iter();
        conditions.into_iter().any(|c| text(c, "/type") == kind && text(c, "/status") == "True")
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
    cells.text(text_or(object, "/spec/timeZone", NONE));
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
    cells.text(or(&some_of(shown, metrics.len(), 2, ", "), NONE));
    cells.text(&number_or(object, "/spec/minReplicas", 1).to_string());
    cells.number(number(object, "/spec/maxReplicas"));
    cells.number(number(object, "/status/currentReplicas"));
    cells.age(object, now);
}

/// `cpu: 10%/80%`, `1500m/2k (avg)`: the current and the target value of a metric.
fn metric_target(metric: &Value, status: Option<&Value>) -> String {
    let (member, kind) = match text(metric, "/type") {
        "External" => ("external", "External"),
        "Pods" => ("pods", "Pods"),
        "Object" => ("object", "Object"),
        "Resource" => ("resource", "Resource"),
        "ContainerResource" => ("containerResource", "ContainerResource"),
        _ => return "<unknown type>".to_owned(),
    };
    let current = |value: &str| {
        let status = status.filter(|status| text(status, "/type") == kind)?;
        quantity(status, &format!("/{member}/current/{value}"))
    };
    let wanted = |value: &str| quantity(metric, &format!("/{member}/target/{value}"));
    let unknown = || age::UNKNOWN.to_owned();
    match (kind, wanted("averageValue")) {
        ("Resource" | "ContainerResource", average) => {
            let name = text(metric, &format!("/{member}/name")).to_owned();
            if let Some(average) = average {
                return format!("{name}: {}/{average}", current("averageValue").unwrap_or_else(unknown));
            }
            let now = current("averageUtilization").map_or_else(unknown, |percent| format!("{percent}%"));
            let then = wanted("averageUtilization")
                .map_or_else(|| "<auto>".to_owned(), |percent| format!("{percent}%"));
            format!("{name}: {now}/{then}")
        }
        ("Pods", average) => {
            format!("{}/{}", current("averageValue").unwrap_or_else(unknown), average.unwrap_or_else(unknown))
        }
        (_, Some(average)) => format!("{}/{average} (avg)", current("averageValue").unwrap_or_else(unknown)),
        (_, None) => {
            format!(
                "{}/{}",
                current("value").unwrap_or_else(unknown),
                wanted("value").unwrap_or_else(unknown)
            )
        }
    }
}
