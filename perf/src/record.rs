//! What is kept of one measured run, whatever the scenario: the numbers, the distribution, the series, and under which
//! conditions they came about. One JSON object; `--out` writes it and `report` reads it. It never measures.

use crate::latency::{Latency, Pairs};
use crate::machine::{Machine, command_of};
use crate::sheet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) scenario: String,
    /// What was measured: `revcast`, `floor`, a URL, with a variant: `without slow ones`.
    pub(crate) subject: String,
    /// From 1 on.
    pub(crate) round: u32,
    pub(crate) began_unix_seconds: u64,
    pub(crate) watchers: u32,
    pub(crate) object_bytes: usize,
    /// `None`: as fast as it goes.
    #[serde(default)]
    pub(crate) write_rate_per_second: Option<f64>,
    /// Names carry units: `server_cpu_ns_per_delivery`, `deliveries_per_second`, `latency_p99_ns`,
    /// `rss_bytes_per_watcher`. What could not be measured is absent.
    #[serde(default)]
    pub(crate) values: BTreeMap<String, f64>,
    /// The recorded buckets: ns, and how often.
    #[serde(default)]
    pub(crate) latency: Pairs,
    #[serde(default)]
    pub(crate) series: Vec<Row>,
    /// Nothing was lost, repeated or out of order.
    pub(crate) clean: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) machine: Option<Machine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    /// The command line of the server, where its process is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) server_command: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) at_seconds: f64,
    pub(crate) watchers: u64,
    pub(crate) deliveries_per_second: f64,
    /// Of the deliveries of this second; `None`: there were none.
    #[serde(default)]
    pub(crate) latency_p99_ns: Option<u64>,
    /// 1.0 is one core.
    #[serde(default)]
    pub(crate) server_cpu_share: Option<f64>,
    #[serde(default)]
    pub(crate) server_rss_bytes: Option<u64>,
    #[serde(default)]
    pub(crate) server_fds: Option<u64>,
}

pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Record {
    /// A run that begins now, on this machine, by this command.
    pub(crate) fn new(scenario: &str, subject: &str, round: u32) -> Self {
        Self {
            scenario: scenario.to_owned(),
            subject: subject.to_owned(),
            round,
            began_unix_seconds: unix_seconds(),
            machine: Some(Machine::here()),
            command: command_of(std::process::id()),
            ..Self::default()
        }
    }

    /// Keeps a value under a name that carries its unit. Nothing is kept of what was not measured, nor of a number that
    /// JSON has no text for.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into().filter(|value| value.is_finite()) {
            self.values.insert(name.to_owned(), value);
        }
    }

    /// Keeps which server was measured: its command line, if its process is known, and the version that it tells.
    pub(crate) fn set_server(&mut self, pid: Option<u32>, version: Option<String>) {
        self.server_command = pid.and_then(command_of);
        if let (Some(machine), Some(version)) = (&mut self.machine, version) {
            machine.versions.insert("server".to_owned(), version);
        }
    }

    /// Keeps those of a report's values that have these names.
    pub(crate) fn take(&mut self, report: &impl Serialize, names: &str) {
        let values = serde_json::to_value(report).unwrap_or_default();
        for name in names.split_whitespace() {
            self.set(name, sheet::number(&values, name));
        }
    }

    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }

    /// Keeps a distribution, and its usual quantiles among the values.
    pub(crate) fn set_latency(&mut self, latency: &Latency) {
        self.latency = latency.pairs();
        if latency.is_empty() {
            return;
        }
        for (name, ns) in ["p50", "p90", "p99", "p999"].into_iter().zip(latency.quantiles()) {
            self.set(&format!("latency_{name}_ns"), ns as f64);
        }
        self.set("latency_max_ns", latency.max() as f64);
    }
}

pub(crate) trait Scenario: std::fmt::Display + Serialize {
    fn records(&self) -> Vec<&Record>;
    /// In every run every watcher saw what it should.
    fn is_clean(&self) -> bool;
}

/// A report that has its runs in `records`, and says in `clean` whether all was right.
macro_rules! scenario {
    ($report:ty) => {
        impl crate::record::Scenario for $report {
            fn records(&self) -> Vec<&crate::record::Record> {
                self.records.iter().collect()
            }

            fn is_clean(&self) -> bool {
                self.clean
            }
        }
    };
}

pub(crate) use scenario;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut latency = Latency::new();
        [1_000, 2_000, 50_000_000].into_iter().for_each(|ns| latency.record(ns));
        let mut record = Record::new("fanout", "revcast", 3);
        record.write_rate_per_second = Some(20.5);
        record.set("deliveries_per_second", 1.0 / 3.0);
        record.set_latency(&latency);
        record.series.push(Row {
            at_seconds: 1.002,
            watchers: 7,
            server_rss_bytes: Some(9),
            ..Row::default()
        });
        record.set_server(Some(std::process::id()), Some("v1.2".to_owned()));
        assert_eq!(record.server_command, record.command);
        let text = serde_json::to_string(&record).expect("plain numbers");
        assert!(!text.contains('\n'), "a record is a line");
        let again: Record = serde_json::from_str(&text).expect("its own text");
        assert_eq!(again, record);
        assert!(again.began_unix_seconds > 1_700_000_000);
        assert_eq!(again.value("latency_p50_ns"), Some(latency.at(0.5) as f64));
    }

    #[test]
    fn absent_numbers_stay_absent() {
        let mut record = Record::new("idle", "floor", 1);
        record.set("rss_bytes_per_watcher", None);
        record.set("server_cpu_ns_per_delivery", f64::NAN);
        record.set("deliveries_per_second", f64::INFINITY);
        record.set_latency(&Latency::new());
        assert!(record.values.is_empty() && record.latency.is_empty());
        let text = serde_json::to_string(&record).expect("plain numbers");
        assert_eq!(serde_json::from_str::<Record>(&text).expect("its own text"), record);
    }

    #[test]
    fn the_least_that_a_record_is() {
        let text = r#"{"scenario":"s","subject":"u","round":1,"began_unix_seconds":5,"watchers":2,"object_bytes":9,"clean":true}"#;
        let record: Record = serde_json::from_str(text).expect("all else has a default");
        assert!(
            record.clean
                && record.machine.is_none()
                && record.series.is_empty()
                && record.write_rate_per_second.is_none()
        );
        for cut in ["\"clean\":true", "\"scenario\":\"s\","] {
            assert!(serde_json::from_str::<Record>(&text.replace(cut, "")).is_err(), "{cut}");
        }
    }
}
