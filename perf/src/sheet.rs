//! Sentences of a report, made from its values: `{name}` stands for a value, whose unit is at the end of its name. A
//! sentence that lacks a value is left out.

use crate::record::Facts;
use crate::units::Unit;
use serde_json::Value;

/// A name, and a sentence with `{value}`, `{value|what is said without one}`, or `{value:plain}`: a number as it is.
pub(crate) type Row = (&'static str, &'static str);

pub(crate) fn fill(sentence: &str, values: &Facts) -> Option<String> {
    let mut text = String::new();
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('{') {
        let (place, after) = after.split_once('}')?;
        let (place, otherwise) = place.split_once('|').map_or((place, None), |(a, b)| (a, Some(b)));
        let (name, format) = place.split_once(':').unwrap_or((place, ""));
        let value = values.get(name).filter(|value| !value.is_null());
        let value = value.map(|value| show(value, name, format));
        text.push_str(before);
        text.push_str(&value.or_else(|| otherwise.map(str::to_owned))?);
        rest = after;
    }
    text.push_str(rest);
    Some(text)
}

fn show(value: &Value, name: &str, format: &str) -> String {
    match value {
        Value::Number(number) if format != "plain" => {
            number.as_f64().map_or_else(|| number.to_string(), |number| Unit::of(name).show(number))
        }
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            items.iter().map(|item| show(item, name, format)).collect::<Vec<_>>().join("; ")
        }
        Value::Number(_) | Value::Null | Value::Bool(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sentences_are_filled_by_the_units_of_names() {
        let values = json!({
            "server": "s", "latency_p99_ns": 4321, "writes": 12345, "rate_per_second": null, "notes": ["a", "b"],
        });
        let values = values.as_object().expect("it is one");
        for (sentence, text) in [
            ("run at {server}", Some("run at s")),
            ("p99 {latency_p99_ns}, {writes} writes", Some("p99 4.32 µs, 12,345 writes")),
            ("{writes:plain} writes at {rate_per_second|max}", Some("12345 writes at max")),
            ("note: {notes}", Some("note: a; b")),
            ("{server} at {rate_per_second}", None),
            ("{absent}", None),
        ] {
            assert_eq!(fill(sentence, values).as_deref(), text, "{sentence}");
        }
    }
}
