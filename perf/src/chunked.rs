//! Decoder of `Transfer-Encoding: chunked` (RFC 9112, 7.1) for bytes that arrive in any pieces. It gives out slices of
//! the input and copies nothing. A chunk boundary says nothing about event boundaries.

use std::fmt;
use std::io::{self, BufRead};

/// What the decoder found next in the input.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Bytes of the body.
    Data(&'a [u8]),
    /// The input is used up; the body goes on.
    More,
    /// The terminating chunk and its trailer are complete. What is left of the input belongs to the next message.
    End,
}

/// The server broke the chunk format.
#[derive(Debug, PartialEq, Eq)]
pub struct ChunkFault {
    expected: &'static str,
    found: u8,
}

impl fmt::Display for ChunkFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "the server broke the chunked encoding: {} expected, found {:?}",
            self.expected,
            char::from(self.found)
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// In the hexadecimal size; the number of digits so far.
    Size(u8),
    Extension,
    SizeNewline,
    Data,
    DataReturn,
    DataNewline,
    /// At the start of a line after the terminating chunk.
    Trailer,
    TrailerLine,
    EndNewline,
    End,
}

/// Where in a chunked body the connection is: 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct ChunkDecoder {
    remaining: u64,
    phase: Phase,
}

impl Default for ChunkDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl ChunkDecoder {
    pub const fn new() -> Self {
        Self { remaining: 0, phase: Phase::Size(0) }
    }

    /// Advances `input` past what was decoded and says what it was. Call until it answers `More` or `End`.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Step<'a>, ChunkFault> {
        loop {
            if self.phase == Phase::End {
                return Ok(Step::End);
            }
            let Some((&byte, rest)) = input.split_first() else { return Ok(Step::More) };
            if let Some((remaining, taken)) = between_chunks(self.phase, input) {
                (self.remaining, self.phase) = (remaining, Phase::Data);
                *input = &input[taken..];
                continue;
            }
            if self.phase == Phase::Data {
                let whole = usize::try_from(self.remaining).unwrap_or(usize::MAX);
                let (data, rest) = input.split_at(whole.min(input.len()));
                *input = rest;
                self.remaining -= data.len() as u64;
                if self.remaining == 0 {
                    self.phase = Phase::DataReturn;
                }
                return Ok(Step::Data(data));
            }
            *input = rest;
            self.phase = self.after(byte)?;
        }
    }

    /// Reads one whole chunk, as the server cut it, and its end; `None`: the last one, with its trailer.
    ///
    /// # Errors
    /// The connection broke or ended, or the server broke the chunk format.
    pub fn read_chunk(&mut self, reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
        let mut chunk = Vec::new();
        while self.phase != Phase::End {
            let input = reader.fill_buf()?;
            if input.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // Byte by byte between chunks: nothing behind the chunk's end is taken.
            let visible = if self.phase == Phase::Data { input } else { &input[..1] };
            let mut rest = visible;
            match self.next(&mut rest).map_err(|fault| io::Error::other(fault.to_string()))? {
                Step::Data(data) => chunk.extend_from_slice(data),
                Step::More | Step::End => {}
            }
            let taken = visible.len() - rest.len();
            reader.consume(taken);
            if self.phase == Phase::Size(0) && !chunk.is_empty() {
                return Ok(Some(chunk));
            }
        }
        Ok(None)
    }

    /// The phase that follows when `byte`, which is no body data, was read.
    fn after(&mut self, byte: u8) -> Result<Phase, ChunkFault> {
        let wants = |expected: &'static str| Err(ChunkFault { expected, found: byte });
        Ok(match self.phase {
            Phase::Size(digits) => match (byte, digits) {
                (b'\r', 1..) => Phase::SizeNewline,
                (b';' | b' ' | b'\t', 1..) => Phase::Extension,
                (b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F', 0..16) => {
                    let digit = char::from(byte).to_digit(16).unwrap_or(0);
                    self.remaining = self.remaining << 4 | u64::from(digit);
                    Phase::Size(digits + 1)
                }
                _ => return wants("a hexadecimal chunk size"),
            },
            Phase::Extension if byte == b'\r' => Phase::SizeNewline,
            Phase::Extension => Phase::Extension,
            Phase::SizeNewline if byte != b'\n' => return wants("a newline after the chunk size"),
            Phase::SizeNewline if self.remaining == 0 => Phase::Trailer,
            Phase::SizeNewline => Phase::Data,
            Phase::DataReturn if byte == b'\r' => Phase::DataNewline,
            Phase::DataNewline if byte == b'\n' => Phase::Size(0),
            Phase::DataReturn | Phase::DataNewline => return wants("CRLF after the chunk"),
            Phase::Trailer if byte == b'\r' => Phase::EndNewline,
            Phase::TrailerLine if byte == b'\n' => Phase::Trailer,
            Phase::Trailer | Phase::TrailerLine => Phase::TrailerLine,
            Phase::EndNewline if byte == b'\n' => Phase::End,
            Phase::EndNewline => return wants("the newline of the last empty line"),
            Phase::Data | Phase::End => self.phase,
        })
    }
}

