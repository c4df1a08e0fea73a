//! Rows of cluster configuration: classes, policies, bindings and registrations.

use serde_json::Value;

use super::age;
use super::cells::{
    Cells, NONE, UNSET, at, flag, join, labels, list, number, or, pluck, quantity, selector, text, text_or,
    text_or_number,
};
use super::workloads::containers;

/// The name, marked when an annotation says that the class is the default.
fn class_name(object: &Value, annotation: &str) -> String {
    let marked = at(object, "/metadata/annotations").and_then(|all| all.get(annotation));
    let name = text(object, "/metadata/name");
    if marked.and_then(Value::as_str) == Some("true") { format!("{name} (default)") } else { name.to_owned() }
}

pub(super) fn storage_class(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let beta = class_name(object, "storageclass.beta.kubernetes.io/is-default-class");
    let name = class_name(object, "storageclass.kubernetes.io/is-default-class");
    cells.text(if name.len() > beta.len() { &name } else { &beta });
    cells.text(text(object, "/provisioner"));
    cells.text(text_or(object, "/reclaimPolicy", "Delete"));
    cells.text(text_or(object, "/volumeBindingMode", "Immediate"));
    cells.flag(flag(object, "/allowVolumeExpansion"));
    cells.age(object, now);
}

pub(super) fn volume_attributes_class(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.text(&class_name(object, "volumeattributesclass.alpha.kubernetes.io/is-default-class"));
    cells.text(text(object, "/driverName"));
    cells.age(object, now);
}

pub(super) fn ingress_class(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let parameters = match at(object, "/spec/parameters") {
        Some(parameters) if !parameters.is_null() => {
            let group = at(parameters, "/apiGroup").and_then(Value::as_str);
            let group = group.map_or_else(String::new, |group| format!(".{group}"));
            format!("{}{group}/{}", text(parameters, "/kind"), text(parameters, "/name"))
        }
        _ => NONE.to_owned(),
    };
    cells.name(object);
    cells.text(text(object, "/spec/controller"));
    cells.text(&parameters);
    cells.age(object, now);
}

pub(super) fn network_policy(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    cells.text(&selector(object, "/spec/podSelector"));
    cells.age(object, now);
}

pub(super) fn priority_class(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    cells.number(number(object, "/value"));
    cells.flag(flag(object, "/globalDefault"));
    cells.age(object, now);
    cells.text(text_or(object, "/preemptionPolicy", "PreemptLowerPriority"));
}

pub(super) fn runtime_class(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    cells.text(text(object, "/handler"));
    cells.age(object, now);
}

pub(super) fn disruption_budget(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    for bound in ["/spec/minAvailable", "/spec/maxUnavailable"] {
        cells.text(&text_or_number(object, bound).unwrap_or_else(|| "N/A".to_owned()));
    }
    cells.number(number(object, "/status/disruptionsAllowed"));
    cells.age(object, now);
}

/// Bindings of roles and of cluster roles.
pub(super) fn role_binding(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let subjects = |kind: &str| {
        let of_kind = list(object, "/subjects").iter().filter(|subject| text(subject, "/kind") == kind);
        let shown = of_kind.map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", text(subject, "/namespace"), text(subject, "/name")),
            _ => text(subject, "/name").to_owned(),
        });
        shown.collect::<Vec<_>>().join(", ")
    };
    cells.name(object);
    cells.text(&format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name")));
    cells.age(object, now);
    for kind in ["User", "Group", "ServiceAccount"] {
        cells.text(&subjects(kind));
    }
}

pub(super) fn signing_request(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let has = |kind: &str| pluck(list(object, "/status/conditions"), "/type").any(|found| found == kind);
    let mut condition = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        condition.push_str(",Failed");
    }
    if !text(object, "/status/certificate").is_empty() {
        condition.push_str(",Issued");
    }
    let duration = at(object, "/spec/expirationSeconds").and_then(Value::as_i64);
    cells.name(object);
    cells.age(object, now);
    cells.text(text_or(object, "/spec/signerName", NONE));
    cells.text(text(object, "/spec/username"));
    cells.text(&duration.map_or_else(|| NONE.to_owned(), age::human));
    cells.text(&condition);
}

