//! Many watchers that each want something else: what an event costs that matches one of them.
//!
//! Three states take turns: nobody watches (what a write costs), one watcher gets every write, and every object has a
//! watcher of its own, so that each write is due to exactly one. Rate and objects are the same in all three. What the
//! watchers add to a write is the difference to the first.

mod report;
mod state;

use crate::endpoint::selected;
use crate::object::{Recipe, name_of, node_of};
use crate::options::{By, Interests, Rate};
use crate::scope::Scope;
use crate::setup;
use crate::target::{Target, Trouble};
use crate::units::{Unit, show_count, show_ns, show_rate};
use fastrand::Rng;
use report::InterestsReport;
use state::{Sample, State};

pub(crate) fn run(args: &Interests) -> Result<InterestsReport, Trouble> {
    let target = Target::prepare(&args.base, args.base.watchers)?;
    Ok(Run::new(args, target).go()?)
}

#[derive(Debug)]
struct Run<'a> {
    args: &'a Interests,
    target: Target,
    recipe: Recipe,
}

#[derive(Debug)]
struct Stage {
    interests: u32,
    rate: Rate,
    /// None, one, each; of every round.
    rounds: Vec<[Sample; 3]>,
}

impl<'a> Run<'a> {
    fn new(args: &'a Interests, target: Target) -> Self {
        let (base, name) = (&args.base, &args.base.namespace);
        let recipe = match args.by {
            By::Namespace => {
                let namespaces = (0..base.watchers).map(|number| format!("{name}-{number}")).collect();
                target.recipe(base, namespaces, 1)
            }
            By::Node | By::Label | By::Name => target.recipe(base, vec![name.clone()], base.watchers),
        };
        Self { args, target, recipe }
    }

    fn go(mut self) -> Result<InterestsReport, String> {
        let base = &self.args.base;
        eprintln!("creating {} objects", show_count(u64::from(self.recipe.objects())));
        let (target, recipe) = (&self.target, &mut self.recipe);
        let object_bytes = setup::create_objects_anew(|| target.connect(), recipe, base.size_bytes, 8)?;
        self.check_selectors()?;
        let first_rate = self.args.rates.first().copied().unwrap_or(Rate::Max);
        let smaller = self.args.sizes.iter().filter(|&&size| size < base.watchers);
        let wanted = smaller.map(|&size| (size, first_rate));
        let wanted = wanted.chain(self.args.rates.iter().map(|&rate| (base.watchers, rate)));
        let stage = |(interests, rate)| Stage { interests, rate, rounds: Vec::new() };
        let mut stages: Vec<Stage> = wanted.map(stage).collect();
        for round in 0..self.args.rounds {
            for stage in &mut stages {
                stage.rounds.push(self.round(round, stage.interests, stage.rate)?);
            }
        }
        Ok(InterestsReport::new(self.args, &self.target, &self.recipe, object_bytes, &stages))
    }

    /// All states once. Which one is first goes round too.
    fn round(&self, round: u32, interests: u32, rate: Rate) -> Result<[Sample; 3], String> {
        let mut samples = [const { None }; 3];
        for turn in 0..3 {
            let at = (round as usize + turn) % 3;
            let state = [State::None, State::One, State::Each][at];
            let sample = self.measure(state, interests, rate)?;
            let wanted = rate.per_second().map_or_else(|| "max".to_owned(), show_rate);
            let cost = sample.cost_ns().map_or_else(|| "?".to_owned(), |ns| Unit::Nanoseconds.show(ns));
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
