//! The options of `report`, which makes pictures of records.

use super::{BadOption, Job, bare, next, value};
use std::path::PathBuf;

pub(crate) const HELP: &str = "
report PATH...: one HTML page with pictures and tables of the records that runs with --out kept. PATH is a file (JSON, or JSON
lines) or a folder of them. Exit code 1: a file was no record; it is named, and the rest is shown.
  --html FILE             where the page goes; an older one is replaced        [revcast-perf.html]
  --title TEXT            its headline                                  [revcast-perf]
";

/// Everything that `report` was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) html: PathBuf,
    pub(crate) title: String,
}

pub(super) fn parse(parser: &mut lexopt::Parser) -> Result<Job, BadOption> {
    let mut report = Report {
        paths: Vec::new(),
        html: PathBuf::from("revcast-perf.html"),
        title: "revcast-perf".to_owned(),
    };
    while let Some(option) = next(parser)? {
        match option.as_str() {
            "--help" | "-h" => return Ok(Job::Help),
            "--html" => report.html = PathBuf::from(value(parser, &option)?),
            "--title" => report.title = value(parser, &option)?,
            path if !path.starts_with('-') => report.paths.push(PathBuf::from(path)),
            _ => return Err(bare(&option, "not an option of report; see revcast-perf --help")),
        }
    }
    if report.paths.is_empty() {
        return Err(bare("report", "give files or folders with records, as runs with --out DIR write them"));
    }
    Ok(Job::Report(report))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(args: &str) -> Result<Report, String> {
        match super::super::parse(["report"].into_iter().chain(args.split_ascii_whitespace())) {
            Ok(Job::Report(report)) => Ok(report),
            Ok(other) => Err(format!("{other:?}")),
            Err(bad) => Err(bad.to_string()),
        }
    }

    #[test]
    fn paths_and_options_in_any_order() {
        let found = report("a.json --html x.html folder --title Night").expect("all are valid");
        assert_eq!(found.paths, [PathBuf::from("a.json"), PathBuf::from("folder")]);
        assert_eq!((found.html.to_str(), found.title.as_str()), (Some("x.html"), "Night"));
        assert_eq!(report("folder").expect("enough").html, PathBuf::from("revcast-perf.html"));
        assert!(report("").is_err_and(|said| said.contains("--out DIR")));
        assert!(report("a --watchers 5").is_err_and(|said| said.contains("--watchers")));
        assert!(report("a --html").is_err_and(|said| said.contains("a value is missing")));
    }
}
