//! Text and bytes as Go's `encoding/json` writes them.

use std::borrow::Cow;
use std::io::Write;

use jiff::Timestamp;
use jiff::tz::Offset;
use revcast_engine::escape::{self, find};

/// Whether a byte needs a look: it is escaped, or not ASCII.
const fn is_special(byte: u8) -> bool {
    (byte < b' ') | (byte >= 0x80) | (byte == b'"') | (byte == b'\\') | escape::may_begin(byte)
}

/// Appends text as a JSON string: `<`, `>`, `&`, U+2028 and U+2029 escaped, and what is not UTF-8 replaced by U+FFFD, a byte
/// at a time.
pub(super) fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = find(&text[at..], is_special) {
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

/// Appends a time as a JSON string: RFC 3339 in UTC, in seconds or in microseconds.
pub(super) fn push_time(out: &mut Vec<u8>, time: Timestamp, micros: bool) {
    let civil = Offset::UTC.to_datetime(time);
    let two = |number: i8| {
        let number = number.unsigned_abs();
        [b'0' + number / 10, b'0' + number % 10]
    };
    let year = civil.year();
    if year < 0 {
        let format = if micros { "\"%Y-%m-%dT%H:%M:%S%.6fZ\"" } else { "\"%Y-%m-%dT%H:%M:%SZ\"" };
        // Writing to a Vec does not fail.
        let _ = write!(out, "{}", time.strftime(format));
        return;
    }
    let century = two(i8::try_from(year / 100).unwrap_or(0));
    let parts = [
        (b'"', century),
        (0, two(i8::try_from(year % 100).unwrap_or(0))),
        (b'-', two(civil.month())),
        (b'-', two(civil.day())),
        (b'T', two(civil.hour())),
        (b':', two(civil.minute())),
        (b':', two(civil.second())),
    ];
    for (before, digits) in parts {
        if before != 0 {
            out.push(before);
        }
        out.extend_from_slice(&digits);
    }
    if micros {
        let _ = write!(out, ".{:06}", civil.subsec_nanosecond() / 1000);
    }
    out.extend_from_slice(b"Z\"");
}

/// Appends valid JSON without the spaces between its tokens, and with Go's escapes.
pub(super) fn push_compact(out: &mut Vec<u8>, json: &[u8]) {
    // As programs write it: there is neither a space nor something to escape in it.
    if find(json, |byte| (byte <= b' ') | escape::may_begin(byte)).is_none() {
        return out.extend_from_slice(json);
    }
    let (mut in_text, mut escaped, mut copied) = (false, false, 0);
    let mut push = |from: &mut usize, to: usize| {
        escape::push(out, &json[*from..to]);
        *from = to + 1;
    };
    for (at, byte) in json.iter().enumerate() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' if !in_text => push(&mut copied, at),
            b'"' if !escaped => in_text = !in_text,
            _ => {}
        }
        escaped = in_text && *byte == b'\\' && !escaped;
    }
    push(&mut copied, json.len());
}

#[cfg(test)]
mod tests {
    use super::{push_base64, push_compact, push_text, push_time, replaced};

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
    fn times_are_as_strftime_writes_them() {
        let seconds =
            [0, 1, 59, 951_782_400, 1_700_000_000, 253_402_207_199, -1, -62_135_596_800, -62_167_219_201];
        for (second, nanos) in
            seconds.into_iter().flat_map(|second| [(second, 0), (second, 1_999), (second, 999_999_999)])
        {
            let time = jiff::Timestamp::new(second, nanos).expect("in range");
            for (micros, format) in [(false, "\"%Y-%m-%dT%H:%M:%SZ\""), (true, "\"%Y-%m-%dT%H:%M:%S%.6fZ\"")]
            {
                let mut out = Vec::new();
                push_time(&mut out, time, micros);
                assert_eq!(String::from_utf8_lossy(&out), time.strftime(format).to_string());
            }
        }
    }

    #[test]
    fn json_is_compacted_with_its_texts_as_they_are() {
        for (json, compact) in [
            ("", ""),
            ("{\"a\":[1,-2.50,\"b\\\"c\"]}", "{\"a\":[1,-2.50,\"b\\\"c\"]}"),
            (
                " { \"a b\" :\n[ 1 ,\t\"\\\" \\\\\" , \"<\u{2028}\"]} ",
                "{\"a b\":[1,\"\\\" \\\\\",\"\\u003c\\u2028\"]}",
            ),
            ("[\"an ordinary text of some length\"]", "[\"an ordinary text of some length\"]"),
        ] {
            let mut out = Vec::new();
            push_compact(&mut out, json.as_bytes());
            assert_eq!(String::from_utf8_lossy(&out), compact);
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
