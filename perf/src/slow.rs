//! What watchers that never read cost those that do, and what hostile clients ([`crate::hostile`]) cost them. Two states take turns:
//! the healthy ones alone, and as many of them among the others. Each is one run of [`fanout`], which leaves the others out.

use crate::fanout;
use crate::floor;
use crate::options::{Load, Slow, deaf_among, value_name};
use crate::record::{Facts, Record, sums};
use crate::report::Report;
use crate::table::{Table, set_difference, states_of, take_turns};
use crate::target::Trouble;
use serde_json::json;

const SHOWN: &str = "latency_p50_ns latency_p99_ns server_cpu_ns_per_delivery server_rss_bytes server_anon_bytes \
    anon_bytes_per_slow kernel_unread_bytes_per_slow kernel_unsent_bytes_per_slow sent_bytes_per_healthy besieged_opened \
    besieged_ended besieged_refused besieged_vanished besieged_burst_bytes besieged_burst_refused";
const SUMS: &str = "lost duplicated out_of_order healthy_ended slow_ended";

pub(crate) fn run(args: &Slow) -> Result<Report, Trouble> {
    let mixture = &args.base.mixture;
    let facts = json!({
        "server": args.base.server.to_string(),
        "protocol": args.base.protocol_name(),
        "started_with": args.stall,
        "receive_buffer_bytes": mixture.receive_buffer_bytes,
        "fill_bytes": mixture.fill_bytes,
    });
    let title = "server protocol started_with fill_bytes receive_buffer_bytes";
    let mut report = Report::new(scenario(&args.base), facts, title);
    let mut records = Vec::new();
    for &percent in &args.shares {
        let share = Share::new(&args.base, percent);
        let runs = share.runs()?;
        report.table(&format!("percent slow healthy rounds\n{SUMS}"), share.table(&runs), SHOWN);
        runs.iter().for_each(|half| report.values_of(floor::BESIDE, half));
        records.extend(runs);
    }
    let right = "every healthy watcher saw every write once and in order, and none was ended";
    Ok(report.end(records, true, right))
}

fn scenario(base: &Load) -> &'static str {
    if base.mixture.hostile.is_some() { "siege" } else { "slow" }
}

struct Share<'a> {
    base: &'a Load,
    percent: u32,
    slow: u32,
    healthy: u32,
    /// Without, and with what is beside the healthy ones in half of the runs.
    states: [String; 2],
}

impl<'a> Share<'a> {
    fn new(base: &'a Load, percent: u32) -> Self {
        let slow = deaf_among(base.watchers, percent);
        let others = match base.mixture.hostile {
            None => format!("slow ones, {percent} %"),
            Some(hostile) => format!("{}, {}", value_name(&hostile.kind), hostile.clients),
        };
        let states = ["without", "with"].map(|state| format!("{state} {others}"));
        Self { base, percent, slow, healthy: base.watchers - slow, states }
    }

    fn runs(&self) -> Result<Vec<Record>, Trouble> {
        let none = Some(Vec::new());
        let mut without = Load { watchers: self.healthy, floor: none.clone(), ..self.base.clone() };
        (without.mixture.deaf_percent, without.mixture.hostile) = (0, None);
        let mut with = Load { floor: none, ..self.base.clone() };
        with.mixture.deaf_percent = self.percent;
        let runs = take_turns(self.base.rounds, &self.states, |at, round| {
            if round == self.base.rounds {
                // Once is enough: of the healthy alone.
                without.floor.clone_from(&self.base.floor);
            }
            fanout::measure(if at == 0 { &without } else { &with }).map(Some)
        })?;
        Ok(self.keep(runs))
    }

    /// The healthy saw everything once and in order, and none of them was ended.
    fn keep(&self, mut runs: Vec<Record>) -> Vec<Record> {
        let (slow, healthy) = (f64::from(self.slow.max(1)), f64::from(self.healthy.max(1)));
        for half in &mut runs {
            (half.scenario, half.subject) = (scenario(self.base).to_owned(), self.states[half.state].clone());
            half.clean &= half.has_no("disconnected");
            half.set("server_rss_bytes", half.value("server_rss_loaded_bytes"));
            half.set("server_anon_bytes", half.value("server_anon_loaded_bytes"));
            half.set("slow_watchers", half.count("deaf"));
            half.set("slow_ended", half.count("deaf_ended") + half.count("deaf_closing"));
            half.set("healthy_ended", half.count("disconnected"));
            let of_slow =
                if half.state == 1 { &["kernel_unread_bytes", "kernel_unsent_bytes"][..] } else { &[] };
            for name in of_slow {
                half.set(&format!("{name}_per_slow"), half.value(name).map(|bytes| bytes / slow));
            }
            // Fill and warm-up too.
            let sent = half.count("deliveries_checked") * half.object_bytes as f64;
            half.set("sent_bytes_per_healthy", sent / healthy);
        }
        set_difference(&mut runs, [0, 1], "server_anon_bytes", "anon_bytes_per_slow", slow);
        runs
    }

    fn table(&self, runs: &[Record]) -> Table {
        let facts = json!({
            "percent": self.percent,
            "siege": self.base.mixture.hostile,
            "slow": self.slow,
            "healthy": self.healthy,
            "rounds": self.base.rounds,
        });
        let mut table = Table::new(facts, 0, &states_of(&self.states, 0, runs));
        table.facts.extend::<Facts>(sums(runs.iter(), SUMS));
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rounds_of_a_share_are_put_together() {
        let base = Load { watchers: 10, ..Load::default() };
        let share = Share::new(&base, 20);
        let half = |state, round: u32, p99_ns: u32, anon_bytes: u32| {
            let mut half = Record { state, round, clean: true, ..Record::default() };
            half.set("latency_p99_ns", p99_ns);
            half.set("server_anon_loaded_bytes", anon_bytes);
            half
        };
        let with = |round| half(1, round, 1_100_000 + 100_000 * round, 14_096);
        let mut runs: Vec<_> =
            (1..=3).flat_map(|round| [half(0, round, 1_000_000, 10_000), with(round)]).collect();
        // Watchers that never read may be ended, healthy ones may not.
        runs[1].set("deaf_ended", 1);
        runs[3].set("deaf_closing", 2);
        runs[5].set("disconnected", 1);
        let runs = share.keep(runs);
        assert_eq!([1, 3, 5].map(|run| runs[run].clean), [true, true, false]);
        assert_eq!(runs[1].subject, "with slow ones, 20 %");
        let table = share.table(&runs);
        let facts = ["slow", "healthy", "slow_ended", "healthy_ended"].map(|name| &table.facts[name]);
        assert_eq!(facts, [2, 8, 3, 1]);
        let screen = table.show(SHOWN);
        assert!(screen.contains("1.30 (1.20..1.40) of A"), "{screen}");
        assert!(screen.contains("Anon per slow               B  2.00 KiB\n"), "{screen}");
    }
}
