//! The headers that are used.

use super::{HeadError, IdentityHeaders, UpgradeHeaders, is_authority};

/// Header values, collected and checked one by one; the caller checks them together.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) host: Option<String>,
    pub(super) content_length: Option<u64>,
    pub(super) chunked: bool,
    pub(super) connection_close: bool,
    pub(super) connection_upgrade: bool,
    pub(super) upgrade_websocket: bool,
    pub(super) upgrade: UpgradeHeaders,
    pub(super) expect_continue: bool,
    pub(super) accept: Option<String>,
    pub(super) accept_encoding: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) content_encoding: Option<String>,
    pub(super) user_agent: Option<String>,
    pub(super) authorization: Option<String>,
    pub(super) impersonate: Option<String>,
    pub(super) identity: IdentityHeaders,
    pub(super) origin: Option<String>,
    pub(super) if_none_match: Option<String>,
}

impl Fields {
    /// Reads a header that is a line of `head`.
    pub(super) fn take(&mut self, head: &[u8], header: &httparse::Header<'_>) -> Result<(), HeadError> {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        let value = header.value.trim_ascii();
        if is("host") {
            let host = ascii(value)?;
            if !is_authority(&host) {
                return Err(HeadError::Host);
            }
            once(&mut self.host, host)
        } else if is("content-length") {
            once(&mut self.content_length, content_length(raw_value(head, header)?)?)
        } else if is("transfer-encoding") {
            self.take_transfer_encoding(value)
        } else if is("connection") {
            self.connection_close |= lists(value, "close");
            self.connection_upgrade |= lists(value, "upgrade");
            Ok(())
        } else if is("upgrade") {
            self.upgrade_websocket |= lists(value, "websocket");
            Ok(())
        } else if is("origin") {
            join(&mut self.origin, value)
        } else if is("sec-websocket-key") {
            join(&mut self.upgrade.key, value)
        } else if is("sec-websocket-version") {
            join(&mut self.upgrade.version, value)
        } else if is("sec-websocket-protocol") {
            join(&mut self.upgrade.protocols, value)
        } else if is("expect") {
            if !value.eq_ignore_ascii_case(b"100-continue") {
                return Err(HeadError::Expectation);
            }
            self.expect_continue = true;
            Ok(())
        } else if is("accept") {
            join(&mut self.accept, value)
        } else if is("accept-encoding") {
            join(&mut self.accept_encoding, value)
        } else if is("if-none-match") {
            join(&mut self.if_none_match, value)
        } else if is("content-type") {
            once(&mut self.content_type, ascii(value)?)
        } else if is("content-encoding") {
            join(&mut self.content_encoding, value)
        } else if is("authorization") {
            once(&mut self.authorization, ascii(value)?)
        } else if is("impersonate-user") {
            self.impersonate = Some(String::from_utf8_lossy(value).into_owned());
            self.identity.take(header.name, value)
        } else if header.name.get(..12).is_some_and(|start| start.eq_ignore_ascii_case("impersonate-")) {
            self.impersonate.get_or_insert_default();
            self.identity.take(header.name, value)
        } else if is("user-agent") {
            self.user_agent.get_or_insert_with(|| String::from_utf8_lossy(value).into_owned());
            Ok(())
        } else {
            self.identity.take(header.name, value)
        }
    }

    /// Only `chunked`, once: with a coding after it the length is unknown, one before it is not implemented.
    fn take_transfer_encoding(&mut self, value: &[u8]) -> Result<(), HeadError> {
        if self.chunked {
            return Err(HeadError::TransferEncoding);
        }
        let mut codings = value.split(|b| *b == b',').map(<[u8]>::trim_ascii);
        let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
        match (codings.next(), codings.next()) {
            (Some(only), None) if is_chunked(only) => {
                self.chunked = true;
                Ok(())
            }
            (Some(first), _) if is_chunked(first) || first.is_empty() => Err(HeadError::TransferEncoding),
            _ => Err(HeadError::TransferCoding),
        }
    }
}

/// A value that must not be repeated.
fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), HeadError> {
    if slot.is_some() {
        return Err(HeadError::Repeated);
    }
    *slot = Some(value);
    Ok(())
}

/// A list that may be distributed over several headers (RFC 9110, section 5.3).
fn join(slot: &mut Option<String>, value: &[u8]) -> Result<(), HeadError> {
    let value = ascii(value)?;
    match slot {
        None => *slot = Some(value),
        Some(before) => {
            before.push_str(", ");
            before.push_str(&value);
        }
    }
    Ok(())
}

/// The value as text; the scan has excluded line breaks and other control characters except tabs.
fn ascii(value: &[u8]) -> Result<String, HeadError> {
    match std::str::from_utf8(value) {
        Ok(text) if text.is_ascii() => Ok(text.to_owned()),
        Ok(_) | Err(_) => Err(HeadError::Value),
    }
}

/// Whether a comma-separated list contains `token`, in any case.
fn lists(value: &[u8], token: &str) -> bool {
    value.split(|b| *b == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

/// Everything between the colon and the CRLF: httparse trims more than is allowed for a length.
fn raw_value<'a>(head: &'a [u8], header: &httparse::Header<'_>) -> Result<&'a [u8], HeadError> {
    let name_at = (header.name.as_ptr() as usize).wrapping_sub(head.as_ptr() as usize);
    let from = name_at.wrapping_add(header.name.len() + 1);
    let rest = head.get(from..).ok_or(HeadError::ContentLength)?;
    let len = rest.iter().position(|b| *b == b'\r').ok_or(HeadError::ContentLength)?;
    Ok(&rest[..len])
}

/// At most one space, then digits: parsers disagree about lists, signs, bases and other padding.
fn content_length(raw: &[u8]) -> Result<u64, HeadError> {
    let digits = raw.strip_prefix(b" ").unwrap_or(raw);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(HeadError::ContentLength);
    }
    let text = std::str::from_utf8(digits).map_err(|_| HeadError::ContentLength)?;
    text.parse().map_err(|_| HeadError::ContentLength)
}
