//! Text inside HTML and SVG: names come from whoever wrote the records, and none of them may become markup.

/// The text as it may stand between tags and in quoted attributes, of HTML and of XML alike.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\t' | '\n' | '\r' => safe.push(' '),
            // XML 1.0 has no place for them (section 2.2, Char), not even escaped.
            '\u{FFFE}' | '\u{FFFF}' => safe.push('\u{FFFD}'),
            control if control.is_control() => safe.push('\u{FFFD}'),
            other => safe.push(other),
        }
    }
    safe
}

/// At most so many characters, with an ellipsis in place of the rest.
pub(super) fn shorten(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        assert_eq!(
            escape("<script>alert('x' & \"y\")</script>"),
            "&lt;script&gt;alert(&#39;x&#39; &amp; &quot;y&quot;)&lt;/script&gt;"
        );
        assert_eq!(escape("a\u{0}b\u{1b}c\nd\u{FFFF}é"), "a\u{FFFD}b\u{FFFD}c d\u{FFFD}é");
    }

    #[test]
    fn long_names_are_cut_at_a_character() {
        assert_eq!(shorten("kurz", 8), "kurz");
        assert_eq!(shorten("äöüäöüäöü", 5), "äöüä…");
    }
}
