//! Numbers as people read them, with their units: what `page/units.js` shows, to the letter.

/// What is not known.
pub(super) const UNKNOWN: &str = "–";

/// A unit and how large it is, from small to large.
type Units = [(&'static str, f64)];

const TIMES: [(&str, f64); 6] =
    [("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3_600.0), ("d", 86_400.0)];
const KIB: f64 = 1_024.0;
const BYTES: [(&str, f64); 5] =
    [("B", 1.0), ("KiB", KIB), ("MiB", KIB * KIB), ("GiB", KIB * KIB * KIB), ("TiB", KIB * KIB * KIB * KIB)];

/// 1234567 as `1,234,567`.
pub(super) fn whole(value: f64) -> String {
    if !value.is_finite() {
        return UNKNOWN.to_owned();
    }
    let below = value.floor();
    let digits = format!("{:.0}", if value - below >= 0.5 { below + 1.0 } else { below });
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |digits| ("-", digits));
    let mut text = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three digits: `0.123`, `12.3`, `123`, `12,345`.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        UNKNOWN.to_owned()
    } else if size == 0.0 {
        "0".to_owned()
    } else if size >= 99.95 {
        whole(value)
    } else {
        fixed(
            value,
            if size >= 9.995 {
                1
            } else if size >= 0.9995 {
                2
            } else {
                3
            },
        )
    }
}

/// So many digits after the point. What lies exactly between two is rounded up, as JavaScript does it.
fn fixed(value: f64, digits: usize) -> String {
    // All digits: a float has an end.
    let exact = format!("{value:.1074}");
    let behind = exact.find('.').map_or(exact.len(), |point| point + 1 + digits);
    let is_tie =
        exact[behind..].strip_prefix('5').is_some_and(|rest| rest.bytes().all(|digit| digit == b'0'));
    let nudge = if is_tie && value > 0.0 { 0.5 / 10_f64.powf(digits as f64) } else { 0.0 };
    format!("{:.digits$}", value + nudge)
}

fn scaled(value: f64, units: &Units) -> String {
    if !value.is_finite() {
        return UNKNOWN.to_owned();
    }
    let fits = |unit: &&(&str, f64)| value.abs() >= unit.1 * 0.9995;
    let (name, size) = units.iter().rev().find(fits).unwrap_or(&units[0]);
    format!("{} {name}", short(value / size))
}

/// Seconds: `1.50 ms`, `2.00 min`.
pub(super) fn duration(seconds: f64) -> String {
    if seconds == 0.0 { "0 s".to_owned() } else { scaled(seconds, &TIMES) }
}

/// Seconds of a percentile; infinite: above the last bound.
pub(super) fn latency(seconds: f64) -> String {
    if seconds == f64::INFINITY { "> 10 s".to_owned() } else { scaled(seconds, &TIMES[..3]) }
}

/// `1.00 KiB`
pub(super) fn bytes(count: f64) -> String {
    scaled(count, &BYTES)
}

/// `12 %`, `1.5 %`
pub(super) fn percent(share: f64) -> String {
    if !share.is_finite() {
        return UNKNOWN.to_owned();
    }
    let value = share * 100.0;
    format!("{} %", fixed(value, usize::from(value < 9.95 && value != 0.0)))
}

/// 5400 s as `1 h 30 min`.
pub(super) fn uptime(seconds: f64) -> String {
    const PARTS: [(&str, f64); 4] = [("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0)];
    let Some(first) = PARTS.iter().position(|(_, size)| seconds >= *size) else { return "0 s".to_owned() };
    let mut left = seconds.floor();
    let parts = PARTS[first..].iter().take(2).map(|(name, size)| {
        let count = (left / size).floor();
        left -= count * size;
        format!("{count} {name}")
    });
    parts.collect::<Vec<_>>().join(" ")
}

/// Values as a line of blocks, the last at its right end: as many as there is room for.
pub(super) fn sparkline(values: &[f64], room: usize) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &values[values.len().saturating_sub(room)..];
    let most = shown.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
    let block = |value: &f64| {
        let eighths = if most > 0.0 { value / most * 8.0 } else { 0.0 };
        let steps = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
        BLOCKS[steps.iter().filter(|step| eighths > **step).count()]
    };
    let blank = room - shown.len();
    " ".repeat(blank) + &shown.iter().map(block).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!(
            [0.0, 0.123_4, 1.0, 12.34, 99.96, 1_234_567.0].map(short),
            ["0", "0.123", "1.00", "12.3", "100", "1,234,567"]
        );
        assert_eq!(
            [0.0, 1e-6, 0.001_5, 90.0, 86_400.0].map(duration),
            ["0 s", "1.00 µs", "1.50 ms", "1.50 min", "1.00 d"]
        );
        assert_eq!([f64::NAN, f64::INFINITY, 90.0].map(latency), [UNKNOWN, "> 10 s", "90.0 s"]);
        assert_eq!([0.0, 1_023.9, 1_536.0].map(bytes), ["0 B", "1.00 KiB", "1.50 KiB"]);
        assert_eq!([0.0, 0.015, 0.5, 1.0, f64::NAN].map(percent), ["0 %", "1.5 %", "50 %", "100 %", UNKNOWN]);
        assert_eq!([0.5, 5.0, 5_400.0, 90_000.0].map(uptime), ["0 s", "5 s", "1 h 30 min", "1 d 1 h"]);
        assert_eq!([0.5, 999.5, -1_234.0].map(whole), ["1", "1,000", "-1,234"]);
    }

    #[test]
    fn ties_go_up() {
        assert_eq!(
            [(0.5, 0), (2.5, 0), (1.25, 1), (1.45, 1), (1.35, 1)].map(|(value, digits)| fixed(value, digits)),
            ["1", "3", "1.3", "1.4", "1.4"]
        );
    }

    #[test]
    fn a_sparkline_has_the_newest_at_its_right_end() {
        assert_eq!(sparkline(&[0.0, 1.0, 8.0], 4), " ▁▁█");
        assert_eq!(sparkline(&[1.0, 4.0, 8.0], 2), "▄█");
        assert_eq!(sparkline(&[], 3), "   ");
        assert_eq!(sparkline(&[0.0, f64::NAN], 2), "▁▁");
    }
}
