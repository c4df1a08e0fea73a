//! Runs of several states side by side, taken in turns: of each value the median of the rounds with the least and the
//! most, and its ratio to one of the states, round by round, so that what disturbs a minute disturbs both.

use crate::record::{Facts, Record, facts_of};
use crate::sheet::Row;
use crate::spread::Spread;
use crate::units::Unit;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Serialize)]
pub(crate) struct Table {
    /// What all of them have in common.
    #[serde(flatten)]
    pub(crate) facts: Facts,
    pub(crate) states: Vec<State>,
    /// The state that ratios are taken to.
    #[serde(skip)]
    base: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct State {
    state: String,
    watchers: u32,
    /// By the names of the runs' values.
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

    /// The lines of some values. Where there are several states, letters stand for them.
    pub(crate) fn show(&self, figures: &[Row]) -> String {
        let (mut text, several) = (String::new(), self.states.len() > 1);
        for (at, state) in self.states.iter().enumerate().filter(|_| several) {
            text.push_str(&format!("  {} = {}\n", letter(at), state.state));
        }
        for (title, name) in figures {
            let mut lines = Vec::new();
            for (at, state) in self.states.iter().enumerate() {
                let Some(spread) = state.values.get(*name) else { continue };
                let letter = if several { format!("{}  ", letter(at)) } else { String::new() };
                let values = spread.show(|value| Unit::of(name).show(value));
                let ratio = state.ratios.get(*name).map_or_else(String::new, |ratio| {
                    format!(
                        "  {} of {}",
                        ratio.show(|ratio| Unit::Ratio.show(ratio)),
                        self::letter(self.base)
                    )
                });
                lines.push(letter + &values + &ratio);
            }
            if lines.is_empty() {
                lines.push("not measured".to_owned());
            }
            for (number, line) in lines.iter().enumerate() {
                text.push_str(&format!("  {:<16}{line}\n", if number == 0 { title } else { "" }));
            }
        }
        text
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

    fn record(round: u32, cpu: f64) -> Record {
        let mut record = Record::new("compare", "x", round);
        record.watchers = 5;
        record.set(CPU, cpu);
        record
    }

    #[test]
    fn ratios_are_those_of_the_rounds() {
        let one = [record(1, 100.0), record(2, 200.0), record(3, 100.0)];
        // The order of the runs is not that of the rounds.
        let other = [record(2, 220.0), record(1, 150.0), record(3, 130.0), record(4, 140.0)];
        let states = [("one".to_owned(), one.iter().collect()), ("other".to_owned(), other.iter().collect())];
        let table = Table::new(json!({"size": 7}), 0, &states);
        assert_eq!(table.value(1, CPU), Some(Spread { median: 145.0, least: 130.0, most: 220.0 }));
        assert_eq!(table.ratio(1, CPU), Some(Spread { median: 1.3, least: 1.1, most: 1.5 }));
        assert_eq!((table.ratio(0, CPU), table.ratio(2, CPU), table.value(0, "lost")), (None, None, None));
        assert_eq!(
            table.show(&[("CPU", CPU), ("lost", "lost")]),
            "  A = one\n  B = other\n  CPU             A  100 ns (100 ns..200 ns)\n                  \
             B  145 ns (130 ns..220 ns)  1.30 (1.10..1.50) of A\n  lost            not measured\n"
        );
        let json = serde_json::to_value(&table).expect("plain numbers");
        assert_eq!((&json["size"], &json["states"][1]["watchers"]), (&json!(7), &json!(5)));
        assert_eq!(json["states"][1]["ratios"][CPU]["median"], 1.3);
    }

    #[test]
    fn nothing_is_divided_by_what_was_not_measured() {
        let (one, other) = ([record(2, 0.0)], [record(1, 9.0), record(2, 11.0)]);
        let states = [("one".to_owned(), one.iter().collect()), ("other".to_owned(), other.iter().collect())];
        let table = Table::new(Value::Null, 0, &states);
        assert_eq!(
            (table.value(1, CPU).map(|spread| spread.median), table.ratio(1, CPU)),
            (Some(10.0), None)
        );
        let alone = Table::new(Value::Null, 0, &states[1..]);
        assert_eq!(alone.show(&[("CPU", CPU)]), "  CPU             10 ns (9 ns..11 ns)\n");
    }
}
