//! What watchers that never read cost those that do, and what hostile clients ([`crate::hostile`]) cost them. Two states take
//! turns: the healthy ones alone, and the same number of them among others whose sockets fill up. Each half is one run of
//! [`fanout`]: the healthy are held to account as there, and those that never read are outside of it.

use crate::fanout;
use crate::floor;
use crate::options::{Load, Slow, deaf_among};
use crate::record::{Record, sum};
use crate::report::Report;
use crate::sheet::Row;
use crate::table::Table;
use crate::target::Trouble;
use clap::ValueEnum;
use serde_json::json;

const STATES: [&str; 2] = ["without", "with"];

const FIGURES: [Row; 9] = [
    ("latency p50", "latency_p50_ns"),
    ("latency p99", "latency_p99_ns"),
    ("CPU a delivery", "server_cpu_ns_per_delivery"),
    ("server RSS", "server_rss_bytes"),
    ("of it anonymous", "server_anon_bytes"),
    ("more for a slow", "anon_bytes_per_slow"),
    ("kernel, unread", "kernel_unread_bytes_per_slow"),
    ("kernel, unsent", "kernel_unsent_bytes_per_slow"),
    ("sent to each", "sent_bytes_per_healthy"),
];
const SIEGE: [Row; 6] = [
    ("hostile opened", "besieged_opened"),
    ("server closed", "besieged_ended"),
    ("not let in", "besieged_refused"),
    ("vanished", "besieged_vanished"),
    ("burst written", "besieged_burst_bytes"),
    ("burst refused", "besieged_burst_refused"),
];
/// Over all rounds.
const TOTALS: [Row; 2] = [
    ("healthy", "lost {lost}  duplicated {duplicated}  out of order {out_of_order}  ended {healthy_ended}"),
    ("never read", "ended {slow_ended}"),
];

pub(crate) fn run(args: &Slow) -> Result<Report, Trouble> {
    let mixture = &args.base.mixture;
    let facts = json!({
        "server": format!("http://{}", args.base.server.authority()),
        "started_with": args.stall,
        "receive_buffer_bytes": mixture.receive_buffer_bytes,
        "fill_bytes": mixture.fill_bytes,
    });
    let (scenario, title) = match mixture.hostile {
        Some(_) => ("siege", "siege at {server}"),
        None => (
            "slow",
            "slow at {server}: {fill_bytes} to each before the warm-up, receive buffer {receive_buffer_bytes|of the kernel's default}",
        ),
    };
    let mut report = Report::new(scenario, facts, title);
    report.rows(&[("started with", "{started_with}")]);
    let mut records = Vec::new();
    for &percent in &args.shares {
        let share = Share::new(args, percent);
        let mut rounds = Vec::new();
        for number in 1..=args.base.rounds {
            rounds.push(share.round(number, args.base.rounds)?);
        }
        share.show(&mut report, &rounds);
        records.extend(rounds.into_iter().flatten());
    }
    let clean = records.iter().all(|record| record.clean);
    Ok(report.end(
        records,
        clean,
        "every healthy watcher saw every write once and in order, and none was ended",
        "FAILED: healthy watchers were ended, or did not see every write exactly once and in order",
    ))
}

/// One share of watchers that never read, or one kind of hostile clients.
#[derive(Debug)]
struct Share<'a> {
    base: &'a Load,
    percent: u32,
    slow: u32,
    healthy: u32,
    /// What is beside the healthy ones, in half of the runs.
    others: String,
}

impl<'a> Share<'a> {
    fn new(args: &'a Slow, percent: u32) -> Self {
        let base = &args.base;
        let slow = deaf_among(base.watchers, percent);
        let others = match base.mixture.hostile {
            None => format!("slow ones, {percent} %"),
            Some(hostile) => {
                let kind = hostile.kind.to_possible_value();
                let kind = kind.as_ref().map_or("", |kind| kind.get_name());
                format!("{kind}, {}", hostile.clients)
            }
        };
        Self { base, percent, slow, healthy: base.watchers - slow, others }
    }

    /// Both states once. Which goes first takes turns too.
    fn round(&self, number: u32, rounds: u32) -> Result<[Record; 2], Trouble> {
        let mut without = self.half(self.healthy, 0);
        without.mixture.hostile = None;
        if number == rounds {
            // Once is enough: of the healthy alone.
            without.floor.clone_from(&self.base.floor);
        }
        let halves = [without, self.half(self.base.watchers, self.percent)];
        let run = |at: usize| {
            eprintln!("{}, round {number} of {rounds}, {} them", self.others, STATES[at]);
            fanout::measure(&halves[at])
        };
        let odd = number % 2 == 1;
        let (first, second) = (run(usize::from(!odd))?, run(usize::from(odd))?);
        Ok(self.keep(number, if odd { [first, second] } else { [second, first] }))
    }

    fn half(&self, watchers: u32, deaf_percent: u32) -> Load {
        let mut half = Load { watchers, floor: Some(Vec::new()), ..self.base.clone() };
        half.mixture.deaf_percent = deaf_percent;
        half
    }

