//! The fields of a request (RFC 9113, section 8): from a field list to a head of HTTP/1.1.
//!
//! What a list may not have makes the request malformed. What a server may judge itself (the length of a target, a path that no
//! resource has) is left to the parser of heads, so it is the same on every wire.

use super::hpack::{Decoder, List};
use super::{ErrorCode, Fault};

/// A request, as its field block says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// A head of HTTP/1.1 that means the same; empty when it is too large.
    pub head: Vec<u8>,
    /// The fields are larger than allowed: 431.
    pub is_too_large: bool,
    /// Whether it asks to become a WebSocket (RFC 8441); its head asks in the words of HTTP/1.1.
    pub is_websocket: bool,
    /// Whether there is no body.
    pub has_ended: bool,
    /// Bytes of its body, if they are announced.
    pub content_length: Option<u64>,
}

/// What a WebSocket of HTTP/1.1 has and one of HTTP/2 has not. The key is of 16 zeros: nothing depends on it.
const UPGRADE: &[u8] =
    b"upgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";

/// Collects one list.
#[derive(Default)]
struct Fields {
    method: Option<Vec<u8>>,
    scheme: Option<Vec<u8>>,
    authority: Option<Vec<u8>>,
    path: Option<Vec<u8>>,
    protocol: Option<Vec<u8>>,
    host: Option<Vec<u8>>,
    /// The other fields, as lines.
    lines: Vec<u8>,
    cookies: Vec<u8>,
    content_length: Option<u64>,
    is_past_pseudo: bool,
    is_trailers: bool,
    fault: Option<&'static str>,
}

/// A decoded field block.
#[derive(Debug)]
pub(super) enum Decoded {
    Request(Request),
    Trailers,
    /// The stream is in error, not the connection.
    Malformed(&'static str),
}

/// Decodes the block that opens a stream. An error: the connection's.
pub(super) fn request(
    decoder: &mut Decoder,
    block: &[u8],
    limit: usize,
    has_ended: bool,
) -> Result<Decoded, Fault> {
    let mut fields = Fields::default();
    let whole = decode(decoder, block, limit, |name, value| fields.take(name, value))?;
    if !whole {
        return Ok(Decoded::Request(Request {
            head: Vec::new(),
            is_too_large: true,
            is_websocket: false,
            has_ended,
            content_length: None,
        }));
    }
    Ok(fields.finish(has_ended).map_or_else(Decoded::Malformed, Decoded::Request))
}

/// Decodes the block after a body, whose fields nobody reads.
pub(super) fn trailers(decoder: &mut Decoder, block: &[u8], limit: usize) -> Result<Decoded, Fault> {
    let mut fields = Fields { is_trailers: true, is_past_pseudo: true, ..Fields::default() };
    let whole = decode(decoder, block, limit, |name, value| fields.take(name, value))?;
    Ok(match fields.fault {
        Some(why) => Decoded::Malformed(why),
        None if !whole => Decoded::Malformed("the trailers are too large"),
        None => Decoded::Trailers,
    })
}

/// Decodes a block that nobody wants: the dynamic table stays the peer's.
pub(super) fn skip(decoder: &mut Decoder, block: &[u8]) -> Result<(), Fault> {
    decode(decoder, block, 0, |_, _| {}).map(drop)
}

/// Whether all fields were within the limit.
fn decode(
    decoder: &mut Decoder,
    block: &[u8],
    limit: usize,
    mut take: impl FnMut(&[u8], &[u8]),
) -> Result<bool, Fault> {
    let decoded = decoder.decode(block, limit, |field| take(field.name, field.value));
    let list = decoded.map_err(|fault| Fault::of(ErrorCode::CompressionError, fault.why()))?;
    Ok(matches!(list, List::Whole))
}

impl Fields {
    fn take(&mut self, name: &[u8], value: &[u8]) {
        if self.fault.is_none()
            && let Err(why) = self.try_take(name, value)
        {
            self.fault = Some(why);
        }
    }

