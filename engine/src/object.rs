//! One state of one object: its bytes inside the frame that announced it, and what selectors see of it.

use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;

use crate::attributes::Attributes;
use crate::decode::{DecodeError, Decoder, decimal};
use crate::frame::{self, FrameKind};
use crate::key::Key;
use crate::resource::Resource;
use crate::revision::Revision;

/// Why a stored value cannot be served, and since when its key holds such values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    error: DecodeError,
    since: Revision,
}

impl Unreadable {
    /// What is wrong with the value.
    #[must_use]
    pub const fn error(&self) -> &DecodeError {
        &self.error
    }

    /// The key held a value that could be served, or none, until this revision.
    #[must_use]
    pub const fn since(&self) -> Revision {
        self.since
    }
}

/// One state of one object. Immutable and shared: the index, the ring and snapshots hold the same one.
///
/// The bytes are serialized once, inside the frame of the event that made this state; everything else refers
/// into them.
///
/// A stored value that cannot be decoded is a state too: its JSON is the Status that says so, it has no attributes
/// and matches no selector, and its frame tells a watch the Status and ends it.
pub struct Object {
    key: Key,
    revision: Revision,
    frame: Bytes,
    /// `None`: the frame is an ERROR and the end of the stream.
    frame_kind: Option<FrameKind>,
    place: Range<u32>,
    version: Range<u32>,
    bare: u32,
    attributes: Attributes,
    unreadable: Option<Box<Unreadable>>,
    /// The frame that adds it, when its own is another: see [`Object::added`].
    added: OnceLock<Box<Bytes>>,
}

impl Object {
    /// The state that `value` makes of a key that held `before`.
    pub(crate) fn new(
        decoder: &mut Decoder,
        resource: &Resource,
        key: Key,
        value: &[u8],
        revision: Revision,
        before: Option<&Self>,
    ) -> Self {
        // To whom watches, a value that could not be served was none.
        let known = before.is_some_and(|before| before.unreadable.is_none());
        let kind = if known { FrameKind::Modified } else { FrameKind::Added };
        match Self::readable(decoder, resource, &key, value, revision, kind) {
            Ok(object) => object,
            Err(error) => {
                let since = before.and_then(Self::unreadable).map_or(revision, Unreadable::since);
                Self::undecodable(resource, key, revision, Unreadable { error, since })
            }
        }
    }

    fn readable(
        decoder: &mut Decoder,
        resource: &Resource,
        key: &Key,
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
            key: key.clone(),
            revision,
            frame: out.into(),
            frame_kind: Some(frame_kind),
            place: offset(place.start)?..offset(place.end)?,
            version: decoded.version,
            bare: decoded.bare,
            attributes: decoded.attributes,
            unreadable: None,
            added: OnceLock::new(),
        })
    }

    /// A state as its writer sees it: `value`, written by `revision`.
    #[must_use]
    pub fn read(
        decoder: &mut Decoder,
        resource: &Resource,
        key: Key,
        value: &[u8],
        revision: Revision,
    ) -> Self {
        Self::new(decoder, resource, key, value, revision, None)
    }

    fn undecodable(resource: &Resource, key: Key, revision: Revision, unreadable: Unreadable) -> Self {
        let why = unreadable.error.to_string();
        let status = frame::unreadable_status(&resource.qualified_plural(), key.path(), &why);
        let mut out = Vec::with_capacity(status.len() + 64);
        let place = frame::error(&mut out, &status);
        out.extend_from_slice(frame::END);
        out.shrink_to_fit();
        // A path has some hundred bytes, and so has a reason.
        let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Self {
            key,
            revision,
            frame: out.into(),
            frame_kind: None,
            place: offset(place.start)..offset(place.end),
            version: 0..0,
            bare: 0,
            attributes: Attributes::default(),
            unreadable: Some(Box::new(unreadable)),
            added: OnceLock::new(),
        }
    }

    /// Why the stored value cannot be served, if it cannot: then [`Object::json`] is a Status (500
    /// `StorageReadError`), and nothing else here is the object's.
    #[must_use]
    pub fn unreadable(&self) -> Option<&Unreadable> {
        self.unreadable.as_deref()
    }

    /// What a watch that covers the key of an unreadable state is told: the ERROR frame and the end.
    pub(crate) fn refusal(&self) -> Option<&Bytes> {
        self.frame_kind.is_none().then_some(&self.frame)
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

    /// The object as JSON on one line, `metadata.resourceVersion` included; a Status when it is unreadable.
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
        (self.frame_kind == Some(kind)).then_some(&self.frame)
    }

    /// The frame that adds it, shared by all who ask: watches that end within it keep its rest, however many they are.
    pub(crate) fn added(&self) -> &Bytes {
        self.frame(FrameKind::Added).unwrap_or_else(|| {
            self.added.get_or_init(|| {
                let mut made = Vec::with_capacity(self.json().len() + 64);
                frame::event(&mut made, FrameKind::Added, |out| out.extend_from_slice(self.json()));
                made.shrink_to_fit();
                Box::new(made.into())
            })
        })
    }

    /// Makes the frame ready to be shared: asks for its count of owners now, not with the first clone.
    pub(crate) fn share(&self) {
        drop(self.frame.clone());
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