    /// The runs of one round, with what they show together. The healthy saw everything once and in order, and none of
    /// them was ended.
    fn keep(&self, round: u32, mut halves: [Record; 2]) -> [Record; 2] {
        let (slow, healthy) = (f64::from(self.slow.max(1)), f64::from(self.healthy.max(1)));
        let scenario = if self.base.mixture.hostile.is_some() { "siege" } else { "slow" };
        for (half, state) in halves.iter_mut().zip(STATES) {
            (half.scenario, half.subject) = (scenario.to_owned(), format!("{state} {}", self.others));
            half.round = round;
            half.clean &= half.count("disconnected") == 0.0;
            half.set("server_rss_bytes", half.value("server_rss_loaded_bytes"));
            half.set("server_anon_bytes", half.value("server_anon_loaded_bytes"));
            half.set("slow_watchers", half.count("deaf"));
            half.set("slow_ended", half.count("deaf_ended") + half.count("deaf_closing"));
        }
        let [without, with] = &mut halves;
        let anon = without.value("server_anon_bytes").zip(with.value("server_anon_bytes"));
        with.set("anon_bytes_per_slow", anon.map(|(without, with)| (with - without) / slow));
        for name in ["kernel_unread_bytes", "kernel_unsent_bytes"] {
            with.set(&format!("{name}_per_slow"), with.value(name).map(|bytes| bytes / slow));
        }
        // Fill and warm-up too.
        let sent = with.count("deliveries_checked") * with.object_bytes as f64;
        with.set("sent_bytes_per_healthy", sent / healthy);
        halves
    }

    fn show(&self, report: &mut Report, rounds: &[[Record; 2]]) {
        let all = |name: &str| sum(rounds.iter().flatten(), name);
        let facts = json!({
            "percent": self.percent,
            "siege": self.base.mixture.hostile,
            "slow": self.slow,
            "healthy": self.healthy,
            "healthy_ended": all("disconnected"),
            "lost": all("lost"),
            "duplicated": all("duplicated"),
            "out_of_order": all("out_of_order"),
            "slow_ended": all("slow_ended"),
        });
        let states = [0, 1].map(|at| {
            (format!("{} {}", STATES[at], self.others), rounds.iter().map(|round| &round[at]).collect())
        });
        let among = format!("beside {{healthy}} healthy, {} rounds; median (least..most)", rounds.len());
        let (title, figures) = if self.base.mixture.hostile.is_some() {
            (format!("  {}, {among}", self.others), [&FIGURES[..], &SIEGE].concat())
        } else {
            (format!("  {{percent}} % never read: {{slow}} {among}"), FIGURES.to_vec())
        };
        report.table(&title, Table::new(facts, 0, &states), &figures, &TOTALS);
        if let Some([without, _]) = rounds.last() {
            report.rows_of(&floor::BESIDE, without);
        }
        for [without, with] in rounds {
            report.rows_of(&[("fault without", "{first_fault}")], without);
            report.rows_of(&[("fault with", "{first_fault}")], with);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(p99_ns: u64, anon_bytes: u64) -> Record {
        let mut half = Record { clean: true, object_bytes: 1024, ..Record::default() };
        half.set("latency_p99_ns", p99_ns);
        half.set("server_anon_loaded_bytes", anon_bytes);
        half
    }

    #[test]
    fn the_rounds_of_a_share_are_put_together() {
        let base = Load::default();
        let share =
            Share { base: &base, percent: 20, slow: 2, healthy: 8, others: "slow ones, 20 %".to_owned() };
        let round = |number: u32| {
            let with = half(1_100_000 + 100_000 * u64::from(number), 14_096);
            share.keep(number, [half(1_000_000, 10_000), with])
        };
        let rounds: Vec<[Record; 2]> = (1..=3).map(round).collect();
        assert!(rounds.iter().flatten().all(|half| half.clean));
        assert_eq!(rounds[0][1].subject, "with slow ones, 20 %");
        assert_eq!(rounds[0][1].value("anon_bytes_per_slow"), Some(2048.0));
        let mut report = Report::default();
        share.show(&mut report, &rounds);
        let screen = report.to_string();
        assert!(screen.contains("20 % never read: 2 beside 8 healthy, 3 rounds"), "{screen}");
        assert!(screen.contains("1.30 (1.20..1.40) of A"), "{screen}");
        assert!(screen.contains("more for a slow B  2.00 KiB (2.00 KiB..2.00 KiB)"), "{screen}");
    }

    #[test]
    fn one_healthy_watcher_that_was_ended_is_not_clean() {
        let base = Load::default();
        let share = Share { base: &base, percent: 20, slow: 2, healthy: 8, others: String::new() };
        let kept = |at: usize, name: &str, clean: bool| {
            let mut halves = [half(1, 1), half(1, 1)];
            halves[at].set(name, 1);
            halves[at].clean = clean;
            share.keep(1, halves)
        };
        let clean = |halves: &[Record; 2]| halves.each_ref().map(|half| half.clean);
        assert_eq!(clean(&kept(0, "disconnected", true)), [false, true]);
        assert_eq!(clean(&kept(1, "disconnected", true)), [true, false]);
        assert_eq!(clean(&kept(1, "lost", false)), [true, false]);
        let mut ended = kept(1, "deaf_ended", true);
        assert_eq!(clean(&ended), [true, true], "watchers that never read may be ended");
        ended[1].set("deaf_closing", 2);
        assert_eq!(share.keep(1, ended)[1].value("slow_ended"), Some(3.0));
    }
}
