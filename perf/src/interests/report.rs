//! What a run of `interests` found: for a person on a screen, and as one JSON object whose fields carry their units.

use super::state::{Sample, State};
use super::{Stage, record};
use crate::args::Rate;
use crate::args::interests::Interests;
use crate::object::Recipe;
use crate::record::{Record, Scenario};
use crate::site::Site;
use crate::spread::Spread;
use crate::units::{show_bytes, show_count, show_ns, show_rate};
use serde::Serialize;
use std::fmt;

/// A delivery to one of many interests may cost so many times that of a single watcher.
const RATIO_MARK: f64 = 3.0;

/// One state over all rounds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct StateFound {
    state: String,
    watchers: u32,
    /// Absent: the server's process was not found.
    server_cpu_ns_per_write: Option<Spread>,
    writes_per_second: Option<Spread>,
    latency_p50_ns: Option<Spread>,
    latency_p99_ns: Option<Spread>,
    client_cpu_share: Option<Spread>,
}

/// One number of interests at one rate.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Table {
    interests: u32,
    write_rate_wanted_per_second: Option<f64>,
    /// Nobody, one watcher, one for each object.
    states: Vec<StateFound>,
    /// What a write costs with all interests over what it costs with one watcher, of each round.
    ratio: Option<Spread>,
    /// The same without what a write costs that nobody watches.
    ratio_of_differences: Option<Spread>,
    /// The same of the medians of the rounds: the differences of one round are small against their noise.
    ratio_of_median_differences: Option<f64>,
    /// What all interests, and what one watcher, add to a write.
    interests_add_ns: Option<Spread>,
    one_watcher_adds_ns: Option<Spread>,
}

/// The report of one run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct InterestsReport {
    server: String,
    by: &'static str,
    resource: String,
    objects: u32,
    object_bytes: usize,
    seed: u64,
    rounds: u32,
    server_pid: Option<u32>,
    client_cpus: usize,
    /// Smaller numbers of interests first, then all of them at each rate.
    tables: Vec<Table>,
    ratio_mark: f64,
    /// Over all states and rounds.
    writes: u64,
    writes_failed: u64,
    deliveries: u64,
    lost: u64,
    duplicated: u64,
    out_of_order: u64,
    unexpected: u64,
    malformed: u64,
    disconnected: u64,
    write_send_delay_p99_ns: u64,
    first_fault: Option<String>,
    pub(crate) clean: bool,
    records: Vec<Record>,
}

impl InterestsReport {
    pub(super) fn new(
        args: &Interests,
        site: &Site,
        recipe: &Recipe,
        object_bytes: usize,
        stages: &[Stage],
    ) -> Self {
        let samples = || stages.iter().flat_map(|stage| stage.rounds.iter().flatten());
        let sum = |of: fn(&Sample) -> u64| samples().map(of).sum();
        let mut records = Vec::new();
        for stage in stages {
            for round in 0..args.rounds {
                records.extend((0..3).map(|at| record(args, object_bytes, round, stage, at)));
            }
        }
        let fault = |sample: &Sample| sample.tally.first_fault.clone().or_else(|| sample.write_fault.clone());
        Self {
            server: format!("http://{}", site.caller.host),
            by: args.by.name(),
            resource: recipe.resource.plural.clone(),
            objects: recipe.objects(),
            object_bytes,
            seed: site.seed,
            rounds: args.rounds,
            server_pid: site.server_pid,
            client_cpus: match args.base.client_cpus.len() {
                0 => std::thread::available_parallelism().map_or(1, Into::into),
                pinned => pinned,
            },
            tables: stages.iter().map(Table::new).collect(),
            ratio_mark: RATIO_MARK,
            writes: sum(|sample| sample.writes),
            writes_failed: sum(|sample| sample.writes_failed),
            deliveries: sum(|sample| sample.deliveries),
            lost: sum(|sample| sample.tally.lost),
            duplicated: sum(|sample| sample.tally.duplicated),
            out_of_order: sum(|sample| sample.tally.out_of_order),
            unexpected: sum(|sample| sample.tally.unexpected),
            malformed: sum(|sample| sample.tally.malformed),
            disconnected: sum(|sample| sample.tally.disconnected),
            write_send_delay_p99_ns: samples().map(|sample| sample.lateness_p99_ns).max().unwrap_or(0),
            first_fault: samples().find_map(fault),
            clean: samples().count() > 0 && samples().all(Sample::is_clean),
            records,
        }
    }
}

