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

/// What goes around the payload of a draft, besides the tail of its framing.
#[derive(Debug)]
pub(crate) struct Around {
    head: Head,
    head_len: usize,
    /// The attributes of the object that it announces.
    behind: Vec<u8>,
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

    /// The payload so far.
    pub(crate) fn written(&self) -> &[u8] {
        &self.bytes[HEAD_MAX..]
    }

    /// What goes around the payload, which is complete. Nothing is behind the message.
    fn bare(&self) -> Around {
        let mut head = [0; HEAD_MAX];
        let head_len = (self.framing.head)(self.len(), &mut head);
        Around { head, head_len, behind: Vec::new() }
    }

    /// The same with what goes behind the message for its object to have these attributes. `place` returns where in the payload a
    /// text may stand. `None`: the message is too large.
    pub(crate) fn around(
        &self,
        texts: &AttributeTexts<'_>,
        place: impl Fn(&str) -> Option<usize>,
    ) -> Option<(Around, Table)> {
        let mut around = self.bare();
        let head = around.head_len;
        let before = head + self.len() + self.framing.tail.len();
        let table = texts.push(&mut around.behind, before, |text| {
            let at = place(text)?;
            let stands = self.written().get(at..)?.starts_with(text.as_bytes());
            stands.then_some(head + at)
        });
        u32::try_from(around.behind.len()).ok()?;
        Some((around, table?))
    }

    pub(crate) fn finish(self) -> Message {
        let around = self.bare();
        self.finish_with(&around)
    }

    /// The message, with this around its payload.
    pub(crate) fn finish_with(mut self, Around { head, head_len, behind }: &Around) -> Message {
        self.bytes[..HEAD_MAX].copy_from_slice(head);
        self.bytes.extend_from_slice(self.framing.tail);
        self.bytes.extend_from_slice(behind);
        let small = |len: usize| u8::try_from(len).expect("a framing adds a few bytes");
        let message = Message {
            bytes: Arc::from(&self.bytes[HEAD_MAX - head_len..]),
            behind: u32::try_from(behind.len()).expect("attributes are counted in 32 bits"),
            head: small(*head_len),
            tail: small(self.framing.tail.len()),
            ends: false,
        };
        if self.bytes.capacity() <= SPARE_MAX {
            self.bytes.clear();
            SPARE.set(self.bytes);
        }
        message
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
