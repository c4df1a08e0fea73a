//! What the coordinator and its workers say to each other: one JSON line a message, over a pair of pipes. A worker in
//! this process and a worker in a process of its own speak the same.

use crate::args::Mixture;
use crate::latency::Pairs;
use crate::scope::Scope;
use crate::tally::Tally;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The watches that one worker opens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) address: SocketAddr,
    pub(crate) host: String,
    pub(crate) token: Option<String>,
    pub(crate) run: u64,
    pub(crate) scopes: Vec<Scope>,
    /// Number of the first watcher. Watcher i watches scope i modulo the number of scopes.
    pub(crate) first_watcher: u32,
    pub(crate) watchers: u32,
    pub(crate) threads: u32,
    /// Source addresses 127.0.0.2 and up; 0: let the system choose.
    pub(crate) sources: u32,
    /// Between two connects of this worker, all its threads together.
    pub(crate) connect_interval_ns: u64,
    pub(crate) timeout_seconds: u64,
    pub(crate) bookmarks: bool,
    /// How watchers differ from each other.
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

/// How many of the first `watchers` never read.
pub(crate) fn deaf_among(watchers: u32, percent: u32) -> u32 {
    u32::try_from(u64::from(watchers) * u64::from(percent.min(100)) / 100).unwrap_or(watchers)
}

/// The end of the writes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Finish {
    /// Number of the last write of each object.
    pub(crate) finals: Vec<u32>,
    /// Writes (object, seq) that were not acknowledged: nobody has to see them.
    pub(crate) failed: Vec<(u32, u32)>,
    /// How long to wait for what is on its way.
    pub(crate) drain_ns: u64,
}

/// To a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Command {
    /// The first message: open the watches.
    Open(Plan),
    /// Latencies of writes meant to be sent from this moment on count.
    Measure { from_ns: u64 },
    /// No more writes come: wait for the rest, close, and report.
    Finish(Finish),
}

/// From one lane of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// About once a second.
    Progress {
        lane: u32,
        /// Watchers whose response head arrived.
        established: u64,
        delivered: u64,
        /// Latencies since the report before.
        latency: Pairs,
    },
    /// All watchers of the lane are established. When the first connect began and the last head was read.
    Ready { lane: u32, first_ns: u64, last_ns: u64 },
    /// The lane is finished.
    Done { lane: u32, tally: Tally },
    /// The run cannot go on.
    Failed { message: String },
}
