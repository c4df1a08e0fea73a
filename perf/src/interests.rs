//! Many watchers that each want something else: what an event costs that matches one of them. Three states take turns: nobody
//! watches (what a write costs), one watcher gets every write, and every object has a watcher of its own, so that each write is
//! due to exactly one. What the watchers add to a write is the difference to the first.

use crate::endpoint::selected;
use crate::ledger::Scope;
use crate::media::Media;
use crate::object::{Recipe, name_of, node_of};
use crate::options::{By, Interests, Load, Rate};
use crate::record::Record;
use crate::report::{Report, WRONGS};
use crate::run::Run;
use crate::setup;
use crate::table::{Table, set_difference, states_of, take_turns};
use crate::target::{Target, Trouble, list};
use crate::units::digits;
use serde_json::json;

/// A delivery to one of many interests may cost so many times that of a single watcher.
const RATIO_MARK: f64 = 3.0;
const COST: &str = "server_cpu_ns_per_write";
const ADDED: &str = "added_cpu_ns_per_write";
const MORE: &str = "writes_per_second latency_p50_ns latency_p99_ns client_cpu_share";
const COUNTS: &str = "deliveries writes writes_failed deliveries_checked deliveries_expected";

pub(crate) fn run(args: &Interests) -> Result<Report, Trouble> {
    let target = Target::prepare(&args.base, args.base.watchers)?;
    let recipe = recipe(args, &target, args.base.watchers);
    Ok(Setting { args, target, recipe, object_bytes: 0 }.run()?)
}

struct Setting<'a> {
    args: &'a Interests,
    target: Target,
    recipe: Recipe,
    object_bytes: usize,
}

/// So many interests, written to at a rate. Its states: no watcher, one, one for each object.
#[derive(Clone, Copy, Debug)]
struct Stage {
    interests: u32,
    rate: Rate,
}

impl Stage {
    const fn watchers(self) -> [u32; 3] {
        [0, 1, self.interests]
    }

    fn states(self) -> [String; 3] {
        let plural = if self.interests == 1 { "" } else { "s" };
        let interests = format!("{} interest{plural}", digits(f64::from(self.interests)));
        ["no watcher".to_owned(), "one watcher".to_owned(), interests]
    }
}

impl Setting<'_> {
    fn run(mut self) -> Result<Report, String> {
        let base = &self.args.base;
        eprintln!("creating {} objects", digits(f64::from(self.recipe.objects())));
        let (target, recipe) = (&self.target, &mut self.recipe);
        setup::delete_objects(target, recipe)?;
        self.object_bytes = setup::create_objects(target, recipe, base.size_bytes, 8)?;
        self.check_selectors()?;
        let first_rate = self.args.rates.first().copied().unwrap_or(Rate::Max);
        let smaller = self.args.sizes.iter().filter(|&&size| size < base.watchers);
        let smaller = smaller.map(|&interests| Stage { interests, rate: first_rate });
        let all = self.args.rates.iter().map(|&rate| Stage { interests: base.watchers, rate });
        let stages: Vec<Stage> = smaller.chain(all).collect();
        let names: Vec<String> = stages.iter().flat_map(|stage| stage.states()).collect();
        let mut runs = take_turns(self.args.base.rounds, &names, |at, _| {
            self.measure(stages[at / 3], at % 3, &names[at]).map(Some)
        })?;
        for none in (0..names.len()).step_by(3) {
            set_difference(&mut runs, [none, none + 1], COST, ADDED, 1.0);
            set_difference(&mut runs, [none, none + 2], COST, ADDED, 1.0);
        }
        Ok(self.report(&stages, &names, runs))
    }

    /// One state, in a run of its own. What the watchers' end costs does not belong to a write.
    fn measure(&self, stage: Stage, state: usize, name: &str) -> Result<Record, String> {
        let (watchers, rate) = (stage.watchers()[state], stage.rate);
        let base = Load { watchers, rate, quiet: true, ..self.args.base.clone() };
        let scopes = self.scopes(state, stage.interests)?;
        let pad_bytes = self.recipe.pad_bytes;
        let recipe = Recipe { pad_bytes, ..recipe(self.args, &self.target, stage.interests) };
        let mut run = Run::new(&base, self.target.clone(), recipe, self.object_bytes);
        run.record = Record::new("interests", &format!("{}, {name}", self.target.url()), 1);
        run.record.set("interests", stage.interests);
        run.ends_apart = true;
        let mut record = run.measure(&scopes, Run::write)?;
        judge(&mut record);
        Ok(record)
    }

    fn report(&self, stages: &[Stage], names: &[String], runs: Vec<Record>) -> Report {
        let most = |name: &str| runs.iter().filter_map(|record| record.value(name)).fold(0.0, f64::max);
        let facts = json!({
            "by": self.args.by,
            "objects": self.recipe.objects(),
            "rounds": self.args.base.rounds,
            "write_send_delay_p99_ns": most("write_send_delay_p99_ns"),
            "client_cpu_share": most("client_cpu_share"),
        });
        let title = "server protocol by objects resource object_bytes rounds seed";
        let mut report =
            Report::of_runs("interests", runs.iter(), &format!("{COUNTS} {WRONGS}"), facts, title);
        for (number, &stage) in stages.iter().enumerate() {
            // Of fewer interests: only how the cost grows with their number.
            let more = if stage.interests == self.args.base.watchers { MORE } else { "" };
            let title = "interests write_rate_wanted_per_second ratio_mark ratio_mark_met ratio_of_median_differences";
            let states = 3 * number..3 * number + 3;
            let table = table(stage, &states_of(&names[states.clone()], states.start, &runs));
            report.table(title, table, &format!("{COST} {ADDED} {more}"));
        }
        report.values(&format!("{COUNTS}\n{WRONGS}\nclient_cpu_share write_send_delay_p99_ns"));
        let right = "every write reached the one watcher that it was due to, once and in order";
        report.end(runs, true, right)
    }

    fn whole_path(&self) -> String {
        let resource = &self.recipe.resource;
        let several = self.args.by == By::Namespace;
        if several { resource.everywhere() } else { resource.collection(&self.recipe.namespaces[0]) }
    }

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
            let (_, names) = list(&mut self.target.connect(), &path)?;
            if names != [name_of(object % self.recipe.per_namespace)] {
                let found = names.len();
                return Err(format!("GET {path} lists {found} objects instead of the one that it selects"));
            }
        }
        Ok(())
    }

    /// The scopes of a state in which the first `interests` objects are written.
    fn scopes(&self, state: usize, interests: u32) -> Result<Vec<Scope>, String> {
        let whole = self.whole_path();
        let (revision, _) = list(&mut self.target.connect(), &format!("{whole}?limit=1"))?;
        let media = Media::from(self.args.base.encoding);
        let scope = |path, objects| Scope { path, revision, objects, media: media.clone() };
        Ok(match state {
            0 => Vec::new(),
            1 => vec![scope(whole, (0..interests).collect())],
            _ => (0..interests).map(|object| scope(self.path_of(object), vec![object])).collect(),
        })
    }
}

