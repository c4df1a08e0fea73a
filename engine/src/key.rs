//! The name of an object: its resource, and its path within the resource.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A row of the [`Schema`](crate::resource::Schema).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(u16);

impl ResourceId {
    /// The resource in row `row` of the schema.
    #[must_use]
    pub const fn new(row: u16) -> Self {
        Self(row)
    }

    /// The next row; `None`: there can be none.
    pub(crate) fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }

    /// The row in the schema.
    #[must_use]
    pub const fn row(self) -> usize {
        self.0 as usize
    }
}

/// The name of one object. Cheap to clone.
///
/// The path is `namespace/name`, or `name` for a resource without namespaces, and keys of a resource are
/// ordered by the bytes of the path: the order in which etcd holds, and Kubernetes lists, them.
#[derive(Clone)]
pub struct Key {
    resource: ResourceId,
    /// Bytes of the namespace at the front of `path`; zero when the resource has no namespaces.
    namespace_len: u16,
    path: Arc<str>,
}

impl Key {
    /// The key of `name` in `namespace` (`None` when the resource has none).
    ///
    /// # Panics
    /// When the namespace is longer than 65,535 bytes: requests limit it to 253, and sources to this.
    #[must_use]
    pub fn new(resource: ResourceId, namespace: Option<&str>, name: &str) -> Self {
        match namespace {
            None => Self { resource, namespace_len: 0, path: name.into() },
            Some(ns) => {
                let namespace_len = u16::try_from(ns.len()).expect("a namespace has at most 65,535 bytes");
                Self { resource, namespace_len, path: format!("{ns}/{name}").into() }
            }
        }
    }

    /// The resource it belongs to.
    #[must_use]
    pub const fn resource(&self) -> ResourceId {
        self.resource
    }

    /// `namespace/name`, or `name`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The namespace, when the resource has namespaces.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        (self.namespace_len > 0).then(|| &self.path[..self.namespace_len as usize])
    }

    /// The object's own name.
    #[must_use]
    pub fn name(&self) -> &str {
        if self.namespace_len == 0 { &self.path } else { &self.path[self.namespace_len as usize + 1..] }
    }

    /// The path, shared.
    #[must_use]
    pub fn shared_path(&self) -> Arc<str> {
        Arc::clone(&self.path)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.resource == other.resource && self.path == other.path
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.resource.hash(state);
        self.path.hash(state);
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.resource.cmp(&other.resource).then_with(|| self.path.cmp(&other.path))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.resource.0, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_gives_back_its_parts() {
        let key = Key::new(ResourceId::new(3), Some("default"), "a");
        assert_eq!((key.namespace(), key.name(), key.path()), (Some("default"), "a", "default/a"));
        let key = Key::new(ResourceId::new(3), None, "node-1");
        assert_eq!((key.namespace(), key.name(), key.path()), (None, "node-1", "node-1"));
    }

    #[test]
    fn keys_sort_as_etcd_sorts_them() {
        // '-' (0x2d) is before '/' (0x2f): namespace "a-b" comes before the objects of "a".
        let resource = ResourceId::new(0);
        assert!(Key::new(resource, Some("a-b"), "x") < Key::new(resource, Some("a"), "x"));
    }
}
