//! The client's end of a stream: a strict reader of one wire's framing, which does not know the content of messages.

use super::fault::{Checked, Promise, broken};
use super::wire::{Front, Wire};

/// Received bytes that are not a whole message yet.
#[derive(Debug)]
pub(crate) struct Stream {
    wire: Wire,
    /// Messages are not lines of text.
    binary: bool,
    pending: Vec<u8>,
    finished: bool,
}

impl Stream {
    pub(crate) const fn new(wire: Wire, binary: bool) -> Self {
        Self { wire, binary, pending: Vec::new(), finished: false }
    }

    pub(crate) const fn wire(&self) -> Wire {
        self.wire
    }

    /// Whether it was ended.
    pub(crate) const fn finished(&self) -> bool {
        self.finished
    }

    /// Whether the last byte that arrived ended a message.
    pub(crate) fn at_boundary(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether the last byte that arrived is before a payload.
    pub(crate) fn is_within_head(&self) -> bool {
        self.wire.is_within_head(&self.pending)
    }

    /// The same wire, with nothing received yet.
    pub(crate) const fn again(&self) -> Self {
        Self::new(self.wire, self.binary)
    }

    /// Takes bytes and passes every whole line to `line`, without its newline; of binary messages the payload.
    pub(crate) fn receive(&mut self, bytes: &[u8], mut line: impl FnMut(&[u8]) -> Checked) -> Checked {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.finished {
            return broken(Promise::Stream, "bytes after the end");
        }
        self.pending.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(Front { start, end, next }) = self.wire.front(&self.pending[at..])? {
            if self.binary {
                line(&self.pending[at + start..at + end])?;
                at += next;
                continue;
            }
            let Some((b'\n', text)) = self.pending[at + start..at + end].split_last() else {
                return broken(Promise::Stream, "a message that is not one line");
            };
            if text.is_empty() || text.contains(&b'\n') || text.contains(&b'\r') {
                return broken(Promise::Stream, "a message with no line, or with more than one");
            }
            line(text)?;
            at += next;
        }
        self.pending.drain(..at);
        Ok(())
    }

    /// Nothing arrives any more.
    pub(crate) fn finish(&mut self) -> Checked {
        if self.finished {
            return broken(Promise::Stream, "a second end");
        }
        if !self.at_boundary() {
            return broken(Promise::Stream, "an end within a message");
        }
        self.finished = true;
        Ok(())
    }

    /// After how many of `offered` bytes a message would be complete, for each message that would be.
    pub(crate) fn boundaries(&self, offered: &[u8]) -> Vec<usize> {
        let all = [&self.pending[..], offered].concat();
        let mut found = Vec::new();
        let mut at = 0;
        while let Ok(Some(front)) = self.wire.front(&all[at..]) {
            at += front.next;
            found.push(at - self.pending.len());
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::fault::Fault;
    use super::*;

    const CHUNKS: &[u8] = b"3\r\nab\n\r\na\r\n123456789\n\r\n";
    const PREFIXES: &[u8] = b"\0\0\0\x03ab\n\0\0\0\x0a123456789\n";
    const LINES: &[u8] = b"ab\n123456789\n";

    fn lines(stream: &mut Stream, bytes: &[u8]) -> Result<Vec<String>, Fault> {
        let mut lines = Vec::new();
        stream.receive(bytes, |line| {
            lines.push(String::from_utf8_lossy(line).into_owned());
            Ok(())
        })?;
        Ok(lines)
    }

    #[test]
    fn messages_come_in_any_pieces() {
        for (wire, bytes) in [(Wire::Chunked, CHUNKS), (Wire::Prefixed, PREFIXES), (Wire::Bare, LINES)] {
            let boundaries = Stream::new(wire, false).boundaries(bytes);
            for cut in 0..bytes.len() {
                let mut stream = Stream::new(wire, false);
                let mut got = lines(&mut stream, &bytes[..cut]).expect("good");
                assert_eq!(stream.at_boundary(), cut == 0 || boundaries.contains(&cut), "{wire:?} at {cut}");
                got.extend(lines(&mut stream, &bytes[cut..]).expect("good"));
                assert_eq!(got, ["ab", "123456789"]);
                assert!(stream.at_boundary() && !stream.finished());
                stream.finish().expect("between two messages");
                assert!(stream.finished());
            }
        }
        let boundaries = |wire, bytes| Stream::new(wire, false).boundaries(bytes);
        assert_eq!(boundaries(Wire::Chunked, CHUNKS), [8, 23]);
        assert_eq!(boundaries(Wire::Prefixed, PREFIXES), [7, 21]);
        assert_eq!(boundaries(Wire::Bare, LINES), [3, 13]);
    }

    #[test]
    fn faults_are_found() {
        let chunked: [&[u8]; 12] = [
            b"x",
            b"\r\n",
            b"03\r\nab\n\r\n",
            b"3 \r\nab\n\r\n",
            b"3\nab\n\r\n",
            b"3\r\nab\nX\r\n",
            b"2\r\nab\r\n",
            b"3\r\na\n\n\r\n",
            b"3\r\na\r\n\r\n",
            b"1\r\n\n\r\n",
            b"1\r\n \r\n",
            b"0\r\n\r\n",
        ];
        let prefixed: [&[u8]; 4] = [b"\xff\0\0\x03ab\n", b"\0\0\0\0", b"\0\0\0\x02ab", b"\0\0\0\x03a\n\n"];
        let bare: [&[u8]; 2] = [b"\n", b"a\r\n"];
        for (wire, all) in [(Wire::Chunked, &chunked[..]), (Wire::Prefixed, &prefixed), (Wire::Bare, &bare)] {
            for bytes in all {
                assert!(lines(&mut Stream::new(wire, false), bytes).is_err(), "{wire:?}: {bytes:?}");
            }
        }
    }

    #[test]
    fn an_end_is_the_last_and_between_two_messages() {
        let mut stream = Stream::new(Wire::Bare, false);
        lines(&mut stream, b"ab\nc").expect("good");
        assert!(stream.finish().is_err(), "within a message");
        lines(&mut stream, b"\n").expect("good");
        stream.finish().expect("between two messages");
        assert!(stream.finish().is_err() && lines(&mut stream, b"d").is_err());
    }
}
