//! `--out DIR`: the files of a run. For each [`Record`] its JSON, its distribution as `.hgrm` and its series as `.csv`,
//! under one name. It never overwrites a file, and it is opened before a run, so that a folder that cannot be written is
//! told before minutes are spent.

mod hgrm;

use crate::options::BadOption;
use crate::record::{Record, Row};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A scenario's or a subject's part of a name is at most so long.
const PART_CHARS_MAX: usize = 60;
const NUMBER_MAX: u32 = 100_000;

/// A folder that takes the records of runs.
#[derive(Debug)]
pub(crate) struct Outputs {
    folder: PathBuf,
}

impl Outputs {
    /// Makes the folder if it is not there. `None` for a run that is not kept.
    pub(crate) fn open(folder: Option<&Path>) -> Result<Option<Self>, BadOption> {
        let Some(folder) = folder else { return Ok(None) };
        let bad = |mend: String| BadOption::new("--out", folder.display(), mend);
        fs::create_dir_all(folder).map_err(|fault| {
            bad(format!("the folder cannot be made ({fault}): give one that you may write"))
        })?;
        let probe = folder.join(format!(".revcast-perf-{}", std::process::id()));
        File::create(&probe).and_then(|_| fs::remove_file(&probe)).map_err(|fault| {
            bad(format!("no file can be made in it ({fault}): give a folder that you may write"))
        })?;
        Ok(Some(Self { folder: folder.to_owned() }))
    }

    /// Writes a record; gives the files. What the run did not record gets no file.
    pub(crate) fn keep(&self, record: &Record) -> Result<Vec<PathBuf>, String> {
        let mut json =
            serde_json::to_vec(record).map_err(|fault| format!("a record has no JSON: {fault}"))?;
        json.push(b'\n');
        let mut files = vec![("json", json)];
        if !record.latency.is_empty() {
            files.push(("hgrm", hgrm::text(&record.latency).into_bytes()));
        }
        if !record.series.is_empty() {
            files.push((
                "csv",
                table(&record.series).map_err(|fault| format!("a series has no CSV: {fault}"))?,
            ));
        }
        let (scenario, subject) = (part(&record.scenario), part(&record.subject));
        let stem = format!("{scenario}-{subject}-r{}", record.round);
        let claimed = self.claim(&stem, &files.iter().map(|(ending, _)| *ending).collect::<Vec<_>>())?;
        let mut paths = Vec::new();
        for ((path, mut file), (_, bytes)) in claimed.into_iter().zip(&files) {
            file.write_all(bytes).map_err(|fault| unwritten(&path, &fault))?;
            paths.push(path);
        }
        Ok(paths)
    }

    /// Makes new, empty files with the first number whose names are all free.
    fn claim(&self, stem: &str, endings: &[&str]) -> Result<Vec<(PathBuf, File)>, String> {
        for number in 1..=NUMBER_MAX {
            let name = if number == 1 { stem.to_owned() } else { format!("{stem}-{number}") };
            let path = |ending: &str| self.folder.join(format!("{name}.{ending}"));
            // Also of what this run does not write: `.hgrm` and `.csv` belong to the JSON beside them.
            if ["json", "hgrm", "csv"].into_iter().any(|ending| path(ending).symlink_metadata().is_ok()) {
                continue;
            }
            let mut made = Vec::new();
            for ending in endings {
                let path = path(ending);
                match File::create_new(&path) {
                    Ok(file) => made.push((path, file)),
                    Err(fault) if fault.kind() == ErrorKind::AlreadyExists => break,
                    Err(fault) => return Err(unwritten(&path, &fault)),
                }
            }
            if made.len() == endings.len() {
                return Ok(made);
            }
            // Another run took the name in between.
            for (path, _) in made {
                fs::remove_file(&path).map_err(|fault| unwritten(&path, &fault))?;
            }
        }
        let folder = self.folder.display();
        Err(format!("{folder} holds {NUMBER_MAX} runs named {stem}: give --out another folder"))
    }
}

/// A series: one row a second, columns that say their units, nothing where nothing was measured.
fn table(series: &[Row]) -> Result<Vec<u8>, csv::Error> {
    let mut table = csv::Writer::from_writer(Vec::new());
    series.iter().try_for_each(|row| table.serialize(row))?;
    table.into_inner().map_err(|fault| fault.into_error().into())
}

