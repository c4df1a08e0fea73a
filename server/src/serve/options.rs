//! What an operator says of the watches that are served.

use std::time::Duration;

/// Options of watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// A watch without `timeoutSeconds` lives a random time in [T, 2T) (kube-apiserver's `--min-request-timeout`).
    pub min_watch_timeout: Duration,
    /// Whether a watch with `sendInitialEvents=true` may be sent with gzip, where its client takes it.
    pub watch_list_gzip: bool,
}
