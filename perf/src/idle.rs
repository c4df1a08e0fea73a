//! Watchers to which nothing happens: what one costs in the server's memory, and what all of them cost in CPU time while
//! heartbeats and bookmarks are all they get. What the server allocates once, for its first watchers, is not counted: a
//! first set is opened and closed before its memory is read. Each round opens all, waits, closes all, and looks whether
//! the memory comes back.

mod report;

use crate::clock::{nanos, now_ns};
use crate::fanout::Run;
use crate::message::Command;
use crate::options::{Idle, Load};
use crate::scope::Scope;
use crate::target::{Trouble, used};
use crate::usage;
use report::{IdleReport, Memory, Round};
use std::time::Duration;

/// After watches were opened or closed: how long the server may settle before its memory is read.
const SETTLE: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &Idle) -> Result<IdleReport, Trouble> {
    let mut run = Run::prepare(&args.base)?;
    let scopes = run.set_up()?;
    if args.prime > 0 {
        let few = Load { watchers: args.prime, processes: 1, ..args.base.clone() };
        let mut run = Run::prepare(&few)?;
        let mut fleet = run.open(&scopes)?;
        run.wait_until(&mut fleet, now_ns() + nanos(SETTLE))?;
        run.close(fleet)?;
        std::thread::sleep(SETTLE);
    }
    let rounds = (1..=args.rounds).map(|number| round(&mut run, args.base.duration, &scopes, number));
    let rounds = rounds.collect::<Result<Vec<Round>, String>>()?;
    Ok(IdleReport::new(args, run.target.server_pid, rounds))
}

fn round(run: &mut Run<'_>, silence: Duration, scopes: &[Scope], number: u32) -> Result<Round, String> {
    let pid = run.target.server_pid;
    let memory =
        || Memory { rss_bytes: pid.and_then(usage::rss_bytes), anon_bytes: pid.and_then(usage::anon_bytes) };
    let cpu_ns = || pid.and_then(usage::cpu_ns);
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
    let opening_seconds = fleet.opening_seconds();
    let tally = run.close(fleet)?;
    std::thread::sleep(SETTLE);
    let seen = tally.seen;
    Ok(Round {
        number,
        before,
        opened,
        waited,
        closed: memory(),
        opening_seconds,
        silence_seconds: passed_ns as f64 / 1e9,
        server_cpu_share: used(cpu_before, cpu_after).map(|ns| ns as f64 / passed_ns.max(1) as f64),
        bytes: tally.window.bytes,
        heartbeats: tally.window.heartbeats,
        bookmarks: tally.window.bookmarks,
        ended: seen.disconnected,
        wrong: seen.malformed + seen.unexpected + seen.out_of_order + seen.errors,
        foreign: seen.foreign,
        first_fault: seen.first_fault,
    })
}
