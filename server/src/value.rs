//! Values as operators write them: whole numbers, sizes, times, addresses, lists of CPUs, choices.
//!
//! It owns the grammar of a value and its way back to text, so that what `revcast config` prints parses to the same
//! value. It never knows which option a value is for.

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::setting::Wrong;

/// CPUs that one `--pin-cpus` may name, and so shards of one process.
pub(crate) const CPUS_MAX: usize = 256;
/// Linux' `CPU_SETSIZE`: the highest CPU that an affinity mask of glibc's size can name is one less.
const CPU_SET_SIZE: usize = 1024;

const KIB: u64 = 1 << 10;
const SIZE_UNITS: [(&str, u64); 10] = [
    ("TiB", KIB << 30),
    ("GiB", KIB << 20),
    ("MiB", KIB << 10),
    ("KiB", KIB),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
    ("", 1),
];

/// Units of a time, largest first, in milliseconds.
const TIME_UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// The one of `all` that an operator writes as `text`.
pub(crate) fn one_of<T: Copy + fmt::Display>(
    text: &str,
    all: &[T],
    what: &str,
    mend: &str,
) -> Result<T, Wrong> {
    all.iter()
        .copied()
        .find(|one| one.to_string() == text)
        .ok_or_else(|| Wrong::new(format!("no such {what}"), mend))
}

/// A size that a socket can have, or `auto`.
pub(crate) fn send_buffer(text: &str) -> Result<Option<usize>, Wrong> {
    if text == "auto" {
        return Ok(None);
    }
    let bytes = size(text, 4 << 10..=1 << 30)
        .map_err(|wrong| Wrong::new(wrong.problem, format!("{}, or auto", wrong.mend)))?;
    Ok(usize::try_from(bytes).ok())
}

pub(crate) fn truth(text: &str) -> Result<bool, Wrong> {
    text.parse().map_err(|_| Wrong::new("neither true nor false", "give true or false"))
}

/// Decimal digits only, within `bounds`.
pub(crate) fn whole(text: &str, bounds: RangeInclusive<usize>) -> Result<usize, Wrong> {
    let mend = format!("give a whole number from {} to {}", bounds.start(), bounds.end());
    let Some(number) = digits(text) else {
        return Err(Wrong::new("not a whole number", mend));
    };
    match usize::try_from(number) {
        Ok(number) if bounds.contains(&number) => Ok(number),
        Ok(number) if number < *bounds.start() => Err(Wrong::new("too small", mend)),
        Ok(_) | Err(_) => Err(Wrong::new("too large", mend)),
    }
}

