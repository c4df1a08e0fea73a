//! Rust text without its comments and literals, and its words.

/// A word or a symbol of code. Words are identifiers and keywords; every other character is separate, except `::`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

/// The text with comments and the content of literals blanked. Line numbers do not change.
pub(crate) fn bare(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut after_word = false;
    while let Some(first) = rest.chars().next() {
        let kept = if rest.starts_with("//") {
            blank(&mut out, rest, rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            blank(&mut out, rest, comment_end(rest))
        } else if let Some(end) = if after_word { None } else { raw_end(rest) } {
            blank(&mut out, rest, end)
        } else if first == '"' {
            blank(&mut out, rest, string_end(rest))
        } else if let Some(end) = letter_end(rest) {
            blank(&mut out, rest, end)
        } else {
            out.push(first);
            after_word = first.is_alphanumeric() || first == '_';
            rest = &rest[first.len_utf8()..];
            continue;
        };
        after_word = false;
        rest = kept;
    }
    out
}

/// Every word and symbol of text that went through [`bare`].
pub(crate) fn words(bare: &str) -> Vec<Word<'_>> {
    let mut found = Vec::new();
    for (index, content) in bare.lines().enumerate() {
        let mut rest = content;
        while let Some(first) = rest.chars().next() {
            let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
            let end = if is_word(first) {
                rest.find(|letter| !is_word(letter)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            if !first.is_whitespace() {
                found.push(Word { text: &rest[..end], line: index + 1 });
            }
            rest = &rest[end..];
        }
    }
    found
}

/// Writes blanks for `rest[..end]`, and returns the rest.
fn blank<'a>(out: &mut String, rest: &'a str, end: usize) -> &'a str {
    out.extend(rest[..end].chars().map(|letter| if letter == '\n' { '\n' } else { ' ' }));
    &rest[end..]
}

/// Where a block comment ends; they nest.
fn comment_end(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    let bytes = rest.as_bytes();
    while at < bytes.len() {
        match bytes.get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

/// Where a raw string (`r"`, `br#"`, `cr##"`) ends; `None` if it is not one.
fn raw_end(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r"].into_iter().find(|prefix| rest.starts_with(prefix))?;
    let after = &rest[prefix.len()..];
    let hashes = after.len() - after.trim_start_matches('#').len();
    let content = after[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let start = rest.len() - content.len();
    Some(content.find(&close).map_or(rest.len(), |at| start + at + close.len()))
}

/// Where a string that begins with `"` ends.
fn string_end(rest: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Where a character literal ends; `None` if it is a lifetime or a label.
fn letter_end(rest: &str) -> Option<usize> {
    let content = rest.strip_prefix('\'')?;
    if content.starts_with('\\') {
        let close = content.char_indices().skip(2).find(|(_, letter)| *letter == '\'');
        return close.map(|(at, _)| at + 2);
    }
    let first = content.chars().next()?;
    content[first.len_utf8()..].starts_with('\'').then_some(first.len_utf8() + 2)
}

#[test]
fn comments_and_literals_are_blanked() {
    let text = "a /* x /* y */\n z */ b // c\n\"d\\\"e\" r#\"f\"g\"# 'h' '\\'' '\\u{41}' i::<'j> br\"k\" l\"";
    let bare = bare(text);
    let found: Vec<(&str, usize)> = words(&bare).iter().map(|word| (word.text, word.line)).collect();
    let wanted = [("a", 1), ("b", 2), ("i", 3), ("::", 3), ("<", 3), ("'", 3), ("j", 3), (">", 3), ("l", 3)];
    assert_eq!(found, wanted);
}

#[test]
fn a_word_that_ends_in_r_opens_no_raw_string() {
    let bare = bare("for\"x\"y; for r in r\"z\" {}");
    let found: Vec<&str> = words(&bare).iter().map(|word| word.text).collect();
    assert_eq!(found, ["for", "y", ";", "for", "r", "in", "{", "}"]);
}
