//! Rows of pods: the one kind whose status is computed and not read.
//!
//! Follows `printPod` of kube-apiserver, as known from `kubectl get pods`.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::age;
use super::cells::{Cells, NONE, flag, list, number, or, present, text, text_or};

/// The summary of a pod's containers.
struct Summary {
    ready: usize,
    total: usize,
    restarts: i64,
    /// When the last restart was, in Unix seconds.
    restarted: Option<i64>,
    reason: String,
}

/// The row of one pod.
pub(super) fn pod(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let summary = summarize(object);
    cells.name(object);
    cells.text(&format!("{}/{}", summary.ready, summary.total));
    cells.text(&summary.reason);
    cells.text(&match summary.restarted {
        Some(at) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, age::human(now.saturating_sub(at)))
        }
        _ => summary.restarts.to_string(),
    });
    cells.age(object, now);
    cells.text(or(text(object, "/status/podIPs/0/ip"), text_or(object, "/status/podIP", NONE)));
    cells.text(text_or(object, "/spec/nodeName", NONE));
    cells.text(text_or(object, "/status/nominatedNodeName", NONE));
    cells.text(&readiness_gates(object));
}

/// The row's `conditions`, with the comma before them, for pods that have ended.
pub(super) fn conditions(object: &Value) -> &'static str {
    match text(object, "/status/phase") {
        "Succeeded" => concat!(
            r#","conditions":[{"type":"Completed","status":"True","reason":"Succeeded","#,
            r#""message":"The pod has completed successfully."}]"#
        ),
        "Failed" => concat!(
            r#","conditions":[{"type":"Completed","status":"True","reason":"Failed","#,
            r#""message":"The pod failed."}]"#
        ),
        _ => "",
    }
}

fn summarize(pod: &Value) -> Summary {
    let phase = text(pod, "/status/phase");
    let restartable: HashSet<&str> = list(pod, "/spec/initContainers")
        .iter()
        .filter(|container| is_restartable(container))
        .map(|container| text(container, "/name"))
        .collect();
    let mut reason = text_or(pod, "/status/reason", phase).to_owned();
    let gated = |c: &Value| text(c, "/type") == "PodScheduled" && text(c, "/reason") == "SchedulingGated";
    if list(pod, "/status/conditions").iter().any(gated) {
        "SchedulingGated".clone_into(&mut reason);
    }
    let sidecars =
        list(pod, "/spec/initContainers").iter().filter(|container| is_restartable(container)).count();
    let total = list(pod, "/spec/containers").len() + sidecars;
    let mut summary = Summary { ready: 0, total, restarts: 0, restarted: None, reason };
    let sidecars = sidecar_restarts(pod, &restartable);
    let initializing = initialize(pod, &restartable, &mut summary);
    if !initializing || has_true_condition(pod, "Initialized") {
        (summary.restarts, summary.restarted) = sidecars;
        run(pod, &mut summary);
    }
    if present(pod, "/metadata/deletionTimestamp") {
        if text(pod, "/status/reason") == "NodeLost" {
            "Unknown".clone_into(&mut summary.reason);
        } else if !matches!(phase, "Failed" | "Succeeded") {
            "Terminating".clone_into(&mut summary.reason);
        }
    }
    summary
}

/// Whether an init container keeps running beside the other containers.
fn is_restartable(container: &Value) -> bool {
    text(container, "/restartPolicy") == "Always"
}

/// Walks the init containers up to the first that is not done. Returns whether there is one.
fn initialize(pod: &Value, restartable: &HashSet<&str>, summary: &mut Summary) -> bool {
    let statuses = list(pod, "/status/initContainerStatuses");
    for (index, status) in statuses.iter().enumerate() {
        count_restarts(status, &mut summary.restarts, &mut summary.restarted);
        let terminated = present(status, "/state/terminated");
        if terminated && number(status, "/state/terminated/exitCode") == 0 {
            continue;
        }
        if restartable.contains(text(status, "/name")) && flag(status, "/started") {
            summary.ready += usize::from(flag(status, "/ready"));
            continue;
        }
        let waiting = text(status, "/state/waiting/reason");
        summary.reason = if terminated {
            format!("Init:{}", ended(status))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{}", list(pod, "/spec/initContainers").len())
        };
        return true;
    }
    false
}

/// Walks the containers of an initialized pod from last to first: the first one decides.
fn run(pod: &Value, summary: &mut Summary) {
    let mut running = false;
    for status in list(pod, "/status/containerStatuses").iter().rev() {
        count_restarts(status, &mut summary.restarts, &mut summary.restarted);
        let waiting = text(status, "/state/waiting/reason");
        if !waiting.is_empty() {
            waiting.clone_into(&mut summary.reason);
        } else if present(status, "/state/terminated") {
            summary.reason = ended(status);
        } else if flag(status, "/ready") && present(status, "/state/running") {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.reason == "Completed" && running {
        let ready = has_true_condition(pod, "Ready");
        if ready { "Running" } else { "NotReady" }.clone_into(&mut summary.reason);
    }
}

/// Why a container terminated.
fn ended(status: &Value) -> String {
    let reason = text(status, "/state/terminated/reason");
    let signal = number(status, "/state/terminated/signal");
    if !reason.is_empty() {
        reason.to_owned()
    } else if signal != 0 {
        format!("Signal:{signal}")
    } else {
        format!("ExitCode:{}", number(status, "/state/terminated/exitCode"))
    }
}

/// Restarts of init containers that keep running beside the other containers.
fn sidecar_restarts(pod: &Value, restartable: &HashSet<&str>) -> (i64, Option<i64>) {
    let (mut restarts, mut restarted) = (0, None);
    let mut reached = true;
    for status in list(pod, "/status/initContainerStatuses") {
        let is_sidecar = restartable.contains(text(status, "/name"));
        if reached && is_sidecar {
            count_restarts(status, &mut restarts, &mut restarted);
        }
        // The walk ends where that of `initialize` ends.
        let done = present(status, "/state/terminated") && number(status, "/state/terminated/exitCode") == 0;
        reached &= done || (is_sidecar && flag(status, "/started"));
    }
    (restarts, restarted)
}

fn count_restarts(status: &Value, restarts: &mut i64, restarted: &mut Option<i64>) {
    *restarts = restarts.saturating_add(number(status, "/restartCount"));
    *restarted = (*restarted).max(age::parse(text(status, "/lastState/terminated/finishedAt")));
}

fn has_true_condition(pod: &Value, kind: &str) -> bool {
    list(pod, "/status/conditions").iter().any(|c| text(c, "/type") == kind && text(c, "/status") == "True")
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    // By type, the first of which counts: searching all conditions for each gate would be quadratic.
    let mut conditions = HashMap::new();
    for condition in list(pod, "/status/conditions") {
        conditions.entry(text(condition, "/type")).or_insert_with(|| text(condition, "/status"));
    }
    let is_open = |gate: &&Value| conditions.get(text(gate, "/conditionType")) == Some(&"True");
    format!("{}/{}", gates.iter().filter(is_open).count(), gates.len())
}
