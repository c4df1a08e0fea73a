//! House rules, checked automatically: file contents, dependencies and layers.
//!
//! Each test walks the repository and fails with a line for every fault: file:line, the rule, the remedy. The checkers
//! are plain functions over text, with tests of their own that show them failing.
#![allow(clippy::unwrap_used, reason = "a test that cannot read the repository has nothing else to say")]

mod code;
mod drawing;
mod engine;
mod imports;
mod knows;
mod manifest;
mod paths;
mod text;
mod tree;

use std::fmt;

/// One violation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    file: String,
    line: usize,
    /// The rule, and the remedy.
    says: String,
}

impl Fault {
    fn new(file: &str, line: usize, rule: &str, mend: &str) -> Self {
        Self { file: file.to_owned(), line, says: format!("{rule}; {mend}") }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.file, self.line, self.says)
    }
}

/// Fails with a line for each fault.
#[track_caller]
fn none(faults: &[Fault]) {
    let lines: Vec<String> = faults.iter().map(Fault::to_string).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), lines.join("\n"));
}

/// The lines of the faults, for the checkers' own tests.
#[cfg(test)]
fn lines(faults: &[Fault]) -> Vec<usize> {
    faults.iter().map(|fault| fault.line).collect()
}
