//! How to make an engine: the same for every epoch.

use std::sync::Arc;

use revcast_engine::encoding::Encode;
use revcast_engine::revision::Revision;
use revcast_engine::{Feed, Publisher, RingLimits};

use crate::catalog::Catalogs;

/// What all engines of a process have in common.
pub struct Engine {
    /// The resources: all engines have the rows of their schema.
    pub catalogs: Arc<Catalogs>,
    /// The encodings of objects besides JSON.
    pub encoder: Arc<dyn Encode>,
    /// The limits of the window.
    pub limits: RingLimits,
    /// The number of shards that read it.
    pub shards: usize,
}

impl Engine {
    /// An empty engine whose history begins at `revision`.
    #[must_use]
    pub fn start(&self, revision: Revision) -> (Publisher, Feed) {
        Publisher::new(
            Arc::clone(self.catalogs.schema()),
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