/// Digits and nothing else; what does not fit 64 bits reads as the largest number.
fn digits(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

/// Bytes: `64MiB`, `500MB`, `1048576`. Units by powers of 1024 have an `i`; case does not count.
pub(crate) fn size(text: &str, bounds: RangeInclusive<u64>) -> Result<u64, Wrong> {
    let mend = format!(
        "give a size from {} to {} such as 64MiB, 500MB or plain bytes",
        show_size(*bounds.start()),
        show_size(*bounds.end())
    );
    let (number, unit) = split_number(text);
    let factor = SIZE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let (Some(number), Some(&(_, factor))) = (digits(number), factor) else {
        return Err(Wrong::new("not a size", mend));
    };
    let bytes = number.saturating_mul(factor);
    if bytes < *bounds.start() {
        Err(Wrong::new("too small", mend))
    } else if bytes > *bounds.end() {
        Err(Wrong::new("too large", mend))
    } else {
        Ok(bytes)
    }
}

/// The largest unit of 1024 that divides it.
pub(crate) fn show_size(bytes: u64) -> String {
    let whole = SIZE_UNITS[..4].iter().find(|&&(_, factor)| bytes > 0 && bytes.is_multiple_of(factor));
    whole.map_or_else(|| bytes.to_string(), |&(unit, factor)| format!("{}{unit}", bytes / factor))
}

/// A time: `500ms`, `60s`, `1m30s`. Each unit at most once, largest first.
pub(crate) fn time(text: &str, bounds: RangeInclusive<Duration>) -> Result<Duration, Wrong> {
    let mend = format!(
        "give a time from {} to {} such as 500ms, 60s, 5m, 1h or 1m30s",
        show_time(*bounds.start()),
        show_time(*bounds.end())
    );
    let Some(given) = time_of(text) else {
        let unitless = digits(text).is_some();
        return Err(Wrong::new(if unitless { "a time without a unit" } else { "not a time" }, mend));
    };
    if given < *bounds.start() {
        Err(Wrong::new("too short", mend))
    } else if given > *bounds.end() {
        Err(Wrong::new("too long", mend))
    } else {
        Ok(given)
    }
}

/// A time within `bounds`, or `None` for zero, which means off.
pub(crate) fn time_or_off(text: &str, bounds: RangeInclusive<Duration>) -> Result<Option<Duration>, Wrong> {
    if time_of(text) == Some(Duration::ZERO) {
        return Ok(None);
    }
    match time(text, bounds) {
        Ok(given) => Ok(Some(given)),
        Err(wrong) => Err(Wrong::new(wrong.problem, format!("{}, or 0 to turn it off", wrong.mend))),
    }
}

/// `0` is the one number that needs no unit.
fn time_of(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut units = TIME_UNITS.iter();
    let mut total: u64 = 0;
    loop {
        let (number, after) = split_number(rest);
        let length = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (name, after) = after.split_at(length);
        // The iterator moves on, so a unit that was used, or a larger one, is not found again.
        let &(_, factor) = units.find(|(unit, _)| *unit == name)?;
        total = total.saturating_add(digits(number)?.saturating_mul(factor));
        rest = after;
        if rest.is_empty() {
            return Some(Duration::from_millis(total));
        }
    }
}

/// As [`time`] reads it; whole milliseconds.
pub(crate) fn show_time(given: Duration) -> String {
    let mut left = u64::try_from(given.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, factor) in TIME_UNITS {
        if left >= factor {
            text.push_str(&format!("{}{unit}", left / factor));
            left %= factor;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

fn split_number(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// `ADDRESS:PORT`; `localhost` is 127.0.0.1. Names are not looked up.
pub(crate) fn address(text: &str) -> Result<SocketAddr, Wrong> {
    let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    numeric.as_deref().unwrap_or(text).parse().map_err(|_| {
        Wrong::new(
            "not an address with a port",
            "give ADDRESS:PORT such as 127.0.0.1:8080, 0.0.0.0:8080 or [::]:8080",
        )
    })
}

/// `0,1` or `2-5` or both; order counts, each CPU once.
pub(crate) fn cpus(text: &str) -> Result<Vec<usize>, Wrong> {
    let wrong = |problem: String| {
        Wrong::new(problem, format!("list CPUs such as 0,1 or 2-5, at most {CPUS_MAX}, each once"))
    };
    let number = |text: &str| {
        whole(text.trim(), 0..=CPU_SET_SIZE - 1).map_err(|_| wrong(format!("not a CPU: \"{text}\"")))
    };
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last {
            return Err(wrong(format!("{first}-{last} runs backwards")));
        }
        for cpu in first..=last {
            if list.contains(&cpu) {
                return Err(wrong(format!("CPU {cpu} is named twice")));
            }
            list.push(cpu);
        }
        if list.len() > CPUS_MAX {
            return Err(wrong("too many CPUs".to_owned()));
        }
    }
    Ok(list)
}

/// As [`cpus`] reads it: runs of three and more are shortened.
pub(crate) fn show_cpus(list: &[usize]) -> String {
    let mut parts = Vec::new();
    let mut rest = list;
    while let Some(&first) = rest.first() {
        let run = rest.iter().enumerate().take_while(|&(at, &cpu)| cpu == first + at).count();
        if run >= 3 {
            parts.push(format!("{first}-{}", first + run - 1));
            rest = &rest[run..];
        } else {
            parts.push(first.to_string());
            rest = &rest[1..];
        }
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ANY: RangeInclusive<Duration> = Duration::ZERO..=Duration::MAX;

    #[test]
    fn sizes() {
        let any = 0..=u64::MAX - 1;
        for (text, bytes) in [
            ("0", 0),
            ("1048576", 1 << 20),
            ("64MiB", 64 << 20),
            ("1GiB", 1 << 30),
            ("500MB", 500_000_000),
            ("2kB", 2_000),
            ("7B", 7),
            ("64mib", 64 << 20),
        ] {
            assert_eq!(size(text, any.clone()), Ok(bytes), "{text}");
            assert_eq!(size(&show_size(bytes), any.clone()), Ok(bytes), "{text} back from text");
        }
        for bad in ["", "MiB", "-1", "1.5GiB", "64 MiB", "64Mi", "0x10", "99999999999999999999", "1TiBB", "é"]
        {
            assert!(size(bad, any.clone()).is_err(), "{bad}");
        }
        assert_eq!(size("1023KiB", 1 << 20..=1 << 40).unwrap_err().problem, "too small");
        assert_eq!(size("2TiB", 1 << 20..=1 << 40).unwrap_err().problem, "too large");
    }

    #[test]
    fn times() {
        for (text, ms) in [
            ("500ms", 500),
            ("60s", 60_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("1m30s", 90_000),
            ("1h0m1s5ms", 3_601_005),
            ("0s", 0),
        ] {
            let given = Duration::from_millis(ms);
            assert_eq!(time(text, ANY), Ok(given), "{text}");
            assert_eq!(time(&show_time(given), ANY), Ok(given), "{text} back from text");
        }
        for bad in ["", "s", "60", "1s1s", "30s1m", "1d", "1.5s", "-1s", "60 s", "60S", "1m30", "m1"] {
            assert!(time(bad, ANY).is_err(), "{bad}");
        }
        assert_eq!(time("60", ANY).unwrap_err().problem, "a time without a unit");
        let bounds = Duration::from_secs(1)..=Duration::from_secs(60);
        assert_eq!(time_or_off("0", bounds.clone()), Ok(None));
        assert_eq!(time_or_off("0s", bounds.clone()), Ok(None));
        assert_eq!(time_or_off("2s", bounds.clone()), Ok(Some(Duration::from_secs(2))));
        assert!(time_or_off("999ms", bounds.clone()).unwrap_err().mend.contains("0 to turn it off"));
        assert!(time_or_off("99999999999999999999h", bounds).is_err());
    }

    #[test]
    fn addresses() {
        assert_eq!(address("localhost:80"), Ok("127.0.0.1:80".parse().unwrap()));
        assert_eq!(address("[::1]:8080"), Ok("[::1]:8080".parse().unwrap()));
        assert_eq!(address("0.0.0.0:0"), Ok("0.0.0.0:0".parse().unwrap()));
        for bad in ["", "8080", ":8080", "127.0.0.1", "127.0.0.1:65536", "example.com:80", "::1:80x"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cpu_lists() {
        for (text, list) in
            [("0", vec![0]), ("0,1", vec![0, 1]), ("2-5", vec![2, 3, 4, 5]), ("7,2-4,0", vec![7, 2, 3, 4, 0])]
        {
            assert_eq!(cpus(text).as_ref(), Ok(&list), "{text}");
            assert_eq!(cpus(&show_cpus(&list)), Ok(list), "{text} back from text");
        }
        for bad in ["", "a", "0,", "1-", "5-2", "0,0", "0-3,2", "1024", "0-1023", "0--1", "-1"] {
            assert!(cpus(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn whole_numbers() {
        assert_eq!(whole("1024", 1024..=2048), Ok(1024));
        assert_eq!(whole("1023", 1024..=2048).unwrap_err().problem, "too small");
        assert_eq!(whole("99999999999999999999999", 1..=2).unwrap_err().problem, "too large");
        for bad in ["", "-1", "+1", "1_000", "1e3", " 1", "١"] {
            assert_eq!(whole(bad, 0..=10).unwrap_err().problem, "not a whole number", "{bad}");
        }
    }
}
