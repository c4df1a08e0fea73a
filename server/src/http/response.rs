//! Response heads, appended to a buffer in the form of a wire.
//!
//! Owns the exact bytes: header order and values as recorded from kube-apiserver (recordings 03, 15, 18, 19). It never
//! reads the clock or draws the audit id, and it never writes to a socket.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use super::request::RequestHead;
use super::status::{Layout, Status};
use crate::wire::http2::hpack;

/// Tells a waiting client to send its body (RFC 9110, section 15.2.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// The media type of objects, lists, Status and watch streams.
pub const JSON: &str = "application/json";
/// Kubernetes' envelope around protobuf.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// Watch events in it.
pub const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";
/// The media type of the same, for clients that ask for it; never of a stream.
pub const YAML: &str = "application/yaml";
/// The media type of health checks and of an unknown path's 404.
pub const TEXT: &str = "text/plain; charset=utf-8";
/// The body of the 404 for an unknown path; sent as [`TEXT`] with `nosniff` (recording 12).
pub const PAGE_NOT_FOUND: &[u8] = b"404 page not found\n";

/// How the end of a response's body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFraming {
    /// `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding: chunked`: chunk by chunk, then [`LAST_CHUNK`](crate::wire::http1::LAST_CHUNK).
    Chunked,
    /// The connection's end: what HTTP/1.0 has instead of chunks. Implies `Connection: close`.
    UntilClose,
}

impl ResponseFraming {
    /// For a body of unknown length, in a form that the client can read.
    #[must_use]
    pub const fn stream_for(request: &RequestHead) -> Self {
        if request.takes_chunked_reply() { Self::Chunked } else { Self::UntilClose }
    }
}

/// Which caches may store a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caching {
    /// `no-cache, private`: everything except aggregated discovery.
    #[default]
    Private,
    /// `public`: aggregated discovery, which has an ETag (recording 19).
    Public,
}

/// A response head. Values are the server's own text; bytes that would end a header line are never written.
#[derive(Clone, Debug)]
pub struct ResponseHead<'a> {
    /// The status code.
    pub code: u16,
    /// `Audit-Id`: a new UUID of version 4 for each request.
    pub audit_id: Uuid,
    /// `Date`.
    pub now: SystemTime,
    /// `Content-Type`.
    pub content_type: &'a str,
    /// How the body ends.
    pub framing: ResponseFraming,
    /// Whether the connection is closed after this response: `Connection: close`.
    pub close: bool,
    /// `Cache-Control`.
    pub caching: Caching,
    /// `Retry-After`, in seconds.
    pub retry_after_seconds: Option<u32>,
    /// `Allow`: the supported methods (RFC 9110, section 10.2.1).
    pub allow: Option<&'a str>,
    /// `Vary`.
    pub vary: Option<&'a str>,
    /// `ETag`, with its quotes.
    pub etag: Option<&'a str>,
    /// `Content-Encoding`.
    pub content_encoding: Option<&'a str>,
    /// `Content-Security-Policy` of a page, which also gets `Referrer-Policy: no-referrer`.
    pub page_policy: Option<&'a str>,
    /// `X-Content-Type-Options: nosniff`, which text responses have (recordings 12, 19).
    pub nosniff: bool,
    /// `Sec-WebSocket-Version`: the supported version.
    pub websocket_version: Option<&'a str>,
    /// `Served-From`, which server answered: for an operator who looks for it.
    pub served_from: Option<&'a str>,
}

impl<'a> ResponseHead<'a> {
    /// A head with the headers that all responses have.
    #[must_use]
    pub const fn new(
        code: u16,
        content_type: &'a str,
        framing: ResponseFraming,
        now: SystemTime,
        audit_id: Uuid,
    ) -> Self {
        Self {
            code,
            audit_id,
            now,
            content_type,
            framing,
            close: false,
            caching: Caching::Private,
            retry_after_seconds: None,
            allow: None,
            vary: None,
            etag: None,
            content_encoding: None,
            page_policy: None,
            nosniff: false,
            websocket_version: None,
            served_from: None,
        }
    }

