//! The keys of objects in etcd, as in Kubernetes.
//!
//! Owns the mapping between an object's name and its key: `PREFIX/FOLDER/NAMESPACE/NAME`, or `PREFIX/FOLDER/NAME`. The registry
//! defines the folder of a resource. It never reads a value.

use std::collections::HashMap;

use revcast_engine::key::{Key, ResourceId};

/// A resource's folder.
#[derive(Clone, Debug)]
struct Folder {
    resource: ResourceId,
    namespaced: bool,
    /// Without the prefix, without slashes at the ends.
    path: String,
}

/// The keys of all resources.
#[derive(Clone, Debug)]
pub struct Layout {
    /// With a slash at its end.
    prefix: String,
    /// By row.
    folders: Vec<Folder>,
    by_path: HashMap<String, usize>,
}

impl Layout {
    /// The keys below `prefix` (`/registry`) of resources in row order: row, whether namespaced, folder.
    ///
    /// # Errors
    /// Two resources with one folder, such as two versions of one kind: one line that names it.
    pub fn new(
        prefix: &str,
        resources: impl Iterator<Item = (ResourceId, bool, String)>,
    ) -> Result<Self, String> {
        let mut folders = Vec::new();
        let mut by_path = HashMap::new();
        for (resource, namespaced, path) in resources {
            debug_assert_eq!(resource.row(), folders.len(), "rows come in order");
            if by_path.insert(path.clone(), folders.len()).is_some() {
                return Err(format!(
                    "two resources have their keys under {prefix}/{path}: in etcd a kind is stored in one version, so \
                     declare only that one"
                ));
            }
            folders.push(Folder { resource, namespaced, path });
        }
        Ok(Self { prefix: format!("{}/", prefix.trim_end_matches('/')), folders, by_path })
    }

    /// The same without the objects of some rows: their keys belong to no served resource.
    #[must_use]
    pub fn without(mut self, is_elsewhere: impl Fn(usize) -> bool) -> Self {
        self.by_path.retain(|_, row| !is_elsewhere(*row));
        self
    }

    /// The prefix of all keys; it ends with a slash.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The etcd key of an object.
    #[must_use]
    pub fn to_etcd(&self, key: &Key) -> String {
        format!("{}{}/{}", self.prefix, self.folders[key.resource().row()].path, key.path())
    }

    /// The object of an etcd key; `None`: it belongs to no served resource.
    #[must_use]
    pub fn to_key(&self, etcd: &[u8]) -> Option<Key> {
        let rest = std::str::from_utf8(etcd).ok()?.strip_prefix(self.prefix.as_str())?;
        // A folder has one or two parts; a name has no slash, so at most one of the two can match.
        let (first, below) = rest.split_once('/')?;
        self.within(first, below).or_else(|| {
            let (second, below) = below.split_once('/')?;
            self.within(&rest[..first.len() + 1 + second.len()], below)
        })
    }

