//! Runs of several states, taken in turns: of each value the median of the rounds with the least and the most, and its ratio to one
//! of the states, round by round, so that what disturbs a minute disturbs both.

use crate::record::{Facts, Record, facts_of};
use crate::units::{Unit, words_of};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Median, least and most of at least one number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Of what was measured; `None`: nothing was. Of an even number of rounds the two in the middle are averaged.
    pub(crate) fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().filter(|number| number.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (&least, &most) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Some(Self { median, least, most })
    }

    /// `4.12 (4.00..4.50)`, each number as `show` writes it; one where all are the same.
    pub(crate) fn show(&self, show: impl Fn(f64) -> String) -> String {
        if self.least == self.most {
            return show(self.median);
        }
        format!("{} ({}..{})", show(self.median), show(self.least), show(self.most))
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Table {
    #[serde(flatten)]
    pub(crate) facts: Facts,
    pub(crate) states: Vec<State>,
    #[serde(skip)]
    base: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct State {
    state: String,
    watchers: u32,
    #[serde(flatten)]
    values: BTreeMap<String, Spread>,
    ratios: BTreeMap<String, Spread>,
}

impl Table {
    /// `states`: what each is called, and its runs.
    pub(crate) fn new(facts: Value, base: usize, states: &[(String, Vec<&Record>)]) -> Self {
        let base_runs = states.get(base).map_or(&[][..], |(_, runs)| runs);
        let ratio = |record: &Record, name: &str| {
            let base = base_runs.iter().find(|base| base.round == record.round)?.value(name)?;
            Some(record.value(name)? / base).filter(|_| base > 0.0)
        };
        let state = |(at, (state, runs)): (usize, &(String, Vec<&Record>))| {
            let names: BTreeSet<&String> = runs.iter().flat_map(|record| record.values.keys()).collect();
            let over = |of: &dyn Fn(&Record, &str) -> Option<f64>| {
                let spread = |name: &&String| Spread::of(runs.iter().filter_map(|record| of(record, name)));
                names.iter().filter_map(|name| Some(((*name).clone(), spread(name)?))).collect()
            };
            State {
                state: state.clone(),
                watchers: runs.first().map_or(0, |record| record.watchers),
                values: over(&|record, name| record.value(name)),
                ratios: if at == base { BTreeMap::new() } else { over(&ratio) },
            }
        };
        Self { facts: facts_of(facts), states: states.iter().enumerate().map(state).collect(), base }
    }

    pub(crate) fn value(&self, state: usize, name: &str) -> Option<Spread> {
        self.states.get(state)?.values.get(name).copied()
    }

    pub(crate) fn ratio(&self, state: usize, name: &str) -> Option<Spread> {
        self.states.get(state)?.ratios.get(name).copied()
    }

    /// The lines of those of some values that were measured, by their names. Where there are several states, letters stand for them.
    pub(crate) fn show(&self, names: &str) -> String {
        let (mut text, several) = (String::new(), self.states.len() > 1);
        for (at, state) in self.states.iter().enumerate().filter(|_| several) {
            text.push_str(&format!("  {} = {}\n", letter(at), state.state));
        }
        for name in names.split_whitespace() {
            let mut words = words_of(name);
            for (at, state) in self.states.iter().enumerate() {
                let Some(spread) = state.values.get(name) else { continue };
                let state_of = if several { format!("{}  ", letter(at)) } else { String::new() };
                let values = spread.show(|value| Unit::of(name).show(value));
                let ratio = state.ratios.get(name).map_or_else(String::new, |ratio| {
                    format!("  {} of {}", ratio.show(|ratio| Unit::Ratio.show(ratio)), letter(self.base))
                });
                text.push_str(&format!("  {words:<28}{state_of}{values}{ratio}\n"));
                words.clear();
            }
        }
        text
    }
}

/// Measures every state once a round. Each round starts with the next state, so that none is always the first. A state that
/// was not measured gives no record.
pub(crate) fn take_turns<F>(
    rounds: u32,
    states: &[String],
    mut measure: impl FnMut(usize, u32) -> Result<Option<Record>, F>,
) -> Result<Vec<Record>, F> {
    let mut runs = Vec::new();
    for round in 1..=rounds {
        for turn in 0..states.len() {
            let state = (round as usize - 1 + turn) % states.len();
            eprintln!("round {round} of {rounds}: {}", states[state]);
            runs.extend(measure(state, round)?.map(|record| Record { round, state, ..record }));
        }
    }
    Ok(runs)
}

/// The states `names`, of which the first has the place `first`, with their runs.
pub(crate) fn states_of<'a>(
    names: &[String],
    first: usize,
    runs: &'a [Record],
) -> Vec<(String, Vec<&'a Record>)> {
    let own = |at: usize| runs.iter().filter(move |run| run.state == first + at);
    names.iter().enumerate().map(|(at, name)| (name.clone(), own(at).collect())).collect()
}

/// Keeps as `name` how much more a value is than that of the state `base` in the same round, divided by `share`.
pub(crate) fn set_difference(
    runs: &mut [Record],
    [base, state]: [usize; 2],
    value: &str,
    name: &str,
    share: f64,
) {
    for at in 0..runs.len() {
        let same = |run: &&Record| run.state == base && run.round == runs[at].round;
        let before = runs.iter().find(same).and_then(|record| record.value(value));
        let run = &mut runs[at];
        if run.state == state {
            run.set(name, run.value(value).zip(before).map(|(value, before)| (value - before) / share));
        }
    }
}

fn letter(state: usize) -> char {
    u8::try_from(state).map_or('?', |place| char::from(b'A'.saturating_add(place)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const CPU: &str = "server_cpu_ns_per_delivery";

    fn runs(values: &[(usize, u32, f64)]) -> Vec<Record> {
        let run = |&(state, round, cpu): &(usize, u32, f64)| {
            let mut record = Record { state, round, watchers: 5, ..Record::default() };
            record.set(CPU, cpu);
            record
        };
        values.iter().map(run).collect()
    }

    #[test]
    fn ratios_and_differences_are_those_of_the_rounds() {
        let names = ["one", "other"].map(str::to_owned);
        // The order of the runs is not that of the rounds.
        let mut runs = runs(&[
            (0, 1, 100.0),
            (0, 2, 200.0),
            (1, 2, 220.0),
            (1, 1, 150.0),
            (0, 3, 100.0),
            (1, 3, 130.0),
            (1, 4, 140.0),
        ]);
        set_difference(&mut runs, [0, 1], CPU, "more_ns", 10.0);
        let table = Table::new(json!({"size": 7}), 0, &states_of(&names, 0, &runs));
        assert_eq!(table.value(1, CPU), Some(Spread { median: 145.0, least: 130.0, most: 220.0 }));
        assert_eq!(table.ratio(1, CPU), Some(Spread { median: 1.3, least: 1.1, most: 1.5 }));
        assert_eq!(table.value(1, "more_ns"), Some(Spread { median: 3.0, least: 2.0, most: 5.0 }));
        assert_eq!((table.ratio(0, CPU), table.ratio(2, CPU), table.value(0, "more_ns")), (None, None, None));
        assert_eq!(
            table.show("server_cpu_ns_per_delivery lost"),
            format!(
                "  A = one\n  B = other\n  {:<28}A  100 ns (100 ns..200 ns)\n  {:<28}B  145 ns (130 ns..220 ns)  \
                 1.30 (1.10..1.50) of A\n",
                "Server CPU per delivery", ""
            )
        );
        let json = serde_json::to_value(&table).expect("plain numbers");
        assert_eq!((&json["size"], &json["states"][1]["watchers"]), (&json!(7), &json!(5)));
        assert_eq!(json["states"][1]["ratios"][CPU]["median"], 1.3);
    }

    #[test]
    fn nothing_is_divided_by_what_was_not_measured() {
        let names = ["one", "other"].map(str::to_owned);
        let runs = runs(&[(0, 2, 0.0), (1, 1, 9.0), (1, 2, 11.0)]);
        let table = Table::new(Value::Null, 0, &states_of(&names, 0, &runs));
        assert_eq!(
            (table.value(1, CPU).map(|spread| spread.median), table.ratio(1, CPU)),
            (Some(10.0), None)
        );
        let alone = Table::new(Value::Null, 0, &states_of(&names[1..], 1, &runs));
        assert_eq!(alone.show(CPU), format!("  {:<28}10 ns (9 ns..11 ns)\n", "Server CPU per delivery"));
    }

    #[test]
    fn no_state_is_always_the_first() {
        let states = ["a", "b", "c"].map(str::to_owned);
        let mut made = Vec::new();
        let runs = take_turns(2, &states, |at, round| {
            made.push((round, at));
            Ok::<_, ()>(Some(Record::default()).filter(|_| at != 1))
        });
        assert_eq!(made, [(1, 0), (1, 1), (1, 2), (2, 1), (2, 2), (2, 0)]);
        let runs: Vec<_> = runs.expect("no failure").iter().map(|run| (run.state, run.round)).collect();
        assert_eq!(runs, [(0, 1), (2, 1), (2, 2), (0, 2)], "what was not measured is left out");
    }

    #[test]
    fn the_middle_and_the_ends() {
        let spread = Spread::of([3.0, 1.0, f64::NAN, 10.0]).expect("three numbers");
        assert_eq!(spread, Spread { median: 3.0, least: 1.0, most: 10.0 });
        assert_eq!(Spread::of([1.0, 2.0]).map(|spread| spread.median), Some(1.5));
        assert_eq!(Spread::of([f64::NAN]), None);
        let show = |spread: Spread| spread.show(|number| format!("{number:.1}"));
        assert_eq!(
            (show(spread), show(Spread { least: 3.0, most: 3.0, ..spread })),
            ("3.0 (1.0..10.0)".into(), "3.0".into())
        );
    }
}
