//! What a run of `slow` found: for a person on a screen, and as one JSON object whose fields carry their units.

use crate::record::{Record, Scenario};
use crate::report::Report;
use crate::siege::Siege;
use crate::spread::Spread;
use crate::units::{show_bytes, show_count, show_ns};
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// Both states, one after the other.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Round {
    pub(super) number: u32,
    pub(super) without: Report,
    pub(super) with: Report,
}

/// One number in both states, and its ratio round by round.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Pair {
    without: Spread,
    with: Spread,
    ratio: Option<Spread>,
}

impl Pair {
    fn of(rounds: &[Round], number: impl Fn(&Report) -> Option<f64>) -> Option<Self> {
        let both: Vec<(f64, f64)> =
            rounds.iter().filter_map(|round| Some((number(&round.without)?, number(&round.with)?))).collect();
        let ratios = both.iter().filter(|both| both.0 > 0.0).map(|both| both.1 / both.0);
        Some(Self {
            without: Spread::of(both.iter().map(|both| both.0))?,
            with: Spread::of(both.iter().map(|both| both.1))?,
            ratio: Spread::of(ratios),
        })
    }
}

/// All rounds with one share of watchers that never read. Absent numbers could not be measured.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Share {
    pub(super) percent: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) siege: Option<Siege>,
    pub(super) slow: u32,
    pub(super) healthy: u32,
    /// Of the healthy.
    pub(super) latency_p50_ns: Option<Pair>,
    pub(super) latency_p99_ns: Option<Pair>,
    pub(super) server_cpu_ns_per_delivery: Option<Pair>,
    /// While all are connected and the writes are over.
    pub(super) server_rss_bytes: Option<Pair>,
    pub(super) server_anon_bytes: Option<Pair>,
    /// How much more memory of its own the server has with them.
    pub(super) anon_bytes_per_slow: Option<Spread>,
    /// What the kernel holds for each of them: sent to it and not read, and taken from the server and not sent.
    pub(super) kernel_unread_bytes_per_slow: Option<Spread>,
    pub(super) kernel_unsent_bytes_per_slow: Option<Spread>,
    /// What a healthy one was sent, fill and warm-up too.
    pub(super) sent_bytes_per_healthy: Option<Spread>,
    pub(super) healthy_ended: u64,
    pub(super) lost: u64,
    pub(super) duplicated: u64,
    pub(super) out_of_order: u64,
    /// Of those who never read, over all rounds.
    pub(super) slow_ended: u64,
    pub(super) rounds: Vec<Round>,
    pub(super) records: Vec<Record>,
    pub(super) clean: bool,
}

/// The report of one run.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct SlowReport {
    pub(super) scenario: &'static str,
    pub(super) server: String,
    /// In the user's words.
    pub(super) started_with: Option<String>,
    /// Of those who never read; `None`: the kernel's default.
    pub(super) receive_buffer_bytes: Option<usize>,
    pub(super) fill_bytes: usize,
    pub(super) shares: Vec<Share>,
    pub(crate) clean: bool,
}

impl Share {
    /// Puts the rounds together. The healthy saw everything once and in order, and none of them was ended.
    pub(super) fn judge(&mut self) {
        let rounds = &self.rounds;
        self.latency_p50_ns = Pair::of(rounds, |half| Some(half.latency_p50_ns as f64));
        self.latency_p99_ns = Pair::of(rounds, |half| Some(half.latency_p99_ns as f64));
        self.server_cpu_ns_per_delivery = Pair::of(rounds, |half| half.server_cpu_ns_per_delivery);
        self.server_rss_bytes =
            Pair::of(rounds, |half| half.server_rss_loaded_bytes.map(|bytes| bytes as f64));
        self.server_anon_bytes =
            Pair::of(rounds, |half| half.server_anon_loaded_bytes.map(|bytes| bytes as f64));
        let slow = f64::from(self.slow.max(1));
        let more = |round: &Round| {
            let anon = |half: &Report| half.server_anon_loaded_bytes.map(|bytes| bytes as f64);
            Some((anon(&round.with)? - anon(&round.without)?) / slow)
        };
        self.anon_bytes_per_slow = Spread::of(rounds.iter().filter_map(more));
        let each = |of: fn(&Report) -> Option<u64>| {
            Spread::of(rounds.iter().filter_map(|round| Some(of(&round.with)? as f64 / slow)))
        };
        self.kernel_unread_bytes_per_slow = each(|half| half.kernel_unread_bytes);
        self.kernel_unsent_bytes_per_slow = each(|half| half.kernel_unsent_bytes);
        let healthy = f64::from(self.healthy.max(1));
        let sent = |round: &Round| round.with.deliveries_checked as f64 * round.with.object_bytes as f64;
        self.sent_bytes_per_healthy = Spread::of(rounds.iter().map(|round| sent(round) / healthy));
        let halves = || rounds.iter().flat_map(|round| [&round.without, &round.with]);
        self.healthy_ended = halves().map(|half| half.disconnected).sum();
        self.lost = halves().map(|half| half.lost).sum();
        self.duplicated = halves().map(|half| half.duplicated).sum();
        self.out_of_order = halves().map(|half| half.out_of_order).sum();
        self.slow_ended = halves().map(|half| half.deaf_ended + half.deaf_closing.unwrap_or(0)).sum();
        self.clean = !rounds.is_empty() && self.healthy_ended == 0 && halves().all(|half| half.clean);
        let both = |round: &Round| {
            let (without, with) = (&round.without, &round.with);
            let (scenario, who) = match self.siege {
                None => ("slow", format!("slow ones, {} %", self.percent)),
                Some(siege) => ("siege", format!("{}, {}", siege.kind.name(), siege.clients)),
            };
            [(without, "without"), (with, "with")]
                .map(|(half, state)| record(half, scenario, &format!("{state} {who}"), round.number))
        };
        self.records = rounds.iter().flat_map(both).collect();
    }
}

