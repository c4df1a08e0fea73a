//! Many watchers that each want something else: what an event costs that matches one of them.
//!
//! Three states take turns: nobody watches (what a write costs), one watcher gets every write, and every object has a
//! watcher of its own, so that each write is due to exactly one. Rate and objects are the same in all three. What the
//! watchers add to a write is the difference to the first.

use crate::endpoint::selected;
use crate::object::{Recipe, name_of, node_of};
use crate::options::{By, Interests, Load, Rate};
use crate::process::cpu_count;
use crate::record::{Record, sum};
use crate::report::Report;
use crate::run::Run;
use crate::scope::Scope;
use crate::setup;
use crate::sheet::Row;
use crate::table::Table;
use crate::target::{Target, Trouble};
use crate::units::{Unit, show_count, show_rate};
use fastrand::Rng;
use serde_json::json;

/// A delivery to one of many interests may cost so many times that of a single watcher.
const RATIO_MARK: f64 = 3.0;
const COST: &str = "server_cpu_ns_per_write";
/// What the watchers add to a write that nobody watches.
const ADDED: &str = "added_cpu_ns_per_write";

const FIGURES: [Row; 6] = [
    ("CPU a write", COST),
    ("less the write", ADDED),
    ("writes", "writes_per_second"),
    ("latency p50", "latency_p50_ns"),
    ("latency p99", "latency_p99_ns"),
    ("load generator", "client_cpu_share"),
];
const CHECKED: [Row; 2] = [
    (
        "checked",
        "{deliveries} deliveries of {writes} writes (the first state has none), {writes_failed} writes failed",
    ),
    (
        "",
        "lost {lost}  duplicated {duplicated}  out of order {out_of_order}  unexpected {unexpected}  malformed {malformed}  disconnected {disconnected}",
    ),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    None,
    One,
    Each,
}

const STATES: [State; 3] = [State::None, State::One, State::Each];

impl State {
    const fn watchers(self, interests: u32) -> u32 {
        match self {
            Self::None => 0,
            Self::One => 1,
            Self::Each => interests,
        }
    }

    fn describe(self, interests: u32) -> String {
        match self {
            Self::None => "no watcher".to_owned(),
            Self::One => "one watcher".to_owned(),
            Self::Each if interests == 1 => "1 interest".to_owned(),
            Self::Each => format!("{} interests", show_count(u64::from(interests))),
        }
    }
}

pub(crate) fn run(args: &Interests) -> Result<Report, Trouble> {
    let target = Target::prepare(&args.base, args.base.watchers)?;
    Ok(Setting::new(args, target).run()?)
}

/// The server and all its objects.
#[derive(Debug)]
struct Setting<'a> {
    args: &'a Interests,
    target: Target,
    recipe: Recipe,
    object_bytes: usize,
}

/// So many interests, written to at a rate: none, one, each, of every round.
#[derive(Debug)]
struct Stage {
    interests: u32,
    rate: Rate,
    rounds: Vec<[Record; 3]>,
}

impl<'a> Setting<'a> {
    fn new(args: &'a Interests, target: Target) -> Self {
        let (base, name) = (&args.base, &args.base.namespace);
        let recipe = match args.by {
            By::Namespace => {
                let namespaces = (0..base.watchers).map(|number| format!("{name}-{number}")).collect();
                target.recipe(base, namespaces, 1)
            }
            By::Node | By::Label | By::Name => target.recipe(base, vec![name.clone()], base.watchers),
        };
        Self { args, target, recipe, object_bytes: 0 }
    }

    fn run(mut self) -> Result<Report, String> {
        let base = &self.args.base;
        eprintln!("creating {} objects", show_count(u64::from(self.recipe.objects())));
        let (target, recipe) = (&self.target, &mut self.recipe);
        self.object_bytes = setup::create_objects_anew(|| target.connect(), recipe, base.size_bytes, 8)?;
        self.check_selectors()?;
        let first_rate = self.args.rates.first().copied().unwrap_or(Rate::Max);
        let smaller = self.args.sizes.iter().filter(|&&size| size < base.watchers);
        let wanted = smaller.map(|&size| (size, first_rate));
        let wanted = wanted.chain(self.args.rates.iter().map(|&rate| (base.watchers, rate)));
        let stage = |(interests, rate)| Stage { interests, rate, rounds: Vec::new() };
        let mut stages: Vec<Stage> = wanted.map(stage).collect();
        for round in 1..=self.args.base.rounds {
            for stage in &mut stages {
                stage.rounds.push(self.round(round, stage.interests, stage.rate)?);
            }
        }
        Ok(self.report(stages))
    }

