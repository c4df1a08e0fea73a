//! How events are shown to a watcher. The engine knows Kubernetes' JSON; other shapes are the encoder's.

pub mod json;

use crate::framing::{BARE, Framing};
use crate::key::ResourceId;
use crate::message::MessageKind;
use crate::revision::Revision;

/// How the events of one watch are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Encoding {
    /// The object as it is, as JSON.
    #[default]
    Json,
    /// What an [`Encode`] makes of it, in the encoder's own numbering.
    Other(u32),
}

/// Turns events into messages of other shapes (a Table row, metadata alone). Implemented outside the engine.
///
/// It must be deterministic: a message that was sent by half is made again, and must come out the same.
pub trait Encode: Send + Sync + std::fmt::Debug {
    /// The framing that most watches have: messages are made in it.
    fn framing(&self) -> &'static Framing {
        &BARE
    }

    /// Appends the payload of one message.
    fn event(&self, out: &mut Vec<u8>, view: View<'_>);

    /// Appends the payload of the message that says why a watch cannot go on; JSON if nothing else is said.
    fn failure(&self, out: &mut Vec<u8>, _encoding: u32, failure: &Failure<'_>) {
        json::error(out, &json::status(failure));
    }

    /// Whether the first message of a watch looks different (a Table names its columns once).
    fn first_differs(&self, encoding: u32) -> bool;
}

/// One event to be shown.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The encoder's number.
    pub encoding: u32,
    /// What happened.
    pub kind: MessageKind,
    /// Whether it is the first message of the watch, when [`Encode::first_differs`] says that this matters.
    pub first: bool,
    /// What kind of object it is.
    pub resource: ResourceId,
    /// The object as JSON. Of a bookmark: its kind and its revision.
    pub json: &'a [u8],
    /// Wall time of the event since the Unix epoch, in seconds: for ages.
    pub as_of_seconds: u64,
}

/// Why a watch cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure<'a> {
    /// The window does not reach back to where it stood: 410.
    Expired {
        /// The revision that it began after.
        asked: Revision,
        /// The newest revision whose events are forgotten.
        oldest: Revision,
    },
    /// A value that it covers cannot be served: 500, with Kubernetes' `StatusReasonStoreReadError`.
    Unreadable {
        /// The plural and the group.
        resource: &'a str,
        /// Namespace and name.
        path: &'a str,
        /// What is wrong, and what to do.
        why: &'a str,
    },
}

/// The encoder of an engine that only speaks JSON.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonOnly;

impl Encode for JsonOnly {
    fn event(&self, out: &mut Vec<u8>, view: View<'_>) {
        json::event(out, view.kind, |out| out.extend_from_slice(view.json));
    }

    fn first_differs(&self, _: u32) -> bool {
        false
    }
}
