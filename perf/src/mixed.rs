//! What a cluster does, at once: watches of several kinds, watchers that never read, watchers that leave and return,
//! LISTs and GETs, writes, and a probe of the server's health. It is one run of [`fanout`] with all that
//! beside it; every watcher that reads is held to account as there.

use crate::fanout;
use crate::options::Mixed;
use crate::record::{Record, Scenario};
use crate::report::Report;
use crate::sheet::Sheet;
use crate::target::Trouble;
use serde::Serialize;
use std::fmt;

#[derive(Debug, Serialize)]
pub(crate) struct MixedReport {
    scenario: &'static str,
    never_read_percent: u32,
    churn_share_per_second: f64,
    readers: u32,
    #[serde(flatten)]
    fanout: Report,
}

pub(crate) fn run(args: &Mixed) -> Result<MixedReport, Trouble> {
    let mixture = &args.base.mixture;
    let mut fanout = fanout::run(&args.base)?;
    // No watch may end but by its client.
    fanout.clean &= fanout.seen.disconnected == 0;
    Ok(MixedReport {
        scenario: "mixed",
        never_read_percent: mixture.deaf_percent,
        churn_share_per_second: mixture.churn_per_second,
        readers: mixture.readers,
        fanout,
    })
}

impl Scenario for MixedReport {
    fn records(&self) -> Vec<&Record> {
        self.fanout.records()
    }

    fn is_clean(&self) -> bool {
        self.fanout.clean
    }
}

impl fmt::Display for MixedReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = "mixed: {never_read_percent} % never read, {churn_share_per_second:percent} % a second leave and return, \
                     {readers} clients list and get";
        let mut sheet = Sheet::new(self, title);
        sheet.text(self.fanout.to_string().trim_end());
        let memory =
            "{server_rss_before_bytes} at the start, {server_rss_loaded_bytes} at the end of the writes";
        sheet.rows(&[("server RSS", memory)]);
        sheet.fmt(out)
    }
}
