//! `--out DIR`: of each [`Record`] its JSON, its distribution as `.hgrm` and its series as `.csv`, under one name. It never
//! overwrites a file, and is opened before a run: a folder that cannot be written is told before minutes are spent.

use crate::latency::Latency;
use crate::options::BadOption;
use crate::record::{Record, Row};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

const PART_CHARS_MAX: usize = 60;
const NUMBER_MAX: u32 = 100_000;

pub(crate) fn open(folder: &Path) -> Result<(), BadOption> {
    let bad = |what: &str, fault: io::Error| {
        BadOption::new("--out", folder.display(), format!("{what} ({fault}): give one that you may write"))
    };
    fs::create_dir_all(folder).map_err(|fault| bad("the folder cannot be made", fault))?;
    let probe = folder.join(format!(".revcast-perf-{}", std::process::id()));
    let made = File::create(&probe).and_then(|_| fs::remove_file(&probe));
    made.map_err(|fault| bad("no file can be made in this folder", fault))
}

/// Writes a record. What the run did not record gets no file.
pub(crate) fn keep(folder: &Path, record: &Record) -> Result<(), String> {
    let json = serde_json::to_string(record).map_err(|fault| format!("a record has no JSON: {fault}"))?;
    let (mut file, path) = claim(folder, record)?;
    let written = writeln!(file, "{json}").and_then(|()| {
        if !record.latency.is_empty() {
            File::create_new(path.with_extension("hgrm"))?.write_all(hgrm(&record.latency).as_bytes())?;
        }
        if !record.series.is_empty() {
            File::create_new(path.with_extension("csv"))?.write_all(&table(&record.series)?)?;
        }
        Ok(())
    });
    written.map_err(|fault| unwritten(&path, &fault))
}

/// Makes the JSON file, with the first number whose names are all free: `.hgrm` and `.csv` belong to it.
fn claim(folder: &Path, record: &Record) -> Result<(File, PathBuf), String> {
    let stem = format!("{}-{}-r{}", part(&record.scenario), part(&record.subject), record.round);
    for number in 1..=NUMBER_MAX {
        let number = if number == 1 { String::new() } else { format!("-{number}") };
        let path = |ending: &str| folder.join(format!("{stem}{number}.{ending}"));
        if ["hgrm", "csv"].iter().any(|ending| path(ending).symlink_metadata().is_ok()) {
            continue;
        }
        match File::create_new(path("json")) {
            Ok(file) => return Ok((file, path("json"))),
            Err(fault) if fault.kind() == ErrorKind::AlreadyExists => {}
            Err(fault) => return Err(unwritten(&path("json"), &fault)),
        }
    }
    let folder = folder.display();
    Err(format!("{folder} holds {NUMBER_MAX} runs named {stem}: give --out another folder"))
}

