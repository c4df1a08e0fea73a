//! The operator's options of watches.

use std::time::Duration;

/// Options of watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// A watch without `timeoutSeconds` ends after a random time in [T, 2T) (kube-apiserver's `--min-request-timeout`).
    pub min_watch_timeout: Duration,
    /// Whether a watch with `sendInitialEvents=true` may be compressed with gzip, if its client accepts it.
    pub watch_list_gzip: bool,
}
