//! What is kept of one measured run, whatever the scenario: numbers, distribution, series and conditions. `--out` writes it and
//! `report` reads it. It never measures.

use crate::latency::Latency;
use crate::process::command_of;
use crate::units::whole;
use procfs::{CpuInfo, Current};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) type Facts = Map<String, Value>;

/// Of an object; of anything else there are none.
pub(crate) fn facts_of(object: Value) -> Facts {
    if let Value::Object(facts) = object { facts } else { Facts::new() }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) scenario: String,
    /// What was measured: `revcast`, `floor`, a URL, with a variant: `without slow ones`.
    pub(crate) subject: String,
    pub(crate) round: u32,
    /// Where several take turns: the place of this one among them.
    #[serde(skip)]
    pub(crate) state: usize,
    pub(crate) began_unix_seconds: u64,
    pub(crate) watchers: u32,
    pub(crate) object_bytes: usize,
    /// `None`: as fast as it goes.
    #[serde(default)]
    pub(crate) write_rate_per_second: Option<f64>,
    /// Names carry units: `server_cpu_ns_per_delivery`, `deliveries_per_second`, `latency_p99_ns`,
    /// `rss_bytes_per_watcher`. What could not be measured is absent.
    #[serde(default, serialize_with = "numbers")]
    pub(crate) values: BTreeMap<String, f64>,
    /// What is not compared: the server, its process, the seed, the first fault.
    #[serde(default, skip_serializing_if = "Facts::is_empty")]
    pub(crate) facts: Facts,
    /// The recorded buckets: ns, and how often.
    #[serde(default)]
    pub(crate) latency: Latency,
    #[serde(default)]
    pub(crate) series: Vec<Row>,
    pub(crate) clean: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) machine: Option<Machine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
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
    #[serde(default)]
    pub(crate) server_cpu_share: Option<f64>,
    #[serde(default)]
    pub(crate) server_rss_bytes: Option<u64>,
    #[serde(default)]
    pub(crate) server_fds: Option<u64>,
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A count is written as a whole number.
fn number(value: f64) -> Value {
    let exact = value.fract() == 0.0 && (0.0..9e15).contains(&value);
    if exact { whole(value).into() } else { value.into() }
}

pub(crate) fn sums<'a>(records: impl Iterator<Item = &'a Record> + Clone, names: &str) -> Facts {
    let sum = |name: &str| number(records.clone().map(|record| record.count(name)).sum());
    names.split_whitespace().map(|name| (name.to_owned(), sum(name))).collect()
}

fn numbers<S: Serializer>(values: &BTreeMap<String, f64>, out: S) -> Result<S::Ok, S::Error> {
    out.collect_map(values.iter().map(|(name, &value)| (name, number(value))))
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

    /// Keeps a value under a name that carries its unit. Of a struct every number is a value, `NAME_FIELD`, and the rest
    /// are facts. Nothing is kept of what was not measured, nor of a number that JSON has no text for.
    pub(crate) fn set(&mut self, name: &str, value: impl Serialize) {
        self.put(name, serde_json::to_value(value).unwrap_or_default());
    }

    pub(crate) fn add(&mut self, fields: &impl Serialize) {
        self.set("", fields);
    }

    fn put(&mut self, name: &str, value: Value) {
        match value {
            Value::Null => {}
            Value::Number(number) => {
                self.values.extend(number.as_f64().map(|number| (name.to_owned(), number)));
            }
            Value::Object(fields) => {
                for (field, value) in fields {
                    let field = if name.is_empty() { field } else { format!("{name}_{field}") };
                    self.put(&field, value);
                }
            }
            Value::Bool(_) | Value::String(_) | Value::Array(_) => self.tell(name, value),
        }
    }

    /// Keeps what is no figure, though it may be a number. Nothing is kept of what is not known.
    pub(crate) fn tell(&mut self, name: &str, fact: impl Into<Value>) {
        let fact = fact.into();
        if !fact.is_null() {
            self.facts.insert(name.to_owned(), fact);
        }
    }

    /// Keeps which server was measured: its command line, if its process is known, and the version that it tells.
    pub(crate) fn set_server(&mut self, pid: Option<u32>, version: Option<String>) {
        self.server_command = pid.and_then(command_of);
        if let (Some(machine), Some(version)) = (&mut self.machine, version) {
            machine.versions.insert("server".to_owned(), version);
        }
    }

    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }

    /// Clean is a run of which none of the counts `wrong` is above 0, and the count `some` is.
    pub(crate) fn judge(&mut self, wrong: &str, some: &str) {
        self.clean = self.has_no(wrong) && !self.has_no(some);
    }

    pub(crate) fn has_no(&self, names: &str) -> bool {
        names.split_whitespace().all(|name| self.count(name) == 0.0)
    }

    /// Of what is counted: 0 where nothing was.
    pub(crate) fn count(&self, name: &str) -> f64 {
        self.value(name).unwrap_or(0.0)
    }

    /// Keeps a distribution, and its usual quantiles among the values.
    pub(crate) fn set_latency(&mut self, latency: &Latency) {
        self.latency = latency.clone();
        self.set_quantiles("latency", latency);
    }

    /// Keeps the usual quantiles of a distribution that has any.
    pub(crate) fn set_quantiles(&mut self, name: &str, latency: &Latency) {
        if latency.is_empty() {
            return;
        }
        for (quantile, at) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)] {
            self.set(&format!("{name}_{quantile}_ns"), latency.at(at));
        }
    }

    pub(crate) fn flat(&self) -> Facts {
        let mut flat = self.facts.clone();
        flat.insert("watchers".to_owned(), self.watchers.into());
        flat.insert("object_bytes".to_owned(), self.object_bytes.into());
        flat.insert("write_rate_wanted_per_second".to_owned(), self.write_rate_per_second.into());
        flat.extend(self.values.iter().map(|(name, &value)| (name.clone(), number(value))));
        flat
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// `Linux 6.12.1 x86_64`.
    #[serde(default)]
    pub(crate) kernel: String,
    /// Empty where the kernel names none (most ARM machines).
    #[serde(default)]
    pub(crate) cpu_model: String,
    #[serde(default)]
    pub(crate) cores: usize,
    #[serde(default)]
    pub(crate) versions: BTreeMap<String, String>,
}