fn unwritten(path: &Path, fault: &io::Error) -> String {
    let full = matches!(fault.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    let mend = if full { "make room" } else { "give --out a folder that you may write" };
    format!("{} cannot be written ({fault}): {mend}", path.display())
}

/// A name as every file system takes it: letters, digits, dots and dashes.
fn part(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars().take(4 * PART_CHARS_MAX) {
        let kept = if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '-' };
        if kept != '-' || !text.ends_with('-') {
            text.push(kept);
        }
    }
    let text = text.trim_matches(['-', '.']);
    let text = text.get(..PART_CHARS_MAX).unwrap_or(text).trim_matches(['-', '.']);
    if text.is_empty() { "unnamed".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("revcast-perf-{name}-{}", std::process::id()));
        let _none = fs::remove_dir_all(&folder);
        folder
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("it was made").flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_record_becomes_three_files_and_none_is_overwritten() {
        let folder = folder("keep").join("deep");
        let outputs = Outputs::open(Some(&folder)).expect("it can be made").expect("it was asked for");
        let mut record = Record::new("fanout", "http://127.0.0.1:8080/", 2);
        record.latency.push((1_000_000, 5));
        record.series.push(Row::default());
        assert_eq!(outputs.keep(&record).expect("it can be written").len(), 3);
        let stem = "fanout-http-127.0.0.1-8080-r2";
        let kept = fs::read_to_string(folder.join(format!("{stem}.json"))).expect("just written");
        assert_eq!(serde_json::from_str::<Record>(&kept).expect("a record"), record);
        // The second finds a name taken, the third two.
        fs::write(folder.join(format!("{stem}-3.csv")), "mine").expect("writable");
        outputs.keep(&record).expect("it can be written");
        outputs.keep(&Record { latency: Vec::new(), series: Vec::new(), ..record }).expect("writable");
        let expected: Vec<String> =
            ["-2.csv", "-2.hgrm", "-2.json", "-3.csv", "-4.json", ".csv", ".hgrm", ".json"]
                .map(|end| format!("{stem}{end}"))
                .to_vec();
        assert_eq!(names(&folder), expected);
        assert_eq!(fs::read_to_string(folder.join(format!("{stem}-3.csv"))).expect("kept"), "mine");
        fs::remove_dir_all(folder.parent().expect("it has one")).expect("it is ours");
    }

    #[test]
    fn a_folder_that_cannot_be_is_told_with_the_mend() {
        assert!(Outputs::open(None).expect("nothing was asked for").is_none());
        let taken = folder("taken");
        fs::write(&taken, "a file").expect("writable");
        let said = Outputs::open(Some(&taken)).expect_err("it is a file").to_string();
        assert!(said.contains("--out") && said.contains("give one that you may write"), "{said}");
        fs::remove_file(&taken).expect("it is ours");
        let gone = Outputs { folder: taken.clone() };
        let said = gone.keep(&Record::new("a", "b", 1)).expect_err("the folder is gone");
        assert!(said.contains("a-b-r1.json") && said.contains("give --out a folder"), "{said}");
    }

    #[test]
    fn a_series_has_a_column_for_each_value() {
        let full = Row {
            at_seconds: 1.5,
            watchers: 2000,
            deliveries_per_second: 40_000.0,
            latency_p99_ns: Some(1_234_567),
            server_cpu_share: Some(0.5),
            server_rss_bytes: Some(4096),
            server_fds: Some(12),
        };
        let bytes = table(&[full, Row { at_seconds: 2.0, ..Row::default() }]).expect("memory");
        assert_eq!(
            String::from_utf8_lossy(&bytes),
            "at_seconds,watchers,deliveries_per_second,latency_p99_ns,server_cpu_share,server_rss_bytes,server_fds\n\
             1.5,2000,40000.0,1234567,0.5,4096,12\n2.0,0,0.0,,,,\n"
        );
    }

    #[test]
    fn names_that_any_file_system_takes() {
        assert_eq!(part("without slow ones"), "without-slow-ones");
        assert_eq!(part("../../etc/passwd"), "etc-passwd");
        assert_eq!(part("<script>"), "script");
        assert_eq!(part("…"), "unnamed");
        assert_eq!(part(&"x".repeat(500)).len(), PART_CHARS_MAX);
    }
}
