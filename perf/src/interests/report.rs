//! What a run of `interests` found. Names carry their units.

use super::Stage;
use super::state::{Sample, State};
use crate::object::Recipe;
use crate::options::{By, Interests};
use crate::process::cpu_count;
use crate::record::{Record, scenario};
use crate::report::NO_PROCESS;
use crate::sheet::Sheet;
use crate::spread::Spread;
use crate::tally::Seen;
use crate::target::Target;
use serde::Serialize;
use std::fmt;

/// A delivery to one of many interests may cost so many times that of a single watcher.
const RATIO_MARK: f64 = 3.0;
const STATES: [State; 3] = [State::None, State::One, State::Each];

#[derive(Clone, Debug, Serialize)]
struct StateFound {
    state: String,
    watchers: u32,
    /// Absent: the server's process was not found.
    server_cpu_ns_per_write: Option<Spread>,
    writes_per_second: Option<Spread>,
    latency_p50_ns: Option<Spread>,
    latency_p99_ns: Option<Spread>,
    client_cpu_share: Option<Spread>,
}

#[derive(Clone, Debug, Serialize)]
struct Table {
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

#[derive(Clone, Debug, Serialize)]
pub(crate) struct InterestsReport {
    server: String,
    by: By,
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
    writes: u64,
    writes_failed: u64,
    #[serde(flatten)]
    seen: Seen,
    write_send_delay_p99_ns: u64,
    client_cpu_share_most: f64,
    clean: bool,
    records: Vec<Record>,
}

impl InterestsReport {
    pub(super) fn new(
        args: &Interests,
        target: &Target,
        recipe: &Recipe,
        object_bytes: usize,
        stages: &[Stage],
    ) -> Self {
        let samples = || stages.iter().flat_map(|stage| stage.rounds.iter().flatten());
        let mut seen = Seen::default();
        samples().for_each(|sample| seen.add(&sample.seen));
        let record = |stage: &Stage, round: usize, at: usize| Record {
            object_bytes,
            ..stage.record(&target.url(), round, at)
        };
        let rounds = stages.iter().flat_map(|stage| (0..stage.rounds.len()).map(move |round| (stage, round)));
        Self {
            server: target.url(),
            by: args.by,
            resource: recipe.resource.plural.clone(),
            objects: recipe.objects(),
            object_bytes,
            seed: target.seed,
            rounds: args.rounds,
            server_pid: target.server_pid,
            client_cpus: cpu_count(&args.base.client_cpus),
            tables: stages.iter().map(Table::new).collect(),
            ratio_mark: RATIO_MARK,
            writes: samples().map(|sample| sample.writes).sum(),
            writes_failed: samples().map(|sample| sample.writes_failed).sum(),
            seen,
            write_send_delay_p99_ns: samples().map(|sample| sample.lateness_p99_ns).max().unwrap_or(0),
            client_cpu_share_most: samples().filter_map(|sample| sample.client_cpu_share).fold(0.0, f64::max),
            clean: samples().count() > 0 && samples().all(Sample::is_clean),
            records: rounds
                .flat_map(|(stage, round)| (0..3).map(move |at| record(stage, round, at)))
                .collect(),
        }
    }
}

impl Stage {
    /// What is kept of one state in one round.
    fn record(&self, server: &str, round: usize, at: usize) -> Record {
        let (sample, state) = (&self.rounds[round][at], STATES[at]);
        let subject = format!("{server}, {}", state.describe(self.interests));
        let mut record = Record::new("interests", &subject, u32::try_from(round + 1).unwrap_or(u32::MAX));
        record.began_unix_seconds = sample.began_unix_seconds;
        record.watchers = state.watchers(self.interests);
        record.write_rate_per_second = self.rate.per_second();
        record.set("interests", f64::from(self.interests));
        record.set("writes_per_second", sample.writes_per_second);
        record.set("server_cpu_ns_per_write", sample.cost_ns());
        if state != State::None {
            record.set("server_cpu_ns_per_delivery", sample.cost_ns());
            record.set_latency(&sample.latency);
        }
        record.set("client_cpu_share", sample.client_cpu_share);
        record.clean = sample.is_clean();
        record
    }
}

impl Table {
    fn new(stage: &Stage) -> Self {
        let state = |at: usize| {
            let over = |of: &dyn Fn(&Sample) -> Option<f64>| {
                Spread::of(stage.rounds.iter().filter_map(|round| of(&round[at])))
            };
            let latency =
                |quantile: f64| over(&|sample| sample.watched.then(|| sample.latency.at(quantile) as f64));
            StateFound {
                state: STATES[at].describe(stage.interests),
                watchers: STATES[at].watchers(stage.interests),
                server_cpu_ns_per_write: over(&Sample::cost_ns),
                writes_per_second: over(&|sample| Some(sample.writes_per_second)),
                latency_p50_ns: latency(0.5),
                latency_p99_ns: latency(0.99),
                client_cpu_share: over(&|sample| sample.client_cpu_share),
            }
        };
        let of = |round: &[Sample; 3]| Some((round[0].cost_ns()?, round[1].cost_ns()?, round[2].cost_ns()?));
        let costs: Vec<(f64, f64, f64)> = stage.rounds.iter().filter_map(of).collect();
        let over = |of: fn(&(f64, f64, f64)) -> f64| Spread::of(costs.iter().map(of));
        let differs = costs.iter().filter(|(none, one, _)| one > none);
        // `None` where a single watcher costs nothing that could be measured.
        let of_medians = || {
            let (none, one, each) = (over(|cost| cost.0)?, over(|cost| cost.1)?, over(|cost| cost.2)?);
            let added = Some(one.median - none.median).filter(|&added| added > 0.0)?;
            Some((each.median - none.median) / added)
        };
        Self {
            interests: stage.interests,
            write_rate_wanted_per_second: stage.rate.per_second(),
            states: (0..3).map(state).collect(),
            ratio: over(|(_, one, each)| each / one),
            ratio_of_differences: Spread::of(differs.map(|(none, one, each)| (each - none) / (one - none))),
            ratio_of_median_differences: of_medians(),
            interests_add_ns: over(|(none, _, each)| each - none),
            one_watcher_adds_ns: over(|(none, one, _)| one - none),
        }
    }

