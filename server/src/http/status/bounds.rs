//! The bounds of a `Status`, whatever it repeats of a client's request.
//!
//! Owns the bounds of its parts, and with them that of the whole: [`STATUS_BYTES_MAX`] in each encoding. Every text of
//! a `Status` passes here once, when it is made.

use super::{Cause, Details};
use crate::http::shown::{MORE, shown};

/// Bytes of the longest `Status`, in JSON on one line or many, or in YAML.
pub const STATUS_BYTES_MAX: usize = 64 << 10;
/// Of its message, encoded.
const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// Of all its causes, encoded.
const CAUSES_BYTES_MAX: usize = 22 << 10;
/// Of a cause's message or field, encoded.
const CAUSE_TEXT_BYTES_MAX: usize = 4 << 10;
/// What a cause takes besides its texts: names, quotes, commas and, on many lines, indent.
const CAUSE_BYTES: usize = 160;
/// The length of the line with the number of further causes.
const COUNT_BYTES: usize = 64;

// Name, group, kind and uid are values, and a continue token has 6 KiB. Folded lines of YAML take an eighth more.
const VALUES_BYTES_MAX: usize = 4 * 10 * (crate::http::shown::VALUE_CHARS_MAX + MORE.len());
const _: () = assert!(
    (MESSAGE_BYTES_MAX + CAUSES_BYTES_MAX + VALUES_BYTES_MAX + (6 << 10)) / 8 * 9 + 1024 <= STATUS_BYTES_MAX
);

/// The most bytes that a character takes in any encoding: escaped, or as a line break with the indent after it.
const fn spelled(c: char) -> usize {
    match c {
        '"' | '\\' | '\'' => 2,
        '&' | '<' | '>' => 6,
        ' '..='~' => 1,
        '\0'..='\u{1f}' | '\u{7f}' => 8,
        '\u{80}'..='\u{ffff}' => 6,
        '\u{10000}'.. => 10,
    }
}

fn spelled_bytes(text: &str) -> usize {
    text.chars().map(spelled).sum()
}

/// A text of at most `max` encoded bytes, cut if necessary.
fn within(mut text: String, max: usize) -> String {
    let mut bytes = 0;
    // Where it is cut if there is not enough room.
    let mut end = 0;
    for (at, c) in text.char_indices() {
        if bytes + MORE.len() <= max {
            end = at;
        }
        bytes += spelled(c);
        if bytes > max {
            text.truncate(end);
            text.push_str(MORE);
            break;
        }
    }
    text
}

/// The message of a `Status`.
pub(super) fn message(text: String) -> String {
    within(text, MESSAGE_BYTES_MAX)
}

/// The lines of a message that lists, as many as fit, and how many more there are.
pub(super) fn listed(lines: &[String]) -> String {
    let mut room = MESSAGE_BYTES_MAX / 8 * 7 - COUNT_BYTES;
    let mut shown: Vec<&str> = Vec::new();
    for line in lines {
        match room.checked_sub(spelled_bytes(line) + 2) {
            Some(left) => room = left,
            None => break,
        }
        shown.push(line);
    }
    match lines.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}

impl Details {
    /// With values cut, and with as many causes as fit.
    pub(super) fn bounded(mut self) -> Self {
        for value in [&mut self.name, &mut self.group, &mut self.kind, &mut self.uid] {
            *value = shown(value).into_owned();
        }
        let mut room = CAUSES_BYTES_MAX;
        let mut kept = Vec::new();
        for cause in self.causes {
            let cause = cause.bounded();
            let bytes = CAUSE_BYTES
                + [&cause.message, &cause.field].map(|text| spelled_bytes(text)).iter().sum::<usize>();
            match room.checked_sub(bytes) {
                Some(left) => room = left,
                None => break,
            }
            kept.push(cause);
        }
        Self { causes: kept, ..self }
    }
}

impl Cause {
    fn bounded(self) -> Self {
        Self {
            reason: self.reason,
            message: within(self.message, CAUSE_TEXT_BYTES_MAX),
            field: within(self.field, CAUSE_TEXT_BYTES_MAX),
        }
    }
}
