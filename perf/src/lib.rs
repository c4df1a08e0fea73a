//! revcast-perf: load from outside. It knows a TCP port and nothing else: it never links the server, so what it measures
//! is what any client of a Kubernetes-style list/watch server gets.
//!
//! A run reads from the top: `options` → `fanout` → `run` → `target` (the server) → `setup` (its objects) →
//! `fleet` (processes) → `lane` (a thread with its watchers) → `wire` (one connection) → `watcher` (one watch) →
//! `report`, which says values by their names (`units`). `writer` writes meanwhile. `initial` is another run: many clients
//! that ask for everything at once. A run is kept as a `record` by `outputs`, and `plots` makes a page of many. Whether
//! every delivery is exact is decided by `stamp`, `event` and `ledger`.
//!
//! Public is what benchmarks share: the floor's io_uring.

#[cfg(feature = "etcd")]
mod bridge;
mod broken;
mod brought;
mod calls;
mod child;
mod clock;
mod compare;
mod endpoint;
mod event;
mod fanout;
mod fleet;
mod floor;
mod hostile;
mod http;
mod http2;
mod idle;
mod initial;
mod interests;
mod known;
#[cfg(feature = "etcd")]
mod lag;
mod lane;
mod latency;
mod ledger;
mod media;
mod message;
mod object;
mod options;
mod outputs;
mod pace;
mod packed;
mod plots;
mod process;
mod progress;
mod record;
mod report;
mod run;
mod setup;
mod slow;
mod stamp;
mod storm;
mod table;
mod tally;
mod target;
mod tls;
mod units;
mod watcher;
mod wire;
mod writer;

pub use floor::ring;

use options::{BadOption, Job, Load, Stop};
use report::Report;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{Stdin, Stdout, Write, stdin, stdout};
use std::process::ExitCode;
use target::Trouble;

/// The program, with the words of its command line.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let job = match options::parse(words) {
        Ok(job) => job,
        Err(Stop::Show(text)) => return print(&text),
        Err(Stop::Refuse(why)) => return refuse(why),
    };
    match job {
        Job::Fanout(args) | Job::Mixed(args) => scenario(&args, || fanout::run(&args)),
        Job::Initial(args) => scenario(&args.base, || initial::run(&args)),
        Job::Idle(args) => scenario(&args.base, || idle::run(&args)),
        Job::Slow(args) | Job::Siege(args) => scenario(&args.base, || slow::run(&args)),
        Job::Interests(args) => scenario(&args.base, || interests::run(&args)),
        Job::Storm(args) => scenario(&args.base, || storm::run(&args)),
        Job::Floor(args) => scenario(&args.base, || compare::floor(&args)),
        // `--out` is a file, which it writes by itself.
        Job::Compare(args) => finish(compare::run(&args, "compare"), args.base.json),
        #[cfg(feature = "etcd")]
        Job::Lag(args) => finish(lag::run(&args), args.base.json),
        #[cfg(not(feature = "etcd"))]
        Job::Lag(_) => refuse("lag speaks etcd's protocol: build with --features etcd"),
        Job::Report(args) => plots::run(&args),
        Job::Worker => help(lane::work),
        Job::FloorSender => help(floor::sender::run),
        Job::Keeper { words } => fail(compare::keeper::run(&words)),
        #[cfg(feature = "etcd")]
        Job::EtcdBridge { endpoint } => bridge::run(&endpoint).map_or_else(fail, |()| ExitCode::SUCCESS),
        #[cfg(not(feature = "etcd"))]
        Job::EtcdBridge { endpoint } => refuse(format!("{endpoint}: build with --features etcd")),
    }
}

/// This process takes part in a run of the process that started it.
fn help(run: impl FnOnce(Stdin, Stdout)) -> ExitCode {
    process::raise_nofile();
    run(stdin(), stdout());
    ExitCode::SUCCESS
}

/// Runs a scenario, keeps its runs where `--out` says, and shows what it found.
fn scenario(base: &Load, run: impl FnOnce() -> Result<Report, Trouble>) -> ExitCode {
    let keep = || {
        // Before the run: a folder that cannot be written is refused before minutes are spent.
        base.out.as_deref().map_or(Ok(()), outputs::open)?;
        let report = run()?;
        if let Some(folder) = &base.out {
            report.records.iter().try_for_each(|record| outputs::keep(folder, record))?;
        }
        Ok(report)
    };
    finish(keep(), base.json)
}

/// Shows what a scenario found, or why it found nothing. Whether all was right is the exit code.
fn finish(outcome: Result<Report, Trouble>, json: bool) -> ExitCode {
    let report = match outcome {
        Ok(report) => report,
        Err(trouble) if trouble.is::<BadOption>() => return refuse(trouble),
        Err(trouble) => return fail(trouble),
    };
    let text = if json { serde_json::to_string(&report).unwrap_or_default() + "\n" } else { report.text };
    print(&text);
    if report.clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn refuse(bad: impl Display) -> ExitCode {
    eprintln!("revcast-perf: {bad}");
    ExitCode::from(2)
}

fn fail(why: impl Display) -> ExitCode {
    eprintln!("revcast-perf: {why}");
    ExitCode::FAILURE
}

/// Where the reader has gone, nothing needs to be done.
fn print(text: &str) -> ExitCode {
    let _gone = stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