    /// All states once. Which one is first goes round too.
    fn round(&self, round: u32, interests: u32, rate: Rate) -> Result<[Record; 3], String> {
        let mut found = [const { None }; 3];
        for turn in 0..3 {
            let at = (round as usize - 1 + turn) % 3;
            let record = Record { round, ..self.measure(STATES[at], interests, rate)? };
            let shown = |name: &str| {
                record.value(name).map_or_else(|| "?".to_owned(), |value| Unit::of(name).show(value))
            };
            eprintln!(
                "round {round}  {:<16} {} writes, wanted {}  server CPU {} a write  p99 {}",
                STATES[at].describe(interests),
                shown("writes"),
                rate.per_second().map_or_else(|| "max".to_owned(), show_rate),
                shown(COST),
                shown("latency_p99_ns"),
            );
            found[at] = Some(record);
        }
        let [Some(none), Some(one), Some(each)] = found else {
            return Err("a state was not measured: this is a bug of revcast-perf".to_owned());
        };
        Ok(less_the_write([none, one, each]))
    }

    /// One state, in a run of its own. The writes cost with nobody watching too; what the watchers' end costs does not
    /// belong to a write.
    fn measure(&self, state: State, interests: u32, rate: Rate) -> Result<Record, String> {
        let watchers = state.watchers(interests);
        let base = Load { watchers, rate, quiet: true, ..self.args.base.clone() };
        let scopes = self.scopes(state, interests)?;
        let mut run = Run::new(&base, self.target.clone(), self.part(interests), self.object_bytes);
        let subject = format!("{}, {}", self.target.url(), state.describe(interests));
        run.record = Record::new("interests", &subject, 1);
        run.record.set("interests", interests);
        run.ends_apart = true;
        let mut record = run.measure(&scopes, Run::write)?;
        judge(&mut record);
        Ok(record)
    }

    fn report(&self, stages: Vec<Stage>) -> Report {
        let tables: Vec<Table> = stages.iter().map(Stage::table).collect();
        let largest: Vec<bool> =
            stages.iter().map(|stage| stage.interests == self.args.base.watchers).collect();
        let records: Vec<Record> = stages.into_iter().flat_map(|stage| stage.rounds).flatten().collect();
        let most = |name: &str| records.iter().filter_map(|record| record.value(name)).fold(0.0, f64::max);
        let mut facts = json!({
            "server": self.target.url(),
            "by": self.args.by,
            "resource": self.recipe.resource.plural,
            "objects": self.recipe.objects(),
            "object_bytes": self.object_bytes,
            "seed": self.target.seed,
            "rounds": self.args.base.rounds,
            "server_pid": self.target.server_pid,
            "client_cpus": cpu_count(&self.args.base.client_cpus),
            "ratio_mark": RATIO_MARK,
            "write_send_delay_p99_ns": most("write_send_delay_p99_ns"),
            "client_cpu_share": most("client_cpu_share"),
        });
        for name in CHECKED.iter().flat_map(|(_, sentence)| names_in(sentence)) {
            facts[name] = sum(&records, name);
        }
        let title = "interests at {server}, by {by}, {rounds} rounds, seed {seed:plain}";
        let mut report = Report::new("interests", facts, title);
        report.line("  {objects} {resource} of {object_bytes}; medians of the rounds (least..most)");
        report.process();
        for (table, largest) in tables.into_iter().zip(largest) {
            // Of fewer interests: only how the cost grows with their number.
            let (figures, title) = if largest {
                (&FIGURES[..], "  writes at {write_rate_wanted_per_second|max}, each due to one watcher")
            } else {
                (&FIGURES[..2], "  {interests} interests, writes at {write_rate_wanted_per_second|max}")
            };
            report.table(title, table, figures, &[("C over B", "{verdict}")]);
        }
        report.rows(&CHECKED);
        report.generator();
        let clean = !records.is_empty() && records.iter().all(|record| record.clean);
        report.end(
            records,
            clean,
            "every write reached the one watcher that it was due to, once and in order",
            "FAILED: not every write reached its watcher once and in order",
        )
    }

