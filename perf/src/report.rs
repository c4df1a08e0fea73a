//! What a run of `fanout` found. Names carry their units.

use crate::beside::BesideReport;
use crate::floor::Beside;
use crate::latency::Latency;
use crate::record::{Record, Scenario};
use crate::sheet::Sheet;
use crate::tally::Seen;
use crate::usage::Held;
use serde::Serialize;
use std::fmt;

/// The server's memory through a run, and what the kernel held for it at the end of the writes. Bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) before: Option<u64>,
    pub(crate) idle: Option<u64>,
    pub(crate) loaded: Option<u64>,
    pub(crate) loaded_anon: Option<u64>,
    pub(crate) end: Option<u64>,
    pub(crate) kernel: Option<Held>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) server: String,
    pub(crate) resource: String,
    pub(crate) namespaces: usize,
    pub(crate) objects: u32,
    pub(crate) object_bytes: usize,
    pub(crate) watchers: u32,
    pub(crate) seed: u64,
    pub(crate) watch_open_rate_per_second: f64,
    pub(crate) watch_open_seconds: f64,

    pub(crate) writes: u64,
    pub(crate) writes_failed: u64,
    pub(crate) write_rate_wanted_per_second: Option<f64>,
    pub(crate) write_rate_per_second: f64,
    pub(crate) write_latency_p50_ns: u64,
    pub(crate) write_latency_p90_ns: u64,
    pub(crate) write_latency_p99_ns: u64,
    pub(crate) write_latency_p999_ns: u64,
    pub(crate) write_latency_max_ns: u64,
    /// How late this generator sent: part of the latencies.
    pub(crate) write_send_delay_p99_ns: u64,

    pub(crate) deliveries_per_second: f64,
    pub(crate) latency_p50_ns: u64,
    pub(crate) latency_p90_ns: u64,
    pub(crate) latency_p99_ns: u64,
    pub(crate) latency_p999_ns: u64,
    pub(crate) latency_max_ns: u64,
    pub(crate) stream_bytes_per_second: f64,
    pub(crate) events_per_read: Option<f64>,
    /// Bytes of the stream for one event, in the mean.
    pub(crate) frame_bytes: Option<f64>,

    #[serde(flatten)]
    pub(crate) seen: Seen,
    /// Watchers that never read and that the server closed with bytes unsent: the kernel's table tells.
    pub(crate) deaf_closing: Option<u64>,
    pub(crate) clean: bool,

    pub(crate) server_pid: Option<u32>,
    pub(crate) server_cpu_ns_per_delivery: Option<f64>,
    /// 1.0 is one core.
    pub(crate) server_cpu_share: Option<f64>,
    pub(crate) server_cpu_ns: Option<u64>,
    pub(crate) server_rss_before_bytes: Option<u64>,
    pub(crate) server_rss_idle_bytes: Option<u64>,
    pub(crate) server_rss_loaded_bytes: Option<u64>,
    pub(crate) server_anon_loaded_bytes: Option<u64>,
    pub(crate) server_rss_end_bytes: Option<u64>,
    /// In the kernel, when the writes were over.
    pub(crate) kernel_unsent_bytes: Option<u64>,
    pub(crate) kernel_unread_bytes: Option<u64>,
    pub(crate) rss_bytes_per_watcher: Option<f64>,
    pub(crate) client_cpu_share: Option<f64>,
    pub(crate) client_cpus: usize,
    #[serde(flatten)]
    pub(crate) beside: BesideReport,
    /// What a bare loop needed for the same.
    #[serde(flatten)]
    pub(crate) floor: Option<Beside>,
    /// The same for `--out` and for `report`, with the distribution and the series.
    #[serde(skip)]
    pub(crate) record: Record,
}

