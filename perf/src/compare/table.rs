//! What `compare` found: every run, and per number of watchers each subject's spread and its ratio to the first.

use crate::options::{Compare, Rate, Subject};
use crate::record::{Record, Scenario};
use crate::spread::Spread;
use crate::units::{Unit, show_bytes, show_count, show_rate};
use serde::Serialize;
use std::fmt;

/// What is compared: the line's name, and the value's.
const FIGURES: [(&str, &str); 7] = [
    ("CPU a delivery", "server_cpu_ns_per_delivery"),
    ("deliveries", "deliveries_per_second"),
    ("latency p50", "latency_p50_ns"),
    ("latency p99", "latency_p99_ns"),
    ("RSS a watcher", "rss_bytes_per_watcher"),
    ("server busy", "server_cpu_share"),
    // Near all that it has, rates are its own.
    ("generator busy", "client_cpu_share"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) watchers: u32,
    pub(crate) round: u32,
    /// Place among the subjects: two may have the same name.
    pub(crate) subject: usize,
}

/// The report. As JSON it is the array of its records.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct CompareReport {
    records: Vec<Record>,
    #[serde(skip)]
    rows: Vec<Row>,
    #[serde(skip)]
    subjects: Vec<String>,
    #[serde(skip)]
    watchers: Vec<u32>,
    #[serde(skip)]
    rounds: u32,
    #[serde(skip)]
    rate: Rate,
    #[serde(skip)]
    failures: Vec<String>,
    #[serde(skip)]
    pub(crate) clean: bool,
}

impl CompareReport {
    pub(crate) fn new(args: &Compare) -> Self {
        Self {
            records: Vec::new(),
            rows: Vec::new(),
            subjects: args.subjects.iter().map(ToString::to_string).collect(),
            watchers: args.watchers.clone(),
            rounds: args.rounds,
            rate: args.base.rate,
            failures: Vec::new(),
            clean: false,
        }
    }

    pub(crate) fn add(&mut self, row: Row, record: Record) {
        self.rows.push(row);
        self.records.push(record);
    }

    pub(crate) fn fail(&mut self, subject: &Subject, watchers: u32, round: u32, why: &str) {
        self.failures.push(format!("{subject}, {watchers} watchers, round {round}: {why}"));
    }

    /// Every run was made, and every one was clean.
    pub(crate) fn judge(&mut self) {
        self.clean = self.failures.is_empty()
            && !self.records.is_empty()
            && self.records.iter().all(|record| record.clean);
    }

    fn value(&self, row: Row, name: &str) -> Option<f64> {
        let place = self.rows.iter().position(|other| *other == row)?;
        self.records[place].value(name)
    }

    /// A subject's values over the rounds, and their ratios to the first subject's in the same rounds.
    fn spreads(&self, watchers: u32, subject: usize, name: &str) -> (Option<Spread>, Option<Spread>) {
        let rounds = 1..=self.rounds;
        let value = |round: u32, subject: usize| self.value(Row { watchers, round, subject }, name);
        let values = Spread::of(rounds.clone().filter_map(|round| value(round, subject)));
        let ratio = |round: u32| {
            let first = value(round, 0).filter(|&first| first > 0.0)?;
            Some(value(round, subject)? / first)
        };
        (values, Spread::of(rounds.filter_map(ratio)))
    }
}

fn letter(subject: usize) -> char {
    u8::try_from(subject).map_or('?', |place| char::from(b'A'.saturating_add(place)))
}

impl Scenario for CompareReport {
    /// It keeps them by itself, as they come.
    fn records(&self) -> Vec<&Record> {
        Vec::new()
    }

    fn is_clean(&self) -> bool {
        self.clean
    }
}