    /// What one watcher, who gets all writes, asks for.
    fn whole_path(&self) -> String {
        let resource = &self.recipe.resource;
        match self.args.by {
            By::Namespace => resource.everywhere(),
            By::Node | By::Label | By::Name => resource.collection(&self.recipe.namespaces[0]),
        }
    }

    /// What the watcher of one object asks for.
    fn path_of(&self, object: u32) -> String {
        let collection = self.recipe.resource.collection(self.recipe.namespace_of(object));
        let selector = |key: &str, text: String| selected(&collection, key, &text);
        match self.args.by {
            By::Namespace => collection.clone(),
            By::Node => selector("fieldSelector", format!("spec.nodeName={}", node_of(object))),
            By::Label => selector("labelSelector", format!("object={}", name_of(object))),
            By::Name => selector("fieldSelector", format!("metadata.name={}", name_of(object))),
        }
    }

    /// Some interests must list exactly their object: a server that takes a selector for another is told now.
    fn check_selectors(&self) -> Result<(), String> {
        let objects = self.recipe.objects();
        for object in [0, objects / 2, objects - 1] {
            let path = self.path_of(object);
            let names = self.target.names(&path)?;
            if names != [name_of(object % self.recipe.per_namespace)] {
                let found = names.len();
                return Err(format!("GET {path} lists {found} objects instead of the one that it selects"));
            }
        }
        Ok(())
    }

    /// The scopes of a state in which the first `interests` objects are written.
    fn scopes(&self, state: State, interests: u32) -> Result<Vec<Scope>, String> {
        let revision = self.target.revision(&self.whole_path())?;
        let scope = |path: String, objects: Vec<u32>| Scope { path, revision, objects, accept: None };
        Ok(match state {
            State::None => Vec::new(),
            State::One => vec![scope(self.whole_path(), (0..interests).collect())],
            State::Each => (0..interests).map(|object| scope(self.path_of(object), vec![object])).collect(),
        })
    }

    /// The first `interests` objects, with stamps of their own: what an earlier state wrote is none of these.
    fn part(&self, interests: u32) -> Recipe {
        let mut recipe = Recipe { run: Rng::new().u64(..), ..self.recipe.clone() };
        match self.args.by {
            By::Namespace => recipe.namespaces.truncate(interests as usize),
            By::Node | By::Label | By::Name => recipe.per_namespace = interests,
        }
        recipe
    }
}

/// The names of the values in a sentence.
fn names_in(sentence: &str) -> impl Iterator<Item = &str> {
    sentence.split('{').skip(1).filter_map(|part| part.split_once('}')).map(|(name, _)| name)
}

/// Server CPU time of a write and of its delivery, if it has one: there are as many of both. Every write was delivered once,
/// to the one watcher that it was due to.
fn judge(record: &mut Record) {
    let writes = record.count("writes");
    let cost = record.value("server_cpu_ns").filter(|_| writes > 0.0).map(|ns| ns / writes);
    record.set(COST, cost);
    record.set("server_cpu_ns_per_delivery", cost.filter(|_| record.watchers > 0));
    let complete = record.watchers == 0
        || (record.count("deliveries") >= writes
            && record.count("deliveries_checked") >= record.count("deliveries_expected"));
    let wrong = ["lost", "duplicated", "out_of_order", "malformed", "unexpected", "disconnected"];
    record.clean = wrong.iter().all(|name| record.count(name) == 0.0) && writes > 0.0 && complete;
}

