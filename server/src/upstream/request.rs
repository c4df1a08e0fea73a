//! The head of a forwarded request: what of a client's head goes to the upstream (RFC 9110, section 7.6).
//!
//! Owns which headers are passed on, removed and added. The head was validated by [`http::request`](crate::http::request) before;
//! here it is only taken apart again.

use std::net::IpAddr;

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    SEC_WEBSOCKET_PROTOCOL, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VIA,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use crate::http::request::HEADERS_MAX;
use crate::http::text::is_token_byte;
use crate::identity::Identity;

/// How this server names itself in `Via`.
pub(super) const VIA_SELF: &str = "1.1 revcast";
/// Who sent the request, one proxy after another.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The id of a request in audit logs.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// A bearer token among the subprotocols of a WebSocket.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// With which identity a request reaches the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The client's own credentials, unchanged.
    Client,
    /// The server's, which acts for this user.
    Impersonated(std::sync::Arc<Identity>),
    /// This user, as a front proxy names it.
    Named(std::sync::Arc<Identity>),
}

/// Why a head cannot be forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotForwarded {
    /// Its target has a character that a URI must not have.
    Target,
    /// A header has a name or a value that must not be passed on, or the user has a name that no header can have.
    Header,
}

/// A head as it was received.
#[derive(Clone, Debug)]
pub struct RawHead {
    /// The method, whatever it is.
    pub method: Method,
    /// The target as it was sent.
    pub target: String,
    /// All headers.
    pub headers: HeaderMap,
    /// Whether the client may ask for another protocol: not over HTTP/1.0 (RFC 9110, section 7.8).
    pub may_upgrade: bool,
}

impl RawHead {
    /// Of the bytes of a complete head of HTTP/1.
    ///
    /// # Errors
    /// It cannot be passed on: 400.
    pub fn parse(raw: &[u8]) -> Result<Self, NotForwarded> {
        let mut slots = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut slots);
        parsed.parse(raw).map_err(|_| NotForwarded::Header)?;
        let method = parsed.method.ok_or(NotForwarded::Header)?;
        let target = parsed.path.ok_or(NotForwarded::Target)?;
        let may_upgrade = parsed.version == Some(1);
        let headers = parsed.headers.iter().map(|header| (header.name.as_bytes(), header.value.trim_ascii()));
        Self::new(method, target, headers, may_upgrade)
    }

    /// Of its parts.
    ///
    /// # Errors
    /// It cannot be passed on: 400.
    pub fn new<'a>(
        method: &str,
        target: &str,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        may_upgrade: bool,
    ) -> Result<Self, NotForwarded> {
        let method = Method::from_bytes(method.as_bytes()).map_err(|_| NotForwarded::Header)?;
        let mut headers = HeaderMap::with_capacity(fields.size_hint().0 + 8);
        for (name, value) in fields {
            let name = HeaderName::from_bytes(name).map_err(|_| NotForwarded::Header)?;
            headers.append(name, HeaderValue::from_bytes(value).map_err(|_| NotForwarded::Header)?);
        }
        Ok(Self { method, target: target.to_owned(), headers, may_upgrade })
    }
}

/// A head for the upstream.
#[derive(Clone, Debug)]
pub struct ForwardedHead {
    /// The method, whatever it is.
    pub method: Method,
    /// The path and the query, as the client encoded them.
    pub target: Uri,
    /// Headers from end to end, and those that are added. Not those about the body.
    pub headers: HeaderMap,
    /// The protocol that the client asks to change to: `websocket`, `SPDY/3.1`.
    pub upgrade: Option<HeaderValue>,
    /// Whether the client takes trailers.
    pub takes_trailers: bool,
}

