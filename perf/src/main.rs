//! revcast-perf: load from outside. It knows a TCP port and nothing else: it never links the server, so what it measures
//! is what any client of a Kubernetes-style list/watch server gets.
//!
//! A run reads from the top: [`args`] → [`fanout`] (the run) → [`stock`] (objects and scopes on the server) →
//! [`fleet`] and [`worker`] (processes) → [`lane`] (a thread with its watchers) → [`watcher`] (one watch) →
//! [`report`]. [`writer`] writes meanwhile. [`initial`] is the other run: many clients that ask for everything at once.
//! A run is kept as a [`record`] by [`outputs`], and [`pictures`] makes a page of many. Exactness lives in [`stamp`], [`frame`] and [`ledger`].

mod args;
mod beside;
#[cfg(feature = "etcd")]
mod bridge;
mod chunked;
mod clock;
mod compare;
mod fanout;
mod fleet;
mod floor;
mod frame;
mod http;
mod idle;
mod initial;
mod interests;
mod known;
#[cfg(feature = "etcd")]
mod lag;
mod lane;
mod latency;
mod ledger;
mod machine;
mod message;
mod mixed;
mod object;
mod outputs;
mod pace;
mod pictures;
mod probe;
mod procfs;
mod progress;
mod random;
mod reader;
mod record;
mod report;
mod scope;
mod series;
mod siege;
mod site;
mod slow;
mod spread;
mod stamp;
mod stock;
mod storm;
mod tally;
mod target;
mod units;
mod watcher;
mod worker;
mod writer;
mod writers;

use args::Job;
use fanout::Trouble;
use record::Scenario;
use std::io::{Write, stdin, stdout};
use std::process::ExitCode;

fn main() -> ExitCode {
    match args::parse(std::env::args_os().skip(1)) {
        Ok(Job::Help) => print(&args::help()),
        Ok(Job::Version) => print(&format!("revcast-perf {}\n", env!("CARGO_PKG_VERSION"))),
        Ok(Job::Worker) => {
            fanout::raise_nofile();
            worker::run(stdin(), stdout());
            ExitCode::SUCCESS
        }
        Ok(Job::Fanout(args)) => match fanout::run(&args) {
            Ok(report) => show(&report, args.json, report.clean),
            Err(Trouble::Option(bad)) => refuse(&bad),
            Err(Trouble::Run(why)) => {
                eprintln!("revcast-perf: {why}");
                ExitCode::FAILURE
            }
        },
        Ok(Job::Idle(args)) => scenario(&args.base, || idle::run(&args)),
        Ok(Job::Slow(args)) => scenario(&args.base, || slow::run(&args)),
        Ok(Job::Mixed(args)) => finish(mixed::run(&args), args.base.json, |report| report.fanout.clean),
        Ok(Job::Initial(args)) => match initial::run(&args) {
            Ok(report) => show(&report, args.base.json, report.clean),
            Err(Trouble::Option(bad)) => refuse(&bad),
            Err(Trouble::Run(why)) => {
                eprintln!("revcast-perf: {why}");
                ExitCode::FAILURE
            }
        },
        Ok(Job::Interests(args)) => scenario(&args.base, || interests::run(&args)),
        Ok(Job::Storm(args)) => scenario(&args.base, || storm::run(&args)),
        Ok(Job::Floor(args)) => scenario(&args.base, || floor::run(&args)),
        Ok(Job::Compare(args)) => finish(compare::run(&args), args.base.json, |report| report.clean),
        Ok(Job::Keeper(words)) => compare::keeper::run(&words),
        #[cfg(feature = "etcd")]
        Ok(Job::EtcdBridge(endpoint)) => bridge::run(&endpoint),
        Ok(Job::FloorSender) => {
            fanout::raise_nofile();
            floor::sender::run(stdin(), stdout());
            ExitCode::SUCCESS
        }
        Ok(Job::Lag(args)) => measure_lag(&args),
        Ok(Job::Report(args)) => pictures::show(&args),
        Err(bad) => refuse(&bad),
    }
}

#[cfg(feature = "etcd")]
fn measure_lag(args: &args::LagArgs) -> ExitCode {
    match lag::run(args) {
        Ok(report) => show(&report, args.json, report.clean),
        Err(why) => {
            eprintln!("revcast-perf: {why}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(feature = "etcd"))]
fn measure_lag(_args: &args::LagArgs) -> ExitCode {
    eprintln!("revcast-perf: lag speaks etcd's protocol: build with --features etcd");
    ExitCode::from(2)
}

/// Runs a scenario, keeps its runs where `--out` says, and shows what it found.
fn scenario<R: Scenario>(base: &args::Fanout, run: impl FnOnce() -> Result<R, Trouble>) -> ExitCode {
    let outcome = outputs::Outputs::open(base.out.as_deref()).map_err(Trouble::from).and_then(|outputs| {
        let report = run()?;
        for (outputs, record) in
            outputs.iter().flat_map(|outputs| report.records().into_iter().map(move |it| (outputs, it)))
        {
            outputs.keep(record)?;
        }
        Ok(report)
    });
    finish(outcome, base.json, R::is_clean)
}

/// Shows what a scenario found, or why it found nothing.
fn finish<R: std::fmt::Display + serde::Serialize>(
    outcome: Result<R, Trouble>,
    json: bool,
    clean: impl Fn(&R) -> bool,
) -> ExitCode {
    match outcome {
        Ok(report) => show(&report, json, clean(&report)),
        Err(Trouble::Option(bad)) => refuse(&bad),
        Err(Trouble::Run(why)) => {
            eprintln!("revcast-perf: {why}");
            ExitCode::FAILURE
        }
    }
}

fn refuse(bad: &args::BadOption) -> ExitCode {
    eprintln!("revcast-perf: {bad}");
    ExitCode::from(2)
}

/// Prints a report; whether it is clean is the exit code.
fn show(report: &(impl std::fmt::Display + serde::Serialize), json: bool, clean: bool) -> ExitCode {
    let text =
        if json { serde_json::to_string(report).unwrap_or_default() + "\n" } else { report.to_string() };
    print(&text);
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A reader that went away needs no text.
fn print(text: &str) -> ExitCode {
    let _gone = stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
