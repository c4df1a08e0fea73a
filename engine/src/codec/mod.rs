//! How stored values are read: a codec turns a value into attributes, and into what is kept of it.
//!
//! It owns the view of a value that is kept. A resource has one codec: its row of the schema names it ([`Codec`]). Kubernetes
//! objects are JSON or protobuf: each value says by its first bytes which. Another form of Kubernetes' objects is a module here, and a
//! variant of `Form`, `Kept`, `ReadValue` and [`Value`]; `object` matches what is kept, and those who show a value (`encoding`, the server's
//! replies) the last one: `server/ARCHITECTURE.md` has the list. Only values that are no Kubernetes objects want another [`Codec`]. A codec knows neither earlier values of a key nor its readers.

mod announced;
mod error;
mod json;
pub mod protobuf;

use std::borrow::Cow;

use bytes::Bytes;

use crate::attributes::Attributes;
use crate::framing::{BARE, Framings};
use crate::message::MessageKind;
use crate::message_type::SharedType;
use crate::resource::{Codec, Resource};
use crate::revision::Revision;

pub(crate) use announced::Announced;
pub use error::{DecodeError, Reason};
pub use json::Json;
use json::ReadJson;
pub(crate) use json::{Places, push_event as push_json_event};
pub use protobuf::Protobuf;

/// A value as it is kept.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// Of [`Codec::Kubernetes`], in JSON.
    Json(Json<'a>),
    /// Of [`Codec::Kubernetes`], in protobuf.
    Protobuf(Protobuf<'a>),
    /// Of [`Codec::Opaque`]: as it is stored.
    Opaque(&'a Bytes),
    /// None that its codec understands: as it is stored.
    Unreadable(Codec, &'a Bytes),
}

impl<'a> Value<'a> {
    /// The codec of the resource.
    #[must_use]
    pub const fn codec(self) -> Codec {
        match self {
            Self::Json(_) | Self::Protobuf(_) => Codec::Kubernetes,
            Self::Opaque(_) => Codec::Opaque,
            Self::Unreadable(codec, _) => codec,
        }
    }

    /// What is kept: of a readable object what is served, of all others what is stored.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Json(json) => json.text(),
            Self::Protobuf(protobuf) => protobuf.object(),
            Self::Opaque(bytes) | Self::Unreadable(_, bytes) => bytes,
        }
    }

    /// The whole object as JSON, made if it is kept in another form; `None`: it has no such form.
    #[must_use]
    pub fn json(self) -> Option<Cow<'a, [u8]>> {
        match self {
            Self::Json(json) => Some(json.text().into()),
            Self::Protobuf(protobuf) => Some(protobuf.json()),
            Self::Opaque(_) | Self::Unreadable(..) => None,
        }
    }
}

/// What is kept of a value.
#[derive(Debug)]
pub(crate) enum Kept {
    Json(Announced<Places>),
    Protobuf(Announced<SharedType>),
    Opaque(Bytes),
}

impl Kept {
    /// Labels and selectable fields.
    #[inline]
    pub(crate) fn attributes(&self) -> Attributes<'_> {
        match self {
            Self::Json(announced) => announced.attributes(),
            Self::Protobuf(announced) => announced.attributes(),
            Self::Opaque(_) => Attributes::default(),
        }
    }
}

/// A value as its codec read it, before it has a revision: made where a value is checked, to show what a write of it makes, and, if
/// [`Reading::spares_a_read`], to publish it. Of one resource and one value.
#[derive(Debug)]
pub struct Reading(ReadValue);

#[derive(Debug)]
enum ReadValue {
    Json(ReadJson),
    /// The lengths of what is around its revision depend on it, so it is read again when it has one.
    Protobuf(Announced<SharedType>, Bytes),
    Opaque(Bytes),
}

impl Reading {
    /// Whether whoever has the reading need not read the value to publish it. Not so of protobuf.
    #[must_use]
    pub const fn spares_a_read(&self) -> bool {
        match self.0 {
            ReadValue::Json(_) | ReadValue::Opaque(_) => true,
            ReadValue::Protobuf(..) => false,
        }
    }

    /// Appends the object as JSON, as the write of this revision makes it; of an opaque value its bytes. `resource` is that of the
    /// reading.
    pub fn push_json_at(&self, resource: &Resource, revision: Revision, out: &mut Vec<u8>) {
        match &self.0 {
            ReadValue::Json(reading) => reading.push_at(resource, revision, out),
            ReadValue::Protobuf(announced, _) => announced.protobuf().push_json_at(out, revision),
            ReadValue::Opaque(bytes) => out.extend_from_slice(bytes),
        }
    }
}

/// The decoders of all codecs, for one value after another: their buffers are reused. A publisher has one.
#[derive(Debug)]
pub struct Decoder {
    json: json::Decoder,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder with no buffer grown yet.
    #[must_use]
    pub fn new() -> Self {
        Self { json: json::Decoder::new() }
    }

