//! Text as Go writes and reads it: clients compare our messages with those of a server written in Go.
//!
//! Owns quoting, JSON strings, integers and percent-encoding. Knows nothing of requests.

use std::fmt::Write as _;

use super::shown::{MORE, VALUE_CHARS_MAX};

/// The error in a number (Go's `strconv.NumError`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberError {
    /// Not digits.
    Syntax,
    /// Digits, but too many.
    Range,
}

impl NumberError {
    /// The message of Go's `strconv`: `strconv.ParseInt: parsing "x": invalid syntax`.
    pub(super) fn message(self, function: &str, text: &str) -> String {
        let what = match self {
            Self::Syntax => "invalid syntax",
            Self::Range => "value out of range",
        };
        format!("strconv.{function}: parsing {}: {what}", go_quote(text))
    }
}

/// `strconv.ParseUint(text, 10, 64)`: digits only, no sign.
pub(super) fn parse_uint(text: &str) -> Result<u64, NumberError> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(NumberError::Syntax);
    }
    text.parse().map_err(|_| NumberError::Range)
}

/// `strconv.ParseInt(text, 10, 64)`: an optional sign, then digits.
pub(super) fn parse_int(text: &str) -> Result<i64, NumberError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(NumberError::Syntax);
    }
    text.parse().map_err(|_| NumberError::Range)
}

/// `strconv.Quote`: double quotes, with control characters and all white space except the space escaped. Of a value
/// that is too long to repeat: its beginning, and `...` after the quotes.
pub(crate) fn go_quote(text: &str) -> String {
    let mut chars = text.chars();
    let mut out = String::with_capacity(text.len().min(VALUE_CHARS_MAX) + 2);
    out.push('"');
    for c in chars.by_ref().take(VALUE_CHARS_MAX) {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if c.is_ascii_control() => push_formatted(&mut out, format_args!("\\x{:02x}", u32::from(c))),
            c if c.is_control() || (c.is_whitespace() && c != ' ') => {
                push_formatted(&mut out, format_args!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    if !chars.as_str().is_empty() {
        out.push_str(MORE);
    }
    out
}

/// A JSON string as Go's `encoding/json` writes it: `<`, `>`, `&`, U+2028 and U+2029 are escaped too.
///
/// Every control character is escaped, so no line break of a client's text is sent as one.
pub(super) fn push_json_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                push_formatted(out, format_args!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Appends formatted text.
pub(super) fn push_formatted(out: &mut String, args: std::fmt::Arguments<'_>) {
    out.write_fmt(args).expect("a String takes all that is written to it");
}

/// Why percent-encoded text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PercentError {
    /// `%` without two hex digits.
    Escape,
    /// The decoded bytes are not UTF-8.
    Utf8,
    /// A decoded control character: NUL, a line break, ...
    Control,
}

/// Appends one segment of a path so that [`percent_decode`] returns it: everything is escaped except `pchar` (RFC 3986,
/// section 3.3).
pub(crate) fn push_segment(out: &mut String, segment: &str) {
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            push_formatted(out, format_args!("%{byte:02X}"));
        }
    }
}

/// Percent-decoding (RFC 3986, section 2.1). `plus_is_space` for query strings (`+` is a space there).
///
/// Refuses what cannot be part of a name or value: bad escapes, invalid UTF-8 and control characters. In a query line
/// feeds and tabs are allowed: a selector reads them as spaces.
pub(crate) fn percent_decode(text: &str, plus_is_space: bool) -> Result<String, PercentError> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'%' => {
                let high = bytes.get(at + 1).and_then(|b| hex_digit(*b)).ok_or(PercentError::Escape)?;
                let low = bytes.get(at + 2).and_then(|b| hex_digit(*b)).ok_or(PercentError::Escape)?;
                out.push(high << 4 | low);
                at += 3;
            }
            b'+' if plus_is_space => {
                out.push(b' ');
                at += 1;
            }
            other => {
                out.push(other);
                at += 1;
            }
        }
    }
    let decoded = String::from_utf8(out).map_err(|_| PercentError::Utf8)?;
    let refused = |c: char| c.is_control() && !(plus_is_space && matches!(c, '\t' | '\n' | '\r'));
    if decoded.chars().any(refused) { Err(PercentError::Control) } else { Ok(decoded) }
}

