//! Reads records from files and folders. What is no record is named with its file and left out.

use crate::record::Record;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// Endings of files with records, in a folder. A file that is named itself may have any.
const ENDINGS: [&str; 3] = ["json", "jsonl", "ndjson"];

#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) records: Vec<Record>,
    /// A line each: what could not be read, and why.
    pub(super) faults: Vec<String>,
}

pub(super) fn collect(paths: &[PathBuf]) -> Found {
    let mut found = Found::default();
    for path in paths {
        let before = found.records.len() + found.faults.len();
        for entry in WalkDir::new(path).sort_by_file_name() {
            match entry {
                Ok(entry)
                    if !entry.file_type().is_dir() && (entry.depth() == 0 || is_known(entry.path())) =>
                {
                    read(entry.path(), &mut found);
                }
                Ok(_) => {}
                Err(fault) => found.faults.push(fault.to_string()),
            }
        }
        if found.records.len() + found.faults.len() == before {
            found.faults.push(format!("{}: there is no record in this folder", path.display()));
        }
    }
    found.records.sort_by_key(|record| (record.began_unix_seconds, record.round));
    // Runs of one command each are all the first: the later ones become the rounds after it.
    let mut taken = BTreeSet::new();
    for record in &mut found.records {
        let (scenario, subject) = (&record.scenario, &record.subject);
        let size = (record.watchers, record.object_bytes, record.write_rate_per_second);
        let run = format!("{scenario}, {subject}, {size:?}");
        while !taken.insert((run.clone(), record.round)) {
            record.round += 1;
        }
    }
    found
}

fn is_known(path: &Path) -> bool {
    path.extension().is_some_and(|end| ENDINGS.iter().any(|known| end == *known))
}

/// One file: a record, a `--json` report with records in it, or either of them a line.
fn read(path: &Path, found: &mut Found) {
    let shown = path.display();
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(fault) => return found.faults.push(format!("{shown}: {fault}")),
    };
    let whole = match records_of(&text) {
        Ok(records) => return found.records.extend(records),
        Err(fault) => fault,
    };
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let read: Vec<_> = lines.map(|(number, line)| (number, records_of(line))).collect();
    if read.iter().all(|(_, line)| line.is_err()) {
        return found.faults.push(format!("{shown}: not a record: {whole}"));
    }
    for (number, line) in read {
        match line {
            Ok(records) => found.records.extend(records),
            Err(fault) => found.faults.push(format!("{shown}, line {number}: not a record: {fault}")),
        }
    }
}

/// A text that is a record, or the report of a scenario, which has some.
fn records_of(text: &str) -> Result<Vec<Record>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Report {
        records: Vec<Record>,
    }
    let report = || serde_json::from_str(text).map(|Report { records }| records).ok();
    serde_json::from_str(text).map(|record| vec![record]).or_else(|fault| report().ok_or(fault))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_are_read_and_broken_ones_named() {
        let folder = std::env::temp_dir().join(format!("revcast-perf-collect-{}", std::process::id()));
        let _none = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("deep")).expect("writable");
        let record = |round: u32| serde_json::to_string(&Record::new("fanout", "a", round)).expect("plain");
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("writable");
        write("one.json", &record(1));
        write("deep/lines.jsonl", &format!("{}\n\n{{\"scenario\":1}}\n{}\n", record(2), record(3)));
        write("broken.json", "{");
        write("empty.json", "");
        write("other.json", "[1]");
        write("series.csv", "not looked at");
        let found = collect(&[folder.clone(), folder.join("no such file")]);
        assert_eq!(found.records.iter().map(|record| record.round).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(found.faults.len(), 5, "{:?}", found.faults);
        for name in ["broken.json", "empty.json", "other.json", "lines.jsonl, line 3", "no such file"] {
            assert!(found.faults.iter().any(|fault| fault.contains(name)), "{name}: {:?}", found.faults);
        }
        write("report.json", &format!(r#"{{"clean":true,"records":[{},{}]}}"#, record(7), record(7)));
        let inside = collect(&[folder.join("report.json")]);
        assert_eq!(inside.records.iter().map(|record| record.round).collect::<Vec<_>>(), [7, 8]);
        write("report.json", r#"{"records":[{"scenario":1}]}"#);
        assert_eq!(collect(&[folder.join("report.json")]).faults.len(), 1);
        fs::create_dir(folder.join("void")).expect("writable");
        let none = collect(&[folder.join("void")]);
        assert!(none.records.is_empty() && none.faults[0].contains("no record in this folder"));
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
