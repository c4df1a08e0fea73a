//! How much of a value from a client or a store an error repeats.
//!
//! It owns that one bound, so that no message is many times as long as the value. It never quotes or escapes.

use std::borrow::Cow;

/// Characters of a value that an error repeats.
pub const VALUE_CHARS_MAX: usize = 256;
/// What replaces the rest of it.
pub const MORE: &str = "...";

/// The first `max` characters of a text, and [`MORE`] if there are more.
#[must_use]
pub fn cut(text: &str, max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max) {
        Some((end, _)) => Cow::Owned(format!("{}{MORE}", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// A value as an error repeats it: [`VALUE_CHARS_MAX`] characters.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    cut(text, VALUE_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_cut_between_characters() {
        let longest = "é".repeat(VALUE_CHARS_MAX);
        assert_eq!(shown(&longest), longest);
        assert_eq!(shown(&format!("{longest}e\u{301}")), format!("{longest}..."));
        assert_eq!(shown(""), "");
    }
}
