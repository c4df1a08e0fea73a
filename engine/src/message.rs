//! A message: the payload of one watch event in one encoding, immutable and shared.
//!
//! Its bytes are in the framing that most watches have, so that they are sent as they are; watches with another framing
//! share the payload, which is a part of the same bytes.

use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;

use crate::attributes::{AttributeTexts, Table};
use crate::framing::{Framing, HEAD_MAX, Head};

/// What a message reports about its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MessageKind {
    /// It began to match, or is part of the initial state.
    Added,
    /// It matched and still does.
    Modified,
    /// It no longer matches, or was deleted.
    Deleted,
    /// Nothing of interest happened up to its revision.
    Bookmark,
}

/// The payload of one watch event, with the framing that it was made in.
#[derive(Clone, Debug)]
pub struct Message {
    bytes: Arc<[u8]>,
    /// Bytes behind the message: the attributes of the object that it announces.
    behind: u32,
    head: u8,
    tail: u8,
    /// It is the reason why a watch ends.
    ends: bool,
}

impl Message {
    /// A message with the payload that `write` appends; `capacity`: its expected size in bytes.
    pub fn new(framing: &Framing, capacity: usize, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut draft = Draft::new(framing, capacity);
        write(draft.payload());
        draft.finish()
    }

    /// The same payload in another framing.
    pub(crate) fn reframed(&self, framing: &Framing) -> Self {
        let payload = self.payload();
        Self::new(framing, payload.len(), |out| out.extend_from_slice(payload)).ending(self.ends)
    }

    /// The same, as the last one of a watch.
    pub(crate) fn ending(mut self, ends: bool) -> Self {
        self.ends = ends;
        self
    }

    /// Whether a watch ends with it.
    pub(crate) const fn ends(&self) -> bool {
        self.ends
    }

    /// The payload alone.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        let framed = self.framed();
        &framed[usize::from(self.head)..framed.len() - usize::from(self.tail)]
    }

    /// [`Message::payload`], shared.
    #[must_use]
    pub fn shared_payload(&self) -> Bytes {
        let framed = self.shared();
        framed.slice(usize::from(self.head)..framed.len() - usize::from(self.tail))
    }

    /// The payload in the framing that it was made in.
    #[must_use]
    #[inline]
    pub fn framed(&self) -> &[u8] {
        &self.bytes[..self.bytes.len() - self.behind as usize]
    }

    /// [`Message::framed`], shared.
    #[must_use]
    pub fn shared(&self) -> Bytes {
        Bytes::from_owner(Arc::clone(&self.bytes)).slice(..self.framed().len())
    }

    /// The message, and what is behind it.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A buffer up to this size is kept for the next draft.
const SPARE_MAX: usize = 64 << 10;

thread_local! {
    /// The buffer of this thread's last draft: a message is a copy of exactly its bytes.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A message under construction.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    framing: &'a Framing,
    /// Room for the head, then the payload.
    bytes: Vec<u8>,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(framing: &'a Framing, capacity: usize) -> Self {
        let mut bytes = SPARE.take();
        bytes.reserve(HEAD_MAX + capacity + framing.tail.len());
        bytes.extend_from_slice(&[0; HEAD_MAX]);
        Self { framing, bytes }
    }

    /// The buffer to append the payload to. The bytes before it must stay.
    pub(crate) const fn payload(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Bytes of payload so far.
    pub(crate) const fn len(&self) -> usize {
        self.bytes.len() - HEAD_MAX
    }

    pub(crate) fn finish(self) -> Message {
        self.finish_with(None, |_| None).0
    }

    /// The message, with the attributes of its object behind it, if they are given; `place` returns where in the payload one of them
    /// may stand. No table: there are none, or the message is too large for them.
    pub(crate) fn finish_with(
        mut self,
        attributes: Option<&AttributeTexts<'_>>,
        place: impl Fn(&str) -> Option<usize>,
    ) -> (Message, Option<Table>) {
        let payload = HEAD_MAX..self.bytes.len();
        let mut head: Head = [0; HEAD_MAX];
        let len = (self.framing.head)(payload.len(), &mut head);
        self.bytes[..HEAD_MAX].copy_from_slice(&head);
        self.bytes.extend_from_slice(self.framing.tail);
        let first = HEAD_MAX - len;
        let mut behind = Vec::new();
        let table = attributes.and_then(|texts| {
            texts.push(&mut behind, self.bytes.len() - first, |text| {
                let at = place(text)?;
                let stands = self.bytes[payload.clone()].get(at..)?.starts_with(text.as_bytes());
                stands.then_some(len + at)
            })
        });
        self.bytes.extend_from_slice(&behind);
        let behind_len = u32::try_from(behind.len()).ok();
        let small = |len: usize| u8::try_from(len).expect("a framing adds a few bytes");
        let message = Message {
            bytes: Arc::from(&self.bytes[first..]),
            behind: behind_len.unwrap_or_default(),
            head: small(len),
            tail: small(self.framing.tail.len()),
            ends: false,
        };
        if self.bytes.capacity() <= SPARE_MAX {
            self.bytes.clear();
            SPARE.set(self.bytes);
        }
        (message, table.filter(|_| behind_len.is_some()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::BARE;
    use crate::framing::tests::COUNTED;

    #[test]
    fn a_message_is_its_payload_and_what_stands_around_it() {
        let made = |framing| Message::new(framing, 3, |out| out.extend_from_slice(b"an event\n"));
        assert_eq!(made(&COUNTED).framed(), b"9:an event\n;");
        assert_eq!(made(&BARE).framed(), b"an event\n");
        for framing in [&COUNTED, &BARE] {
            assert_eq!(made(framing).payload(), b"an event\n");
            assert_eq!(made(framing).shared_payload(), made(framing).payload());
        }
    }
}
