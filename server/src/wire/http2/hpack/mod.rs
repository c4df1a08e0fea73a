//! Header compression of HTTP/2 (RFC 7541).
//!
//! A [`Decoder`] belongs to one connection and holds the client's dynamic table. The encoder has no state: it refers to
//! the static table only, thus a field has the same bytes on every connection, and an idle connection holds nothing.
//!
//! Nothing here knows frames. A block is whole: the payloads of HEADERS and its CONTINUATIONs, one after another,
//! without padding and priority. Nothing here knows the rules for names and values either (RFC 9113, section 8.2): the
//! caller checks each [`Field`].

mod block;
mod decoder;
mod encode;
mod huffman;
mod table;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;

pub use decoder::{Decoder, Field, List};
pub use encode::{push_field, push_status};

use std::fmt;

/// Bytes of the dynamic table with which a connection begins, before SETTINGS say otherwise (RFC 9113, section 6.5.2).
pub const TABLE_BYTES_INITIAL: usize = 4096;

/// With this byte a block begins that tells the other side's decoder to keep no table (RFC 7541, section 6.3).
pub const NO_TABLE: u8 = 0x20;

/// What a field costs besides its name and its value, in a table and in a list (RFC 7541, section 4.1; RFC 9113,
/// section 6.5.2).
const FIELD_OVERHEAD_BYTES: usize = 32;

/// What is wrong with a header block. It is the client's error and ends the connection: `COMPRESSION_ERROR`, since
/// the two tables differ from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Truncated,
    IntegerTooLarge,
    IndexZero,
    IndexBeyondTables,
    SizeUpdateLate,
    SizeUpdateTooMany,
    SizeUpdateTooLarge,
    EndInString,
    PaddingTooLong,
    PaddingNotOnes,
}

impl Fault {
    /// What is wrong, in words.
    pub const fn why(self) -> &'static str {
        match self {
            Self::Truncated => "a header block ends within a field",
            Self::IntegerTooLarge => "an integer in a header block has more than 32 bits",
            Self::IndexZero => "a header field has index 0",
            Self::IndexBeyondTables => "a header field's index is beyond both tables",
            Self::SizeUpdateLate => "a table size update comes after a header field",
            Self::SizeUpdateTooMany => "a header block has more than two table size updates",
            Self::SizeUpdateTooLarge => "a table size update is above SETTINGS_HEADER_TABLE_SIZE",
            Self::EndInString => "a Huffman-coded string contains EOS",
            Self::PaddingTooLong => "a Huffman-coded string has more than 7 bits of padding",
            Self::PaddingNotOnes => {
                "a Huffman-coded string ends within a symbol, or its padding is not all ones"
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why())
    }
}

impl std::error::Error for Fault {}
