//! A JSON object as a part of the message that announces it.

use std::ops::Range;
use std::sync::OnceLock;

use super::{Json, Places};
use bytes::Bytes;

use crate::envelope;
use crate::framing::Framing;
use crate::message::{Message, MessageKind};

/// One allocation: the object is served from within the message of the event that made it.
#[derive(Debug)]
pub(crate) struct Announced {
    message: Message,
    kind: MessageKind,
    /// The object within the payload.
    object: Range<u32>,
    places: Places,
    /// The message that adds it, when its own is another: see [`Announced::added`].
    added: OnceLock<Box<Message>>,
}

impl Announced {
    pub(super) const fn new(message: Message, kind: MessageKind, object: Range<u32>, places: Places) -> Self {
        Self { message, kind, object, places, added: OnceLock::new() }
    }

    pub(crate) fn json(&self) -> Json<'_> {
        let text = &self.message.payload()[self.object.start as usize..self.object.end as usize];
        Json { text, places: &self.places }
    }

    /// The text, shared.
    pub(crate) fn shared_text(&self) -> Bytes {
        self.message.shared_payload().slice(self.object.start as usize..self.object.end as usize)
    }

    /// The message of the event that made this state.
    pub(crate) const fn own(&self) -> &Message {
        &self.message
    }

    /// The same, when it is of this kind.
    #[inline]
    pub(crate) fn message(&self, kind: MessageKind) -> Option<&Message> {
        (self.kind == kind).then_some(&self.message)
    }

    /// The message that adds it, shared by all callers: watches that end within it keep its rest, however many they are.
    pub(crate) fn added(&self, framing: &Framing) -> &Message {
        self.message(MessageKind::Added).unwrap_or_else(|| {
            self.added.get_or_init(|| {
                let text = self.json().text();
                let make = |out: &mut Vec<u8>| {
                    envelope::event(out, MessageKind::Added, |out| out.extend_from_slice(text));
                };
                Box::new(Message::new(framing, text.len() + 64, make))
            })
        })
    }
}
