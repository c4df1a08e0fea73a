//! The body of a request: from bytes, as they arrive, to one [`Bytes`].
//!
//! Owns the strict reading of chunked bodies (RFC 9112, section 7.1) and the limits. It never waits: it is fed what a
//! socket returned and says how much of it belongs to the body.

use std::fmt;

use bytes::Bytes;

use super::request::BodyFraming;
use super::status::Status;
use super::text::{hex_digit, is_token_byte};

/// Bytes of the largest body that is taken: kube-apiserver's limit (`MaxRequestBodyBytes`), 3 MiB. Larger: 413.
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// Bytes of the largest body that is read only to be discarded, such as that of a GET: beyond it the connection is
/// closed instead. A limit for [`BodyDecoder::new`].
pub const DRAINED_BODY_BYTES_MAX: usize = 64 * 1024;
/// Bytes of all chunk extensions of one body together.
pub const CHUNK_EXTENSION_BYTES_MAX: usize = 1024;
/// Bytes of all trailer lines of one body together.
pub const TRAILER_BYTES_MAX: usize = 8 * 1024;
/// Hex digits of a chunk size.
const SIZE_DIGITS_MAX: u8 = 16;
/// The most that is allocated before the first byte has come: a client's announced length is not trusted with 3 MiB.
const FIRST_ALLOCATION_BYTES: usize = 64 * 1024;

/// The error in a body. The client's fault; the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyError {
    /// Over the limit, in bytes: 413.
    TooLarge {
        /// The limit that was given to [`BodyDecoder::new`].
        limit: usize,
    },
    /// A chunk size that is not one to sixteen hex digits.
    ChunkSize,
    /// Extensions longer than [`CHUNK_EXTENSION_BYTES_MAX`], or with control characters.
    ChunkExtension,
    /// Something other than CR LF at the end of a line or a chunk.
    LineEnd,
    /// Trailers longer than [`TRAILER_BYTES_MAX`], or lines that are not headers.
    Trailer,
}

impl BodyError {
    /// The response's body; its code is 413 or 400.
    #[must_use]
    pub fn status(self) -> Status {
        match self {
            Self::TooLarge { limit } => Status::request_entity_too_large(limit),
            Self::ChunkSize | Self::ChunkExtension | Self::LineEnd | Self::Trailer => {
                Status::bad_request(self.to_string())
            }
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { limit } => write!(f, "the body is larger than {limit} bytes: send less at once"),
            Self::ChunkSize => f.write_str("a chunk size of the body is not a hex number"),
            Self::ChunkExtension => f.write_str("the chunk extensions of the body are too long: send none"),
            Self::LineEnd => f.write_str("a chunk or a line of the body does not end in CR LF where it must"),
            Self::Trailer => f.write_str("the trailers of the body are too long or no headers: send none"),
        }
    }
}

impl std::error::Error for BodyError {}

/// The result of feeding bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fed {
    /// All of them belong to the body, and more are to come.
    NeedMore,
    /// The body is complete.
    Done {
        /// The body.
        body: Bytes,
        /// How many of the bytes just fed belong to it; the next request starts after them.
        consumed: usize,
    },
}

/// Reads one body. After [`Fed::Done`] or an error it must not be used again.
#[derive(Clone, Debug)]
pub struct BodyDecoder {
    phase: Phase,
    body: Vec<u8>,
    limit: usize,
    extension_bytes: usize,
    trailer_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A body of known length lacks this many bytes.
    Length(usize),
    /// In a chunk size, after this many digits.
    Size { size: u64, digits: u8 },
    /// In the extensions after a size.
    Extension { size: u64 },
    /// The CR after a size was seen.
    SizeLineFeed { size: u64 },
    /// The chunk lacks this many bytes.
    Data(u64),
    /// The chunk is complete; its CR comes next.
    DataCarriageReturn,
    /// Its LF comes next.
    DataLineFeed,
    /// In the trailer section.
    Trailer(TrailerAt),
    /// The body is complete.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrailerAt {
    LineStart,
    Name,
    Value,
    /// The LF of a trailer line comes next.
    LineFeed,
    /// The LF of the empty line comes next.
    LastLineFeed,
}

impl BodyDecoder {
    /// For a body framed as `framing`, of at most `limit` bytes ([`BODY_BYTES_MAX`], except in tests).
    ///
    /// # Errors
    /// [`BodyError::TooLarge`] when the head already announces more: nothing needs to be read then.
    pub fn new(framing: BodyFraming, limit: usize) -> Result<Self, BodyError> {
        let phase = match framing {
            BodyFraming::None => Phase::Length(0),
            BodyFraming::Chunked => Phase::Size { size: 0, digits: 0 },
            BodyFraming::Length(length) => match usize::try_from(length) {
                Ok(length) if length <= limit => Phase::Length(length),
                Ok(_) | Err(_) => return Err(BodyError::TooLarge { limit }),
            },
        };
        let capacity = if let Phase::Length(length) = phase { length.min(FIRST_ALLOCATION_BYTES) } else { 0 };
        Ok(Self { phase, body: Vec::with_capacity(capacity), limit, extension_bytes: 0, trailer_bytes: 0 })
    }

