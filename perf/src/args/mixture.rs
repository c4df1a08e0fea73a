//! What a run has beside watchers that all do the same: some that never read, some that come and go, clients that list
//! and get, and a probe of the server's health. Nothing of it by default.

use crate::siege::Siege;
use serde::{Deserialize, Serialize};

/// Beside the watchers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mixture {
    /// So many per cent of the watchers never read.
    pub(crate) deaf_percent: u32,
    /// Their receive buffer; `None`: the kernel's default.
    pub(crate) receive_buffer_bytes: Option<usize>,
    /// Written as fast as it goes before the warm-up, so that the sockets of those who never read are full.
    pub(crate) fill_bytes: usize,
    /// The share of the others that goes and comes back, a second.
    pub(crate) churn_per_second: f64,
    /// Watchers of several kinds: whole namespaces, selectors, metadata alone, Tables.
    pub(crate) shapes: bool,
    /// Clients that LIST and GET in a closed loop.
    pub(crate) readers: u32,
    /// Clients that do harm.
    pub(crate) siege: Option<Siege>,
    /// Ask `/livez` 50 times a second.
    pub(crate) probe: bool,
}