/// What a record keeps under the same name.
const KEPT: &str = "deliveries_per_second stream_bytes_per_second watch_open_rate_per_second deliveries writes writes_failed \
    lost duplicated out_of_order disconnected deliveries_checked write_latency_p50_ns write_latency_p99_ns \
    write_send_delay_p99_ns server_cpu_ns_per_delivery server_cpu_share rss_bytes_per_watcher client_cpu_share \
    events_per_read frame_bytes server_rss_before_bytes server_rss_idle_bytes server_rss_end_bytes";

impl Report {
    pub(crate) fn keep(&mut self, mut record: Record, latency: &Latency) {
        record.watchers = self.watchers;
        record.object_bytes = self.object_bytes;
        record.write_rate_per_second = self.write_rate_wanted_per_second;
        record.clean = self.clean;
        record.set_latency(latency);
        record.take(&self, KEPT);
        record.set("writes_per_second", self.write_rate_per_second);
        self.record = record;
    }

    pub(crate) fn set_latency(&mut self, latency: &Latency, writes: &Latency) {
        [self.latency_p50_ns, self.latency_p90_ns, self.latency_p99_ns, self.latency_p999_ns] =
            latency.quantiles();
        self.latency_max_ns = latency.max();
        [
            self.write_latency_p50_ns,
            self.write_latency_p90_ns,
            self.write_latency_p99_ns,
            self.write_latency_p999_ns,
        ] = writes.quantiles();
        self.write_latency_max_ns = writes.max();
    }

    /// Needs the number of watchers.
    pub(crate) fn set_memory(&mut self, memory: &Memory) {
        self.server_rss_before_bytes = memory.before;
        self.server_rss_idle_bytes = memory.idle;
        self.server_rss_loaded_bytes = memory.loaded;
        self.server_anon_loaded_bytes = memory.loaded_anon;
        self.server_rss_end_bytes = memory.end;
        let grown = memory.before.zip(memory.idle).map(|(before, idle)| idle as f64 - before as f64);
        self.rss_bytes_per_watcher = grown.map(|bytes| bytes / f64::from(self.watchers.max(1)));
        self.deaf_closing = memory.kernel.map(|held| held.closing);
        self.kernel_unsent_bytes = memory.kernel.map(|held| held.unsent_bytes);
        self.kernel_unread_bytes = memory.kernel.map(|held| held.unread_bytes);
    }

    pub(crate) fn judge(&mut self) {
        self.clean = self.seen.wrong() == 0 && self.seen.delivered > 0 && self.beside.is_clean();
    }

    /// The record of this run under another name.
    pub(crate) fn record_as(&self, subject: &str, round: u32) -> Record {
        Record { subject: subject.to_owned(), round, object_bytes: self.object_bytes, ..self.record.clone() }
    }
}

impl Scenario for Report {
    fn records(&self) -> Vec<&Record> {
        vec![&self.record]
    }

