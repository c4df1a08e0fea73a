//! The newest object per key, ordered, with immutable snapshots, and the state at a past revision.
//!
//! It owns the persistent maps. A snapshot is one pointer; taking it costs nothing and holds up nobody. A past
//! state is the snapshot with the ring's newer events undone, so no version is kept twice. The index never knows
//! who reads it.

mod past;

use std::sync::Arc;

use imbl::OrdMap;

use crate::key::{Key, ResourceId};
use crate::object::Object;
use crate::revision::{Position, Revision};

pub use past::{Expired, Past};

type Objects = OrdMap<Arc<str>, Arc<Object>>;

/// Every object as of one revision. Immutable.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) revision: Revision,
    pub(crate) position: Position,
    /// By row of the schema.
    resources: Vec<Objects>,
}

impl Snapshot {
    /// Nothing, as of `revision`.
    pub(crate) fn empty(resources: usize, revision: Revision) -> Self {
        Self { revision, position: Position::ZERO, resources: vec![Objects::new(); resources] }
    }

    /// Everything up to this revision is in it.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// The ring's events before this position are in it.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    /// The newest state of `key`.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.resources.get(key.resource().row())?.get(key.path())
    }

    /// The object at a path of a resource.
    pub(crate) fn at_path(&self, resource: ResourceId, path: &str) -> Option<&Arc<Object>> {
        self.resources.get(resource.row())?.get(path)
    }

    /// How many objects of a resource there are.
    #[must_use]
    pub fn len(&self, resource: ResourceId) -> usize {
        self.resources.get(resource.row()).map_or(0, OrdMap::len)
    }

    /// How many objects there are in all.
    #[must_use]
    pub fn total(&self) -> usize {
        self.resources.iter().map(OrdMap::len).sum()
    }

    /// The objects of a resource, of one namespace when given, in key order, behind the path `after` when given.
    pub fn list<'a>(
        &'a self,
        resource: ResourceId,
        namespace: Option<&str>,
        after: Option<&str>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        let prefix: Box<str> = namespace.map_or_else(|| "".into(), |ns| format!("{ns}/").into());
        let start = match after {
            Some(path) if *path >= *prefix => std::ops::Bound::Excluded(path),
            _ => std::ops::Bound::Included(&*prefix),
        };
        // An unknown row has no objects; `list` of it is empty.
        let objects = self.resources.get(resource.row());
        let range = objects.map(|objects| objects.range::<_, str>((start, std::ops::Bound::Unbounded)));
        range
            .into_iter()
            .flatten()
            .take_while(move |(path, _)| path.starts_with(&*prefix))
            .map(|(_, object)| object)
    }

    pub(crate) fn put(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        let row = object.key().resource().row();
        let path = object.key().shared_path();
        self.resources[row].insert(path, object)
    }

    pub(crate) fn remove(&mut self, key: &Key) -> Option<Arc<Object>> {
        self.resources[key.resource().row()].remove(key.path())
    }
}
