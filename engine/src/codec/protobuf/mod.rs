//! The codec of Kubernetes objects in protobuf: the stored bytes are kept as they are, with the revision spliced in.
//!
//! It owns the envelope (`k8s\0` and `runtime.Unknown`), the place of `metadata.resourceVersion` in it, and the message
//! of a watch around it (`WatchEvent`). Which fields a message has, and their form as JSON, is its type's to know:
//! [`MessageType`](crate::message_type::MessageType).

pub mod wire;

use std::borrow::Cow;

use super::DecodeError;
use super::announced::{Announced, Copies};
use crate::decimal::decimal;
use crate::framing::Framing;
use crate::message::{Draft, MessageKind};
use crate::message_type::SharedType;
use crate::resource::Resource;
use crate::revision::Revision;
use wire::{Reader, WireValue, field_len, open_field, push_field};

/// What Kubernetes writes before an object in protobuf (`runtime/serializer/protobuf`).
pub const PREFIX: &[u8] = b"k8s\0";

/// The numbers of `runtime.Unknown`.
const TYPE_META: u32 = 1;
const RAW: u32 = 2;
const CONTENT_ENCODING: u32 = 3;
const CONTENT_TYPE: u32 = 4;
/// Expected bytes beside an object in its message: the event, and places of attributes.
const BESIDE: usize = 512;

/// Of nearly every object.
const METADATA: u32 = 1;
/// Of `ObjectMeta`.
const RESOURCE_VERSION: u32 = 6;

/// An object in protobuf, taken out of its envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// `v1`, `apps/v1`.
    pub api_version: &'a str,
    /// `ConfigMap`.
    pub kind: &'a str,
    /// The message of the kind.
    pub message: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Takes an object out of its envelope.
    ///
    /// # Errors
    /// It is not one of Kubernetes' with plain protobuf in it.
    pub fn read(object: &'a [u8]) -> Result<Self, &'static str> {
        let unknown = object
            .strip_prefix(PREFIX)
            .ok_or("it does not begin with the four bytes of Kubernetes' protobuf")?;
        let (mut types, mut message) = (None, None);
        let mut reader = Reader::new(unknown);
        while let Some((number, wire)) = reader.next()? {
            let WireValue::Bytes(bytes) = wire else {
                return Err("its envelope has a field of a wrong type");
            };
            let twice = match number {
                TYPE_META => types.replace(type_meta(bytes)?).is_some(),
                RAW => message.replace(bytes).is_some(),
                // With an encoding or another content type, it would not be a message.
                CONTENT_ENCODING | CONTENT_TYPE if bytes.is_empty() => false,
                CONTENT_ENCODING | CONTENT_TYPE => {
                    return Err("its envelope holds something else than plain protobuf");
                }
                _ => return Err("its envelope has a field that is not known"),
            };
            if twice {
                return Err("its envelope has a field twice");
            }
        }
        let (api_version, kind) = types.unwrap_or_default();
        Ok(Self { api_version, kind, message: message.unwrap_or_default() })
    }

    /// Appends an envelope as Kubernetes writes it around a message of so many bytes, which `push` appends.
    pub fn push(out: &mut Vec<u8>, types: (&str, &str), len: usize, push: impl FnOnce(&mut Vec<u8>)) {
        Self::open(out, types, len);
        push(out);
        Self::close(out);
    }

    /// Begins an envelope around a message of so many bytes, which are appended next; then [`Envelope::close`].
    pub fn open(out: &mut Vec<u8>, (api_version, kind): (&str, &str), len: usize) {
        out.extend_from_slice(PREFIX);
        open_field(out, TYPE_META, field_len(1, api_version.len()) + field_len(2, kind.len()));
        push_field(out, 1, api_version.as_bytes());
        push_field(out, 2, kind.as_bytes());
        open_field(out, RAW, len);
    }

    /// Ends an envelope.
    pub fn close(out: &mut Vec<u8>) {
        push_field(out, CONTENT_ENCODING, b"");
        push_field(out, CONTENT_TYPE, b"");
    }

    /// Bytes of that.
    fn len((api_version, kind): (&str, &str), len: usize) -> usize {
        let types = field_len(1, api_version.len()) + field_len(2, kind.len());
        PREFIX.len() + field_len(TYPE_META, types) + field_len(RAW, len) + 2 * field_len(CONTENT_TYPE, 0)
    }
}

