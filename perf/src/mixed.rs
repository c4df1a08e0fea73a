//! What a cluster does, at once: watches of several kinds, watchers that never read, watchers that leave and return,
//! LISTs and GETs, writes, and a probe of the server's health. It is one run of [`fanout`] with all that
//! beside it; every watcher that reads is held to account as there.

use crate::fanout;
use crate::options::Load;
use crate::report::Report;
use crate::target::Trouble;

pub(crate) fn run(args: &Load) -> Result<Report, Trouble> {
    let mixture = &args.mixture;
    let mut record = fanout::measure(args)?;
    record.scenario = "mixed".to_owned();
    // No watch may end but by its client.
    record.clean &= record.has_no("disconnected");
    record.tell("never_read_percent", mixture.deaf_percent);
    record.tell("churn_share_per_second", mixture.churn_per_second);
    record.tell("readers", mixture.readers);
    Ok(fanout::report(record, "server seed never_read_percent churn_share_per_second readers"))
}