impl Table {
    fn new(stage: &Stage) -> Self {
        let state = |at: usize, state: State| {
            let over = |of: fn(&Sample) -> Option<f64>| {
                Spread::of(stage.rounds.iter().filter_map(|round| of(&round[at])))
            };
            let watched = |quantile: fn(&Sample) -> f64| {
                let rounds = stage.rounds.iter().filter(|_| state != State::None);
                Spread::of(rounds.map(|round| quantile(&round[at])))
            };
            StateFound {
                state: state.describe(stage.interests),
                watchers: state.watchers(stage.interests),
                server_cpu_ns_per_write: over(Sample::cost_ns),
                writes_per_second: over(|sample| Some(sample.writes_per_second)),
                latency_p50_ns: watched(|sample| sample.latency.at(0.5) as f64),
                latency_p99_ns: watched(|sample| sample.latency.at(0.99) as f64),
                client_cpu_share: over(|sample| sample.client_cpu_share),
            }
        };
        let costs = || {
            let of =
                |round: &[Sample; 3]| Some((round[0].cost_ns()?, round[1].cost_ns()?, round[2].cost_ns()?));
            stage.rounds.iter().filter_map(of)
        };
        Self {
            interests: stage.interests,
            write_rate_wanted_per_second: match stage.rate {
                Rate::PerSecond(rate) => Some(rate),
                Rate::Max => None,
            },
            states: vec![state(0, State::None), state(1, State::One), state(2, State::Each)],
            ratio: Spread::of(costs().map(|(_, one, each)| each / one)),
            ratio_of_differences: Spread::of(
                costs()
                    .filter(|(none, one, _)| one > none)
                    .map(|(none, one, each)| (each - none) / (one - none)),
            ),
            ratio_of_median_differences: median_differences(costs()),
            interests_add_ns: Spread::of(costs().map(|(none, _, each)| each - none)),
            one_watcher_adds_ns: Spread::of(costs().map(|(none, one, _)| one - none)),
        }
    }

    fn rate(&self) -> String {
        self.write_rate_wanted_per_second.map_or_else(|| "max".to_owned(), show_rate)
    }
}

/// From (none, one, each) of all rounds; `None` where a single watcher costs nothing that could be measured.
fn median_differences(costs: impl Iterator<Item = (f64, f64, f64)> + Clone) -> Option<f64> {
    let none = Spread::of(costs.clone().map(|costs| costs.0))?.median;
    let one = Spread::of(costs.clone().map(|costs| costs.1))?.median;
    let each = Spread::of(costs.map(|costs| costs.2))?.median;
    (one > none).then(|| (each - none) / (one - none))
}

fn micros(ns: f64) -> String {
    format!("{:.2}", ns / 1e3)
}

/// Whole nanoseconds as a person reads them.
fn time(ns: f64) -> String {
    show_ns(std::time::Duration::try_from_secs_f64(ns / 1e9).map_or(0, crate::clock::nanos))
}

fn times(ratio: f64) -> String {
    format!("{ratio:.2}")
}

fn shown(spread: Option<Spread>, show: fn(f64) -> String) -> String {
    spread.map_or_else(|| "-".to_owned(), |spread| spread.show(show))
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "  writes at {}, each due to one watcher", self.rate())?;
        writeln!(
            out,
            "    {:<20}{:<28}{:<30}{:<28}p99",
            "", "server CPU a write, µs", "writes", "latency p50"
        )?;
        for state in &self.states {
            writeln!(
                out,
                "    {:<20}{:<28}{:<30}{:<28}{}",
                state.state,
                shown(state.server_cpu_ns_per_write, micros),
                shown(state.writes_per_second, show_rate),
                shown(state.latency_p50_ns, time),
                shown(state.latency_p99_ns, time),
            )?;
        }
        let over = format!("{} over {}", self.states[2].state, self.states[1].state);
        let mark = match self.ratio {
            Some(ratio) if ratio.median <= RATIO_MARK => "met",
            Some(_) => "MISSED",
            None => "not measured",
        };
        writeln!(out, "    {over}: {} times, mark {RATIO_MARK} {mark}", shown(self.ratio, times))?;
        let adds = [shown(self.interests_add_ns, micros), shown(self.one_watcher_adds_ns, micros)];
        let differences = shown(self.ratio_of_differences, times);
        let of_medians = self.ratio_of_median_differences.map_or_else(|| "-".to_owned(), times);
        writeln!(
            out,
            "    without the write itself: {differences} times ({} µs over {} µs), of the medians {of_medians}",
            adds[0], adds[1]
        )
    }
}

impl Scenario for InterestsReport {
    fn records(&self) -> Vec<&Record> {
        self.records.iter().collect()
    }

    fn is_clean(&self) -> bool {
        self.clean
    }
}

