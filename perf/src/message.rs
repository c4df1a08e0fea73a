//! What the coordinator and its workers, threads or processes, say to each other: one JSON line a message, over two pipes.

use crate::http::Caller;
use crate::latency::Latency;
use crate::ledger::Scope;
use crate::options::{Mixture, deaf_among};
use crate::tally::sums;
use crate::tally::{Seen, Tally};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) address: SocketAddr,
    pub(crate) caller: Caller,
    pub(crate) run: u64,
    pub(crate) scopes: Vec<Scope>,
    /// Number of the first watcher. Watcher i watches scope i modulo the number of scopes.
    pub(crate) first_watcher: u32,
    pub(crate) watchers: u32,
    pub(crate) threads: u32,
    /// Watchers of one connection of HTTP/2; `None`: HTTP/1.1.
    pub(crate) streams: Option<u32>,
    /// Source addresses 127.0.0.2 and up; 0: let the system choose.
    pub(crate) sources: u32,
    /// Between two connects of this worker, all its threads together.
    pub(crate) connect_interval_ns: u64,
    pub(crate) report_interval_ns: u64,
    pub(crate) timeout_seconds: u64,
    pub(crate) bookmarks: bool,
    pub(crate) mixture: Mixture,
}

impl Plan {
    /// Whether watcher number `watcher` of the run never reads, and the how-many-eth of its sort it is. Those that never
    /// read stand evenly among the others, which have the same scopes as without them.
    pub(crate) fn role(&self, watcher: u32) -> (bool, u32) {
        let before = deaf_among(watcher, self.mixture.deaf_percent);
        let deaf = deaf_among(watcher.saturating_add(1), self.mixture.deaf_percent) > before;
        (deaf, if deaf { before } else { watcher - before })
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Finish {
    pub(crate) finals: Vec<u32>,
    /// Writes (object, seq) that were not acknowledged: nobody has to see them.
    pub(crate) failed: Vec<(u32, u32)>,
    pub(crate) drain_ns: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Cut {
    pub(crate) at_ns: u64,
    pub(crate) reset: bool,
    /// They return evenly over so much time; 0: at once.
    pub(crate) spread_ns: u64,
    pub(crate) timeout_ns: u64,
}

sums! {
    StormCounts {
        cut,
        attempts,
        failed_attempts,
        /// Without an answer, and answered but not caught up, when the time was over.
        unanswered,
        behind,
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct StormFound {
    pub(crate) counts: StormCounts,
    /// Before the first close, after the last, and after the last connect that was begun.
    pub(crate) began_ns: u64,
    pub(crate) closed_ns: u64,
    pub(crate) connected_ns: u64,
    /// When the last response head came, and when the last watcher had caught up.
    pub(crate) answered_ns: u64,
    pub(crate) caught_up_ns: u64,
    /// The same of each watcher, since the cut.
    pub(crate) answered: Latency,
    pub(crate) caught_up: Latency,
    /// Since the run began; `lost` are those missing now, before some that came.
    pub(crate) seen: Seen,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Command {
    Open(Box<Plan>),
    /// Latencies of writes meant to be sent from this moment on count.
    Measure {
        from_ns: u64,
    },
    /// Latencies of writes meant to be sent from this moment on are kept apart from those before.
    Window {
        from_ns: u64,
    },
    Cut(Cut),
    /// No more writes come: wait for the rest, close, and report.
    Finish(Finish),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// About once a second, or as often as the plan asks; latencies, which are many numbers, once a second.
    Progress {
        lane: u32,
        established: u64,
        delivered: u64,
        latency: Option<Latency>,
    },
    /// All watchers of the lane are established. When the first connect began and the last head was read.
    Ready {
        first_ns: u64,
        last_ns: u64,
    },
    /// Everyone is back after a cut, or the time for it is over.
    Storm(StormFound),
    Done(Tally),
    Failed(String),
}
