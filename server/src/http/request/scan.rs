//! Finds the end of a head, looking at each byte once, and refuses what no parser may accept.

use super::{
    HEADER_LINE_BYTES_MAX, HEADERS_BYTES_MAX, HEADERS_MAX, HeadError, Parsed, REQUEST_LINE_BYTES_MAX,
    parse_complete,
};
use crate::http::text::is_token_byte;

/// Reads one head from a buffer that grows at its end. Make a new one for each request.
///
/// Errors are found from the left, each at the first byte that proves it, so the result does not depend on how the
/// bytes were split into reads.
#[derive(Clone, Debug, Default)]
pub struct HeadScanner {
    /// Bytes already looked at.
    pos: usize,
    /// Start of the line that contains `pos`.
    line_start: usize,
    /// Start of the request line: after the CRLF that may precede it (RFC 9112, section 2.2).
    head_start: usize,
    /// Start of the first header line; `None` while in the request line.
    headers_start: Option<usize>,
    headers: usize,
}

impl HeadScanner {
    /// At the first byte of a buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Continues where it stopped. `buf` holds all bytes of earlier calls, and more after them.
    ///
    /// # Errors
    /// As [`parse_head`](super::parse_head).
    pub fn parse(&mut self, buf: &[u8]) -> Result<Parsed, HeadError> {
        while let Some(&byte) = buf.get(self.pos) {
            match byte {
                b'\r' => match buf.get(self.pos + 1) {
                    None => return Ok(Parsed::Incomplete),
                    Some(b'\n') => {
                        let line = &buf[self.line_start..self.pos];
                        self.pos += 2;
                        if self.end_line(line)? {
                            let head = parse_complete(&buf[self.head_start..self.pos])?;
                            return Ok(Parsed::Complete { head: Box::new(head), head_len: self.pos });
                        }
                        self.line_start = self.pos;
                    }
                    Some(_) => return Err(HeadError::BareCarriageReturn),
                },
                b'\n' => return Err(HeadError::BareLineFeed),
                b'\t' if self.headers_start.is_some() => self.take_byte()?,
                0..=0x1f | 0x7f => return Err(HeadError::ControlByte),
                _ => self.take_byte()?,
            }
        }
        Ok(Parsed::Incomplete)
    }

    /// One more byte of a line, within the limits.
    fn take_byte(&mut self) -> Result<(), HeadError> {
        self.pos += 1;
        let line_len = self.pos - self.line_start;
        match self.headers_start {
            None if line_len > REQUEST_LINE_BYTES_MAX => Err(HeadError::RequestLineTooLong),
            Some(_) if line_len > HEADER_LINE_BYTES_MAX => Err(HeadError::HeaderTooLong),
            Some(start) if self.pos + 2 - start > HEADERS_BYTES_MAX => Err(HeadError::HeadersTooLong),
            None | Some(_) => Ok(()),
        }
    }

    /// A line has ended (`pos` is after its CRLF). Returns whether it was the empty line that ends the head.
    fn end_line(&mut self, line: &[u8]) -> Result<bool, HeadError> {
        if self.headers_start.is_none() {
            if line.is_empty() && self.line_start == 0 {
                self.head_start = self.pos;
            } else {
                check_request_line(line)?;
                self.headers_start = Some(self.pos);
            }
            return Ok(false);
        }
        if line.is_empty() {
            return Ok(true);
        }
        self.headers += 1;
        if self.headers > HEADERS_MAX {
            return Err(HeadError::TooManyHeaders);
        }
        check_header_line(line)?;
        Ok(false)
    }
}

/// `METHOD SP target SP version`, checked as soon as the line ends: HTTP/0.9 sends nothing more.
fn check_request_line(line: &[u8]) -> Result<(), HeadError> {
    if line == b"PRI * HTTP/2.0" {
        return Err(HeadError::Http2Preface);
    }
    let mut parts = line.split(|b| *b == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(HeadError::RequestLine);
    };
    if method.is_empty() || target.is_empty() || !method.iter().all(|b| is_token_byte(*b)) {
        return Err(HeadError::RequestLine);
    }
    match version {
        b"HTTP/1.1" | b"HTTP/1.0" => {}
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            return Err(HeadError::Version);
        }
        _ => return Err(HeadError::RequestLine),
    }
    if target.is_ascii() { Ok(()) } else { Err(HeadError::Target) }
}

fn check_header_line(line: &[u8]) -> Result<(), HeadError> {
    if matches!(line.first(), Some(b' ' | b'\t')) {
        return Err(HeadError::Folded);
    }
    let colon = line.iter().position(|b| *b == b':').ok_or(HeadError::HeaderName)?;
    let name = &line[..colon];
    if name.is_empty() || !name.iter().all(|b| is_token_byte(*b)) {
        return Err(HeadError::HeaderName);
    }
    Ok(())
}
