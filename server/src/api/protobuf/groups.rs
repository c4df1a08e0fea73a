//! The names of API groups by the Go packages of their types.

/// Groups whose name is not that of their package with `.k8s.io`.
const NAMED: [(&str, &str); 10] = [
    ("apiserverinternal", "internal.apiserver.k8s.io"),
    ("apps", "apps"),
    ("autoscaling", "autoscaling"),
    ("batch", "batch"),
    ("core", ""),
    ("extensions", "extensions"),
    ("flowcontrol", "flowcontrol.apiserver.k8s.io"),
    ("policy", "policy"),
    ("rbac", "rbac.authorization.k8s.io"),
    ("lifecycle", "lifecycle.k8s.io"),
];

/// The apiVersion of a package: `core/v1` is `v1`, `rbac/v1` is `rbac.authorization.k8s.io/v1`. The types of `meta` are in
/// every group; they are called `v1` here.
pub(super) fn group_of(package: &str) -> String {
    let (name, version) = package.split_once('/').unwrap_or((package, ""));
    if name == "meta" {
        return if version == "v1" { version.to_owned() } else { format!("meta.k8s.io/{version}") };
    }
    match NAMED.iter().find(|(package, _)| *package == name) {
        Some((_, "")) => version.to_owned(),
        Some((_, group)) => format!("{group}/{version}"),
        None => format!("{name}.k8s.io/{version}"),
    }
}
