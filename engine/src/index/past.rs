//! The state at a past revision: a snapshot with the newer events of the ring undone.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::Snapshot;
use crate::event::Event;
use crate::key::Key;
use crate::key_range::KeyRange;
use crate::object::Object;
use crate::revision::{Position, Revision};
use crate::ring::{Missing, Reader};

/// The window does not reach back to the requested revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// The oldest revision that can still be requested.
    pub oldest: Revision,
}

/// The previous state of a key.
type Was = Option<Arc<Object>>;

/// The past objects in a range of keys, usually of one resource. Immutable.
#[derive(Debug)]
pub struct Past {
    snapshot: Arc<Snapshot>,
    within: KeyRange,
    revision: Revision,
    /// The state at the revision, for every key that changed since.
    undone: BTreeMap<Key, Was>,
    /// The number of unreadable ones among those.
    undone_unreadable: usize,
}

impl Past {
    /// The state of the keys in `within` at `revision`, which is at most that of `snapshot`.
    ///
    /// Costs one look at each event between the two.
    pub(crate) fn new(
        snapshot: Arc<Snapshot>,
        ring: &Reader<Event>,
        within: KeyRange,
        revision: Revision,
    ) -> Result<Self, Expired> {
        let expired = |_: Missing| Expired { oldest: ring.forgotten() };
        let mut undone = BTreeMap::new();
        if revision < snapshot.revision() {
            let mut at = ring.position_after(revision).map_err(expired)?;
            while at < snapshot.position() {
                let event = ring.get(at).map_err(expired)?;
                if within.contains(event.key()) {
                    // The first change after the revision has the state before it.
                    undone.entry(event.key().clone()).or_insert_with(|| event.before.clone());
                }
                at = at.next();
            }
        }
        let unreadable = |was: &&Was| was.as_ref().is_some_and(|was| was.unreadable().is_some());
        let undone_unreadable = undone.values().filter(unreadable).count();
        Ok(Self { snapshot, within, revision, undone, undone_unreadable })
    }

    /// The first object that was unreadable then, of the (first) resource, or of one namespace and one name of it. Costs
    /// nothing if none was and none is.
    #[must_use]
    pub fn first_unreadable(&self, namespace: Option<&str>, name: Option<&str>) -> Option<&Arc<Object>> {
        let resource = self.within.first_key().resource();
        let still = self.snapshot.unreadable_in(resource, namespace, name);
        self.first_of(still, |key| {
            key.resource() == resource
                && namespace.is_none_or(|namespace| key.namespace() == Some(namespace))
                && name.is_none_or(|name| key.name() == name)
        })
    }

    /// The first object in a part of the range that was unreadable then. Costs the same.
    #[must_use]
    pub fn first_unreadable_in_range<'a>(&'a self, range: &'a KeyRange) -> Option<&'a Arc<Object>> {
        self.first_of(self.snapshot.unreadable_in_range(range), |key| range.contains(key))
    }

    /// The first of the objects that are unreadable in the snapshot and were so then, and of those that were and are not any
    /// more.
    fn first_of<'a>(
        &'a self,
        mut still: impl Iterator<Item = &'a Arc<Object>>,
        is_asked_for: impl Fn(&Key) -> bool,
    ) -> Option<&'a Arc<Object>> {
        let still = still.find(|object| !self.undone.contains_key(object.key()));
        let undone = (self.undone_unreadable > 0).then(|| self.undone.values().flatten());
        let mut undone = undone.into_iter().flatten();
        let was = undone.find(|object| object.unreadable().is_some() && is_asked_for(object.key()));
        still.into_iter().chain(was).min_by(|a, b| a.key().cmp(b.key()))
    }

    /// The revision of this state.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// The position in the ring that follows the underlying snapshot.
    #[must_use]
    pub fn position(&self) -> Position {
        self.snapshot.position()
    }

    /// The objects of the (first) resource, or of one namespace, in key order, after the path `after` if given. Unreadable ones
    /// are included: [`Past::first_unreadable`] returns whether there is one.
    pub fn list(&self, namespace: Option<&str>, after: Option<&str>) -> impl Iterator<Item = &Arc<Object>> {
        let resource = self.within.first_key().resource();
        let prefix = namespace.map_or_else(String::new, |ns| format!("{ns}/"));
        let begin = match after {
            Some(path) if *path >= *prefix => Bound::Excluded(Key::new(resource, None, path)),
            _ => Bound::Included(Key::new(resource, None, &prefix)),
        };
        let undone = self.undone.range((begin, Bound::Unbounded));
        let undone =
            undone.take_while(move |(key, _)| key.resource() == resource && key.path().starts_with(&*prefix));
        merged(self.snapshot.list(resource, namespace, after), undone)
    }

    /// The objects in a part of the range, in key order, after the key `after` if given. Unreadable ones are included:
    /// [`Past::first_unreadable_in_range`] returns whether there is one.
    pub fn range<'a>(
        &'a self,
        range: &'a KeyRange,
        after: Option<&'a Key>,
    ) -> impl Iterator<Item = &'a Arc<Object>> {
        let begin = match after {
            Some(key) if range.begins_by(key) => Bound::Excluded(key.clone()),
            _ => Bound::Included(range.first_key()),
        };
        let undone = self.undone.range((begin, Bound::Unbounded));
        merged(self.snapshot.range(range, after), undone.take_while(|(key, _)| range.ends_after(key)))
    }
}

/// Objects of a snapshot, and the past states of the keys that changed since, both in key order.
fn merged<'a>(
    newest: impl Iterator<Item = &'a Arc<Object>>,
    undone: impl Iterator<Item = (&'a Key, &'a Was)>,
) -> impl Iterator<Item = &'a Arc<Object>> {
    let (mut newest, mut undone) = (newest.peekable(), undone.peekable());
    std::iter::from_fn(move || {
        loop {
            let key = newest.peek().copied().map(|object| object.key());
            match (key, undone.peek()) {
                (None, None) => return None,
                (Some(key), Some((changed, _))) if key < *changed => return newest.next(),
                (Some(_), None) => return newest.next(),
                (key, Some((changed, _))) => {
                    if key == Some(*changed) {
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