pub(super) fn resource_quota(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let hard = at(object, "/status/hard").and_then(Value::as_object);
    let mut names: Vec<&str> = hard.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for name in names {
        let of = |which: &str| {
            let quantities = at(object, which).and_then(|all| all.get(name));
            quantities.and_then(|found| quantity(found, "")).unwrap_or_else(|| "0".to_owned())
        };
        let shown = format!("{name}: {}/{}", of("/status/used"), of("/status/hard"));
        if name.starts_with("limits.") { limits.push(shown) } else { requests.push(shown) }
    }
    cells.name(object);
    cells.text(&requests.join(", "));
    cells.text(&limits.join(", "));
    cells.age(object, now);
}

pub(super) fn csi_node(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    cells.count(list(object, "/spec/drivers").len());
    cells.age(object, now);
}

pub(super) fn csi_driver(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let attach_required = at(object, "/spec/attachRequired").and_then(Value::as_bool).unwrap_or(true);
    let tokens = at(object, "/spec/tokenRequests").and_then(Value::as_array);
    let tokens = tokens.map(|all| join(all.iter().map(|token| text(token, "/audience"))));
    let modes = join(list(object, "/spec/volumeLifecycleModes").iter().filter_map(Value::as_str));
    cells.name(object);
    cells.flag(attach_required);
    cells.flag(flag(object, "/spec/podInfoOnMount"));
    cells.flag(flag(object, "/spec/storageCapacity"));
    cells.text(tokens.as_deref().unwrap_or(UNSET));
    cells.flag(flag(object, "/spec/requiresRepublish"));
    cells.text(or(&modes, "Persistent"));
    cells.age(object, now);
}

pub(super) fn ip_address(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let parent = at(object, "/spec/parentRef").filter(|parent| !parent.is_null()).map(|parent| {
        let (group, namespace) = (text(parent, "/group"), text(parent, "/namespace"));
        let dot = if group.is_empty() { "" } else { "." };
        let slash = if namespace.is_empty() { "" } else { "/" };
        let of = format!("{}{dot}{group}", text(parent, "/resource")).to_lowercase();
        format!("{of}{slash}{namespace}/{}", text(parent, "/name"))
    });
    cells.name(object);
    cells.text(parent.as_deref().unwrap_or(NONE));
    cells.age(object, now);
}

pub(super) fn service_cidr(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    cells.text(&join(list(object, "/spec/cidrs").iter().filter_map(Value::as_str)));
    cells.age(object, now);
}

pub(super) fn volume_attachment(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    cells.text(text(object, "/spec/attacher"));
    cells.text(text(object, "/spec/source/persistentVolumeName"));
    cells.text(text(object, "/spec/nodeName"));
    cells.flag(flag(object, "/status/attached"));
    cells.age(object, now);
}

pub(super) fn pod_template(object: &Value, cells: &mut Cells<'_>) {
    cells.name(object);
    containers(object, "/template/spec/containers", cells);
    cells.text(&labels(object, "/template/metadata/labels"));
}

pub(super) fn controller_revision(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let owners = list(object, "/metadata/ownerReferences").iter();
    let controller = owners.into_iter().find(|owner| flag(owner, "/controller")).map(|owner| {
        let group = text(owner, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
        let dot = if group.is_empty() { "" } else { "." };
        format!("{}/{}", format!("{}{dot}{group}", text(owner, "/kind")).to_lowercase(), text(owner, "/name"))
    });
    cells.name(object);
    cells.text(controller.as_deref().unwrap_or(NONE));
    cells.number(number(object, "/revision"));
    cells.age(object, now);
}
