//! A message: the payload of one watch event in one encoding, immutable and shared.
//!
//! Its bytes are in the framing that most watches have, so that they are sent as they are; watches with another framing
//! share the payload, which is a part of the same bytes.

use bytes::{Buf as _, Bytes};

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
    framed: Bytes,
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
        &self.framed[usize::from(self.head)..self.framed.len() - usize::from(self.tail)]
    }

    /// [`Message::payload`], shared.
    #[must_use]
    pub fn shared_payload(&self) -> Bytes {
        self.framed.slice(usize::from(self.head)..self.framed.len() - usize::from(self.tail))
    }

    /// The payload in the framing that it was made in.
    #[must_use]
    pub const fn framed(&self) -> &Bytes {
        &self.framed
    }
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
        let mut bytes = Vec::with_capacity(HEAD_MAX + capacity + framing.tail.len());
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

    pub(crate) fn finish(mut self) -> Message {
        let mut head: Head = [0; HEAD_MAX];
        let len = (self.framing.head)(self.len(), &mut head);
        self.bytes[..HEAD_MAX].copy_from_slice(&head);
        self.bytes.extend_from_slice(self.framing.tail);
        self.bytes.shrink_to_fit();
        let mut framed = Bytes::from(self.bytes);
        framed.advance(HEAD_MAX - len);
        let small = |len: usize| u8::try_from(len).expect("a framing adds a few bytes");
        Message { framed, head: small(len), tail: small(self.framing.tail.len()), ends: false }
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
        assert_eq!(&made(&COUNTED).framed()[..], b"9:an event\n;");
        assert_eq!(&made(&BARE).framed()[..], b"an event\n");
        for framing in [&COUNTED, &BARE] {
            assert_eq!(made(framing).payload(), b"an event\n");
            assert_eq!(made(framing).shared_payload(), made(framing).payload());
        }
    }
}