    fn is_clean(&self) -> bool {
        self.clean
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sheet = Sheet::new(self, "fanout at {server}, seed {seed:plain}");
        sheet.rows(&[
            ("objects", "{objects} {resource} of {object_bytes} in {namespaces} namespaces"),
            ("watchers", "{watchers}, opened in {watch_open_seconds} ({watch_open_rate_per_second})"),
            ("writes", "{writes} at {write_rate_per_second} (wanted {write_rate_wanted_per_second|max})"),
        ]);
        sheet.counts("", &[("failed", "writes_failed")]);
        sheet.rows(&[
            (
                "write latency",
                "p50 {write_latency_p50_ns}  p90 {write_latency_p90_ns}  p99 {write_latency_p99_ns}  p99.9 {write_latency_p999_ns}  max {write_latency_max_ns}",
            ),
            ("deliveries", "{deliveries} at {deliveries_per_second}, {stream_bytes_per_second}"),
            (
                "latency",
                "p50 {latency_p50_ns}  p90 {latency_p90_ns}  p99 {latency_p99_ns}  p99.9 {latency_p999_ns}  max {latency_max_ns}",
            ),
            ("checked", "{deliveries_checked} of {deliveries_expected} expected"),
            ("", "lost {lost}  duplicated {duplicated}  out of order {out_of_order}  disconnected {disconnected}"),
        ]);
        sheet.counts(
            "",
            &[
                ("malformed", "malformed"),
                ("unexpected", "unexpected"),
                ("error events", "error_events"),
                ("bookmarks", "bookmarks"),
                ("foreign", "foreign"),
            ],
        );
        if self.seen.deaf > 0 {
            sheet.rows(&[(
                "never read",
                "{deaf}; ended: {deaf_ended} seen, {deaf_closing|0} closed with bytes unsent",
            )]);
        }
        sheet.counts("came back", &[("", "returned")]);
        self.beside.show(&mut sheet);
        if self.server_pid.is_none() {
            sheet.rows(&[NO_PROCESS]);
        }
        sheet.rows(&[
            (
                "server CPU",
                "{server_cpu_ns_per_delivery:us} µs a delivery ({server_cpu_share}), pid {server_pid:plain}",
            ),
            (
                "server RSS",
                "{server_rss_idle_bytes} with idle watchers, {server_rss_before_bytes} without: {rss_bytes_per_watcher:kib} KiB a watcher",
            ),
        ]);
        if let Some(floor) = &self.floor {
            sheet.text(&format!("  {:<16}{floor}", "floor"));
        }
        let busy = self.client_cpu_share.is_some_and(|share| share > 0.9 * self.client_cpus.max(1) as f64);
        sheet.rows(&[(
            "load generator",
            if busy {
                "{client_cpu_share}, sends late by p99 {write_send_delay_p99_ns}; it is saturated: part of the latency is its own"
            } else {
                "{client_cpu_share}, sends late by p99 {write_send_delay_p99_ns}"
            },
        )]);
        let verdict = match (self.clean, self.seen.delivered) {
            (true, _) => "every watcher saw every write once and in order",
            (false, 0) => "nothing was delivered",
            (false, _) => "FAILED: watchers did not see every write exactly once and in order",
        };
        sheet.rows(&[("first fault", "{first_fault}"), ("verdict", verdict)]);
        sheet.fmt(out)
    }
}

/// Instead of the server's CPU time and memory.
pub(crate) const NO_PROCESS: (&str, &str) =
    ("server", "its process was not found: give --server-pid for CPU and memory");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_run_that_delivered_all_is_clean() {
        let clean = |change: fn(&mut Seen)| {
            let mut report = Report { seen: Seen { delivered: 10, ..Seen::default() }, ..Report::default() };
            change(&mut report.seen);
            report.judge();
            report.clean
        };
        assert!(clean(|_| {}));
        assert!(clean(|seen| seen.bookmarks = 3));
        assert!(!clean(|seen| seen.lost = 1));
        assert!(!clean(|seen| seen.duplicated = 1));
        assert!(!clean(|seen| seen.out_of_order = 1));
        assert!(!clean(|seen| seen.malformed = 1));
        assert!(!clean(|seen| seen.unexpected = 1));
        assert!(!clean(|seen| seen.delivered = 0));
    }

    #[test]
    fn json_fields_carry_units_and_the_screen_is_short() {
        let seen = Seen { delivered: 1, ..Seen::default() };
        let mut report = Report { server_pid: Some(7), seen, client_cpus: 1, ..Report::default() };
        (report.server_cpu_ns_per_delivery, report.server_cpu_share) = (Some(4_321.0), Some(0.5));
        report.client_cpu_share = Some(0.95);
        report.judge();
        let json = serde_json::to_value(&report).expect("plain numbers");
        for field in ["latency_p99_ns", "server_cpu_ns_per_delivery", "rss_bytes_per_watcher", "lost"] {
            assert!(json.get(field).is_some(), "{field}");
        }
        let screen = report.to_string();
        assert!(screen.contains("4.32 µs a delivery") && screen.contains("saturated"), "{screen}");
        assert!(screen.lines().count() <= 20);
    }
}
