//! What a run of `slow` or of `siege` found. Names carry their units.

use crate::options::{Hostile, Slow, deaf_among};
use crate::record::{Record, Scenario};
use crate::report::Report;
use crate::sheet::{Row, Sheet, number};
use crate::spread::Spread;
use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;
use std::fmt;

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

/// All rounds with one share of watchers that never read. Absent numbers could not be measured.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Share {
    percent: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    siege: Option<Hostile>,
    slow: u32,
    healthy: u32,
    /// Of the healthy.
    latency_p50_ns: Option<Pair>,
    latency_p99_ns: Option<Pair>,
    server_cpu_ns_per_delivery: Option<Pair>,
    /// While all are connected and the writes are over.
    server_rss_bytes: Option<Pair>,
    server_anon_bytes: Option<Pair>,
    /// How much more memory of its own the server has with them.
    anon_bytes_per_slow: Option<Spread>,
    /// What the kernel holds for each of them: sent to it and not read, and taken from the server and not sent.
    kernel_unread_bytes_per_slow: Option<Spread>,
    kernel_unsent_bytes_per_slow: Option<Spread>,
    /// What a healthy one was sent, fill and warm-up too.
    sent_bytes_per_healthy: Option<Spread>,
    healthy_ended: u64,
    lost: u64,
    duplicated: u64,
    out_of_order: u64,
    /// Of those that never read, over all rounds.
    slow_ended: u64,
    rounds: Vec<Round>,
    records: Vec<Record>,
    clean: bool,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct SlowReport {
    scenario: &'static str,
    server: String,
    started_with: Option<String>,
    /// Of those that never read; `None`: the kernel's default.
    receive_buffer_bytes: Option<usize>,
    fill_bytes: usize,
    shares: Vec<Share>,
    clean: bool,
}

impl SlowReport {
    pub(super) fn new(args: &Slow, shares: Vec<Share>) -> Self {
        let mixture = &args.base.mixture;
        Self {
            scenario: if mixture.hostile.is_some() { "siege" } else { "slow" },
            server: format!("http://{}", args.base.server.authority()),
            started_with: args.stall.clone(),
            receive_buffer_bytes: mixture.receive_buffer_bytes,
            fill_bytes: mixture.fill_bytes,
            clean: shares.iter().all(|share| share.clean),
            shares,
        }
    }
}

/// A value in both states of all rounds.
fn pair(rounds: &[Value], name: &str) -> Option<Pair> {
    let both = rounds.iter().filter_map(|round| {
        number(round, &format!("without/{name}")).zip(number(round, &format!("with/{name}")))
    });
    let ratios = both.clone().filter(|both| both.0 > 0.0).map(|both| both.1 / both.0);
    Some(Pair {
        without: Spread::of(both.clone().map(|both| both.0))?,
        with: Spread::of(both.clone().map(|both| both.1))?,
        ratio: Spread::of(ratios),
    })
}

impl Share {
    /// Of `watchers`, with all their rounds.
    pub(super) fn new(percent: u32, siege: Option<Hostile>, watchers: u32, rounds: Vec<Round>) -> Self {
        let slow = deaf_among(watchers, percent);
        let mut share = Self { percent, siege, slow, healthy: watchers - slow, rounds, ..Self::default() };
        share.judge();
        share
    }

