//! The credentials of a request: a bearer token, in its header or in a WebSocket's subprotocols.
//!
//! It takes them from the head and checks only their form (apiserver `authentication/request/bearertoken` and
//! `.../websocket`).

use std::borrow::Cow;

use crate::http::base64url;
use crate::http::request::RequestHead;

/// A subprotocol that carries a token in base64url, for browsers, which cannot set the header of a WebSocket.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// What a request presents besides its connection's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presented<'a> {
    /// None that are known here; schemes other than `Bearer` do not count.
    Nothing,
    /// A token.
    Token(Cow<'a, str>),
    /// A token that cannot be read, and why.
    Unreadable(&'static str),
}

impl<'a> Presented<'a> {
    /// The credentials in `head`.
    #[must_use]
    pub fn of(head: &'a RequestHead) -> Self {
        let header = head.authorization.as_deref().and_then(bearer);
        match (header, &head.upgrade) {
            (Some(token), _) => Self::Token(token.into()),
            (None, Some(upgrade)) => of_protocols(upgrade.protocols.as_deref().unwrap_or_default()),
            (None, None) => Self::Nothing,
        }
    }
}

/// The token of `Bearer TOKEN`; the scheme in any case (RFC 9110, section 11.1).
fn bearer(header: &str) -> Option<&str> {
    let (scheme, rest) = header.trim().split_once(' ')?;
    let token = rest.split(' ').next().filter(|token| !token.is_empty())?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

fn of_protocols(offered: &str) -> Presented<'static> {
    let names = || offered.split(',').map(str::trim).filter(|name| !name.is_empty());
    let mut tokens = names().filter_map(|name| name.strip_prefix(TOKEN_PROTOCOL));
    let Some(encoded) = tokens.next() else { return Presented::Nothing };
    if tokens.next().is_some() {
        return Presented::Unreadable("several tokens in the subprotocols");
    }
    let Some(token) = base64url::decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else {
        return Presented::Unreadable("the token in the subprotocols is not base64url of text");
    };
    if token.is_empty() {
        return Presented::Nothing;
    }
    if names().all(|name| name.starts_with(TOKEN_PROTOCOL)) {
        // The token is never echoed, and a browser closes a connection whose server agrees to none of its subprotocols.
        return Presented::Unreadable("no other subprotocol besides the token's");
    }
    Presented::Token(token.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::{Parsed, parse_head};

    fn presented(lines: &str) -> Presented<'static> {
        let text = format!("GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n");
        let Ok(Parsed::Complete { head, .. }) = parse_head(text.as_bytes()) else { panic!("{text}") };
        match Presented::of(&head) {
            Presented::Nothing => Presented::Nothing,
            Presented::Token(token) => Presented::Token(token.into_owned().into()),
            Presented::Unreadable(why) => Presented::Unreadable(why),
        }
    }

    fn token(text: &'static str) -> Presented<'static> {
        Presented::Token(text.into())
    }

    #[test]
    fn headers() {
        for (header, expected) in [
            ("Bearer abc", token("abc")),
            ("bearer abc", token("abc")),
            ("BEARER abc def", token("abc")),
            ("Bearer", Presented::Nothing),
            ("Bearer  abc", Presented::Nothing),
            ("Basic dXNlcjpwYXNz", Presented::Nothing),
            ("abc", Presented::Nothing),
            ("", Presented::Nothing),
            ("Bearerabc", Presented::Nothing),
        ] {
            assert_eq!(presented(&format!("Authorization: {header}")), expected, "{header:?}");
        }
        assert_eq!(presented("X-Authorization: Bearer abc"), Presented::Nothing);
    }

    #[test]
    fn subprotocols_of_websockets() {
        const UPGRADE: &str = "Upgrade: websocket\r\nConnection: Upgrade";
        let protocols = |offered: &str| presented(&format!("{UPGRADE}\r\nSec-WebSocket-Protocol: {offered}"));
        let abc = "base64url.bearer.authorization.k8s.io.YWJj";
        let other = "base64.binary.k8s.io";
        assert_eq!(protocols(&format!("{abc}, {other}")), token("abc"));
        assert_eq!(protocols(&format!("{other},{abc}")), token("abc"));
        assert_eq!(protocols(other), Presented::Nothing);
        assert_eq!(
            protocols(&format!("{other}, base64url.bearer.authorization.k8s.io.")),
            Presented::Nothing
        );
        let unreadable = |offered: &str| matches!(protocols(offered), Presented::Unreadable(_));
        assert!(unreadable(abc), "alone");
        assert!(unreadable(&format!("{abc}, {abc}, {other}")), "twice");
        assert!(unreadable(&format!("{abc}=, {other}")), "padding");
        assert!(unreadable(&format!("base64url.bearer.authorization.k8s.io._w, {other}")), "no text");
        // Subprotocols count on WebSockets only, and the header comes first.
        for half in ["", "Upgrade: websocket\r\n", "Connection: Upgrade\r\n"] {
            let offered = format!("{half}Sec-WebSocket-Protocol: {abc}, {other}");
            assert_eq!(presented(&offered), Presented::Nothing, "{half}");
        }
        let both =
            format!("Authorization: Bearer xyz\r\n{UPGRADE}\r\nSec-WebSocket-Protocol: {abc}, {other}");
        assert_eq!(presented(&both), token("xyz"));
    }
}
