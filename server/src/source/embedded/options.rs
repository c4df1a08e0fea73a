//! What an operator says of the embedded store.

use std::path::PathBuf;
use std::time::Duration;

/// Where the store is, and how long it remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmbeddedOptions {
    /// The folder of its file; `None`: it is in memory.
    pub data_dir: Option<PathBuf>,
    /// Between two compactions by itself; `None`: never.
    pub compact_interval: Option<Duration>,
}