impl fmt::Display for CompareReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.rate.per_second().map_or_else(|| "max".to_owned(), show_rate);
        let size = self.records.first().map_or(0, |record| record.object_bytes as u64);
        let size = show_bytes(size);
        writeln!(out, "compare: objects of {size} at {rate}, {} rounds; median (least..most)", self.rounds)?;
        for (place, subject) in self.subjects.iter().enumerate() {
            writeln!(out, "  {} = {subject}", letter(place))?;
        }
        for &watchers in &self.watchers {
            writeln!(out, "{} watchers", show_count(u64::from(watchers)))?;
            for (title, name) in FIGURES {
                let show = |value: f64| Unit::of(name).show(value);
                for subject in 0..self.subjects.len() {
                    let title = if subject == 0 { title } else { "" };
                    let (values, ratios) = self.spreads(watchers, subject, name);
                    let values = values.map_or_else(|| "not measured".to_owned(), |spread| spread.show(show));
                    let ratios = ratios.filter(|_| subject > 0).map_or_else(String::new, |spread| {
                        format!("  {} of A", spread.show(|ratio| Unit::Ratio.show(ratio)))
                    });
                    writeln!(out, "  {title:<16}{}  {values}{ratios}", letter(subject))?;
                }
            }
        }
        for failure in &self.failures {
            writeln!(out, "  FAILED: {failure}")?;
        }
        let unclean = self.records.iter().filter(|record| !record.clean);
        for record in unclean {
            let (subject, watchers, round) = (&record.subject, record.watchers, record.round);
            writeln!(
                out,
                "  NOT CLEAN: {subject}, {watchers} watchers, round {round}: its watchers did not see every write once and in order"
            )?;
        }
        let verdict = if self.clean {
            "in every run every watcher saw every write once and in order"
        } else {
            "FAILED: not every run was made and clean"
        };
        writeln!(out, "  verdict: {verdict}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Load, Mode};

    fn report(rounds: u32) -> CompareReport {
        let subjects = vec![Subject::Floor(None), Subject::Floor(Some(Mode::Send))];
        let (base, watchers, server_cpu) = (Load::default(), vec![5], Vec::new());
        CompareReport::new(&Compare { base, subjects, watchers, rounds, server_cpu })
    }

    fn add(report: &mut CompareReport, round: u32, subject: usize, cpu: f64) {
        let mut record = Record::new("compare", "x", round);
        record.set("server_cpu_ns_per_delivery", cpu);
        record.clean = true;
        report.add(Row { watchers: 5, round, subject }, record);
    }

    #[test]
    fn ratios_are_those_of_the_rounds() {
        let mut report = report(3);
        for (round, first, second) in [(1, 100.0, 150.0), (2, 200.0, 220.0), (3, 100.0, 130.0)] {
            add(&mut report, round, 0, first);
            add(&mut report, round, 1, second);
        }
        report.judge();
        assert!(report.clean);
        let (values, ratios) = report.spreads(5, 1, "server_cpu_ns_per_delivery");
        assert_eq!(values, Some(Spread { median: 150.0, least: 130.0, most: 220.0 }));
        assert_eq!(ratios, Some(Spread { median: 1.3, least: 1.1, most: 1.5 }));
        let screen = report.to_string();
        assert!(screen.contains("B  150 ns (130 ns..220 ns)  1.30 (1.10..1.50) of A"), "{screen}");
        assert!(screen.contains("B  not measured"), "{screen}");
        let json = serde_json::to_value(&report).expect("plain numbers");
        assert_eq!(json.as_array().map(Vec::len), Some(6));
    }

    #[test]
    fn a_failure_leaves_the_other_subjects_their_numbers() {
        let mut report = report(2);
        add(&mut report, 1, 1, 9.0);
        add(&mut report, 2, 1, 11.0);
        report.fail(&Subject::Floor(None), 5, 1, "no port");
        report.judge();
        assert!(!report.clean);
        let (values, ratios) = report.spreads(5, 1, "server_cpu_ns_per_delivery");
        assert_eq!((values.map(|spread| spread.median), ratios), (Some(10.0), None));
        assert!(report.to_string().contains("FAILED: floor, 5 watchers, round 1: no port"), "{report}");
    }
}
