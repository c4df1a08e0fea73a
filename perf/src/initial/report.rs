//! What a run of `initial` found: for a person on a screen, and as one JSON object whose fields carry their units.

use super::stream::Wrongs;
use crate::latency::{Latency, Pairs};
use crate::record::Record;
use crate::units::{show_bytes, show_count, show_ns, show_rate};
use serde::Serialize;
use std::fmt;

/// The report of one run. Absent numbers could not be measured.
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

    pub(crate) missing: u64,
    pub(crate) duplicated: u64,
    pub(crate) unexpected: u64,
    pub(crate) malformed: u64,
    pub(crate) stale_marks: u64,
    pub(crate) unfinished: u64,
    pub(crate) first_fault: Option<String>,
    pub(crate) clean: bool,

    pub(crate) server_pid: Option<u32>,
    pub(crate) server_cpu_ns: Option<u64>,
    pub(crate) server_cpu_ns_per_object: Option<f64>,
    pub(crate) server_rss_before_bytes: Option<u64>,
    pub(crate) server_rss_peak_bytes: Option<u64>,
    pub(crate) client_cpu_share: Option<f64>,
    pub(crate) client_cpus: usize,

    /// When the clients were synced.
    #[serde(skip)]
    pub(super) synced: Pairs,
}

impl InitialReport {
    pub(super) fn set_times(&mut self, first_ns: u64, synced: &Latency) {
        self.first_synced_ns = first_ns;
        self.synced_p50_ns = synced.at(0.5);
        self.synced_p99_ns = synced.at(0.99);
        self.last_synced_ns = synced.max();
        self.synced = synced.pairs();
    }

    /// Fills the record of this run. Its latencies are the times until the clients were synced.
    pub(super) fn keep_in(&self, record: &mut Record) {
        if self.asked == "list" {
            record.subject.push_str(", lists");
        }
        if self.gzip {
            record.subject.push_str(", gzip");
        }
        record.watchers = self.watchers;
        record.object_bytes = self.object_bytes;
        record.clean = self.clean;
        let mut synced = Latency::new();
        synced.add(&self.synced);
        record.set_latency(&synced);
        for (name, count) in [
            ("objects", u64::from(self.objects)),
            ("first_synced_ns", self.first_synced_ns),
            ("last_synced_ns", self.last_synced_ns),
            ("missing", self.missing),
            ("duplicated", self.duplicated),
            ("unexpected", self.unexpected),
            ("unfinished", self.unfinished),
        ] {
            record.set(name, count as f64);
        }
        record.set("objects_per_second", self.objects_per_second);
        record.set("received_bytes_per_second", self.bytes_per_second);
        record.set("server_cpu_ns_per_object", self.server_cpu_ns_per_object);
        record.set("client_cpu_share", self.client_cpu_share);
        for (name, bytes) in [
            ("server_rss_before_bytes", self.server_rss_before_bytes),
            ("server_rss_peak_bytes", self.server_rss_peak_bytes),
        ] {
            record.set(name, bytes.map(|bytes| bytes as f64));
        }
    }

    /// Nothing was wrong, and something came.
    pub(super) fn judge(&mut self, wrongs: &Wrongs) {
        self.missing = wrongs.missing;
        self.duplicated = wrongs.duplicated;
        self.unexpected = wrongs.unexpected;
        self.malformed = wrongs.malformed;
        self.stale_marks = wrongs.stale_marks;
        self.unfinished = wrongs.unfinished;
        self.first_fault.clone_from(&wrongs.first_fault);
        self.clean = !wrongs.any() && self.objects_received > 0;
    }
}

impl fmt::Display for InitialReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line =
            |out: &mut fmt::Formatter<'_>, name: &str, text: String| writeln!(out, "  {name:<16}{text}");
        writeln!(out, "initial at {}, seed {}", self.server, self.seed)?;
        let size = show_bytes(self.object_bytes as u64);
        line(out, "objects", format!("{} {} of {size}", show_count(u64::from(self.objects)), self.resource))?;
        let coding = if self.gzip { ", gzip taken" } else { "" };
        let asked = if self.asked == "list" { "LISTs" } else { "WatchLists" };
        line(out, "clients", format!("{} {asked} at once{coding}", show_count(u64::from(self.watchers))))?;
        let [first, p50, p99, last] =
            [self.first_synced_ns, self.synced_p50_ns, self.synced_p99_ns, self.last_synced_ns].map(show_ns);
        line(out, "synced", format!("first {first}  p50 {p50}  p99 {p99}  last {last}"))?;
        let rate = show_rate(self.objects_per_second);
        line(out, "received", format!("{} objects at {rate}", show_count(self.objects_received)))?;
        let bytes_rate = show_rate(self.bytes_per_second / 1e6).replace("/s", "");
        line(out, "", format!("{} at {bytes_rate} MB/s", show_bytes(self.bytes)))?;
        let [missing, duplicated, unexpected, malformed, stale, unfinished] = [
            self.missing,
            self.duplicated,
            self.unexpected,
            self.malformed,
            self.stale_marks,
            self.unfinished,
        ]
        .map(show_count);
        line(out, "checked", format!("missing {missing}  duplicated {duplicated}  unexpected {unexpected}"))?;
        line(out, "", format!("malformed {malformed}  stale marks {stale}  unfinished {unfinished}"))?;
        match (self.server_pid, self.server_cpu_ns_per_object) {
            (Some(pid), Some(ns)) => {
                line(out, "server CPU", format!("{:.2} µs an object, pid {pid}", ns / 1e3))?;
            }
            _ => line(
                out,
                "server",
                "its process was not found: give --server-pid for CPU and memory".to_owned(),
            )?,
        }
        if let (Some(before), Some(peak)) = (self.server_rss_before_bytes, self.server_rss_peak_bytes) {
            let over = show_bytes(peak.saturating_sub(before));
            let [before, peak] = [before, peak].map(show_bytes);
            line(out, "server RSS", format!("{peak} at most, {before} before: {over} more"))?;
        }
        if let Some(share) = self.client_cpu_share {
            let busy = share > 0.9 * self.client_cpus.max(1) as f64;
            let note = if busy { "; it is saturated: part of the time is its own" } else { "" };
            line(out, "load generator", format!("{:.0} % of a core{note}", share * 100.0))?;
        }
        if let Some(fault) = &self.first_fault {
            line(out, "first fault", fault.clone())?;
        }
        let verdict = match (self.clean, self.objects_received) {
            (true, _) => "every client got every object once, and the mark behind them",
            (false, 0) => "nothing was received",
            (false, _) => "FAILED: clients did not get every object exactly once and the mark behind them",
        };
        line(out, "verdict", verdict.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_run_that_got_all_is_clean() {
        let clean = |received: u64, wrongs: &Wrongs| {
            let mut report = InitialReport { objects_received: received, ..InitialReport::default() };
            report.judge(wrongs);
            report.clean
        };
        assert!(clean(5, &Wrongs::default()));
        assert!(!clean(0, &Wrongs::default()));
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
            assert!(!clean(5, &wrongs), "{wrongs:?}");
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