/// The value of one hex digit, either case.
pub(super) const fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Whether a byte is allowed in a token (RFC 9110, section 5.6.2): methods, header names, media types.
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// Bytes that a generator makes from a seed: the tests print the seed, which replays them.
#[cfg(test)]
pub(crate) mod noise {
    /// SplitMix64.
    #[derive(Debug)]
    pub(crate) struct Noise(pub(crate) u64);

    impl Noise {
        /// The next 64 bits.
        pub(crate) fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }

        /// A number below `bound`.
        pub(crate) fn below(&mut self, bound: usize) -> usize {
            usize::try_from(self.next() % bound as u64).expect("below a usize")
        }

        /// `pieces` joined at random, with random bytes in between.
        pub(crate) fn text(&mut self, pieces: &[&[u8]], parts: usize) -> Vec<u8> {
            let mut out = Vec::new();
            for _ in 0..parts {
                if self.below(5) == 0 {
                    out.push(self.next().to_le_bytes()[0]);
                } else {
                    out.extend_from_slice(pieces[self.below(pieces.len())]);
                }
            }
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_go_reads_them() {
        assert_eq!(parse_uint("0018446744073709551615"), Ok(u64::MAX));
        assert_eq!(parse_uint("18446744073709551616"), Err(NumberError::Range));
        for bad in ["", "-1", "+1", "1_0", "0x1", " 1", "١"] {
            assert_eq!(parse_uint(bad), Err(NumberError::Syntax), "{bad}");
        }
        assert_eq!(parse_int("-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(parse_int("+5"), Ok(5));
        assert_eq!(parse_int("9223372036854775808"), Err(NumberError::Range));
        for bad in ["", "-", "+-1", "1 ", "٣"] {
            assert_eq!(parse_int(bad), Err(NumberError::Syntax), "{bad}");
        }
    }

    #[test]
    fn quoting_follows_go() {
        assert_eq!(go_quote("a\"b\\c\r\n\u{1}\u{7f}é\u{85}"), r#""a\"b\\c\r\n\x01\x7fé\u0085""#);
        let longest = "<".repeat(VALUE_CHARS_MAX);
        assert_eq!(go_quote(&longest), format!("\"{longest}\""));
        assert_eq!(go_quote(&format!("{longest}>")), format!("\"{longest}\"..."));
        let mut json = String::new();
        push_json_string(&mut json, "a\"\\\r\n\u{1}<é>&\u{2028}\u{7f}");
        assert_eq!(json, "\"a\\\"\\\\\\r\\n\\u0001\\u003cé\\u003e\\u0026\\u2028\u{7f}\"");
    }

    #[test]
    fn an_escaped_segment_is_read_as_it_was() {
        for (segment, escaped) in
            [("a-b.c:d", "a-b.c:d"), ("x?dry=1", "x%3Fdry=1"), ("50%", "50%25"), ("é/ #", "%C3%A9%2F%20%23")]
        {
            let mut out = String::new();
            push_segment(&mut out, segment);
            assert_eq!(out, escaped);
            assert_eq!(percent_decode(&out, false), Ok(segment.to_owned()));
        }
    }

    #[test]
    fn percent_decoding_refuses_what_no_name_can_hold() {
        assert_eq!(percent_decode("a%3Db+c%C3%A9", true), Ok("a=b cé".to_owned()));
        assert_eq!(percent_decode("b+c", false), Ok("b+c".to_owned()));
        for bad in ["%", "%4", "%zz", "a%"] {
            assert_eq!(percent_decode(bad, false), Err(PercentError::Escape), "{bad}");
        }
        assert_eq!(percent_decode("%ff", false), Err(PercentError::Utf8));
        assert_eq!(percent_decode("%c0%af", false), Err(PercentError::Utf8), "an overlong '/'");
        for bad in ["%00", "%0d%0a", "%7f"] {
            assert_eq!(percent_decode(bad, false), Err(PercentError::Control), "{bad}");
        }
    }
}