    /// The object at `path` in a folder.
    fn within(&self, folder: &str, path: &str) -> Option<Key> {
        let folder = &self.folders[*self.by_path.get(folder)?];
        let (namespace, name) = if folder.namespaced {
            let (namespace, name) = path.split_once('/')?;
            (Some(namespace), name)
        } else {
            (None, path)
        };
        let fits =
            |part: &str| !part.is_empty() && !part.contains('/') && part.len() <= usize::from(u16::MAX);
        (fits(name) && namespace.is_none_or(fits)).then(|| Key::new(folder.resource, namespace, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::resources::Registry;

    fn layout(prefix: &str) -> (Registry, Layout) {
        let mut registry = Registry::builtin();
        registry.declare("example.com/v1/widgets/Widget/namespaced").expect("a good declaration");
        registry.declare("example.com/v1/gadgets/Gadget/cluster").expect("a good declaration");
        let rows =
            registry.iter().map(|resource| (resource.row, resource.namespaced, resource.etcd_folder()));
        let layout = Layout::new(prefix, rows).expect("no folder twice");
        (registry, layout)
    }

    #[test]
    fn every_resource_finds_its_keys_again() {
        let (registry, layout) = layout("/registry");
        for resource in registry.iter() {
            let namespace = resource.namespaced.then_some("kube-system");
            let key = Key::new(resource.row, namespace, "a.b:c");
            let etcd = layout.to_etcd(&key);
            assert!(etcd.starts_with("/registry/"), "{etcd}");
            let found =
                layout.to_key(etcd.as_bytes()).unwrap_or_else(|| panic!("{etcd} belongs to no object"));
            assert_eq!((found.clone(), found.namespace()), (key, namespace), "{etcd}");
        }
    }

    #[test]
    fn keys_are_as_recorded() {
        let (registry, layout) = layout("/registry/");
        let row = |group: &str, version: &str, plural: &str| {
            registry.find(group, version, plural).expect("known").row
        };
        for (key, etcd) in [
            (Key::new(row("", "v1", "configmaps"), Some("t1"), "cm1"), "/registry/configmaps/t1/cm1"),
            (
                Key::new(row("", "v1", "services"), Some("default"), "kubernetes"),
                "/registry/services/specs/default/kubernetes",
            ),
            (
                Key::new(row("", "v1", "endpoints"), Some("default"), "kubernetes"),
                "/registry/services/endpoints/default/kubernetes",
            ),
            (Key::new(row("", "v1", "nodes"), None, "n1"), "/registry/minions/n1"),
            (
                Key::new(row("flowcontrol.apiserver.k8s.io", "v1", "flowschemas"), None, "exempt"),
                "/registry/flowschemas/exempt",
            ),
            (
                Key::new(row("example.com", "v1", "widgets"), Some("a"), "w"),
                "/registry/example.com/widgets/a/w",
            ),
            (Key::new(row("example.com", "v1", "gadgets"), None, "g"), "/registry/example.com/gadgets/g"),
        ] {
            assert_eq!(layout.to_etcd(&key), etcd);
            assert_eq!(layout.to_key(etcd.as_bytes()), Some(key));
        }
    }

    #[test]
    fn what_is_nobodys_is_said_to_be() {
        let (_, layout) = layout("/registry");
        for etcd in [
            "compact_rev_key",
            "/registry",
            "/registry/",
            "/registry/configmaps",
            "/registry/configmaps/",
            "/registry/configmaps/default",
            "/registry/configmaps/default/",
            "/registry/configmaps//a",
            "/registry/configmaps/default/a/b",
            "/registry/minions/a/b",
            "/registry/minions/",
            "/registry/ranges/serviceips",
            "/registry/other.example.com/widgets/a/w",
            "/registry/services/default/a",
            "/elsewhere/configmaps/default/a",
            "/registry2/configmaps/default/a",
        ] {
            assert_eq!(layout.to_key(etcd.as_bytes()), None, "{etcd}");
        }
        assert_eq!(layout.to_key(b"/registry/configmaps/default/\xff"), None);
    }

    #[test]
    fn keys_of_another_etcd_are_nobodys() {
        let (registry, layout) = layout("/registry");
        let maps = registry.find("", "v1", "configmaps").expect("built in").row;
        let layout = layout.without(|row| row == maps.row());
        assert_eq!(layout.to_key(b"/registry/configmaps/a/b"), None);
        assert!(layout.to_key(b"/registry/secrets/a/b").is_some());
    }

    #[test]
    fn two_versions_of_one_kind_are_refused() {
        let mut registry = Registry::builtin();
        registry.declare("example.com/v1/widgets/Widget/namespaced").expect("good");
        registry.declare("example.com/v2/widgets/Widget/namespaced").expect("good");
        let rows =
            registry.iter().map(|resource| (resource.row, resource.namespaced, resource.etcd_folder()));
        let error = Layout::new("/registry", rows).expect_err("one folder");
        assert!(error.contains("/registry/example.com/widgets") && !error.contains('\n'), "{error}");
    }
}
