//! The state that follows etcd, whatever stream it comes from.
//!
//! Owns the way of a revision into the engine: what it must be after, what is loaded before it, and when it is visible. `follow`
//! decides which streams are read and what a failure means.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use revcast_engine::Feed;
use revcast_engine::change::{Batch, Change};
use revcast_engine::revision::Revision;
use revcast_engine::tick::Tick;
use tokio::time::sleep;

use super::assembler::{Break, Coverage, Proof};
use super::backfill::Backfill;
use super::compare::{self, Compared};
use super::context::{ClusterState, EtcdContext};
use super::load::{self, Loaded};
use super::replay::Recent;
use super::stop::Stop;
use crate::log;
use crate::progress::Step;
use crate::source::epoch::Epoch;
use crate::source::feeder::{BACKLOG_POLL, Feeder};
use crate::source::{Fault, SourceError};

/// Events that become visible together at most.
const PUBLISH_EVENTS: usize = 512;
/// The longest replay.
const REPLAY_MAX: Duration = Duration::from_secs(30);

/// The state that is kept from one watch to the next.
pub(super) struct Followed {
    pub(super) feeder: Feeder,
    pub(super) feed: Feed,
    pub(super) cluster: u64,
    /// The last changes: what etcd must still report after a failure.
    pub(super) recent: Recent,
    /// Whether the state was loaded in this attempt, in one response: then there is nothing to compare yet.
    pub(super) is_fresh: bool,
    /// How many objects the next revision must change or delete for etcd's state to be the served one.
    pub(super) owed: Option<usize>,
    /// The revision after which one did not come, if the last watch failed there.
    pub(super) missing: Option<Revision>,
    /// What came before it, while that is read.
    backfill: Option<Backfill>,
    /// What is still to be done before it is served; `None`: it is served.
    unserved: Option<Unserved>,
}

/// A state that is not served yet.
struct Unserved {
    /// Served once everything up to here was taken.
    to: Revision,
    /// It was loaded as of this revision, at this moment.
    from: Revision,
    since: Instant,
    /// What its epoch will be: see [`Epoch`].
    line: u64,
    abandoned: Revision,
}

impl Followed {
    /// A state that was just loaded, of an epoch with this line after a history that was abandoned. It is served once everything up
    /// to revision `to` was taken.
    pub(super) fn new(
        context: &EtcdContext,
        loaded: Loaded,
        to: Revision,
        line: u64,
        abandoned: Revision,
    ) -> Self {
        let from = loaded.revision;
        if to > from {
            context.progress().begin(Step::Replaying);
        }
        Self {
            feeder: context.feeder(loaded.publisher),
            feed: loaded.feed,
            cluster: loaded.cluster,
            recent: Recent::default(),
            // What is replayed upon it proves nothing about what it was replayed upon.
            is_fresh: loaded.is_whole && to <= from,
            owed: None,
            missing: None,
            backfill: None,
            unserved: Some(Unserved { to, from, since: Instant::now(), line, abandoned }),
        }
    }

    /// Whether clients see it.
    pub(super) const fn is_served(&self) -> bool {
        self.unserved.is_none()
    }

    /// The revision up to which history is replayed before it is served; `None`: it is served.
    pub(super) fn replays_to(&self) -> Option<Revision> {
        self.unserved.as_ref().map(|unserved| unserved.to)
    }

    /// Whether it is to be served now.
    pub(super) fn is_due(&self) -> bool {
        self.unserved.as_ref().is_some_and(|unserved| self.feeder.publisher.revision() >= unserved.to)
    }

    /// Whether it should have been served by now.
    pub(super) fn is_overdue(&self) -> bool {
        self.unserved.as_ref().is_some_and(|unserved| unserved.since.elapsed() > REPLAY_MAX)
    }

