//! How events are shown to a watcher. The engine knows Kubernetes' JSON and protobuf; other shapes are the encoder's.

pub mod json;
mod protobuf;

use std::borrow::Cow;

use crate::codec::Value;
use crate::envelope;
use crate::framing::{BARE, Framing};
use crate::key::{Key, ResourceId};
use crate::message::MessageKind;
use crate::resource::{Codec, Resource};
use crate::revision::Revision;

/// How the events of one watch are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Encoding {
    /// The object as JSON.
    #[default]
    Json,
    /// The object as protobuf, in Kubernetes' envelope.
    Protobuf,
    /// What an [`Encode`] makes of it, in the encoder's own numbering.
    Other(u32),
}

impl Encoding {
    /// Whether values of a resource have this form. Where they have not, a watch is refused as it starts.
    pub(crate) fn shows(self, resource: &Resource, encoder: &dyn Encode) -> bool {
        match self {
            Self::Json => resource.codec == Codec::Kubernetes,
            Self::Protobuf => resource.codec == Codec::Kubernetes && resource.message.is_some(),
            Self::Other(encoding) => encoder.shows(encoding, resource),
        }
    }

    /// Appends the payload of one message. False: it is the reason why its watch ends.
    pub(crate) fn push(self, out: &mut Vec<u8>, encoder: &dyn Encode, event: Shown<'_>, first: bool) -> bool {
        match self {
            Self::Json => json::push(out, &event),
            Self::Protobuf => return protobuf::push(out, &event, encoder),
            Self::Other(encoding) => {
                let start = out.len();
                if let Err(why) = encoder.event(out, View { encoding, first, event }) {
                    out.truncate(start);
                    encoder.failure(out, self, &Failure::NotShown { why: &why });
                    return false;
                }
            }
        }
        true
    }
}

/// Turns events into messages of other shapes (a Table row, metadata alone). Implemented outside the engine.
///
/// It must be deterministic: a message that was sent by half is made again, and must come out the same.
pub trait Encode: Send + Sync + std::fmt::Debug {
    /// The framing that most watches in an encoding have: messages are made in it.
    fn framing(&self, _encoding: Encoding) -> &'static Framing {
        &BARE
    }

    /// Appends the payload of one message.
    ///
    /// # Errors
    /// Why the value has no such form, for the client; what was appended is dropped. The watch ends with it.
    fn event(&self, out: &mut Vec<u8>, view: View<'_>) -> Result<(), String>;

    /// Appends the payload of the message with the reason why a watch cannot continue; JSON by default.
    fn failure(&self, out: &mut Vec<u8>, _encoding: Encoding, failure: &Failure<'_>) {
        envelope::error(out, &json::status(failure));
    }

    /// Appends an object in JSON as protobuf, in its envelope.
    ///
    /// # Errors
    /// Why it has no such form, for the client.
    fn protobuf(&self, _out: &mut Vec<u8>, _resource: ResourceId, _json: &[u8]) -> Result<(), String> {
        Err("there is no form in protobuf".to_owned())
    }

    /// Whether it has a form for the values of a resource. A watch of others is refused at its start.
    fn shows(&self, _encoding: u32, resource: &Resource) -> bool {
        resource.codec == Codec::Kubernetes
    }

    /// Whether something may stand between two messages that is none of them, to keep an idle stream open.
    fn has_heartbeats(&self, _encoding: Encoding) -> bool {
        true
    }

    /// Whether the first message of a watch looks different (a Table names its columns once).
    fn first_differs(&self, encoding: u32) -> bool;
}

/// One event to be shown by an encoder.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The encoder's number.
    pub encoding: u32,
    /// Whether it is the first message of the watch, if [`Encode::first_differs`].
    pub first: bool,
    /// What is shown.
    pub event: Shown<'a>,
}

/// What one message shows.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// What happened.
    pub kind: MessageKind,
    /// What it happened to.
    pub subject: Subject<'a>,
    /// Of an object that is there: the revision that wrote it. Of one that is gone, or does not match any more: of the
    /// change that ended it. Of a bookmark: up to where.
    pub revision: Revision,
    /// Wall time of the event since the Unix epoch, in seconds: for ages.
    pub as_of_seconds: u64,
}

/// What a message is about.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// A state of an object: of one that was deleted, the last.
    Object {
        /// What it is called.
        key: &'a Key,
        /// As it is kept.
        value: Value<'a>,
    },
    /// Nothing: a bookmark.
    Bookmark {
        /// The first resource of the watch's scope; a scope may cover none.
        resource: Option<(ResourceId, &'a Resource)>,
        /// Whether it marks the end of the initial events (KEP-3157).
        initial_end: bool,
    },
}

impl<'a> Shown<'a> {
    /// What kind of object it is; of a bookmark see [`Subject::Bookmark`].
    #[must_use]
    pub fn resource(&self) -> Option<ResourceId> {
        match self.subject {
            Subject::Object { key, .. } => Some(key.resource()),
            Subject::Bookmark { resource, .. } => resource.map(|(id, _)| id),
        }
    }

    /// The object as JSON, with the revision that it is shown with; of a bookmark an empty object. `None`: the value has no
    /// such form.
    #[must_use]
    pub fn json(&self) -> Option<Cow<'a, [u8]>> {
        match self.subject {
            Subject::Object { value, .. } if self.kind != MessageKind::Deleted => value.json(),
            Subject::Object { .. } | Subject::Bookmark { .. } => {
                let mut out = Vec::new();
                json::push_object(&mut out, self).then_some(out.into())
            }
        }
    }
}

/// Why a watch cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure<'a> {
    /// The window does not reach back to its position: 410.
    Expired {
        /// The revision that it began after.
        asked: Revision,
        /// The newest revision whose events are forgotten.
        oldest: Revision,
    },
    /// A value that it covers cannot be served: 500, with Kubernetes' `StatusReasonStoreReadError`.
    Unreadable {
        /// Which value, what is wrong, and what to do.
        why: &'a str,
    },
    /// A value that it covers has no form in its encoding: 500 as well.
    NotShown {
        /// Which value, and why.
        why: &'a str,
    },
    /// The values of a resource that it covers have no form in its encoding: 500 as well.
    NoForm {
        /// The plural and the group.
        resource: &'a str,
    },
}

/// The encoder of an engine for JSON only.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonOnly;

impl Encode for JsonOnly {
    fn event(&self, out: &mut Vec<u8>, view: View<'_>) -> Result<(), String> {
        json::push(out, &view.event);
        Ok(())
    }

    fn first_differs(&self, _: u32) -> bool {
        false
    }
}
