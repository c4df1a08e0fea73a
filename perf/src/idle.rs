//! Watchers to which nothing happens: what one costs in the server's memory, and all of them in CPU time while heartbeats and
//! bookmarks are all they get. A first set is opened and closed before: what the server allocates once is not counted. Each round
//! opens all, waits, closes all, and looks whether the memory comes back.

use crate::clock::{nanos, now_ns};
use crate::ledger::Scope;
use crate::message::Command;
use crate::options::{Idle, Load};
use crate::process;
use crate::record::Record;
use crate::report::Report;
use crate::run::Run;
use crate::table::Table;
use crate::tally::Tally;
use crate::target::{Trouble, used};
use serde_json::json;
use std::time::Duration;

/// After watches were opened or closed: how long the server may settle before its memory is read.
const SETTLE: Duration = Duration::from_secs(1);

/// `anon`: what the server allocated itself; the rest is its program's text. The kernel's socket memory is in neither.
const SHOWN: &str = "anon_bytes_per_watcher rss_bytes_per_watcher server_cpu_share before_anon_bytes opened_anon_bytes \
    waited_anon_bytes closed_anon_bytes before_rss_bytes opened_rss_bytes waited_rss_bytes closed_rss_bytes opening_seconds \
    silence_seconds bytes heartbeats bookmarks";

pub(crate) fn run(args: &Idle) -> Result<Report, Trouble> {
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
    let rounds = (1..=args.base.rounds).map(|number| round(&mut run, args.base.duration, &scopes, number));
    let records = rounds.collect::<Result<Vec<Record>, String>>()?;
    let facts = json!({"watchers": args.base.watchers, "primed": args.prime, "rounds": records.len()});
    let title = "server protocol server_pid watchers primed rounds";
    let mut report = Report::of_runs("idle", records.iter(), "ended foreign wrong", facts, title);
    let states = [("idle".to_owned(), records.iter().collect())];
    report.table("", Table::new(json!({}), 0, &states), SHOWN);
    report.values("ended foreign wrong");
    Ok(report.end(records, true, "no watch was ended, and none got what was not for it"))
}

fn round(run: &mut Run<'_>, silence: Duration, scopes: &[Scope], number: u32) -> Result<Record, String> {
    let pid = run.target.server_pid;
    let mut record = run.part("idle", number);
    let memory = |record: &mut Record, when: &str| {
        record.set(&format!("{when}_rss_bytes"), pid.and_then(process::rss_bytes));
        record.set(&format!("{when}_anon_bytes"), pid.and_then(process::anon_bytes));
    };
    memory(&mut record, "before");
    let mut fleet = run.open(scopes)?;
    run.wait_until(&mut fleet, now_ns() + nanos(SETTLE))?;
    memory(&mut record, "opened");
    let from_ns = now_ns();
    fleet.tell_all(&Command::Measure { from_ns })?;
    let cpu_before = run.target.server_cpu_ns();
    run.wait_until(&mut fleet, from_ns + nanos(silence))?;
    let (cpu_after, passed_ns) = (run.target.server_cpu_ns(), now_ns() - from_ns);
    memory(&mut record, "waited");
    record.set("opening_seconds", fleet.opening_seconds());
    record.set("silence_seconds", passed_ns as f64 / 1e9);
    let share = used(cpu_before, cpu_after).map(|ns| ns as f64 / passed_ns.max(1) as f64);
    record.set("server_cpu_share", share);
    let tally = run.close(fleet)?;
    std::thread::sleep(SETTLE);
    memory(&mut record, "closed");
    keep(&mut record, &tally);
    Ok(record)
}

/// Judges a round: no watch was ended, and none got what is not for it.
fn keep(record: &mut Record, tally: &Tally) {
    let (seen, window) = (&tally.seen, &tally.window);
    // What the watchers got in the silence, framing too.
    record.set("bytes", window.bytes);
    record.set("heartbeats", window.heartbeats);
    record.set("bookmarks", window.bookmarks);
    record.set("ended", seen.disconnected);
    record.set("wrong", seen.malformed + seen.unexpected + seen.out_of_order + seen.errors);
    // Events of another client's writes: then the watchers were not idle.
    record.set("foreign", seen.foreign);
    record.set("first_fault", &seen.first_fault);
    record.clean = record.has_no("ended wrong");
    // From the empty server, before or afterwards, whichever was leaner, to the end of the silence. Afterwards counts too,
    // because what an allocator took in huge pages before it gives back one day.
    let watchers = f64::from(record.watchers.max(1));
    for kind in ["anon", "rss"] {
        let at = |when: &str| record.value(&format!("{when}_{kind}_bytes"));
        let empty = at("before").zip(at("closed")).map(|(before, closed)| before.min(closed));
        let each = at("waited").zip(empty).map(|(waited, empty)| (waited - empty) / watchers);
        record.set(&format!("{kind}_bytes_per_watcher"), each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_watchers_that_were_left_alone_are_clean() {
        let judged = |before_kib: u64, closed_kib: u64, change: fn(&mut Tally)| {
            let mut record = Record { watchers: 1000, ..Record::default() };
            for (when, kib) in [("before", before_kib), ("waited", 1600), ("closed", closed_kib)] {
                record.set(&format!("{when}_anon_bytes"), kib * 1024);
                record.set(&format!("{when}_rss_bytes"), (kib + 5000) * 1024);
            }
            let mut tally = Tally::default();
            change(&mut tally);
            keep(&mut record, &tally);
            record
        };
        let idle = judged(1000, 1200, |_| {});
        assert_eq!((idle.clean, idle.value("anon_bytes_per_watcher")), (true, Some(614.4)));
        let late = judged(3000, 1000, |_| {});
        assert_eq!(late.value("rss_bytes_per_watcher"), Some(614.4), "the leaner of both ends");
        assert!(judged(1, 1, |tally| tally.window.bookmarks = 9).clean);
        assert!(!judged(1, 1, |tally| tally.seen.disconnected = 1).clean);
        assert!(!judged(1, 1, |tally| tally.seen.malformed = 1).clean);
    }
}
