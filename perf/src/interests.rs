//! Many watchers that each want something else: what an event costs that matches one of them.
//!
//! Three states take turns: nobody watches (what a write costs), one watcher gets every write, and every object has a
//! watcher of its own, so that each write is due to exactly one. Rate and objects are the same in all three. What the
//! watchers add to a write is the difference to the first.

mod report;
mod state;

pub(crate) use report::InterestsReport;
pub(crate) use state::{await_open, wait_until};

use crate::args::Rate;
use crate::args::interests::{By, Interests};
use crate::fanout::Trouble;
use crate::object::{Recipe, name_of, node_of};
use crate::record::Record;
use crate::scope::Scope;
use crate::site::Site;
use crate::stock;
use crate::target::encode;
use crate::units::{show_count, show_ns, show_rate};
use state::{Sample, State};

/// Does the whole run.
pub(crate) fn run(args: &Interests) -> Result<InterestsReport, Trouble> {
    let site = Site::prepare(&args.base, args.base.watchers)?;
    Ok(Run::new(args, site).go()?)
}

/// One run under way.
#[derive(Debug)]
struct Run<'a> {
    args: &'a Interests,
    site: Site,
    recipe: Recipe,
}

/// The rounds of one table.
#[derive(Debug)]
struct Stage {
    interests: u32,
    rate: Rate,
    /// None, one, each; of every round.
    rounds: Vec<[Sample; 3]>,
}

impl<'a> Run<'a> {
    fn new(args: &'a Interests, mut site: Site) -> Self {
        let (names, objects) = (&args.base.namespaces, args.base.watchers);
        let recipe = match args.by {
            By::Namespace => {
                let namespaces = (0..objects).map(|number| format!("{}-{number}", names.concat())).collect();
                site.recipe(&args.base, namespaces, 1)
            }
            By::Node | By::Label | By::Name => site.recipe(&args.base, names.clone(), objects),
        };
        Self { args, site, recipe }
    }

    fn go(mut self) -> Result<InterestsReport, String> {
        let base = &self.args.base;
        eprintln!("creating {} objects", show_count(u64::from(self.recipe.objects())));
        let site = &self.site;
        let object_bytes =
            stock::create_objects_at_once(&|| site.connect(), &mut self.recipe, base.size_bytes, 8)?;
        self.check_selectors()?;
        let first_rate = self.args.rates.first().copied().unwrap_or(Rate::Max);
        let smaller = self.args.sizes.iter().filter(|&&size| size < base.watchers);
        let mut wanted: Vec<(u32, Rate)> = smaller.map(|&size| (size, first_rate)).collect();
        wanted.extend(self.args.rates.iter().map(|&rate| (base.watchers, rate)));
        let mut stages: Vec<Stage> =
            wanted.iter().map(|&(interests, rate)| Stage { interests, rate, rounds: Vec::new() }).collect();
        for round in 0..self.args.rounds {
            for stage in &mut stages {
                stage.rounds.push(self.round(round, stage.interests, stage.rate)?);
            }
        }
        Ok(InterestsReport::new(self.args, &self.site, &self.recipe, object_bytes, &stages))
    }

    /// All states once. Which one is first goes round too.
    fn round(&mut self, round: u32, interests: u32, rate: Rate) -> Result<[Sample; 3], String> {
        let mut samples = [const { None }; 3];
        for turn in 0..3 {
            let at = (round as usize + turn) % 3;
            let state = [State::None, State::One, State::Each][at];
            let sample = self.measure(state, interests, rate)?;
            let wanted = match rate {
                Rate::Max => "max".to_owned(),
                Rate::PerSecond(rate) => show_rate(rate),
            };
            let cost = sample.cost_ns().map_or_else(|| "?".to_owned(), |ns| format!("{:.1} µs", ns / 1e3));
            eprintln!(
                "round {}  {:<16} {} writes, wanted {wanted}  server CPU {cost} a write  p99 {}",
                round + 1,
                state.describe(interests),
                show_count(sample.writes),
                show_ns(sample.latency.at(0.99)),
            );
            samples[at] = Some(sample);
        }
        let [Some(none), Some(one), Some(each)] = samples else {
            return Err("a state was not measured: this is a bug of revcast-perf".to_owned());
        };
        Ok([none, one, each])
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
        let selector = |key: &str, text: String| format!("{collection}?{key}={}", encode(&text));
        match self.args.by {
            By::Namespace => collection,
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
            let names = self.site.names(&path)?;
            if names != [name_of(object % self.recipe.per_namespace)] {
                let found = names.len();
                return Err(format!("GET {path} lists {found} objects instead of the one that it selects"));
            }
        }
        Ok(())
    }

    /// The scopes of a state in which the first `interests` objects are written.
    fn scopes(&self, state: State, interests: u32) -> Result<Vec<Scope>, String> {
        let revision = self.site.revision(&self.whole_path())?;
        Ok(match state {
            State::None => Vec::new(),
            State::One => {
                vec![Scope {
                    path: self.whole_path(),
                    revision,
                    objects: (0..interests).collect(),
                    accept: None,
                }]
            }
            State::Each => (0..interests)
                .map(|object| Scope {
                    path: self.path_of(object),
                    revision,
                    objects: vec![object],
                    accept: None,
                })
                .collect(),
        })
    }

    /// The first `interests` objects, with stamps of their own: what an earlier state wrote is none of these.
    fn part(&mut self, interests: u32) -> Recipe {
        let mut recipe = Recipe { run: self.site.run_id(), ..self.recipe.clone() };
        match self.args.by {
            By::Namespace => recipe.namespaces.truncate(interests as usize),
            By::Node | By::Label | By::Name => recipe.per_namespace = interests,
        }
        recipe
    }
}

/// What is kept of one state in one round.
fn record(args: &Interests, object_bytes: usize, round: u32, stage: &Stage, at: usize) -> Record {
    let sample = &stage.rounds[round as usize][at];
    let state = [State::None, State::One, State::Each][at];
    let subject = format!("http://{}, {}", args.base.server.authority(), state.describe(stage.interests));
    let mut record = Record::new("interests", &subject, round + 1);
    record.began_unix_seconds = sample.began_unix_seconds;
    record.watchers = state.watchers(stage.interests);
    record.object_bytes = object_bytes;
    record.write_rate_per_second = match stage.rate {
        Rate::PerSecond(rate) => Some(rate),
        Rate::Max => None,
    };
    record.set("interests", f64::from(stage.interests));
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
