//! Raw updates as a source delivers them, before decoding.

use bytes::Bytes;

use crate::key::Key;
use crate::revision::Revision;

/// One key got a new value, or lost the one it had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which object.
    pub key: Key,
    /// The value in the codec of the key's resource (of JSON, its `metadata.resourceVersion` is not trusted); `None`:
    /// deleted. An opaque value is kept as it is given: it should not be a small part of a large buffer.
    pub value: Option<Bytes>,
}

/// Everything that one revision changed. Atomic: it is published whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Newer than that of every batch before.
    pub revision: Revision,
    /// In the order of the source; each key at most once.
    pub changes: Vec<Change>,
}