fn record(half: &Report, scenario: &'static str, subject: &str, round: u32) -> Record {
    let mut record = Record::new(scenario, subject, round);
    record.watchers = half.watchers;
    record.object_bytes = half.object_bytes;
    record.write_rate_per_second = half.write_rate_wanted_per_second;
    record.clean = half.clean && half.disconnected == 0;
    record.set("latency_p50_ns", half.latency_p50_ns as f64);
    record.set("latency_p99_ns", half.latency_p99_ns as f64);
    record.set("latency_max_ns", half.latency_max_ns as f64);
    record.set("deliveries_per_second", half.deliveries_per_second);
    record.set("server_cpu_ns_per_delivery", half.server_cpu_ns_per_delivery);
    record.set("server_cpu_share", half.server_cpu_share);
    record.set("server_rss_bytes", half.server_rss_loaded_bytes.map(|bytes| bytes as f64));
    record.set("server_anon_bytes", half.server_anon_loaded_bytes.map(|bytes| bytes as f64));
    record.set("slow_watchers", half.deaf as f64);
    record.set("slow_ended", (half.deaf_ended + half.deaf_closing.unwrap_or(0)) as f64);
    record
}

impl Scenario for SlowReport {
    fn records(&self) -> Vec<&Record> {
        self.shares.iter().flat_map(|share| &share.records).collect()
    }

    fn is_clean(&self) -> bool {
        self.clean
    }
}

impl fmt::Display for SlowReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buffer = self.receive_buffer_bytes.map_or_else(
            || "the kernel's default receive buffer".to_owned(),
            |bytes| format!("a receive buffer of {}", show_bytes(bytes as u64)),
        );
        let fill = show_bytes(self.fill_bytes as u64);
        if self.scenario == "siege" {
            writeln!(out, "siege at {}", self.server)?;
        } else {
            writeln!(out, "slow at {}: {fill} to each before the warm-up, {buffer}", self.server)?;
        }
        if let Some(words) = &self.started_with {
            writeln!(out, "  {:<16}{words}", "started with")?;
        }
        for share in &self.shares {
            share.write(out)?;
        }
        let verdict = if self.clean {
            "every healthy watcher saw every write once and in order, and none was ended"
        } else {
            "FAILED: healthy watchers were ended, or did not see every write exactly once and in order"
        };
        writeln!(out, "  {:<16}{verdict}", "verdict")
    }
}

