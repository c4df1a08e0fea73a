//! The positions of the parts of an object's JSON: byte ranges, not values.
//!
//! It owns the walk over text that simd-json has already found to be valid, and finds the members that the
//! engine splices or skips. It never decides whether the text is JSON, and never copies a value.

use std::ops::Range;

/// The places that matter, as byte offsets into the scanned text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// The value of the top member `kind`, quotes included.
    pub(crate) kind: Option<Range<usize>>,
    /// The value of the top member `apiVersion`, quotes included.
    pub(crate) api_version: Option<Range<usize>>,
    /// Right after the comma that follows a leading `kind` and `apiVersion` pair (in either order), when the text
    /// begins with both and more follows.
    pub(crate) after_type: Option<usize>,
    /// Right after the `{` of `metadata`.
    pub(crate) metadata: Option<usize>,
    /// Whether `metadata` has a member.
    pub(crate) metadata_filled: bool,
    /// The value of `metadata.resourceVersion`.
    pub(crate) resource_version: Option<Range<usize>>,
    /// The end of the value of `metadata.uid`, or else `.namespace`, or else `.name`.
    pub(crate) after_identity: Option<usize>,
    /// The end of the value of the last member of `metadata` whose name sorts before `resourceVersion`.
    pub(crate) after_lesser: Option<usize>,
}

/// A member name with letters that are escaped: it cannot be compared byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EscapedName;

/// Walks the top object of `text`, which must be valid JSON and an object without space around it.
pub(crate) fn places(text: &[u8]) -> Result<Places, EscapedName> {
    let mut found = Places::default();
    let mut identity_rank = 0;
    let mut member_index = 0;
    let mut leading_types = 0;
    let mut walk = Walk { text, at: 0 };
    walk.members(|walk, name, value_start| {
        match name {
            b"metadata" if walk.peek() == b'{' => {
                found.metadata = Some(value_start + 1);
                found.metadata_filled = false;
                found.after_lesser = None;
                walk.members(|walk, name, start| {
                    found.metadata_filled = true;
                    let end = walk.skip_value();
                    let rank = match name {
                        b"uid" => 3,
                        b"namespace" => 2,
                        b"name" => 1,
                        b"resourceVersion" => {
                            found.resource_version = Some(start..end);
                            0
                        }
                        _ => 0,
                    };
                    if rank > identity_rank {
                        identity_rank = rank;
                        found.after_identity = Some(end);
                    }
                    if name < &b"resourceVersion"[..] {
                        found.after_lesser = Some(end);
                    }
                    Ok(())
                })?;
            }
            b"kind" | b"apiVersion" => {
                let end = walk.skip_value();
                if name == b"kind" {
                    found.kind = Some(value_start..end);
                } else {
                    found.api_version = Some(value_start..end);
                }
                if member_index == leading_types && member_index < 2 {
                    leading_types += 1;
                    if leading_types == 2 && found.kind.is_some() && found.api_version.is_some() {
                        walk.space();
                        if walk.peek() == b',' {
                            found.after_type = Some(walk.at + 1);
                        }
                    }
                }
            }
            _ => {
                walk.skip_value();
            }
        }
        member_index += 1;
        Ok(())
    })?;
    Ok(found)
}

