//! One pass over the bytes of a value, which finds whether it has line breaks, or characters to escape. Most have neither.
//!
//! It owns the question whether a value must be rewritten at all. The loop is one that the compiler turns into vector
//! instructions: it never stops early, and never branches within a block.

use crate::escape::may_begin;

/// Bytes that are looked at in one go.
const BLOCK: usize = 64;

/// What a value has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// Line feeds or carriage returns: it does not fit on one line.
    pub(super) lines: bool,
    /// A character that may have to be escaped.
    pub(super) escapes: bool,
}

impl Marks {
    pub(super) fn of(text: &[u8]) -> Self {
        let mut marks = Self::default();
        let (blocks, rest) = text.as_chunks::<BLOCK>();
        for block in blocks {
            marks.see(block);
        }
        marks.see(rest);
        marks
    }

    #[inline]
    fn see(&mut self, bytes: &[u8]) {
        let (mut lines, mut escapes) = (false, false);
        for &byte in bytes {
            lines |= (byte == b'\n') | (byte == b'\r');
            escapes |= may_begin(byte);
        }
        self.lines |= lines;
        self.escapes |= escapes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_found_wherever_it_stands() {
        for len in 1..=3 * BLOCK {
            for at in [0, len / 2, len - 1] {
                let with = |byte: u8| {
                    let mut text = vec![b'a'; len];
                    text[at] = byte;
                    Marks::of(&text)
                };
                assert_eq!(with(b'b'), Marks::default());
                for byte in [b'\n', b'\r'] {
                    assert_eq!(with(byte), Marks { lines: true, escapes: false }, "{len} {at}");
                }
                for byte in [b'&', b'<', b'>', 0xe2] {
                    assert_eq!(with(byte), Marks { lines: false, escapes: true }, "{len} {at}");
                }
            }
        }
        assert_eq!(Marks::of(b""), Marks::default());
        assert_eq!(Marks::of(b"<\n"), Marks { lines: true, escapes: true });
    }
}
