//! What a number counts, told from its name, whose end is its unit; and how it is written for a person: in a table, and
//! along an axis, where all ticks share one unit.

use crate::units::{show_count, show_ns};
use std::time::Duration;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    Nanoseconds,
    Seconds,
    Bytes,
    BytesPerSecond,
    PerSecond,
    /// Of one core.
    Share,
    Count,
    /// A quantile from 0 to 1.
    Quantile,
}

/// Values that people ask for first, in this order, with their words.
const KNOWN: [(&str, &str); 13] = [
    ("deliveries_per_second", "Deliveries"),
    ("server_cpu_ns_per_delivery", "Server CPU per delivery"),
    ("latency_p50_ns", "Latency p50"),
    ("latency_p90_ns", "Latency p90"),
    ("latency_p99_ns", "Latency p99"),
    ("latency_p999_ns", "Latency p99.9"),
    ("latency_max_ns", "Latency, most"),
    ("rss_bytes_per_watcher", "Server memory per watcher"),
    ("server_cpu_share", "Server CPU"),
    ("lost", "Lost"),
    ("duplicated", "Duplicated"),
    ("out_of_order", "Out of order"),
    ("disconnected", "Disconnected"),
];

/// The place of a value among those that are known; the others come behind them.
pub(super) fn place_of(name: &str) -> usize {
    KNOWN.iter().position(|(known, _)| *known == name).unwrap_or(KNOWN.len())
}

pub(super) fn is_known(name: &str) -> bool {
    place_of(name) < KNOWN.len()
}

