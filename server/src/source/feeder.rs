//! The path from a source to the shards: one revision after another into the engine, and made visible.
//!
//! Owns the engine's publisher, and when a source must wait for shards that lag too far; the source itself waits. There is one
//! for each epoch. It is independent of the store that the changes come from.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use revcast_engine::Publisher;
use revcast_engine::change::Batch;
use revcast_engine::history::OlderEvents;

use super::command_queue::{CommandQueue, Shards};
use crate::clock::Clock;

/// Interval of the checks whether such a shard has caught up.
pub(super) const BACKLOG_POLL: Duration = Duration::from_micros(200);

/// Feeds one engine.
pub(super) struct Feeder {
    /// What it takes becomes visible later: with [`Feeder::show`].
    pub(super) publisher: Publisher,
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

    /// Puts older events into the window, and returns how many.
    pub(super) fn prepend(&mut self, older: OlderEvents) -> usize {
        let added = self.publisher.prepend(older);
        self.commands.stats.window_bytes.store(self.publisher.window_bytes(), Ordering::Relaxed);
        added
    }
}

impl fmt::Debug for Feeder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feeder").field("revision", &self.publisher.revision()).finish_non_exhaustive()
    }
}
