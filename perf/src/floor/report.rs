//! What `floor` found: each mode's rounds, their spread, and which mode is the cheapest.

use super::{Ask, Found};
use crate::options::{Floor, Mode};
use crate::record::{Record, scenario};
use crate::sheet::Sheet;
use crate::spread::Spread;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Values of a mode's records whose spread is shown.
const FIGURES: [&str; 9] = [
    "server_cpu_ns_per_delivery",
    "deliveries_per_second",
    "latency_p50_ns",
    "latency_p90_ns",
    "latency_p99_ns",
    "latency_p999_ns",
    "latency_max_ns",
    "server_cpu_share",
    "client_cpu_share",
];

#[derive(Clone, Debug, Serialize)]
struct ModeReport {
    mode: Mode,
    #[serde(flatten)]
    figures: BTreeMap<&'static str, Option<Spread>>,
    events_per_read: Option<Spread>,
    /// Of the best mode, by the rounds' ratios of CPU a delivery.
    cpu_ratio_to_best: Option<Spread>,
    short_writes: u64,
    notes: Vec<String>,
}

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
    clean: bool,
    /// Every run, in the order in which they were made.
    records: Vec<Record>,
}

impl FloorReport {
    pub(super) fn new(args: &Floor, ask: &Ask, found: Vec<(u32, Found)>) -> Self {
        let record = |(round, found): &(u32, Found)| {
            let mut record = found.report.record_as(&format!("floor {}", found.mode), *round);
            record.set("events_per_write", f64::from(ask.events_per_write));
            record
        };
        let records: Vec<Record> = found.iter().map(record).collect();
        let of_mode = |mode: Mode| records.iter().zip(&found).filter(move |(_, one)| one.1.mode == mode);
        let over = |mode, name: &str| Spread::of(of_mode(mode).filter_map(|(record, _)| record.value(name)));
        let cpu = |mode| over(mode, FIGURES[0]).map_or(f64::INFINITY, |cpu| cpu.median);
        let best_mode = args.modes.iter().copied().min_by(|&one, &other| cpu(one).total_cmp(&cpu(other)));
        let mode = |&mode: &Mode| {
            let cpus = |mode| of_mode(mode).map(|(record, _)| record.value(FIGURES[0]));
            let ratios = cpus(mode).zip(cpus(best_mode.unwrap_or(mode)));
            let mut notes: Vec<String> = of_mode(mode).flat_map(|(_, one)| one.1.notes.clone()).collect();
            notes.dedup();
            ModeReport {
                mode,
                figures: FIGURES.into_iter().map(|name| (name, over(mode, name))).collect(),
                events_per_read: over(mode, "events_per_read"),
                cpu_ratio_to_best: Spread::of(ratios.filter_map(|(own, best)| Some(own? / best?))),
                short_writes: of_mode(mode).map(|(_, one)| one.1.short_writes).sum(),
                notes,
            }
        };
        let reports = || found.iter().map(|(_, found)| &found.report);
        Self {
            watchers: args.base.watchers,
            objects: args.base.objects,
            object_bytes: reports().next_back().map_or(args.base.size_bytes, |report| report.object_bytes),
            frame_bytes: reports().filter_map(|report| report.frame_bytes).next_back(),
            write_rate_wanted_per_second: args.base.rate.per_second(),
            events_per_write: ask.events_per_write,
            server_cpus: ask.server_cpus.clone(),
            client_cpus: args.base.client_cpus.clone(),
            rounds: args.rounds,
            modes: args.modes.iter().map(mode).collect(),
            best_mode,
            first_fault: reports().find_map(|report| report.seen.first_fault.clone()),
            clean: !found.is_empty() && reports().all(|report| report.clean),
            records,
        }
    }
}

scenario!(FloorReport);

impl fmt::Display for FloorReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = "floor: {watchers} watchers, objects of {object_bytes} ({frame_bytes|?} a frame) at \
                     {write_rate_wanted_per_second|max}, events a write: {events_per_write}, {rounds} rounds";
        let mut sheet = Sheet::new(self, title);
        sheet.each("/modes", |sheet, at| {
            sheet.line("  {mode}");
            sheet.rows(&[
                ("CPU a delivery", "{server_cpu_ns_per_delivery}, {cpu_ratio_to_best} of the best"),
                ("deliveries", "{deliveries_per_second}"),
                ("sender", "{server_cpu_share}, load generator {client_cpu_share}"),
                ("latency p50", "{latency_p50_ns}"),
                ("latency p99", "{latency_p99_ns}"),
                ("latency p99.9", "{latency_p999_ns}"),
                ("events a read", "{events_per_read}, {short_writes} short writes"),
            ]);
            self.modes[at].notes.iter().for_each(|note| sheet.text(&format!("  note: {note}")));
        });
        let verdict = if self.clean {
            "every watcher saw every event once and in order"
        } else {
            "FAILED: watchers did not see every event exactly once and in order"
        };
        sheet.rows(&[("best", "{best_mode}"), ("first fault", "{first_fault}"), ("verdict", verdict)]);
        sheet.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floor::Size;
    use crate::options::Load;
    use crate::report::Report;

    fn found(mode: Mode, cpu: f64, clean: bool) -> Found {
        let mut report = Report { server_cpu_ns_per_delivery: Some(cpu), clean, ..Report::default() };
        report.keep(Record::default(), &crate::latency::Latency::new());
        Found { mode, report, notes: vec!["a note".to_owned()], short_writes: 1 }
    }

    #[test]
    fn the_best_mode_has_the_least_median() {
        let modes = vec![Mode::Send, Mode::Uring];
        let args = Floor { base: Load::default(), modes, server_cpu: Vec::new(), rounds: 3 };
        let (base, server_cpus) = (args.base.clone(), vec![0]);
        let ask = Ask { base, size: Size::Object(1024), events_per_write: 1, server_cpus };
        let costs = [(1, 100.0, 90.0), (2, 80.0, 88.0), (3, 110.0, 99.0)];
        let both = |(round, send, uring)| {
            [(round, found(Mode::Send, send, true)), (round, found(Mode::Uring, uring, true))]
        };
        let mut rounds: Vec<(u32, Found)> = costs.into_iter().flat_map(both).collect();
        let report = FloorReport::new(&args, &ask, rounds.clone());
        assert_eq!(report.best_mode, Some(Mode::Uring));
        assert!(report.clean);
        let ratio = report.modes[0].cpu_ratio_to_best.expect("three rounds");
        assert!((ratio.median - 100.0 / 90.0).abs() < 1e-9, "the median of the rounds' ratios: {ratio:?}");
        assert_eq!((report.modes[0].short_writes, report.modes[1].notes.len()), (3, 1));
        assert_eq!(report.records.len(), 6);
        assert!(report.to_string().contains("best            uring"), "{report}");
        rounds.push((4, found(Mode::Send, 1.0, false)));
        assert!(!FloorReport::new(&args, &ask, rounds).clean, "one run that is not makes all of it");
    }
}
