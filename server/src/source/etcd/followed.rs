//! The state that follows etcd, whatever stream it comes from.
//!
//! Owns the way of a revision into the engine: what it must be after, what is loaded before it, and when it is visible. `follow`
//! decides which streams are read and what a failure means.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use revcast_engine::Feed;
use revcast_engine::change::{Batch, Change};
use revcast_engine::revision::Revision;
use revcast_engine::tick::Tick;
use tokio::time::sleep;

use super::assembler::{Break, Coverage, Proof};
use super::compare::{self, Compared};
use super::context::EtcdContext;
use super::load;
use super::replay::Recent;
use super::stop::Stop;
use crate::source::feeder::{BACKLOG_POLL, Feeder};
use crate::source::{Fault, SourceError};

/// Events that become visible together at most.
const PUBLISH_EVENTS: usize = 512;

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
}

impl Followed {
    /// Makes visible what was taken.
    pub(super) fn show(&mut self, context: &EtcdContext) {
        self.feeder.show();
        context.reached(self.feeder.revision());
    }

    /// Compares all keys with what is served, unless that was just loaded.
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
        context.definitions.follow(&batch.changes);
        load::load_added(context, &mut self.feeder, self.cluster, batch.revision).await?;
        self.feeder.take(batch, load::wall_seconds());
        if context.definitions.is_ahead() {
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
        self.feeder.set_arrival(arrived);
        let any = !proof.batches.is_empty();
        for raw in proof.batches {
            if let Some(owed) = self.owed.take() {
                let is_served = |key: &_| self.feeder.get(key).is_some();
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
                let ours = self.feeder.get(&key).map(|object| object.revision());
                let missed = match event.before {
                    Some(before) => ours != Some(before),
                    // A key that was just created did not exist before, so its delete was missed.
                    None => event.version == 1 && ours.is_some(),
                };
                if missed {
                    let after = self.feeder.revision();
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
            self.feeder.take_progress(progress);
            self.show(context);
            if any {
                self.feeder.observe_arrived();
            }
        }
        Ok(())
    }

    /// Compacts the engine's history after etcd compacted it at an operator's request.
    pub(super) fn forget(&mut self, context: &EtcdContext) {
        let forgets = std::mem::take(&mut *context.forgets.borrow_mut());
        for (upto, done) in forgets {
            self.feeder.compact(upto);
            self.show(context);
            // The caller of the request may have given up.
            let _ = done.send(());
        }
    }
}
