//! Rows of kinds without containers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::age;
use super::cells::{
    Cells, NONE, UNSET, at, flag, join, labels, list, number, or, present, quantity, size, some_of, text,
    text_if_set, text_or,
};

pub(super) fn default(object: &Value, cells: &mut Cells<'_>) {
    cells.name(object);
    // Without a time, Go's zero time.
    cells.text(text_or(object, "/metadata/creationTimestamp", "0001-01-01T00:00:00Z"));
}

pub(super) fn name_and_age(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    cells.age(object, now);
}

pub(super) fn config_map(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    cells.count(size(object, "/data") + size(object, "/binaryData"));
    cells.age(object, now);
}

pub(super) fn secret(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    cells.text(text_or(object, "/type", "Opaque"));
    cells.count(size(object, "/data"));
    cells.age(object, now);
}

pub(super) fn namespace(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    cells.text(text_or(object, "/status/phase", "Active"));
    cells.age(object, now);
}

pub(super) fn lease(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    cells.text(text(object, "/spec/holderIdentity"));
    cells.age(object, now);
}

pub(super) fn lease_candidate(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    for member in ["/spec/leaseName", "/spec/binaryVersion", "/spec/emulationVersion"] {
        cells.text(text(object, member));
    }
    cells.age(object, now);
}