impl ForwardedHead {
    /// Of a head that was received from `client`.
    ///
    /// # Errors
    /// It cannot be passed on: 400.
    pub fn of(raw: RawHead, client: Option<IpAddr>, caller: &Caller) -> Result<Self, NotForwarded> {
        let RawHead { method, target, mut headers, may_upgrade } = raw;
        let target = origin_form(&target)?;
        let upgrade = upgrade_of(&headers).filter(|_| may_upgrade);
        let takes_trailers = lists(&headers, &TE, "trailers");
        remove_hop_by_hop(&mut headers);
        for name in [HOST, CONTENT_LENGTH, EXPECT] {
            headers.remove(name);
        }
        // They count only from a proxy that proves who it is, and such a one is not passed on.
        remove_where(&mut headers, |name| name.starts_with("x-remote-"));
        if takes_trailers {
            headers.insert(TE, HeaderValue::from_static("trailers"));
            headers.insert(CONNECTION, HeaderValue::from_static("TE"));
        }
        // A method that has a body says that its body is empty (RFC 9110, section 8.6); a longer one is framed anew.
        if matches!(method, Method::POST | Method::PUT | Method::PATCH) {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        caller.put_into(&mut headers)?;
        let client = client.map(|address| address.to_canonical().to_string());
        append(&mut headers, FORWARDED_FOR, client.as_deref())?;
        append(&mut headers, VIA, Some(VIA_SELF))?;
        Ok(Self { method, target, headers, upgrade, takes_trailers })
    }

    /// Gives the request this id in the upstream's audit log, unless its client gave it one.
    pub fn set_audit_id(&mut self, id: &str) {
        if let Ok(id) = HeaderValue::from_str(id) {
            self.headers.entry(AUDIT_ID).or_insert(id);
        }
    }
}

impl Caller {
    /// Whether the upstream is shown the client's own credentials.
    #[must_use]
    pub const fn is_client(&self) -> bool {
        matches!(self, Self::Client)
    }

    fn put_into(&self, headers: &mut HeaderMap) -> Result<(), NotForwarded> {
        let (user, prefix) = match self {
            Self::Client => return Ok(()),
            Self::Impersonated(user) => (user, "impersonate-"),
            Self::Named(user) => (user, "x-remote-"),
        };
        // The client's credentials end here, and what it asked to be was decided here.
        headers.remove(AUTHORIZATION);
        headers.remove(COOKIE);
        remove_where(headers, |name| name.starts_with("impersonate-"));
        remove_tokens(headers);
        let name = |rest: &str| {
            HeaderName::from_bytes(format!("{prefix}{rest}").as_bytes()).map_err(|_| NotForwarded::Header)
        };
        let value = |text: &str| HeaderValue::from_bytes(text.as_bytes()).map_err(|_| NotForwarded::Header);
        headers.insert(name("user")?, value(&user.name)?);
        for group in &user.groups {
            headers.append(name("group")?, value(group)?);
        }
        if !user.uid.is_empty() {
            headers.insert(name("uid")?, value(&user.uid)?);
        }
        for (key, values) in &user.extra {
            let name = name(&format!("extra-{}", header_key(key)))?;
            for text in values {
                headers.append(name.clone(), value(text)?);
            }
        }
        Ok(())
    }
}

/// A key as a part of a header's name: what that must not have, and `%`, is percent-encoded (apiserver `transport`).
fn header_key(key: &str) -> String {
    let mut name = String::with_capacity(key.len());
    for byte in key.bytes() {
        if is_token_byte(byte) && byte != b'%' {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02x}"));
        }
    }
    name
}

/// The path and query of a target, which may be a whole URL (RFC 9112, section 3.2.2).
fn origin_form(target: &str) -> Result<Uri, NotForwarded> {
    let origin = match target.split_once("://") {
        Some((_, rest)) if !target.starts_with('/') => {
            rest.find(['/', '?']).map_or("/", |start| &rest[start..])
        }
        Some(_) | None => target,
    };
    let with_path = if origin.starts_with('/') { origin.to_owned() } else { format!("/{origin}") };
    with_path.parse().map_err(|_| NotForwarded::Target)
}

/// The protocol of an upgrade: `Upgrade`, if `Connection` names it. Never another version of HTTP: requests in it would reach the
/// upstream past the rules of this file.
fn upgrade_of(headers: &HeaderMap) -> Option<HeaderValue> {
    let asked = lists(headers, &CONNECTION, "upgrade");
    let is_http = |name: &str| {
        let name = name.split('/').next().unwrap_or_default().trim();
        ["h2", "h2c", "h3", "http"].iter().any(|http| name.eq_ignore_ascii_case(http))
    };
    let upgrade = headers.get(UPGRADE).filter(|_| asked && !tokens(headers, &UPGRADE).any(is_http));
    upgrade.filter(|protocol| !protocol.is_empty()).cloned()
}

