//! What a scenario found, for people and as JSON: its runs, each a [`Record`]; where there are several of them, tables of
//! their medians; and whether all was right. Values are found by their names, which carry their units.

use crate::record::{Facts, Record, facts_of, sum};
use crate::sheet::{Row, fill};
use crate::table::Table;
use serde::Serialize;
use serde_json::Value;
use std::fmt;

/// Instead of the server's CPU time and memory.
const NO_PROCESS: Row = ("server", "its process was not found: give --server-pid for CPU and memory");

/// What must not be.
pub(crate) const WRONGS: &str = "lost duplicated out_of_order unexpected malformed disconnected";
pub(crate) const WRONGS_ROW: Row = (
    "",
    "lost {lost}  duplicated {duplicated}  out of order {out_of_order}  unexpected {unexpected}  malformed {malformed}  \
     disconnected {disconnected}",
);

#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    scenario: String,
    /// Of the whole scenario.
    #[serde(flatten)]
    facts: Facts,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tables: Vec<Table>,
    pub(crate) records: Vec<Record>,
    pub(crate) clean: bool,
    #[serde(skip)]
    text: String,
}

impl Report {
    /// The title is a sentence of the facts, an object.
    pub(crate) fn new(scenario: &str, facts: Value, title: &str) -> Self {
        let mut report = Self { scenario: scenario.to_owned(), facts: facts_of(facts), ..Self::default() };
        report.line(title);
        report
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
        all.extend(sums.split_whitespace().map(|name| (name.to_owned(), sum(runs.clone(), name))));
        all.extend(facts_of(facts));
        Self::new(scenario, all.into(), title)
    }

    pub(crate) fn line(&mut self, sentence: &str) {
        self.line_of(sentence, None);
    }

    pub(crate) fn rows(&mut self, rows: &[Row]) {
        self.rows_of(rows, None);
    }

    /// Rows of what one run found.
    pub(crate) fn rows_of<'a>(&mut self, rows: &[Row], record: impl Into<Option<&'a Record>>) {
        let facts = record.into().map(Record::flat);
        for (name, sentence) in rows {
            self.line_of(&format!("  {name:<16}{sentence}"), facts.as_ref());
        }
    }

    pub(crate) fn text(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn line_of(&mut self, sentence: &str, facts: Option<&Facts>) {
        if let Some(said) = fill(sentence, facts.unwrap_or(&self.facts)) {
            self.text(&said);
        }
    }

    /// A row of what is counted here, but for the counts that are 0.
    pub(crate) fn counts(&mut self, name: &str, counts: &[Row]) {
        let shown = |(words, value): &Row| {
            let count = self.number(value).filter(|&count| count > 0.0)?;
            fill(&format!("{words} {{{value}}}"), &Facts::from_iter([((*value).to_owned(), count.into())]))
        };
        let some: Vec<String> = counts.iter().filter_map(shown).collect();
        if !some.is_empty() {
            self.line(&format!("  {name:<16}{}", some.join("  ")));
        }
    }

    /// A table, the names of the values that are shown of it, and rows of what its states have in common.
    pub(crate) fn table(&mut self, title: &str, table: Table, names: &str, rows: &[Row]) {
        self.line_of(title, Some(&table.facts));
        self.text.push_str(&table.show(names));
        for (name, sentence) in rows {
            self.line_of(&format!("  {name:<16}{sentence}"), Some(&table.facts));
        }
        self.tables.push(table);
    }

    /// Says so when the server's process is not known.
    pub(crate) fn process(&mut self) {
        if self.number("server_pid").is_none() {
            self.rows(&[NO_PROCESS]);
        }
    }

    /// The generator's own part. Near all that it has, the figures are its own.
    pub(crate) fn generator(&mut self) {
        let (busy, cpus) = (self.number("client_cpu_share"), self.number("client_cpus"));
        self.rows(&[
            ("load generator", "{client_cpu_share}"),
            ("", "sends late by p99 {write_send_delay_p99_ns}"),
        ]);
        if busy > cpus.map(|cpus| 0.9 * cpus.max(1.0)) {
            self.rows(&[("", "it is saturated: part of the latency is its own")]);
        }
    }

    /// Ends the report: its runs, and in words whether all was right. The first fault is the scenario's, or a run's.
    pub(crate) fn end(mut self, records: Vec<Record>, clean: bool, right: &str, wrong: &str) -> Self {
        if !self.facts.contains_key("first_fault")
            && let Some(fault) = records.iter().find_map(|record| record.facts.get("first_fault"))
        {
            self.facts.insert("first_fault".to_owned(), fault.clone());
        }
        self.line("  first fault     {first_fault}");
        self.text(&format!("  verdict         {}", if clean { right } else { wrong }));
        (self.records, self.clean) = (records, clean);
        self
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.facts.get(name).and_then(Value::as_f64)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_and_json_say_the_same() {
        let facts =
            json!({"server": "s", "many": 1234, "zero": 0, "client_cpu_share": 0.95, "client_cpus": 1});
        let mut report = Report::new("fanout", facts, "fanout at {server}");
        report.rows(&[("many", "{many}"), ("absent", "{absent}")]);
        report.counts("odd", &[("none", "zero"), ("many", "many"), ("absent", "absent")]);
        report.process();
        report.generator();
        let mut record = Record::new("fanout", "a", 1);
        record.tell("first_fault", "a line");
        let report = report.end(vec![record], false, "all was right", "FAILED");
        assert_eq!(
            report.to_string(),
            format!(
                "fanout at s\n  many            1,234\n  odd             many 1,234\n  server          {}\n  \
                 load generator  95.0 % of a core\n                  it is saturated: part of the latency is its own\n  \
                 first fault     a line\n  verdict         FAILED\n",
                NO_PROCESS.1
            )
        );
        let json = serde_json::to_value(&report).expect("plain numbers");
        assert_eq!((&json["many"], &json["clean"]), (&json!(1234), &json!(false)));
        assert_eq!((&json["scenario"], &json["first_fault"]), (&json!("fanout"), &json!("a line")));
        assert_eq!(json["records"].as_array().map(Vec::len), Some(1));
    }
}
