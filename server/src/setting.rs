//! A setting: where it was made, and what is wrong with it.
//!
//! It owns the wording of errors in the configuration and in the files that it names: one line with the place, the value
//! and the remedy, whatever bytes an operator typed. It never decides what is valid; the parts that read settings do.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::printable::one_line;

/// Longest part of an operator's value that an error repeats, in characters.
const QUOTED_MAX: usize = 80;

/// Where a setting was made. Later variants win over earlier ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// It was not set.
    Default,
    /// The configuration file.
    File {
        /// As given by `--config`.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// The environment variable of this name.
    Env(String),
    /// The command line option of this name, dashes included.
    Flag(String),
}

impl Origin {
    /// The place of `key = value` as an error shows it.
    fn with_value(&self, key: &str, value: &str) -> String {
        match self {
            Self::Default => format!("the default of {key}, {}", quote(value)),
            Self::File { .. } => format!("{self}: {key} = {}", quote(value)),
            Self::Env(name) => format!("{name}={}", quote(value)),
            Self::Flag(name) => format!("{name} {}", quote(value)),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Default => "default".to_owned(),
            Self::File { path, line } => format!("{}:{line}", path.display()),
            Self::Env(name) | Self::Flag(name) => name.clone(),
        };
        f.write_str(&one_line(&text))
    }
}

/// Why a value is invalid, before its origin is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// What is wrong with it.
    pub problem: String,
    /// What to write instead.
    pub mend: String,
}

impl Wrong {
    /// `problem` and `mend`, both without a full stop.
    pub fn new(problem: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { problem: problem.into(), mend: mend.into() }
    }
}

/// The operator's mistake. `Display` is one line with the setting, its value and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    place: String,
    problem: String,
    mend: String,
}

impl ConfigError {
    /// The process' exit code after any of these.
    pub const EXIT_CODE: u8 = 2;

    /// An invalid value of `key` (as the file spells it).
    #[must_use]
    pub fn bad_value(origin: &Origin, key: &str, value: &str, wrong: Wrong) -> Self {
        Self { place: origin.with_value(key, value), problem: wrong.problem, mend: wrong.mend }
    }

    /// A name that is not known. `what` is its kind (`option`, `key`, ...), `value` is what it was set to, if
    /// anything, and `known` are the names it is compared with.
    pub(crate) fn unknown<S: AsRef<str>>(
        what: &str,
        origin: &Origin,
        name: &str,
        value: Option<&str>,
        known: &[S],
    ) -> Self {
        let place = match (origin, value) {
            (Origin::File { .. }, Some(value)) => origin.with_value(name, value),
            (Origin::File { .. }, None) => format!("{origin}: {name}"),
            (Origin::Env(_) | Origin::Flag(_) | Origin::Default, Some(value)) => {
                format!("{name}={}", quote(value))
            }
            (Origin::Env(_) | Origin::Flag(_) | Origin::Default, None) => name.to_owned(),
        };
        let mend = nearest(name, known).map_or_else(
            || "remove it, or see revcast --help".to_owned(),
            |near| format!("did you mean {near}?"),
        );
        Self { place, problem: format!("no such {what}"), mend }
    }

    /// Anything else: `place` is the setting or the argument at fault.
    pub fn at(place: impl Into<String>, wrong: Wrong) -> Self {
        Self { place: place.into(), problem: wrong.problem, mend: wrong.mend }
    }

    /// A configuration file that cannot be read at all.
    pub(crate) fn file(path: &Path, problem: impl Into<String>) -> Self {
        Self {
            place: format!("configuration file {}", path.display()),
            problem: problem.into(),
            mend: "name a readable TOML file with --config, or leave it out".to_owned(),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&format!("{}: {}; {}", self.place, self.problem, self.mend)))
    }
}

impl std::error::Error for ConfigError {}

/// `value` in quotes, shortened.
fn quote(value: &str) -> String {
    if value.chars().count() <= QUOTED_MAX {
        return format!("\"{value}\"");
    }
    let head: String = value.chars().take(QUOTED_MAX).collect();
    format!("\"{head}...\"")
}

/// The one of `known` that `name` most likely misspells. Case, dashes and underscores do not count.
fn nearest<'a, S: AsRef<str>>(name: &str, known: &'a [S]) -> Option<&'a str> {
    let wanted = letters(name);
    if wanted.is_empty() || wanted.len() > QUOTED_MAX {
        return None;
    }
    known
        .iter()
        .map(|candidate| {
            let candidate = candidate.as_ref();
            let its = letters(candidate);
            // A name cut short is as likely as a misspelling: `--ring` or `--bookmark`.
            let cut = wanted.len() >= 3 && its.starts_with(&wanted);
            (if cut { 1 } else { distance(&wanted, &its) }, candidate)
        })
        .min_by_key(|&(far, _)| far)
        .filter(|&(far, _)| far <= (wanted.len() / 3).clamp(1, 3))
        .map(|(_, candidate)| candidate)
}

fn letters(name: &str) -> Vec<char> {
    name.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect()
}

/// Edits between `a` and `b`: insert, delete, replace, swap two neighbours.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &y) in b.iter().enumerate() {
            let mut least = (above[j] + usize::from(x != y)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && x == b[j - 1] && a[i - 1] == y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        let far = |a: &str, b: &str| distance(&letters(a), &letters(b));
        assert_eq!(far("listen", "listen"), 0);
        assert_eq!(far("lsiten", "listen"), 1);
        assert_eq!(far("liste", "listen"), 1);
        assert_eq!(far("", "abc"), 3);
        assert_eq!(far("kitten", "sitting"), 3);
    }

    #[test]
    fn near_names_are_offered_and_far_ones_are_not() {
        let known = ["listen", "admin-listen", "ring-events", "ring-bytes"];
        assert_eq!(nearest("lisen", &known), Some("listen"));
        assert_eq!(nearest("adminListen", &known), Some("admin-listen"));
        assert_eq!(nearest("ring_evnets", &known), Some("ring-events"));
        assert_eq!(nearest("admin", &known), Some("admin-listen"));
        assert_eq!(nearest("colour", &known), None);
        assert_eq!(nearest("", &known), None);
    }

    #[test]
    fn any_bytes_become_one_line() {
        let origin = Origin::File { path: PathBuf::from("a\nb.toml"), line: 3 };
        let error =
            ConfigError::bad_value(&origin, "li\rsten", "x\u{2028}\u{1b}[2Jy", Wrong::new("a\nb", "c"));
        let line = error.to_string();
        assert!(!line.contains(['\n', '\r', '\u{1b}', '\u{2028}']), "{line}");
        assert!(line.contains("a\\nb.toml:3"), "{line}");
        let long = ConfigError::bad_value(&Origin::Default, "k", &"é".repeat(100_000), Wrong::new("p", "m"));
        assert!(long.to_string().chars().count() < 200);
    }
}
