//! One state of one object: its bytes inside the frame that announced it, and what selectors see of it.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;

use crate::attributes::Attributes;
use crate::decode::{DecodeError, Decoder, decimal};
use crate::frame::{self, FrameKind};
use crate::key::Key;
use crate::resource::Resource;
use crate::revision::Revision;

/// One state of one object. Immutable and shared: the index, the ring and snapshots hold the same one.
///
/// The bytes are serialized once, inside the frame of the event that made this state; everything else refers
/// into them.
pub struct Object {
    key: Key,
    revision: Revision,
    frame: Bytes,
    frame_kind: FrameKind,
    place: Range<u32>,
    version: Range<u32>,
    bare: u32,
    attributes: Attributes,
}

impl Object {
    pub(crate) fn new(
        decoder: &mut Decoder,
        resource: &Resource,
        key: Key,
        value: &[u8],
        revision: Revision,
        frame_kind: FrameKind,
    ) -> Result<Self, DecodeError> {
        let mut out = Vec::with_capacity(value.len() + 160);
        let mut decoded = None;
        let place = frame::event(&mut out, frame_kind, |out| {
            decoded = Some(decoder.decode(resource, value, revision, out))
        });
        // `event` calls its closure exactly once.
        let decoded = decoded.expect("the frame asked for its object")?;
        out.shrink_to_fit();
        let offset = |at: usize| u32::try_from(at).map_err(|_| DecodeError::TooLarge(value.len()));
        Ok(Self {
            key,
            revision,
            frame: out.into(),
            frame_kind,
            place: offset(place.start)?..offset(place.end)?,
            version: decoded.version,
            bare: decoded.bare,
            attributes: decoded.attributes,
        })
    }

    /// What it is called.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// The revision of the change that made this state: its `metadata.resourceVersion`.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Labels and selectable fields.
    #[must_use]
    pub const fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// The object as JSON on one line, `metadata.resourceVersion` included.
    #[must_use]
    pub fn json(&self) -> &[u8] {
        &self.frame[self.place.start as usize..self.place.end as usize]
    }

    /// [`Object::json`], shared.
    #[must_use]
    pub fn shared_json(&self) -> Bytes {
        self.frame.slice(self.place.start as usize..self.place.end as usize)
    }

    /// The members behind `kind` and `apiVersion`, without the opening brace: what lists of built-in kinds show
    /// behind a `{`. `None` when the object does not begin with those two.
    #[must_use]
    pub fn bare_members(&self) -> Option<&[u8]> {
        (self.bare > 0).then(|| &self.json()[self.bare as usize..])
    }

    /// Bytes that this state keeps alive.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.frame.len()
    }

    /// The frame of the event that made this state, when that is the kind asked for.
    pub(crate) fn frame(&self, kind: FrameKind) -> Option<&Bytes> {
        (self.frame_kind == kind).then_some(&self.frame)
    }

    /// Appends the object as it was, with another version: the last state of something that is gone.
    pub(crate) fn write_at(&self, out: &mut Vec<u8>, revision: Revision) {
        let json = self.json();
        out.extend_from_slice(&json[..self.version.start as usize]);
        out.extend_from_slice(decimal(revision.get(), &mut [0; 20]));
        out.extend_from_slice(&json[self.version.end as usize..]);
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("key", &self.key)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}
