//! The unread rest of a header block: integers and strings (RFC 7541, section 5).

use super::{Fault, huffman};
use std::ops::Range;

/// Bytes of an integer after its prefix. More of them can only be above 32 bits, or filled up with zeros.
const CONTINUATION_BYTES_MAX: usize = 5;

/// What is not read yet.
#[derive(Debug)]
pub(super) struct Block<'b> {
    rest: &'b [u8],
}

/// A string, as it is in the block or in the scratch buffer into which its Huffman code was decoded.
#[derive(Debug)]
pub(super) enum Text<'b> {
    Plain(&'b [u8]),
    Decoded(Range<usize>),
}

impl Text<'_> {
    /// The string; `scratch` is the buffer that it was read with.
    pub(super) fn bytes<'s>(&'s self, scratch: &'s [u8]) -> &'s [u8] {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Decoded(range) => &scratch[range.clone()],
        }
    }
}

impl<'b> Block<'b> {
    pub(super) const fn new(rest: &'b [u8]) -> Self {
        Self { rest }
    }

    /// The next byte, which stays unread.
    pub(super) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// An integer of at most 32 bits whose prefix is the last `prefix_bits` of the next byte (section 5.1).
    pub(super) fn integer(&mut self, prefix_bits: u32) -> Result<usize, Fault> {
        let prefix_max = u8::MAX >> (8 - prefix_bits);
        let prefix = self.byte()? & prefix_max;
        if prefix < prefix_max {
            return Ok(usize::from(prefix));
        }
        let mut value = u64::from(prefix);
        for nth in 0..CONTINUATION_BYTES_MAX {
            let byte = self.byte()?;
            value += u64::from(byte & 0x7f) << (7 * nth);
            if byte & 0x80 == 0 {
                let value = u32::try_from(value).map_err(|_| Fault::IntegerTooLarge)?;
                return usize::try_from(value).map_err(|_| Fault::IntegerTooLarge);
            }
        }
        Err(Fault::IntegerTooLarge)
    }

    /// A string (section 5.2). What is Huffman-coded is appended to `scratch`.
    pub(super) fn text(&mut self, scratch: &mut Vec<u8>) -> Result<Text<'b>, Fault> {
        let is_huffman = self.peek().is_some_and(|byte| byte & 0x80 != 0);
        let len = self.integer(7)?;
        let (text, rest) = self.rest.split_at_checked(len).ok_or(Fault::Truncated)?;
        self.rest = rest;
        if !is_huffman {
            return Ok(Text::Plain(text));
        }
        let start = scratch.len();
        huffman::decode(text, scratch)?;
        Ok(Text::Decoded(start..scratch.len()))
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        let (byte, rest) = self.rest.split_first().ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(*byte)
    }
}
