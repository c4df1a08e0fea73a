//! Values of options: each is read here or refused with the mend.

use super::Mode;
use super::Rate;
use crate::units::{parse_duration, parse_size};
use clap::ValueEnum;
use clap::builder::RangedI64ValueParser;
use std::net::SocketAddr;
use std::time::Duration;

const LONGEST: Duration = Duration::from_secs(30 * 86_400);

/// One value of a list of CPUs. Not `Vec` in the options' structs, where it would mean a repeated option.
pub(crate) type Cpus = Vec<usize>;
pub(crate) type Modes = Vec<Mode>;

pub(super) fn within(least: u32, most: u32) -> RangedI64ValueParser<u32> {
    RangedI64ValueParser::new().range(i64::from(least)..=i64::from(most))
}

pub(super) fn time(text: &str) -> Result<Duration, &'static str> {
    let fits = parse_duration(text).filter(|&time| time <= LONGEST);
    fits.ok_or("give a time, for example 10s, 500ms or 2m, at most 30 days")
}

pub(super) fn positive_time(text: &str) -> Result<Duration, &'static str> {
    let fits = time(text).ok().filter(|&time| time >= Duration::from_millis(100));
    fits.ok_or("give a time, for example 30s or 2m, from 100ms to 30 days")
}

pub(super) fn object_size(text: &str) -> Result<usize, &'static str> {
    let fits = parse_size(text).filter(|&bytes| bytes <= 16 << 20);
    fits.ok_or("give bytes, KiB or MiB, for example 1KiB, at most 16MiB")
}

pub(super) fn buffer(text: &str) -> Result<usize, &'static str> {
    let fits = parse_size(text).filter(|&bytes| bytes <= 1 << 30);
    fits.ok_or("give bytes, KiB or MiB, for example 64KiB, at most 1024MiB")
}

pub(super) fn some_buffer(text: &str) -> Result<usize, &'static str> {
    buffer(text).and_then(|bytes| if bytes > 0 { Ok(bytes) } else { Err("give at least 1 byte") })
}

pub(super) fn rate(text: &str) -> Result<Rate, &'static str> {
    if text == "max" {
        return Ok(Rate::Max);
    }
    let per_second = text.parse().ok().filter(|rate: &f64| (0.001..=10_000_000.0).contains(rate));
    per_second.map(Rate::PerSecond).ok_or("give writes a second, for example 20 or 0.5, or max")
}

pub(super) fn percent(text: &str) -> Result<f64, &'static str> {
    let percent = text.parse().ok().filter(|percent: &f64| (0.0..=100.0).contains(percent));
    percent.ok_or("give per cent a second from 0 to 100, for example 1 or 0.5")
}

/// `none` is 0, which is no number of interests.
pub(super) fn interest_count(text: &str) -> Result<u32, &'static str> {
    if text == "none" {
        return Ok(0);
    }
    let count = text.parse().ok().filter(|count| (1..=10_000_000).contains(count));
    count.ok_or("give whole numbers from 1 to 10000000, or none")
}

pub(super) fn dns_label(text: &str) -> Result<String, &'static str> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let valid = (1..=50).contains(&text.len()) && text.bytes().all(inner) && text.trim_matches('-') == text;
    valid.then(|| text.to_owned()).ok_or("give a-z, 0-9 and - inside, at most 50 characters")
}

pub(super) fn cpus(text: &str) -> Result<Cpus, &'static str> {
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

pub(super) fn loopback(text: &str) -> Result<SocketAddr, &'static str> {
    let address = text.parse().ok().filter(|address: &SocketAddr| address.ip().is_loopback());
    address.ok_or("give an address of this machine, for example 127.0.0.1:8443")
}

pub(super) fn modes(text: &str) -> Result<Modes, &'static str> {
    if text == "all" {
        return Ok(Mode::value_variants().to_vec());
    }
    Mode::from_str(text, false).map(|mode| vec![mode]).map_err(|_| "give send, writev, uring or all")
}

/// Of `fanout`: `off` is no mode at all.
pub(super) fn floor_modes(text: &str) -> Result<Modes, &'static str> {
    match text {
        "off" => Ok(Vec::new()),
        "best" => modes("all"),
        mode if mode != "all" => modes(mode).map_err(|_| "give send, writev, uring, best or off"),
        _ => Err("give send, writev, uring, best or off"),
    }
}
