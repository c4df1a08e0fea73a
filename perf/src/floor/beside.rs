//! The floor beside a run: measured right behind it, with the same watchers, bytes, rate and events per write, and put
//! into the run's report as ratios.

use super::{Ask, Size, measure_all};
use crate::options::{Load, Mixture, Mode, Rate};
use crate::report::Report;
use crate::target::Trouble;
use crate::units::{Unit, show_rate, whole};
use crate::usage;
use clap::ValueEnum;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// The measured time of all modes together, at most.
const MEASURED: Duration = Duration::from_secs(3);
const WARMUP_MAX: Duration = Duration::from_millis(500);
/// Events that one write carries at most: pieces of a writev.
const EVENTS_PER_WRITE_MAX: u32 = 1024;

/// What a run showed, as far as the floor has to match it.
#[derive(Clone, Debug)]
struct Shown {
    pub(crate) frame_bytes: usize,
    pub(crate) rate: Rate,
    pub(crate) events_per_write: u32,
    /// Where the server runs; empty: anywhere.
    pub(crate) server_cpus: Vec<usize>,
    pub(crate) cpu_ns_per_delivery: Option<f64>,
    pub(crate) deliveries_per_second: f64,
}

/// The floor, and the run as ratios to it.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Beside {
    /// The mode whose figures these are: with the least CPU a delivery of those that were measured.
    floor_mode: Option<Mode>,
    floor_events_per_write: u32,
    floor_frame_bytes: usize,
    pub(crate) floor_cpu_ns_per_delivery: Option<f64>,
    floor_deliveries_per_second: Option<f64>,
    floor_latency_p50_ns: Option<u64>,
    floor_latency_p99_ns: Option<u64>,
    /// CPU a delivery of every mode that was measured.
    floor_cpu_ns_per_delivery_by_mode: BTreeMap<&'static str, f64>,
    /// The run's CPU a delivery, of the floor's.
    pub(crate) floor_cpu_ratio: Option<f64>,
    /// The run's deliveries a second, of the floor's.
    pub(crate) floor_rate_ratio: Option<f64>,
    floor_clean: bool,
    floor_notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    floor_fault: Option<String>,
}

/// Puts the floor into a run's report, if one is wanted and there is something to compare with.
pub(crate) fn beside_report(args: &Load, address: SocketAddr, report: &mut Report) {
    let modes = match &args.floor {
        Some(modes) => modes.as_slice(),
        // The floor of another machine is not measured here, and no process means no CPU to compare.
        None if !address.ip().is_loopback() || report.server_pid.is_none() => return,
        None => Mode::value_variants(),
    };
    let Some(shown) = Shown::of(args, report).filter(|_| !modes.is_empty()) else { return };
    report.floor = Some(match beside(args, shown, modes) {
        Ok(beside) => beside,
        Err(why) => Beside { floor_fault: Some(why.to_string()), ..Beside::default() },
    });
}

/// Measures `modes` for about three seconds together; `base` says how the watchers are opened.
fn beside(base: &Load, shown: Shown, modes: &[Mode]) -> Result<Beside, Trouble> {
    let share = MEASURED / u32::try_from(modes.len()).unwrap_or(1).max(1);
    let base = Load {
        rate: shown.rate,
        // Nothing else goes on beside the floor.
        mixture: Mixture::default(),
        probe: false,
        duration: base.duration.min(share),
        warmup: base.warmup.min(WARMUP_MAX),
        ..base.clone()
    };
    let (size, events_per_write) = (Size::Frame(shown.frame_bytes), shown.events_per_write);
    let all = measure_all(&Ask { base, size, events_per_write, server_cpus: shown.server_cpus }, modes)?;
    let report = &all[0].report;
    let (floor_cpu, floor_rate) = (report.server_cpu_ns_per_delivery, report.deliveries_per_second);
    Ok(Beside {
        floor_mode: Some(all[0].mode),
        floor_events_per_write: events_per_write,
        floor_frame_bytes: shown.frame_bytes,
        floor_cpu_ns_per_delivery: floor_cpu,
        floor_deliveries_per_second: Some(floor_rate),
        floor_latency_p50_ns: Some(report.latency_p50_ns),
        floor_latency_p99_ns: Some(report.latency_p99_ns),
        floor_cpu_ns_per_delivery_by_mode: all
            .iter()
            .filter_map(|found| Some((found.mode.name(), found.report.server_cpu_ns_per_delivery?)))
            .collect(),
        floor_cpu_ratio: shown.cpu_ns_per_delivery.zip(floor_cpu).map(|(own, floor)| own / floor),
        floor_rate_ratio: (floor_rate > 0.0).then(|| shown.deliveries_per_second / floor_rate),
        floor_clean: all.iter().all(|found| found.report.clean),
        floor_notes: all.iter().flat_map(|found| found.notes.clone()).collect(),
        floor_fault: None,
    })
}

