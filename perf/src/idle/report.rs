//! What a run of `idle` found: for a person on a screen, and as one JSON object whose fields carry their units.

use crate::record::{Record, Scenario};
use crate::spread::Spread;
use crate::units::{show_bytes, show_count};
use serde::Serialize;
use std::fmt;

/// The server's memory at one moment. `anon`: what it allocated itself; the rest is its program's text. The kernel's
/// socket memory is in neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Memory {
    pub(super) rss_bytes: Option<u64>,
    pub(super) anon_bytes: Option<u64>,
}

/// All watchers opened once, and closed again.
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
    /// Watches that the server ended.
    pub(super) ended: u64,
    /// Events that no watch should get, lines that are no events, bookmarks that go back.
    pub(super) wrong: u64,
    /// Events of somebody else's writes: then the watchers were not idle.
    pub(super) foreign: u64,
    pub(super) first_fault: Option<String>,
}

/// The report of one run. Absent numbers could not be measured.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct IdleReport {
    pub(super) scenario: &'static str,
    pub(super) server: String,
    pub(super) watchers: u32,
    /// Watchers opened and closed before memory was first read.
    pub(super) primed: u32,
    pub(super) server_pid: Option<u32>,
    /// From the empty server, before or afterwards, whichever was leaner, to the end of the silence; median and ends over
    /// the rounds. Afterwards counts too, because what an allocator took in huge pages before it gives back one day.
    pub(super) anon_bytes_per_watcher: Option<Spread>,
    pub(super) rss_bytes_per_watcher: Option<Spread>,
    pub(super) server_cpu_share: Option<Spread>,
    pub(super) ended: u64,
    pub(super) rounds: Vec<Round>,
    pub(super) records: Vec<Record>,
    pub(crate) clean: bool,
}

impl IdleReport {
    /// Puts the rounds together. Nobody was ended, and nobody got what is not for him.
    pub(super) fn judge(&mut self) {
        let watchers = f64::from(self.watchers.max(1));
        let each = |round: &Round, of: fn(&Memory) -> Option<u64>| {
            let (before, closed, waited) = (of(&round.before)?, of(&round.closed)?, of(&round.waited)?);
            Some((waited as f64 - before.min(closed) as f64) / watchers)
        };
        let (anon, rss) = (|memory: &Memory| memory.anon_bytes, |memory: &Memory| memory.rss_bytes);
        self.anon_bytes_per_watcher = Spread::of(self.rounds.iter().filter_map(|round| each(round, anon)));
        self.rss_bytes_per_watcher = Spread::of(self.rounds.iter().filter_map(|round| each(round, rss)));
        self.server_cpu_share = Spread::of(self.rounds.iter().filter_map(|round| round.server_cpu_share));
        self.ended = self.rounds.iter().map(|round| round.ended).sum();
        let is_clean = |round: &Round| round.ended == 0 && round.wrong == 0;
        self.clean = !self.rounds.is_empty() && self.rounds.iter().all(is_clean);
        let record = |round: &Round| {
            let mut record = Record::new("idle", &self.server, round.number);
            record.watchers = self.watchers;
            record.clean = is_clean(round);
            record.set("anon_bytes_per_watcher", each(round, anon));
            record.set("rss_bytes_per_watcher", each(round, rss));
            record.set("server_cpu_share", round.server_cpu_share);
            record.set("bookmarks", round.bookmarks as f64);
            record.set("heartbeats", round.heartbeats as f64);
            record
        };
        self.records = self.rounds.iter().map(record).collect();
    }
}

impl Scenario for IdleReport {
    fn records(&self) -> Vec<&Record> {
        self.records.iter().collect()
    }

    fn is_clean(&self) -> bool {
        self.clean
    }
}

