//! Which objects a watch covers before selectors are asked.

use std::hash::{Hash, Hasher};

use crate::key::{Key, ResourceId};
use crate::key_range::KeyRange;

/// What a watch covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Objects of one resource.
    Objects(Objects),
    /// All keys in a range, of one resource or several. A selector that is used with it should name fields only
    /// where all of these are of one resource: a field is a place in its own resource's list.
    Keys(KeyRange),
}

/// Objects of one resource: all, or those of one namespace, of one name, or both.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Objects {
    /// The resource.
    pub resource: ResourceId,
    /// One namespace, or all.
    pub namespace: Option<Box<str>>,
    /// One name, or all.
    pub name: Option<Box<str>>,
}

impl Objects {
    /// All objects of a resource.
    #[must_use]
    pub const fn all(resource: ResourceId) -> Self {
        Self { resource, namespace: None, name: None }
    }

    #[inline]
    fn covers(&self, key: &Key) -> bool {
        self.resource == key.resource()
            && self.namespace.as_deref().is_none_or(|namespace| key.namespace() == Some(namespace))
            && self.name.as_deref().is_none_or(|name| key.name() == name)
    }
}

impl From<Objects> for Scope {
    fn from(objects: Objects) -> Self {
        Self::Objects(objects)
    }
}

impl Scope {
    /// All objects of a resource.
    #[must_use]
    pub const fn all(resource: ResourceId) -> Self {
        Self::Objects(Objects::all(resource))
    }

    /// All objects of a namespace.
    #[must_use]
    pub fn of_namespace(resource: ResourceId, namespace: &str) -> Self {
        Self::Objects(Objects { namespace: Some(namespace.into()), ..Objects::all(resource) })
    }

    /// Whether an object of this key can be of interest.
    #[must_use]
    #[inline]
    pub fn covers(&self, key: &Key) -> bool {
        match self {
            Self::Objects(objects) => objects.covers(key),
            Self::Keys(range) => range.contains(key),
        }
    }

    /// Hashes what determines the home shard of its watches: resource and namespace, or the range.
    pub fn hash_placement(&self, hasher: &mut impl Hasher) {
        match self {
            Self::Objects(Objects { resource, namespace, name: _ }) => {
                resource.hash(hasher);
                namespace.hash(hasher);
            }
            Self::Keys(range) => range.hash(hasher),
        }
    }

    /// The resources that it reaches, of the first `resources` that there are, in order.
    pub(crate) fn resources(&self, resources: usize) -> impl Iterator<Item = ResourceId> {
        let (one, range) = match self {
            Self::Objects(objects) => (Some(objects.resource), None),
            Self::Keys(range) => (None, Some(range)),
        };
        let spans = range.into_iter().flat_map(move |range| range.spans(resources, None));
        one.into_iter().chain(spans.map(|span| span.resource))
    }
}