    fn show(&self, sheet: &mut Sheet) {
        sheet.line("  writes at {write_rate_wanted_per_second|max}, each due to one watcher");
        sheet.each("/states", |sheet, _| {
            sheet.line("    {state}");
            sheet.rows(&[
                ("  CPU a write", "{server_cpu_ns_per_write}"),
                ("  writes", "{writes_per_second}"),
                ("  latency p50", "{latency_p50_ns}"),
                ("  latency p99", "{latency_p99_ns}"),
            ]);
        });
        let met = match self.ratio {
            Some(ratio) if ratio.median <= RATIO_MARK => "met",
            Some(_) => "MISSED",
            None => "not measured",
        };
        sheet.line(&format!(
            "    {{states/2/state}} over {{states/1/state}}: {{ratio|-}} times, mark {RATIO_MARK} {met}"
        ));
        sheet.line(
            "    without the write itself: {ratio_of_differences|-} times ({interests_add_ns:us} µs over \
             {one_watcher_adds_ns:us} µs), of the medians {ratio_of_median_differences|-}",
        );
    }
}

scenario!(InterestsReport);

impl fmt::Display for InterestsReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sheet =
            Sheet::new(self, "interests at {server}, by {by}, {rounds} rounds, seed {seed:plain}");
        sheet.line("  {objects} {resource} of {object_bytes}; medians of the rounds (least..most)");
        if self.server_pid.is_none() {
            sheet.rows(&[NO_PROCESS]);
        }
        let most = self.tables.iter().map(|table| table.interests).max().unwrap_or(0);
        sheet.each("/tables", |sheet, at| {
            if self.tables[at].interests == most {
                self.tables[at].show(sheet);
            }
        });
        if let Some(at) = self.tables.iter().position(|table| table.interests < most) {
            sheet.line(&format!(
                "  over the number of interests, writes at {{tables/{at}/write_rate_wanted_per_second|max}}: CPU a write"
            ));
            let first = self.tables[at].write_rate_wanted_per_second;
            sheet.each("/tables", |sheet, at| {
                if self.tables[at].write_rate_wanted_per_second == first {
                    sheet.line(
                        "    {interests} interests: no watcher {states/0/server_cpu_ns_per_write|-}  one watcher \
                         {states/1/server_cpu_ns_per_write|-}  all {states/2/server_cpu_ns_per_write|-}  all over one {ratio|-}  \
                         without the write {ratio_of_differences|-}",
                    );
                }
            });
        }
        let busy = self.client_cpu_share_most > 0.9 * self.client_cpus as f64;
        let generator = if busy {
            "at most {client_cpu_share_most:percent} % of a core, sends late by p99 {write_send_delay_p99_ns}; part of the latency is its own"
        } else {
            "at most {client_cpu_share_most:percent} % of a core, sends late by p99 {write_send_delay_p99_ns}"
        };
        let verdict = if self.clean {
            "every write reached the one watcher that it was due to, once and in order"
        } else {
            "FAILED: not every write reached its watcher once and in order"
        };
        sheet.rows(&[
            ("checked", "{deliveries} deliveries of {writes} writes (the first state has none), {writes_failed} writes failed"),
            (
                "",
                "lost {lost}  duplicated {duplicated}  out of order {out_of_order}  unexpected {unexpected}  malformed {malformed}  disconnected {disconnected}",
            ),
            ("load generator", generator),
            ("first fault", "{first_fault}"),
            ("verdict", verdict),
        ]);
        sheet.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Latency;
    use crate::options::Rate;

    fn sample(cpu_ns: u64, watched: bool) -> Sample {
        let seen = Seen { delivered: 10, expected: 10, measured: 10, ..Seen::default() };
        Sample {
            began_unix_seconds: 1,
            writes: 10,
            writes_failed: 0,
            writes_per_second: 500.0,
            server_cpu_ns: Some(cpu_ns),
            client_cpu_share: Some(0.1),
            latency: Latency::new(),
            seen: if watched { seen } else { Seen::default() },
            watched,
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
        let mut sheet = Sheet::new(&table, "");
        table.show(&mut sheet);
        let text = sheet.to_string();
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
        assert!(!with(|sample| sample.seen.measured = 9));
        assert!(!with(|sample| sample.seen.delivered = 9));
        assert!(!with(|sample| sample.seen.duplicated = 1));
        assert!(!with(|sample| sample.seen.unexpected = 1));
        assert!(!with(|sample| sample.seen.disconnected = 1));
        assert!(!with(|sample| sample.writes = 0));
    }
}
