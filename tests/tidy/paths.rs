//! The paths in code: `use a::{b, c::d}` and `a::b::f()`, each expanded.

use super::code::{Word, words};

/// A path with groups expanded. `self` in a group is left out; `*` stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) line: usize,
    pub(crate) parts: Vec<String>,
    /// How many `mod name { ... }` of its own file contain it.
    pub(crate) inner: usize,
    /// Whether it is imported by a `use`.
    pub(crate) used: bool,
}

impl Path {
    /// Whether it begins with these parts, or imports something above them under another name.
    pub(crate) fn reaches(&self, parts: &[&str]) -> bool {
        let star = self.parts.last().is_some_and(|part| part == "*");
        let own = &self.parts[..self.parts.len() - usize::from(star)];
        let same = own.iter().zip(parts).all(|(own, part)| own == part);
        same && (own.len() >= parts.len() || (self.used && !own.is_empty()))
    }
}

/// Every path of two parts or more, and every import.
pub(crate) fn paths(bare: &str) -> Vec<Path> {
    let words = words(bare);
    let mut found = Vec::new();
    // One entry for each open brace: whether it opened a module.
    let mut braces: Vec<bool> = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let before = |back: usize| at.checked_sub(back).and_then(|at| words.get(at)).map(|word| word.text);
        match word.text {
            "{" => braces.push(before(2) == Some("mod")),
            "}" => {
                braces.pop();
            }
            "use" => {
                let skipped = usize::from(words.get(at + 1).is_some_and(|next| next.text == "::"));
                let inner = braces.iter().filter(|module| **module).count();
                at = tree(&words, at + 1 + skipped, &[], &mut |line, parts| {
                    found.push(Path { line, parts, inner, used: true });
                });
                continue;
            }
            text if is_name(text) && before(1) != Some("::") => {
                let mut parts = vec![text.to_owned()];
                let mut next = at + 1;
                while words.get(next).is_some_and(|word| word.text == "::") {
                    let Some(part) = words.get(next + 1).filter(|word| is_name(word.text)) else { break };
                    parts.push(part.text.to_owned());
                    next += 2;
                }
                if parts.len() > 1 {
                    let inner = braces.iter().filter(|module| **module).count();
                    found.push(Path { line: word.line, parts, inner, used: false });
                }
                at = next;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Reads one use tree at `at`; returns the position after it.
fn tree(
    words: &[Word<'_>],
    mut at: usize,
    above: &[String],
    found: &mut impl FnMut(usize, Vec<String>),
) -> usize {
    let mut parts = above.to_vec();
    let mut line = words.get(at).map_or(0, |word| word.line);
    while let Some(word) = words.get(at) {
        match word.text {
            "{" => {
                at += 1;
                while words.get(at).is_some_and(|word| word.text != "}") {
                    at = tree(words, at, &parts, found);
                    at += usize::from(words.get(at).is_some_and(|word| word.text == ","));
                }
                return at + 1;
            }
            "as" => at += 2,
            "::" => at += 1,
            "self" if !above.is_empty() => at += 1,
            text if is_name(text) || text == "*" => {
                parts.push(text.to_owned());
                line = word.line;
                at += 1;
            }
            _ => break,
        }
    }
    if !parts.is_empty() {
        found(line, parts);
    }
    // Code that is not a use tree must be skipped nevertheless.
    if words.get(at).is_some_and(|word| ![",", "}", ";"].contains(&word.text)) { at + 1 } else { at }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_alphabetic() || letter == '_')
}

#[test]
fn groups_are_spelled_out() {
    let text = "use a::{b, c::{self, d as e}, f::*};\nfn g() { h::i::<J>(); }\nmod k { use super::l; }\nuse ::m;\nfn n() -> impl use<> {}";
    let found: Vec<(usize, String, usize)> =
        paths(text).into_iter().map(|path| (path.line, path.parts.join("::"), path.inner)).collect();
    let wanted = [
        (1, "a::b", 0),
        (1, "a::c", 0),
        (1, "a::c::d", 0),
        (1, "a::f::*", 0),
        (2, "h::i", 0),
        (3, "super::l", 1),
        (4, "m", 0),
    ];
    let wanted: Vec<(usize, String, usize)> =
        wanted.iter().map(|(line, path, inner)| (*line, (*path).to_owned(), *inner)).collect();
    assert_eq!(found, wanted);
}

#[test]
fn a_path_reaches_what_is_below_it_and_what_it_renames() {
    let reaches = |text: &str| paths(text).iter().any(|path| path.reaches(&["std", "time", "Instant"]));
    for text in [
        "use std::time::Instant;",
        "use std::{fmt, time::{Duration, Instant as Now}};",
        "fn f() { std::time::Instant::now(); }",
        "use std::time;",
        "use std::time::{self, Duration};",
        "use std::time::*;",
        "use std as s;",
    ] {
        assert!(reaches(text), "{text}");
    }
    for text in
        ["use std::time::Duration;", "fn f() { std::time::Duration::ZERO; }", "use std::{fmt, sync::Arc};"]
    {
        assert!(!reaches(text), "{text}");
    }
}
