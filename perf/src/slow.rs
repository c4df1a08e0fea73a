//! What watchers that never read cost those that do, and what hostile clients ([`crate::hostile`]) cost them. Two states take
//! turns: the healthy ones alone, and the same number of them among others whose sockets fill up. Each half is one run of
//! [`fanout`]: the healthy are held to account as there, and those that never read are outside of it.

use crate::fanout;
use crate::floor;
use crate::options::{Load, Slow, deaf_among};
use crate::record::sum;
use crate::report::Report;
use crate::sheet::Row;
use crate::table::{Runs, Table, set_difference, states_of, take_turns};
use crate::target::Trouble;
use clap::ValueEnum;
use serde_json::json;

const SHOWN: &str = "latency_p50_ns latency_p99_ns server_cpu_ns_per_delivery server_rss_bytes server_anon_bytes \
    anon_bytes_per_slow kernel_unread_bytes_per_slow kernel_unsent_bytes_per_slow sent_bytes_per_healthy";
const SIEGE: &str = "besieged_opened besieged_ended besieged_refused besieged_vanished besieged_burst_bytes \
    besieged_burst_refused";
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
        let runs = share.runs()?;
        share.show(&mut report, &runs);
        records.extend(runs.into_iter().map(|(_, record)| record));
    }
    let clean = records.iter().all(|record| record.clean);
    let right = "every healthy watcher saw every write once and in order, and none was ended";
    let wrong = "FAILED: healthy watchers were ended, or did not see every write exactly once and in order";
    Ok(report.end(records, clean, right, wrong))
}

/// One share of watchers that never read, or one kind of hostile clients.
#[derive(Debug)]
struct Share<'a> {
    base: &'a Load,
    rounds: u32,
    percent: u32,
    slow: u32,
    healthy: u32,
    /// Without, and with what is beside the healthy ones in half of the runs.
    states: [String; 2],
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
        let states = ["without", "with"].map(|state| format!("{state} {others}"));
        Self { base, rounds: args.base.rounds, percent, slow, healthy: base.watchers - slow, states }
    }

    fn runs(&self) -> Result<Runs, Trouble> {
        let none = Some(Vec::new());
        let mut without = Load { watchers: self.healthy, floor: none.clone(), ..self.base.clone() };
        (without.mixture.deaf_percent, without.mixture.hostile) = (0, None);
        let mut with = Load { floor: none, ..self.base.clone() };
        with.mixture.deaf_percent = self.percent;
        let runs = take_turns(self.rounds, &self.states, |at, round| {
            if round == self.rounds {
                // Once is enough: of the healthy alone.
                without.floor.clone_from(&self.base.floor);
            }
            fanout::measure(if at == 0 { &without } else { &with }).map(Some)
        })?;
        Ok(self.keep(runs))
    }

    /// The healthy saw everything once and in order, and none of them was ended.
    fn keep(&self, mut runs: Runs) -> Runs {
        let (slow, healthy) = (f64::from(self.slow.max(1)), f64::from(self.healthy.max(1)));
        for (at, half) in &mut runs {
            let scenario = if self.base.mixture.hostile.is_some() { "siege" } else { "slow" };
            (half.scenario, half.subject) = (scenario.to_owned(), self.states[*at].clone());
            half.clean &= half.has_no("disconnected");
            half.set("server_rss_bytes", half.value("server_rss_loaded_bytes"));
            half.set("server_anon_bytes", half.value("server_anon_loaded_bytes"));
            half.set("slow_watchers", half.count("deaf"));
            half.set("slow_ended", half.count("deaf_ended") + half.count("deaf_closing"));
            for name in ["kernel_unread_bytes", "kernel_unsent_bytes"].into_iter().filter(|_| *at == 1) {
                half.set(&format!("{name}_per_slow"), half.value(name).map(|bytes| bytes / slow));
            }
            // Fill and warm-up too.
            let sent = half.count("deliveries_checked") * half.object_bytes as f64;
            half.set("sent_bytes_per_healthy", sent / healthy);
        }
        set_difference(&mut runs, [0, 1], "server_anon_bytes", "anon_bytes_per_slow", slow);
        runs
    }

    fn show(&self, report: &mut Report, runs: &Runs) {
        let all = |name: &str| sum(runs.iter().map(|(_, half)| half), name);
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
        let among = format!("beside {{healthy}} healthy, {} rounds; median (least..most)", self.rounds);
        let (title, shown) = if self.base.mixture.hostile.is_some() {
            (format!("  hostile clients {among}"), format!("{SHOWN} {SIEGE}"))
        } else {
            (format!("  {{percent}} % never read: {{slow}} {among}"), SHOWN.to_owned())
        };
        report.table(&title, Table::new(facts, 0, &states_of(&self.states, 0, runs)), &shown, &TOTALS);
        for (_, half) in runs {
            report.rows_of(&floor::BESIDE, half);
            report.rows_of(&[("first fault", "{first_fault}")], half);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    fn half(p99_ns: u64, anon_bytes: u64) -> Record {
        let mut half = Record { clean: true, object_bytes: 1024, ..Record::default() };
        half.set("latency_p99_ns", p99_ns);
        half.set("server_anon_loaded_bytes", anon_bytes);
        half
    }

    fn share(base: &Load) -> Share<'_> {
        let states = ["without", "with"].map(|state| format!("{state} slow ones, 20 %"));
        Share { base, rounds: 3, percent: 20, slow: 2, healthy: 8, states }
    }

    #[test]
    fn the_rounds_of_a_share_are_put_together() {
        let base = Load::default();
        let round = |round: u32| {
            let with = half(1_100_000 + 100_000 * u64::from(round), 14_096);
            [(0, half(1_000_000, 10_000)), (1, with)].map(|(at, half)| (at, Record { round, ..half }))
        };
        let runs = share(&base).keep((1..=3).flat_map(round).collect());
        assert!(runs.iter().all(|(_, half)| half.clean) && runs[1].1.subject == "with slow ones, 20 %");
        let mut report = Report::default();
        share(&base).show(&mut report, &runs);
        let screen = report.to_string();
        assert!(screen.contains("20 % never read: 2 beside 8 healthy, 3 rounds"), "{screen}");
        assert!(screen.contains("1.30 (1.20..1.40) of A"), "{screen}");
        assert!(screen.contains("Anon per slow               B  2.00 KiB (2.00 KiB..2.00 KiB)"), "{screen}");
    }

    #[test]
    fn one_healthy_watcher_that_was_ended_is_not_clean() {
        let base = Load::default();
        let kept = |name: &str, clean: bool| {
            let mut with = Record { clean, ..half(1, 1) };
            with.set(name, 1);
            share(&base).keep(vec![(1, with)]).remove(0).1
        };
        assert!(!kept("disconnected", true).clean);
        assert!(!kept("lost", false).clean);
        let mut ended = kept("deaf_ended", true);
        assert!(ended.clean, "watchers that never read may be ended");
        ended.set("deaf_closing", 2);
        assert_eq!(share(&base).keep(vec![(1, ended)])[0].1.value("slow_ended"), Some(3.0));
    }
}
