//! Values of options: each is read here or refused with the mend.

use super::Mode;
use super::Rate;
use clap::ValueEnum;
use clap::builder::RangedI64ValueParser;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

const LONGEST: Duration = Duration::from_secs(30 * 86_400);

/// One value of a list of CPUs. Not `Vec` in the options' structs, where it would mean a repeated option.
pub(crate) type Cpus = Vec<usize>;
pub(crate) type Modes = Vec<Mode>;

type Read<T> = Result<T, &'static str>;

pub(super) fn within(least: u32, most: u32) -> RangedI64ValueParser<u32> {
    RangedI64ValueParser::new().range(i64::from(least)..=i64::from(most))
}

fn number_in<T: FromStr + PartialOrd>(text: &str, range: &RangeInclusive<T>) -> Option<T> {
    text.parse().ok().filter(|number| range.contains(number))
}

/// `30s`, `500ms`, `2m`, `1h`, `1.5s` or a bare number of seconds.
fn duration(text: &str) -> Option<Duration> {
    let bare = || Duration::try_from_secs_f64(text.parse().ok()?).ok();
    let spelled = || text.parse::<jiff::SignedDuration>().ok()?.try_into().ok();
    bare().or_else(spelled).filter(|time| *time <= LONGEST)
}

pub(super) fn time(text: &str) -> Read<Duration> {
    duration(text).ok_or("give a time, for example 10s, 500ms or 2m, at most 30 days")
}

pub(super) fn positive_time(text: &str) -> Read<Duration> {
    let fits = duration(text).filter(|&time| time >= Duration::from_millis(100));
    fits.ok_or("give a time, for example 30s or 2m, from 100ms to 30 days")
}

/// `1KiB`, `512B`, `1MiB`, `1kB`, `1MB` or a bare number of bytes.
pub(super) fn size(least: usize, most_mib: usize) -> impl Fn(&str) -> Result<usize, String> + Clone {
    move |text| {
        let fits = |size: &usize| (least..=most_mib << 20).contains(size);
        let mend = || {
            format!("give bytes, KiB or MiB, for example 64KiB, at least {least}B and at most {most_mib}MiB")
        };
        bytes(text).filter(fits).ok_or_else(mend)
    }
}

fn bytes(text: &str) -> Option<usize> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let bytes = match unit {
        "" | "B" => 1,
        "kB" => 1000,
        "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "MiB" => 1 << 20,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(bytes)
}

pub(super) fn rate(text: &str) -> Read<Rate> {
    if text == "max" {
        return Ok(Rate::Max);
    }
    let per_second = number_in(text, &(0.001..=10_000_000.0));
    per_second.map(Rate::PerSecond).ok_or("give writes a second, for example 20 or 0.5, or max")
}

pub(super) fn percent(text: &str) -> Read<f64> {
    let percent =
        number_in(text, &(0.0..=100.0)).ok_or("give per cent from 0 to 100, for example 1 or 0.5")?;
    Ok(percent / 100.0)
}

/// `none` is 0, which is no number of interests.
pub(super) fn interest_count(text: &str) -> Read<u32> {
    let count = if text == "none" { Some(0) } else { number_in(text, &(1..=10_000_000)) };
    count.ok_or("give whole numbers from 1 to 10000000, or none")
}

pub(super) fn dns_label(text: &str) -> Read<String> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let valid = (1..=50).contains(&text.len()) && text.bytes().all(inner) && text.trim_matches('-') == text;
    valid.then(|| text.to_owned()).ok_or("give a-z, 0-9 and - inside, at most 50 characters")
}

pub(super) fn cpus(text: &str) -> Read<Cpus> {
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = first.parse::<usize>().ok().zip(last.parse::<usize>().ok());
        let range = range.filter(|(first, last)| first <= last && *last < rustix::thread::CpuSet::MAX_CPU);
        let (first, last) = range.ok_or("give CPU numbers, for example 1 or 1,3 or 2-5")?;
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

pub(super) fn loopback(text: &str) -> Read<SocketAddr> {
    let address = text.parse().ok().filter(|address: &SocketAddr| address.ip().is_loopback());
    address.ok_or("give an address of this machine, for example 127.0.0.1:8443")
}

pub(super) fn modes(text: &str) -> Read<Modes> {
    match text {
        "all" => Ok(Mode::value_variants().to_vec()),
        mode => one_mode(mode).ok_or("give send, writev, uring, pages or all"),
    }
}

/// Of `fanout`: `off` is no mode at all.
pub(super) fn floor_modes(text: &str) -> Read<Modes> {
    match text {
        "off" => Ok(Vec::new()),
        "best" => modes("all"),
        mode => one_mode(mode).ok_or("give send, writev, uring, pages, best or off"),
    }
}

fn one_mode(text: &str) -> Option<Modes> {
    Mode::from_str(text, false).ok().map(|mode| vec![mode])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_as_written() {
        for (text, millis) in
            [("30s", 30_000), ("500ms", 500), ("1.5m", 90_000), ("7", 7000), ("1h", 3_600_000)]
        {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "s", "-1s", "-1", "5d", "NaNs", "NaN", "1e400s", "721h"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
        for (text, bytes) in [("1KiB", 1024), ("100", 100), ("2MB", 2_000_000), ("512B", 512)] {
            assert_eq!(size(1, 1024)(text), Ok(bytes), "{text}");
        }
        for bad in ["", "KiB", "1.5KiB", "-1", "1GiB", "99999999999999999999", "1025MiB", "0"] {
            assert!(size(1, 1024)(bad).is_err(), "{bad}");
        }
    }
}