impl Share {
    fn write(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line =
            |out: &mut fmt::Formatter<'_>, name: &str, text: String| writeln!(out, "  {name:<16}{text}");
        let (slow, healthy) = (show_count(u64::from(self.slow)), show_count(u64::from(self.healthy)));
        let rounds = self.rounds.len();
        let all = match self.siege {
            None => {
                format!("{} % never read: {slow} beside {healthy} healthy, {rounds} rounds", self.percent)
            }
            Some(siege) => {
                let (who, clients) = (siege.kind.name(), show_count(u64::from(siege.clients)));
                format!("{who}: {clients} beside {healthy} healthy, {rounds} rounds")
            }
        };
        writeln!(out, "  {all}; median (least..most)")?;
        let ns = |ns: f64| show_ns(whole(ns));
        let bytes = |bytes: f64| show_bytes(whole(bytes));
        let micros = |ns: f64| format!("{:.2} µs", ns / 1e3);
        write_pair(out, "p50", self.latency_p50_ns, ns)?;
        write_pair(out, "p99", self.latency_p99_ns, ns)?;
        write_pair(out, "CPU a delivery", self.server_cpu_ns_per_delivery, micros)?;
        if let Some(floor) = self.rounds.last().and_then(|round| round.without.floor.as_ref()) {
            line(out, "floor", format!("without, in the last round: {floor}"))?;
        }
        write_pair(out, "server RSS", self.server_rss_bytes, bytes)?;
        write_pair(out, "of it anonymous", self.server_anon_bytes, bytes)?;
        let kib = |bytes: f64| format!("{:.2}", bytes / 1024.0);
        if let Some(each) = self.anon_bytes_per_slow {
            line(out, "", format!("{} KiB more for each slow one", each.show(kib)))?;
        }
        let kernel = (self.kernel_unread_bytes_per_slow, self.kernel_unsent_bytes_per_slow);
        if let ((Some(unread), Some(unsent)), Some(sent)) = (kernel, self.sent_bytes_per_healthy) {
            let (unread, unsent, sent) = (unread.show(kib), unsent.show(kib), sent.show(kib));
            line(out, "kernel", format!("a slow one: {unread} KiB unread, {unsent} KiB unsent"))?;
            line(out, "", format!("meanwhile a healthy one was sent {sent} KiB of objects"))?;
        }
        let [ended, lost, duplicated, out_of_order, slow_ended] =
            [self.healthy_ended, self.lost, self.duplicated, self.out_of_order, self.slow_ended]
                .map(show_count);
        let wrong = format!("lost {lost}  duplicated {duplicated}  out of order {out_of_order}");
        line(out, "healthy", format!("{wrong}  ended {ended}"))?;
        if self.siege.is_none() {
            line(out, "slow", format!("ended {slow_ended}, over all rounds"))?;
        }
        for besieged in self.rounds.iter().filter_map(|round| round.with.beside.besieged.as_ref()) {
            let text = format!(
                "opened {}  closed by the server {}  not let in {}",
                besieged.opened, besieged.ended, besieged.refused
            );
            line(out, "besiegers", text)?;
            if besieged.vanished > 0 {
                line(out, "", format!("vanished {}", besieged.vanished))?;
            }
            if besieged.burst_bytes > 0 {
                let (bytes, refused) = (show_bytes(besieged.burst_bytes), besieged.burst_refused);
                line(out, "", format!("wrote {bytes}, {refused} writes refused"))?;
            }
        }
        let halves = self.rounds.iter().flat_map(|round| [&round.without, &round.with]);
        match halves.filter_map(|half| half.first_fault.as_ref()).next() {
            Some(fault) => line(out, "first fault", fault.clone()),
            None => Ok(()),
        }
    }
}

fn write_pair(
    out: &mut fmt::Formatter<'_>,
    name: &str,
    pair: Option<Pair>,
    show: impl Fn(f64) -> String,
) -> fmt::Result {
    let Some(pair) = pair else { return Ok(()) };
    let (without, with) = (pair.without.show(&show), pair.with.show(&show));
    let ratio = pair.ratio.map_or_else(|| "?".to_owned(), |ratio| ratio.show(|ratio| format!("{ratio:.2}")));
    writeln!(out, "  {name:<16}without {without}  with {with}  ratio {ratio}")
}

/// Nanoseconds or bytes that several rounds averaged.
fn whole(number: f64) -> u64 {
    // As seconds, because that conversion is checked; both kinds of number are far below 2^53.
    Duration::try_from_secs_f64(number.max(0.0).round()).map_or(0, |whole| whole.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(p99_ns: u64, anon_bytes: u64) -> Report {
        let mut half = Report { deliveries_checked: 10, latency_p99_ns: p99_ns, ..Report::default() };
        half.server_anon_loaded_bytes = Some(anon_bytes);
        half.object_bytes = 1024;
        half.judge();
        half
    }

    fn share(change: fn(&mut Round)) -> Share {
        let mut share = Share { percent: 20, slow: 2, healthy: 8, ..Share::default() };
        for number in 1..=3 {
            let with = half(1_100_000 + 100_000 * u64::from(number), 14_096);
            share.rounds.push(Round { number, without: half(1_000_000, 10_000), with });
        }
        change(&mut share.rounds[1]);
        share.judge();
        share
    }

    #[test]
    fn ratios_are_of_rounds() {
        let share = share(|_| {});
        let p99 = share.latency_p99_ns.expect("three rounds");
        assert_eq!(p99.ratio, Some(Spread { median: 1.3, least: 1.2, most: 1.4 }));
        assert_eq!(share.anon_bytes_per_slow.map(|each| each.median), Some(2048.0));
        assert!(share.clean);
        assert_eq!(share.records.len(), 6);
        assert_eq!(share.records[1].subject, "with slow ones, 20 %");
        let report = SlowReport { shares: vec![share], clean: true, ..SlowReport::default() };
        let screen = report.to_string();
        assert!(screen.contains("ratio 1.30 (1.20..1.40)"), "{screen}");
        assert!(screen.contains("2.00 (2.00..2.00) KiB more for each slow one"), "{screen}");
    }

    #[test]
    fn one_healthy_watcher_that_was_ended_is_not_clean() {
        assert!(!share(|round| round.with.disconnected = 1).clean);
        assert!(!share(|round| round.without.disconnected = 1).clean);
        assert!(!share(|round| (round.with.lost, round.with.clean) = (1, false)).clean);
        let ended = share(|round| (round.with.deaf_ended, round.with.deaf_closing) = (1, Some(2)));
        assert!(ended.clean, "who never reads may be ended");
        assert_eq!(ended.slow_ended, 3);
    }
}
