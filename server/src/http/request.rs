//! The head of a request: from bytes to a [`RequestHead`], or to the reason why it is invalid.
//!
//! Owns the strict reading of RFC 9112: two parsers that disagree about where a request ends allow request smuggling,
//! so everything ambiguous is refused. It never reads a body ([`body`](super::body)) and never decides what a path
//! means ([`route`](super::route)). httparse splits the head; the checks before and after are ours.

mod coding;
mod error;
mod fields;
mod identity;
mod scan;
#[cfg(test)]
mod tests;

pub use error::HeadError;
pub use identity::IdentityHeaders;
pub use scan::HeadScanner;

use super::options::Query;
use super::text::{self, PercentError};
use fields::Fields;

/// Bytes of a request line, without its CRLF. Longer: 414.
pub const REQUEST_LINE_BYTES_MAX: usize = 8 * 1024;
/// Bytes of one header line, without its CRLF. Longer: 431.
pub const HEADER_LINE_BYTES_MAX: usize = 8 * 1024;
/// Bytes of all header lines with their CRLFs. More: 431.
pub const HEADERS_BYTES_MAX: usize = 32 * 1024;
/// Header lines of one request. More: 431.
pub const HEADERS_MAX: usize = 100;
/// Bytes of the longest head that is read: with a buffer of this size the result is always known.
///
/// One CRLF before the request line, the request line, the header lines and the empty line.
pub const HEAD_BYTES_MAX: usize = 2 + REQUEST_LINE_BYTES_MAX + 2 + HEADERS_BYTES_MAX + 2;

/// A request method (RFC 9110, section 9; PATCH is RFC 5789).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Read an object, a list or a stream.
    Get,
    /// Served as 405 by kube-apiserver on resources.
    Head,
    /// Create.
    Post,
    /// Replace.
    Put,
    /// Change a part.
    Patch,
    /// Delete an object or a collection.
    Delete,
    /// Never served: 405.
    Options,
    /// Never served: 405.
    Trace,
    /// Any other token, in any case. Never served: 405.
    Other,
}

impl Method {
    /// Methods are case-sensitive (RFC 9110, section 9.1): `get` is not `GET`.
    fn parse(token: &str) -> Self {
        match token {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "PATCH" => Self::Patch,
            "DELETE" => Self::Delete,
            "OPTIONS" => Self::Options,
            "TRACE" => Self::Trace,
            _ => Self::Other,
        }
    }

    /// As in a request line; `Other` has no name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
            Self::Trace => "TRACE",
            Self::Other => "other",
        }
    }
}

/// How the end of a request's body is found (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// No body: neither header, or `Content-Length: 0`.
    None,
    /// That many bytes, at least one.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

/// A request head, with everything of it that a responder needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The path, split at `/` and then percent-decoded; `/` is no segment, one trailing slash is dropped.
    ///
    /// No segment is `.` or `..` or contains `/` or a control character; an empty one stands for `//`.
    pub path: Vec<String>,
    /// The query: what follows the `?`.
    pub query: Query,
    /// 1 for HTTP/1.1, 0 for HTTP/1.0.
    pub minor_version: u8,
    /// Whether the connection may carry another request after this one.
    pub keep_alive: bool,
    /// How the body ends.
    pub body: BodyFraming,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expect_continue: bool,
    /// All `Accept` headers, joined with commas.
    pub accept: Option<String>,
    /// The body's media type.
    pub content_type: Option<String>,
    /// The body's coding (`gzip`, ...), if there is one.
    pub content_encoding: Option<String>,
    /// All `Accept-Encoding` headers, joined with commas.
    pub accept_encoding: Option<String>,
    /// The client program; decides on pretty printing.
    pub user_agent: Option<String>,
    /// Credentials, as sent.
    pub authorization: Option<String>,
    /// The user that the client asks to impersonate: of `Impersonate-User`, or "" when only others of those headers
    /// were sent.
    pub impersonate: Option<String>,
    /// Headers that say for whom the request is made. They count only where the client may say that.
    pub identity: IdentityHeaders,
    /// `Origin`: the page that sent the request, if a browser did.
    pub origin: Option<String>,
    /// The ETag that the client has.
    pub if_none_match: Option<String>,
    /// The authority: of an absolute-form target, otherwise of `Host` (RFC 9112, section 3.2.2).
    pub host: Option<String>,
    /// The headers of a GET over HTTP/1.1 that asks to become a WebSocket: its `Upgrade` names `websocket` and its
    /// `Connection` names `Upgrade`. One without the other has no effect (RFC 9110, section 7.8), as at kube-apiserver.
    pub upgrade: Option<Box<UpgradeHeaders>>,
}