fn type_meta(bytes: &[u8]) -> Result<(&str, &str), &'static str> {
    let (mut api_version, mut kind) = ("", "");
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        let WireValue::Bytes(bytes) = wire else { return Err("its type is not text") };
        let text = std::str::from_utf8(bytes).map_err(|_| "its type is not UTF-8")?;
        match number {
            1 => api_version = text,
            2 => kind = text,
            _ => return Err("its type has a field that is not known"),
        }
    }
    Ok((api_version, kind))
}

/// A message, and where its revision belongs.
#[derive(Debug)]
struct Places<'a> {
    /// `metadata` up to the revision, and after it.
    metadata: (&'a [u8], &'a [u8]),
    /// What follows `metadata`.
    rest: (&'a [u8], &'a [u8]),
}

impl<'a> Places<'a> {
    fn of(message: &'a [u8]) -> Result<Self, &'static str> {
        let (mut metadata, mut around) = (None, (&message[..0], message));
        let mut reader = Reader::new(message);
        loop {
            let before = message.len() - reader.rest().len();
            let Some((number, wire)) = reader.next()? else { break };
            if number != METADATA {
                continue;
            }
            let WireValue::Bytes(bytes) = wire else { return Err("its metadata is not a message") };
            if metadata.replace(bytes).is_some() {
                return Err("its metadata is there twice");
            }
            around = (&message[..before], reader.rest());
        }
        let metadata = metadata.ok_or("it has no metadata")?;
        Ok(Self { metadata: around_version(metadata)?, rest: around })
    }

    fn metadata_len(&self, digits: &[u8]) -> usize {
        self.metadata.0.len() + field_len(RESOURCE_VERSION, digits.len()) + self.metadata.1.len()
    }

    /// Bytes of the message with a revision.
    fn len(&self, digits: &[u8]) -> usize {
        self.rest.0.len() + field_len(METADATA, self.metadata_len(digits)) + self.rest.1.len()
    }

    /// Appends the message with a revision. Returns from which addresses its parts were copied.
    fn push(&self, out: &mut Vec<u8>, digits: &[u8]) -> Copies {
        let start = out.len();
        let mut copies = Copies::default();
        let mut copy = |out: &mut Vec<u8>, part: &[u8]| {
            copies.add(part.as_ptr().addr(), out.len() - start);
            out.extend_from_slice(part);
        };
        copy(out, self.rest.0);
        open_field(out, METADATA, self.metadata_len(digits));
        copy(out, self.metadata.0);
        push_field(out, RESOURCE_VERSION, digits);
        copy(out, self.metadata.1);
        copy(out, self.rest.1);
        copies
    }
}

/// `metadata` up to the revision, and after it; where it has none, where its number belongs.
fn around_version(metadata: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    let (mut found, mut place) = (None, metadata.len());
    let mut reader = Reader::new(metadata);
    loop {
        let before = metadata.len() - reader.rest().len();
        let Some((number, wire)) = reader.next()? else { break };
        if number == RESOURCE_VERSION {
            if !matches!(wire, WireValue::Bytes(_)) {
                return Err("its revision is not text");
            }
            if found.replace((&metadata[..before], reader.rest())).is_some() {
                return Err("its revision is there twice");
            }
        } else if number > RESOURCE_VERSION {
            place = place.min(before);
        }
    }
    Ok(found.unwrap_or_else(|| metadata.split_at(place)))
}

/// An object in protobuf as it is served: in its envelope, `metadata.resourceVersion` included.
#[derive(Clone, Copy, Debug)]
pub struct Protobuf<'a> {
    object: &'a [u8],
    of: &'a SharedType,
}

