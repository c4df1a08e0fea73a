//! The context that the tasks of the etcd thread share.
//!
//! Owns what is known of the cluster and the engine's progress, and the proofs that wait for it. All of it lives on one thread;
//! nothing is borrowed across an await.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use revcast_engine::Publisher;
use revcast_engine::revision::Revision;
use tokio::sync::{Notify, oneshot};

use super::definitions::Definitions;
use super::layout::Layout;
use super::lease::Leases;
use super::link::{Calls, Links};
use super::options::EtcdOptions;
use crate::clock::Clock;
use crate::progress::StepProgress;
use crate::source::command_queue::{CommandQueue, Shards};
use crate::source::driver::Reply;
use crate::source::engine::Engine;
use crate::source::epoch::Epochs;
use crate::source::feeder::Feeder;

/// Proofs that may wait. A later one includes those before it.
const PENDING_MAX: usize = 64;

/// A proof that waits: everything written before `latest` is visible once `revision` is, and it has not been since `first`.
#[derive(Clone, Copy, Debug)]
struct Pending {
    revision: Revision,
    first: Instant,
    latest: Instant,
}

/// What is served now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClusterState {
    /// The cluster.
    pub(super) cluster: u64,
    /// Everything up to here is visible.
    pub(super) last: Revision,
    /// The epoch's number.
    pub(super) epoch: u64,
}

/// What the tasks share.
pub(super) struct EtcdContext {
    pub(super) options: Rc<EtcdOptions>,
    pub(super) layout: Layout,
    pub(super) definitions: Definitions,
    pub(super) engine: Engine,
    pub(super) epochs: Arc<Epochs>,
    pub(super) commands: Arc<CommandQueue>,
    pub(super) shards: Arc<dyn Shards>,
    /// The clock that stamps events.
    pub(super) clock: Clock,
    pub(super) links: Rc<Links>,
    pub(super) calls: Calls,
    pub(super) leases: Leases,
    wanted_cluster: Option<u64>,
    known: Cell<Option<ClusterState>>,
    /// Whether a watch continues what is served, as far as its stream proves; and how many did.
    proven: Cell<bool>,
    proofs: Cell<u64>,
    proved: Notify,
    pending: RefCell<VecDeque<Pending>>,
    /// Requests for the newest revision.
    pub(super) questions: RefCell<Vec<Reply>>,
    /// Notified when there is one.
    pub(super) asked: Notify,
    /// Notified when an answer contradicts what is known: the watch must be verified before it continues.
    pub(super) doubt: Notify,
    /// Notified when a request waits for progress of the watch, or for a compaction.
    pub(super) wanted: Notify,
    /// Revisions up to which etcd was compacted on request; each with the request that waits until the engine is compacted too.
    pub(super) forgets: RefCell<Vec<(Revision, oneshot::Sender<()>)>>,
}

impl EtcdContext {
    pub(super) fn new(
        options: EtcdOptions,
        layout: Layout,
        engine: Engine,
        epochs: Arc<Epochs>,
        commands: Arc<CommandQueue>,
        shards: Arc<dyn Shards>,
        clock: Clock,
    ) -> Self {
        let options_cluster = options.cluster;
        let options = Rc::new(options);
        let links = Rc::new(Links::new(Rc::clone(&options)));
        Self {
            layout,
            definitions: Definitions::new(Arc::clone(&engine.catalogs)),
            engine,
            epochs,
            calls: Calls::new(Rc::clone(&links), Arc::clone(&commands)),
            commands,
            shards,
            clock,
            links,
            options,
            leases: Leases::default(),
            wanted_cluster: options_cluster,
            known: Cell::new(None),
            proven: Cell::new(false),
            proofs: Cell::new(0),
            proved: Notify::new(),
            pending: RefCell::default(),
            questions: RefCell::default(),
            asked: Notify::new(),
            doubt: Notify::new(),
            wanted: Notify::new(),
            forgets: RefCell::default(),
        }
    }

    /// How far the start is.
    pub(super) fn progress(&self) -> &Arc<StepProgress> {
        &self.commands.stats.progress
    }

    /// Feeds an engine whose state is about to be served.
    pub(super) fn feeder(&self, publisher: Publisher) -> Feeder {
        Feeder::new(publisher, Arc::clone(&self.commands), Arc::clone(&self.shards), self.clock)
    }

    /// Whether an answer may come from this cluster. If not, the connection is dropped, and the watch is verified before it
    /// continues.
    pub(super) fn trusts(&self, cluster: u64, connection: u64) -> bool {
        let known = self.known.get().map(|known| known.cluster);
        if self.wanted_cluster.or(known).is_none_or(|wanted| wanted == cluster) {
            return true;
        }
        self.calls.failed(connection);
        self.doubt.notify_one();
        false
    }

    /// What is served; `None` while nothing is.
    pub(super) fn known(&self) -> Option<ClusterState> {
        self.known.get()
    }

    /// Another state is served, or none.
    pub(super) fn know(&self, known: Option<ClusterState>) {
        self.known.set(known);
        if let Some(ClusterState { cluster, .. }) = known {
            self.commands.stats.remote.cluster.store(cluster, Ordering::Release);
        }
        self.pending.borrow_mut().clear();
        self.commands.stats.remote.disprove();
    }

    /// A watch continues what is served: etcd's history is still the one that was followed.
    pub(super) fn prove(&self) {
        self.proven.set(true);
        self.proofs.set(self.proofs.get() + 1);
        self.proved.notify_waiters();
        // How fresh it is, is known with the next answer: until the first one, the server is not ready.
        self.asked.notify_one();
    }

    /// The watch failed: the etcd that answers now may have been restored.
    pub(super) fn doubt_line(&self) {
        self.proven.set(false);
    }

    /// Which watch proves that etcd's history is the one that was followed; `None` if none does.
    pub(super) fn proof(&self) -> Option<u64> {
        self.proven.get().then(|| self.proofs.get())
    }

    /// Waits for such a watch.
    pub(super) async fn await_proof(&self) -> u64 {
        loop {
            if let Some(proof) = self.proof() {
                return proof;
            }
            self.proved.notified().await;
        }
    }

    /// Everything up to `last` is visible.
    pub(super) fn reached(&self, last: Revision) {
        if let Some(known) = self.known.get() {
            self.known.set(Some(ClusterState { last: known.last.max(last), ..known }));
        }
        self.settle();
    }

    /// Everything written before `moment` is visible once `revision` is.
    pub(super) fn expect(&self, revision: Revision, moment: Instant) {
        {
            let mut pending = self.pending.borrow_mut();
            let room = pending.len() < PENDING_MAX;
            match pending.back_mut() {
                Some(back) if back.revision >= revision => back.latest = back.latest.max(moment),
                _ if room => pending.push_back(Pending { revision, first: moment, latest: moment }),
                // With so many revisions missing, it does not matter if some proofs are dropped.
                _ => {}
            }
        }
        self.settle();
        if !self.pending.borrow().is_empty() {
            self.wanted.notify_one();
        }
    }

    /// Since when it is known that something is missing here.
    pub(super) fn behind_since(&self) -> Option<Instant> {
        self.pending.borrow().front().map(|pending| pending.first)
    }

    fn settle(&self) {
        let Some(known) = self.known.get() else { return };
        let mut pending = self.pending.borrow_mut();
        while let Some(&next) = pending.front()
            && next.revision <= known.last
        {
            self.commands.stats.remote.prove(next.latest);
            pending.pop_front();
        }
    }
}

impl std::fmt::Debug for EtcdContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdContext").field("known", &self.known.get()).finish_non_exhaustive()
    }
}
