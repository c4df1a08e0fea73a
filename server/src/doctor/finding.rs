//! The doctor's findings: one per line, each with its remedy, for people and as JSON.

use serde::Serialize;

use super::Facts;
use crate::printable::one_line;

/// The severity of a finding, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The server cannot serve.
    Fail,
    /// It will serve worse than it could.
    Warn,
    /// As it should be.
    Ok,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was checked: `io_uring`, `nofile`.
    pub check: &'static str,
    /// The severity.
    pub verdict: Verdict,
    /// What was found, on one line.
    pub says: String,
    /// The remedy, if something is to be done.
    pub mend: Option<String>,
}

impl Finding {
    /// `nofile: 1024 open files allow only 928 watchers; raise it: ulimit -n 65536`
    #[must_use]
    pub fn line(&self) -> String {
        let mend = self.mend.as_ref().map(|mend| format!("; {mend}")).unwrap_or_default();
        format!("{}: {}{mend}", self.check, self.says)
    }
}

/// Findings while they are collected.
#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    pub(super) fn fail(&mut self, check: &'static str, says: &str, mend: &str) {
        self.add(check, Verdict::Fail, says, Some(mend));
    }

    pub(super) fn warn(&mut self, check: &'static str, says: &str, mend: &str) {
        self.add(check, Verdict::Warn, says, Some(mend));
    }

    pub(super) fn fine(&mut self, check: &'static str, says: &str) {
        self.add(check, Verdict::Ok, says, None);
    }

    fn add(&mut self, check: &'static str, verdict: Verdict, says: &str, mend: Option<&str>) {
        self.0.push(Finding { check, verdict, says: one_line(says), mend: mend.map(one_line) });
    }
}

/// All findings, for an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// In the order of the checks.
    pub findings: Vec<Finding>,
    /// Watchers that fit: the lesser of `--max-watchers` and what nofile allows minus a reserve.
    pub watchers_max: usize,
    /// The facts that the findings follow from.
    pub facts: Facts,
}

#[derive(Serialize)]
struct Shown<'a> {
    version: &'static str,
    fit: bool,
    findings: &'a [Finding],
}

impl Report {
    /// Whether the server may start.
    #[must_use]
    pub fn is_fit(&self) -> bool {
        self.findings.iter().all(|finding| finding.verdict != Verdict::Fail)
    }

    /// Why it cannot start; one line each.
    #[must_use]
    pub fn fatal(&self) -> Vec<String> {
        self.of(Verdict::Fail)
    }

    /// Warnings; one line each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.of(Verdict::Warn)
    }

    /// Checks without a problem; one line each.
    #[must_use]
    pub fn fine(&self) -> Vec<String> {
        self.of(Verdict::Ok)
    }

    fn of(&self, verdict: Verdict) -> Vec<String> {
        self.findings.iter().filter(|finding| finding.verdict == verdict).map(Finding::line).collect()
    }

    /// For `revcast doctor`: one line per finding, the worst first.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        [("FAIL", self.fatal()), ("warn", self.warnings()), ("ok  ", self.fine())]
            .into_iter()
            .flat_map(|(verdict, lines)| lines.into_iter().map(move |line| format!("{verdict}  {line}")))
            .collect()
    }

    /// For `revcast doctor --json`: one object, the findings in the order of the checks.
    #[must_use]
    pub fn to_json(&self) -> String {
        let shown =
            Shown { version: env!("CARGO_PKG_VERSION"), fit: self.is_fit(), findings: &self.findings };
        // Strings and booleans always serialize.
        serde_json::to_string_pretty(&shown).unwrap_or_default()
    }
}
