//! The head of a response, and a body that ends as its head says.

use crate::chunked::{ChunkDecoder, Step};
use std::fmt::Display;
use std::io::{self, Error, ErrorKind};
use std::str;

const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;

/// How the end of a body is found, and how far it is.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    Length(u64),
    Chunked(ChunkDecoder),
    UntilClose,
}

impl Body {
    /// Advances `input` past what was taken and says what it was. Call until it answers `More` or `End`. An error: the server
    /// broke the chunk format.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> io::Result<Step<'a>> {
        match self {
            Self::Chunked(decoder) => decoder.next(input),
            Self::Length(0) => Ok(Step::End),
            Self::Length(_) | Self::UntilClose if input.is_empty() => Ok(Step::More),
            Self::Length(left) => {
                let (data, rest) =
                    input.split_at(usize::try_from(*left).unwrap_or(usize::MAX).min(input.len()));
                *left -= data.len() as u64;
                *input = rest;
                Ok(Step::Data(data))
            }
            Self::UntilClose => Ok(Step::Data(std::mem::take(input))),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub status: u16,
    pub body: Body,
    pub closes: bool,
    pub gzip: bool,
}

impl Head {
    /// Parses the head at the start of `bytes`; with it the number of bytes it took. `None`: not complete yet.
    pub fn parse(bytes: &[u8]) -> io::Result<Option<(Self, usize)>> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let parsed = response.parse(bytes);
        let taken = match parsed.map_err(|fault| broken(format!("response head is not HTTP/1.1: {fault}")))? {
            httparse::Status::Complete(taken) => taken,
            httparse::Status::Partial if bytes.len() > HEAD_BYTES_MAX => {
                return Err(broken(format!("response head is over {HEAD_BYTES_MAX} bytes")));
            }
            httparse::Status::Partial => return Ok(None),
        };
        let status = response.code.unwrap_or(0);
        let mut head =
            Self { status, body: Body::UntilClose, closes: response.version == Some(0), gzip: false };
        for header in response.headers.iter() {
            let value = header.value.trim_ascii();
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("transfer-encoding") && value.eq_ignore_ascii_case(b"chunked") {
                head.body = Body::Chunked(ChunkDecoder::new());
            } else if is("content-length") && matches!(head.body, Body::UntilClose) {
                let length = decimal(value).ok_or_else(|| broken("Content-Length is not a number"))?;
                head.body = Body::Length(length);
            } else if is("connection") {
                head.closes |= value.eq_ignore_ascii_case(b"close");
            } else if is("content-encoding") {
                head.gzip = value.eq_ignore_ascii_case(b"gzip");
            }
        }
        if matches!(status, 100..200 | 204 | 304) {
            head.body = Body::Length(0);
        }
        Ok(Some((head, taken)))
    }
}

/// A number of decimal digits, and nothing else.
fn decimal(digits: &[u8]) -> Option<u64> {
    str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?.parse().ok()
}

/// The server broke its protocol. Another attempt would not help, unlike after a connection that broke.
fn broken(what: impl Display) -> Error {
    Error::new(ErrorKind::InvalidData, format!("the server's {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_a_fault() {
        let long = [b"HTTP/1.1 200 OK\r\nX: ".as_slice(), &[b'x'; HEAD_BYTES_MAX]].concat();
        for (bytes, why) in [
            (&b"SSH-2.0-OpenSSH\r\n\r\n"[..], "not HTTP/1.1"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", "Content-Length is not a number"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", "Content-Length is not a number"),
            (&long, "over 16384 bytes"),
        ] {
            let fault = Head::parse(bytes).expect_err(why);
            assert!(fault.kind() == ErrorKind::InvalidData && fault.to_string().contains(why), "{fault}");
        }
        assert!(matches!(Head::parse(&[b'H'; 1]), Ok(None)));
    }
}
