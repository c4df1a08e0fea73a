//! What all shards of a process share. Read without a lock.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use revcast_engine::{RingLimits, ShardConfig};

use super::account::Account;
use super::admission::Admission;
use super::census::CensusRequests;
use super::memory::Memory;
use super::options::Options;
use super::reserve::Reserve;
use super::shards::ShardHandles;
use super::stage::HandoverState;
use crate::audit::Audit;
use crate::clock::Clock;
use crate::serve::App;
use crate::source::command_queue::{CommandQueue, Shards as _};
use crate::{tls, upstream};

/// What all shards of a process share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) app: App,
    pub(super) commands: Arc<CommandQueue>,
    pub(super) handles: ShardHandles,
    pub(super) watchers_max: usize,
    pub(super) options: Arc<Options>,
    pub(super) clock: Clock,
    pub(super) admission: Arc<Admission>,
    pub(super) memory: Memory,
    pub(super) account: Arc<Account>,
    pub(super) reserve: Arc<Reserve>,
    /// Requests that panicked.
    pub(super) panics: AtomicU64,
    /// Counts of open watches that operators asked for.
    pub(super) census: CensusRequests,
    /// Open streams of the status.
    pub(super) status_streams: AtomicUsize,
    /// The TLS files at the start; `None`: clients speak plain HTTP.
    pub(super) tls: Option<Arc<tls::Current>>,
    /// Set when the server closes: the time over which its watches are ended.
    pub(super) closing: OnceLock<Duration>,
    /// The listeners, and whether another process has taken over.
    pub(super) handover: HandoverState,
    pub(super) shard_config: ShardConfig,
    /// Whether the source is remote, and must be asked for the newest revision.
    pub(super) remote: bool,
    /// The address for clients; the port is known even when the options say 0.
    pub(super) listen: SocketAddr,
    /// The address for operators.
    pub(super) admin_listen: Option<SocketAddr>,
    /// A description of the source.
    pub(super) source: String,
    pub(super) ring: RingLimits,
    pub(super) audit: Option<Audit>,
    /// The API server beside this one.
    pub(super) upstream: Option<Arc<upstream::Current>>,
}

impl Shared {
    /// The time over which watches are to be ended, if they are.
    pub(super) fn drains_over(&self) -> Option<Duration> {
        self.closing.get().copied().or_else(|| self.handover.drains_over())
    }

    /// Lets the shards count their watches, unless they did within a second.
    pub(super) fn ask_for_census(&self) {
        if self.census.ask(self.clock.now()) {
            self.handles.wake_all();
        }
    }

    /// Whether every shard has made the newest count that was asked for.
    pub(super) fn has_census(&self) -> bool {
        let wanted = self.census.number();
        self.handles.0.iter().all(|handle| handle.counted.load().number >= wanted)
    }
}

/// A request in progress, which a closing server waits for; released on drop, also when its task panics.
#[derive(Debug)]
pub(super) struct RequestGuard {
    shared: Arc<Shared>,
    shard: usize,
}

impl RequestGuard {
    pub(super) fn new(shared: &Arc<Shared>, shard: usize) -> Self {
        shared.handles.0[shard].requests.fetch_add(1, Ordering::AcqRel);
        Self { shared: Arc::clone(shared), shard }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.shared.handles.0[self.shard].requests.fetch_sub(1, Ordering::AcqRel);
    }
}