    fn try_take(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        if value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
            return Err("a field value has a CR, a LF or a NUL");
        }
        if let [b' ' | b'\t', ..] | [.., b' ' | b'\t'] = value {
            return Err("a field value begins or ends with white space");
        }
        if let [b':', pseudo @ ..] = name {
            return self.take_pseudo(pseudo, value);
        }
        self.is_past_pseudo = true;
        if name.is_empty() || !name.iter().all(|byte| is_name(*byte)) {
            return Err("a field name has an upper-case letter, or a character that no name has");
        }
        match name {
            b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade" => {
                Err("a field is about a connection of HTTP/1.1")
            }
            b"te" if value != b"trailers" => Err("`te` is not `trailers`"),
            b"host" if self.host.replace(value.to_vec()).is_some() => Err("there are several `host`"),
            b"host" => Ok(()),
            b"content-length" => {
                let length = decimal(value).ok_or("`content-length` is not a number")?;
                match self.content_length.replace(length) {
                    Some(_) => Err("there are several `content-length`"),
                    None => {
                        self.push_line(name, value);
                        Ok(())
                    }
                }
            }
            // The parts of one header (section 8.2.3).
            b"cookie" => {
                if !self.cookies.is_empty() {
                    self.cookies.extend_from_slice(b"; ");
                }
                self.cookies.extend_from_slice(value);
                Ok(())
            }
            _ => {
                self.push_line(name, value);
                Ok(())
            }
        }
    }

    fn take_pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        if self.is_trailers {
            return Err("trailers have no pseudo-headers");
        }
        if self.is_past_pseudo {
            return Err("a pseudo-header is after a field");
        }
        // Each becomes a word of a request line, or a header.
        if value.iter().any(|byte| *byte <= b' ' || *byte == 127) {
            return Err("a pseudo-header has a space or a control character");
        }
        let place = match name {
            b"method" => &mut self.method,
            b"scheme" => &mut self.scheme,
            b"authority" => &mut self.authority,
            b"path" => &mut self.path,
            b"protocol" => &mut self.protocol,
            _ => return Err("a pseudo-header is not one of a request"),
        };
        match place.replace(value.to_vec()) {
            Some(_) => Err("a pseudo-header is there twice"),
            None => Ok(()),
        }
    }

    fn push_line(&mut self, name: &[u8], value: &[u8]) {
        for part in [name, b": ", value, b"\r\n"] {
            self.lines.extend_from_slice(part);
        }
    }

    fn finish(self, has_ended: bool) -> Result<Request, &'static str> {
        if let Some(why) = self.fault {
            return Err(why);
        }
        let method = self.method.ok_or("`:method` is missing")?;
        if method.is_empty() || !method.iter().all(|byte| is_name(byte.to_ascii_lowercase())) {
            return Err("`:method` is not a token");
        }
        let is_connect = method == b"CONNECT";
        let is_websocket = is_connect && self.protocol.as_deref() == Some(b"websocket");
        let authority = match (self.authority, self.host) {
            (Some(authority), Some(host)) if authority != host => {
                return Err("`host` differs from `:authority`");
            }
            (authority, host) => authority.or(host),
        };
        let target = if is_connect && self.protocol.is_none() {
            if self.scheme.is_some() || self.path.is_some() {
                return Err("CONNECT has `:scheme` or `:path`");
            }
            authority.clone().ok_or("CONNECT has no `:authority`")?
        } else {
            if self.protocol.is_some() && !is_connect {
                return Err("`:protocol` belongs to CONNECT");
            }
            let scheme = self.scheme.ok_or("`:scheme` is missing")?;
            if !matches!(scheme.as_slice(), b"http" | b"https") {
                return Err("`:scheme` is not `http` or `https`");
            }
            self.path.ok_or("`:path` is missing")?
        };
        if target.is_empty() || !(is_connect || target[0] == b'/' || target == b"*") {
            return Err("`:path` does not begin with `/`");
        }
        let has_body = !has_ended && !is_websocket;
        if has_ended && self.content_length.is_some_and(|length| length > 0) {
            return Err("the body is shorter than `content-length`");
        }
        let mut head = Vec::with_capacity(self.lines.len() + self.cookies.len() + target.len() + 128);
        head.extend_from_slice(if is_websocket { b"GET" } else { &method });
        for part in [b" ", target.as_slice(), b" HTTP/1.1\r\n"] {
            head.extend_from_slice(part);
        }
        let mut push_line = |name: &[u8], value: &[u8]| {
            for part in [name, b": ", value, b"\r\n"] {
                head.extend_from_slice(part);
            }
        };
        if let Some(authority) = authority {
            push_line(b"host", &authority);
        }
        if !self.cookies.is_empty() {
            push_line(b"cookie", &self.cookies);
        }
        if has_body && self.content_length.is_none() {
            push_line(b"transfer-encoding", b"chunked");
        }
        if is_websocket {
            head.extend_from_slice(UPGRADE);
        }
        head.extend_from_slice(&self.lines);
        head.extend_from_slice(b"\r\n");
        Ok(Request {
            head,
            is_too_large: false,
            is_websocket,
            has_ended,
            content_length: self.content_length,
        })
    }
}

/// Whether a field's name may have the byte: a token in lower case (RFC 9110, section 5.6.2).
const fn is_name(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*')
        || matches!(byte, b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
}

fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 18 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(text.iter().fold(0, |sum, digit| 10 * sum + u64::from(digit - b'0')))
}