impl fmt::Display for InterestsReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "interests at {}, by {}, {} rounds, seed {}",
            self.server, self.by, self.rounds, self.seed
        )?;
        let (objects, size) = (show_count(u64::from(self.objects)), show_bytes(self.object_bytes as u64));
        writeln!(out, "  {objects} {} of {size}; medians of the rounds (least..most)", self.resource)?;
        if self.server_pid.is_none() {
            writeln!(out, "  the server's process was not found: give --server-pid for its CPU time")?;
        }
        let most = self.tables.iter().map(|table| table.interests).max().unwrap_or(0);
        for table in self.tables.iter().filter(|table| table.interests == most) {
            writeln!(out)?;
            table.fmt(out)?;
        }
        self.write_sizes(out, most)?;
        let [writes, deliveries, failed] = [self.writes, self.deliveries, self.writes_failed].map(show_count);
        writeln!(
            out,
            "\n  checked: {deliveries} deliveries of {writes} writes (the first state has none), {failed} writes failed"
        )?;
        let [lost, duplicated, out_of_order, unexpected, malformed, disconnected] = [
            self.lost,
            self.duplicated,
            self.out_of_order,
            self.unexpected,
            self.malformed,
            self.disconnected,
        ]
        .map(show_count);
        writeln!(
            out,
            "  lost {lost}  duplicated {duplicated}  out of order {out_of_order}  unexpected {unexpected}  malformed {malformed}  disconnected {disconnected}"
        )?;
        let busy =
            self.tables.iter().flat_map(|table| &table.states).filter_map(|state| state.client_cpu_share);
        let busy = busy.map(|share| share.most).fold(0.0, f64::max);
        let note = if busy > 0.9 * self.client_cpus as f64 { "; part of the latency is its own" } else { "" };
        let delay = show_ns(self.write_send_delay_p99_ns);
        writeln!(
            out,
            "  load generator: at most {:.0} % of a core, sends late by p99 {delay}{note}",
            busy * 100.0
        )?;
        if let Some(fault) = &self.first_fault {
            writeln!(out, "  first fault: {fault}")?;
        }
        let verdict = if self.clean {
            "every write reached the one watcher that it was due to, once and in order"
        } else {
            "FAILED: not every write reached its watcher once and in order"
        };
        writeln!(out, "  verdict: {verdict}")
    }
}

impl InterestsReport {
    /// The same rate over growing numbers of interests.
    fn write_sizes(&self, out: &mut fmt::Formatter<'_>, most: u32) -> fmt::Result {
        let Some(first) = self.tables.iter().find(|table| table.interests < most) else { return Ok(()) };
        writeln!(out, "\n  over the number of interests, writes at {}", first.rate())?;
        writeln!(
            out,
            "    {:<12}{:<28}{:<28}{:<28}{:<22}without the write",
            "interests", "no watcher, µs", "one watcher, µs", "all interests, µs", "all / one"
        )?;
        let same_rate = |table: &&Table| table.rate() == first.rate();
        for table in self.tables.iter().filter(same_rate) {
            let cost = |at: usize| shown(table.states[at].server_cpu_ns_per_write, micros);
            writeln!(
                out,
                "    {:<12}{:<28}{:<28}{:<28}{:<22}{}",
                show_count(u64::from(table.interests)),
                cost(0),
                cost(1),
                cost(2),
                shown(table.ratio, times),
                shown(table.ratio_of_differences, times),
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Latency;
    use crate::tally::Tally;

    fn sample(cpu_ns: u64, watched: bool) -> Sample {
        let tally = Tally { delivered: 10, expected: 10, ..Tally::default() };
        Sample {
            began_unix_seconds: 1,
            writes: 10,
            writes_failed: 0,
            writes_per_second: 500.0,
            deliveries: if watched { 10 } else { 0 },
            server_cpu_ns: Some(cpu_ns),
            client_cpu_share: Some(0.1),
            latency: Latency::new(),
            tally: if watched { tally } else { Tally::default() },
            watched,
            write_fault: None,
            lateness_p99_ns: 5,
        }
    }

    #[test]
    fn ratios_are_of_each_round() {
        let round = |none, one, each| [sample(none, false), sample(one, true), sample(each, true)];
        let rounds = vec![round(100, 200, 400), round(100, 300, 300), round(100, 100, 120)];
        let table = Table::new(&Stage { interests: 5, rate: Rate::Max, rounds });
        let ratio = table.ratio.expect("three rounds");
        assert_eq!((ratio.least, ratio.median, ratio.most), (1.0, 1.2, 2.0));
        let differences = table.ratio_of_differences.expect("one round has no difference to divide by");
        assert_eq!((differences.least, differences.most), (1.0, 3.0));
        assert_eq!(table.interests_add_ns.map(|spread| spread.most), Some(30.0));
        let text = table.to_string();
        assert!(text.contains("5 interests over one watcher: 1.20 (1.00..2.00) times, mark 3 met"), "{text}");
    }

    #[test]
    fn a_state_is_clean_when_all_writes_came() {
        assert!(sample(1, true).is_clean() && sample(1, false).is_clean());
        let with = |change: fn(&mut Sample)| {
            let mut sample = sample(1, true);
            change(&mut sample);
            sample.is_clean()
        };
        assert!(!with(|sample| sample.deliveries = 9));
        assert!(!with(|sample| sample.tally.delivered = 9));
        assert!(!with(|sample| sample.tally.duplicated = 1));
        assert!(!with(|sample| sample.tally.unexpected = 1));
        assert!(!with(|sample| sample.tally.disconnected = 1));
        assert!(!with(|sample| sample.writes = 0));
    }
}