/// `latency_p99_ns` in words.
pub(super) fn words_of(name: &str) -> String {
    if let Some((_, words)) = KNOWN.get(place_of(name)) {
        return (*words).to_owned();
    }
    let ends = ["_per_second", "_seconds", "_bytes", "_ns", "_share"];
    let bare = ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let words = bare.replace("_ns_per_", "_per_").replace("_bytes_per_", "_per_").replace('_', " ");
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

impl Quantity {
    /// By the end of a name, or by what stands in front of `_per_`.
    pub(super) fn of(name: &str) -> Self {
        if name.ends_with("bytes_per_second") {
            return Self::BytesPerSecond;
        }
        if name.ends_with("_per_second") {
            return Self::PerSecond;
        }
        let unit = name.split("_per_").next().unwrap_or(name);
        match unit.rsplit('_').next() {
            Some("ns") => Self::Nanoseconds,
            Some("seconds") => Self::Seconds,
            Some("bytes") => Self::Bytes,
            Some("share") => Self::Share,
            _ => Self::Count,
        }
    }

    /// For a table or a hover title: the number with the unit that suits it.
    pub(super) fn show(self, value: f64) -> String {
        let sign = if value < 0.0 { "−" } else { "" };
        let size = value.abs();
        let text = match self {
            Self::Nanoseconds if size > 0.0 && size < 100.0 => format!("{} ns", digits(size)),
            Self::Nanoseconds => show_ns(whole(size)),
            Self::Seconds => format!("{} s", digits(size)),
            Self::Bytes => bytes(size),
            Self::BytesPerSecond => format!("{}/s", bytes(size)),
            Self::PerSecond => format!("{}/s", digits(size)),
            Self::Share => format!("{} % of a core", digits(size * 100.0)),
            Self::Count => digits(size),
            Self::Quantile => percentile(value),
        };
        if text.starts_with(|c: char| c.is_ascii_digit()) { format!("{sign}{text}") } else { text }
    }

    /// The unit that all ticks of an axis share when its largest value is `most`: what a value is divided by, and the
    /// unit's name.
    pub(super) fn unit(self, most: f64) -> (f64, &'static str) {
        let ladder: &[(f64, &str)] = match self {
            Self::Nanoseconds => &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")],
            Self::Seconds => &[(1.0, "s")],
            Self::Bytes => &[(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1024.0, "KiB"), (1.0, "bytes")],
            Self::BytesPerSecond => {
                &[(1_073_741_824.0, "GiB/s"), (1_048_576.0, "MiB/s"), (1024.0, "KiB/s"), (1.0, "bytes/s")]
            }
            Self::PerSecond => &[(1e6, "million/s"), (1e3, "thousand/s"), (1.0, "1/s")],
            Self::Share => &[(0.01, "% of a core")],
            Self::Count => &[(1.0, "")],
            Self::Quantile => &[(1.0, "")],
        };
        let fits = ladder.iter().find(|(size, _)| most.abs() >= *size);
        fits.or_else(|| ladder.last()).copied().unwrap_or((1.0, ""))
    }
}

/// Three digits that matter, whole with separators from 1,000 on.
pub(super) fn digits(value: f64) -> String {
    let size = value.abs();
    let text = if size >= 1000.0 {
        show_count(whole(size))
    } else if size >= 100.0 || size.fract() == 0.0 {
        format!("{size:.0}")
    } else if size >= 10.0 {
        format!("{size:.1}")
    } else if size >= 0.1 {
        format!("{size:.2}")
    } else {
        format!("{size:.2e}")
    };
    if value < 0.0 { format!("−{text}") } else { text }
}

/// A tick: no digit more than it needs.
pub(super) fn tick(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let size = value.abs();
    if size >= 1000.0 {
        return digits(value.round());
    }
    let text = format!("{size:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if value < 0.0 { format!("−{text}") } else { text.to_owned() }
}

/// `99.9 %`.
pub(super) fn percentile(quantile: f64) -> String {
    let text = format!("{:.4}", quantile * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

fn bytes(size: f64) -> String {
    let (unit, name) = Quantity::Bytes.unit(size);
    format!("{} {}", digits(size / unit), if name == "bytes" { "B" } else { name })
}

/// A whole number; what is too large for one is the largest.
fn whole(size: f64) -> u64 {
    Duration::try_from_secs_f64(size.round()).map_or(u64::MAX, |whole| whole.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_tells_the_unit() {
        for (name, quantity, words) in [
            ("deliveries_per_second", Quantity::PerSecond, "Deliveries"),
            ("server_cpu_ns_per_delivery", Quantity::Nanoseconds, "Server CPU per delivery"),
            ("rss_bytes_per_watcher", Quantity::Bytes, "Server memory per watcher"),
            ("stream_bytes_per_second", Quantity::BytesPerSecond, "Stream bytes"),
            ("client_cpu_share", Quantity::Share, "Client cpu"),
            ("reconnected_p99_ns", Quantity::Nanoseconds, "Reconnected p99"),
            ("all_live_seconds", Quantity::Seconds, "All live"),
            ("evicted", Quantity::Count, "Evicted"),
            ("cpu_ns_per_event", Quantity::Nanoseconds, "Cpu per event"),
        ] {
            assert_eq!((Quantity::of(name), words_of(name).as_str()), (quantity, words), "{name}");
        }
        assert!(place_of("lost") < place_of("anything else"));
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(Quantity::Nanoseconds.show(4_321.0), "4.32 µs");
        assert_eq!(Quantity::Nanoseconds.show(0.0), "0 ns");
        assert_eq!(Quantity::Bytes.show(-1536.0), "−1.50 KiB");
        assert_eq!(Quantity::PerSecond.show(909_123.4), "909,123/s");
        assert_eq!(Quantity::Share.show(0.973), "97.3 % of a core");
        assert_eq!(Quantity::Quantile.show(0.99999), "99.999 %");
        assert_eq!(digits(0.0123), "1.23e-2");
        assert_eq!([tick(0.0), tick(0.2), tick(12_000.0), tick(-5.0)], ["0", "0.2", "12,000", "−5"]);
        assert_eq!(Quantity::Nanoseconds.unit(2.5e6), (1e6, "ms"));
        assert_eq!(Quantity::Bytes.unit(0.0), (1.0, "bytes"));
    }
}
