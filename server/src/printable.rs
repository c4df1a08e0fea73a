//! Text that is safe to print: it cannot end a line, move a cursor or change the direction of the text around it.
//!
//! Owns the set of such characters, the two ways to escape them (as in a Rust string, and as in JSON), and the cutting of long
//! text. It does not validate text.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Whether a terminal or viewer interprets this character: control characters, line and paragraph separators, and those that
/// change the direction of text (Unicode Standard Annex 9, section 2), which can make one line look like another.
pub(crate) const fn is_obeyed(letter: char) -> bool {
    matches!(letter, '\0'..='\x1f' | '\x7f'..='\u{9f}')
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` on one line, with such characters visible: `\n`, `\u{202e}`.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_obeyed(letter) {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    line
}

/// The mark after text that was cut, as in Kubernetes' audit log (apiserver `audit/request.go`).
const TRUNCATED: &str = "...TRUNCATED";

/// The first `bytes` of `text` at most; a cut is marked.
pub(crate) fn cut(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let end = (0..=bytes_max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    Cow::Owned(format!("{}{TRUNCATED}", &text[..end]))
}

/// `value` as JSON on one line, with such characters as `\u202e`: parsing it gives the same value.
pub(crate) fn json(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(512);
    let written = value.serialize(&mut Serializer::with_formatter(&mut bytes, Visible));
    // Texts and numbers are written to memory: neither can fail.
    debug_assert!(written.is_ok(), "{written:?}");
    bytes
}

/// JSON without spaces.
struct Visible;

impl Formatter for Visible {
    /// A part of a string in which JSON itself escapes nothing.
    fn write_string_fragment<W: Write + ?Sized>(&mut self, to: &mut W, part: &str) -> io::Result<()> {
        let mut from = 0;
        for (at, letter) in part.char_indices().filter(|(_, letter)| is_obeyed(*letter)) {
            to.write_all(&part.as_bytes()[from..at])?;
            // Each of them is one unit of UTF-16.
            write!(to, "\\u{:04x}", u32::from(letter))?;
            from = at + letter.len_utf8();
        }
        to.write_all(&part.as_bytes()[from..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every character that is escaped.
    const OBEYED: &str = "\0\n\r\t\u{1b}\u{7f}\u{85}\u{9b}\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\
        \u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}";

    #[test]
    fn nothing_that_is_obeyed_is_shown() {
        let shown = one_line(&format!("a{OBEYED}b \u{fc}\u{5d0}\u{200d}\u{1f600}"));
        assert!(!shown.chars().any(is_obeyed), "{shown}");
        assert!(shown.starts_with("a\\u{0}\\n\\r\\t\\u{1b}") && shown.contains("\\u{2066}"), "{shown}");
        assert!(shown.ends_with("b \u{fc}\u{5d0}\u{200d}\u{1f600}"), "others are as they were: {shown}");
    }

    #[test]
    fn what_is_cut_says_so() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "abc...TRUNCATED");
        assert_eq!(cut("ab\u{1f600}", 5), "ab...TRUNCATED", "no letter is cut in two");
    }

    #[test]
    fn json_is_read_back_as_it_was() {
        let text = format!("a\"\\{OBEYED}b\u{fc}\u{1f600}");
        let bytes = json(&serde_json::json!({ "k": [text, 1, null] }));
        let shown = String::from_utf8(bytes).expect("JSON is UTF-8");
        assert!(!shown.chars().any(is_obeyed), "{shown}");
        assert!(
            shown.contains("\\u009b") && shown.contains("\\u202e") && shown.contains("\u{fc}"),
            "{shown}"
        );
        let read: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
        assert_eq!(read, serde_json::json!({ "k": [text, 1, null] }));
    }
}
