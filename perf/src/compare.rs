//! `compare`: the same load on several subjects, taken round by round, so that what slows a minute slows all of them. It
//! measures nothing itself: servers are measured as by `fanout`, the floor as by `floor`. A subject that fails is named and
//! the others go on.

pub(crate) mod keeper;
mod table;

use crate::fanout;
use crate::floor::{self, Ask, Size, events_per_write_of};
use crate::options::{BadOption, Compare, Load, Mode, Rate, Subject};
use crate::process::server_cpus;
use crate::record::Record;
use crate::target::Trouble;
use clap::ValueEnum;
use keeper::Kept;
use std::fs::File;
use std::path::Path;
use table::{CompareReport, Row};

pub(crate) fn run(args: &Compare) -> Result<CompareReport, Trouble> {
    let mut file = args.base.out.as_deref().map(open).transpose()?;
    let mut report = CompareReport::new(args);
    for &watchers in &args.watchers {
        let base = Load { watchers, floor: Some(Vec::new()), ..args.base.clone() };
        // Events in one write of a server, for the floor.
        let mut shown = None;
        for round in 1..=args.rounds {
            for index in order_of(round, args.subjects.len()) {
                let subject = &args.subjects[index];
                eprintln!("{watchers} watchers, round {round} of {}: {subject}", args.rounds);
                match measure(args, &base, subject, &mut shown) {
                    Ok(found) => {
                        let record = Record { round, ..found };
                        if let Some(file) = &mut file {
                            // At once, so that what was measured stays when the rest is interrupted.
                            crate::child::send(file, &record).map_err(|fault| format!("--out: {fault}"))?;
                        }
                        report.add(Row { watchers, round, subject: index }, record);
                    }
                    Err(why) => {
                        eprintln!("revcast-perf: {subject} failed with {watchers} watchers: {why}");
                        report.fail(subject, watchers, round, &why);
                    }
                }
            }
        }
    }
    report.judge();
    Ok(report)
}

/// Every second round goes the other way round, so that no subject always comes first.
fn order_of(round: u32, subjects: usize) -> Vec<usize> {
    if round.is_multiple_of(2) { (0..subjects).rev().collect() } else { (0..subjects).collect() }
}

/// One run of one subject. `shown`: events in one write of the last server.
fn measure(
    args: &Compare,
    base: &Load,
    subject: &Subject,
    shown: &mut Option<u32>,
) -> Result<Record, String> {
    let cpus = server_cpus(&args.server_cpu, &base.client_cpus);
    let report = match subject {
        #[cfg(feature = "etcd")]
        Subject::Etcd(etcd) => match &**etcd {
            Subject::Url(address) => behind_bridge(address, base)?,
            Subject::Command(words) => {
                let kept = Kept::start(words, &cpus)?;
                behind_bridge(&kept.server(), base)?
            }
            Subject::Etcd(_) | Subject::Floor(_) => return Err("this is no etcd".to_owned()),
        },
        Subject::Url(address) => server(&Load { server: address.clone(), ..base.clone() })?,
        Subject::Command(words) => {
            // Dropped after the run, whatever its outcome: then the server ends.
            let kept = Kept::start(words, &cpus)?;
            server(&Load { server: kept.server(), ..base.clone() }).map_err(|why| {
                kept.last_words().map_or_else(|| why.clone(), |said| format!("{why} ({said})"))
            })?
        }
        Subject::Floor(mode) => {
            let known = if base.rate == Rate::Max { *shown } else { None };
            let events_per_write = base.events_per_write.or(known).unwrap_or(1);
            let modes = mode.map_or_else(|| Mode::value_variants().to_vec(), |mode| vec![mode]);
            let size = Size::Object(base.size_bytes);
            let ask = Ask { base: base.clone(), size, events_per_write, server_cpus: cpus };
            let found = floor::measure_all(&ask, &modes).map_err(|trouble| trouble.to_string())?;
            for found in &found {
                found.notes.iter().for_each(|note| eprintln!("floor:{}: {note}", found.mode));
            }
            let mut record = found[0].report.record_as(&format!("floor {}", found[0].mode), 0);
            record.set("events_per_write", f64::from(events_per_write));
            return Ok(record);
        }
    };
    *shown = Some(events_per_write_of(base, &report));
    Ok(report.record_as(&subject.to_string(), 0))
}

fn server(base: &Load) -> Result<crate::report::Report, String> {
    fanout::run(base).map_err(|trouble| trouble.to_string())
}

/// The same load on a bare etcd. Its process is measured, not the bridge's.
#[cfg(feature = "etcd")]
fn behind_bridge(etcd: &crate::endpoint::Server, base: &Load) -> Result<crate::report::Report, String> {
    let address = etcd.resolve(base.anywhere).map_err(|fault| fault.to_string())?;
    let server_pid = crate::usage::listener(address).filter(|_| address.ip().is_loopback());
    let bridge = crate::bridge::Bridge::start(etcd)?;
    server(&Load { server: bridge.server(), server_pid, ..base.clone() })
}

fn open(path: &Path) -> Result<File, BadOption> {
    File::create(path)
        .map_err(|fault| BadOption::new("--out", path.display(), format!("cannot be written: {fault}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_take_turns() {
        assert_eq!(order_of(1, 3), [0, 1, 2]);
        assert_eq!(order_of(2, 3), [2, 1, 0]);
        assert_eq!(order_of(3, 2), [0, 1]);
    }
}
