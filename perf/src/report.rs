//! What a scenario found, for people and as JSON: its runs, tables of their medians, and whether all was right. Values are found by
//! their names, which carry their units.

use crate::record::{self, Facts, Record, facts_of};
use crate::table::Table;
use crate::units::say;
use serde::Serialize;
use serde_json::Value;

pub(crate) const WRONGS: &str = "lost duplicated out_of_order unexpected malformed disconnected";

#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    scenario: String,
    #[serde(flatten)]
    facts: Facts,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tables: Vec<Table>,
    pub(crate) records: Vec<Record>,
    pub(crate) clean: bool,
    /// For people.
    #[serde(skip)]
    pub(crate) text: String,
}

impl Report {
    /// `facts`: an object; `title`: the names of those that are said first.
    pub(crate) fn new(scenario: &str, facts: Value, title: &str) -> Self {
        let facts = facts_of(facts);
        let text = format!("{scenario}: {}\n", say(title, &facts));
        Self { scenario: scenario.to_owned(), facts, text, ..Self::default() }
    }

    /// Of several runs: what all of them have in common, the sums of some counts, and more facts.
    pub(crate) fn of_runs<'a>(
        scenario: &str,
        runs: impl Iterator<Item = &'a Record> + Clone,
        sums: &str,
        facts: Value,
        title: &str,
    ) -> Self {
        let mut all = Facts::new();
        if let Some(first) = runs.clone().next() {
            all = first.facts.clone();
            all.retain(|name, fact| runs.clone().all(|run| run.facts.get(name) == Some(fact)));
            all.insert("object_bytes".to_owned(), first.object_bytes.into());
        }
        all.extend(record::sums(runs, sums));
        all.extend(facts_of(facts));
        Self::new(scenario, all.into(), title)
    }

    /// Says some values, a line for each line of names.
    pub(crate) fn values(&mut self, names: &str) {
        self.text.push_str(&lines(names, &self.facts));
    }

    pub(crate) fn values_of(&mut self, names: &str, record: &Record) {
        self.text.push_str(&lines(names, &record.flat()));
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(&format!("  {line}\n"));
    }

    /// A table of the values with some names; `title`: the names of those that its states have in common.
    pub(crate) fn table(&mut self, title: &str, table: Table, names: &str) {
        self.text.push_str(&format!("\n{}{}", lines(title, &table.facts), table.show(names)));
        self.tables.push(table);
    }

    /// Ends the report: in words whether all was right, with the scenario and in every run; and the first fault of them.
    pub(crate) fn end(mut self, records: Vec<Record>, clean: bool, right: &str) -> Self {
        let clean = clean && records.iter().all(|record| record.clean);
        if !self.facts.contains_key("first_fault")
            && let Some(fault) = records.iter().find_map(|record| record.facts.get("first_fault"))
        {
            self.facts.insert("first_fault".to_owned(), fault.clone());
        }
        if !records.is_empty() && records.iter().all(|record| !record.facts.contains_key("server_pid")) {
            self.line("the server's process was not found: give --server-pid for CPU and memory");
        }
        // Near all that the generator has, the figures are its own.
        let is_saturated = |record: &Record| {
            let cpus = record.facts.get("client_cpus").and_then(Value::as_f64);
            record.value("client_cpu_share").zip(cpus).is_some_and(|(busy, cpus)| busy > 0.9 * cpus.max(1.0))
        };
        if records.iter().any(is_saturated) {
            self.line("the load generator is saturated: part of the latency is its own");
        }
        self.values("first_fault");
        self.line(&format!("{}{right}", if clean { "clean: " } else { "FAILED, it is not so that " }));
        (self.records, self.clean) = (records, clean);
        self
    }
}

fn lines(names: &str, facts: &Facts) -> String {
    let said = names.lines().map(|line| say(line, facts)).filter(|line| !line.is_empty());
    said.map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_and_json_say_the_same() {
        let mut report = Report::new("fanout", json!({"server": "s", "many": 1234}), "server");
        report.values("many\n absent\n");
        let mut record = Record::new("fanout", "a", 1);
        record.tell("first_fault", "a line");
        record.tell("client_cpus", 1);
        record.set("client_cpu_share", 0.95);
        report.values_of("client_cpu_share", &record);
        let report = report.end(vec![record], false, "all was right");
        assert_eq!(
            report.text,
            "fanout: Server s\n  Many 1,234\n  Client CPU 95.0 % of a core\n  \
             the server's process was not found: give --server-pid for CPU and memory\n  \
             the load generator is saturated: part of the latency is its own\n  \
             First fault a line\n  FAILED, it is not so that all was right\n"
        );
        let json = serde_json::to_value(&report).expect("plain numbers");
        assert_eq!((&json["many"], &json["clean"]), (&json!(1234), &json!(false)));
        assert_eq!((&json["scenario"], &json["first_fault"]), (&json!("fanout"), &json!("a line")));
        assert_eq!(json["records"].as_array().map(Vec::len), Some(1));
    }
}
