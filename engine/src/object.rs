//! One state of one object: its bytes inside the message that announced it, and what selectors see of it.

use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;

use crate::attributes::Attributes;
use crate::decode::{DecodeError, Decoder, decimal};
use crate::encoding::{Failure, json};
use crate::framing::{BARE, Framing};
use crate::key::Key;
use crate::message::{Draft, Message, MessageKind};
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
/// The bytes are serialized once, inside the message of the event that made this state; everything else refers
/// into them.
///
/// A stored value that cannot be decoded is a state too: its JSON is the Status that says so, it has no attributes
/// and matches no selector, and its message tells a watch the Status, which ends it.
pub struct Object {
    key: Key,
    revision: Revision,
    message: Message,
    /// `None`: the message is an ERROR.
    kind: Option<MessageKind>,
    /// The object within the payload.
    place: Range<u32>,
    version: Range<u32>,
    bare: u32,
    attributes: Attributes,
    unreadable: Option<Box<Unreadable>>,
    /// The message that adds it, when its own is another: see [`Object::added`].
    added: OnceLock<Box<Message>>,
}

impl Object {
    /// The state that `value` makes of a key that held `before`; its message is made in this framing.
    pub(crate) fn new(
        decoder: &mut Decoder,
        framing: &Framing,
        resource: &Resource,
        key: Key,
        value: &[u8],
        revision: Revision,
        before: Option<&Self>,
    ) -> Self {
        // To whom watches, a value that could not be served was none.
        let known = before.is_some_and(|before| before.unreadable.is_none());
        let kind = if known { MessageKind::Modified } else { MessageKind::Added };
        let draft = Draft::new(framing, value.len() + 160);
        match Self::readable(decoder, draft, resource, &key, value, revision, kind) {
            Ok(object) => object,
            Err(error) => {
                let since = before.and_then(Self::unreadable).map_or(revision, Unreadable::since);
                Self::undecodable(framing, resource, key, revision, Unreadable { error, since })
            }
        }
    }

    fn readable(
        decoder: &mut Decoder,
        mut draft: Draft<'_>,
        resource: &Resource,
        key: &Key,
        value: &[u8],
        revision: Revision,
        kind: MessageKind,
    ) -> Result<Self, DecodeError> {
        json::open(&mut draft, kind);
        let start = draft.len();
        let decoded = decoder.decode(resource, value, revision, draft.payload())?;
        let end = draft.len();
        json::close(&mut draft);
        let offset = |at: usize| u32::try_from(at).map_err(|_| DecodeError::TooLarge(value.len()));
        Ok(Self {
            key: key.clone(),
            revision,
            message: draft.finish(),
            kind: Some(kind),
            place: offset(start)?..offset(end)?,
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
        Self::new(decoder, &BARE, resource, key, value, revision, None)
    }

    fn undecodable(
        framing: &Framing,
        resource: &Resource,
        key: Key,
        revision: Revision,
        unreadable: Unreadable,
    ) -> Self {
        let (resource, why) = (resource.qualified_plural(), unreadable.error.to_string());
        let failure = Failure::Unreadable { resource: &resource, path: key.path(), why: &why };
        let status = json::status(&failure);
        let mut draft = Draft::new(framing, status.len() + 64);
        json::open_error(&mut draft);
        let start = draft.len();
        draft.payload().extend_from_slice(&status);
        let end = draft.len();
        json::close(&mut draft);
        // A path has some hundred bytes, and so has a reason.
        let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Self {
            key,
            revision,
            message: draft.finish(),
            kind: None,
            place: offset(start)..offset(end),
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

    /// What a watch that covers the key of an unreadable state is told before it ends: the ERROR, in JSON.
    pub(crate) fn refusal(&self) -> Option<&Message> {
        self.kind.is_none().then_some(&self.message)
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
        &self.message.payload()[self.place.start as usize..self.place.end as usize]
    }

    /// [`Object::json`], shared.
    #[must_use]
    pub fn shared_json(&self) -> Bytes {
        self.message.shared_payload().slice(self.place.start as usize..self.place.end as usize)
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
        self.message.framed().len()
    }

    /// The message of the event that made this state, when that is the kind asked for. In JSON.
    pub(crate) fn message(&self, kind: MessageKind) -> Option<&Message> {
        (self.kind == Some(kind)).then_some(&self.message)
    }

    /// The message that adds it, shared by all who ask: watches that end within it keep its rest, however many they are.
    pub(crate) fn added(&self, framing: &Framing) -> &Message {
        self.message(MessageKind::Added).unwrap_or_else(|| {
            self.added.get_or_init(|| {
                let make = |out: &mut Vec<u8>| {
                    json::event(out, MessageKind::Added, |out| out.extend_from_slice(self.json()));
                };
                Box::new(Message::new(framing, self.json().len() + 64, make))
            })
        })
    }

    /// Makes the message ready to be shared: asks for its count of owners now, not with the first clone.
    pub(crate) fn share(&self) {
        drop(self.message.clone());
    }

    /// Appends the object as it was, with another version: the last state of something that is gone.
    pub(crate) fn write_at(&self, out: &mut Vec<u8>, revision: Revision) {
        let json = self.json();
        // As long as it is, or longer by the digits of the version.
        out.reserve(json.len() + 20);
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
