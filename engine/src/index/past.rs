//! The state at a past revision: a snapshot with the newer events of the ring undone.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Snapshot;
use crate::event::Event;
use crate::key::ResourceId;
use crate::object::Object;
use crate::revision::{Position, Revision};
use crate::ring::{Missing, Reader};

/// The window does not reach back to the revision asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// The oldest revision that can still be asked for.
    pub oldest: Revision,
}

/// The objects of one resource as they were. Immutable.
#[derive(Debug)]
pub struct Past {
    snapshot: Arc<Snapshot>,
    resource: ResourceId,
    revision: Revision,
    /// By path: the state at the revision, for every key that changed since.
    undone: BTreeMap<Arc<str>, Option<Arc<Object>>>,
    /// How many of those were unreadable.
    undone_unreadable: usize,
}

impl Past {
    /// The state of `resource` at `revision`, which is at most that of `snapshot`.
    ///
    /// Costs one look at each event between the two.
    pub(crate) fn new(
        snapshot: Arc<Snapshot>,
        ring: &Reader<Event>,
        resource: ResourceId,
        revision: Revision,
    ) -> Result<Self, Expired> {
        let expired = |_: Missing| Expired { oldest: ring.forgotten() };
        let mut undone = BTreeMap::new();
        if revision < snapshot.revision() {
            let mut at = ring.position_after(revision).map_err(expired)?;
            while at < snapshot.position() {
                let event = ring.get(at).map_err(expired)?;
                if event.key().resource() == resource {
                    // The first change after the revision holds the state before it.
                    undone.entry(event.key().shared_path()).or_insert_with(|| event.before.clone());
                }
                at = at.next();
            }
        }
        let unreadable =
            |was: &&Option<Arc<Object>>| was.as_ref().is_some_and(|was| was.unreadable().is_some());
        let undone_unreadable = undone.values().filter(unreadable).count();
        Ok(Self { snapshot, resource, revision, undone, undone_unreadable })
    }

    /// The first object that was unreadable then, of one namespace and one name when given. Costs nothing when none was
    /// and none is.
    #[must_use]
    pub fn first_unreadable(&self, namespace: Option<&str>, name: Option<&str>) -> Option<&Arc<Object>> {
        let still = self
            .snapshot
            .unreadable_in(self.resource, namespace, name)
            .find(|object| !self.undone.contains_key(object.key().path()));
        let undone = (self.undone_unreadable > 0).then(|| self.undone.values().flatten());
        let was = undone.into_iter().flatten().find(|object| {
            object.unreadable().is_some()
                && namespace.is_none_or(|namespace| object.key().namespace() == Some(namespace))
                && name.is_none_or(|name| object.key().name() == name)
        });
        still.into_iter().chain(was).min_by(|a, b| a.key().path().cmp(b.key().path()))
    }

    /// The revision whose state this is.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// The position in the ring that follows the underlying snapshot.
    #[must_use]
    pub fn position(&self) -> Position {
        self.snapshot.position()
    }

    /// The objects, of one namespace when given, in key order, after the path `after` when given. Unreadable ones are
    /// included: ask [`Past::first_unreadable`] whether there is one.
    pub fn list(&self, namespace: Option<&str>, after: Option<&str>) -> impl Iterator<Item = &Arc<Object>> {
        let prefix: Box<str> = namespace.map_or_else(|| "".into(), |ns| format!("{ns}/").into());
        let start = match after {
            Some(path) if *path >= *prefix => std::ops::Bound::Excluded(path),
            _ => std::ops::Bound::Included(&*prefix),
        };
        let undone = self.undone.range::<str, _>((start, std::ops::Bound::Unbounded));
        let mut undone = undone.take_while(move |(path, _)| path.starts_with(&*prefix)).peekable();
        let mut newest = self.snapshot.list(self.resource, namespace, after).peekable();
        std::iter::from_fn(move || {
            loop {
                let path = newest.peek().copied().map(|object| object.key().path());
                match (path, undone.peek()) {
                    (None, None) => return None,
                    (Some(path), Some((changed, _))) if *path < ***changed => return newest.next(),
                    (Some(_), None) => return newest.next(),
                    (path, Some((changed, _))) => {
                        if path == Some(&***changed) {
                            newest.next();
                        }
                        if let Some((_, Some(was))) = undone.next() {
                            return Some(was);
                        }
                    }
                }
            }
        })
    }
}
