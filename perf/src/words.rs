//! Values in words: what a name says without its unit, and the value with it.

use crate::record::Facts;
use crate::units::Unit;
use serde_json::Value;

/// `latency_p99_ns` in words: the unit is in the numbers.
pub(crate) fn words_of(name: &str) -> String {
    let ends = ["_per_second", "_seconds", "_bytes", "_ns", "_share"];
    let bare = ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let bare = bare.replace("_ns_per_", "_per_").replace("_bytes_per_", "_per_");
    let words = bare.replace("cpu", "CPU").replace("rss", "RSS").replace('_', " ");
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// `Latency p50 4.32 µs  p90 5.10 µs`: the named values that are known. What two names next to each other begin with is
/// said once.
pub(crate) fn say(names: &str, values: &Facts) -> String {
    let (mut parts, mut before) = (Vec::new(), String::new());
    for name in names.split_whitespace() {
        let nothing = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        let Some(value) = values.get(name).filter(|&value| !nothing(value)) else { continue };
        let words = words_of(name);
        let same = words.split(' ').zip(before.split(' ')).take_while(|(word, other)| word == other).count();
        parts.push(words.split(' ').skip(same).chain([&*show(name, value)]).collect::<Vec<_>>().join(" "));
        before = words;
    }
    parts.join("  ")
}

fn show(name: &str, value: &Value) -> String {
    match value {
        // What identifies something is no amount.
        Value::Number(number) if name == "seed" || name.ends_with("pid") => number.to_string(),
        Value::Number(number) => Unit::of(name).show(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(|item| show(name, item)).collect::<Vec<_>>().join("; "),
        Value::Null | Value::Bool(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_said_by_their_names_and_units() {
        let values = json!({
            "server": "s", "seed": 12345, "server_pid": 4321, "latency_p50_ns": 4321, "latency_p99_ns": 5e6, "writes": 12345,
            "writes_per_second": 20, "rate_per_second": null, "notes": ["a", "b"], "none": [],
        });
        let values = values.as_object().expect("it is one");
        for (names, text) in [
            ("server seed server_pid", "Server s  Seed 12345  Server pid 4321"),
            ("latency_p50_ns latency_p99_ns", "Latency p50 4.32 µs  p99 5.00 ms"),
            ("writes writes_per_second rate_per_second", "Writes 12,345  20.0/s"),
            ("notes absent", "Notes a; b"),
            ("absent rate_per_second none", ""),
        ] {
            assert_eq!(say(names, values), text, "{names}");
        }
    }
}
