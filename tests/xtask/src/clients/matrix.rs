//! The result of each operation with each client: parsed from the output of their scripts, judged, and printed as a
//! table.
//!
//! It starts nothing.

use std::fmt::Write;

use super::known::Known;

/// The result of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) operation: String,
    /// The reason, if it failed.
    pub(crate) failure: Option<String>,
}

/// A client, and its results.
#[derive(Debug)]
pub(crate) struct Column {
    /// `kubectl 1.33.1`, `python on etcd 3.5`.
    pub(crate) heading: String,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// It ran.
    Cells(Vec<Cell>),
    /// It is not available here.
    Skipped(String),
    /// It is installed, and did not run.
    Broken(String),
}

impl Outcome {
    /// The same where what is missing is no failure.
    pub(crate) fn into_skipped(self) -> Self {
        match self {
            Self::Broken(why) => Self::Skipped(why),
            other @ (Self::Cells(_) | Self::Skipped(_)) => other,
        }
    }
}

/// The line of a result: a name, a tab, and `ok` or `FAIL`, a tab and the reason. Other lines are ignored.
pub(crate) fn cell(line: &str) -> Option<Cell> {
    let mut parts = line.splitn(3, '\t');
    let operation = parts.next()?.to_owned();
    match (parts.next()?, parts.next()) {
        ("ok", None) => Some(Cell { operation, failure: None }),
        ("FAIL", reason) => Some(Cell { operation, failure: Some(reason.unwrap_or_default().to_owned()) }),
        _ => None,
    }
}

/// A line of cargo's test programs, as a cell: `test some_name ... ok`.
pub(crate) fn test(line: &str) -> Option<Cell> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let failure =
        (result != "ok").then(|| format!("{result}: run cargo test -p revcast-kube --test kube_rs {name}"));
    Some(Cell { operation: name.replace('_', " "), failure })
}

/// The matrix as text, and the numbers of columns and results of each kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) shown: String,
    pub(crate) passed: usize,
    pub(crate) known: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

/// Columns side by side, at most.
const BLOCK: usize = 20;

/// Compares the results with the known failures.
pub(crate) fn judge(columns: &[Column], known: &[Known]) -> Verdict {
    let mut verdict = Verdict::default();
    let mut reasons: Vec<&str> = Vec::new();
    let mut problems = String::new();
    let ran: Vec<(&str, &[Cell])> = columns
        .iter()
        .filter_map(|column| match &column.outcome {
            Outcome::Cells(cells) => Some((column.heading.as_str(), cells.as_slice())),
            Outcome::Skipped(_) | Outcome::Broken(_) => None,
        })
        .collect();
    for (block, ran) in ran.chunks(BLOCK).enumerate() {
        let mut rows: Vec<&str> = Vec::new();
        for cell in ran.iter().flat_map(|(_, cells)| *cells) {
            if !rows.contains(&cell.operation.as_str()) {
                rows.push(&cell.operation);
            }
        }
        let width = rows.iter().map(|row| row.len()).max().unwrap_or(0);
        let mut head = format!("{:width$}", "");
        for (index, (heading, _)) in ran.iter().enumerate() {
            let number = block * BLOCK + index + 1;
            line(&mut verdict.shown, &format!("{number:>3}  {heading}"));
            let _ = write!(head, "{number:>5}");
        }
        line(&mut verdict.shown, "");
        line(&mut verdict.shown, &head);
        for row in rows {
            let mut shown = format!("{row:width$}");
            for (heading, cells) in ran {
                let expected =
                    known.iter().find(|known| known.operation == row && heading.starts_with(known.columns));
                let found = cells.iter().find(|cell| cell.operation == row);
                let word = verdict.word(heading, row, found, expected, &mut reasons, &mut problems);
                let _ = write!(shown, "{word:>5}");
            }
            line(&mut verdict.shown, &shown);
        }
        line(&mut verdict.shown, "");
    }
    for (number, why) in reasons.iter().enumerate() {
        line(&mut verdict.shown, &format!("[{}] {why}", number + 1));
    }
    for column in columns {
        match &column.outcome {
            Outcome::Cells(_) => {}
            Outcome::Skipped(why) => {
                verdict.skipped += 1;
                line(&mut verdict.shown, &format!("!!! SKIPPED: {}: {why}", column.heading));
            }
            Outcome::Broken(why) => {
                verdict.failed += 1;
                let _ = writeln!(problems, "{}: {why}", column.heading);
            }
        }
    }
    verdict.shown.push_str(&problems);
    verdict
}