    /// Puts the rounds together. The healthy saw everything once and in order, and none of them was ended.
    fn judge(&mut self) {
        let json = serde_json::to_value(&self.rounds).unwrap_or_default();
        let rounds = json.as_array().map_or(&[][..], Vec::as_slice);
        self.latency_p50_ns = pair(rounds, "latency_p50_ns");
        self.latency_p99_ns = pair(rounds, "latency_p99_ns");
        self.server_cpu_ns_per_delivery = pair(rounds, "server_cpu_ns_per_delivery");
        self.server_rss_bytes = pair(rounds, "server_rss_loaded_bytes");
        self.server_anon_bytes = pair(rounds, "server_anon_loaded_bytes");
        let (slow, healthy) = (f64::from(self.slow.max(1)), f64::from(self.healthy.max(1)));
        let over = |of: &dyn Fn(&Value) -> Option<f64>| Spread::of(rounds.iter().filter_map(of));
        self.anon_bytes_per_slow = over(&|round| {
            let with = number(round, "with/server_anon_loaded_bytes")?;
            Some((with - number(round, "without/server_anon_loaded_bytes")?) / slow)
        });
        self.kernel_unread_bytes_per_slow =
            over(&|round| Some(number(round, "with/kernel_unread_bytes")? / slow));
        self.kernel_unsent_bytes_per_slow =
            over(&|round| Some(number(round, "with/kernel_unsent_bytes")? / slow));
        self.sent_bytes_per_healthy = over(&|round| {
            Some(number(round, "with/deliveries_checked")? * number(round, "with/object_bytes")? / healthy)
        });
        let halves = || self.rounds.iter().flat_map(|round| [&round.without, &round.with]);
        self.healthy_ended = halves().map(|half| half.seen.disconnected).sum();
        self.lost = halves().map(|half| half.seen.lost).sum();
        self.duplicated = halves().map(|half| half.seen.duplicated).sum();
        self.out_of_order = halves().map(|half| half.seen.out_of_order).sum();
        self.slow_ended = halves().map(slow_ended).sum();
        self.clean = !rounds.is_empty() && self.healthy_ended == 0 && halves().all(|half| half.clean);
        let (scenario, who) = match self.siege {
            None => ("slow", format!("slow ones, {} %", self.percent)),
            Some(hostile) => ("siege", format!("{}, {}", kind(hostile), hostile.clients)),
        };
        let both = |round: &Round| {
            [(&round.without, "without"), (&round.with, "with")]
                .map(|(half, state)| record(half, scenario, &format!("{state} {who}"), round.number))
        };
        self.records = self.rounds.iter().flat_map(both).collect();
    }
}

fn kind(hostile: Hostile) -> String {
    hostile.kind.to_possible_value().map_or_else(String::new, |kind| kind.get_name().to_owned())
}

fn slow_ended(half: &Report) -> u64 {
    half.seen.deaf_ended + half.deaf_closing.unwrap_or(0)
}

