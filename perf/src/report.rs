//! What a run found: for a person on a screen, and as one JSON object whose fields carry their units.

use crate::beside::BesideReport;
use crate::floor::Beside;
use crate::latency::Latency;
use crate::procfs::Held;
use crate::record::{Record, Row};
use crate::units::{show_bytes, show_count, show_ns, show_rate};
use serde::Serialize;
use std::fmt;

/// One distribution, ns.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Quantiles {
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
    pub(crate) max: u64,
}

impl From<&Latency> for Quantiles {
    fn from(latency: &Latency) -> Self {
        Self {
            p50: latency.at(0.5),
            p90: latency.at(0.9),
            p99: latency.at(0.99),
            p999: latency.at(0.999),
            max: latency.max(),
        }
    }
}

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

/// The report of one run. Absent numbers could not be measured.
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

    /// Deliveries of writes after the warm-up.
    pub(crate) deliveries: u64,
    pub(crate) deliveries_per_second: f64,
    pub(crate) latency_p50_ns: u64,
    pub(crate) latency_p90_ns: u64,
    pub(crate) latency_p99_ns: u64,
    pub(crate) latency_p999_ns: u64,
    pub(crate) latency_max_ns: u64,
    pub(crate) stream_bytes_per_second: f64,
    /// Events that one read of this generator found, in the mean.
    pub(crate) events_per_read: Option<f64>,
    /// Bytes of the stream for one event, in the mean.
    pub(crate) frame_bytes: Option<f64>,

    /// Of the whole run, warm-up included.
    pub(crate) deliveries_checked: u64,
    pub(crate) deliveries_expected: u64,
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    pub(crate) out_of_order: u64,
    pub(crate) disconnected: u64,
    pub(crate) malformed: u64,
    pub(crate) unexpected: u64,
    pub(crate) foreign: u64,
    pub(crate) bookmarks: u64,
    pub(crate) error_events: u64,
    /// Watchers that never read: none of the numbers above is theirs. How many of them the server ended: their sockets
    /// told (a reset, a close), or only the kernel's table (closed with bytes unsent).
    pub(crate) deaf: u64,
    pub(crate) deaf_ended: u64,
    pub(crate) deaf_closing: Option<u64>,
    /// Watches that came back after the last event that they saw.
    pub(crate) returned: u64,
    pub(crate) first_fault: Option<String>,
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

impl Report {
    /// Fills the record of this run.
    pub(crate) fn keep_in(&self, mut record: Record, latency: &Latency, series: Vec<Row>) -> Record {
        record.watchers = self.watchers;
        record.object_bytes = self.object_bytes;
        record.write_rate_per_second = self.write_rate_wanted_per_second;
        record.clean = self.clean;
        record.series = series;
        record.set_latency(latency);
        for (name, value) in [
            ("deliveries_per_second", self.deliveries_per_second),
            ("stream_bytes_per_second", self.stream_bytes_per_second),
            ("writes_per_second", self.write_rate_per_second),
            ("watch_open_rate_per_second", self.watch_open_rate_per_second),
        ] {
            record.set(name, value);
        }
        for (name, count) in [
            ("deliveries", self.deliveries),
            ("writes", self.writes),
            ("writes_failed", self.writes_failed),
            ("lost", self.lost),
            ("duplicated", self.duplicated),
            ("out_of_order", self.out_of_order),
            ("disconnected", self.disconnected),
            ("deliveries_checked", self.deliveries_checked),
            ("write_latency_p50_ns", self.write_latency_p50_ns),
            ("write_latency_p99_ns", self.write_latency_p99_ns),
            ("write_send_delay_p99_ns", self.write_send_delay_p99_ns),
        ] {
            record.set(name, count as f64);
        }
        record.set("server_cpu_ns_per_delivery", self.server_cpu_ns_per_delivery);
        record.set("server_cpu_share", self.server_cpu_share);
        record.set("rss_bytes_per_watcher", self.rss_bytes_per_watcher);
        record.set("client_cpu_share", self.client_cpu_share);
        record.set("events_per_read", self.events_per_read);
        record.set("frame_bytes", self.frame_bytes);
        for (name, bytes) in [
            ("server_rss_before_bytes", self.server_rss_before_bytes),
            ("server_rss_idle_bytes", self.server_rss_idle_bytes),
            ("server_rss_end_bytes", self.server_rss_end_bytes),
        ] {
            record.set(name, bytes.map(|bytes| bytes as f64));
        }
        record
    }