    /// Appends the head and the empty line after it, for HTTP/1.1.
    pub fn push_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"HTTP/1.1 ");
        push_decimal(out, u64::from(self.code));
        out.push(b' ');
        out.extend_from_slice(reason_phrase(self.code).as_bytes());
        out.extend_from_slice(b"\r\n");
        self.each_field(|name, value| push_header(out, name, value));
        if self.close || self.framing == ResponseFraming::UntilClose {
            push_header(out, "Connection", "close");
        }
        match self.framing {
            _ if !self.has_content() => {}
            ResponseFraming::Length(length) => push_number_header(out, "Content-Length", length),
            ResponseFraming::Chunked => push_header(out, "Transfer-Encoding", "chunked"),
            ResponseFraming::UntilClose => {}
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Appends the field block of HTTP/2 that means the same. There a stream's end is no field, nor is the connection's.
    pub fn push_block(&self, out: &mut Vec<u8>) {
        hpack::push_status(out, self.code);
        self.each_field(|name, value| {
            hpack::push_field(out, name.to_ascii_lowercase().as_bytes(), &clean(value))
        });
        if let (ResponseFraming::Length(length), true) = (self.framing, self.has_content()) {
            let mut digits = Vec::new();
            push_decimal(&mut digits, length);
            hpack::push_field(out, b"content-length", &digits);
        }
    }

    /// The headers that do not depend on the wire, in the order in which they are sent.
    fn each_field(&self, mut put: impl FnMut(&str, &str)) {
        let mut put_if = |name, value: Option<&str>| {
            if let Some(value) = value {
                put(name, value);
            }
        };
        put_if("Allow", self.allow);
        let mut id = Uuid::encode_buffer();
        put_if("Audit-Id", Some(self.audit_id.hyphenated().encode_lower(&mut id)));
        let caching = match self.caching {
            Caching::Private => "no-cache, private",
            Caching::Public => "public",
        };
        put_if("Cache-Control", Some(caching));
        put_if("Content-Encoding", self.content_encoding);
        put_if("Content-Security-Policy", self.page_policy);
        put_if("Content-Type", Some(self.content_type).filter(|_| self.has_content()));
        put_if("Etag", self.etag);
        put_if("Referrer-Policy", self.page_policy.map(|_| "no-referrer"));
        put_if("Retry-After", self.retry_after_seconds.map(|seconds| seconds.to_string()).as_deref());
        put_if("Sec-WebSocket-Version", self.websocket_version);
        put_if("Served-From", self.served_from);
        put_if("Vary", self.vary);
        put_if("X-Content-Type-Options", self.nosniff.then_some("nosniff"));
        put_if("Date", Some(&http_date(self.now)));
    }

    /// The same for a body of so many bytes, and whether they must follow. The connection is closed when the head or the request
    /// demands it; `request` is `None` when no head could be parsed.
    #[must_use]
    pub fn sized(self, request: Option<&RequestHead>, len: usize) -> (Self, bool) {
        let close = self.close || request.is_none_or(|request| !request.keep_alive);
        let has_body = self.has_content() && !request.is_some_and(RequestHead::wants_head_only);
        (Self { framing: ResponseFraming::Length(len as u64), close, ..self }, has_body)
    }

    /// 304 has no content, and no headers about its length or type (RFC 9110, section 15.4.5).
    const fn has_content(&self) -> bool {
        self.code != 304
    }
}

/// Appends a whole response: `head` with the length of `body`, then `body` unless only the head is requested.
///
/// `request` is `None` when no head could be parsed. The connection is closed when `head` or the request demands it.
pub fn push_response(out: &mut Vec<u8>, head: &ResponseHead<'_>, request: Option<&RequestHead>, body: &[u8]) {
    out.reserve(body.len() + 512);
    if push_response_head(out, head, request, body.len()) {
        out.extend_from_slice(body);
    }
}

