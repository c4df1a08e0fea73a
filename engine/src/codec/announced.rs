//! An object as a part of the message that announces it.

use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;

use super::DecodeError;
use crate::attributes::{Attributes, Table};
use crate::framing::Framing;
use crate::message::{Message, MessageKind};

/// One allocation: the object is served from within the message of the event that made it. `T`: what else is known of it.
#[derive(Debug)]
pub(crate) struct Announced<T> {
    message: Message,
    kind: MessageKind,
    /// Where the object begins in the payload, and how many bytes follow it.
    start: u32,
    after: u8,
    table: Table,
    pub(super) of: T,
    /// The message that adds it, when its own is another: see [`Announced::added`].
    added: OnceLock<Box<Message>>,
}

impl<T> Announced<T> {
    /// The object that is this part of the message's payload, and whose attributes are behind the message.
    pub(super) fn new(
        message: Message,
        kind: MessageKind,
        object: Range<usize>,
        table: Table,
        of: T,
    ) -> Result<Self, DecodeError> {
        let after = message.payload().len() - object.end;
        match (u32::try_from(object.start), u8::try_from(after), u32::try_from(object.end)) {
            (Ok(start), Ok(after), Ok(_)) => {
                Ok(Self { message, kind, start, after, table, of, added: OnceLock::new() })
            }
            _ => Err(DecodeError::TooLarge(object.len())),
        }
    }

    #[inline]
    pub(crate) fn attributes(&self) -> Attributes<'_> {
        self.table.of(self.message.bytes())
    }

    pub(super) fn object(&self) -> &[u8] {
        let payload = self.message.payload();
        &payload[self.start as usize..payload.len() - usize::from(self.after)]
    }

    /// The object, shared.
    pub(crate) fn shared_object(&self) -> Bytes {
        let payload = self.message.shared_payload();
        payload.slice(self.start as usize..payload.len() - usize::from(self.after))
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
    /// `push` appends the payload of a message about an object.
    pub(crate) fn added(&self, framing: &Framing, push: fn(&mut Vec<u8>, MessageKind, &[u8])) -> &Message {
        self.message(MessageKind::Added).unwrap_or_else(|| {
            self.added.get_or_init(|| {
                let object = self.object();
                let make = |out: &mut Vec<u8>| push(out, MessageKind::Added, object);
                Box::new(Message::new(framing, object.len() + 64, make))
            })
        })
    }
}

/// Which parts of a text or message were copied where its revision was spliced in, and where to: at most four.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Where they begin, by offset or by address, and the offset of their copies. Both grow.
    begin: [(usize, usize); 4],
    len: usize,
}

impl Copies {
    pub(super) fn add(&mut self, from: usize, to: usize) {
        self.begin[self.len] = (from, to);
        self.len += 1;
    }

    /// Where the copy of a byte is, if nothing before it in its part got longer.
    pub(super) fn place(&self, at: usize) -> Option<usize> {
        let (from, to) = self.begin[..self.len].iter().rfind(|(from, _)| *from <= at)?;
        Some(to.saturating_add(at - from))
    }
}
