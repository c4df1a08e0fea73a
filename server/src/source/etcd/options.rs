//! What an operator says of the etcd cluster.

use std::path::PathBuf;
use std::time::Duration;

/// How to reach the cluster, and what of it is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdOptions {
    /// The client URLs of its members; at least one.
    pub endpoints: Vec<String>,
    /// Where Kubernetes-style keys begin: `/registry`.
    pub prefix: String,
    /// The user to log in as.
    pub user: Option<String>,
    /// Where the password stands; there is one when there is a user.
    pub password_file: Option<PathBuf>,
    /// The certificate authorities of the members (PEM).
    pub ca: Option<PathBuf>,
    /// The certificate shown to them (PEM).
    pub cert: Option<PathBuf>,
    /// Its key (PEM); there is one when there is a certificate.
    pub key: Option<PathBuf>,
    /// The only cluster that may be served.
    pub cluster: Option<u64>,
    /// Which keys are watched.
    pub watch: WatchWish,
    /// When nothing newer than this is proven, the server is not ready.
    pub stale_limit: Duration,
}

/// Which keys are watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchWish {
    /// Those below the prefix where etcd can be asked for progress; all where it cannot.
    #[default]
    Auto,
    /// All keys of the cluster: proves progress with any etcd, and notices events that are lost. Needs the right to read
    /// all keys.
    All,
    /// Those below the prefix.
    Prefix,
}
