//! What a cluster does, at once: watches of several kinds, watchers that never read, watchers that go and come back,
//! LISTs and GETs, writes, and a probe of the server's health. It is one run of [`fanout`] with all that
//! beside it; every watcher that reads is held to account as there.

pub(crate) mod shapes;

use crate::args::Mixed;
use crate::fanout::{self, Trouble};
use crate::report::Report;
use crate::units::show_bytes;
use serde::Serialize;
use std::fmt;

/// What was found.
#[derive(Debug, Serialize)]
pub(crate) struct MixedReport {
    scenario: &'static str,
    never_read_percent: u32,
    churn_share_per_second: f64,
    readers: u32,
    #[serde(flatten)]
    pub(crate) fanout: Report,
}

/// Does the whole run.
pub(crate) fn run(args: &Mixed) -> Result<MixedReport, Trouble> {
    let mixture = &args.base.mixture;
    let mut fanout = fanout::run(&args.base)?;
    // Nobody may be ended but by himself.
    fanout.clean &= fanout.disconnected == 0;
    Ok(MixedReport {
        scenario: "mixed",
        never_read_percent: mixture.deaf_percent,
        churn_share_per_second: mixture.churn_per_second,
        readers: mixture.readers,
        fanout,
    })
}

impl fmt::Display for MixedReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "mixed: {} % never read, {} % a second go and come back, {} clients list and get",
            self.never_read_percent,
            self.churn_share_per_second * 100.0,
            self.readers
        )?;
        write!(out, "{}", self.fanout)?;
        let (before, loaded) = (self.fanout.server_rss_before_bytes, self.fanout.server_rss_loaded_bytes);
        if let Some((before, loaded)) = before.zip(loaded) {
            let [before, loaded] = [before, loaded].map(show_bytes);
            writeln!(out, "  {:<16}{before} at the start, {loaded} at the end of the writes", "server RSS")?;
        }
        Ok(())
    }
}
