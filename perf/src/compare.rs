//! `compare`: the same load on several subjects, taken round by round, so that what slows a minute slows all of them: servers as
//! by `fanout`, the floor as by `floor`. A subject that fails is named and the others go on.

pub(crate) mod keeper;

use crate::fanout;
use crate::floor::{self, Ask, CPU, Size, check_sender, events_per_write_of};
use crate::options::{BadOption, Compare, Floor, Load, Mode, Rate, Subject};
use crate::process::{pin, server_cpus};
use crate::record::Record;
use crate::report::Report;
use crate::table::{Spread, Table, states_of, take_turns};
use crate::target::Trouble;
use clap::ValueEnum;
use keeper::Kept;
use serde_json::json;
use std::fs::File;
use std::path::Path;

const SHOWN: &str = "server_cpu_ns_per_delivery deliveries_per_second latency_p50_ns latency_p99_ns latency_p999_ns \
    rss_bytes_per_watcher server_cpu_share client_cpu_share frame_bytes events_per_write events_per_read short_writes";
const FLOOR: &str = "floor";

/// The modes of the floor, the cheapest first, which the others are compared with.
pub(crate) fn floor(args: &Floor) -> Result<Report, Trouble> {
    check_sender(&args.base)?;
    let base = Load { out: None, ..args.base.clone() };
    let subjects = args.modes.iter().map(|&mode| Subject::Floor(Some(mode))).collect();
    let (watchers, server_cpu) = (vec![base.watchers], args.server_cpu.clone());
    run(&Compare { base, subjects, watchers, server_cpu }, FLOOR)
}

pub(crate) fn run(args: &Compare, scenario: &str) -> Result<Report, Trouble> {
    pin(&args.base.client_cpus)?;
    let mut file = args.base.out.as_deref().map(open).transpose()?;
    let names: Vec<String> = args.subjects.iter().map(ToString::to_string).collect();
    let (mut all, mut failures) = (Vec::new(), Vec::new());
    for &watchers in &args.watchers {
        eprintln!("{watchers} watchers");
        let base = Load { watchers, floor: Some(Vec::new()), ..args.base.clone() };
        // Events in one write of a server, for the floor.
        let mut shown = None;
        let runs = take_turns(args.base.rounds, &names, |at, round| {
            let measured = measure(args, &base, &args.subjects[at], &mut shown);
            let record = measured.map(|record| Record { round, ..record }).map_err(|why| {
                eprintln!("revcast-perf: {} failed with {watchers} watchers: {why}", names[at]);
                failures.push(format!("{}, {watchers} watchers, round {round}: {why}", names[at]));
            });
            if let (Some(file), Ok(record)) = (&mut file, &record) {
                // At once, so that what was measured stays when the rest is interrupted.
                crate::child::send(file, record).map_err(|fault| format!("--out: {fault}"))?;
            }
            Ok::<_, String>(record.ok())
        })?;
        all.push(runs);
    }
    Ok(report(args, scenario, &names, all, &failures))
}

/// For each number of watchers a table of the subjects. Clean is that every run was made, and every one was clean.
fn report(
    args: &Compare,
    scenario: &str,
    names: &[String],
    all: Vec<Vec<Record>>,
    failures: &[String],
) -> Report {
    let cost =
        |runs: &[&Record]| Spread::of(runs.iter().filter_map(|run| run.value(CPU))).map(|cpu| cpu.median);
    let states = |runs| {
        let mut states = states_of(names, 0, runs);
        if scenario == FLOOR {
            let costs = |state: &(_, Vec<_>)| cost(&state.1).unwrap_or(f64::INFINITY);
            states.sort_by(|one, other| costs(one).total_cmp(&costs(other)));
        }
        states
    };
    let best = all.first().map(|runs| states(runs)[0].0.replace("floor:", ""));
    let records = || all.iter().flatten();
    let named = |run: &Record| format!("{}, {} watchers, round {}", run.subject, run.watchers, run.round);
    let facts = json!({
        "write_rate_wanted_per_second": args.base.rate.per_second(),
        "rounds": args.base.rounds,
        "server_cpus": server_cpus(&args.server_cpu, &args.base.client_cpus),
        "best_mode": best.filter(|_| scenario == FLOOR),
        "failures": failures,
        "not_clean": records().filter(|record| !record.clean).map(named).collect::<Vec<_>>(),
    });
    let title = "protocol objects object_bytes write_rate_wanted_per_second rounds best_mode";
    let mut report = Report::of_runs(scenario, records(), "", facts, title);
    for (watchers, runs) in args.watchers.iter().zip(&all) {
        report.table("watchers", Table::new(json!({"watchers": watchers}), 0, &states(runs)), SHOWN);
    }
    report.values("failures\nnot_clean");
    let records = all.into_iter().flatten().collect();
    let right = "every run was made, and in each every watcher saw every write once and in order";
    report.end(records, failures.is_empty(), right)
}

