//! How stored values are read: a codec turns a value into attributes, and into what is kept of it.
//!
//! It owns the view of a value that is kept. A resource has one codec: its row of the schema names it ([`Codec`]). Another
//! codec is a module here, and a variant of [`Codec`], `Kept` and [`Value`]. Of what moves events only the choice of messages
//! that are made in advance depends on it. It knows neither earlier values of a key nor its readers.

mod error;
mod json;

use bytes::Bytes;

use crate::attributes::Attributes;
use crate::framing::Framing;
use crate::message::MessageKind;
use crate::resource::{Codec, Resource};
use crate::revision::Revision;

pub use error::DecodeError;
pub(crate) use json::Announced;
pub use json::Json;

/// A value as it is kept.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// Of [`Codec::Json`].
    Json(Json<'a>),
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
            Self::Json(_) => Codec::Json,
            Self::Opaque(_) => Codec::Opaque,
            Self::Unreadable(codec, _) => codec,
        }
    }

    /// What is kept: of a readable JSON object the text that is served, of all others what is stored.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Json(json) => json.text(),
            Self::Opaque(bytes) | Self::Unreadable(_, bytes) => bytes,
        }
    }

    /// The value for a reader of JSON; `None`: it has no such form.
    #[must_use]
    pub const fn json(self) -> Option<Json<'a>> {
        match self {
            Self::Json(json) => Some(json),
            Self::Opaque(_) | Self::Unreadable(..) => None,
        }
    }
}

/// What is kept of a value.
#[derive(Debug)]
pub(crate) enum Kept {
    Json(Announced),
    Opaque(Bytes),
}

/// The decoders of all codecs, for one value after another: their buffers are reused. One per publisher.
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

    /// Whether `value` would be accepted from a store; for a check before a write.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&mut self, resource: &Resource, value: &[u8]) -> Result<(), DecodeError> {
        match resource.codec {
            Codec::Json => self.json.check(resource, value),
            Codec::Opaque => Ok(()),
        }
    }

    /// What is kept of a value that `revision` wrote, and its attributes. A codec whose values are kept within a message has
    /// it made in this framing, of this kind.
    pub(crate) fn decode(
        &mut self,
        framing: &Framing,
        resource: &Resource,
        value: &Bytes,
        revision: Revision,
        kind: MessageKind,
    ) -> Result<(Kept, Attributes), DecodeError> {
        match resource.codec {
            Codec::Json => {
                let (announced, attributes) = self.json.announce(framing, resource, value, revision, kind)?;
                Ok((Kept::Json(announced), attributes))
            }
            Codec::Opaque => Ok((Kept::Opaque(value.clone()), Attributes::default())),
        }
    }
}
