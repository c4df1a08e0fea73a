//! Resources that a kube-apiserver keeps in another etcd (`--etcd-servers-overrides`): they are not served from here.
//!
//! Owns what is said to a client that asks for one. An engine has the revisions of one etcd, so a second one would need an
//! engine of its own.

use std::fmt;

use revcast_engine::key::ResourceId;

use crate::api::resources::Registry;

/// One resource, in all its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Empty: the core group.
    pub group: String,
    /// Its plural.
    pub resource: String,
    /// The client URLs of the etcd that has it; empty: they are not known.
    pub servers: Vec<String>,
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}#{}", self.group, self.resource, self.servers.join(";"))
    }
}

/// The resources of a registry that are kept in another etcd: by row, what a client is told.
#[derive(Clone, Debug, Default)]
pub struct OtherEtcds(Vec<Option<String>>);

impl OtherEtcds {
    /// Those that `overrides` name, and others that are views of the same keys.
    #[must_use]
    pub fn new(registry: &Registry, overrides: &[Override]) -> Self {
        let mut rows = Vec::new();
        for of in overrides {
            let named = registry.iter().find(|known| known.group == of.group && known.plural == of.resource);
            rows.extend(named.map(|known| (known.row, of)));
        }
        let text = |row: ResourceId| {
            let (_, of) = rows.iter().find(|(known, _)| *known == row)?;
            let name = if of.group.is_empty() {
                of.resource.clone()
            } else {
                format!("{}.{}", of.resource, of.group)
            };
            let place = if of.servers.is_empty() {
                "another etcd".to_owned()
            } else {
                format!("another etcd ({})", of.servers.join(", "))
            };
            Some(format!(
                "{name} cannot be served from here: they are kept in {place} (--etcd-servers-overrides); ask a server \
                 of that etcd, such as kube-apiserver"
            ))
        };
        Self(registry.rows().map(|known| text(known.row)).collect())
    }

    /// What a client is told that asks for the resource of this row; `None`: it is served.
    #[must_use]
    pub fn text(&self, row: usize) -> Option<&str> {
        self.0.get(row)?.as_deref()
    }

    /// Whether the resource of this row is kept in another etcd.
    #[must_use]
    pub fn has(&self, row: usize) -> bool {
        self.text(row).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_found_by_its_name_and_by_its_keys() {
        let registry = Registry::builtin();
        let of = |group: &str, resource: &str, servers: &[&str]| Override {
            group: group.to_owned(),
            resource: resource.to_owned(),
            servers: servers.iter().map(|server| (*server).to_owned()).collect(),
        };
        let both = [of("", "events", &[]), of("apps", "deployments", &["http://a:1", "http://b:2"])];
        let others = OtherEtcds::new(&registry, &both);
        let text = |group: &str, plural: &str| {
            let mut known = registry.iter().filter(|known| known.group == group && known.plural == plural);
            others.text(known.next().expect("built in").row.row())
        };
        assert!(text("", "events").is_some_and(|text| text.starts_with("events cannot be served from here")));
        let deployments = text("apps", "deployments").expect("it is named");
        assert!(deployments.contains("deployments.apps") && deployments.contains("(http://a:1, http://b:2)"));
        assert_eq!((text("", "pods"), others.has(usize::MAX)), (None, false));
        let versions = registry.iter().filter(|known| known.plural == "events");
        assert_eq!(versions.filter(|known| others.has(known.row.row())).count(), 2, "in both groups");
        assert_eq!(both[1].to_string(), "apps/deployments#http://a:1;http://b:2");
        assert_eq!(both[0].to_string(), "/events#");
    }
}
