//! Text and bytes as Go's `encoding/json` writes them.

use std::borrow::Cow;

/// Whether a byte is written as it is.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0x20_u8;
    while byte < 0x80 {
        plain[byte as usize] = !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&');
        byte += 1;
    }
    plain
};

/// Appends text as a JSON string: `<`, `>`, `&`, U+2028 and U+2029 escaped, and what is not UTF-8 replaced by U+FFFD, a byte
/// at a time.
pub(super) fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = text[at..].iter().position(|byte| !PLAIN[usize::from(*byte)]) {
        at += found;
        let byte = text[at];
        let (escape, length): (&[u8], usize) = match byte {
            b'"' => (b"\\\"", 1),
            b'\\' => (b"\\\\", 1),
            b'\n' => (b"\\n", 1),
            b'\r' => (b"\\r", 1),
            b'\t' => (b"\\t", 1),
            0x08 => (b"\\b", 1),
            0x0c => (b"\\f", 1),
            0..0x80 => {
                let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                (&[b'\\', b'u', b'0', b'0', digits[0], digits[1]], 1)
            }
            0x80.. => match character(&text[at..]) {
                Some(3) if text[at..].starts_with(&[0xe2, 0x80, 0xa8]) => (b"\\u2028", 3),
                Some(3) if text[at..].starts_with(&[0xe2, 0x80, 0xa9]) => (b"\\u2029", 3),
                Some(length) => {
                    at += length;
                    continue;
                }
                None => (b"\\ufffd", 1),
            },
        };
        out.extend_from_slice(&text[copied..at]);
        out.extend_from_slice(escape);
        at += length;
        copied = at;
    }
    out.extend_from_slice(&text[copied..]);
    out.push(b'"');
}

/// The text that such a JSON string has.
pub(super) fn replaced(text: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(text) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() * 3);
    for chunk in text.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    out.into()
}

/// The length of the character of two to four bytes at the beginning; `None`: there is none.
fn character(text: &[u8]) -> Option<usize> {
    let begin = &text[..text.len().min(4)];
    let valid = match std::str::from_utf8(begin) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&begin[..error.valid_up_to()]).ok()?,
    };
    valid.chars().next().map(char::len_utf8)
}

/// Appends bytes as a JSON string in base64 with padding (RFC 4648, section 4).
pub(super) fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    use base64::Engine;
    let engine = base64::engine::general_purpose::STANDARD;
    out.push(b'"');
    let begin = out.len();
    out.resize(begin + bytes.len().div_ceil(3) * 4, 0);
    let written = engine.encode_slice(bytes, &mut out[begin..]);
    debug_assert_eq!(written.ok(), Some(out.len() - begin));
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::{push_base64, push_text, replaced};

    fn shown(text: &[u8]) -> String {
        let mut out = Vec::new();
        push_text(&mut out, text);
        String::from_utf8(out).expect("it is UTF-8")
    }

    #[test]
    fn text_is_as_go_writes_it() {
        for (text, json) in [
            (&b""[..], r#""""#),
            (b"plain /'\x7f", "\"plain /'\x7f\""),
            (b"<a href=\"x\">&", r#""\u003ca href=\"x\"\u003e\u0026""#),
            (b"\n\r\t\x08\x0c\x00\x1f\\", r#""\n\r\t\b\f\u0000\u001f\\""#),
            ("äöü€😀\u{2028}\u{2029}\u{202a}".as_bytes(), "\"äöü€😀\\u2028\\u2029\u{202a}\""),
            (b"a\xffb\xe2\x80", r#""a\ufffdb\ufffd\ufffd""#),
            (b"\xed\xa0\x80", r#""\ufffd\ufffd\ufffd""#),
            ("\u{fffd}".as_bytes(), "\"\u{fffd}\""),
        ] {
            assert_eq!(shown(text), json);
            let read: String = serde_json::from_str(json).expect("it is JSON");
            assert_eq!(replaced(text), read, "selectors see what is shown");
        }
    }

    #[test]
    fn bytes_are_padded_base64() {
        for (bytes, json) in
            [(&b""[..], r#""""#), (b"f", r#""Zg==""#), (b"fo", r#""Zm8=""#), (b"foo", r#""Zm9v""#)]
        {
            let mut out = Vec::new();
            push_base64(&mut out, bytes);
            assert_eq!(out, json.as_bytes());
        }
    }
}
