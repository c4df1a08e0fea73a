//! Messages one after another in one framing, and what a partial send of them means.
//!
//! It owns the bytes that are offered to watchers together: the run of a class, or a page for watchers that lag.

use crate::framing::Framing;
use crate::message::Message;

/// What is offered to watchers in one call: whole messages in the framing of their class; the beginning of the first may
/// have been taken before.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    bytes: &'a [u8],
    /// Where each message ends.
    ends: &'a [usize],
    from: usize,
}

impl<'a> Run<'a> {
    /// Messages that end at `ends`, from byte `from` on.
    #[must_use]
    pub const fn new(bytes: &'a [u8], ends: &'a [usize], from: usize) -> Self {
        Self { bytes, ends, from }
    }

    /// The bytes offered.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        &self.bytes[self.from..]
    }

    /// Whether the beginning of the first message was taken before.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.from > 0 && self.ends.binary_search(&self.from).is_err()
    }

    /// Length of the first messages that fill `max` bytes, the last of them complete. All of it, if it is not longer.
    #[must_use]
    pub fn page(&self, max: usize) -> usize {
        let end = self.ends.iter().find(|end| **end >= self.from + max);
        end.map_or(self.bytes.len(), |end| *end) - self.from
    }
}

/// Messages in one buffer, and where each ends. Reused.
#[derive(Debug, Default)]
pub(crate) struct MessageRun {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// A single message is offered without a copy.
    single: Option<Message>,
}

impl MessageRun {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.single = None;
    }

    /// Bytes that its buffers hold.
    pub(crate) const fn capacity(&self) -> usize {
        self.bytes.capacity() + size_of::<usize>() * self.ends.capacity()
    }

    /// Whether it holds no message.
    pub(crate) const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all messages.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Sets the only message, without a copy. It is in the framing.
    pub(crate) fn set_single(&mut self, message: Message) {
        self.clear();
        self.ends.push(message.framed().len());
        self.single = Some(message);
    }

    /// Adds a message that is in the framing.
    #[inline]
    pub(crate) fn push_framed(&mut self, framed: &[u8]) {
        self.bytes.extend_from_slice(framed);
        self.ends.push(self.bytes.len());
    }

    /// Adds a payload.
    pub(crate) fn push(&mut self, framing: &Framing, payload: &[u8]) {
        framing.push(&mut self.bytes, payload);
        self.ends.push(self.bytes.len());
    }

    /// Adds a payload that `write` appends. Returns what that returns.
    pub(crate) fn push_with<T>(&mut self, framing: &Framing, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let written = framing.push_with(&mut self.bytes, write);
        self.ends.push(self.bytes.len());
        written
    }

    /// Takes the last message back.
    pub(crate) fn drop_last(&mut self) {
        self.ends.pop();
        self.bytes.truncate(self.len());
    }

    /// Where a message begins.
    pub(crate) fn start_of(&self, number: usize) -> usize {
        number.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    /// The message that contains byte `at`: its number, and the offset within it. `None`: it is the end.
    pub(crate) fn locate(&self, at: usize) -> Option<(usize, usize)> {
        let number = self.ends.partition_point(|end| *end <= at);
        (number < self.ends.len()).then(|| (number, at - self.start_of(number)))
    }

    /// The bytes from `at` to where its message ends.
    pub(crate) fn rest_of(&self, at: usize) -> &[u8] {
        let end = self.ends[self.ends.partition_point(|end| *end <= at)];
        &self.single.as_ref().map_or(&*self.bytes, Message::framed)[at..end]
    }

    /// The bytes to offer, from byte `from` on.
    pub(crate) fn offer(&self, from: usize) -> Run<'_> {
        Run::new(self.single.as_ref().map_or(&*self.bytes, Message::framed), &self.ends, from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::BARE;
    use crate::framing::tests::COUNTED;

    #[test]
    fn a_partial_send_is_located() {
        let mut run = MessageRun::default();
        run.push_framed(b"abc");
        run.push(&BARE, b"de");
        run.push_with(&COUNTED, |out| out.extend_from_slice(b"f"));
        assert_eq!((run.offer(0).bytes(), run.len()), (&b"abcde1:f;"[..], 9));
        let at = |number, within| Some((number, within));
        let all: Vec<_> = (0..7).map(|taken| run.locate(taken)).collect();
        assert_eq!(all, [at(0, 0), at(0, 1), at(0, 2), at(1, 0), at(1, 1), at(2, 0), at(2, 1)]);
        assert_eq!((run.locate(9), run.start_of(2), run.rest_of(4)), (None, 5, &b"e"[..]));
        run.set_single(Message::new(&BARE, 5, |out| out.extend_from_slice(b"whole")));
        assert_eq!(
            (run.offer(2).bytes(), run.locate(4), run.rest_of(2)),
            (&b"ole"[..], at(0, 4), &b"ole"[..])
        );
        run.clear();
        assert_eq!((run.offer(0).bytes(), run.locate(0), run.len()), (&b""[..], None, 0));
    }

    #[test]
    fn whole_messages_are_taken_a_page_at_a_time() {
        let mut run = MessageRun::default();
        for len in [30, 30, 30, 100, 10] {
            run.push_framed(&vec![b'x'; len]);
        }
        let pages = |from: usize| run.offer(from).page(64);
        assert_eq!((pages(0), pages(30), pages(90), pages(190)), (90, 160, 100, 10));
        assert!(!run.offer(0).is_begun() && !run.offer(30).is_begun() && run.offer(31).is_begun());
    }
}