impl Shown {
    /// `None`: nothing was delivered.
    fn of(args: &Load, report: &Report) -> Option<Self> {
        let frame_bytes = usize::try_from(whole(report.frame_bytes?)).ok()?;
        let events_per_write = events_per_write_of(args, report);
        // A watcher of one namespace of several, or behind a selector, gets a part of the writes.
        let all = report.writes as f64 * f64::from(report.watchers);
        let part = if all > 0.0 { (report.seen.measured as f64 / all).min(1.0) } else { 1.0 };
        let rate = args.rate.per_second().map_or(Rate::Max, |rate| Rate::PerSecond((rate * part).max(0.001)));
        Some(Self {
            frame_bytes,
            rate,
            events_per_write,
            server_cpus: report.server_pid.and_then(usage::cpus_of).unwrap_or_default(),
            cpu_ns_per_delivery: report.server_cpu_ns_per_delivery,
            deliveries_per_second: report.deliveries_per_second,
        })
    }
}

/// How many events a write of that server carried, if nobody says it: what one read found, in the mean. At the highest
/// rate that is an upper bound: a reader with no time left finds several writes in one read. What is under way at the
/// writers is no bound for it: a server may reply before it has sent.
pub(crate) fn events_per_write_of(args: &Load, report: &Report) -> u32 {
    let found = || {
        let found = u32::try_from(whole(report.events_per_read.unwrap_or(1.0))).unwrap_or(u32::MAX);
        found.clamp(1, EVENTS_PER_WRITE_MAX)
    };
    args.events_per_write.unwrap_or_else(found)
}

impl fmt::Display for Beside {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(fault) = &self.floor_fault {
            return write!(out, "not measured: {fault}");
        }
        let ratio =
            |ratio: Option<f64>| ratio.map_or_else(|| "?".to_owned(), |ratio| Unit::Ratio.show(ratio));
        let cpu = self
            .floor_cpu_ns_per_delivery
            .map_or_else(|| "no CPU".to_owned(), |ns| Unit::Nanoseconds.show(ns));
        let mode = self.floor_mode.map_or("", Mode::name);
        write!(
            out,
            "CPU {} of it, rate {} of it: {mode} needs {cpu} a delivery, {}, {} events a write",
            ratio(self.floor_cpu_ratio),
            ratio(self.floor_rate_ratio),
            show_rate(self.floor_deliveries_per_second.unwrap_or(0.0)),
            self.floor_events_per_write,
        )?;
        if !self.floor_clean {
            write!(out, "; it is NOT clean, so it compares nothing")?;
        }
        for note in &self.floor_notes {
            write!(out, "; {note}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Seen;

    fn report() -> Report {
        Report {
            watchers: 10,
            writes: 100,
            seen: Seen { measured: 500, ..Seen::default() },
            deliveries_per_second: 50.0,
            frame_bytes: Some(1083.4),
            events_per_read: Some(2.6),
            ..Report::default()
        }
    }

    #[test]
    fn the_floor_matches_what_was_shown() {
        let args = Load { rate: Rate::PerSecond(20.0), ..Load::default() };
        let shown = Shown::of(&args, &report()).expect("something was delivered");
        assert_eq!((shown.frame_bytes, shown.events_per_write), (1083, 3));
        assert_eq!(shown.rate, Rate::PerSecond(10.0), "each watcher got half of the writes");
        let max = Shown::of(&Load { rate: Rate::Max, ..args.clone() }, &report()).expect("as above");
        assert_eq!(max.rate, Rate::Max);
        assert!(Shown::of(&args, &Report::default()).is_none());
        let many = Report { events_per_read: Some(1e9), ..report() };
        assert_eq!(events_per_write_of(&args, &many), EVENTS_PER_WRITE_MAX);
        let few = Report { events_per_read: Some(0.1), ..report() };
        assert_eq!(events_per_write_of(&args, &few), 1);
        let told = Load { events_per_write: Some(64), ..args };
        assert_eq!(events_per_write_of(&told, &few), 64);
    }

    #[test]
    fn one_line_with_the_ratios() {
        let beside = Beside {
            floor_mode: Some(Mode::Uring),
            floor_cpu_ns_per_delivery: Some(4_500.0),
            floor_deliveries_per_second: Some(200_000.0),
            floor_cpu_ratio: Some(1.1234),
            floor_rate_ratio: Some(0.98),
            floor_events_per_write: 1,
            floor_clean: true,
            ..Beside::default()
        };
        assert_eq!(
            beside.to_string(),
            "CPU 1.12 of it, rate 0.98 of it: uring needs 4.50 µs a delivery, 200,000/s, 1 events a write"
        );
        let json = serde_json::to_value(&beside).expect("plain numbers");
        assert!(json.get("floor_cpu_ratio").is_some() && json.get("floor_fault").is_none());
        let fault = Beside { floor_fault: Some("no port".to_owned()), ..Beside::default() };
        assert_eq!(fault.to_string(), "not measured: no port");
    }

    #[test]
    fn what_is_not_wanted_is_not_measured() {
        let local = SocketAddr::from(([127, 0, 0, 1], 1));
        let far = SocketAddr::from(([192, 0, 2, 1], 1));
        let mut found = report();
        beside_report(&Load { floor: Some(Vec::new()), ..Load::default() }, local, &mut found);
        beside_report(&Load::default(), local, &mut found);
        found.server_pid = Some(1);
        beside_report(&Load::default(), far, &mut found);
        assert!(found.floor.is_none());
    }
}
