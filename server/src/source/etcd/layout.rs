//! The keys of objects in etcd, as in Kubernetes.
//!
//! Owns the mapping between an object's name and its key: `PREFIX/FOLDER/NAMESPACE/NAME`, or `PREFIX/FOLDER/NAME`. The registry
//! defines the folder of a resource; resources may be added while it is used. It never reads a value.

use std::cell::RefCell;
use std::collections::HashMap;

use revcast_engine::key::{Key, ResourceId};

/// Folders that only a kube-apiserver writes into: addresses of its instances, allocated service addresses and ports.
const APISERVER_FOLDERS: [&[u8]; 3] = [b"masterleases/", b"ranges/", b"peerserverleases/"];

/// A resource's folder.
#[derive(Clone, Debug)]
pub struct Folder {
    /// The row of its objects.
    pub resource: ResourceId,
    /// Whether they have namespaces.
    pub namespaced: bool,
    /// Without the prefix, without slashes at the ends.
    pub path: String,
}

/// All folders that there are or were.
#[derive(Clone, Debug, Default)]
struct Folders {
    /// By row.
    of: HashMap<ResourceId, Folder>,
    /// The row whose objects are there now.
    by_path: HashMap<String, ResourceId>,
}

/// The keys of all resources.
#[derive(Clone, Debug)]
pub struct Layout {
    /// With a slash at its end.
    prefix: String,
    folders: RefCell<Folders>,
}

impl Layout {
    /// The keys below `prefix` (`/registry`) of resources: row, whether namespaced, folder.
    ///
    /// # Errors
    /// Two resources with one folder, such as two versions of one kind: one line that names it.
    pub fn new(
        prefix: &str,
        resources: impl Iterator<Item = (ResourceId, bool, String)>,
    ) -> Result<Self, String> {
        let layout =
            Self { prefix: format!("{}/", prefix.trim_end_matches('/')), folders: RefCell::default() };
        for (resource, namespaced, path) in resources {
            if let Some(Folder { path, .. }) = layout.add(Folder { resource, namespaced, path }) {
                return Err(format!(
                    "two resources have their keys under {prefix}/{path}: in etcd a kind is stored in one version, so \
                     declare only that one"
                ));
            }
        }
        Ok(layout)
    }

    /// From now on the objects in this folder are those of this row. Returns what the folder was before; keys of that row are
    /// still found.
    pub fn add(&self, folder: Folder) -> Option<Folder> {
        let Folders { of, by_path } = &mut *self.folders.borrow_mut();
        let before = by_path.insert(folder.path.clone(), folder.resource);
        let before = before.filter(|before| *before != folder.resource);
        let before = before.and_then(|before| of.get(&before).cloned());
        of.insert(folder.resource, folder);
        before
    }

    /// The keys of this row belong to no served resource any more, unless its folder is another row's by now.
    pub fn remove(&self, resource: ResourceId) {
        self.folders.borrow_mut().by_path.retain(|_, row| *row != resource);
    }

    /// The beginning of the keys of a resource; it ends with a slash.
    ///
    /// # Panics
    /// When it has no such resource.
    #[must_use]
    pub fn folder_of(&self, resource: ResourceId) -> String {
        format!("{}{}/", self.prefix, self.folders.borrow().of[&resource].path)
    }

    /// The same without the objects of some rows: their keys belong to no served resource.
    #[must_use]
    pub fn without(self, is_in_other_etcd: impl Fn(usize) -> bool) -> Self {
        self.folders.borrow_mut().by_path.retain(|_, row| !is_in_other_etcd(row.row()));
        self
    }

    /// The prefix of all keys; it ends with a slash.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether a key is one that only a kube-apiserver writes: its own lease, or what it has allocated.
    #[must_use]
    pub fn is_of_apiserver(&self, etcd: &[u8]) -> bool {
        let inner = etcd.strip_prefix(self.prefix.as_bytes());
        inner.is_some_and(|inner| APISERVER_FOLDERS.iter().any(|folder| inner.starts_with(folder)))
    }

    /// The etcd key of an object.
    #[must_use]
    pub fn to_etcd(&self, key: &Key) -> String {
        format!("{}{}/{}", self.prefix, self.folders.borrow().of[&key.resource()].path, key.path())
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
        let folders = self.folders.borrow();
        let folder = &folders.of[folders.by_path.get(folder)?];
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
        let rows = registry.rows().map(|row| (row.row, row.namespaced, row.etcd_folder()));
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
    fn a_folder_may_become_that_of_another_row() {
        let (registry, layout) = layout("/registry");
        let widgets = registry.find("example.com", "v1", "widgets").expect("declared").row;
        let (path, newer) = ("example.com/widgets".to_owned(), ResourceId::new(900));
        let before = layout.add(Folder { resource: newer, namespaced: false, path });
        assert_eq!(before.map(|before| before.resource), Some(widgets));
        assert_eq!(layout.to_key(b"/registry/example.com/widgets/w"), Some(Key::new(newer, None, "w")));
        for (row, etcd) in
            [(widgets, "/registry/example.com/widgets/w"), (newer, "/registry/example.com/widgets/w")]
        {
            assert_eq!(layout.to_etcd(&Key::new(row, None, "w")), etcd);
        }
        assert_eq!(layout.folder_of(newer), "/registry/example.com/widgets/");
        // The one of before takes nothing with it when it goes.
        layout.remove(widgets);
        assert!(layout.to_key(b"/registry/example.com/widgets/w").is_some());
        layout.remove(newer);
        assert_eq!(layout.to_key(b"/registry/example.com/widgets/w"), None);
        assert_eq!(layout.folder_of(newer), "/registry/example.com/widgets/");
        let path = "new.example.com/things".to_owned();
        let before = layout.add(Folder { resource: ResourceId::new(901), namespaced: true, path });
        assert!(before.is_none() && layout.to_key(b"/registry/new.example.com/things/a/b").is_some());
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
        let rows = registry.rows().map(|row| (row.row, row.namespaced, row.etcd_folder()));
        let error = Layout::new("/registry", rows).expect_err("one folder");
        assert!(error.contains("/registry/example.com/widgets") && !error.contains('\n'), "{error}");
    }
}
