//! One state of one object: its value as its codec keeps it, and its attributes for selectors.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;

use crate::attributes::Attributes;
use crate::codec::{DecodeError, Decoder, Kept, Value, protobuf, push_json_event};
use crate::encoding::{Encoding, Failure, json};
use crate::envelope;
use crate::framing::{BARE, Framing, Framings};
use crate::key::Key;
use crate::message::{Draft, Message, MessageKind};
use crate::resource::{Codec, Resource};
use crate::revision::Revision;
use crate::selector::Selector;

/// A stored value that cannot be served: why, and since when its key holds such values.
pub struct Unreadable {
    error: DecodeError,
    text: String,
    since: Revision,
    codec: Codec,
    value: Bytes,
    /// The ERROR event for a watch in JSON.
    message: Message,
    /// The Status within the payload.
    status: Range<usize>,
}

impl Unreadable {
    fn new(
        framing: &Framing,
        resource: &Resource,
        path: &str,
        value: Bytes,
        since: Revision,
        error: DecodeError,
    ) -> Self {
        let text = json::unreadable(&resource.qualified_plural(), path, &error.to_string());
        let status = json::status(&Failure::Unreadable { why: &text });
        let mut draft = Draft::new(framing, status.len() + 64);
        envelope::error(draft.payload(), &status);
        let end = draft.len() - envelope::CLOSING.len();
        let status = end - status.len()..end;
        Self {
            error,
            text,
            since,
            codec: resource.codec,
            value,
            message: draft.finish().ending(true),
            status,
        }
    }

    /// What is wrong with the value.
    #[must_use]
    pub const fn error(&self) -> &DecodeError {
        &self.error
    }

    /// Which value cannot be served, and why: the message of the Status.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The key held a value that could be served, or none, until this revision.
    #[must_use]
    pub const fn since(&self) -> Revision {
        self.since
    }

    /// What a watch that covers the key is sent before it ends: the ERROR, in JSON.
    pub(crate) const fn refusal(&self) -> &Message {
        &self.message
    }

    /// The Status that says so, as JSON (500 `StorageReadError`).
    #[must_use]
    pub fn status(&self) -> &[u8] {
        &self.message.payload()[self.status.clone()]
    }
}

impl fmt::Debug for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unreadable")
            .field("error", &self.error)
            .field("since", &self.since)
            .finish_non_exhaustive()
    }
}

/// One state of one object. Immutable and shared: the index, the ring and snapshots hold the same one.
///
/// A stored value that cannot be decoded is a state too: it has no attributes and matches no selector, and its message
/// tells a watch the Status that says so, which ends it.
pub struct Object {
    key: Key,
    revision: Revision,
    kept: Result<Kept, Box<Unreadable>>,
}

// There is one for each object in the index and each event in the ring.
const _: () = assert!(size_of::<Object>() <= 112);

impl Object {
    /// The kind of the event that makes a state of a key that held `before`.
    pub(crate) fn kind_after(before: Option<&Self>) -> MessageKind {
        match before {
            Some(before) if before.kept.is_ok() => MessageKind::Modified,
            // For a watch, a value that could not be served did not exist.
            Some(_) | None => MessageKind::Added,
        }
    }

    /// The state of a key that held `before`: what is kept of `value`, or why that cannot be read; a watch is told so in `framing`.
    pub(crate) fn new(
        key: Key,
        revision: Revision,
        kept: Result<Kept, DecodeError>,
        (resource, framing): (&Resource, &Framing),
        value: &Bytes,
        before: Option<&Self>,
    ) -> Self {
        let kept = kept.map_err(|error| {
            let since = before.and_then(Self::unreadable).map_or(revision, Unreadable::since);
            Box::new(Unreadable::new(framing, resource, key.path(), value.clone(), since, error))
        });
        Self { key, revision, kept }
    }

    /// A state as its writer sees it: `value`, written by `revision`.
    #[must_use]
    pub fn read(
        decoder: &mut Decoder,
        resource: &Resource,
        key: Key,
        value: &Bytes,
        revision: Revision,
    ) -> Self {
        let bare = Framings { json: &BARE, protobuf: &BARE };
        let kept = decoder.decode(bare, resource, (value, None), revision, Self::kind_after(None));
        Self::new(key, revision, kept, (resource, &BARE), value, None)
    }

    /// Why the stored value cannot be served, if it cannot.
    #[must_use]
    #[inline]
    pub fn unreadable(&self) -> Option<&Unreadable> {
        self.kept.as_ref().err().map(|why| &**why)
    }