    /// Takes the bytes that belong to the body from the front of `input`. May be called without bytes, to ask whether
    /// it is done.
    ///
    /// # Errors
    /// The first error. Nothing that follows can be trusted then, not even as another request.
    pub fn feed(&mut self, input: &[u8]) -> Result<Fed, BodyError> {
        let mut at = 0;
        loop {
            if self.phase == Phase::Length(0) {
                self.phase = Phase::Done;
            }
            if self.phase == Phase::Done {
                return Ok(Fed::Done { body: std::mem::take(&mut self.body).into(), consumed: at });
            }
            let rest = input.get(at..).unwrap_or_default();
            let Some(&byte) = rest.first() else {
                return Ok(Fed::NeedMore);
            };
            match self.phase {
                Phase::Length(missing) => {
                    let taken = missing.min(rest.len());
                    self.body.extend_from_slice(&rest[..taken]);
                    self.phase = Phase::Length(missing - taken);
                    at += taken;
                }
                Phase::Data(missing) => {
                    let taken =
                        usize::try_from(missing).map_or(rest.len(), |missing| missing.min(rest.len()));
                    self.body.extend_from_slice(&rest[..taken]);
                    at += taken;
                    self.phase = match missing - taken as u64 {
                        0 => Phase::DataCarriageReturn,
                        missing => Phase::Data(missing),
                    };
                }
                Phase::Size { .. }
                | Phase::Extension { .. }
                | Phase::SizeLineFeed { .. }
                | Phase::DataCarriageReturn
                | Phase::DataLineFeed
                | Phase::Trailer(_)
                | Phase::Done => {
                    self.phase = self.after(byte)?;
                    at += 1;
                }
            }
        }
    }

    /// What was read of the body so far, which is not part of it any more: for a body that is passed on in pieces, without a limit.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.body)
    }

    /// The phase after one byte that is not data.
    fn after(&mut self, byte: u8) -> Result<Phase, BodyError> {
        match self.phase {
            Phase::Size { size, digits } => match (hex_digit(byte), byte) {
                (Some(digit), _) if digits < SIZE_DIGITS_MAX => {
                    Ok(Phase::Size { size: size << 4 | u64::from(digit), digits: digits + 1 })
                }
                (None, b'\r') if digits > 0 => Ok(Phase::SizeLineFeed { size }),
                (None, b';') if digits > 0 => self.extension(size),
                (None, b'\n') if digits > 0 => Err(BodyError::LineEnd),
                _ => Err(BodyError::ChunkSize),
            },
            Phase::Extension { size } => match byte {
                b'\r' => Ok(Phase::SizeLineFeed { size }),
                b'\n' => Err(BodyError::LineEnd),
                b'\t' | b' '..=b'~' | 0x80.. => self.extension(size),
                _ => Err(BodyError::ChunkExtension),
            },
            Phase::SizeLineFeed { size } => match byte {
                b'\n' => self.begin_chunk(size),
                _ => Err(BodyError::LineEnd),
            },
            Phase::DataCarriageReturn if byte == b'\r' => Ok(Phase::DataLineFeed),
            Phase::DataLineFeed if byte == b'\n' => Ok(Phase::Size { size: 0, digits: 0 }),
            Phase::DataCarriageReturn | Phase::DataLineFeed => Err(BodyError::LineEnd),
            Phase::Trailer(at) => self.trailer(at, byte),
            unmoved @ (Phase::Length(_) | Phase::Data(_) | Phase::Done) => Ok(unmoved),
        }
    }

    const fn extension(&mut self, size: u64) -> Result<Phase, BodyError> {
        self.extension_bytes += 1;
        if self.extension_bytes > CHUNK_EXTENSION_BYTES_MAX {
            return Err(BodyError::ChunkExtension);
        }
        Ok(Phase::Extension { size })
    }

    fn begin_chunk(&mut self, size: u64) -> Result<Phase, BodyError> {
        if size == 0 {
            return Ok(Phase::Trailer(TrailerAt::LineStart));
        }
        let left = (self.limit - self.body.len()) as u64;
        if size > left { Err(BodyError::TooLarge { limit: self.limit }) } else { Ok(Phase::Data(size)) }
    }

    /// Trailers are checked and dropped: none has a meaning here.
    fn trailer(&mut self, at: TrailerAt, byte: u8) -> Result<Phase, BodyError> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > TRAILER_BYTES_MAX {
            return Err(BodyError::Trailer);
        }
        let next = match (at, byte) {
            (TrailerAt::LineStart, b'\r') => TrailerAt::LastLineFeed,
            (TrailerAt::LineStart | TrailerAt::Name, byte) if is_token_byte(byte) => TrailerAt::Name,
            (TrailerAt::Name, b':') => TrailerAt::Value,
            (TrailerAt::Value, b'\r') => TrailerAt::LineFeed,
            (TrailerAt::Value, b'\t' | b' '..=b'~' | 0x80..) => TrailerAt::Value,
            (TrailerAt::LineFeed, b'\n') => TrailerAt::LineStart,
            (TrailerAt::LastLineFeed, b'\n') => return Ok(Phase::Done),
            (TrailerAt::LineStart | TrailerAt::Value, b'\n')
            | (TrailerAt::LineFeed | TrailerAt::LastLineFeed, _) => {
                return Err(BodyError::LineEnd);
            }
            (TrailerAt::LineStart | TrailerAt::Name | TrailerAt::Value, _) => return Err(BodyError::Trailer),
        };
        Ok(Phase::Trailer(next))
    }
}

#[cfg(test)]
mod tests;
