//! What `floor` found: each mode's rounds, their spread, and which mode is the cheapest.

use super::{Found, Mode};
use crate::args::Rate;
use crate::args::floor::Floor;
use crate::record::{Record, Scenario};
use crate::spread::Spread;
use crate::units::{show_bytes, show_count, show_nanos, show_rate};
use serde::Serialize;
use std::fmt;

/// One mode over all rounds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ModeReport {
    mode: Mode,
    server_cpu_ns_per_delivery: Option<Spread>,
    deliveries_per_second: Option<Spread>,
    latency_p50_ns: Option<Spread>,
    latency_p90_ns: Option<Spread>,
    latency_p99_ns: Option<Spread>,
    latency_p999_ns: Option<Spread>,
    latency_max_ns: Option<Spread>,
    server_cpu_share: Option<Spread>,
    client_cpu_share: Option<Spread>,
    events_per_read: Option<Spread>,
    /// Of the best mode, by the rounds' ratios of CPU a delivery.
    cpu_ratio_to_best: Option<Spread>,
    short_writes: u64,
    notes: Vec<String>,
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FloorReport {
    watchers: u32,
    objects: u32,
    object_bytes: usize,
    frame_bytes: Option<f64>,
    write_rate_wanted_per_second: Option<f64>,
    events_per_write: u32,
    server_cpus: Vec<usize>,
    client_cpus: Vec<usize>,
    rounds: u32,
    modes: Vec<ModeReport>,
    /// The mode with the least CPU a delivery, in the median.
    best_mode: Option<Mode>,
    first_fault: Option<String>,
    pub(crate) clean: bool,
    /// Every run, in the order in which they were made.
    records: Vec<Record>,
    #[serde(skip)]
    asked: Vec<Mode>,
    #[serde(skip)]
    found: Vec<(Mode, u32, Found)>,
}

impl FloorReport {
    pub(crate) fn new(args: &Floor, server_cpus: &[usize]) -> Self {
        Self {
            watchers: args.base.watchers,
            objects: args.base.objects,
            object_bytes: args.base.size_bytes,
            frame_bytes: None,
            write_rate_wanted_per_second: match args.base.rate {
                Rate::PerSecond(rate) => Some(rate),
                Rate::Max => None,
            },
            events_per_write: args.events_per_write,
            server_cpus: server_cpus.to_vec(),
            client_cpus: args.base.client_cpus.clone(),
            rounds: args.rounds,
            modes: Vec::new(),
            best_mode: None,
            first_fault: None,
            clean: false,
            records: Vec::new(),
            asked: args.modes.clone(),
            found: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, mode: Mode, round: u32, found: Found) {
        let mut record = found.report.record_as(&format!("floor {mode}"), round);
        record.set("events_per_write", f64::from(self.events_per_write));
        self.records.push(record);
        self.object_bytes = found.report.object_bytes;
        self.frame_bytes = found.report.frame_bytes.or(self.frame_bytes);
        self.first_fault = self.first_fault.take().or_else(|| found.report.first_fault.clone());
        self.found.push((mode, round, found));
    }

    /// Sums up.
    pub(crate) fn judge(&mut self) {
        let cpu = |mode: Mode, round: u32| {
            let one = self.found.iter().find(|(other, at, _)| *other == mode && *at == round);
            one.and_then(|(_, _, found)| found.report.server_cpu_ns_per_delivery)
        };
        let rounds = 1..=self.rounds;
        let median = |mode: Mode| Spread::of(rounds.clone().filter_map(|round| cpu(mode, round)));
        let medians = self.asked.iter().filter_map(|&mode| Some((mode, median(mode)?.median)));
        self.best_mode = medians.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(mode, _)| mode);
        let of_mode = |&mode: &Mode| {
            let mine: Vec<&Found> =
                self.found.iter().filter(|(other, _, _)| *other == mode).map(|(_, _, found)| found).collect();
            let spread = |figure: &dyn Fn(&Found) -> Option<f64>| {
                Spread::of(mine.iter().filter_map(|found| figure(found)))
            };
            let ratio = |round: u32| Some(cpu(mode, round)? / cpu(self.best_mode?, round)?);
            let mut notes: Vec<String> = mine.iter().flat_map(|found| found.notes.clone()).collect();
            notes.dedup();
            ModeReport {
                mode,
                server_cpu_ns_per_delivery: spread(&|found| found.report.server_cpu_ns_per_delivery),
                deliveries_per_second: spread(&|found| Some(found.report.deliveries_per_second)),
                latency_p50_ns: spread(&|found| Some(found.report.latency_p50_ns as f64)),
                latency_p90_ns: spread(&|found| Some(found.report.latency_p90_ns as f64)),
                latency_p99_ns: spread(&|found| Some(found.report.latency_p99_ns as f64)),
                latency_p999_ns: spread(&|found| Some(found.report.latency_p999_ns as f64)),
                latency_max_ns: spread(&|found| Some(found.report.latency_max_ns as f64)),
                server_cpu_share: spread(&|found| found.report.server_cpu_share),
                client_cpu_share: spread(&|found| found.report.client_cpu_share),
                events_per_read: spread(&|found| found.report.events_per_read),
                cpu_ratio_to_best: Spread::of(rounds.clone().filter_map(ratio)),
                short_writes: mine.iter().map(|found| found.short_writes).sum(),
                notes,
            }
        };
        self.modes = self.asked.iter().map(of_mode).collect();
        self.clean = !self.found.is_empty() && self.found.iter().all(|(_, _, found)| found.report.clean);
    }
}