    /// What a watch that covers the key of an unreadable state is sent before it ends: the ERROR, in JSON.
    #[inline]
    pub(crate) fn refusal(&self) -> Option<&Message> {
        self.unreadable().map(Unreadable::refusal)
    }

    /// What it is called.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// The revision of the change that made this state: of Kubernetes objects `metadata.resourceVersion`.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Labels and selectable fields.
    #[must_use]
    #[inline]
    pub fn attributes(&self) -> Attributes<'_> {
        self.kept.as_ref().map(Kept::attributes).unwrap_or_default()
    }

    /// The value as it is kept.
    #[must_use]
    pub fn value(&self) -> Value<'_> {
        match &self.kept {
            Ok(Kept::Json(announced)) => Value::Json(announced.json()),
            Ok(Kept::Protobuf(announced)) => Value::Protobuf(announced.protobuf()),
            Ok(Kept::Opaque(bytes)) => Value::Opaque(bytes),
            Err(why) => Value::Unreadable(why.codec, &why.value),
        }
    }

    /// The object as JSON, shared if it is kept as such; `None`: it has no such form.
    #[must_use]
    pub fn shared_json(&self) -> Option<Bytes> {
        match &self.kept {
            Ok(Kept::Json(announced)) => Some(announced.shared_object()),
            Ok(Kept::Protobuf(announced)) => Some(announced.protobuf().json().into_owned().into()),
            Ok(Kept::Opaque(_)) | Err(_) => None,
        }
    }

    /// Whether a selector selects it. What has no attributes has none that a selector could require.
    #[inline]
    pub(crate) fn is_selected(&self, selector: &Selector) -> bool {
        match &self.kept {
            Ok(Kept::Json(announced)) => selector.matches(announced.attributes()),
            Ok(Kept::Protobuf(announced)) => selector.matches(announced.attributes()),
            Ok(Kept::Opaque(_)) => Self::is_selected_bare(selector),
            Err(_) => false,
        }
    }

    // Apart, so that the question is a small one for objects that have attributes.
    #[inline(never)]
    fn is_selected_bare(selector: &Selector) -> bool {
        selector.required().next().is_none() && selector.matches(Attributes::default())
    }

    /// Bytes that this state keeps alive.
    #[must_use]
    #[inline]
    pub fn weight(&self) -> usize {
        match &self.kept {
            Ok(Kept::Json(announced)) => announced.own().framed().len(),
            Ok(Kept::Protobuf(announced)) => announced.own().framed().len(),
            Ok(Kept::Opaque(bytes)) => bytes.len(),
            Err(why) => why.message.framed().len() + why.value.len(),
        }
    }

    /// The encoding of the message that it is kept in.
    pub(crate) const fn own_encoding(&self) -> Option<Encoding> {
        match &self.kept {
            Ok(Kept::Json(_)) => Some(Encoding::Json),
            Ok(Kept::Protobuf(_)) => Some(Encoding::Protobuf),
            Ok(Kept::Opaque(_)) | Err(_) => None,
        }
    }

    /// The object as protobuf, shared, if it is kept as such.
    #[must_use]
    pub fn shared_protobuf(&self) -> Option<Bytes> {
        match &self.kept {
            Ok(Kept::Protobuf(announced)) => Some(announced.shared_object()),
            Ok(Kept::Json(_) | Kept::Opaque(_)) | Err(_) => None,
        }
    }

    /// The message of the event that made this state, when that is of this kind and in this encoding.
    #[inline]
    pub(crate) fn message(&self, encoding: Encoding, kind: MessageKind) -> Option<&Message> {
        match (&self.kept, encoding) {
            (Ok(Kept::Json(announced)), Encoding::Json) => announced.message(kind),
            (Ok(Kept::Protobuf(announced)), Encoding::Protobuf) => announced.message(kind),
            _ => None,
        }
    }

    /// The message that adds it, shared by all callers, if it is kept in this encoding.
    pub(crate) fn added(&self, encoding: Encoding, framing: &Framing) -> Option<&Message> {
        match (&self.kept, encoding) {
            (Ok(Kept::Json(announced)), Encoding::Json) => Some(announced.added(framing, push_json_event)),
            (Ok(Kept::Protobuf(announced)), Encoding::Protobuf) => {
                Some(announced.added(framing, protobuf::push_event))
            }
            _ => None,
        }
    }

    /// Messages that were made with it.
    pub(crate) const fn messages(&self) -> u64 {
        match &self.kept {
            Ok(Kept::Json(_) | Kept::Protobuf(_)) | Err(_) => 1,
            Ok(Kept::Opaque(_)) => 0,
        }
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
