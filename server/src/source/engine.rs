//! How to make an engine: the same for every epoch.

use std::sync::Arc;

use revcast_engine::encoding::Encode;
use revcast_engine::resource::Schema;
use revcast_engine::revision::Revision;
use revcast_engine::{Feed, Publisher, RingLimits};

/// What all engines of a process have in common.
pub struct Engine {
    /// All resources.
    pub schema: Arc<Schema>,
    /// How objects are shown in other forms than their own.
    pub encoder: Arc<dyn Encode>,
    /// How large the window may grow.
    pub limits: RingLimits,
    /// How many shards read it.
    pub shards: usize,
}

impl Engine {
    /// An empty engine whose line of revisions begins at `revision`.
    #[must_use]
    pub fn start(&self, revision: Revision) -> (Publisher, Feed) {
        Publisher::new(
            Arc::clone(&self.schema),
            Arc::clone(&self.encoder),
            self.limits,
            self.shards,
            revision,
        )
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("limits", &self.limits)
            .field("shards", &self.shards)
            .finish_non_exhaustive()
    }
}
