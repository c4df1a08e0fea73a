//! `compare`: the same load on several subjects, taken round by round, so that what slows a minute slows all of them. It
//! measures nothing itself: servers are measured as by `fanout`, the floor as by `floor`. A subject that fails is named and
//! the others go on.

pub(crate) mod keeper;
mod subject;
mod table;

pub(crate) use subject::Subject;
pub(crate) use table::CompareReport;

use crate::args::compare::Compare;
use crate::args::floor::{FloorChoice, server_cpus};
use crate::args::{BadOption, Fanout, Rate};
use crate::fanout::{self, Trouble};
use crate::floor::{self, Ask, Mode, Size, events_per_write_of};
use crate::record::Record;
use crate::report::Report;
use keeper::Kept;
use std::fs::File;
use std::io::Write;
use table::Row;

/// Compares.
pub(crate) fn run(args: &Compare) -> Result<CompareReport, Trouble> {
    let mut file = args.out.as_ref().map(|path| open(path)).transpose()?;
    let mut report = CompareReport::new(args);
    for &watchers in &args.watchers {
        let base = Fanout { watchers, floor: FloorChoice::Off, ..args.base.clone() };
        // What a server's writes carried, for the floor.
        let mut shown = None;
        for round in 1..=args.rounds {
            for index in order_of(round, args.subjects.len()) {
                let subject = &args.subjects[index];
                eprintln!("{watchers} watchers, round {round} of {}: {subject}", args.rounds);
                let record = match measure(args, &base, subject, shown) {
                    Ok(found) => {
                        if !matches!(subject, Subject::Floor(_)) {
                            shown = Some(events_per_write_of(&base, &found.report));
                        }
                        found.record(subject, round)
                    }
                    Err(why) => {
                        eprintln!("revcast-perf: {subject} failed with {watchers} watchers: {why}");
                        report.fail(subject, watchers, round, &why);
                        continue;
                    }
                };
                if let Some(file) = &mut file {
                    write_line(file, &record)?;
                }
                report.add(Row { watchers, round, subject: index }, record);
            }
        }
    }
    report.judge();
    Ok(report)
}

/// Every second round goes the other way round, so that nobody always comes first.
fn order_of(round: u32, subjects: usize) -> Vec<usize> {
    if round.is_multiple_of(2) { (0..subjects).rev().collect() } else { (0..subjects).collect() }
}

/// One run of one subject.
struct Found {
    report: Report,
    /// Of the floor: what it was told.
    events_per_write: Option<u32>,
    mode: Option<Mode>,
}

impl Found {
    fn of(report: Report) -> Self {
        Self { report, events_per_write: None, mode: None }
    }

    fn record(&self, subject: &Subject, round: u32) -> Record {
        let name = match self.mode {
            Some(mode) => format!("floor {mode}"),
            None => subject.to_string(),
        };
        let mut record = self.report.record_as(&name, round);
        record.set("events_per_write", self.events_per_write.map(f64::from));
        record
    }
}

fn measure(args: &Compare, base: &Fanout, subject: &Subject, shown: Option<u32>) -> Result<Found, String> {
    let server = |base: &Fanout| fanout::run(base).map(Found::of).map_err(|trouble| trouble.to_string());
    let cpus = server_cpus(&args.server_cpu, &base.client_cpus);
    match subject {
        #[cfg(feature = "etcd")]
        Subject::Etcd(etcd) => match &**etcd {
            Subject::Url(address) => behind_bridge(address, base).map(Found::of),
            Subject::Command(words) => {
                let kept = Kept::start(words, &cpus)?;
                behind_bridge(&kept.server(), base).map(Found::of)
            }
            Subject::Etcd(_) | Subject::Floor(_) => Err("this is no etcd".to_owned()),
        },
        Subject::Url(address) => server(&Fanout { server: address.clone(), ..base.clone() }),
        Subject::Command(words) => {
            // Dropped behind the run, whatever its outcome: then the server ends.
            let kept = Kept::start(words, &cpus)?;
            let outcome = server(&Fanout { server: kept.server(), ..base.clone() });
            outcome.map_err(|why| {
                kept.last_words().map_or_else(|| why.clone(), |said| format!("{why} ({said})"))
            })
        }
        Subject::Floor(mode) => {
            let known = if base.rate == Rate::Max { shown } else { None };
            let events_per_write = base.events_per_write.or(known).unwrap_or(1);
            let modes = mode.map_or_else(|| Mode::ALL.to_vec(), |mode| vec![mode]);
            let measure = |mode: Mode| {
                let ask = Ask {
                    mode,
                    base: base.clone(),
                    size: Size::Object(base.size_bytes),
                    events_per_write,
                    server_cpus: cpus.clone(),
                };
                let found = floor::measure(&ask).map_err(|trouble| trouble.to_string())?;
                found.notes.iter().for_each(|note| eprintln!("floor:{mode}: {note}"));
                Ok(Found { report: found.report, events_per_write: Some(events_per_write), mode: Some(mode) })
            };
            let found: Vec<Found> = modes.into_iter().map(measure).collect::<Result<_, String>>()?;
            let cpu = |found: &Found| found.report.server_cpu_ns_per_delivery.unwrap_or(f64::INFINITY);
            let best = found.into_iter().min_by(|one, other| cpu(one).total_cmp(&cpu(other)));
            best.ok_or_else(|| "no mode of the floor was measured".to_owned())
        }
    }
}

/// The same load on a bare etcd. Its process is measured, not the bridge's.
#[cfg(feature = "etcd")]
fn behind_bridge(etcd: &crate::target::Server, base: &Fanout) -> Result<Report, String> {
    let address = etcd.resolve(base.anywhere).map_err(|fault| fault.to_string())?;
    let server_pid = crate::procfs::listener(address).filter(|_| address.ip().is_loopback());
    let bridge = crate::bridge::Bridge::start(etcd)?;
    let base = Fanout { server: bridge.server(), server_pid, ..base.clone() };
    fanout::run(&base).map_err(|trouble| trouble.to_string())
}

fn open(path: &std::path::Path) -> Result<File, BadOption> {
    let shown = path.to_string_lossy();
    File::create(path).map_err(|fault| BadOption::new("--out", &shown, format!("cannot be written: {fault}")))
}

/// At once, so that what was measured stays when the rest is interrupted.
fn write_line(file: &mut File, record: &Record) -> Result<(), String> {
    let mut line = serde_json::to_vec(record).map_err(|fault| fault.to_string())?;
    line.push(b'\n');
    file.write_all(&line).map_err(|fault| format!("--out: {fault}"))
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