pub(super) fn node(object: &Value, cells: &mut Cells<'_>, now: i64) {
    // Of several, the last.
    let ready = list(object, "/status/conditions").iter().rfind(|c| text(c, "/type") == "Ready");
    let mut status = match ready.map(|condition| text(condition, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if flag(object, "/spec/unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let address = |kind| {
        let found = list(object, "/status/addresses").iter().find(|a| text(a, "/type") == kind);
        found.map_or(NONE, |address| text(address, "/address"))
    };
    cells.name(object);
    cells.text(&status);
    cells.text(&node_roles(object));
    cells.age(object, now);
    cells.text(text(object, "/status/nodeInfo/kubeletVersion"));
    cells.text(address("InternalIP"));
    cells.text(address("ExternalIP"));
    let kernel = text_or(object, "/status/nodeInfo/kernelVersion", age::UNKNOWN);
    cells.text(text_or(object, "/status/nodeInfo/osImage", age::UNKNOWN));
    cells.text(&match text(object, "/status/nodeInfo/architecture") {
        "" => kernel.to_owned(),
        architecture => format!("{kernel} ({architecture})"),
    });
    cells.text(text_or(object, "/status/nodeInfo/containerRuntimeVersion", age::UNKNOWN));
}

fn node_roles(object: &Value) -> String {
    let labels = at(object, "/metadata/labels").and_then(Value::as_object);
    let roles: BTreeSet<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None => value.as_str().filter(|_| key == "kubernetes.io/role"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    or(&join(roles.into_iter()), NONE).to_owned()
}

pub(super) fn service(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let kind = text_or(object, "/spec/type", "ClusterIP");
    let ports: Vec<String> = list(object, "/spec/ports")
        .iter()
        .map(|port| {
            let (number_, node) = (number(port, "/port"), number(port, "/nodePort"));
            let protocol = text_or(port, "/protocol", "TCP");
            if node > 0 { format!("{number_}:{node}/{protocol}") } else { format!("{number_}/{protocol}") }
        })
        .collect();
    let inside = at(object, "/spec/clusterIPs/0").and_then(Value::as_str);
    cells.name(object);
    cells.text(kind);
    cells.text(or(inside.unwrap_or_else(|| text(object, "/spec/clusterIP")), NONE));
    cells.text(&external_addresses(object, kind));
    cells.text(or(&ports.join(","), NONE));
    cells.age(object, now);
    cells.text(&labels(object, "/spec/selector"));
}

fn external_addresses(object: &Value, kind: &str) -> String {
    let given = join(list(object, "/spec/externalIPs").iter().filter_map(Value::as_str));
    match kind {
        "ClusterIP" | "NodePort" => or(&given, NONE).to_owned(),
        "LoadBalancer" => {
            let balancer = load_balancer(object);
            let both = join([balancer.as_str(), given.as_str()].into_iter().filter(|part| !part.is_empty()));
            or(&both, "<pending>").to_owned()
        }
        "ExternalName" => text(object, "/spec/externalName").to_owned(),
        _ => age::UNKNOWN.to_owned(),
    }
}

/// The addresses of a load balancer, each once, in order.
fn load_balancer(object: &Value) -> String {
    let points = list(object, "/status/loadBalancer/ingress").iter();
    let addresses: BTreeSet<&str> = points
        .map(|point| or(text(point, "/ip"), text(point, "/hostname")))
        .filter(|a| !a.is_empty())
        .collect();
    join(addresses.into_iter())
}

pub(super) fn endpoints(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let subsets = list(object, "/subsets");
    let all = subsets.iter().flat_map(|subset| {
        let (addresses, ports) = (list(subset, "/addresses"), list(subset, "/ports"));
        let bare = addresses.iter().filter(|_| ports.is_empty()).map(|a| text(a, "/ip").to_owned());
        let with_port = ports.iter().flat_map(move |port| {
            addresses.iter().map(move |address| {
                let (ip, port) = (text(address, "/ip"), number(port, "/port"));
                if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
            })
        });
        bare.chain(with_port)
    });
    // Each address with each port: more than the object has members, so they are counted without being made.
    let total = subsets.iter().fold(0_usize, |total, subset| {
        let (addresses, ports) = (list(subset, "/addresses").len(), list(subset, "/ports").len());
        total.saturating_add(addresses.saturating_mul(ports.max(1)))
    });
    cells.name(object);
    cells.text(&if subsets.is_empty() { NONE.to_owned() } else { some_of(all, total, 3, ",") });
    cells.age(object, now);
}

pub(super) fn endpoint_slice(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let ports = list(object, "/ports");
    let shown_ports = ports.iter().map(|port| match at(port, "/port").and_then(Value::as_i64) {
        Some(port) => port.to_string(),
        None => text(port, "/name").to_owned(),
    });
    let addresses = list(object, "/endpoints")
        .iter()
        .flat_map(|endpoint| list(endpoint, "/addresses"))
        .filter_map(Value::as_str);
    let total = addresses.clone().count();
    cells.name(object);
    cells.text(text(object, "/addressType"));
    cells.text(or(&some_of(shown_ports, ports.len(), 3, ","), UNSET));
    cells.text(or(&some_of(addresses.map(str::to_owned), total, 3, ","), UNSET));
    cells.age(object, now);
}

/// The first three hosts, and how many rules there are beside three: rules without a host count, if they come after the
/// third that has one.
fn ingress_hosts(rules: &[Value]) -> String {
    const SHOWN: usize = 3;
    let hosts: Vec<(usize, &str)> = rules
        .iter()
        .enumerate()
        .map(|(at, rule)| (at, text(rule, "/host")))
        .filter(|(_, host)| !host.is_empty())
        .take(SHOWN)
        .collect();
    let shown = join(hosts.iter().map(|(_, host)| *host));
    match hosts.get(SHOWN - 1) {
        Some((last, _)) if last + 1 < rules.len() => {
            format!("{shown} + {} more...", rules.len() - SHOWN)
        }
        _ => or(&shown, "*").to_owned(),
    }
}

pub(super) fn ingress(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    cells.text(text_if_set(object, "/spec/ingressClassName", NONE));
    cells.text(&ingress_hosts(list(object, "/spec/rules")));
    cells.text(&load_balancer(object));
    cells.text(if list(object, "/spec/tls").is_empty() { "80" } else { "80, 443" });
    cells.age(object, now);
}

pub(super) fn event(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let since = |pointer: &str| age::since(text(object, pointer), now);
    let given = |pointer: &str| !text(object, pointer).is_empty();
    let first = since(if given("/firstTimestamp") { "/firstTimestamp" } else { "/eventTime" });
    let series = present(object, "/series");
    let last = if series {
        since("/series/lastObservedTime")
    } else if given("/lastTimestamp") {
        since("/lastTimestamp")
    } else {
        first.clone()
    };
    // Events of the newer API have a count only if they are a series.
    let count = match number(object, if series { "/series/count" } else { "/count" }) {
        0 if !series => 1,
        count => count,
    };
    let kind = text(object, "/involvedObject/kind").to_lowercase();
    let about = match text(object, "/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = text_or(object, "/source/component", text(object, "/reportingComponent"));
    let source = match text_or(object, "/source/host", text(object, "/reportingInstance")) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    };
    cells.text(&last);
    cells.text(text(object, "/type"));
    cells.text(text(object, "/reason"));
    cells.text(&about);
    cells.text(text(object, "/involvedObject/fieldPath"));
    cells.text(&source);
    cells.text(text(object, "/message").trim());
    cells.text(&first);
    cells.number(count);
    cells.name(object);
}

/// `RWO,ROX,RWX,RWOP`, those that are present.
fn access_modes(object: &Value, pointer: &str) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let modes = list(object, pointer);
    join(SHORT.iter().filter(|(mode, _)| modes.iter().any(|m| m == mode)).map(|(_, short)| *short))
}

/// The class, which was an annotation before it was a field.
fn storage_class(object: &Value) -> &str {
    let old = at(object, "/metadata/annotations")
        .and_then(|all| all.get("volume.beta.kubernetes.io/storage-class"));
    old.and_then(Value::as_str).unwrap_or_else(|| text(object, "/spec/storageClassName"))
}

fn phase_or_terminating(object: &Value) -> &str {
    let phase = text_or(object, "/status/phase", "Pending");
    if present(object, "/metadata/deletionTimestamp") { "Terminating" } else { phase }
}

pub(super) fn persistent_volume(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let claim = match at(object, "/spec/claimRef") {
        Some(claim) if !claim.is_null() => format!("{}/{}", text(claim, "/namespace"), text(claim, "/name")),
        _ => String::new(),
    };
    cells.name(object);
    cells.text(&quantity(object, "/spec/capacity/storage").unwrap_or_else(|| "0".to_owned()));
    cells.text(&access_modes(object, "/spec/accessModes"));
    cells.text(text_or(object, "/spec/persistentVolumeReclaimPolicy", "Retain"));
    cells.text(phase_or_terminating(object));
    cells.text(&claim);
    cells.text(storage_class(object));
    cells.text(text_if_set(object, "/spec/volumeAttributesClassName", UNSET));
    cells.text(text(object, "/status/reason"));
    cells.age(object, now);
    cells.text(text_or(object, "/spec/volumeMode", "Filesystem"));
}

pub(super) fn persistent_volume_claim(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let volume = text(object, "/spec/volumeName");
    let bound = !volume.is_empty();
    let capacity = quantity(object, "/status/capacity/storage").unwrap_or_else(|| "0".to_owned());
    cells.name(object);
    cells.text(phase_or_terminating(object));
    cells.text(volume);
    cells.text(if bound { &capacity } else { "" });
    cells.text(&if bound { access_modes(object, "/status/accessModes") } else { String::new() });
    cells.text(storage_class(object));
    cells.text(text_if_set(object, "/spec/volumeAttributesClassName", UNSET));
    cells.age(object, now);
    cells.text(text_or(object, "/spec/volumeMode", "Filesystem"));
}
