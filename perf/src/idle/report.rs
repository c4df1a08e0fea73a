//! What a run of `idle` found. Names carry their units.

use crate::options::Idle;
use crate::record::{Record, scenario};
use crate::report::NO_PROCESS;
use crate::sheet::Sheet;
use crate::spread::Spread;
use serde::Serialize;
use std::fmt;

/// The server's memory at one moment. `anon`: what it allocated itself; the rest is its program's text. The kernel's
/// socket memory is in neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Memory {
    pub(super) rss_bytes: Option<u64>,
    pub(super) anon_bytes: Option<u64>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Round {
    pub(super) number: u32,
    pub(super) before: Memory,
    pub(super) opened: Memory,
    pub(super) waited: Memory,
    pub(super) closed: Memory,
    pub(super) opening_seconds: f64,
    pub(super) silence_seconds: f64,
    /// 1.0 is one core.
    pub(super) server_cpu_share: Option<f64>,
    /// What the watchers got in the silence, framing too.
    pub(super) bytes: u64,
    pub(super) heartbeats: u64,
    pub(super) bookmarks: u64,
    pub(super) ended: u64,
    /// Events that no watch should get, lines that are no events, bookmarks that go back.
    pub(super) wrong: u64,
    /// Events of somebody else's writes: then the watchers were not idle.
    pub(super) foreign: u64,
    pub(super) first_fault: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct IdleReport {
    scenario: &'static str,
    server: String,
    watchers: u32,
    /// Watchers opened and closed before memory was first read.
    primed: u32,
    server_pid: Option<u32>,
    /// From the empty server, before or afterwards, whichever was leaner, to the end of the silence; median and ends over
    /// the rounds. Afterwards counts too, because what an allocator took in huge pages before it gives back one day.
    anon_bytes_per_watcher: Option<Spread>,
    rss_bytes_per_watcher: Option<Spread>,
    server_cpu_share: Option<Spread>,
    ended: u64,
    rounds: Vec<Round>,
    records: Vec<Record>,
    clean: bool,
}

impl IdleReport {
    pub(super) fn new(args: &Idle, server_pid: Option<u32>, rounds: Vec<Round>) -> Self {
        let (server, watchers) = (format!("http://{}", args.base.server.authority()), args.base.watchers);
        let records: Vec<Record> = rounds.iter().map(|round| round.record(&server, watchers)).collect();
        let over = |name: &str| Spread::of(records.iter().filter_map(|record| record.value(name)));
        Self {
            scenario: "idle",
            server,
            watchers,
            primed: args.prime,
            server_pid,
            anon_bytes_per_watcher: over("anon_bytes_per_watcher"),
            rss_bytes_per_watcher: over("rss_bytes_per_watcher"),
            server_cpu_share: over("server_cpu_share"),
            ended: rounds.iter().map(|round| round.ended).sum(),
            clean: !rounds.is_empty() && rounds.iter().all(Round::is_clean),
            rounds,
            records,
        }
    }
}

impl Round {
    /// No watch was ended, and none got what is not for it.
    fn is_clean(&self) -> bool {
        self.ended == 0 && self.wrong == 0
    }

    fn record(&self, server: &str, watchers: u32) -> Record {
        let each = |of: fn(&Memory) -> Option<u64>| {
            let (before, closed, waited) = (of(&self.before)?, of(&self.closed)?, of(&self.waited)?);
            Some((waited as f64 - before.min(closed) as f64) / f64::from(watchers.max(1)))
        };
        let mut record = Record::new("idle", server, self.number);
        (record.watchers, record.clean) = (watchers, self.is_clean());
        record.set("anon_bytes_per_watcher", each(|memory| memory.anon_bytes));
        record.set("rss_bytes_per_watcher", each(|memory| memory.rss_bytes));
        record.take(self, "server_cpu_share bookmarks heartbeats");
        record
    }
}

scenario!(IdleReport);

impl fmt::Display for IdleReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = "idle at {server}: {watchers} watchers, {primed} opened and closed before";
        let mut sheet = Sheet::new(self, title);
        sheet.each("/rounds", |sheet, _| {
            sheet.line("  round {number}: opened in {opening_seconds}");
            sheet.rows(&[
                ("", "RssAnon {before/anon_bytes|?} (RSS {before/rss_bytes|?}) before"),
                ("", "{opened/anon_bytes|?} (RSS {opened/rss_bytes|?}) with all of them"),
                ("", "{waited/anon_bytes|?} (RSS {waited/rss_bytes|?}) after {silence_seconds} of silence"),
                ("", "{closed/anon_bytes|?} (RSS {closed/rss_bytes|?}) when all were closed"),
                ("", "meanwhile {bytes:plain} bytes: {heartbeats} heartbeats, {bookmarks} bookmarks; ended {ended}"),
            ]);
            if sheet.number("foreign").is_some_and(|count| count > 0.0) {
                sheet.rows(&[("", "and {foreign} events of another client's writes: not idle")]);
            }
        });
        if self.anon_bytes_per_watcher.is_none() {
            sheet.rows(&[NO_PROCESS]);
        }
        sheet.rows(&[
            (
                "user memory",
                "{anon_bytes_per_watcher:kib} KiB a watcher (RssAnon; RSS: {rss_bytes_per_watcher:kib}), pid {server_pid:plain}",
            ),
            ("server CPU", "{server_cpu_share:percent} % of a core while idle"),
        ]);
        if self.anon_bytes_per_watcher.is_some() {
            sheet.rows(&[("", "the kernel's socket memory is not in it")]);
        }
        let verdict = match (self.clean, self.ended) {
            (true, _) => "no watch was ended, and none got what was not for it",
            (false, 0) => "FAILED: watchers got what was not for them",
            (false, _) => "FAILED: {ended} watches were ended",
        };
        if let Some(at) = self.rounds.iter().position(|round| round.first_fault.is_some()) {
            sheet.line(&format!("  first fault     {{rounds/{at}/first_fault}}"));
        }
        sheet.rows(&[("verdict", verdict)]);
        sheet.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Load;

    fn memory(kib: u64) -> Memory {
        Memory { rss_bytes: Some((kib + 5000) * 1024), anon_bytes: Some(kib * 1024) }
    }

    #[test]
    fn only_watchers_that_were_left_alone_are_clean() {
        let judged = |change: fn(&mut Round)| {
            let mut round = Round { before: memory(1000), waited: memory(1600), ..Round::default() };
            (round.closed, round.server_cpu_share) = (memory(1200), Some(0.0042));
            change(&mut round);
            let base = Load { watchers: 1000, ..Load::default() };
            IdleReport::new(&Idle { base, prime: 0, rounds: 1 }, Some(7), vec![round])
        };
        let report = judged(|_| {});
        assert!(report.clean);
        assert_eq!(report.anon_bytes_per_watcher.map(|spread| spread.median), Some(614.4));
        assert_eq!(report.records[0].value("anon_bytes_per_watcher"), Some(614.4));
        let late = judged(|round| (round.before, round.closed) = (memory(3000), memory(1000)));
        assert_eq!(late.anon_bytes_per_watcher, report.anon_bytes_per_watcher, "the leaner of both ends");
        let screen = report.to_string();
        assert!(screen.contains("0.60 (0.60..0.60) KiB a watcher"), "{screen}");
        assert!(screen.contains("0.42 (0.42..0.42) % of a core"), "{screen}");
        assert!(judged(|round| round.bookmarks = 9).clean);
        assert!(!judged(|round| round.ended = 1).clean);
        assert!(!judged(|round| round.wrong = 1).clean);
    }
}