    /// Serves it, as a new epoch. Another one was served until now, or none.
    pub(super) fn serve(&mut self, context: &EtcdContext) {
        let Some(unserved) = self.unserved.take() else { return };
        self.feeder.publisher.publish();
        context.progress().end();
        // The resources that are defined in it are served with it: not before, unless nothing is served yet.
        if !context.epochs.current().is_ready() {
            context.definitions.serve_now();
        }
        let number = context.epochs.number() + 1;
        let Unserved { to, from, since, line, abandoned } = unserved;
        context.epochs.begin(Epoch::loaded(number, line, abandoned, self.feed.clone()));
        let last = self.feeder.publisher.revision();
        context.know(Some(ClusterState { cluster: self.cluster, last, epoch: number }));
        context.definitions.serve_now();
        context.shards.wake_all();
        if to > from {
            log::info(&format!(
                "replayed etcd's history from revision {from} to {last} in {:.1?}: watches resume after revision {}",
                since.elapsed(),
                self.feeder.publisher.forgotten()
            ));
        }
    }

    /// Begins to read what came before it. Nothing was taken yet.
    pub(super) fn backfill(&mut self, context: &Rc<EtcdContext>, coverage: Coverage) {
        let history = self.feeder.publisher.history(Revision::ZERO);
        self.backfill = Some(Backfill::start(context, history, self.cluster, coverage));
    }

    /// Puts what came before it into the window, if that has been read.
    pub(super) fn take_backfill(&mut self) {
        let Some((older, took)) = self.backfill.as_mut().and_then(Backfill::take) else { return };
        self.backfill = None;
        let added = self.feeder.publisher.prepend(older);
        log::info(&format!(
            "added {added} older events from etcd's history to the window after {took:.1?}: watches resume after revision {}",
            self.feeder.publisher.forgotten()
        ));
    }

    /// Everything that is to be replayed was taken: serves it if it is etcd's state. A delete that etcd left out (#18089, #19179)
    /// is found before a client can miss it.
    pub(super) async fn complete(&mut self, context: &EtcdContext, coverage: Coverage) -> Result<(), Stop> {
        // Nobody reads them.
        self.unload_dropped(context, Duration::ZERO);
        self.prove(context, coverage).await?;
        self.serve(context);
        Ok(())
    }

    /// Forgets the objects of resources that have not been served for this long.
    pub(super) fn unload_dropped(&mut self, context: &EtcdContext, kept: Duration) {
        for row in context.definitions.take_dropped(kept) {
            // What is left of them in etcd is not a difference.
            context.layout.remove(row);
            self.feeder.publisher.unload(row);
        }
    }

    /// Makes visible what was taken.
    pub(super) fn show(&mut self, context: &EtcdContext) {
        self.feeder.publisher.publish();
        if let Some(Unserved { to, from, .. }) = &self.unserved {
            let of = |revision: Revision| revision.get().saturating_sub(from.get());
            context.progress().reach(of(self.feeder.publisher.revision()).min(of(*to)), of(*to));
        } else {
            context.reached(self.feeder.publisher.revision());
        }
    }

    /// Compares all keys with the state, unless that was just loaded.
    pub(super) async fn prove(&mut self, context: &EtcdContext, coverage: Coverage) -> Result<(), Stop> {
        if std::mem::take(&mut self.is_fresh) {
            return Ok(());
        }
        self.show(context);
        match compare::compare(context, &self.feed.snapshot(), self.cluster).await? {
            Compared::Same => Ok(()),
            Compared::SameIfNextChanges(objects) if coverage == Coverage::All => {
                self.owed = Some(objects);
                Ok(())
            }
            // That revision may not be reported at all: of keys below the prefix old etcds leave out deletes (#19179).
            Compared::SameIfNextChanges(objects) => {
                Err(Stop::Untold(format!("{objects} objects may be lost")))
            }
            Compared::Differs(difference) => Err(Stop::Differs(difference)),
            Compared::Untold(why) => Err(Stop::Untold(why)),
        }
    }

