//! Values as a person reads them: the end of a name says the unit of its number, and the rest of the name is words.

use serde_json::{Map, Value};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Nanoseconds,
    Seconds,
    Bytes,
    BytesPerSecond,
    PerSecond,
    Share,
    Ratio,
    Count,
    /// A quantile from 0 to 1.
    Quantile,
}

const KIB: f64 = 1024.0;
const MIB: f64 = 1_048_576.0;
const GIB: f64 = 1_073_741_824.0;

impl Unit {
    /// By the end of a name, or by what precedes `_per_`.
    pub(crate) fn of(name: &str) -> Self {
        if name.ends_with("bytes_per_second") {
            return Self::BytesPerSecond;
        }
        if name.ends_with("_per_second") {
            return Self::PerSecond;
        }
        match name.split("_per_").next().and_then(|unit| unit.rsplit('_').next()) {
            Some("ns") => Self::Nanoseconds,
            Some("seconds") => Self::Seconds,
            Some("bytes") => Self::Bytes,
            Some("share") => Self::Share,
            Some("ratio" | "times" | "differences") => Self::Ratio,
            _ => Self::Count,
        }
    }

    /// What a value is divided by when the largest beside it is `most`, and the name of the result.
    pub(crate) fn scale(self, most: f64) -> (f64, &'static str) {
        let ladder: &[(f64, &str)] = match self {
            Self::Nanoseconds => &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")],
            Self::Seconds => &[(1.0, "s")],
            Self::Bytes => &[(GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"), (1.0, "B")],
            Self::BytesPerSecond => &[(GIB, "GiB/s"), (MIB, "MiB/s"), (KIB, "KiB/s"), (1.0, "B/s")],
            Self::PerSecond => &[(1e6, "million/s"), (1e3, "thousand/s"), (1.0, "1/s")],
            Self::Share => &[(0.01, "% of a core")],
            Self::Ratio | Self::Count | Self::Quantile => &[(1.0, "")],
        };
        let fits = ladder.iter().find(|(size, _)| most.abs() >= *size);
        fits.or_else(|| ladder.last()).copied().unwrap_or((1.0, ""))
    }

    /// The number with the unit that suits it: `87.3 µs`, `7.42 KiB`, `12,345`.
    pub(crate) fn show(self, value: f64) -> String {
        let (size, unit) = self.scale(value);
        match self {
            Self::Nanoseconds | Self::Bytes if size == 1.0 && value.fract() == 0.0 => {
                format!("{value:.0} {unit}")
            }
            Self::PerSecond if value == 0.0 => "0/s".to_owned(),
            Self::PerSecond if value < 100.0 => format!("{}/s", three_digits(value)),
            Self::PerSecond => format!("{}/s", digits(value)),
            Self::Ratio => format!("{value:.2}"),
            Self::Count => digits(value),
            Self::Quantile => {
                let text = format!("{:.4}", value * 100.0);
                format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
            }
            Self::Nanoseconds | Self::Seconds | Self::Bytes | Self::BytesPerSecond | Self::Share => {
                format!("{} {unit}", three_digits(value / size))
            }
        }
    }
}

/// Three digits that matter, whole with separators from 1,000 on.
pub(crate) fn digits(value: f64) -> String {
    let size = value.abs();
    let text = if size >= 100.0 || size.fract() == 0.0 {
        indicatif::HumanCount(whole(size)).to_string()
    } else if size >= 0.1 {
        three_digits(size)
    } else {
        format!("{size:.2e}")
    };
    if value < 0.0 { format!("−{text}") } else { text }
}

/// The nearest whole number; what is too large for one is the largest, what is negative is 0.
pub(crate) fn whole(size: f64) -> u64 {
    // As seconds, because that conversion is checked.
    Duration::try_from_secs_f64(size.max(0.0).round()).map_or(u64::MAX, |whole| whole.as_secs())
}

fn three_digits(value: f64) -> String {
    let places = if value.abs() < 10.0 { 2 } else { usize::from(value.abs() < 100.0) };
    format!("{value:.places$}")
}

/// `latency_p99_ns` in words: the unit is in the numbers.
pub(crate) fn words_of(name: &str) -> String {
    let ends = ["_per_second", "_seconds", "_bytes", "_ns", "_share"];
    let bare = ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let bare = bare.replace("_ns_per_", "_per_").replace("_bytes_per_", "_per_");
    let words = bare.replace("cpu", "CPU").replace("rss", "RSS").replace('_', " ");
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// `Latency p50 4.32 µs  p90 5.10 µs`: the values that are known. What two names next to each other begin with is said once.
pub(crate) fn say(names: &str, values: &Map<String, Value>) -> String {
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
    fn amounts_as_read() {
        for (unit, value, text) in [
            (Unit::Nanoseconds, 999.0, "999 ns"),
            (Unit::Nanoseconds, 87_300.0, "87.3 µs"),
            (Unit::Nanoseconds, 3_120_000.0, "3.12 ms"),
            (Unit::Nanoseconds, 1_200_000_000.0, "1.20 s"),
            (Unit::Bytes, 7_598.0, "7.42 KiB"),
            (Unit::Bytes, -1536.0, "-1.50 KiB"),
            (Unit::Count, 1_234_567.0, "1,234,567"),
            (Unit::Count, 0.0123, "1.23e-2"),
            (Unit::Count, 12.34, "12.3"),
            (Unit::PerSecond, 0.0, "0/s"),
            (Unit::PerSecond, 19.98, "20.0/s"),
            (Unit::PerSecond, 200_123.4, "200,123/s"),
            (Unit::Share, 0.973, "97.3 % of a core"),
            (Unit::Quantile, 0.99999, "99.999 %"),
        ] {
            assert_eq!(unit.show(value), text);
        }
        assert_eq!(Unit::Nanoseconds.scale(2.5e6), (1e6, "ms"));
    }

    #[test]
    fn the_name_tells_the_unit() {
        for (name, unit) in [
            ("deliveries_per_second", Unit::PerSecond),
            ("server_cpu_ns_per_delivery", Unit::Nanoseconds),
            ("rss_bytes_per_watcher", Unit::Bytes),
            ("stream_bytes_per_second", Unit::BytesPerSecond),
            ("client_cpu_share", Unit::Share),
            ("reconnected_p99_ns", Unit::Nanoseconds),
            ("all_live_seconds", Unit::Seconds),
            ("live_p99_ratio", Unit::Ratio),
            ("evicted", Unit::Count),
        ] {
            assert_eq!(Unit::of(name), unit, "{name}");
        }
    }

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
