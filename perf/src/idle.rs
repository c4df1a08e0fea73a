//! Watchers to whom nothing happens: what one costs in the server's memory, and what all of them cost in CPU time while
//! heartbeats and bookmarks are all they get. What the server allocates once, for its first watchers, is not counted: a
//! first set is opened and closed before its memory is read. Each round opens all, waits, closes all, and looks whether
//! the memory comes back.

mod report;

pub(crate) use report::IdleReport;

use crate::args::{Fanout, Idle};
use crate::clock::{nanos, now_ns};
use crate::fanout::{Run, Trouble};
use crate::message::Command;
use crate::procfs;
use crate::scope::Scope;
use report::{Memory, Round};
use std::time::Duration;

/// After watches were opened or closed: how long the server may settle before its memory is read.
const SETTLE: Duration = Duration::from_secs(1);

/// Does the whole run.
pub(crate) fn run(args: &Idle) -> Result<IdleReport, Trouble> {
    let mut run = Run::prepare(&args.base)?;
    let (_, scopes) = run.stock()?;
    if args.prime > 0 {
        prime(&args.base, args.prime, &scopes)?;
    }
    let mut report = IdleReport {
        scenario: "idle",
        server: format!("http://{}", args.base.server.authority()),
        watchers: args.base.watchers,
        primed: args.prime,
        server_pid: run.server_pid(),
        ..IdleReport::default()
    };
    for number in 1..=args.rounds {
        let round = round(&mut run, args.base.duration, &scopes, number)?;
        report.rounds.push(round);
    }
    report.judge();
    Ok(report)
}

/// What the server needs once it gets before its memory is read.
fn prime(base: &Fanout, watchers: u32, scopes: &[Scope]) -> Result<(), Trouble> {
    let few = Fanout { watchers, processes: 1, ..base.clone() };
    let mut run = Run::prepare(&few)?;
    let mut fleet = run.open(scopes)?;
    run.wait_until(&mut fleet, now_ns() + nanos(SETTLE))?;
    run.close(fleet)?;
    std::thread::sleep(SETTLE);
    Ok(())
}

fn round(run: &mut Run<'_>, silence: Duration, scopes: &[Scope], number: u32) -> Result<Round, String> {
    let pid = run.server_pid();
    let memory = || Memory {
        rss_bytes: pid.and_then(procfs::rss_bytes),
        anon_bytes: pid.and_then(procfs::anon_bytes),
    };
    let cpu_ns = || pid.and_then(procfs::cpu_time).map(nanos);
    let before = memory();
    let mut fleet = run.open(scopes)?;
    run.wait_until(&mut fleet, now_ns() + nanos(SETTLE))?;
    let opened = memory();
    let from_ns = now_ns();
    fleet.tell_all(&Command::Measure { from_ns })?;
    let cpu_before = cpu_ns();
    run.wait_until(&mut fleet, from_ns + nanos(silence))?;
    let (cpu_after, passed_ns) = (cpu_ns(), now_ns() - from_ns);
    let waited = memory();
    let opening_ns = fleet.last_established_ns.saturating_sub(fleet.first_connect_ns);
    let tally = run.close(fleet)?;
    std::thread::sleep(SETTLE);
    let used_ns = cpu_after.zip(cpu_before).map(|(after, before)| after.saturating_sub(before));
    Ok(Round {
        number,
        before,
        opened,
        waited,
        closed: memory(),
        opening_seconds: opening_ns as f64 / 1e9,
        silence_seconds: passed_ns as f64 / 1e9,
        server_cpu_share: used_ns.map(|ns| ns as f64 / passed_ns.max(1) as f64),
        bytes: tally.bytes_in_window,
        heartbeats: tally.heartbeats_in_window,
        bookmarks: tally.bookmarks_in_window,
        ended: tally.disconnected,
        wrong: tally.malformed + tally.unexpected + tally.out_of_order + tally.errors,
        foreign: tally.foreign,
        first_fault: tally.first_fault,
    })
}