/// Appends only the head of a response with so many bytes. Returns whether they must follow it.
pub fn push_response_head(
    out: &mut Vec<u8>,
    head: &ResponseHead<'_>,
    request: Option<&RequestHead>,
    len: usize,
) -> bool {
    let (head, has_body) = head.clone().sized(request, len);
    head.push_to(out);
    has_body
}

/// Appends a whole response with a `Status`; after a request that could not be parsed the connection is closed.
pub fn push_status(
    out: &mut Vec<u8>,
    status: &Status,
    layout: Layout,
    request: Option<&RequestHead>,
    now: SystemTime,
    audit_id: Uuid,
) {
    let mut head = ResponseHead::new(status.code(), JSON, ResponseFraming::Length(0), now, audit_id);
    head.retry_after_seconds = status.retry_after_seconds();
    push_response(out, &head, request, &status.to_body(layout));
}

/// The reason phrase that Go sends with a code; "" for a code that is never sent.
#[must_use]
pub const fn reason_phrase(code: u16) -> &'static str {
    match code {
        101 => "Switching Protocols",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        413 => "Request Entity Too Large",
        414 => "Request URI Too Long",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}

/// A date of RFC 9110, section 5.6.7. Times outside the years 1970 to 9999 are replaced by the nearest of them.
fn http_date(now: SystemTime) -> String {
    const LAST_SECOND: Duration = Duration::from_secs(253_402_300_799);
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default().min(LAST_SECOND);
    httpdate::fmt_http_date(UNIX_EPOCH + since)
}

/// A header line. No value can begin another line.
fn push_header(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(&clean(value));
    out.extend_from_slice(b"\r\n");
}

/// A value with spaces for control characters.
fn clean(value: &str) -> Cow<'_, [u8]> {
    if !value.bytes().any(|byte| byte.is_ascii_control()) {
        return Cow::Borrowed(value.as_bytes());
    }
    value.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte }).collect()
}

fn push_number_header(out: &mut Vec<u8>, name: &str, value: u64) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    push_decimal(out, value);
    out.extend_from_slice(b"\r\n");
}

