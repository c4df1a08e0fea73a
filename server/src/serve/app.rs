//! What all shards share while the server runs.
//!
//! Owns the server's phase of life, and where the catalog and the feed are found. It never changes an object and does not use
//! sockets. Every member is read without a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use super::options::ServeOptions;
use super::upstream::Upstream;
use crate::auth::Guard;
use crate::catalog::{Catalog, Catalogs};
use crate::http::host::{Hosts, name_of};
use crate::http::status::Status;
use crate::progress::StepProgress;
use crate::source::command_queue::CommandQueue;
use crate::source::epoch::{Epoch, Epochs};
use crate::source::etcd::OtherEtcds;
use crate::tls::Current;
use revcast_engine::key::ResourceId;

/// The phases of a server's life, in order; it never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Life {
    /// The source has not delivered the first state yet: reads and writes get 429.
    Starting,
    /// Everything is served.
    Serving,
    /// The server is about to end, and is not ready. Everything is still served.
    Lingering,
    /// The server ends: new requests get 429 with `Retry-After`, so that clients go elsewhere.
    Closing,
}

/// Shards that do not turn, as reported by a watchdog.
#[derive(Debug, Default)]
pub struct Stalls([AtomicU64; SHARDS_MAX / 64]);

/// The limit of shards in a process (`--shards`).
const SHARDS_MAX: usize = 256;

impl Stalls {
    /// Notes that a shard has stalled, or turns again.
    pub fn note(&self, shard: usize, stalled: bool) {
        let Some(word) = self.0.get(shard / 64) else { return };
        if stalled {
            word.fetch_or(1 << (shard % 64), Ordering::Relaxed);
        } else {
            word.fetch_and(!(1 << (shard % 64)), Ordering::Relaxed);
        }
    }

    /// As text: `shard 1 does not turn`; empty when all do.
    #[must_use]
    pub fn describe(&self) -> Option<String> {
        let is_set = |shard: &usize| self.0[shard / 64].load(Ordering::Relaxed) >> (shard % 64) & 1 == 1;
        let shards: Vec<String> = (0..SHARDS_MAX).filter(is_set).map(|shard| shard.to_string()).collect();
        match shards.as_slice() {
            [] => None,
            [one] => Some(format!("shard {one} does not turn")),
            several => Some(format!("shards {} do not turn", several.join(", "))),
        }
    }
}

/// The staleness of a remote source.
#[derive(Clone, Debug)]
pub struct Freshness {
    /// Returns the current staleness.
    pub commands: Arc<CommandQueue>,
    /// Beyond this the server is not ready.
    pub limit: Duration,
}

impl Freshness {
    fn holds(&self) -> bool {
        self.commands.stats.remote.stale().is_some_and(|age| age <= self.limit)
    }
}

/// What all shards share.
#[derive(Debug)]
pub struct App {
    catalogs: Arc<Catalogs>,
    epochs: Arc<Epochs>,
    /// The staleness limit of the source; `None`: the source is never stale.
    freshness: Option<Freshness>,
    pub(super) options: ServeOptions,
    life: AtomicU8,
    /// Whether another process serves in its place.
    has_successor: AtomicBool,
    stalls: Stalls,
    guard: Arc<Guard>,
    /// Its names besides addresses and `localhost`: from the options, and from its certificate.
    hosts: Hosts,
    other_etcds: OtherEtcds,
    /// The API server that answers what is not served here.
    upstream: Option<Upstream>,
    tls: Option<Arc<Current>>,
    progress: Arc<StepProgress>,
}

impl App {
    /// The feeds of `epochs` have the schema of `catalogs`. The server is [`Life::Starting`].
    #[must_use]
    pub fn new(catalogs: Arc<Catalogs>, epochs: Arc<Epochs>, options: ServeOptions) -> Self {
        Self {
            life: AtomicU8::new(Life::Starting as u8),
            has_successor: AtomicBool::new(false),
            stalls: Stalls::default(),
            catalogs,
            epochs,
            freshness: None,
            options,
            guard: Arc::new(Guard::open()),
            hosts: Hosts::default(),
            other_etcds: OtherEtcds::default(),
            upstream: None,
            tls: None,
            progress: Arc::default(),
        }
    }

    /// With a guard; without one everyone may do everything.
    #[must_use]
    pub fn with_guard(self, guard: Arc<Guard>) -> Self {
        Self { guard, ..self }
    }

    /// With its own names: those of the options, and those of the certificate that is served.
    #[must_use]
    pub fn with_names(self, hosts: Hosts, tls: Option<Arc<Current>>) -> Self {
        Self { hosts, tls, ..self }
    }

