//! The operator's options of the embedded store.

use std::path::PathBuf;
use std::time::Duration;

/// Where the store is, and how long its history is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmbeddedOptions {
    /// The folder of its file; `None`: in memory.
    pub data_dir: Option<PathBuf>,
    /// The interval of automatic compactions; `None`: never.
    pub compact_interval: Option<Duration>,
}
