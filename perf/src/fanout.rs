//! `fanout`: many watchers of the same objects, writes at a rate; one [`Run`], and the floor after it. `mixed` is the same with
//! what a cluster does beside: several kinds of watches, watchers that never read or that leave and return, calls and probes.

use crate::floor;
use crate::options::Load;
use crate::record::Record;
use crate::report::{Report, WRONGS};
use crate::run::Run;
use crate::target::Trouble;

const LOAD: &str = "
    objects resource encoding object_bytes namespaces
    watchers watch_open_seconds watch_open_rate_per_second
    writes writes_per_second write_rate_wanted_per_second writes_failed write_send_delay_p99_ns
    write_latency_p50_ns write_latency_p90_ns write_latency_p99_ns write_latency_p999_ns write_latency_max_ns
    latency_p50_ns latency_p90_ns latency_p99_ns latency_p999_ns latency_max_ns
    deliveries deliveries_per_second stream_bytes_per_second deliveries_checked deliveries_expected";
const REST: &str = "
    error_events bookmarks foreign returned deaf deaf_ended deaf_closing
    livez_fresh_answered livez_fresh_p50_ns livez_fresh_p99_ns livez_fresh_max_ns
    livez_kept_answered livez_kept_p50_ns livez_kept_p99_ns livez_kept_max_ns livez_client_delay_p99_ns
    lists_answered lists_p50_ns lists_p99_ns lists_max_ns
    gets_answered gets_p50_ns gets_p99_ns gets_max_ns
    calls_failed calls_first_fault
    server_cpu_ns_per_delivery server_cpu_share server_pid
    server_rss_before_bytes server_rss_idle_bytes server_rss_loaded_bytes rss_bytes_per_watcher";

pub(crate) fn run(args: &Load) -> Result<Report, Trouble> {
    let (mut record, mixture) = (measure(args)?, &args.mixture);
    if mixture.shapes {
        record.scenario = "mixed".to_owned();
        // No watch may end but by its client.
        record.clean &= record.has_no("disconnected");
        record.tell("never_read_percent", mixture.deaf_percent);
        record.tell("churn_share_per_second", mixture.churn_per_second);
        record.tell("readers", mixture.readers);
    }
    let title = "server protocol seed never_read_percent churn_share_per_second readers";
    let mut report = Report::new(&record.scenario, record.flat().into(), title);
    for names in [LOAD, WRONGS, REST, floor::BESIDE, "client_cpu_share"] {
        report.values(names);
    }
    Ok(report.end(vec![record], true, "every watcher saw every write once and in order"))
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
