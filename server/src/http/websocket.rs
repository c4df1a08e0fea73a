//! The opening handshake of a WebSocket: from a request's headers to the 101, or to an error.
//!
//! Owns section 4.2 of RFC 6455 and which subprotocols exist. No extension is ever agreed on, so a client cannot send
//! compressed data. It does not read frames.

use std::fmt;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use sha1::{Digest as _, Sha1};

use super::request::UpgradeHeaders;
use super::status::Status;

/// The supported version of the protocol (RFC 6455, section 4.1).
pub const VERSION: &str = "13";

/// The constant of the accept key (RFC 6455, section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Bytes of a key, decoded.
const KEY_BYTES: usize = 16;

/// Subprotocols that clients of Kubernetes' watches name (dashboards, consoles), none of which changes a watch's frames:
/// kube-apiserver echoes the name and sends text. A bearer token in a subprotocol is a secret, and never echoed.
const PROTOCOLS: [&str; 2] = ["base64.binary.k8s.io", "binary.k8s.io"];

/// Subprotocols of one request that are read.
const PROTOCOLS_MAX: usize = 32;

/// Keys are read whatever the unused bits of the last digit are.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// A valid handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    accept: String,
    protocol: Option<&'static str>,
}

impl Handshake {
    /// Validates the headers of a request that asks to become a WebSocket.
    ///
    /// # Errors
    /// The first error: a 400.
    pub fn new(headers: &UpgradeHeaders) -> Result<Self, HandshakeError> {
        if headers.version.as_deref() != Some(VERSION) {
            return Err(HandshakeError::Version);
        }
        let key = headers.key.as_deref().ok_or(HandshakeError::KeyMissing)?;
        if LENIENT.decode(key).ok().is_none_or(|bytes| bytes.len() != KEY_BYTES) {
            return Err(HandshakeError::Key);
        }
        let offered = headers.protocols.as_deref().unwrap_or_default();
        let protocol = offered
            .split(',')
            .take(PROTOCOLS_MAX)
            .find_map(|name| PROTOCOLS.into_iter().find(|known| *known == name.trim()));
        let digest = Sha1::new().chain_update(key).chain_update(GUID).finalize();
        Ok(Self { accept: STANDARD.encode(digest), protocol })
    }

    /// Appends the 101 as recorded (recording 16), with the agreed subprotocol, if there is one.
    pub fn push_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ",
        );
        out.extend_from_slice(self.accept.as_bytes());
        if let Some(protocol) = self.protocol {
            out.extend_from_slice(b"\r\nSec-WebSocket-Protocol: ");
            out.extend_from_slice(protocol.as_bytes());
        }
        out.extend_from_slice(b"\r\n\r\n");
    }

    /// The agreed subprotocol, if there is one.
    #[must_use]
    pub const fn protocol(&self) -> Option<&'static str> {
        self.protocol
    }
}

/// Why a request does not become a WebSocket. The client's fault, or that of a proxy in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    /// `Sec-WebSocket-Version` is not 13; the response names the supported one.
    Version,
    /// There is no `Sec-WebSocket-Key`.
    KeyMissing,
    /// The key is not 16 bytes in base64.
    Key,
}

impl HandshakeError {
    /// The response, with the remedy.
    #[must_use]
    pub fn status(self) -> Status {
        Status::bad_request(self.to_string())
    }
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the watch cannot become a WebSocket: ")?;
        f.write_str(match self {
            Self::Version => "Sec-WebSocket-Version is not 13; send Sec-WebSocket-Version: 13",
            Self::KeyMissing => {
                "Sec-WebSocket-Key is missing; send one: 16 random bytes in base64, 24 characters"
            }
            Self::Key => {
                "Sec-WebSocket-Key is not 16 bytes in base64; send one such key, of 24 characters that end in =="
            }
        })
    }
}

impl std::error::Error for HandshakeError {}

#[cfg(test)]
mod tests {
    use super::super::request::{Parsed, parse_head};
    use super::*;

    fn headers(lines: &str) -> UpgradeHeaders {
        let text = format!("GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n");
        match parse_head(text.as_bytes()) {
            Ok(Parsed::Complete { head, .. }) => *head.upgrade.expect("an upgrade"),
            other => panic!("{other:?}"),
        }
    }

    const RIGHT: &str = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: ";

    fn answer(lines: &str) -> String {
        let mut out = Vec::new();
        Handshake::new(&headers(lines)).expect("a right handshake").push_to(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn the_answer_is_as_recorded() {
        // Recording 16.
        let recorded = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n\r\n";
        assert_eq!(answer(&format!("{RIGHT}AAAAAAAAAAAAAAAAAAAAAA==")), recorded);
        // RFC 6455, section 1.3.
        let example = answer(&format!("{RIGHT}dGhlIHNhbXBsZSBub25jZQ=="));
        assert!(example.contains("Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{example}");
    }

    #[test]
    fn only_known_subprotocols_are_echoed() {
        let protocol = |offer: &str| {
            let lines = format!("{RIGHT}AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: {offer}");
            let answer = answer(&lines);
            answer.split("Sec-WebSocket-Protocol: ").nth(1).map(|rest| rest.trim_end().to_owned())
        };
        let known = "base64.binary.k8s.io";
        assert_eq!(protocol(known).as_deref(), Some(known));
        let bearer = "base64url.bearer.authorization.k8s.io.c2VjcmV0";
        assert_eq!(protocol(&format!("{bearer}, {known}")).as_deref(), Some(known));
        assert_eq!(protocol(&format!("{bearer}\r\nSec-WebSocket-Protocol: {known}")).as_deref(), Some(known));
        assert_eq!(
            protocol("binary.k8s.io, base64.binary.k8s.io").as_deref(),
            Some("binary.k8s.io"),
            "the client's order counts"
        );
        for unknown in [bearer, "chat", "", "null", "base64.binary.k8s.io.evil", "v4.channel.k8s.io"] {
            assert_eq!(protocol(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn rows_51_to_53_handshakes_that_are_wrong() {
        use HandshakeError as E;
        let key = "AAAAAAAAAAAAAAAAAAAAAA==";
        let upgrade = "Upgrade: websocket";
        let table = [
            (format!("{upgrade}\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}"), E::Version),
            (RIGHT.replace("13", "8") + key, E::Version),
            (RIGHT.replace("13", "13, 13") + key, E::Version),
            (format!("{upgrade}\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13"), E::KeyMissing),
            (RIGHT.to_owned(), E::Key),
            (format!("{RIGHT}AAAA"), E::Key),
            (format!("{RIGHT}AAAAAAAAAAAAAAAAAAAAAA"), E::Key),
            (format!("{RIGHT}AAAAAAAAAAAAAAAAAAAAAAA="), E::Key),
            (format!("{RIGHT}AAAAAAAAAAAAAAAAAAAA-_=="), E::Key),
            (format!("{RIGHT}{key}\r\nSec-WebSocket-Key: {key}"), E::Key),
        ];
        for (lines, expected) in table {
            let error = Handshake::new(&headers(&lines)).expect_err(&lines);
            assert_eq!((error, error.status().code()), (expected, 400), "{lines}");
            assert!(error.to_string().contains("; send"), "{error} says what to do");
        }
    }
}
