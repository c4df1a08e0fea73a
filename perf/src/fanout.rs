//! `fanout`: many watchers of the same objects, writes at a rate; one [`Run`], and the floor after it.

use crate::floor;
use crate::options::Load;
use crate::record::Record;
use crate::report::{Report, WRONGS_ROW};
use crate::run::Run;
use crate::sheet::Row;
use crate::target::Trouble;

const CONDITIONS: [Row; 3] = [
    ("objects", "{objects} {resource} of {object_bytes} in {namespaces} namespaces"),
    ("watchers", "{watchers}, opened in {watch_open_seconds} ({watch_open_rate_per_second})"),
    ("writes", "{writes} at {writes_per_second} (wanted {write_rate_wanted_per_second|max})"),
];
const LATENCIES: [(&str, &str); 2] = [("write latency", "write_latency"), ("latency", "latency")];
const DELIVERIES: [Row; 3] = [
    ("deliveries", "{deliveries} at {deliveries_per_second}, {stream_bytes_per_second}"),
    ("checked", "{deliveries_checked} of {deliveries_expected} expected"),
    WRONGS_ROW,
];
const CALLS: [(&str, &str); 4] =
    [("/livez, fresh", "livez_fresh"), ("/livez, kept", "livez_kept"), ("LISTs", "lists"), ("GETs", "gets")];
const SERVER: [Row; 2] = [
    ("server CPU", "{server_cpu_ns_per_delivery} a delivery ({server_cpu_share}), pid {server_pid:plain}"),
    (
        "server RSS",
        "{server_rss_idle_bytes} with idle watchers, {server_rss_before_bytes} without: {rss_bytes_per_watcher} a watcher",
    ),
];

pub(crate) fn run(args: &Load) -> Result<Report, Trouble> {
    Ok(report(measure(args)?, "fanout at {server}, seed {seed:plain}", &[]))
}

/// One run, and the floor for the same where it can be measured.
pub(crate) fn measure(args: &Load) -> Result<Record, Trouble> {
    let mut run = Run::prepare(args)?;
    run.record = run.target.record(args, "fanout");
    let address = run.target.address;
    let scopes = run.set_up()?;
    let mut record = run.measure(&scopes, Run::write)?;
    floor::add_beside(args, address, &mut record);
    Ok(record)
}

/// The report of one run; `rows` are said before the verdict.
pub(crate) fn report(record: Record, title: &str, rows: &[Row]) -> Report {
    let mut report = Report::new(&record.scenario, record.flat().into(), title);
    report.rows(&CONDITIONS);
    report.counts("", &[("failed", "writes_failed")]);
    for (words, name) in LATENCIES {
        let quantiles = [("p50", "p50"), ("p90", "p90"), ("p99", "p99"), ("p99.9", "p999"), ("max", "max")];
        let parts = quantiles.map(|(words, quantile)| format!("{words} {{{name}_{quantile}_ns}}"));
        report.line(&format!("  {words:<16}{}", parts.join("  ")));
    }
    report.rows(&DELIVERIES);
    report
        .counts("", &[("error events", "error_events"), ("bookmarks", "bookmarks"), ("foreign", "foreign")]);
    report.counts(
        "never read",
        &[("", "deaf"), ("seen ended", "deaf_ended"), ("closed with bytes unsent", "deaf_closing")],
    );
    report.counts("came back", &[("", "returned")]);
    for (words, calls) in CALLS {
        report.line(&format!(
            "  {words:<16}{{{calls}_answered}} answered: p50 {{{calls}_p50_ns}}  p99 {{{calls}_p99_ns}}  max {{{calls}_max_ns}}"
        ));
    }
    report.rows(&[("probes woke", "late by p99 {livez_client_delay_p99_ns}")]);
    report.counts("calls failed", &[("", "calls_failed")]);
    report.rows(&[("", "{calls_first_fault}")]);
    report.process();
    report.rows(&SERVER);
    report.rows(&floor::BESIDE);
    report.generator();
    report.rows(rows);
    let wrong = if record.count("deliveries_checked") > 0.0 {
        "FAILED: watchers did not see every write exactly once and in order"
    } else {
        "nothing was delivered"
    };
    let clean = record.clean;
    report.end(vec![record], clean, "every watcher saw every write once and in order", wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_screen_is_short_and_says_when_the_generator_is_busy() {
        let mut record = Record::new("fanout", "a", 1);
        record.tell("server_pid", 7);
        record.tell("client_cpus", 1);
        for (name, value) in [
            ("server_cpu_ns_per_delivery", 4_321.0),
            ("server_cpu_share", 0.5),
            ("client_cpu_share", 0.95),
            ("deliveries_checked", 1.0),
        ] {
            record.set(name, value);
        }
        let screen = report(record, "fanout", &[]).to_string();
        assert!(screen.contains("4.32 µs a delivery") && screen.contains("saturated"), "{screen}");
        assert!(screen.lines().count() <= 20 && screen.contains("FAILED: watchers did not see"), "{screen}");
        assert!(report(Record::default(), "", &[]).to_string().contains("nothing was delivered"));
    }
}
