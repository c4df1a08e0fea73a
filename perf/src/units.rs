//! Text for amounts: durations and sizes as options are written, and as a person reads them in a report.

use std::time::Duration;

/// Reads `30s`, `500ms`, `2m`, `1h`, `1.5s` or a bare number of seconds.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds_per_unit = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    if !number.is_finite() || number < 0.0 {
        return None;
    }
    Duration::try_from_secs_f64(number * seconds_per_unit).ok()
}

/// Reads `1KiB`, `512B`, `64KiB`, `1MiB`, `1kB`, `1MB` or a bare number of bytes.
pub(crate) fn parse_size(text: &str) -> Option<usize> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let bytes_per_unit: usize = match unit {
        "" | "B" => 1,
        "KiB" | "Ki" | "K" => 1024,
        "kB" | "k" => 1000,
        "MiB" | "Mi" | "M" => 1024 * 1024,
        "MB" => 1_000_000,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(bytes_per_unit)
}

/// Three digits and the unit that suits: `412 ns`, `87.3 µs`, `3.12 ms`, `1.20 s`.
pub(crate) fn show_ns(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        1_000_000_000.. => (ns as f64 / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// The same for a mean: `283 ns`.
pub(crate) fn show_nanos(ns: f64) -> String {
    show_ns(
        u64::try_from(Duration::try_from_secs_f64(ns / 1e9).map_or(u128::MAX, |time| time.as_nanos()))
            .unwrap_or(u64::MAX),
    )
}

/// `1.07`: a ratio.
pub(crate) fn show_ratio(ratio: f64) -> String {
    format!("{ratio:.2}")
}

/// `512 B`, `7.42 KiB`, `812 MiB`.
pub(crate) fn show_bytes(bytes: u64) -> String {
    let (value, unit) = match bytes {
        0..1_024 => return format!("{bytes} B"),
        1_024..1_048_576 => (bytes as f64 / 1_024.0, "KiB"),
        1_048_576..1_073_741_824 => (bytes as f64 / 1_048_576.0, "MiB"),
        1_073_741_824.. => (bytes as f64 / 1_073_741_824.0, "GiB"),
    };
    format!("{} {unit}", three_digits(value))
}

/// `12,345,678`.
pub(crate) fn show_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count a second: whole with separators from 100 on, else with the digits that matter.
pub(crate) fn show_rate(per_second: f64) -> String {
    if per_second == 0.0 {
        return "0/s".to_owned();
    }
    if per_second < 100.0 {
        return format!("{}/s", three_digits(per_second));
    }
    let whole = Duration::try_from_secs_f64(per_second.round()).map_or(u64::MAX, |whole| whole.as_secs());
    format!("{}/s", show_count(whole))
}

fn three_digits(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.2}")
    } else if value < 100.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_written() {
        assert_eq!(parse_duration("30s"), Some(Duration::from_secs(30)));
        assert_eq!(parse_duration("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5m"), Some(Duration::from_secs(90)));
        assert_eq!(parse_duration("7"), Some(Duration::from_secs(7)));
        for bad in ["", "s", "-1s", "3 s", "5d", "NaNs", "1e400s"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn sizes_as_written() {
        assert_eq!(parse_size("1KiB"), Some(1024));
        assert_eq!(parse_size("100"), Some(100));
        assert_eq!(parse_size("2MB"), Some(2_000_000));
        for bad in ["", "KiB", "1.5KiB", "-1", "1GiB", "99999999999999999999"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }

    #[test]
    fn amounts_as_read() {
        assert_eq!(show_ns(999), "999 ns");
        assert_eq!(show_ns(87_300), "87.3 µs");
        assert_eq!(show_ns(3_120_000), "3.12 ms");
        assert_eq!(show_ns(1_200_000_000), "1.20 s");
        assert_eq!(show_bytes(7_598), "7.42 KiB");
        assert_eq!(show_count(1_234_567), "1,234,567");
        assert_eq!(show_count(999), "999");
        assert_eq!(show_rate(0.0), "0/s");
        assert_eq!(show_rate(19.98), "20.0/s");
        assert_eq!(show_rate(200_123.4), "200,123/s");
    }
}