/// The first `interests` objects. Each call's have stamps of their own: what an earlier state wrote is none of these.
fn recipe(args: &Interests, target: &Target, interests: u32) -> Recipe {
    let name = &args.base.namespace;
    if args.by == By::Namespace {
        let namespaces = (0..interests).map(|number| format!("{name}-{number}")).collect();
        target.recipe(&args.base, namespaces, 1)
    } else {
        target.recipe(&args.base, vec![name.clone()], interests)
    }
}

/// Server CPU time of a write and of its delivery, if it has one: there are as many of both.
fn judge(record: &mut Record) {
    let writes = record.count("writes");
    let cost = record.value("server_cpu_ns").filter(|_| writes > 0.0).map(|ns| ns / writes);
    record.set(COST, cost);
    record.set("server_cpu_ns_per_delivery", cost.filter(|_| record.watchers > 0));
    let complete = record.watchers == 0
        || (record.count("deliveries") >= writes
            && record.count("deliveries_checked") >= record.count("deliveries_expected"));
    record.judge(WRONGS, "writes");
    record.clean &= complete;
}

fn table(stage: Stage, states: &[(String, Vec<&Record>)]) -> Table {
    let facts = json!({"interests": stage.interests, "write_rate_wanted_per_second": stage.rate.per_second(), "ratio_mark": RATIO_MARK});
    let mut table = Table::new(facts, 1, states);
    // Of the medians: the differences of one round are small against their noise. Absent where a single watcher costs
    // nothing that could be measured.
    let [none, one, each] = [0, 1, 2].map(|at| table.value(at, COST).map_or(f64::NAN, |cost| cost.median));
    let of_medians = Some((each - none) / (one - none)).filter(|_| one > none && !each.is_nan());
    let met = table.ratio(2, COST).map(|ratio| ratio.median <= RATIO_MARK);
    table.facts.insert("ratio_mark_met".to_owned(), met.into());
    table.facts.insert("ratio_of_median_differences".to_owned(), of_medians.into());
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAGE: Stage = Stage { interests: 5, rate: Rate::Max };

    fn record(state: usize, cpu_ns: u32) -> Record {
        let mut record = Record { watchers: STAGE.watchers()[state], ..Record::default() };
        record.set("server_cpu_ns", cpu_ns * 10);
        for name in ["writes", "deliveries", "deliveries_checked", "deliveries_expected"] {
            record.set(name, 10);
        }
        judge(&mut record);
        record
    }

    #[test]
    fn ratios_are_of_each_round() {
        let mut runs = Vec::new();
        for (round, costs) in (1..).zip([[100, 200, 400], [100, 300, 300], [100, 100, 120]]) {
            let run = |(state, cost)| Record { round, state, ..record(state, cost) };
            runs.extend(costs.into_iter().enumerate().map(run));
        }
        set_difference(&mut runs, [0, 1], COST, ADDED, 1.0);
        set_difference(&mut runs, [0, 2], COST, ADDED, 1.0);
        let table = table(STAGE, &states_of(&STAGE.states(), 0, &runs));
        let ratio = table.ratio(2, COST).expect("three rounds");
        assert_eq!((ratio.least, ratio.median, ratio.most), (1.0, 1.2, 2.0));
        let differences = table.ratio(2, ADDED).expect("one round has no difference to divide by");
        assert_eq!((differences.least, differences.most), (1.0, 3.0));
        assert_eq!(table.facts["ratio_of_median_differences"], 2.0);
        assert_eq!(table.facts["ratio_mark_met"], true);
    }

    #[test]
    fn a_state_is_clean_when_all_writes_came() {
        for (state, name, value, clean) in [
            (1, "writes", 10, true),
            (0, "deliveries", 0, true),
            (1, "deliveries", 9, false),
            (1, "deliveries_checked", 9, false),
            (1, "duplicated", 1, false),
            (1, "unexpected", 1, false),
            (1, "disconnected", 1, false),
            (0, "writes", 0, false),
        ] {
            let mut record = record(state, 1);
            record.set(name, value);
            judge(&mut record);
            assert_eq!(record.clean, clean, "{name} {value} of state {state}");
        }
    }
}
