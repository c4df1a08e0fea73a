//! The floor beside a run: measured right after it, with the same watchers, bytes, rate and events per write.

use super::{Ask, CPU, Size, measure_all};
use crate::options::{Load, Mixture, Mode, Rate};
use crate::process;
use crate::record::Record;
use crate::target::Trouble;
use crate::units::whole;
use clap::ValueEnum;
use std::net::SocketAddr;
use std::time::Duration;

/// The measured time of all modes together, at most.
const MEASURED: Duration = Duration::from_secs(3);
const WARMUP_MAX: Duration = Duration::from_millis(500);
/// Events that one write carries at most: pieces of a writev.
const EVENTS_PER_WRITE_MAX: u32 = 1024;

pub(crate) const BESIDE: &str = "
    floor_mode floor_cpu_ratio floor_rate_ratio floor_cpu_ns_per_delivery floor_deliveries_per_second floor_events_per_write
    floor_warning floor_notes floor_fault";

pub(crate) fn add_beside(args: &Load, address: SocketAddr, record: &mut Record) {
    let modes = match &args.floor {
        Some(modes) => modes.as_slice(),
        // The floor of another machine is not measured here, and no process means no CPU to compare.
        None if !address.ip().is_loopback() || !record.facts.contains_key("server_pid") => return,
        None => Mode::value_variants(),
    };
    let Some(ask) = ask(args, record, modes).filter(|_| !modes.is_empty()) else { return };
    if let Err(why) = add(&ask, modes, record) {
        record.tell("floor_fault", why.to_string());
    }
}

fn add(ask: &Ask, modes: &[Mode], record: &mut Record) -> Result<(), Trouble> {
    let all = measure_all(ask, modes)?;
    let floor = &all[0];
    record.tell("floor_mode", floor.facts.get("mode").cloned());
    record.set("floor_events_per_write", ask.events_per_write);
    if let Size::Frame(bytes) = ask.size {
        record.set("floor_frame_bytes", bytes);
    }
    for name in [CPU, "deliveries_per_second", "latency_p50_ns", "latency_p99_ns"] {
        record.set(&format!("floor_{}", name.trim_start_matches("server_")), floor.value(name));
    }
    for found in &all {
        let mode = found.facts.get("mode").and_then(|mode| mode.as_str()).unwrap_or_default();
        record.set(&format!("floor_cpu_ns_per_delivery_by_mode_{mode}"), found.value(CPU));
    }
    for (name, value) in [("floor_cpu_ratio", CPU), ("floor_rate_ratio", "deliveries_per_second")] {
        let both = record.value(value).zip(floor.value(value).filter(|&floor| floor > 0.0));
        record.set(name, both.map(|(own, floor)| own / floor));
    }
    let clean = all.iter().all(|found| found.clean);
    record.set("floor_clean", clean);
    if !clean {
        record.tell("floor_warning", "it is NOT clean, so it compares nothing");
    }
    let notes: Vec<_> = all.iter().filter_map(|found| found.facts.get("notes")).cloned().collect();
    if !notes.is_empty() {
        record.tell("floor_notes", notes);
    }
    Ok(())
}

/// The floor of what a run showed, measured for about three seconds over all modes. `None`: nothing was delivered.
fn ask(args: &Load, record: &Record, modes: &[Mode]) -> Option<Ask> {
    let frame_bytes = usize::try_from(whole(record.value("frame_bytes")?)).ok()?;
    // A watcher of one namespace of several, or behind a selector, gets a part of the writes.
    let all = record.count("writes") * f64::from(record.watchers);
    let part = if all > 0.0 { (record.count("deliveries") / all).min(1.0) } else { 1.0 };
    let rate = args.rate.per_second().map_or(Rate::Max, |rate| Rate::PerSecond((rate * part).max(0.001)));
    let pid = record.facts.get("server_pid").and_then(|pid| u32::try_from(pid.as_u64()?).ok());
    let mut ask = Ask {
        base: Load {
            rate,
            // Nothing else goes on beside the floor.
            mixture: Mixture::default(),
            probe: false,
            warmup: args.warmup.min(WARMUP_MAX),
            ..args.clone()
        },
        size: Size::Frame(frame_bytes),
        events_per_write: events_per_write_of(args, record),
        // Empty: anywhere.
        server_cpus: pid.and_then(process::cpus_of).unwrap_or_default(),
    };
    let share = MEASURED / u32::try_from(ask.worth(modes).len()).unwrap_or(1).max(1);
    ask.base.duration = ask.base.duration.min(share);
    Some(ask)
}

