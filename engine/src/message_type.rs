//! What the engine does not know of a protobuf message: its fields.

use std::fmt;
use std::sync::Arc;

use crate::attributes::AttributeTexts;

/// What the messages of a resource's values are: how they are read. Implemented outside the engine.
///
/// It must be deterministic: a message of a watch that was sent by half is made again, and must come out the same.
pub trait MessageType: Send + Sync + fmt::Debug {
    /// Reads a message that a store holds: what selectors see of it. Its revision is not in it, or another one. Texts that stand in the message are best
    /// borrowed from there: then an object keeps no copy of them. What this accepts, [`MessageType::push_members`] can
    /// show.
    ///
    /// # Errors
    /// Why it cannot be shown.
    fn read<'a>(&'a self, message: &'a [u8]) -> Result<AttributeTexts<'a>, String>;

    /// A stored message with what readers fill in where its writer left it out; `None`: nothing is missing. It is read, kept and
    /// shown in its place. Any bytes give an answer.
    fn completed(&self, message: &[u8]) -> Option<Vec<u8>> {
        let _ = message;
        None
    }

    /// Appends a message that was read as the members of a JSON object, without braces, `kind` and `apiVersion`. There are members
    /// before it, unless `out` ends with the brace that opens the object.
    fn push_members(&self, out: &mut Vec<u8>, message: &[u8]);
}

/// A type that resources and values share.
#[derive(Clone, Debug)]
pub struct SharedType(Arc<dyn MessageType>);

impl SharedType {
    /// Shares a type.
    #[must_use]
    pub fn new(of: impl MessageType + 'static) -> Self {
        Self(Arc::new(of))
    }
}

impl std::ops::Deref for SharedType {
    type Target = dyn MessageType;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for SharedType {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedType {}