fn table(series: &[Row]) -> io::Result<Vec<u8>> {
    let mut table = csv::Writer::from_writer(Vec::new());
    series.iter().try_for_each(|row| table.serialize(row))?;
    table.into_inner().map_err(csv::IntoInnerError::into_error)
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

/// Lines for each halving of the distance to 100 %: what the other tools write.
const TICKS_PER_HALF: u32 = 5;
const NS_PER_MS: f64 = 1e6;

/// As HdrHistogram's tools write it (`outputPercentileDistribution`): value in ms, percentile, how many are not above it, and
/// 1/(1-percentile) for a log axis. The last line says the unit, as a comment that readers pass over.
fn hgrm(histogram: &Latency) -> String {
    let mut text =
        format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    let mut total = 0;
    for step in histogram.iter_quantiles(TICKS_PER_HALF) {
        total += step.count_since_last_iteration();
        let (value_ms, quantile) = (step.value_iterated_to() as f64 / NS_PER_MS, step.quantile_iterated_to());
        let _infallible = write!(text, "{value_ms:12.6} {quantile:2.12} {total:10}");
        if quantile < 1.0 {
            let _infallible = write!(text, " {:14.2}", 1.0 / (1.0 - quantile));
        }
        text.push('\n');
    }
    let [mean, deviation, max] =
        [histogram.mean(), histogram.stdev(), histogram.max() as f64].map(|ns| ns / NS_PER_MS);
    let buckets = u64::from(histogram.buckets());
    // The first bucket is whole; each further one adds its upper half.
    let sub_buckets = histogram.distinct_values() as u64 * 2 / (buckets + 1);
    let count = histogram.len();
    let _infallible = write!(
        text,
        "#[Mean    = {mean:12.6}, StdDeviation   = {deviation:12.6}]\n\
         #[Max     = {max:12.6}, Total count    = {count:12}]\n\
         #[Buckets = {buckets:12}, SubBuckets     = {sub_buckets:12}]\n\
         #[Unit    = milliseconds]\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_becomes_three_files_and_none_is_overwritten() {
        let folder = std::env::temp_dir().join(format!("revcast-perf-keep-{}/deep", std::process::id()));
        open(&folder).expect("it can be made");
        let mut record = Record::new("fanout", "http://127.0.0.1:8080/", 2);
        record.latency = vec![(1_000_000, 5)].into();
        record.series.push(Row::default());
        keep(&folder, &record).expect("it can be written");
        let file = |end: &str| folder.join(format!("fanout-http-127.0.0.1-8080-r2{end}"));
        let kept = fs::read_to_string(file(".json")).expect("just written");
        assert_eq!(serde_json::from_str::<Record>(&kept).expect("a record"), record);
        // The second finds a name taken, the third two.
        fs::write(file("-3.csv"), "mine").expect("writable");
        keep(&folder, &record).expect("it can be written");
        keep(&folder, &Record { latency: Latency::default(), series: Vec::new(), ..record })
            .expect("writable");
        let ends = [".json", ".hgrm", ".csv", "-2.json", "-2.hgrm", "-2.csv", "-4.json", "-3.csv"];
        assert!(ends.into_iter().all(|end| file(end).exists()));
        assert_eq!(fs::read_dir(&folder).expect("it was made").count(), ends.len());
        assert_eq!(fs::read_to_string(file("-3.csv")).expect("kept"), "mine");
        fs::remove_dir_all(folder.parent().expect("two deep")).expect("it is ours");
        let said = keep(&folder, &Record::new("a", "b", 1)).expect_err("the folder is gone");
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

    #[test]
    fn lines_head_and_foot_are_those_of_the_other_tools() {
        let mut latency = Latency::default();
        (1..=20_000_u64).for_each(|step| latency.record(step * 10_000));
        let lines = hgrm(&latency);
        // As HdrHistogram's plotter reads a line: not a comment, four words, all of them numbers.
        let plotted = |line: &str| -> Option<[f64; 4]> {
            let words: Option<Vec<f64>> =
                line.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
            words?.try_into().ok()
        };
        let lines: Vec<[f64; 4]> = lines.lines().filter_map(plotted).collect();
        for &[value_ms, quantile, total, inverse] in &lines {
            let value_ns = 200_000_000.0 * quantile;
            assert!((value_ms * NS_PER_MS - value_ns).abs() < 220_000.0, "{value_ms} {quantile}");
            assert!((total - 20_000.0 * quantile).abs() < 22.0, "{total} {quantile}");
            assert!((inverse * (1.0 - quantile) - 1.0).abs() <= 0.006, "{quantile} {inverse}");
        }
        // Five lines to 50 %, five more to 75 %.
        let wanted = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75];
        assert!(wanted.iter().zip(&lines).all(|(wanted, line)| (wanted - line[1]).abs() < 1e-9), "{lines:?}");
        let text = hgrm(&vec![(1_000_000, 3), (3_000_000, 1)].into());
        let head = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n    1.000447 0.000000000000          3           1.00\n";
        assert!(text.starts_with(head), "{text}");
        for part in [
            "\n    3.000319 1.000000000000          4\n#[Mean    =     1.499968, Std",
            "\n#[Max     =     3.000",
            "Total count    =            4]\n#[Buckets",
            "SubBuckets     =         2048]\n#[Unit    = milliseconds]\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(hgrm(&Latency::default()).contains("Total count    =            0"));
    }
}