    /// Takes one revision, after the objects of resources that it defines are loaded.
    pub(super) async fn take(&mut self, context: &EtcdContext, batch: &Batch) -> Result<(), SourceError> {
        if context.definitions.follow(&batch.changes) {
            load::load_added(context, &mut self.feeder.publisher, self.cluster, batch.revision).await?;
        }
        let taken = self.feeder.publisher.handle_batch_with(batch, &[], load::wall_seconds());
        // The assembler passes each revision once, in order.
        taken.unwrap_or_else(|error| panic!("revision {} cannot be published: {error}", batch.revision));
        if self.is_served() && context.definitions.is_ahead() {
            self.show(context);
            let shards = Arc::clone(&context.shards);
            context.definitions.serve_soon(move || shards.wake_all());
        }
        Ok(())
    }

    /// Publishes what the assembler returned.
    pub(super) async fn publish(
        &mut self,
        context: &EtcdContext,
        proof: Proof,
        arrived: Tick,
    ) -> Result<(), Stop> {
        let remote = &context.commands.stats.remote;
        remote.repeated.fetch_add(proof.repeated, Ordering::Relaxed);
        let mut unseen = 0;
        self.feeder.publisher.set_arrival(arrived);
        let any = !proof.batches.is_empty();
        for raw in proof.batches {
            if let Some(owed) = self.owed.take() {
                let is_served = |key: &_| self.feeder.publisher.get(key).is_some();
                let keys = raw.events.iter().filter_map(|event| context.layout.to_key(&event.key));
                let changed = keys.filter(|key| is_served(key)).count();
                if changed != owed {
                    let what = format!(
                        "{owed} objects are not there, and revision {} changed {changed}",
                        raw.revision
                    );
                    return Err(Stop::Differs(what));
                }
            }
            let mut changes = Vec::with_capacity(raw.events.len());
            let mut told = Vec::with_capacity(raw.events.len());
            for event in raw.events {
                let Some(key) = context.layout.to_key(&event.key) else {
                    remote.foreign.fetch_add(1, Ordering::Relaxed);
                    if context.layout.is_of_apiserver(&event.key) {
                        remote.is_cluster.store(true, Ordering::Release);
                    }
                    if event.key.starts_with(context.layout.prefix().as_bytes()) {
                        told.push((event.key, event.value));
                    }
                    continue;
                };
                let ours = self.feeder.publisher.get(&key).map(|object| object.revision());
                let missed = match event.before {
                    Some((before, _)) => ours != Some(before),
                    // A key that was just created did not exist before, so its delete was missed.
                    None => event.version == 1 && ours.is_some(),
                };
                if missed {
                    let after = self.feeder.publisher.revision();
                    return Err(Stop::Broke(Break::Missing { after, found: raw.revision }));
                }
                told.push((event.key, event.value.clone()));
                changes.push(Change { key, value: event.value });
            }
            let batch = Batch { revision: raw.revision, changes };
            if self.feeder.must_wait(&batch) {
                context.commands.stats.backlogged.fetch_add(1, Ordering::Relaxed);
                self.show(context);
                while self.feeder.must_wait(&batch) {
                    sleep(BACKLOG_POLL).await;
                }
            }
            unseen += batch.changes.len();
            match self.take(context, &batch).await {
                Ok(()) => {}
                Err(error) if error.fault == Fault::Broken => {
                    return Err(Stop::Untold(format!(
                        "the objects of a new resource cannot be read ({error})"
                    )));
                }
                Err(error) => return Err(Stop::Failed(error)),
            }
            self.recent.push(raw.revision, told);
            if unseen >= PUBLISH_EVENTS {
                unseen = 0;
                self.show(context);
                tokio::task::yield_now().await;
            }
        }
        if let Some(progress) = proof.progress {
            self.missing = None;
            self.feeder.publisher.handle_progress(progress);
            self.show(context);
            if any && self.is_served() {
                self.feeder.observe_arrived();
            }
        }
        Ok(())
    }

    /// Compacts the engine's history after etcd compacted it at an operator's request.
    pub(super) fn forget(&mut self, context: &EtcdContext) {
        let forgets = std::mem::take(&mut *context.forgets.borrow_mut());
        for (upto, done) in forgets {
            self.feeder.publisher.compact(upto);
            self.show(context);
            // The caller of the request may have given up.
            let _ = done.send(());
        }
    }
}