    /// What is kept of a value that `revision` wrote. A codec whose values are kept within a message has
    /// it made in the framing of its encoding, of this kind. A value with a reading is not read again, unless it is in protobuf.
    pub(crate) fn decode(
        &mut self,
        framings: Framings,
        resource: &Resource,
        (value, reading): (&Bytes, Option<&Reading>),
        revision: Revision,
        kind: MessageKind,
    ) -> Result<Kept, DecodeError> {
        let mut value = value;
        match reading.map(|reading| &reading.0) {
            None => {}
            Some(ReadValue::Json(read)) => {
                return read.ready().announce(framings.json, resource, revision, kind).map(Kept::Json);
            }
            Some(ReadValue::Protobuf(_, read)) => value = read,
            Some(ReadValue::Opaque(bytes)) => return Ok(Kept::Opaque(bytes.clone())),
        }
        let mut converted = None;
        loop {
            let value = converted.as_ref().unwrap_or(value);
            let kept = match Form::of(resource, value) {
                Form::Json => self
                    .json
                    .read(resource, value)
                    .and_then(|ready| ready.announce(framings.json, resource, revision, kind))
                    .map(Kept::Json),
                Form::Protobuf(of) => {
                    let framing = framings.protobuf;
                    protobuf::announce(framing, resource, of, value, revision, kind).map(Kept::Protobuf)
                }
                Form::Opaque => Ok(Kept::Opaque(value.clone())),
            };
            match &kept {
                // Once: then it is of the resource's version.
                Err(error) if converted.is_none() => match convert(resource, error, value) {
                    Some(other) => converted = Some(other),
                    None => return kept,
                },
                Ok(_) | Err(_) => return kept,
            }
        }
    }

    /// Reads a value that a writer gave, without a revision.
    ///
    /// # Errors
    /// What [`Unreadable::error`](crate::object::Unreadable::error) would be of an object with this value.
    pub fn read(&mut self, resource: &Resource, value: &Bytes) -> Result<Reading, DecodeError> {
        let own = self.read_own(resource, value);
        let Err(error) = &own else { return own };
        match convert(resource, error, value) {
            Some(value) => self.read_own(resource, &value),
            None => own,
        }
    }

    fn read_own(&mut self, resource: &Resource, value: &Bytes) -> Result<Reading, DecodeError> {
        let (revision, kind) = (Revision::ZERO, MessageKind::Added);
        Ok(Reading(match Form::of(resource, value) {
            Form::Json => ReadValue::Json(ReadJson::new(value, self.json.read(resource, value)?)),
            Form::Protobuf(of) => {
                let announced = protobuf::announce(&BARE, resource, of, value, revision, kind)?;
                ReadValue::Protobuf(announced, value.clone())
            }
            Form::Opaque => ReadValue::Opaque(value.clone()),
        }))
    }
}

/// The form of a value.
enum Form<'a> {
    Json,
    Protobuf(&'a SharedType),
    Opaque,
}

impl<'a> Form<'a> {
    /// A Kubernetes object is in protobuf if it is marked so and its type is known.
    fn of(resource: &'a Resource, value: &[u8]) -> Self {
        match (resource.codec, &resource.message) {
            (Codec::Kubernetes, Some(of)) if value.starts_with(protobuf::PREFIX) => Self::Protobuf(of),
            (Codec::Kubernetes, _) => Self::Json,
            (Codec::Opaque, _) => Self::Opaque,
        }
    }
}

/// A value that is unreadable for being of another version, in the version of its resource.
fn convert(resource: &Resource, error: &DecodeError, value: &[u8]) -> Option<Bytes> {
    let versions = resource.versions.as_ref()?;
    let is_other = matches!(error, DecodeError::OtherVersion { .. } | DecodeError::OtherType { .. });
    is_other.then(|| versions.convert(value)).flatten().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::{AttributeTexts, OwnAttributes};
    use crate::other_versions::{OtherVersions, SharedVersions};

    /// Knows one older version of config maps.
    #[derive(Debug)]
    struct Older;

    impl OtherVersions for Older {
        fn convert(&self, value: &[u8]) -> Option<Vec<u8>> {
            let text = std::str::from_utf8(value).ok()?;
            text.contains("\"v0\"").then(|| text.replace("\"v0\"", "\"v1\"").into())
        }
    }

    #[test]
    fn values_of_other_versions_are_kept_in_that_of_the_resource() {
        let plain = Resource::new("v1", "ConfigMap", true, vec![]);
        let versioned = plain.clone().with_versions(SharedVersions::new(Older));
        let old = r#"{"kind":"ConfigMap","apiVersion":"v0","metadata":{"labels":{"a":"b"}}}"#;
        let strange = r#"{"kind":"ConfigMap","apiVersion":"v9","metadata":{}}"#;
        let read = |resource: &Resource, value: &'static str| {
            let framings = Framings { json: &BARE, protobuf: &BARE };
            let value = Bytes::from_static(value.as_bytes());
            Decoder::new().decode(framings, resource, (&value, None), Revision::new(7), MessageKind::Added)
        };
        assert!(matches!(read(&plain, old), Err(DecodeError::OtherVersion { .. })));
        let Ok(Kept::Json(kept)) = read(&versioned, old) else { panic!("it is kept as JSON") };
        // What is read first is of the version of the resource, too.
        let reading = Decoder::new().read(&versioned, &Bytes::from_static(old.as_bytes())).expect("readable");
        let framings = Framings { json: &BARE, protobuf: &BARE };
        let (revision, kind) = (Revision::new(7), MessageKind::Added);
        let unread = (&Bytes::new(), Some(&reading));
        let later = Decoder::new().decode(framings, &versioned, unread, revision, kind);
        let Ok(Kept::Json(later)) = later else { panic!("it is kept as JSON") };
        assert_eq!((later.own().bytes(), reading.spares_a_read()), (kept.own().bytes(), true));
        let mut pushed = Vec::new();
        reading.push_json_at(&versioned, revision, &mut pushed);
        assert_eq!(pushed, kept.json().text());
        let shown =
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"7","labels":{"a":"b"}}}"#;
        assert_eq!(String::from_utf8_lossy(kept.json().text()), shown);
        let texts = AttributeTexts::new(vec![("a".into(), "b".into())], vec!["".into(), "".into()]);
        assert_eq!(kept.attributes(), OwnAttributes::new(&texts).get());
        let Err(error) = read(&versioned, strange) else { panic!("it is unreadable") };
        assert!(error.to_string().contains("is of type v9 ConfigMap"), "{error}");
    }
}
