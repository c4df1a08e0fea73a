//! The path from a source to the shards: one revision after another into the engine, and made visible.
//!
//! Owns the engine's publisher, and when a source must wait for shards that lag too far; the source itself waits. There is one
//! for each epoch. It is independent of the store that the changes come from.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use revcast_engine::change::Batch;
use revcast_engine::codec::Reading;
use revcast_engine::history::{History, OlderEvents};
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::revision::Revision;
use revcast_engine::tick::Tick;
use revcast_engine::{Object, Publisher};

use super::command_queue::{CommandQueue, Shards};
use crate::clock::Clock;

/// Interval of the checks whether such a shard has caught up.
pub(super) const BACKLOG_POLL: Duration = Duration::from_micros(200);

/// Feeds one engine.
pub(super) struct Feeder {
    publisher: Publisher,
    commands: Arc<CommandQueue>,
    shards: Arc<dyn Shards>,
    clock: Clock,
}

impl Feeder {
    pub(super) const fn new(
        publisher: Publisher,
        commands: Arc<CommandQueue>,
        shards: Arc<dyn Shards>,
        clock: Clock,
    ) -> Self {
        Self { publisher, commands, shards, clock }
    }

    /// Backpressure: whether shards have no room for this batch yet, and the server has not closed. They make room only when
    /// what was taken is visible.
    pub(super) fn must_wait(&self, batch: &Batch) -> bool {
        self.publisher.should_wait(self.publisher.weigh(batch)) && !self.commands.is_closing()
    }

    /// The time at which the source had the next changes.
    pub(super) const fn set_arrival(&mut self, arrival: Tick) {
        self.publisher.set_arrival(arrival);
    }

    /// Takes a revision, which becomes visible later. One without changes is progress.
    pub(super) fn take(&mut self, batch: &Batch, as_of_seconds: u64) {
        self.take_with(batch, &[], as_of_seconds);
    }

    /// The same with readings of the changes' values, in their order, where there are any.
    pub(super) fn take_with(&mut self, batch: &Batch, readings: &[Option<Arc<Reading>>], as_of_seconds: u64) {
        if batch.changes.is_empty() {
            self.publisher.handle_progress(batch.revision);
        } else if let Err(error) = self.publisher.handle_batch_with(batch, readings, as_of_seconds) {
            // A source passes each revision once, in order, and decoded or unreadable.
            panic!("revision {} cannot be published: {error}", batch.revision);
        }
    }

    /// Everything up to here was taken.
    pub(super) fn take_progress(&mut self, revision: Revision) {
        self.publisher.handle_progress(revision);
    }

    /// Makes visible what was taken.
    pub(super) fn show(&mut self) {
        self.publisher.publish();
        self.commands.stats.window_bytes.store(self.publisher.window_bytes(), Ordering::Relaxed);
        self.shards.wake_all();
    }

    /// What was taken since the arrival is visible: counts how long that took.
    pub(super) fn observe_arrived(&self) {
        self.commands.stats.publishing.observe(self.clock.now().since(self.publisher.arrival()));
    }

    /// Narrows the window to what memory allows now. True if that is to be made visible.
    pub(super) fn trim(&mut self) -> bool {
        self.publisher.trim()
    }

    /// Compacts history up to this revision, which becomes visible later.
    pub(super) fn compact(&mut self, upto: Revision) {
        self.publisher.compact(upto);
    }

    /// What led to the state that was loaded; nothing was taken since.
    pub(super) fn history(&self) -> History {
        self.publisher.history(Revision::ZERO)
    }

    /// Puts older events into the window, and returns how many.
    pub(super) fn prepend(&mut self, older: OlderEvents) -> usize {
        let added = self.publisher.prepend(older);
        self.commands.stats.window_bytes.store(self.publisher.window_bytes(), Ordering::Relaxed);
        added
    }

    /// Takes an object that a resource has which was added.
    pub(super) fn load(&mut self, key: Key, revision: Revision, value: &Bytes) {
        self.publisher.load(key, revision, value);
    }

    /// The objects of a resource which was added are loaded, as they were at this revision.
    pub(super) fn add(&mut self, resource: ResourceId, at: Revision) {
        self.publisher.add(resource, at);
    }

    /// Forgets all objects of a resource that is not served any more.
    pub(super) fn unload(&mut self, resource: ResourceId) {
        self.publisher.unload(resource);
    }

    /// The newest state of a key that was taken.
    pub(super) fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.publisher.get(key)
    }

    /// The newest revision that was taken.
    pub(super) const fn revision(&self) -> Revision {
        self.publisher.revision()
    }

    /// The compacted revision of the window.
    pub(super) fn forgotten(&self) -> Revision {
        self.publisher.forgotten()
    }
}

impl fmt::Debug for Feeder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feeder").field("revision", &self.revision()).finish_non_exhaustive()
    }
}
