//! The characters that Go's `encoding/json` escapes in strings although JSON does not require it: `&`, `<`, `>`, U+2028
//! and U+2029.
//!
//! It owns that one rewriting, so that everything is served with the escapes of kube-apiserver. It needs no context: in
//! valid JSON these characters occur in strings only. Escaped text stays as it is. It never checks that the text is
//! JSON.

use std::borrow::Cow;

/// Whether an escaped character may begin with this byte. U+2028 and U+2029 begin with E2, as many others do.
#[must_use]
#[inline]
pub const fn may_begin(byte: u8) -> bool {
    // Without a branch: see `find`.
    (byte == b'&') | (byte == b'<') | (byte == b'>') | (byte == 0xe2)
}

/// The escape of the character that `text` begins with, and the character's length; `None`: it is not escaped.
fn escape_of(text: &[u8]) -> Option<(&'static [u8; 6], usize)> {
    match text {
        [b'&', ..] => Some((b"\\u0026", 1)),
        [b'<', ..] => Some((b"\\u003c", 1)),
        [b'>', ..] => Some((b"\\u003e", 1)),
        [0xe2, 0x80, 0xa8, ..] => Some((b"\\u2028", 3)),
        [0xe2, 0x80, 0xa9, ..] => Some((b"\\u2029", 3)),
        _ => None,
    }
}

/// Position of the first byte that `wanted` says yes to. Blocks that have none are passed at once: `wanted` is best made of
/// comparisons without branches, which the compiler then does for a whole block.
#[inline]
pub fn find(bytes: &[u8], wanted: impl Fn(u8) -> bool) -> Option<usize> {
    let mut at = 0;
    while let Some(block) = bytes[at..].first_chunk::<16>() {
        if block.iter().fold(false, |any, byte| any | wanted(*byte)) {
            break;
        }
        at += block.len();
    }
    bytes[at..].iter().position(|byte| wanted(*byte)).map(|found| at + found)
}

/// Position of the next character that may have to be escaped.
fn next(json: &[u8], from: usize) -> Option<usize> {
    find(&json[from..], may_begin).map(|found| from + found)
}

/// Appends JSON text with these characters escaped: at most six bytes for each.
pub fn push(out: &mut Vec<u8>, json: &[u8]) {
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = next(json, at) {
        at = found;
        match escape_of(&json[at..]) {
            Some((escape, bytes)) => {
                out.extend_from_slice(&json[copied..at]);
                out.extend_from_slice(escape);
                at += bytes;
                copied = at;
            }
            None => at += 1,
        }
    }
    out.extend_from_slice(&json[copied..]);
}

/// JSON text with these characters escaped; itself when it has none.
#[must_use]
pub fn escaped(json: &[u8]) -> Cow<'_, [u8]> {
    if next(json, 0).is_none() {
        return Cow::Borrowed(json);
    }
    let mut out = Vec::with_capacity(json.len() + json.len() / 8);
    push(&mut out, json);
    Cow::Owned(out)
}

/// Bytes that the escapes add to these characters, in JSON text that has them escaped.
#[must_use]
pub fn surplus(json: &[u8]) -> usize {
    let (mut surplus, mut at) = (0, 0);
    while let Some(found) = json[at..].iter().position(|byte| *byte == b'\\') {
        at += found;
        surplus += match json.get(at + 1..at + 6) {
            Some(b"u0026" | b"u003c" | b"u003e") => 5,
            Some(b"u2028" | b"u2029") => 3,
            _ => 0,
        };
        // After an escaped backslash no escape begins.
        at += 2;
        if at >= json.len() {
            break;
        }
    }
    surplus
}

/// Appends the content of a JSON string, without quotes, as Go writes it.
pub(crate) fn push_text(out: &mut Vec<u8>, text: &str) {
    let mut json = Vec::with_capacity(text.len());
    for &byte in text.as_bytes() {
        match byte {
            b'"' | b'\\' => json.extend_from_slice(&[b'\\', byte]),
            b'\n' => json.extend_from_slice(b"\\n"),
            b'\r' => json.extend_from_slice(b"\\r"),
            b'\t' => json.extend_from_slice(b"\\t"),
            0x08 => json.extend_from_slice(b"\\b"),
            0x0c => json.extend_from_slice(b"\\f"),
            0..0x20 => {
                json.extend_from_slice(b"\\u00");
                json.extend([byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]));
            }
            _ => json.push(byte),
        }
    }
    push(out, &json);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> String {
        String::from_utf8(escaped(json.as_bytes()).into_owned()).expect("UTF-8")
    }

    #[test]
    fn what_go_escapes_is_escaped() {
        let json = "{\"a<b\":\"&<>\u{2028}\u{2029}\u{2014}\u{202a}\u{e9}\",\"c\":[1,\"\\\"<\\\\\"]}";
        let wanted = "{\"a\\u003cb\":\"\\u0026\\u003c\\u003e\\u2028\\u2029\u{2014}\u{202a}\u{e9}\",\"c\":[1,\"\\\"\\u003c\\\\\"]}";
        assert_eq!(text(json), wanted);
        assert_eq!(text(wanted), wanted, "once is enough");
        assert!(matches!(escaped(br#"{"a":"\u003c\""}"#), Cow::Borrowed(_)));
        for len in 0..=40 {
            for at in 0..len {
                let text = |middle: &str| format!("{}{middle}{}", "a".repeat(at), "b".repeat(len - at - 1));
                assert_eq!(escaped(text("<").as_bytes()), text("\\u003c").as_bytes(), "{len} {at}");
            }
        }
        let mut out = b"before".to_vec();
        push(&mut out, b"");
        push(&mut out, b"\"a&\"");
        assert_eq!(out, b"before\"a\\u0026\"");
    }

    #[test]
    fn what_escapes_add_is_counted() {
        for json in ["", "\"a\"", "\"<&>\u{2028}\\n\u{2029}\"", "{\"<\":\"\\\\u003c\\\"\\\\<\"}", "\"\\"] {
            assert_eq!(surplus(&escaped(json.as_bytes())), text(json).len() - json.len(), "{json}");
        }
    }

    #[test]
    fn a_text_that_ends_within_a_character_is_copied() {
        for end in [&b"\xe2"[..], b"\xe2\x80", b"<\xe2\x80"] {
            assert!(escaped(end).ends_with(&end[end.len() - 1..]));
        }
    }
}
