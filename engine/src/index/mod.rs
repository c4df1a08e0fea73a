//! The newest object per key, ordered, with immutable snapshots, and the state at a past revision.
//!
//! It owns the persistent sets. A snapshot is one pointer; taking it costs nothing and blocks no one. A past state is a
//! snapshot with the ring's newer events undone, so no version is kept twice. The index does not know its readers.

mod past;

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::sync::Arc;

use imbl::OrdSet;

use crate::codec::Reason;
use crate::key::{Key, ResourceId};
use crate::key_range::KeyRange;
use crate::object::Object;
use crate::revision::{Position, Revision};

pub use past::{Expired, Past};

/// The objects of a resource, in the order of their paths.
type Objects = OrdSet<ByPath>;

/// An object by its path: a look-up reads it there, so the index keeps one pointer an object.
#[derive(Clone, Debug)]
struct ByPath(Arc<Object>);

impl Borrow<str> for ByPath {
    #[inline]
    fn borrow(&self) -> &str {
        self.0.key().path()
    }
}

impl PartialEq for ByPath {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByPath {}

impl PartialOrd for ByPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByPath {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key().path().cmp(other.0.key().path())
    }
}

/// Every object as of one revision. Immutable.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) revision: Revision,
    pub(crate) position: Position,
    /// By row of the schema.
    resources: Vec<Objects>,
    /// The unreadable ones among them, by row; shared by all snapshots between which none was added or removed.
    unreadable: Arc<Vec<Objects>>,
    unreadable_total: usize,
    /// By place of their reason.
    by_reason: [u32; Reason::ALL.len()],
    /// Bytes that all objects keep allocated.
    bytes: u64,
}

impl Snapshot {
    /// An empty state, as of `revision`.
    pub(crate) fn empty(resources: usize, revision: Revision) -> Self {
        let resources = vec![Objects::new(); resources];
        let unreadable = Arc::new(resources.clone());
        let by_reason = [0; Reason::ALL.len()];
        Self {
            revision,
            position: Position::FIRST,
            resources,
            unreadable,
            unreadable_total: 0,
            by_reason,
            bytes: 0,
        }
    }