fn push_decimal(out: &mut Vec<u8>, value: u64) {
    let mut left = value;
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b"0123456789"[usize::from((left % 10).to_le_bytes()[0])];
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::super::request::{Parsed, parse_head};
    use super::super::status::GroupResource;
    use crate::wire::http1::{LAST_CHUNK, push_chunk};
    use revcast_engine::revision::Revision;

    use super::*;

    /// Sat, 21 Nov 2026 05:38:06 GMT, as in recording 12.
    fn then() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_795_239_486)
    }

    fn id() -> Uuid {
        Uuid::parse_str("5819e0ce-cbac-4034-a6d8-4b4d2cc8100f").expect("a uuid")
    }

    fn request(text: &str) -> RequestHead {
        match parse_head(text.as_bytes()) {
            Ok(Parsed::Complete { head, .. }) => *head,
            other => panic!("{other:?}"),
        }
    }

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn a_status_goes_out_as_recorded() {
        let request = request("GET /api/v1/namespaces/t1/configmaps/none HTTP/1.1\r\nHost: a\r\n\r\n");
        let status = Status::not_found(GroupResource { group: "", resource: "configmaps" }, "none");
        let mut out = Vec::new();
        push_status(&mut out, &status, Layout::Compact, Some(&request), then(), id());
        // Recording 12, without the two headers of flow control, which this server does not have.
        let expected = "HTTP/1.1 404 Not Found\r\nAudit-Id: 5819e0ce-cbac-4034-a6d8-4b4d2cc8100f\r\n\
            Cache-Control: no-cache, private\r\nContent-Type: application/json\r\n\
            Date: Sat, 21 Nov 2026 05:38:06 GMT\r\nContent-Length: 188\r\n\r\n\
            {\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"configmaps \
            \\\"none\\\" not found\",\"reason\":\"NotFound\",\"details\":{\"name\":\"none\",\"kind\":\"configmaps\"},\
            \"code\":404}\n";
        assert_eq!(text(out), expected);
    }

    #[test]
    fn an_unknown_path_goes_out_as_recorded() {
        let request = request("GET /apis/nope.example/v1/widgets HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut head = ResponseHead::new(404, TEXT, ResponseFraming::Length(0), then(), id());
        head.nosniff = true;
        let mut out = Vec::new();
        push_response(&mut out, &head, Some(&request), PAGE_NOT_FOUND);
        // Recording 12, without the two headers of flow control.
        let expected = "HTTP/1.1 404 Not Found\r\nAudit-Id: 5819e0ce-cbac-4034-a6d8-4b4d2cc8100f\r\n\
            Cache-Control: no-cache, private\r\nContent-Type: text/plain; charset=utf-8\r\n\
            X-Content-Type-Options: nosniff\r\nDate: Sat, 21 Nov 2026 05:38:06 GMT\r\nContent-Length: 19\r\n\r\n\
            404 page not found\n";
        assert_eq!(text(out), expected);
    }

    #[test]
    fn a_retry_is_in_the_head_too() {
        let request = request("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut out = Vec::new();
        push_status(
            &mut out,
            &Status::version_too_large(Revision::new(99_999_999), Revision::new(83), Some(1)),
            Layout::Compact,
            Some(&request),
            then(),
            id(),
        );
        let out = text(out);
        let head = out.split("\r\n\r\n").next().expect("a head");
        assert!(head.starts_with("HTTP/1.1 504 Gateway Timeout\r\n"));
        assert!(head.contains("Content-Type: application/json\r\nRetry-After: 1\r\nDate: "), "{head}");
        assert!(head.ends_with("Content-Length: 291"));
    }

    #[test]
    fn a_watch_begins_as_recorded() {
        let mut out = Vec::new();
        ResponseHead::new(200, JSON, ResponseFraming::Chunked, then(), id()).push_to(&mut out);
        let event = format!(
            "{{\"type\":\"ERROR\",\"object\":{}}}\n",
            Status::watch_expired(Revision::new(1), Revision::new(133)).to_json()
        );
        push_chunk(&mut out, event.as_bytes());
        out.extend_from_slice(LAST_CHUNK);
        let expected = "HTTP/1.1 200 OK\r\nAudit-Id: 5819e0ce-cbac-4034-a6d8-4b4d2cc8100f\r\n\
            Cache-Control: no-cache, private\r\nContent-Type: application/json\r\n\
            Date: Sat, 21 Nov 2026 05:38:06 GMT\r\nTransfer-Encoding: chunked\r\n\r\n";
        let out = text(out);
        let body = out.strip_prefix(expected).expect("the head as recorded");
        // Recording 06, raw.
        let recorded = "ab\r\n{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\
            \"status\":\"Failure\",\"message\":\"too old resource version: 1 (132)\",\"reason\":\"Expired\",\"code\":410}}\n\
            \r\n0\r\n\r\n";
        assert_eq!(body, recorded);
    }

    #[test]
    fn all_headers_in_order() {
        let mut head =
            ResponseHead::new(200, "a/b", ResponseFraming::Length(18_446_744_073_709_551_615), then(), id());
        head.close = true;
        head.caching = Caching::Public;
        head.retry_after_seconds = Some(5);
        head.allow = Some("GET, POST");
        head.vary = Some("Accept");
        head.etag = Some("\"abc\"");
        head.content_encoding = Some("gzip");
        head.nosniff = true;
        let mut out = Vec::new();
        head.push_to(&mut out);
        let out = text(out);
        let lines: Vec<&str> = out.split("\r\n").filter(|line| !line.starts_with("Audit-Id")).collect();
        let expected = [
            "HTTP/1.1 200 OK",
            "Allow: GET, POST",
            "Cache-Control: public",
            "Content-Encoding: gzip",
            "Content-Type: a/b",
            "Etag: \"abc\"",
            "Retry-After: 5",
            "Vary: Accept",
            "X-Content-Type-Options: nosniff",
            "Date: Sat, 21 Nov 2026 05:38:06 GMT",
            "Connection: close",
            "Content-Length: 18446744073709551615",
            "",
            "",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn the_connection_ends_when_it_must() {
        let respond = |request: Option<&RequestHead>, code: u16| {
            let mut out = Vec::new();
            let head = ResponseHead::new(code, TEXT, ResponseFraming::Length(0), then(), id());
            push_response(&mut out, &head, request, b"ok");
            text(out)
        };
        let closes = |out: &str| out.contains("\r\nConnection: close\r\n");
        let kept = request("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(!closes(&respond(Some(&kept), 200)));
        assert!(closes(&respond(None, 400)), "what could not be parsed cannot be followed");
        let old = request("GET / HTTP/1.0\r\n\r\n");
        assert!(closes(&respond(Some(&old), 200)));
        assert_eq!(ResponseFraming::stream_for(&old), ResponseFraming::UntilClose);
        assert_eq!(ResponseFraming::stream_for(&kept), ResponseFraming::Chunked);
        let head_only = request("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
        let out = respond(Some(&head_only), 405);
        assert!(
            out.contains("Content-Length: 2\r\n") && out.ends_with("\r\n\r\n"),
            "a HEAD has the length only: {out}"
        );
        for (request, code, follows) in
            [(&kept, 200, 2), (&old, 200, 2), (&head_only, 200, 0), (&kept, 304, 0)]
        {
            let (mut whole, mut parts) = (Vec::new(), Vec::new());
            let head = ResponseHead::new(code, TEXT, ResponseFraming::Length(0), then(), id());
            push_response(&mut whole, &head, Some(request), b"ok");
            let has_body = push_response_head(&mut parts, &head, Some(request), 2);
            assert_eq!(has_body, follows > 0, "{code}");
            parts.extend_from_slice(if has_body { b"ok" } else { b"" });
            assert_eq!(parts, whole, "{code}");
        }
        let unmodified = respond(Some(&kept), 304);
        assert!(!unmodified.contains("Content-") && unmodified.ends_with("\r\n\r\n"), "{unmodified}");

        let mut out = Vec::new();
        ResponseHead::new(200, JSON, ResponseFraming::UntilClose, then(), id()).push_to(&mut out);
        let out = text(out);
        assert!(closes(&out) && !out.contains("Transfer-Encoding") && !out.contains("Content-Length"));
    }

    #[test]
    fn no_value_begins_a_new_line() {
        let mut head = ResponseHead::new(200, "a/b\r\nX-Evil: 1", ResponseFraming::Length(0), then(), id());
        head.etag = Some("\"\r\n\r\n<html>\"");
        let mut out = Vec::new();
        head.push_to(&mut out);
        let out = text(out);
        assert!(out.contains("Content-Type: a/b  X-Evil: 1\r\n"));
        assert_eq!(out.matches("\r\n\r\n").count(), 1);
    }

    #[test]
    fn any_clock_has_a_date() {
        assert_eq!(http_date(UNIX_EPOCH), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(UNIX_EPOCH - Duration::from_secs(1)), "Thu, 01 Jan 1970 00:00:00 GMT");
        let far = UNIX_EPOCH + Duration::from_secs(300_000_000_000);
        assert_eq!(http_date(far), "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn every_code_that_is_sent_has_a_phrase() {
        for code in [200, 201, 304, 400, 401, 403, 404, 405, 406, 409, 410, 413, 414, 415, 417, 422, 429] {
            assert!(!reason_phrase(code).is_empty(), "{code}");
        }
        for code in [431, 500, 501, 503, 504, 505] {
            assert!(!reason_phrase(code).is_empty(), "{code}");
        }
    }
}