impl fmt::Display for IdleReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line =
            |out: &mut fmt::Formatter<'_>, name: &str, text: String| writeln!(out, "  {name:<16}{text}");
        let (watchers, primed) = (show_count(u64::from(self.watchers)), show_count(u64::from(self.primed)));
        writeln!(out, "idle at {}: {watchers} watchers, {primed} opened and closed before", self.server)?;
        for round in &self.rounds {
            round.write(out, self.rounds.len())?;
        }
        let kib = |bytes: f64| format!("{:.3}", bytes / 1024.0);
        match (self.server_pid, self.anon_bytes_per_watcher, self.rss_bytes_per_watcher) {
            (Some(pid), Some(anon), Some(rss)) => {
                let (anon, rss) = (anon.show(kib), rss.show(kib));
                line(out, "user memory", format!("{anon} KiB a watcher (RssAnon; RSS: {rss}), pid {pid}"))?;
                line(out, "", "the kernel's socket memory is in neither".to_owned())?;
            }
            _ => line(
                out,
                "server",
                "its process was not found: give --server-pid for CPU and memory".to_owned(),
            )?,
        }
        if let Some(share) = self.server_cpu_share {
            let share = share.show(|share| format!("{:.2}", share * 100.0));
            line(out, "server CPU", format!("{share} % of a core while idle"))?;
        }
        if let Some(fault) = self.rounds.iter().find_map(|round| round.first_fault.as_ref()) {
            line(out, "first fault", fault.clone())?;
        }
        let verdict = match (self.clean, self.ended) {
            (true, _) => "no watch was ended, and none got what was not for it".to_owned(),
            (false, 0) => "FAILED: watchers got what was not for them".to_owned(),
            (false, ended) => format!("FAILED: {} watches were ended", show_count(ended)),
        };
        line(out, "verdict", verdict)
    }
}

impl Round {
    fn write(&self, out: &mut fmt::Formatter<'_>, rounds: usize) -> fmt::Result {
        let memory = |memory: Memory| {
            let [anon, rss] = [memory.anon_bytes, memory.rss_bytes]
                .map(|bytes| bytes.map_or_else(|| "?".to_owned(), show_bytes));
            format!("{anon} (RSS {rss})")
        };
        let name = if rounds == 1 { String::new() } else { format!("round {}", self.number) };
        let opening = format!("opened in {:.2} s", self.opening_seconds);
        writeln!(out, "  {name:<16}{opening}; RssAnon {} before", memory(self.before))?;
        writeln!(out, "  {:<16}{} with all of them", "", memory(self.opened))?;
        let seconds = format!("{:.1} s of silence", self.silence_seconds);
        writeln!(out, "  {:<16}{} after {seconds}", "", memory(self.waited))?;
        writeln!(out, "  {:<16}{} when all were closed", "", memory(self.closed))?;
        let [bytes, heartbeats, bookmarks, ended] =
            [self.bytes, self.heartbeats, self.bookmarks, self.ended].map(show_count);
        writeln!(
            out,
            "  {:<16}meanwhile {bytes} bytes: {heartbeats} heartbeats, {bookmarks} bookmarks; ended {ended}",
            ""
        )?;
        if self.foreign > 0 {
            let foreign = show_count(self.foreign);
            writeln!(out, "  {:<16}and {foreign} events of somebody else's writes: not idle", "")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(kib: u64) -> Memory {
        Memory { rss_bytes: Some((kib + 5000) * 1024), anon_bytes: Some(kib * 1024) }
    }

    #[test]
    fn only_who_was_left_alone_is_clean() {
        let judged = |change: fn(&mut Round)| {
            let mut round = Round { before: memory(1000), waited: memory(1600), ..Round::default() };
            round.closed = memory(1200);
            round.server_cpu_share = Some(0.0042);
            change(&mut round);
            let mut report = IdleReport { watchers: 1000, rounds: vec![round], ..IdleReport::default() };
            report.server_pid = Some(7);
            report.judge();
            report
        };
        let report = judged(|_| {});
        assert!(report.clean);
        assert_eq!(report.anon_bytes_per_watcher.map(|spread| spread.median), Some(614.4));
        assert_eq!(report.records[0].value("anon_bytes_per_watcher"), Some(614.4));
        let late = judged(|round| (round.before, round.closed) = (memory(3000), memory(1000)));
        assert_eq!(late.anon_bytes_per_watcher, report.anon_bytes_per_watcher, "the leaner of both ends");
        let screen = report.to_string();
        assert!(screen.contains("0.600 (0.600..0.600) KiB a watcher"), "{screen}");
        assert!(screen.contains("0.42 (0.42..0.42) % of a core"), "{screen}");
        assert!(judged(|round| round.bookmarks = 9).clean);
        assert!(!judged(|round| round.ended = 1).clean);
        assert!(!judged(|round| round.wrong = 1).clean);
        let mut nothing = IdleReport::default();
        nothing.judge();
        assert!(!nothing.clean);
    }
}