/// The usual way from one chunk's data to the next one's, in one step: size of the chunk, and bytes up to its data. `None`:
/// something else is there, or not all of it yet, so that each byte is looked at by itself.
fn between_chunks(phase: Phase, input: &[u8]) -> Option<(u64, usize)> {
    let (line, before) = if phase == Phase::Size(0) {
        (input, 0)
    } else if phase == Phase::DataReturn {
        (input.strip_prefix(b"\r\n")?, 2)
    } else {
        return None;
    };
    let mut size = 0;
    for (at, &byte) in line.iter().enumerate().take(9) {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'\r' if size > 0 && line.get(at + 1) == Some(&b'\n') => return Some((size, before + at + 2)),
            _ => return None,
        };
        size = size << 4 | u64::from(digit);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> Result<(Vec<u8>, bool), ChunkFault> {
        let mut decoder = ChunkDecoder::new();
        let mut body = Vec::new();
        for piece in pieces {
            let mut input = *piece;
            loop {
                match decoder.next(&mut input)? {
                    Step::Data(data) => body.extend_from_slice(data),
                    Step::More => break,
                    Step::End => return Ok((body, true)),
                }
            }
        }
        Ok((body, false))
    }

    #[test]
    fn every_split_in_three_gives_the_same_body() {
        let stream =
            b"5\r\nhello\r\nB;name=value\r\n, chunked w\r\n00004\r\norld\r\n0\r\nExpires: never\r\n\r\n";
        for first in 0..=stream.len() {
            for second in first..=stream.len() {
                let pieces = [&stream[..first], &stream[first..second], &stream[second..]];
                let (body, ended) = decode(&pieces).expect("the stream is valid");
                assert_eq!(body, b"hello, chunked world", "split at {first} and {second}");
                assert!(ended);
            }
        }
    }

    #[test]
    fn bytes_after_the_end_are_left_alone() {
        let mut decoder = ChunkDecoder::new();
        let mut input: &[u8] = b"1\r\nx\r\n0\r\n\r\nHTTP/1.1 200 OK";
        assert_eq!(decoder.next(&mut input), Ok(Step::Data(b"x")));
        assert_eq!(decoder.next(&mut input), Ok(Step::End));
        assert_eq!(input, b"HTTP/1.1 200 OK");
    }

    #[test]
    fn chunks_are_read_as_they_were_cut() {
        let mut reader: &[u8] = b"5\r\nhello\r\n1\r\n \r\n0\r\n\r\nHTTP/1.1";
        let mut decoder = ChunkDecoder::new();
        let mut next = || decoder.read_chunk(&mut reader).expect("the stream is valid");
        assert_eq!([next(), next(), next()], [Some(b"hello".to_vec()), Some(b" ".to_vec()), None]);
        assert_eq!(reader, b"HTTP/1.1");
        for broken in [&b"5\r\nhel"[..], b"1\r\nxy", b"x"] {
            assert!(ChunkDecoder::new().read_chunk(&mut &broken[..]).is_err());
        }
    }

    #[test]
    fn broken_framing_is_a_fault_not_data() {
        for broken in [
            &b"x\r\n"[..],
            b"\r\n",
            b"3\nabc",
            b"3\r\nabcd",
            b"1\r\na\rb",
            b"11111111111111111\r\n",
            b"0\r\n\rx",
        ] {
            assert!(decode(&[broken]).is_err(), "{:?}", String::from_utf8_lossy(broken));
        }
    }
}
