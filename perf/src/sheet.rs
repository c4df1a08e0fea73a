//! The text of a report, made from its JSON: rows with a name and a sentence in which `{value}` stands for a value of that
//! name. The unit at the end of the name says how it is written. A row that lacks a value is left out.

use crate::spread::Spread;
use crate::units::Unit;
use serde::Serialize;
use serde_json::Value;
use std::fmt;

/// A name, and a sentence with `{value}`, `{value|what is said without one}`, or `{value:FORMAT}`: `kib`, `us`, `percent` and
/// `plain` write the number without its unit.
pub(crate) type Row = (&'static str, &'static str);

#[derive(Clone, Debug)]
pub(crate) struct Sheet {
    values: Value,
    text: String,
}

impl Sheet {
    pub(crate) fn new(report: &impl Serialize, title: &str) -> Self {
        let mut sheet =
            Self { values: serde_json::to_value(report).unwrap_or_default(), text: String::new() };
        sheet.line(title);
        sheet
    }

    pub(crate) fn line(&mut self, sentence: &str) {
        if let Some(said) = fill(sentence, &self.values) {
            self.text(&said);
        }
    }

    pub(crate) fn text(&mut self, lines: &str) {
        self.text.push_str(lines);
        self.text.push('\n');
    }

    pub(crate) fn rows(&mut self, rows: &[Row]) {
        rows.iter().for_each(|(name, sentence)| self.line(&format!("  {name:<16}{sentence}")));
    }

    /// The rows of each element of a list.
    pub(crate) fn each(&mut self, list: &str, mut rows: impl FnMut(&mut Self, usize)) {
        let all = std::mem::take(&mut self.values);
        let elements = all.pointer(list).and_then(Value::as_array).cloned().unwrap_or_default();
        for (number, element) in elements.into_iter().enumerate() {
            self.values = element;
            rows(self, number);
        }
        self.values = all;
    }

    /// A row of what is counted here, but for the counts that are 0.
    pub(crate) fn counts(&mut self, name: &str, counts: &[(&str, &str)]) {
        let shown = |(words, value): &(&str, &str)| {
            self.number(value).filter(|&count| count > 0.0).map(|_| format!("{words} {{{value}}}"))
        };
        let some: Vec<String> = counts.iter().filter_map(shown).collect();
        if !some.is_empty() {
            self.line(&format!("  {name:<16}{}", some.join("  ")));
        }
    }

    /// A value by name; a median where there are several.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        number(&self.values, name)
    }
}

impl fmt::Display for Sheet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// A number of a report, by name or by `name/of/a/part`.
pub(crate) fn number(values: &Value, name: &str) -> Option<f64> {
    let value = find(values, name)?;
    value.as_f64().or_else(|| value["median"].as_f64())
}

fn find<'a>(values: &'a Value, name: &str) -> Option<&'a Value> {
    values.pointer(&format!("/{name}")).filter(|value| !value.is_null())
}

fn fill(sentence: &str, values: &Value) -> Option<String> {
    let mut text = String::new();
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('{') {
        let (place, after) = after.split_once('}')?;
        let (place, otherwise) = place.split_once('|').map_or((place, None), |(a, b)| (a, Some(b)));
        let (name, format) = place.split_once(':').unwrap_or((place, ""));
        let value = find(values, name).map(|value| show(value, name, format));
        text.push_str(before);
        text.push_str(&value.or_else(|| otherwise.map(str::to_owned))?);
        rest = after;
    }
    text.push_str(rest);
    Some(text)
}

fn show(value: &Value, name: &str, format: &str) -> String {
    // Of `latency_p99_ns/with` the unit is the whole's.
    let units = name.rsplit('/').map(Unit::of);
    let unit = units.into_iter().find(|unit| *unit != Unit::Count).unwrap_or(Unit::Count);
    let write = |number: f64| match format {
        "kib" => format!("{:.2}", number / 1024.0),
        "us" => format!("{:.2}", number / 1e3),
        "percent" => format!("{:.2}", number * 100.0),
        "plain" => format!("{number}"),
        _ => unit.show(number),
    };
    if let Some(number) = value.as_f64() {
        return write(number);
    }
    if let Ok(spread) = serde_json::from_value::<Spread>(value.clone()) {
        return spread.show(write);
    }
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_are_filled_by_the_units_of_names() {
        let report = json!({
            "server": "s", "latency_p99_ns": 4321, "writes": 12345, "rate_per_second": null, "clean": true, "zero": 0,
            "each_bytes": {"median": 2048.0, "least": 1024.0, "most": 4096.0}, "parts": [{"number": 1}, {"number": 2}],
        });
        let mut sheet = Sheet::new(&report, "run at {server}");
        sheet.rows(&[
            ("latency", "p99 {latency_p99_ns}, {writes} writes at {rate_per_second|max}"),
            ("rate", "{rate_per_second}"),
            ("memory", "{each_bytes:kib} KiB, {each_bytes}"),
        ]);
        sheet.each("/parts", |sheet, at| sheet.line(&format!("  part {{number}} at {at}")));
        sheet.counts("odd", &[("none", "zero"), ("many", "writes"), ("absent", "absent")]);
        assert_eq!(
            sheet.to_string(),
            "run at s\n  latency         p99 4.32 µs, 12,345 writes at max\n  \
             memory          2.00 (1.00..4.00) KiB, 2.00 KiB (1.00 KiB..4.00 KiB)\n  part 1 at 0\n  part 2 at 1\n  \
             odd             many 12,345\n"
        );
        assert_eq!((sheet.number("each_bytes"), sheet.number("parts/1/number")), (Some(2048.0), Some(2.0)));
    }
}