/// Whether a list in headers of this name contains `token`, in any case.
fn lists(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    tokens(headers, name).any(|one| one.eq_ignore_ascii_case(token))
}

fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// Removes what is meant for one connection only: what `Connection` names, and what always is (RFC 9110, section 7.6.1).
pub(super) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = tokens(headers, &CONNECTION)
        .filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE]
    {
        headers.remove(name);
    }
    headers.remove("http2-settings");
    headers.remove("keep-alive");
    headers.remove("proxy-connection");
}

fn remove_where(headers: &mut HeaderMap, is: impl Fn(&str) -> bool) {
    let names: Vec<HeaderName> = headers.keys().filter(|name| is(name.as_str())).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// Removes bearer tokens from the subprotocols of a WebSocket.
fn remove_tokens(headers: &mut HeaderMap) {
    let kept: Vec<String> = tokens(headers, &SEC_WEBSOCKET_PROTOCOL)
        .filter(|protocol| !protocol.starts_with(TOKEN_PROTOCOL))
        .map(str::to_owned)
        .collect();
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    if let Some(value) = (!kept.is_empty()).then(|| HeaderValue::from_str(&kept.join(", ")).ok()).flatten() {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, value);
    }
}

/// Appends to the list of all headers of this name.
fn append(headers: &mut HeaderMap, name: HeaderName, more: Option<&str>) -> Result<(), NotForwarded> {
    let Some(more) = more else { return Ok(()) };
    let mut list: Vec<&[u8]> = headers.get_all(&name).into_iter().map(HeaderValue::as_bytes).collect();
    list.push(more.as_bytes());
    let value = HeaderValue::from_bytes(&list.join(&b", "[..])).map_err(|_| NotForwarded::Header)?;
    headers.insert(name, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use super::*;

    fn head(text: &str, caller: &Caller) -> ForwardedHead {
        let raw = format!("{}\r\n\r\n", text.replace('\n', "\r\n"));
        let client = Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)));
        let raw = RawHead::parse(raw.as_bytes()).expect("a head");
        ForwardedHead::of(raw, client, caller).expect("a head that can be forwarded")
    }

    fn shown(head: &ForwardedHead) -> Vec<String> {
        let mut lines: Vec<String> = head
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn what_is_for_one_connection_ends_here() {
        let sent = "POST /api/v1/namespaces/a/pods?x=%2F HTTP/1.1\nHost: revcast\nConnection: close, X-Mine\nX-Mine: 1\n\
                    Keep-Alive: 5\nProxy-Connection: x\nProxy-Authorization: x\nTE: trailers, gzip\nTrailer: a\nTransfer-Encoding: chunked\n\
                    Expect: 100-continue\nAuthorization: Bearer abc\nX-Forwarded-For: 9.9.9.9\nVia: 1.0 other\nX-Remote-User: admin\n\
                    X-Remote-Extra-Scopes: a\nImpersonate-User: jane\nCookie: a=b\nX-Other: 1\nX-Other: 2";
        let forwarded = head(sent, &Caller::Client);
        assert_eq!(
            shown(&forwarded),
            [
                "authorization: Bearer abc",
                "connection: TE",
                "content-length: 0",
                "cookie: a=b",
                "impersonate-user: jane",
                "te: trailers",
                "via: 1.0 other, 1.1 revcast",
                "x-forwarded-for: 9.9.9.9, 192.0.2.7",
                "x-other: 1",
                "x-other: 2",
            ]
        );
        assert_eq!(
            (forwarded.method, forwarded.target.to_string().as_str()),
            (Method::POST, "/api/v1/namespaces/a/pods?x=%2F")
        );
        assert!(forwarded.takes_trailers && forwarded.upgrade.is_none());
    }

    #[test]
    fn a_user_is_named_by_nobody_else() {
        let user = Identity::proven("jörg".into(), "u7".into(), vec!["dev".into()], None);
        let sent = "GET / HTTP/1.1\nHost: a\nAuthorization: Bearer abc\nImpersonate-User: admin\nImpersonate-Group: system:masters\n\
                    Impersonate-Extra-a: b\nX-Remote-Group: system:masters\nCookie: a=b\nConnection: Upgrade\nUpgrade: websocket\n\
                    Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.YWJj, v5.channel.k8s.io";
        let user = Arc::new(user);
        let added =
            ["sec-websocket-protocol: v5.channel.k8s.io", "via: 1.1 revcast", "x-forwarded-for: 192.0.2.7"];
        for (caller, prefix) in
            [(Caller::Impersonated(Arc::clone(&user)), "impersonate"), (Caller::Named(user), "x-remote")]
        {
            let forwarded = head(sent, &caller);
            let mut expected: Vec<String> = added.iter().map(|line| (*line).to_owned()).collect();
            expected.push(format!("{prefix}-group: dev"));
            expected.push(format!("{prefix}-group: system:authenticated"));
            expected.push(format!("{prefix}-uid: u7"));
            expected.push(format!("{prefix}-user: jörg"));
            expected.sort();
            assert_eq!(shown(&forwarded), expected);
            assert_eq!(forwarded.upgrade.as_ref().map(HeaderValue::as_bytes), Some(&b"websocket"[..]));
        }
    }

    #[test]
    fn what_else_is_said_of_a_user_is_said_there_too() {
        let extra = |key: &str, values: &[&str]| {
            (key.to_owned(), values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>())
        };
        let user = Identity {
            extra: vec![extra("example.com/a%b c", &["1", "2"]), extra("scopes", &["x"])],
            ..Identity::proven("jane".into(), String::new(), Vec::new(), None)
        };
        let forwarded =
            head("GET / HTTP/1.1\nHost: a\nX-Remote-Extra-Scopes: all", &Caller::Named(Arc::new(user)));
        let said: Vec<String> =
            shown(&forwarded).into_iter().filter(|line| line.starts_with("x-remote-extra")).collect();
        assert_eq!(
            said,
            [
                "x-remote-extra-example.com%2fa%25b%20c: 1",
                "x-remote-extra-example.com%2fa%25b%20c: 2",
                "x-remote-extra-scopes: x",
            ]
        );
    }

    #[test]
    fn names_that_no_header_can_have() {
        for name in ["a\r\nImpersonate-Group: system:masters", "a\0b", "a\nb"] {
            let user = Arc::new(Identity::proven(name.into(), String::new(), Vec::new(), None));
            let raw = RawHead::parse(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("a head");
            let refused = ForwardedHead::of(raw, None, &Caller::Impersonated(user));
            assert_eq!(refused.err(), Some(NotForwarded::Header), "{name:?}");
        }
    }

    #[test]
    fn upgrades() {
        for (sent, expected) in [
            ("HTTP/1.1\nConnection: keep-alive, Upgrade\nUpgrade: SPDY/3.1", Some("SPDY/3.1")),
            ("HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket", Some("websocket")),
            ("HTTP/1.1\nUpgrade: websocket", None),
            ("HTTP/1.1\nConnection: Upgrade", None),
            ("HTTP/1.0\nConnection: Upgrade\nUpgrade: websocket", None),
            ("HTTP/1.1\nConnection: Upgrade\nUpgrade: h2c", None),
            ("HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket, HTTP/2.0", None),
            ("HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket\nUpgrade: H2C", None),
        ] {
            let forwarded = head(&format!("GET / {sent}\nHost: a"), &Caller::Client);
            let upgrade = forwarded.upgrade.as_ref().map(|value| value.to_str().expect("text"));
            assert_eq!(upgrade, expected, "{sent}");
        }
    }

    #[test]
    fn targets() {
        for (target, expected) in [
            ("/a?b=c", "/a?b=c"),
            ("http://other/a", "/a"),
            ("https://other", "/"),
            ("http://other?x=1", "/?x=1"),
            ("/a//b?u=http://x/", "/a//b?u=http://x/"),
        ] {
            let forwarded = head(&format!("GET {target} HTTP/1.1\nHost: a"), &Caller::Client);
            assert_eq!(forwarded.target.to_string(), expected);
        }
    }
}
