//! The operator's options of what is served and stored.

use std::time::Duration;

use super::storage::StorageMediaType;

/// Options of watches and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// A watch without `timeoutSeconds` ends after a random time in [T, 2T) (kube-apiserver's `--min-request-timeout`).
    pub min_watch_timeout: Duration,
    /// Whether a watch with `sendInitialEvents=true` may be compressed with gzip, if its client accepts it.
    pub watch_list_gzip: bool,
    /// The form in which written objects are stored.
    pub storage_media_type: StorageMediaType,
    /// Whether written objects are stored here; `None`: unless they would be stored past the admission of a kube-apiserver.
    pub write_etcd: Option<bool>,
}