impl<'a> Protobuf<'a> {
    /// The whole object, in its envelope.
    #[must_use]
    pub const fn object(self) -> &'a [u8] {
        self.object
    }

    /// What the envelope holds.
    #[must_use]
    pub fn envelope(self) -> Envelope<'a> {
        // It was read before it was kept.
        Envelope::read(self.object).unwrap_or(Envelope { api_version: "", kind: "", message: b"" })
    }

    /// Appends the object with another revision: the last state of an object that was deleted.
    pub fn push_at(self, out: &mut Vec<u8>, revision: Revision) {
        let Envelope { api_version, kind, message } = self.envelope();
        let mut digits = [0; 20];
        let digits = decimal(revision.get(), &mut digits);
        match Places::of(message) {
            Ok(places) => Envelope::push(out, (api_version, kind), places.len(digits), |out| {
                places.push(out, digits);
            }),
            Err(_) => out.extend_from_slice(self.object),
        }
    }

    /// Appends the object as JSON.
    pub fn push_json(self, out: &mut Vec<u8>) {
        let Envelope { api_version, kind, message } = self.envelope();
        out.extend_from_slice(b"{\"kind\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"\",\"apiVersion\":\"");
        out.extend_from_slice(api_version.as_bytes());
        out.push(b'"');
        self.of.push_members(out, message);
        out.push(b'}');
    }

    /// Appends the object as JSON with another revision.
    pub fn push_json_at(self, out: &mut Vec<u8>, revision: Revision) {
        let mut object = Vec::with_capacity(self.object.len() + 20);
        self.push_at(&mut object, revision);
        Protobuf { object: &object, of: self.of }.push_json(out);
    }

    /// Appends the object as JSON without `kind` and `apiVersion`: an item of a list.
    pub fn push_bare_json(self, out: &mut Vec<u8>) {
        out.push(b'{');
        self.of.push_members(out, self.envelope().message);
        out.push(b'}');
    }

    /// The object as JSON.
    #[must_use]
    pub fn json(self) -> Cow<'a, [u8]> {
        let mut out = Vec::with_capacity(self.object.len() * 3 / 2 + 64);
        self.push_json(&mut out);
        out.into()
    }
}

impl Announced<SharedType> {
    pub(crate) fn protobuf(&self) -> Protobuf<'_> {
        Protobuf { object: self.object(), of: &self.of }
    }
}

/// The type of watch events on the wire.
const fn event_type(kind: MessageKind) -> &'static [u8] {
    match kind {
        MessageKind::Added => b"ADDED",
        MessageKind::Modified => b"MODIFIED",
        MessageKind::Deleted => b"DELETED",
        MessageKind::Bookmark => b"BOOKMARK",
    }
}

/// Appends a `WatchEvent` up to the object of so many bytes, which is appended next. Nothing follows it.
fn open_event(out: &mut Vec<u8>, what: &[u8], len: usize) {
    push_field(out, 1, what);
    open_field(out, 2, field_len(1, len));
    open_field(out, 1, len);
}

/// Appends the payload of a message about an object in its envelope.
pub fn push_event(out: &mut Vec<u8>, kind: MessageKind, object: &[u8]) {
    open_event(out, event_type(kind), object.len());
    out.extend_from_slice(object);
}

/// Appends the payload of the message with the reason why a watch ends: a Status in its envelope.
pub fn push_error(out: &mut Vec<u8>, status: &[u8]) {
    open_event(out, b"ERROR", status.len());
    out.extend_from_slice(status);
}