    /// Everything up to this revision is included.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// The ring's events before this position are included.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    /// The newest state of `key`, which may be [unreadable](Object::unreadable).
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.at_path(key.resource(), key.path())
    }

    /// The object at a path of a resource.
    pub(crate) fn at_path(&self, resource: ResourceId, path: &str) -> Option<&Arc<Object>> {
        self.resources.get(resource.row())?.get(path).map(|found| &found.0)
    }

    /// The number of objects of a resource.
    #[must_use]
    pub fn len(&self, resource: ResourceId) -> usize {
        self.resources.get(resource.row()).map_or(0, OrdSet::len)
    }

    /// The number of objects in all.
    #[must_use]
    pub fn total(&self) -> usize {
        self.resources.iter().map(OrdSet::len).sum()
    }

    /// Bytes that all objects keep allocated; the window shares those of the newest events.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The objects of a resource, or of one namespace, in key order, after the path `after` if given. Unreadable ones are
    /// included: [`Snapshot::first_unreadable`] returns whether there is one.
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
        // An unknown resource has no objects.
        let objects = self.resources.get(resource.row());
        let range = objects.map(|objects| objects.range::<_, str>((start, std::ops::Bound::Unbounded)));
        range
            .into_iter()
            .flatten()
            .map(|found| &found.0)
            .take_while(move |object| object.key().path().starts_with(&*prefix))
    }

    /// The objects in a range of keys, in key order, after the key `after` if given. Unreadable ones are included.
    pub fn range<'a>(
        &'a self,
        range: &'a KeyRange,
        after: Option<&'a Key>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        within(&self.resources, range, after)
    }

    /// The number of unreadable objects of a resource.
    #[must_use]
    pub fn unreadable(&self, resource: ResourceId) -> usize {
        self.unreadable.get(resource.row()).map_or(0, OrdSet::len)
    }

    /// The number of unreadable objects in all.
    #[must_use]
    pub const fn unreadable_total(&self) -> usize {
        self.unreadable_total
    }

    /// The number of unreadable objects for each reason.
    pub fn unreadable_by_reason(&self) -> impl Iterator<Item = (Reason, u32)> + use<'_> {
        Reason::ALL.into_iter().zip(self.by_reason)
    }

    /// The unreadable objects of a resource, or of one namespace and one name, in key order. Costs a look at each unreadable
    /// object of that namespace, and nothing if there are none.
    pub fn unreadable_in<'a, 'b>(
        &'a self,
        resource: ResourceId,
        namespace: Option<&'b str>,
        name: Option<&'b str>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a, 'b> {
        let objects = self.unreadable.get(resource.row()).filter(|objects| !objects.is_empty());
        let range = objects.map(|objects| {
            let prefix = namespace.map(|namespace| format!("{namespace}/{}", name.unwrap_or("")));
            let prefix = prefix.unwrap_or_default();
            let from = std::ops::Bound::Included(&*prefix);
            objects
                .range::<_, str>((from, std::ops::Bound::Unbounded))
                .map(|found| &found.0)
                .take_while(move |object| object.key().path().starts_with(&prefix))
        });
        let objects = range.into_iter().flatten();
        objects.filter(move |object| name.is_none_or(|name| object.key().name() == name))
    }

    /// The unreadable objects in a range of keys, in key order. Costs a look at each of them, and nothing if there are none.
    pub fn unreadable_in_range<'a>(
        &'a self,
        range: &'a KeyRange,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        let objects = (self.unreadable_total > 0).then(|| within(&self.unreadable, range, None));
        objects.into_iter().flatten()
    }

    /// The first unreadable object of a resource, or of one namespace and one name.
    #[must_use]
    pub fn first_unreadable(
        &self,
        resource: ResourceId,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Option<&Arc<Object>> {
        self.unreadable_in(resource, namespace, name).next()
    }

    pub(crate) fn put(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        let row = object.key().resource().row();
        let unreadable = object.unreadable().is_some().then(|| Arc::clone(&object));
        self.bytes += object.weight() as u64;
        let before = self.row(row).insert(ByPath(object)).map(|before| before.0);
        self.bytes -= before.as_ref().map_or(0, |before| before.weight()) as u64;
        self.note(row, before.as_ref(), unreadable);
        before
    }

    pub(crate) fn remove(&mut self, key: &Key) -> Option<Arc<Object>> {
        let row = key.resource().row();
        let before = self.row(row).remove(key.path()).map(|before| before.0);
        self.bytes -= before.as_ref().map_or(0, |before| before.weight()) as u64;
        self.note(row, before.as_ref(), None);
        before
    }

    /// Removes all objects of a resource.
    pub(crate) fn clear(&mut self, resource: ResourceId) {
        let row = resource.row();
        let objects = std::mem::take(self.row(row));
        self.bytes -= objects.iter().map(|object| object.0.weight() as u64).sum::<u64>();
        for object in objects.iter().filter(|object| object.0.unreadable().is_some()) {
            self.note(row, Some(&object.0), None);
        }
    }

    /// The objects in a row, which may be newer than the snapshot.
    fn row(&mut self, row: usize) -> &mut Objects {
        if self.resources.len() <= row {
            self.resources.resize_with(row + 1, Objects::new);
        }
        &mut self.resources[row]
    }

    /// Updates the unreadable objects after a change of one key.
    fn note(&mut self, row: usize, before: Option<&Arc<Object>>, now: Option<Arc<Object>>) {
        let before = before.filter(|before| before.unreadable().is_some());
        if before.is_none() && now.is_none() {
            return;
        }
        let unreadable = Arc::make_mut(&mut self.unreadable);
        if unreadable.len() <= row {
            unreadable.resize_with(row + 1, Objects::new);
        }
        let objects = &mut unreadable[row];
        let reason = |object: &Object| object.unreadable().map(|why| why.error().reason().index());
        if let Some(before) = before {
            objects.remove(before.key().path());
            self.unreadable_total -= 1;
            reason(before).into_iter().for_each(|at| self.by_reason[at] -= 1);
        }
        if let Some(now) = now {
            reason(&now).into_iter().for_each(|at| self.by_reason[at] += 1);
            objects.insert(ByPath(now));
            self.unreadable_total += 1;
        }
    }
}

/// The objects of some resources in a range of keys, after the key `after` if given.
fn within<'a>(
    resources: &'a [Objects],
    range: &'a KeyRange,
    after: Option<&'a Key>,
) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
    let spans = range.spans(resources.len(), after);
    spans.flat_map(|span| resources[span.resource.row()].range::<_, str>(span.paths)).map(|found| &found.0)
}
