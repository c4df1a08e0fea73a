//! What a source needs to feed an engine: its publisher, and what the shards have to do with it.
//!
//! Owns when a source must wait for shards that lag too far; the source itself waits. There is one for each epoch. It is independent
//! of the store that the changes come from.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use revcast_engine::Publisher;
use revcast_engine::change::Batch;

use super::command_queue::{CommandQueue, Shards};
use crate::clock::Clock;

/// Interval of the checks whether such a shard has caught up.
pub(super) const BACKLOG_POLL: Duration = Duration::from_micros(200);

/// Feeds one engine.
pub(super) struct Feeder {
    /// Takes what the source has, and wakes the shards when it publishes that.
    pub(super) publisher: Publisher,
    commands: Arc<CommandQueue>,
    clock: Clock,
}

impl Feeder {
    pub(super) fn new(
        mut publisher: Publisher,
        commands: Arc<CommandQueue>,
        shards: Arc<dyn Shards>,
        clock: Clock,
    ) -> Self {
        publisher.set_waker(move || shards.wake_all());
        Self { publisher, commands, clock }
    }

    /// Backpressure: whether shards have no room for this batch yet, and the server has not closed. They make room only when
    /// what was taken is published.
    pub(super) fn must_wait(&self, batch: &Batch) -> bool {
        self.publisher.should_wait(batch) && !self.commands.is_closing()
    }

    /// What was taken since the arrival is published: counts how long that took.
    pub(super) fn observe_arrived(&self) {
        self.commands.stats.publishing.observe(self.clock.now().since(self.publisher.arrival()));
    }
}

impl fmt::Debug for Feeder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feeder").field("revision", &self.publisher.revision()).finish_non_exhaustive()
    }
}