fn record(half: &Report, scenario: &str, subject: &str, round: u32) -> Record {
    let mut record = Record::new(scenario, subject, round);
    record.watchers = half.watchers;
    record.object_bytes = half.object_bytes;
    record.write_rate_per_second = half.write_rate_wanted_per_second;
    record.clean = half.clean && half.seen.disconnected == 0;
    record.take(
        half,
        "latency_p50_ns latency_p99_ns latency_max_ns deliveries_per_second server_cpu_ns_per_delivery server_cpu_share",
    );
    record.set("server_rss_bytes", half.server_rss_loaded_bytes.map(|bytes| bytes as f64));
    record.set("server_anon_bytes", half.server_anon_loaded_bytes.map(|bytes| bytes as f64));
    record.set("slow_watchers", half.seen.deaf as f64);
    record.set("slow_ended", slow_ended(half) as f64);
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

const PAIRS: [Row; 5] = [
    ("p50", "latency_p50_ns"),
    ("p99", "latency_p99_ns"),
    ("CPU a delivery", "server_cpu_ns_per_delivery"),
    ("server RSS", "server_rss_bytes"),
    ("of it anonymous", "server_anon_bytes"),
];

impl fmt::Display for SlowReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hostile = self.scenario == "siege";
        let title = if hostile {
            "siege at {server}"
        } else {
            "slow at {server}: {fill_bytes} to each before the warm-up, receive buffer {receive_buffer_bytes|of the kernel's default}"
        };
        let mut sheet = Sheet::new(self, title);
        sheet.rows(&[("started with", "{started_with}")]);
        sheet.each("/shares", |sheet, at| {
            let rounds = self.shares[at].rounds.len();
            sheet.line(&if hostile {
                format!("  {{siege/kind}}: {{siege/clients}} beside {{healthy}} healthy, {rounds} rounds; median (least..most)")
            } else {
                format!("  {{percent}} % never read: {{slow}} beside {{healthy}} healthy, {rounds} rounds; median (least..most)")
            });
            for (words, name) in PAIRS {
                let place = |of: &str| format!("{{{name}/{of}}}");
                let (without, with, ratio) = (place("without"), place("with"), place("ratio|?"));
                sheet.line(&format!("  {words:<16}without {without}  with {with}  ratio {ratio}"));
            }
            sheet.rows(&[
                ("", "{anon_bytes_per_slow:kib} KiB more for each slow one"),
                (
                    "kernel",
                    "a slow one: {kernel_unread_bytes_per_slow:kib} KiB unread, {kernel_unsent_bytes_per_slow:kib} KiB unsent",
                ),
                ("healthy", "lost {lost}  duplicated {duplicated}  out of order {out_of_order}  ended {healthy_ended}"),
                ("", "each was sent {sent_bytes_per_healthy:kib} KiB of objects"),
            ]);
            if !hostile {
                sheet.rows(&[("slow", "ended {slow_ended}, over all rounds")]);
            }
            if let Some(floor) = self.shares[at].rounds.last().and_then(|round| round.without.floor.as_ref()) {
                sheet.text(&format!("  {:<16}without, in the last round: {floor}", "floor"));
            }
            sheet.each("/rounds", |sheet, _| {
                sheet.rows(&[
                    (
                        "hostile clients",
                        "opened {with/besieged/opened}  closed by the server {with/besieged/ended}  not let in {with/besieged/refused}",
                    ),
                ]);
                if sheet.number("with/besieged/vanished").is_some_and(|count| count > 0.0) {
                    sheet.rows(&[("", "vanished {with/besieged/vanished}")]);
                }
                if sheet.number("with/besieged/burst_bytes").is_some_and(|count| count > 0.0) {
                    sheet.rows(&[("", "wrote {with/besieged/burst_bytes}, {with/besieged/burst_refused} writes refused")]);
                }
                sheet.rows(&[("fault without", "{without/first_fault}"), ("fault with", "{with/first_fault}")]);
            });
        });
        let verdict = if self.clean {
            "every healthy watcher saw every write once and in order, and none was ended"
        } else {
            "FAILED: healthy watchers were ended, or did not see every write exactly once and in order"
        };
        sheet.rows(&[("verdict", verdict)]);
        sheet.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Seen;

    fn half(p99_ns: u64, anon_bytes: u64) -> Report {
        let seen = Seen { delivered: 10, ..Seen::default() };
        let mut half = Report { seen, latency_p99_ns: p99_ns, object_bytes: 1024, ..Report::default() };
        half.server_anon_loaded_bytes = Some(anon_bytes);
        half.judge();
        half
    }

    fn share(change: fn(&mut Round)) -> Share {
        let round = |number| {
            let with = half(1_100_000 + 100_000 * u64::from(number), 14_096);
            Round { number, without: half(1_000_000, 10_000), with }
        };
        let mut rounds: Vec<Round> = (1..=3).map(round).collect();
        change(&mut rounds[1]);
        Share::new(20, None, 10, rounds)
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
        assert!(!share(|round| round.with.seen.disconnected = 1).clean);
        assert!(!share(|round| round.without.seen.disconnected = 1).clean);
        assert!(!share(|round| (round.with.seen.lost, round.with.clean) = (1, false)).clean);
        let ended = share(|round| (round.with.seen.deaf_ended, round.with.deaf_closing) = (1, Some(2)));
        assert!(ended.clean, "watchers that never read may be ended");
        assert_eq!(ended.slow_ended, 3);
    }
}