    pub(crate) fn set_latency(&mut self, latency: &Latency) {
        let found = Quantiles::from(latency);
        self.latency_p50_ns = found.p50;
        self.latency_p90_ns = found.p90;
        self.latency_p99_ns = found.p99;
        self.latency_p999_ns = found.p999;
        self.latency_max_ns = found.max;
    }

    pub(crate) fn set_write_latency(&mut self, latency: &Latency) {
        let found = Quantiles::from(latency);
        self.write_latency_p50_ns = found.p50;
        self.write_latency_p90_ns = found.p90;
        self.write_latency_p99_ns = found.p99;
        self.write_latency_p999_ns = found.p999;
        self.write_latency_max_ns = found.max;
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

    /// Nothing went wrong, and something was delivered.
    pub(crate) fn judge(&mut self) {
        let wrong = self.lost + self.duplicated + self.out_of_order + self.malformed + self.unexpected;
        self.clean = wrong == 0 && self.deliveries_checked > 0 && self.beside.is_clean();
    }

    /// The record of this run under another name.
    pub(crate) fn record_as(&self, subject: &str, round: u32) -> Record {
        Record { subject: subject.to_owned(), round, object_bytes: self.object_bytes, ..self.record.clone() }
    }

    /// The generator had hardly any time left: the latencies may be its own.
    fn client_is_busy(&self) -> bool {
        self.client_cpu_share.is_some_and(|share| share > 0.9 * self.client_cpus.max(1) as f64)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line =
            |out: &mut fmt::Formatter<'_>, name: &str, text: String| writeln!(out, "  {name:<16}{text}");
        writeln!(out, "fanout at {}, seed {}", self.server, self.seed)?;
        let places =
            if self.namespaces == 1 { String::new() } else { format!(" in {} namespaces", self.namespaces) };
        let objects = u64::from(self.objects);
        let size = show_bytes(self.object_bytes as u64);
        line(out, "objects", format!("{} {} of {size}{places}", show_count(objects), self.resource))?;
        let (count, rate) =
            (show_count(u64::from(self.watchers)), show_rate(self.watch_open_rate_per_second));
        line(out, "watchers", format!("{count}, opened in {:.2} s ({rate})", self.watch_open_seconds))?;
        let wanted = self.write_rate_wanted_per_second.map_or_else(|| "max".to_owned(), show_rate);
        let rate = show_rate(self.write_rate_per_second);
        line(out, "writes", format!("{} at {rate} (wanted {wanted})", show_count(self.writes)))?;
        if self.writes_failed > 0 {
            line(out, "writes failed", show_count(self.writes_failed))?;
        }
        let [p50, p90, p99, p999, max] = [
            self.write_latency_p50_ns,
            self.write_latency_p90_ns,
            self.write_latency_p99_ns,
            self.write_latency_p999_ns,
            self.write_latency_max_ns,
        ]
        .map(show_ns);
        line(out, "write latency", format!("p50 {p50}  p90 {p90}  p99 {p99}  p99.9 {p999}  max {max}"))?;
        let (rate, bytes) =
            (show_rate(self.deliveries_per_second), show_rate(self.stream_bytes_per_second / 1e6));
        line(
            out,
            "deliveries",
            format!("{} at {rate}, {} MB", show_count(self.deliveries), bytes.replace("/s", "")),
        )?;
        let [p50, p90, p99, p999, max] = [
            self.latency_p50_ns,
            self.latency_p90_ns,
            self.latency_p99_ns,
            self.latency_p999_ns,
            self.latency_max_ns,
        ]
        .map(show_ns);
        line(out, "latency", format!("p50 {p50}  p90 {p90}  p99 {p99}  p99.9 {p999}  max {max}"))?;
        let checked = show_count(self.deliveries_checked);
        line(out, "checked", format!("{checked} of {} expected", show_count(self.deliveries_expected)))?;
        let [lost, duplicated, out_of_order, disconnected] =
            [self.lost, self.duplicated, self.out_of_order, self.disconnected].map(show_count);
        let wrong = format!("lost {lost}  duplicated {duplicated}  out of order {out_of_order}");
        line(out, "", format!("{wrong}  disconnected {disconnected}"))?;
        let odd = [
            ("malformed", self.malformed),
            ("unexpected", self.unexpected),
            ("error events", self.error_events),
            ("bookmarks", self.bookmarks),
            ("foreign", self.foreign),
        ];
        let odd: Vec<String> = odd
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| format!("{name} {}", show_count(*count)))
            .collect();
        if !odd.is_empty() {
            line(out, "", odd.join("  "))?;
        }
        if self.deaf > 0 {
            let [deaf, ended] = [self.deaf, self.deaf_ended].map(show_count);
            let closing = show_count(self.deaf_closing.unwrap_or(0));
            line(
                out,
                "never read",
                format!("{deaf}; ended: {ended} seen, {closing} closed with bytes unsent"),
            )?;
        }
        if self.returned > 0 {
            line(out, "came back", show_count(self.returned))?;
        }
        write!(out, "{}", self.beside)?;
        self.write_server(out)?;
        if let Some(floor) = &self.floor {
            line(out, "floor", floor.to_string())?;
        }
        if let Some(share) = self.client_cpu_share {
            let note =
                if self.client_is_busy() { "; it is saturated: part of the latency is its own" } else { "" };
            let delay = show_ns(self.write_send_delay_p99_ns);
            line(
                out,
                "load generator",
                format!("{:.0} % of a core, sends late by p99 {delay}{note}", share * 100.0),
            )?;
        }
        if let Some(fault) = &self.first_fault {
            line(out, "first fault", fault.clone())?;
        }
        let verdict = match (self.clean, self.deliveries_checked) {
            (true, _) => "every watcher saw every write once and in order",
            (false, 0) => "nothing was delivered",
            (false, _) => "FAILED: watchers did not see every write exactly once and in order",
        };
        line(out, "verdict", verdict.to_owned())
    }
}