/// How many events of each watch a write of that server carried, if nobody says it: what one read found, in the mean. At the highest
/// rate that is an upper bound: a reader with no time left finds several writes in one read. What is under way at the
/// writers is no bound for it: a server may reply before it has sent.
pub(crate) fn events_per_write_of(args: &Load, record: &Record) -> u32 {
    let found = || {
        let streams = args.streams().unwrap_or(1).min(record.watchers.max(1));
        let each = record.value("events_per_read").unwrap_or(1.0) / f64::from(streams);
        let found = u32::try_from(whole(each)).unwrap_or(u32::MAX);
        found.clamp(1, EVENTS_PER_WRITE_MAX)
    };
    args.events_per_write.unwrap_or_else(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(events_per_read: f64) -> Record {
        let mut record = Record { watchers: 10, ..Record::default() };
        for (name, value) in [("writes", 100.0), ("deliveries", 500.0), ("frame_bytes", 1083.4)] {
            record.set(name, value);
        }
        record.set("events_per_read", events_per_read);
        record
    }

    #[test]
    fn the_floor_matches_what_was_shown() {
        let args = Load { rate: Rate::PerSecond(20.0), ..Load::default() };
        let all = Mode::value_variants();
        let floor = ask(&args, &record(2.6), all).expect("something was delivered");
        assert!(matches!(floor.size, Size::Frame(1083)) && floor.events_per_write == 3, "{floor:?}");
        assert_eq!(floor.base.rate, Rate::PerSecond(10.0), "each watcher got half of the writes");
        assert_eq!(floor.worth(all), [Mode::Send, Mode::Writev, Mode::Uring], "for pages that is too little");
        assert_eq!(floor.base.duration, Duration::from_secs(1));
        let mut long = record(2.6);
        long.set("frame_bytes", 16_384);
        let long = ask(&args, &long, all).expect("as above");
        assert_eq!((long.worth(all), long.base.duration), (all.to_vec(), Duration::from_millis(750)));
        assert_eq!(floor.worth(&[Mode::Pages]), [Mode::Pages], "it was asked for");
        let max =
            ask(&Load { rate: Rate::Max, ..args.clone() }, &record(2.6), &[Mode::Send]).expect("as above");
        assert_eq!(max.base.rate, Rate::Max);
        assert!(ask(&args, &Record::default(), all).is_none());
        assert_eq!(events_per_write_of(&args, &record(1e9)), EVENTS_PER_WRITE_MAX);
        assert_eq!(events_per_write_of(&args, &record(0.1)), 1);
        let told = Load { events_per_write: Some(64), ..args };
        assert_eq!(events_per_write_of(&told, &record(0.1)), 64);
    }

    #[test]
    fn what_is_not_wanted_is_not_measured() {
        let local = SocketAddr::from(([127, 0, 0, 1], 1));
        let far = SocketAddr::from(([192, 0, 2, 1], 1));
        let mut found = record(1.0);
        add_beside(&Load { floor: Some(Vec::new()), ..Load::default() }, local, &mut found);
        add_beside(&Load::default(), local, &mut found);
        found.tell("server_pid", 1);
        let before = found.clone();
        add_beside(&Load::default(), far, &mut found);
        assert_eq!(found, before);
    }
}