/// The WebSocket headers of such a request, not validated (RFC 6455, section 4.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpgradeHeaders {
    /// All `Sec-WebSocket-Key` headers, joined with commas.
    pub key: Option<String>,
    /// All `Sec-WebSocket-Version` headers, joined with commas.
    pub version: Option<String>,
    /// All `Sec-WebSocket-Protocol` headers, joined with commas.
    pub protocols: Option<String>,
}

impl RequestHead {
    /// Whether a reply may be chunked: HTTP/1.0 has no chunks, its reply ends with the connection (RFC 9112, section
    /// 6.1).
    #[must_use]
    pub const fn takes_chunked_reply(&self) -> bool {
        self.minor_version >= 1
    }

    /// Whether the reply must not have a body (RFC 9110, section 9.3.2).
    #[must_use]
    pub fn wants_head_only(&self) -> bool {
        self.method == Method::Head
    }

    /// Whether the reply may be coded with gzip: the client named it, or `*`, with a weight above 0 (RFC 9110, section
    /// 12.5.3). A reply that depends on this has `Vary: Accept-Encoding`.
    #[must_use]
    pub fn accepts_gzip(&self) -> bool {
        self.accept_encoding.as_deref().is_some_and(coding::takes_gzip)
    }
}

/// The content of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// No error so far; more bytes are needed.
    Incomplete,
    /// A complete head.
    Complete {
        /// The head.
        head: Box<RequestHead>,
        /// Bytes of the buffer that it took; the body or the next request follows.
        head_len: usize,
    },
}

/// Parses a request head that starts at the first byte of `buf`.
///
/// The result for a buffer never changes when bytes are added, unless it was [`Parsed::Incomplete`]. A connection that
/// reads in small pieces keeps a [`HeadScanner`], which looks at each byte once.
///
/// # Errors
/// The first error, from the left. The connection must be closed after the error's response: the start of the next
/// request is not known.
pub fn parse_head(buf: &[u8]) -> Result<Parsed, HeadError> {
    HeadScanner::new().parse(buf)
}

/// The head in `head`: scanned lines, from the request line to the empty line.
fn parse_complete(head: &[u8]) -> Result<RequestHead, HeadError> {
    let mut slots = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut slots);
    match parsed.parse(head) {
        Ok(httparse::Status::Complete(len)) if len == head.len() => {}
        Ok(_) | Err(_) => return Err(HeadError::RequestLine),
    }
    let (Some(method), Some(target), Some(minor_version)) = (parsed.method, parsed.path, parsed.version)
    else {
        return Err(HeadError::RequestLine);
    };
    if method == "CONNECT" || (method == "OPTIONS" && target == "*") {
        return Err(HeadError::NotServed);
    }
    let method = Method::parse(method);
    let target = Target::parse(target)?;
    let mut fields = Fields::default();
    for header in parsed.headers.iter() {
        fields.take(head, header)?;
    }

    let is_http_11 = minor_version >= 1;
    let host = match (fields.host, target.authority) {
        (None, _) if is_http_11 => return Err(HeadError::HostMissing),
        (_, Some(authority)) => Some(authority),
        (host, None) => host,
    };
    let body = match (fields.chunked, fields.content_length) {
        (true, Some(_)) => return Err(HeadError::LengthAndEncoding),
        (true, None) if !is_http_11 => return Err(HeadError::EncodingInHttp10),
        (true, None) => BodyFraming::Chunked,
        (false, None | Some(0)) => BodyFraming::None,
        (false, Some(length)) => BodyFraming::Length(length),
    };
    // `//` is ambiguous (here it names no resource): the bytes that follow on the connection are not trusted either.
    let is_plain = !target.path.iter().any(String::is_empty);
    Ok(RequestHead {
        method,
        path: target.path,
        query: target.query,
        minor_version,
        keep_alive: is_http_11 && !fields.connection_close && is_plain,
        body,
        expect_continue: is_http_11 && fields.expect_continue,
        accept: fields.accept,
        content_type: fields.content_type,
        content_encoding: fields.content_encoding,
        accept_encoding: fields.accept_encoding,
        user_agent: fields.user_agent,
        authorization: fields.authorization,
        impersonate: fields.impersonate,
        identity: fields.identity,
        origin: fields.origin,
        if_none_match: fields.if_none_match,
        host,
        upgrade: (is_http_11
            && method == Method::Get
            && fields.connection_upgrade
            && fields.upgrade_websocket)
            .then(|| Box::new(fields.upgrade)),
    })
}