impl Report {
    fn write_server(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(pid) = self.server_pid else {
            return writeln!(
                out,
                "  {:<16}its process was not found: give --server-pid for CPU and memory",
                "server"
            );
        };
        let share = self
            .server_cpu_share
            .map_or_else(String::new, |share| format!(" ({:.0} % of a core)", share * 100.0));
        if let Some(ns) = self.server_cpu_ns_per_delivery {
            let micros = ns / 1e3;
            writeln!(out, "  {:<16}{micros:.2} µs a delivery{share}, pid {pid}", "server CPU")?;
        }
        if let (Some(before), Some(idle), Some(each)) =
            (self.server_rss_before_bytes, self.server_rss_idle_bytes, self.rss_bytes_per_watcher)
        {
            let [before, idle] = [before, idle].map(show_bytes);
            let each = each / 1024.0;
            writeln!(
                out,
                "  {:<16}{idle} with idle watchers, {before} without: {each:.2} KiB a watcher",
                "server RSS"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_run_that_delivered_all_is_clean() {
        let clean = |change: fn(&mut Report)| {
            let mut report = Report { deliveries_checked: 10, ..Report::default() };
            change(&mut report);
            report.judge();
            report.clean
        };
        assert!(clean(|_| {}));
        assert!(clean(|report| report.bookmarks = 3));
        assert!(!clean(|report| report.lost = 1));
        assert!(!clean(|report| report.duplicated = 1));
        assert!(!clean(|report| report.out_of_order = 1));
        assert!(!clean(|report| report.malformed = 1));
        assert!(!clean(|report| report.unexpected = 1));
        assert!(!clean(|report| report.deliveries_checked = 0));
    }

    #[test]
    fn json_fields_carry_units_and_the_screen_is_short() {
        let mut report =
            Report { server_pid: Some(7), deliveries_checked: 1, client_cpus: 1, ..Report::default() };
        report.server_cpu_ns_per_delivery = Some(4_321.0);
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