impl Verdict {
    /// Counts a result, and says it in a word.
    fn word<'a>(
        &mut self,
        heading: &str,
        row: &str,
        found: Option<&Cell>,
        expected: Option<&'a Known>,
        reasons: &mut Vec<&'a str>,
        problems: &mut String,
    ) -> String {
        let Some(Cell { failure, .. }) = found else { return "-".to_owned() };
        match (failure, expected) {
            (None, None) => {
                self.passed += 1;
                "ok".to_owned()
            }
            (Some(_), Some(expected)) => {
                self.known += 1;
                let at = reasons.iter().position(|why| *why == expected.why).unwrap_or_else(|| {
                    reasons.push(expected.why);
                    reasons.len() - 1
                });
                format!("[{}]", at + 1)
            }
            (None, Some(expected)) => {
                self.failed += 1;
                let _ = writeln!(
                    problems,
                    "{heading}: {row}: passed, and is known to fail ({}): strike it from known.rs",
                    expected.why
                );
                "PASS".to_owned()
            }
            (Some(reason), None) => {
                self.failed += 1;
                let _ = writeln!(problems, "{heading}: {row}: {reason}");
                "FAIL".to_owned()
            }
        }
    }
}

fn line(shown: &mut String, text: &str) {
    let _ = writeln!(shown, "{}", text.trim_end());
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Cell, Column, Outcome, Verdict, cell, judge, test};
    use crate::clients::known::{KNOWN, Known};

    fn column(heading: &str, lines: &str) -> Column {
        let cells = lines.lines().filter_map(cell).collect();
        Column { heading: heading.to_owned(), outcome: Outcome::Cells(cells) }
    }

    const TABLE: &[Known] = &[
        Known { operation: "scale", columns: "kubectl", why: "no scale" },
        Known { operation: "edit", columns: "", why: "no edit" },
    ];

    #[test]
    fn lines_are_read() {
        let failed = |operation: &str, why: &str| {
            Some(Cell { operation: operation.to_owned(), failure: Some(why.to_owned()) })
        };
        assert_eq!(cell("get -w\tok"), Some(Cell { operation: "get -w".to_owned(), failure: None }));
        assert_eq!(cell("get -w\tFAIL\tgot: a\tb"), failed("get -w", "got: a\tb"));
        assert_eq!(
            (cell("noise"), cell("noise\tof another kind"), cell("get\tok\tand more")),
            (None, None, None)
        );
        assert_eq!(test("test a_b ... ok"), Some(Cell { operation: "a b".to_owned(), failure: None }));
        assert!(test("test a_b ... FAILED").is_some_and(|cell| cell.failure.is_some()));
        assert_eq!(test("test result: ok. 3 passed"), None);
    }

    #[test]
    fn only_what_is_not_known_fails() {
        let columns = [
            column("kubectl 1.27", "get\tok\nscale\tFAIL\t404\nedit\tFAIL\t415"),
            column("python", "get\tok\nscale\tok"),
            Column { heading: "node".to_owned(), outcome: Outcome::Skipped("no node".to_owned()) },
        ];
        let verdict = judge(&columns, TABLE);
        let counts = |verdict: &Verdict| (verdict.passed, verdict.known, verdict.failed, verdict.skipped);
        assert_eq!(counts(&verdict), (3, 2, 0, 1));
        let expected = "  1  kubectl 1.27\n  2  python\n\n         1    2\nget     ok   ok\nscale  [1]   ok\n\
                        edit   [2]    -\n\n[1] no scale\n[2] no edit\n!!! SKIPPED: node: no node\n";
        assert_eq!(verdict.shown, expected);

        let verdict = judge(&[column("kubectl 1.28", "get\tFAIL\tgone\nedit\tok")], TABLE);
        assert_eq!(counts(&verdict), (0, 0, 2, 0));
        assert!(verdict.shown.contains("kubectl 1.28: get: gone\n"));
        assert!(verdict.shown.contains("kubectl 1.28: edit: passed, and is known to fail (no edit)"));
        let broken = Column { heading: "x".to_owned(), outcome: Outcome::Broken("did not start".to_owned()) };
        assert_eq!(counts(&judge(&[broken], TABLE)), (0, 0, 1, 0));
    }

    #[test]
    fn a_block_has_the_rows_of_its_columns() {
        let mut columns: Vec<Column> = (1..=BLOCK).map(|_| column("kubectl", "get\tok")).collect();
        columns.push(column("python", "watch\tok"));
        let Verdict { shown, passed, .. } = judge(&columns, TABLE);
        assert_eq!(passed, BLOCK + 1);
        assert!(shown.ends_with("   ok\n\n 21  python\n\n        21\nwatch   ok\n\n"), "{shown}");
        assert_eq!((shown.matches("get").count(), shown.matches("watch").count()), (1, 1));
    }

    #[test]
    fn what_is_known_is_an_operation_of_a_script() {
        let scripts = [
            include_str!("../../../clients/kubectl.sh"),
            include_str!("../../../clients/python_client.py"),
            include_str!("../../../clients/python_dynamic.py"),
        ];
        for known in KNOWN {
            let quoted = [format!("'{}')", known.operation), format!("\"{}\"", known.operation)];
            let found = scripts.iter().any(|text| quoted.iter().any(|name| text.contains(name.as_str())));
            assert!(found, "no script has {:?}", known.operation);
        }
    }
}