struct Walk<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    /// The byte here; NUL past the end, which valid JSON never reaches.
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    /// Calls `visit` with each member's name, standing on the first byte of its value; `visit` moves past it.
    fn members(
        &mut self,
        mut visit: impl FnMut(&mut Self, &'a [u8], usize) -> Result<(), EscapedName>,
    ) -> Result<(), EscapedName> {
        self.at += 1;
        self.space();
        while self.peek() == b'"' {
            let name_start = self.at + 1;
            let name_end = self.skip_string() - 1;
            let name = &self.text[name_start..name_end];
            if name.contains(&b'\\') && hides_a_letter(name) {
                return Err(EscapedName);
            }
            self.space();
            self.at += 1;
            self.space();
            let value_start = self.at;
            visit(self, name, value_start)?;
            self.space();
            if self.peek() == b',' {
                self.at += 1;
                self.space();
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Moves past a string; the offset after its closing quote.
    fn skip_string(&mut self) -> usize {
        self.at += 1;
        loop {
            match self.peek() {
                b'"' | 0 => {
                    self.at += 1;
                    return self.at;
                }
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }

    /// Moves past any value; the offset after it.
    fn skip_value(&mut self) -> usize {
        match self.peek() {
            b'"' => self.skip_string(),
            b'{' | b'[' => {
                let mut depth = 0_usize;
                loop {
                    match self.peek() {
                        b'"' => {
                            self.skip_string();
                            continue;
                        }
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => depth -= 1,
                        0 => return self.at,
                        _ => {}
                    }
                    self.at += 1;
                    if depth == 0 {
                        return self.at;
                    }
                }
            }
            _ => {
                while !matches!(self.peek(), b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r' | 0) {
                    self.at += 1;
                }
                self.at
            }
        }
    }
}

/// Whether a letter of a member name is written as an escape. Names that are compared are letters alone, so one with other
/// escapes (Go writes `&`, `<` and `>` as such) is none of them.
fn hides_a_letter(name: &[u8]) -> bool {
    let mut rest = name;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        let escape = &rest[at + 1..];
        if let [b'u', digits @ ..] = escape {
            let code = digits.get(..4).and_then(|digits| std::str::from_utf8(digits).ok());
            let code = code.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            if code.is_some_and(|code| code.is_ascii_alphabetic()) {
                return true;
            }
        }
        // After a backslash that is escaped itself no escape begins.
        rest = escape.get(1..).unwrap_or_default();
    }
    false
}

/// Removes the space between tokens, so that the text fits on one line. `text` must be valid JSON.
pub(crate) fn compact(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut walk = Walk { text, at: 0 };
    while walk.at < text.len() {
        match walk.peek() {
            b'"' => {
                let start = walk.at;
                let end = walk.skip_string().min(text.len());
                out.extend_from_slice(&text[start..end]);
            }
            b' ' | b'\t' | b'\n' | b'\r' => walk.at += 1,
            byte => {
                out.push(byte);
                walk.at += 1;
            }
        }
    }
    out
}

/// Whether `text`, JSON without space between its tokens, may have a number `-0`.
pub(crate) fn may_have_negative_zero(text: &[u8]) -> bool {
    text.windows(4).any(|bytes| matches!(bytes, [b':' | b',' | b'[', b'-', b'0', b',' | b'}' | b']']))
}

/// The same text with `0` for each number `-0`: Go reads an integer, which has no sign when it is zero.
pub(crate) fn without_negative_zeros(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut walk = Walk { text, at: 0 };
    while walk.at < text.len() {
        let start = walk.at;
        match &text[start..] {
            [b'"', ..] => _ = walk.skip_string(),
            // Only a number begins with a minus; one within a number follows its exponent.
            [b'-', b'0', b',' | b'}' | b']', ..] if !matches!(out.last(), Some(b'e' | b'E')) => {
                out.push(b'0');
                walk.at += 2;
                continue;
            }
            _ => walk.at += 1,
        }
        out.extend_from_slice(&text[start..walk.at.min(text.len())]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_zeros_lose_their_sign() {
        let text = br#"{"a":-0,"b":[-0,-0],"c":{"d":-0},"e":1e-0,"f":-0.5,"g":"x:-0,","h":-01}"#;
        assert!(may_have_negative_zero(text));
        let without = without_negative_zeros(text);
        let expected = r#"{"a":0,"b":[0,0],"c":{"d":0},"e":1e-0,"f":-0.5,"g":"x:-0,","h":-01}"#;
        assert_eq!(String::from_utf8_lossy(&without), expected);
        for text in [&br#"{"a":-0.5,"t":"2026-01-02"}"#[..], b"", b"-0", br#"{"a":1e-0}"#] {
            assert!(!may_have_negative_zero(text));
        }
    }

    fn at(text: &str, range: Option<Range<usize>>) -> Option<&str> {
        range.map(|r| &text[r])
    }

    #[test]
    fn finds_what_is_spliced() {
        let text = r#"{"kind":"A","apiVersion":"v1","metadata":{"name":"n","uid":"u","resourceVersion":"7"},"x":[{"metadata":{}}]}"#;
        let found = places(text.as_bytes()).expect("no escapes");
        assert_eq!(at(text, found.kind.clone()), Some("\"A\""));
        assert_eq!(at(text, found.resource_version.clone()), Some("\"7\""));
        assert!(text[found.after_type.expect("leads")..].starts_with("\"metadata\""));
        assert!(text[found.after_identity.expect("uid")..].starts_with(",\"resourceVersion\""));
        assert!(found.metadata_filled);
    }

    #[test]
    fn braces_and_quotes_in_strings_do_not_fool_it() {
        let text = r#"{ "data" : {"metadata":{"resourceVersion":"no"}, "s":"}\"{\\"} , "metadata" : { } }"#;
        let found = places(text.as_bytes()).expect("no escaped names");
        assert_eq!(found.resource_version, None);
        assert!(text[found.metadata.expect("there")..].starts_with(" } }"));
        assert!(!found.metadata_filled);
        assert_eq!(found.after_type, None);
    }

    #[test]
    fn type_members_elsewhere_are_found_but_do_not_lead() {
        let text = r#"{"metadata":{"name":"n"},"kind":"A","apiVersion":"v1"}"#;
        let found = places(text.as_bytes()).expect("no escapes");
        assert_eq!((at(text, found.api_version), found.after_type), (Some("\"v1\""), None));
        let text = r#"{"kind":"A","metadata":{"name":"n"},"apiVersion":"v1"}"#;
        assert_eq!(places(text.as_bytes()).expect("no escapes").after_type, None);
    }

    #[test]
    fn escaped_names_are_refused() {
        for hidden in [
            r#"{"meta\u0064ata":{}}"#,
            r#"{"\u0026\u006bind":1}"#,
            r#"{"\\\u0041":1}"#,
            r#"{"metadata":{"\u006eame":1}}"#,
        ] {
            assert_eq!(places(hidden.as_bytes()), Err(EscapedName), "{hidden}");
        }
        for other in [
            r#"{"\u003ca\u003E\u0026":1}"#,
            r#"{"\u2028\n\"\/":1}"#,
            r#"{"\\u0064":1}"#,
            r#"{"metadata":{"\u0026":1}}"#,
        ] {
            assert!(places(other.as_bytes()).is_ok(), "{other}");
        }
    }

    #[test]
    fn compact_keeps_strings() {
        assert_eq!(compact(b"{ \"a b\" :\n [1 ,\t2, \"x \\\" y\"] }\r\n"), b"{\"a b\":[1,2,\"x \\\" y\"]}");
    }
}