/// One run of one subject. `shown`: events in one write of the last server.
fn measure(
    args: &Compare,
    base: &Load,
    subject: &Subject,
    shown: &mut Option<u32>,
) -> Result<Record, String> {
    let cpus = server_cpus(&args.server_cpu, &base.client_cpus);
    let record = match subject {
        #[cfg(feature = "etcd")]
        Subject::Etcd(etcd) => match &**etcd {
            Subject::Url(address) => behind_bridge(address, base)?,
            Subject::Command(words) => {
                let kept = Kept::start(words, &cpus, &Load::default())?;
                behind_bridge(&kept.server(), base)?
            }
            Subject::Etcd(_) | Subject::Asked(..) | Subject::Floor(_) => {
                return Err("this is no etcd".to_owned());
            }
        },
        Subject::Asked(ways, of) => {
            let mut base = base.clone();
            ways.iter().for_each(|way| way.ask(&mut base));
            let record = measure(args, &base, of, shown)?;
            // The floor names itself.
            let name = if record.facts.contains_key("mode") { record.subject } else { subject.to_string() };
            return Ok(Record { subject: name, ..record });
        }
        Subject::Url(address) => server(&Load { server: address.clone(), ..base.clone() })?,
        Subject::Command(words) => {
            // Dropped after the run, whatever its outcome: then the server ends.
            let kept = Kept::start(words, &cpus, base)?;
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
            let mut found = floor::measure_all(&ask, &modes).map_err(|trouble| trouble.to_string())?;
            return Ok(found.swap_remove(0));
        }
    };
    *shown = Some(events_per_write_of(base, &record));
    Ok(Record { subject: subject.to_string(), ..record })
}

fn server(base: &Load) -> Result<Record, String> {
    fanout::measure(base).map_err(|trouble| trouble.to_string())
}

/// The same load on a bare etcd. Its process is measured, not the bridge's.
#[cfg(feature = "etcd")]
fn behind_bridge(etcd: &crate::endpoint::Server, base: &Load) -> Result<Record, String> {
    let address = etcd.resolve(base.anywhere).map_err(|fault| fault.to_string())?;
    let server_pid = crate::process::listener(address).filter(|_| address.ip().is_loopback());
    let bridge = crate::bridge::Bridge::start(etcd)?;
    let protocol = Load::default().protocol;
    server(&Load { server: bridge.server(), server_pid, protocol, ..base.clone() })
}

fn open(path: &Path) -> Result<File, BadOption> {
    File::create(path)
        .map_err(|fault| BadOption::new("--out", path.display(), format!("cannot be written: {fault}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_mode_has_the_least_median() {
        let subjects: Vec<Subject> =
            [Mode::Send, Mode::Uring].into_iter().map(|mode| Subject::Floor(Some(mode))).collect();
        let names: Vec<String> = subjects.iter().map(ToString::to_string).collect();
        let args = Compare { base: Load::default(), subjects, watchers: vec![5], server_cpu: Vec::new() };
        let run = |(state, round, cpu): (usize, u32, f64)| {
            let mut record = Record { state, round, watchers: 5, clean: true, ..Record::default() };
            record.set(CPU, cpu);
            record
        };
        let found = [(0, 1, 100.0), (0, 2, 80.0), (0, 3, 110.0), (1, 1, 90.0), (1, 2, 88.0), (1, 3, 99.0)];
        let found = report(&args, FLOOR, &names, vec![found.map(run).to_vec()], &[]);
        let screen = &found.text;
        assert!(screen.contains("Best mode uring\n") && screen.contains("A = floor:uring\n"), "{screen}");
        assert!(screen.contains("1.11 (0.91..1.11) of A"), "the median of the rounds' ratios: {screen}");
        assert!(found.clean && !report(&args, FLOOR, &names, Vec::new(), &["no port".to_owned()]).clean);
    }
}
