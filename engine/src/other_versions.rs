//! What the engine does not know of a stored value: the other versions of its type.

use std::fmt;
use std::sync::Arc;

/// Brings values that are stored in another version of a resource's type to the one that the resource is kept in.
/// Implemented outside the engine.
///
/// It must be deterministic: a message of a watch that was sent by half is made again, and must come out the same.
pub trait OtherVersions: Send + Sync + fmt::Debug {
    /// The value in the version of the resource, as a store would hold it; `None`: it is of another kind, or cannot be
    /// brought to that version.
    fn convert(&self, value: &[u8]) -> Option<Vec<u8>>;
}

/// Versions that resources share.
#[derive(Clone, Debug)]
pub struct SharedVersions(Arc<dyn OtherVersions>);

impl SharedVersions {
    /// Shares them.
    #[must_use]
    pub fn new(versions: impl OtherVersions + 'static) -> Self {
        Self(Arc::new(versions))
    }
}

impl std::ops::Deref for SharedVersions {
    type Target = dyn OtherVersions;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for SharedVersions {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedVersions {}