/// The parts of a request target (RFC 9112, section 3.2).
struct Target {
    authority: Option<String>,
    path: Vec<String>,
    query: Query,
}

impl Target {
    fn parse(target: &str) -> Result<Self, HeadError> {
        if target.bytes().any(|b| !b.is_ascii_graphic() || b == b'#') {
            return Err(HeadError::Target);
        }
        let (authority, rest) = if target.starts_with('/') {
            (None, target)
        } else {
            let (scheme, rest) = target.split_once("://").ok_or(HeadError::Target)?;
            if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
                return Err(HeadError::Target);
            }
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            let (authority, rest) = rest.split_at(end);
            if authority.is_empty() || !is_authority(authority) {
                return Err(HeadError::Host);
            }
            (Some(authority.to_owned()), rest)
        };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let query = Query::parse(query).map_err(HeadError::in_query)?;
        Ok(Self { authority, path: parse_path(path)?, query })
    }
}

fn parse_path(path: &str) -> Result<Vec<String>, HeadError> {
    let inner = path.strip_prefix('/').unwrap_or(path);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    if inner.is_empty() && path.len() <= 1 {
        return Ok(Vec::new());
    }
    inner
        .split('/')
        .map(|segment| {
            let segment = text::percent_decode(segment, false).map_err(HeadError::in_path)?;
            match segment.as_str() {
                "." | ".." => Err(HeadError::DotSegment),
                other if other.contains('/') => Err(HeadError::EncodedSlash),
                _ => Ok(segment),
            }
        })
        .collect()
}

/// Whether `text` is `host` or `host:port` without userinfo (RFC 3986, section 3.2; RFC 9110, section 4.2.4).
fn is_authority(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, "")) => (address, None),
            Some((address, port)) => match port.strip_prefix(':') {
                Some(port) => (address, Some(port)),
                None => return false,
            },
            None => return false,
        },
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let host_ok = if text.starts_with('[') {
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'))
    } else {
        host.bytes().all(|b| {
            b.is_ascii_alphanumeric()
                || matches!(b, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*')
                || matches!(b, b'+' | b',' | b';' | b'=')
        })
    };
    host_ok && port.is_none_or(|port| port.len() <= 5 && port.bytes().all(|b| b.is_ascii_digit()))
}

impl HeadError {
    const fn in_path(error: PercentError) -> Self {
        match error {
            PercentError::Escape => Self::PathEscape,
            PercentError::Utf8 => Self::PathUtf8,
            PercentError::Control => Self::PathControl,
        }
    }

    const fn in_query(error: PercentError) -> Self {
        match error {
            PercentError::Escape => Self::QueryEscape,
            PercentError::Utf8 => Self::QueryUtf8,
            PercentError::Control => Self::QueryControl,
        }
    }
}
