//! Decoder of `Transfer-Encoding: chunked` (RFC 9112, 7.1) for bytes that arrive in any pieces. It gives out slices of
//! the input and copies nothing. A chunk boundary says nothing about event boundaries.

use std::io::{self, BufRead, ErrorKind};

#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    Data(&'a [u8]),
    /// The input is used up; the body goes on.
    More,
    /// The terminating chunk and its trailer are complete. What is left of the input belongs to the next message.
    End,
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

    /// Advances `input` past what was decoded and says what it was. Call until it answers `More` or `End`. An error: the server
    /// broke the format.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> io::Result<Step<'a>> {
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
    pub fn read_chunk(&mut self, reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
        let mut chunk = Vec::new();
        while self.phase != Phase::End {
            let input = reader.fill_buf()?;
            let next = input.get(..1).ok_or(ErrorKind::UnexpectedEof)?;
            // Byte by byte between chunks: nothing after the chunk's end is taken.
            let visible = if self.phase == Phase::Data { input } else { next };
            let mut rest = visible;
            if let Step::Data(data) = self.next(&mut rest)? {
                chunk.extend_from_slice(data);
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
    fn after(&mut self, byte: u8) -> io::Result<Phase> {
        Ok(match (self.phase, byte) {
            (Phase::Size(digits @ 0..16), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).unwrap_or(0);
                self.remaining = self.remaining << 4 | u64::from(digit);
                Phase::Size(digits + 1)
            }
            (Phase::Size(1..) | Phase::Extension, b'\r') => Phase::SizeNewline,
            (Phase::Size(1..), b';' | b' ' | b'\t') | (Phase::Extension, _) => Phase::Extension,
            (Phase::SizeNewline, b'\n') if self.remaining == 0 => Phase::Trailer,
            (Phase::SizeNewline, b'\n') => Phase::Data,
            (Phase::DataReturn, b'\r') => Phase::DataNewline,
            (Phase::DataNewline, b'\n') => Phase::Size(0),
            (Phase::Trailer, b'\r') => Phase::EndNewline,
            (Phase::TrailerLine, b'\n') => Phase::Trailer,
            (Phase::Trailer | Phase::TrailerLine, _) => Phase::TrailerLine,
            (Phase::EndNewline, b'\n') => Phase::End,
            (phase, _) => {
                let expected =
                    if matches!(phase, Phase::Size(_)) { "a hexadecimal chunk size" } else { "CRLF" };
                let found = char::from(byte);
                let fault =
                    format!("the server broke the chunked encoding: {expected} expected, {found:?} found");
                return Err(io::Error::new(ErrorKind::InvalidData, fault));
            }
        })
    }
}

/// The usual way from one chunk's data to the next one's, in one step: size of the chunk, and bytes up to its data. `None`:
/// something else is there, or not all of it yet, so that each byte is looked at by itself.
fn between_chunks(phase: Phase, input: &[u8]) -> Option<(u64, usize)> {
    let line = if phase == Phase::DataReturn { input.strip_prefix(b"\r\n")? } else { input };
    if !matches!(phase, Phase::DataReturn | Phase::Size(0)) {
        return None;
    }
    let Ok(httparse::Status::Complete((taken, size @ 1..))) = httparse::parse_chunk_size(line) else {
        return None;
    };
    Some((size, input.len() - line.len() + taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> io::Result<(Vec<u8>, bool)> {
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
    fn chunks_are_read_as_they_were_cut() {
        let stream: &[u8] = b"5\r\nhello\r\n1\r\n \r\n0\r\n\r\nHTTP/1.1";
        let (mut reader, mut decoder) = (stream, ChunkDecoder::new());
        let mut next = || decoder.read_chunk(&mut reader).expect("the stream is valid");
        assert_eq!([next(), next(), next()], [Some(b"hello".to_vec()), Some(b" ".to_vec()), None]);
        assert_eq!(reader, b"HTTP/1.1");
        let (mut input, mut decoder) = (stream, ChunkDecoder::new());
        for step in [Step::Data(b"hello"), Step::Data(b" "), Step::End] {
            assert_eq!(decoder.next(&mut input).ok(), Some(step));
        }
        assert_eq!(input, b"HTTP/1.1");
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