    /// Whether a `Host` (`HOST:PORT`) is a name of this server.
    #[must_use]
    pub fn is_called(&self, authority: &str) -> bool {
        self.hosts.know(authority)
            || self.tls.as_ref().is_some_and(|tls| tls.terms().is_for(&name_of(authority)))
    }

    /// Authentication and authorization.
    #[must_use]
    pub const fn guard(&self) -> &Arc<Guard> {
        &self.guard
    }

    /// With resources that are kept in another etcd.
    #[must_use]
    pub fn with_other_etcds(self, other_etcds: OtherEtcds) -> Self {
        Self { other_etcds, ..self }
    }

    /// With an API server that answers what is not served here.
    #[must_use]
    pub fn with_upstream(self, upstream: Option<Upstream>) -> Self {
        Self { upstream, ..self }
    }

    /// The API server that answers what is not served here.
    pub(super) const fn upstream(&self) -> Option<&Upstream> {
        self.upstream.as_ref()
    }

    /// Why a resource is not served here, if it is not.
    pub(super) fn why_in_other_etcd(&self, row: ResourceId) -> Option<&str> {
        self.other_etcds.text(row.row())
    }

    /// Refuses a write that would be stored here.
    ///
    /// # Errors
    /// 403: nothing is to be written here, or it would pass by the admission of the cluster whose objects these are.
    pub(super) fn takes_writes(&self) -> Result<(), Status> {
        let remote = self.freshness.as_ref().map(|freshness| &freshness.commands.stats.remote);
        let is_cluster = remote.is_some_and(|remote| remote.is_cluster.load(Ordering::Acquire));
        match self.options.write_etcd {
            Some(true) => Ok(()),
            None if !is_cluster => Ok(()),
            None => Err(Status::forbidden_path(
                "this etcd is a cluster's: a write here would pass by its kube-apiserver's admission and validation; give --upstream \
                 https://KUBE-APISERVER:6443, which writes are then forwarded to, or --write-etcd true",
            )),
            Some(false) => Err(Status::forbidden_path("nothing is written here: --write-etcd is false")),
        }
    }

    /// With a remote source, which can be stale.
    #[must_use]
    pub fn with_freshness(self, freshness: Freshness) -> Self {
        Self { freshness: Some(freshness), ..self }
    }

    /// The phase of the server's life.
    #[must_use]
    pub fn life(&self) -> Life {
        match self.life.load(Ordering::Acquire) {
            0 => Life::Starting,
            // Between two epochs it is as at the start.
            1 if !self.epochs.current().is_ready() => Life::Starting,
            1 if self.has_successor.load(Ordering::Acquire) => Life::Lingering,
            1 => Life::Serving,
            2 => Life::Lingering,
            _ => Life::Closing,
        }
    }

    /// Whether the server ends, or is about to.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.has_successor.load(Ordering::Acquire)
            || self.life.load(Ordering::Acquire) >= Life::Lingering as u8
    }

    /// Whether it ends and no other process serves in its place.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        !self.has_successor.load(Ordering::Acquire)
            && self.life.load(Ordering::Acquire) >= Life::Lingering as u8
    }

    /// Whether another process serves in its place: then it is [`Life::Lingering`] as long as that is so.
    pub fn succeed(&self, has_successor: bool) {
        self.has_successor.store(has_successor, Ordering::Release);
    }

    /// Moves on to `life`; never back.
    pub fn advance(&self, life: Life) {
        self.life.fetch_max(life as u8, Ordering::AcqRel);
    }

    /// The shards that have stalled.
    #[must_use]
    pub const fn stalls(&self) -> &Stalls {
        &self.stalls
    }

    /// The epoch that is served.
    #[must_use]
    pub fn epoch(&self) -> Arc<Epoch> {
        self.epochs.current()
    }

    /// All epochs.
    #[must_use]
    pub const fn epochs(&self) -> &Arc<Epochs> {
        &self.epochs
    }

    /// What is served now.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalogs.current()
    }

    /// All catalogs.
    #[must_use]
    pub const fn catalogs(&self) -> &Arc<Catalogs> {
        &self.catalogs
    }

    /// With the progress of the source's start and of the server's end.
    #[must_use]
    pub fn with_progress(self, progress: Arc<StepProgress>) -> Self {
        Self { progress, ..self }
    }

    /// How far the start of the source, or the end of the server is, if it is under way.
    #[must_use]
    pub const fn progress(&self) -> &Arc<StepProgress> {
        &self.progress
    }

    /// Whether the source's state is fresh; `None`: the source is this process.
    #[must_use]
    pub fn is_fresh(&self) -> Option<bool> {
        self.freshness.as_ref().map(Freshness::holds)
    }
}