impl Machine {
    pub(crate) fn here() -> Self {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let cpus = CpuInfo::current().ok();
        let model = cpus.as_ref().and_then(|cpus| cpus.model_name(0)).unwrap_or_default().to_owned();
        Self {
            kernel: format!("Linux {} {}", release.trim(), std::env::consts::ARCH),
            cpu_model: model,
            cores: cpus.map_or(0, |cpus| cpus.num_cores()),
            versions: BTreeMap::from([("revcast-perf".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut latency = Latency::default();
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
    fn what_is_found_has_a_name_each() {
        #[derive(Serialize)]
        struct Found {
            lost: u64,
            share: f64,
            calls: BTreeMap<&'static str, u64>,
            first_fault: Option<&'static str>,
            notes: [&'static str; 1],
        }
        let calls = BTreeMap::from([("p99_ns", 7)]);
        let mut record = Record::default();
        record.add(&Found { lost: 0, share: 0.5, calls, first_fault: None, notes: ["a"] });
        record.tell("seed", 5);
        record.set("absent_ns", None::<u64>);
        record.set("endless_ns", f64::INFINITY);
        record.set("undefined_ns", f64::NAN);
        record.set_latency(&Latency::default());
        let text = serde_json::to_value(&record).expect("plain numbers");
        assert_eq!(text["values"].to_string(), r#"{"calls_p99_ns":7,"lost":0,"share":0.5}"#);
        assert_eq!(text["facts"].to_string(), r#"{"notes":["a"],"seed":5}"#);
        assert_eq!(
            (record.flat().get("seed"), record.flat().get("calls_p99_ns")),
            (Some(&5.into()), Some(&7.into()))
        );
        assert_eq!(number(-2.0), Value::from(-2.0));
    }

    #[test]
    fn only_a_run_that_did_something_and_nothing_wrong_is_clean() {
        let judged = |counts: &[(&str, u32)]| {
            let mut record = Record { clean: true, ..Record::default() };
            counts.iter().for_each(|(name, count)| record.set(name, count));
            record.judge("lost duplicated", "deliveries");
            record.clean
        };
        assert!(judged(&[("deliveries", 10), ("lost", 0), ("bookmarks", 3)]));
        for wrong in [
            [("deliveries", 0), ("lost", 0)],
            [("deliveries", 10), ("lost", 1)],
            [("deliveries", 10), ("duplicated", 1)],
        ] {
            assert!(!judged(&wrong), "{wrong:?}");
        }
        assert!(!judged(&[]));
    }

    #[test]
    fn the_least_that_a_record_is() {
        let text = r#"{"scenario":"s","subject":"u","round":1,"began_unix_seconds":5,"watchers":2,"object_bytes":9,"clean":true}"#;
        let record: Record = serde_json::from_str(text).expect("all else has a default");
        assert!(record.clean && record.machine.is_none() && record.series.is_empty());
        for cut in ["\"clean\":true", "\"scenario\":\"s\","] {
            assert!(serde_json::from_str::<Record>(&text.replace(cut, "")).is_err(), "{cut}");
        }
    }

    #[test]
    fn the_machine_is_named() {
        let here = Machine::here();
        assert!(here.cores > 0 && here.kernel.starts_with("Linux "), "{here:?}");
    }
}
