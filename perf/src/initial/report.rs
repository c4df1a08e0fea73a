//! What a run of `initial` found. Names carry their units.

use super::stream::Wrongs;
use crate::latency::{Latency, Pairs};
use crate::record::{Record, Scenario};
use crate::report::NO_PROCESS;
use crate::sheet::Sheet;
use serde::Serialize;
use std::fmt;

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct InitialReport {
    pub(crate) server: String,
    pub(crate) resource: String,
    /// `watch_list` or `list`.
    pub(crate) asked: &'static str,
    pub(crate) gzip: bool,
    pub(crate) watchers: u32,
    pub(crate) objects: u32,
    pub(crate) object_bytes: usize,
    pub(crate) seed: u64,

    /// From the first request to the mark, or to the end of the list.
    pub(crate) first_synced_ns: u64,
    pub(crate) synced_p50_ns: u64,
    pub(crate) synced_p99_ns: u64,
    pub(crate) last_synced_ns: u64,
    pub(crate) objects_received: u64,
    pub(crate) objects_per_second: f64,
    /// As they came over the sockets, heads and framing too.
    pub(crate) bytes: u64,
    pub(crate) bytes_per_second: f64,

    #[serde(flatten)]
    pub(super) wrongs: Wrongs,
    pub(crate) clean: bool,

    pub(crate) server_pid: Option<u32>,
    pub(crate) server_cpu_ns: Option<u64>,
    pub(crate) server_cpu_ns_per_object: Option<f64>,
    pub(crate) server_rss_before_bytes: Option<u64>,
    pub(crate) server_rss_peak_bytes: Option<u64>,
    pub(crate) client_cpu_share: Option<f64>,
    pub(crate) client_cpus: usize,

    #[serde(skip)]
    pub(super) synced: Pairs,
    #[serde(skip)]
    pub(super) record: Record,
}

impl InitialReport {
    /// Fills the record of this run. Its latencies are the times until the clients were synced.
    pub(super) fn keep(&mut self, mut record: Record) {
        if self.asked == "list" {
            record.subject.push_str(", lists");
        }
        if self.gzip {
            record.subject.push_str(", gzip");
        }
        (record.watchers, record.object_bytes, record.clean) = (self.watchers, self.object_bytes, self.clean);
        record.set_latency(&Latency::of([&self.synced]));
        record.take(
            self,
            "objects first_synced_ns last_synced_ns missing duplicated unexpected unfinished objects_per_second \
             server_cpu_ns_per_object client_cpu_share server_rss_before_bytes server_rss_peak_bytes",
        );
        record.set("received_bytes_per_second", self.bytes_per_second);
        self.record = record;
    }

    pub(super) fn judge(&mut self) {
        self.clean = !self.wrongs.any() && self.objects_received > 0;
    }

    pub(crate) fn unfinished(&self) -> u64 {
        self.wrongs.unfinished
    }

    pub(crate) fn wrong(&self) -> u64 {
        let Wrongs { missing, duplicated, unexpected, malformed, stale_marks, .. } = self.wrongs;
        missing + duplicated + unexpected + malformed + stale_marks
    }

    pub(crate) fn first_fault(&self) -> Option<String> {
        self.wrongs.first_fault.clone()
    }
}

impl Scenario for InitialReport {
    fn records(&self) -> Vec<&Record> {
        vec![&self.record]
    }

    fn is_clean(&self) -> bool {
        self.clean
    }
}

impl fmt::Display for InitialReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sheet = Sheet::new(self, "initial at {server}, seed {seed:plain}");
        let asked =
            if self.asked == "list" { "{watchers} LISTs at once" } else { "{watchers} WatchLists at once" };
        sheet.rows(&[
            ("objects", "{objects} {resource} of {object_bytes}"),
            ("clients", asked),
            (
                "synced",
                "first {first_synced_ns}  p50 {synced_p50_ns}  p99 {synced_p99_ns}  last {last_synced_ns}",
            ),
            ("received", "{objects_received} objects at {objects_per_second}"),
            ("", "{bytes} at {bytes_per_second}"),
            ("checked", "missing {missing}  duplicated {duplicated}  unexpected {unexpected}"),
            ("", "malformed {malformed}  stale marks {stale_marks}  unfinished {unfinished}"),
            ("server CPU", "{server_cpu_ns_per_object:us} µs an object, pid {server_pid:plain}"),
            ("server RSS", "{server_rss_peak_bytes} at most, {server_rss_before_bytes} before"),
        ]);
        if self.gzip {
            sheet.rows(&[("encoding", "gzip accepted")]);
        }
        if self.server_pid.is_none() {
            sheet.rows(&[NO_PROCESS]);
        }
        let busy = self.client_cpu_share.is_some_and(|share| share > 0.9 * self.client_cpus.max(1) as f64);
        let generator = if busy {
            "{client_cpu_share}; it is saturated: part of the time is its own"
        } else {
            "{client_cpu_share}"
        };
        let verdict = match (self.clean, self.objects_received) {
            (true, _) => "every client got every object once, and the mark after them",
            (false, 0) => "nothing was received",
            (false, _) => "FAILED: clients did not get every object exactly once and the mark after them",
        };
        sheet.rows(&[("load generator", generator), ("first fault", "{first_fault}"), ("verdict", verdict)]);
        sheet.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_run_that_got_all_is_clean() {
        let clean = |received: u64, wrongs: Wrongs| {
            let mut report = InitialReport { objects_received: received, wrongs, ..InitialReport::default() };
            report.judge();
            report.clean
        };
        assert!(clean(5, Wrongs::default()));
        assert!(!clean(0, Wrongs::default()));
        for spoil in [
            |wrongs: &mut Wrongs| wrongs.missing = 1,
            |wrongs: &mut Wrongs| wrongs.duplicated = 1,
            |wrongs: &mut Wrongs| wrongs.unexpected = 1,
            |wrongs: &mut Wrongs| wrongs.malformed = 1,
            |wrongs: &mut Wrongs| wrongs.stale_marks = 1,
            |wrongs: &mut Wrongs| wrongs.unfinished = 1,
        ] {
            let mut wrongs = Wrongs::default();
            spoil(&mut wrongs);
            assert!(!clean(5, wrongs.clone()), "{wrongs:?}");
        }
    }

    #[test]
    fn json_fields_carry_units_and_the_screen_is_short() {
        let report = InitialReport {
            server_pid: Some(7),
            server_cpu_ns_per_object: Some(3_210.0),
            client_cpu_share: Some(0.99),
            client_cpus: 1,
            ..InitialReport::default()
        };
        let json = serde_json::to_value(&report).expect("plain numbers");
        for field in ["synced_p99_ns", "server_cpu_ns_per_object", "server_rss_peak_bytes", "missing"] {
            assert!(json.get(field).is_some(), "{field}");
        }
        let screen = report.to_string();
        assert!(screen.contains("3.21 µs an object") && screen.contains("saturated"), "{screen}");
        assert!(screen.lines().count() <= 20);
    }
}
