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
const DELIVERIES: [Row; 4] = [
    (
        "write latency",
        "p50 {write_latency_p50_ns}  p90 {write_latency_p90_ns}  p99 {write_latency_p99_ns}  p99.9 {write_latency_p999_ns}  max {write_latency_max_ns}",
    ),
    ("deliveries", "{deliveries} at {deliveries_per_second}, {stream_bytes_per_second}"),
    (
        "latency",
        "p50 {latency_p50_ns}  p90 {latency_p90_ns}  p99 {latency_p99_ns}  p99.9 {latency_p999_ns}  max {latency_max_ns}",
    ),
    ("checked", "{deliveries_checked} of {deliveries_expected} expected"),
];
const BESIDE: [Row; 5] = [
    (
        "/livez, fresh",
        "{livez_fresh_answered} answered: p50 {livez_fresh_p50_ns}  p99 {livez_fresh_p99_ns}  max {livez_fresh_max_ns}",
    ),
    (
        "/livez, kept",
        "{livez_kept_answered} answered: p50 {livez_kept_p50_ns}  p99 {livez_kept_p99_ns}  max {livez_kept_max_ns}",
    ),
    ("", "of which the probe itself woke late by p99 {livez_client_delay_p99_ns}"),
    ("LISTs", "{lists_answered} answered: p50 {lists_p50_ns}  p99 {lists_p99_ns}  max {lists_max_ns}"),
    ("GETs", "{gets_answered} answered: p50 {gets_p50_ns}  p99 {gets_p99_ns}  max {gets_max_ns}"),
];
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
    report.rows(&DELIVERIES);
    report.rows(&[WRONGS_ROW]);
    report
        .counts("", &[("error events", "error_events"), ("bookmarks", "bookmarks"), ("foreign", "foreign")]);
    report.counts(
        "never read",
        &[("", "deaf"), ("seen ended", "deaf_ended"), ("closed with bytes unsent", "deaf_closing")],
    );
    report.counts("came back", &[("", "returned")]);
    report.rows(&BESIDE);
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