/// The message of this kind that announces `value`, as `revision` wrote it.
pub(super) fn announce(
    framing: &Framing,
    resource: &Resource,
    of: &SharedType,
    value: &[u8],
    revision: Revision,
    kind: MessageKind,
) -> Result<Announced<SharedType>, DecodeError> {
    let envelope = Envelope::read(value).map_err(|why| DecodeError::Message(why.to_owned()))?;
    DecodeError::of_envelope(resource, &envelope)?;
    let types = (envelope.api_version, envelope.kind);
    let completed = of.completed(envelope.message);
    let message = completed.as_deref().unwrap_or(envelope.message);
    let places = Places::of(message).map_err(|why| {
        // What the type says of the message is more.
        DecodeError::Message(of.read(message).err().unwrap_or_else(|| why.to_owned()))
    })?;
    let mut digits = [0; 20];
    let digits = decimal(revision.get(), &mut digits);
    let message_len = places.len(digits);
    let len = Envelope::len(types, message_len);
    let texts = of.read(message).map_err(DecodeError::Message)?;
    let mut draft = Draft::new(framing, len + BESIDE);
    open_event(draft.payload(), event_type(kind), len);
    let start = draft.len();
    Envelope::open(draft.payload(), types, message_len);
    let message_at = draft.len();
    let copies = places.push(draft.payload(), digits);
    Envelope::close(draft.payload());
    let object = start..draft.len();
    debug_assert_eq!(object.len(), len);
    let place = |text: &str| copies.place(text.as_ptr().addr())?.checked_add(message_at);
    let (made, table) = draft.finish_with(Some(&texts), place);
    Announced::new(made, kind, object, table.ok_or(DecodeError::TooLarge(len))?, of.clone())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::attributes::{AttributeTexts, FieldId};
    use crate::framing::tests::COUNTED;
    use crate::message_type::MessageType;
    use crate::resource::Field;

    /// Selectors see a few texts of it, wherever they stand.
    #[derive(Debug)]
    struct Texts;

    impl MessageType for Texts {
        fn read<'a>(&'a self, message: &'a [u8]) -> Result<AttributeTexts<'a>, String> {
            let find = |what: &str| {
                let at = message.windows(what.len()).position(|part| part == what.as_bytes());
                let part = at.map(|at| &message[at..at + what.len()]);
                part.and_then(|part| str::from_utf8(part).ok()).unwrap_or_default().into()
            };
            let fields = vec![find("name"), find("space"), find("front"), find("rest"), "default".into()];
            Ok(AttributeTexts::new(vec![(find("label"), find("value"))], fields))
        }

        fn push_members(&self, _: &mut Vec<u8>, _: &[u8]) {}
    }

    /// What stands on both sides of the revision, and of the metadata, is kept once.
    #[test]
    fn texts_that_stand_in_the_message_are_not_kept_twice() {
        let fields = ["front", "rest", "default"].map(Field::at).to_vec();
        let pods = Resource::new("v1", "Pod", true, fields);
        let of = SharedType::new(Texts);
        for version in [None, Some("9"), Some("1234567")] {
            for padding in [0, 70_000] {
                let mut metadata = Vec::new();
                push_field(&mut metadata, 1, b"name");
                push_field(&mut metadata, 3, b"space");
                version.into_iter().for_each(|it| push_field(&mut metadata, RESOURCE_VERSION, it.as_bytes()));
                push_field(&mut metadata, 11, b"label:value");
                let mut message = Vec::new();
                push_field(&mut message, 7, b"front");
                push_field(&mut message, METADATA, &metadata);
                push_field(&mut message, 2, &vec![b'.'; padding]);
                push_field(&mut message, 3, b"rest");
                let mut stored = Vec::new();
                Envelope::push(&mut stored, ("v1", "Pod"), message.len(), |out| out.extend(&message));
                let stored = Bytes::from(stored);
                let (revision, kind) = (Revision::new(123), MessageKind::Added);
                let made = announce(&COUNTED, &pods, &of, &stored, revision, kind).expect("it is read");
                let read = |id: u8| made.attributes().field(FieldId::new(id));
                assert_eq!(
                    (0..5).map(read).collect::<Vec<_>>(),
                    ["name", "space", "front", "rest", "default"].map(str::as_bytes)
                );
                assert_eq!(made.attributes().label(b"label"), Some(&b"value"[..]));
                let beside = made.own().bytes().len() - made.own().framed().len();
                let place = if padding == 0 { 4 } else { 8 };
                assert_eq!(beside, "default".len() + 7 * place, "{version:?} {padding}");
            }
        }
    }
}