impl Scenario for FloorReport {
    fn records(&self) -> Vec<&Record> {
        self.records.iter().collect()
    }

    fn is_clean(&self) -> bool {
        self.clean
    }
}

impl fmt::Display for FloorReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.write_rate_wanted_per_second.map_or_else(|| "max".to_owned(), show_rate);
        let (count, size) = (show_count(u64::from(self.watchers)), show_bytes(self.object_bytes as u64));
        let (frame, each) = (self.frame_bytes.unwrap_or(0.0), self.events_per_write);
        let events = if each == 1 { "one event".to_owned() } else { format!("{each} events") };
        writeln!(
            out,
            "floor: {count} watchers, objects of {size} ({frame:.0} bytes a frame) at {rate}, {events} a write, {} rounds",
            self.rounds
        )?;
        for mode in &self.modes {
            mode.write(out)?;
        }
        if let Some(best) = self.best_mode {
            writeln!(out, "  {:<8}{best}", "best")?;
        }
        if let Some(fault) = &self.first_fault {
            writeln!(out, "  first fault: {fault}")?;
        }
        let verdict = if self.clean {
            "every watcher saw every event once and in order"
        } else {
            "FAILED: watchers did not see every event exactly once and in order"
        };
        writeln!(out, "  {:<8}{verdict}", "verdict")
    }
}

impl ModeReport {
    fn write(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |text: &str, spread: &Option<Spread>, show: &dyn Fn(f64) -> String, more: &str| {
            let shown = spread.map_or_else(|| "not measured".to_owned(), |spread| spread.show(show));
            let name = if text == "CPU a delivery" { self.mode.name() } else { "" };
            writeln!(out, "  {name:<8}{text:<16}{shown}{more}")
        };
        let ratio = self.cpu_ratio_to_best.map_or_else(String::new, |ratio| {
            format!(", {} of the best", ratio.show(crate::units::show_ratio))
        });
        line("CPU a delivery", &self.server_cpu_ns_per_delivery, &show_nanos, &ratio)?;
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let busy = |spread: Option<Spread>| spread.map_or_else(String::new, |spread| percent(spread.median));
        let cores = format!(
            ", sender {} and load generator {} of a core",
            busy(self.server_cpu_share),
            busy(self.client_cpu_share)
        );
        line("deliveries", &self.deliveries_per_second, &show_rate, &cores)?;
        line("latency p50", &self.latency_p50_ns, &show_nanos, "")?;
        line("latency p99", &self.latency_p99_ns, &show_nanos, "")?;
        line("latency p99.9", &self.latency_p999_ns, &show_nanos, "")?;
        let short = if self.short_writes > 0 {
            format!(", {} short writes", show_count(self.short_writes))
        } else {
            String::new()
        };
        line("events a read", &self.events_per_read, &|events| format!("{events:.1}"), &short)?;
        for note in &self.notes {
            writeln!(out, "          note: {note}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;

    fn found(cpu: f64, clean: bool) -> Found {
        let report = Report { server_cpu_ns_per_delivery: Some(cpu), clean, ..Report::default() };
        Found { report, notes: vec!["a note".to_owned()], short_writes: 1 }
    }

    #[test]
    fn the_best_mode_has_the_least_median() {
        let args = Floor { modes: vec![Mode::Send, Mode::Uring], rounds: 3, ..Floor::default() };
        let mut report = FloorReport::new(&args, &[0]);
        for (round, send, uring) in [(1, 100.0, 90.0), (2, 80.0, 88.0), (3, 110.0, 99.0)] {
            report.add(Mode::Send, round, found(send, true));
            report.add(Mode::Uring, round, found(uring, true));
        }
        report.judge();
        assert_eq!(report.best_mode, Some(Mode::Uring));
        assert!(report.clean);
        let ratio = report.modes[0].cpu_ratio_to_best.expect("three rounds");
        assert!((ratio.median - 100.0 / 90.0).abs() < 1e-9, "the median of the rounds' ratios: {ratio:?}");
        assert_eq!((report.modes[0].short_writes, report.modes[1].notes.len()), (3, 1));
        assert_eq!(report.records.len(), 6);
        assert!(report.to_string().contains("best    uring"), "{report}");
        report.add(Mode::Send, 4, found(1.0, false));
        report.judge();
        assert!(!report.clean, "one run that is not makes all of it");
    }
}
