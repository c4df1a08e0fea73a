//! The head of a reply of the upstream: what of it goes to the client.

use http::header::{CONNECTION, CONTENT_LENGTH, SEC_WEBSOCKET_ACCEPT, UPGRADE, VIA};
use http::response::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::request::{VIA_SELF, remove_hop_by_hop};
use crate::http::response::ResponseFraming;
use crate::wire::http1::{LAST_CHUNK, push_chunk};
use crate::wire::http2::hpack;

/// Appends the head of a reply, framed as `framing`, for HTTP/1.1. `close`: the connection ends after it.
pub fn push_head(out: &mut Vec<u8>, parts: &Parts, framing: ResponseFraming, close: bool) {
    let protocol =
        parts.headers.get(UPGRADE).filter(|_| parts.status == StatusCode::SWITCHING_PROTOCOLS).cloned();
    let (headers, length) = fields(parts, framing);
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(parts.status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(parts.status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
    push_fields(out, &headers);
    if let Some(protocol) = protocol {
        push(out, &CONNECTION, b"Upgrade");
        push(out, &UPGRADE, protocol.as_bytes());
    } else {
        if close {
            push(out, &CONNECTION, b"close");
        }
        if let Some(length) = length {
            push(out, &CONTENT_LENGTH, length.to_string().as_bytes());
        } else if framing == ResponseFraming::Chunked && has_body(parts) {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the field block of HTTP/2 that means the same. An upgrade that was agreed on is a success there (RFC 8441).
pub fn push_block(out: &mut Vec<u8>, parts: &Parts, framing: ResponseFraming) {
    let is_upgrade = parts.status == StatusCode::SWITCHING_PROTOCOLS;
    hpack::push_status(out, if is_upgrade { 200 } else { parts.status.as_u16() });
    let (mut headers, length) = fields(parts, framing);
    if is_upgrade {
        headers.remove(SEC_WEBSOCKET_ACCEPT);
    }
    push_trailers(out, &headers);
    if let Some(length) = length {
        hpack::push_field(out, b"content-length", length.to_string().as_bytes());
    }
}

/// Appends a field block of HTTP/2 without a status.
pub fn push_trailers(out: &mut Vec<u8>, headers: &HeaderMap) {
    for (name, value) in headers {
        hpack::push_field(out, name.as_str().as_bytes(), value.as_bytes());
    }
}

fn has_body(parts: &Parts) -> bool {
    !matches!(parts.status.as_u16(), 101 | 204 | 304)
}

/// The headers of a reply that do not depend on the wire, and the length of its body if that is to be said.
fn fields(parts: &Parts, framing: ResponseFraming) -> (HeaderMap, Option<u64>) {
    let mut headers = parts.headers.clone();
    remove_hop_by_hop(&mut headers);
    headers.append(VIA, HeaderValue::from_static(VIA_SELF));
    let has_body = has_body(parts);
    // A 204 has none either (RFC 9110, section 8.6).
    if (has_body && framing != ResponseFraming::UntilClose) || parts.status == StatusCode::NO_CONTENT {
        headers.remove(CONTENT_LENGTH);
    }
    let length =
        if let ResponseFraming::Length(length) = framing { Some(length).filter(|_| has_body) } else { None };
    (headers, length)
}

/// Appends a piece of a body.
pub fn push_piece(out: &mut Vec<u8>, piece: &[u8], framing: ResponseFraming) {
    match framing {
        ResponseFraming::Chunked => push_chunk(out, piece),
        ResponseFraming::Length(_) | ResponseFraming::UntilClose => out.extend_from_slice(piece),
    }
}

/// Appends the end of a body. Trailers are passed on to a client that takes them.
pub fn push_end(out: &mut Vec<u8>, trailers: Option<&HeaderMap>, framing: ResponseFraming) {
    if framing != ResponseFraming::Chunked {
        return;
    }
    match trailers {
        None => out.extend_from_slice(LAST_CHUNK),
        Some(trailers) => {
            out.extend_from_slice(b"0\r\n");
            push_fields(out, trailers);
            out.extend_from_slice(b"\r\n");
        }
    }
}

fn push_fields(out: &mut Vec<u8>, headers: &HeaderMap) {
    for (name, value) in headers {
        push(out, name, value.as_bytes());
    }
}

/// Appends a line, with the name as it is usually written: `Content-Type`.
fn push(out: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    let mut starts = true;
    for byte in name.as_str().bytes() {
        out.push(if starts { byte.to_ascii_uppercase() } else { byte });
        starts = byte == b'-';
    }
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(code: u16, headers: &[(&str, &str)]) -> Parts {
        let mut builder = http::Response::builder().status(code);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).expect("a reply").into_parts().0
    }

    fn shown(parts: &Parts, framing: ResponseFraming, close: bool) -> String {
        let mut out = Vec::new();
        push_head(&mut out, parts, framing, close);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn heads() {
        let of = [
            ("content-type", "text/plain"),
            ("connection", "keep-alive, x-a"),
            ("x-a", "1"),
            ("audit-id", "7"),
            ("content-length", "3"),
        ];
        let given = parts(200, &of);
        let start = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nAudit-Id: 7\r\n";
        assert_eq!(
            shown(&given, ResponseFraming::Length(3), false),
            format!("{start}Via: 1.1 revcast\r\nContent-Length: 3\r\n\r\n")
        );
        assert_eq!(
            shown(&given, ResponseFraming::Chunked, true),
            format!("{start}Via: 1.1 revcast\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
        );
        let none = parts(204, &[("content-length", "0")]);
        assert_eq!(
            shown(&none, ResponseFraming::Chunked, false),
            "HTTP/1.1 204 No Content\r\nVia: 1.1 revcast\r\n\r\n"
        );
        let upgrade = parts(
            101,
            &[("upgrade", "SPDY/3.1"), ("connection", "Upgrade"), ("x-stream-protocol-version", "v4")],
        );
        assert_eq!(
            shown(&upgrade, ResponseFraming::UntilClose, false),
            "HTTP/1.1 101 Switching Protocols\r\nX-Stream-Protocol-Version: v4\r\nVia: 1.1 revcast\r\nConnection: Upgrade\r\n\
             Upgrade: SPDY/3.1\r\n\r\n"
        );
    }

    #[test]
    fn bodies() {
        let mut out = Vec::new();
        push_piece(&mut out, b"abc", ResponseFraming::Chunked);
        let trailers = parts(200, &[("x-sum", "1")]).headers;
        push_end(&mut out, Some(&trailers), ResponseFraming::Chunked);
        assert_eq!(out, b"3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n");
        out.clear();
        push_piece(&mut out, b"abc", ResponseFraming::Length(3));
        push_end(&mut out, None, ResponseFraming::Length(3));
        assert_eq!(out, b"abc");
    }
}