/// Keeps what watchers add to the cost of a write in the same round.
fn less_the_write(mut round: [Record; 3]) -> [Record; 3] {
    let none = round[0].value(COST);
    for record in &mut round[1..] {
        record.set(ADDED, record.value(COST).zip(none).map(|(cost, none)| cost - none));
    }
    round
}

impl Stage {
    /// The states side by side; ratios are to one watcher.
    fn table(&self) -> Table {
        let states = [0, 1, 2].map(|at| {
            let runs = self.rounds.iter().map(|round| &round[at]).collect();
            (STATES[at].describe(self.interests), runs)
        });
        let facts =
            json!({"interests": self.interests, "write_rate_wanted_per_second": self.rate.per_second()});
        let mut table = Table::new(facts, 1, &states);
        let show = |ratio: f64| Unit::Ratio.show(ratio);
        let ratio = table.ratio(2, COST);
        let met = match ratio {
            Some(ratio) if ratio.median <= RATIO_MARK => "met",
            Some(_) => "MISSED",
            None => "not measured",
        };
        let times = ratio.map_or_else(|| "-".to_owned(), |ratio| ratio.show(show));
        // Of the medians: the differences of one round are small against their noise. Absent where a single watcher costs
        // nothing that could be measured.
        let cost = |at: usize| table.value(at, COST).map(|cost| cost.median);
        let of_medians = || {
            let (none, one, each) = (cost(0)?, cost(1)?, cost(2)?);
            Some((each - none) / (one - none)).filter(|_| one > none)
        };
        let of_medians = of_medians();
        let without = of_medians.map_or_else(|| "-".to_owned(), show);
        let verdict = format!(
            "{} over one watcher: {times} times, mark {RATIO_MARK} {met}; without the write, of the medians: {without}",
            State::Each.describe(self.interests)
        );
        table.facts.insert("ratio_of_median_differences".to_owned(), of_medians.into());
        table.facts.insert("verdict".to_owned(), verdict.into());
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(state: State, cpu_ns: u32) -> Record {
        let mut record = Record { watchers: state.watchers(5), ..Record::default() };
        record.set("writes", 10);
        record.set("server_cpu_ns", cpu_ns * 10);
        for name in ["deliveries", "deliveries_checked", "deliveries_expected"] {
            record.set(name, 10);
        }
        judge(&mut record);
        record
    }

    #[test]
    fn ratios_are_of_each_round() {
        let rounds =
            [(1, 100, 200, 400), (2, 100, 300, 300), (3, 100, 100, 120)].map(|(round, none, one, each)| {
                let found = [record(State::None, none), record(State::One, one), record(State::Each, each)];
                less_the_write(found.map(|record| Record { round, ..record }))
            });
        let table = Stage { interests: 5, rate: Rate::Max, rounds: rounds.to_vec() }.table();
        let ratio = table.ratio(2, COST).expect("three rounds");
        assert_eq!((ratio.least, ratio.median, ratio.most), (1.0, 1.2, 2.0));
        let differences = table.ratio(2, ADDED).expect("one round has no difference to divide by");
        assert_eq!((differences.least, differences.most), (1.0, 3.0));
        assert_eq!(table.value(2, ADDED).map(|added| added.least), Some(20.0));
        assert_eq!(table.facts["ratio_of_median_differences"], 2.0);
        let verdict = table.facts["verdict"].as_str().expect("a text");
        assert!(
            verdict.starts_with("5 interests over one watcher: 1.20 (1.00..2.00) times, mark 3 met"),
            "{verdict}"
        );
    }

    #[test]
    fn a_state_is_clean_when_all_writes_came() {
        assert!(record(State::One, 1).clean);
        let with = |state: State, name: &str, value: u32| {
            let mut record = record(state, 1);
            record.set(name, value);
            judge(&mut record);
            record.clean
        };
        assert!(with(State::None, "deliveries", 0), "nobody watched");
        assert!(!with(State::One, "deliveries", 9));
        assert!(!with(State::One, "deliveries_checked", 9));
        assert!(!with(State::One, "duplicated", 1));
        assert!(!with(State::One, "unexpected", 1));
        assert!(!with(State::One, "disconnected", 1));
        assert!(!with(State::None, "writes", 0));
    }
}
