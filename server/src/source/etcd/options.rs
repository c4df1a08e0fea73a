//! The operator's options of the etcd cluster.

use std::path::PathBuf;
use std::time::Duration;

use super::overrides::Override;

/// How to reach the cluster, and what is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdOptions {
    /// The client URLs of its members; at least one.
    pub endpoints: Vec<String>,
    /// Where Kubernetes-style keys begin: `/registry`.
    pub prefix: String,
    /// The user to log in as.
    pub user: Option<String>,
    /// The file of the password; present if there is a user.
    pub password_file: Option<PathBuf>,
    /// The certificate authorities of the members (PEM).
    pub ca: Option<PathBuf>,
    /// The client certificate (PEM).
    pub cert: Option<PathBuf>,
    /// Its key (PEM); present if there is a certificate.
    pub key: Option<PathBuf>,
    /// The only cluster that may be served.
    pub cluster: Option<u64>,
    /// Resources that are kept in another etcd.
    pub overrides: Vec<Override>,
    /// Which keys are watched.
    pub watch: WatchWish,
    /// What the window holds when the first state is served.
    pub warm_start: WarmStart,
    /// The server is not ready if its state may be older than this.
    pub stale_limit: Duration,
}

/// What the window holds when the first state is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WarmStart {
    /// The history that etcd still has, as far as there is room: clients of before the start resume. The server is ready later.
    #[default]
    Full,
    /// The same, but the newest state is served at once: until the history is there, clients of before the start get 410.
    Fast,
    /// Nothing: the newest state is served at once, and clients of before the start get 410.
    Off,
}

/// Which keys are watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchWish {
    /// Those below the prefix if etcd answers progress requests reliably; otherwise all.
    #[default]
    Auto,
    /// All keys of the cluster: proves progress with any etcd, and detects lost events. Needs the permission to read all keys.
    All,
    /// Those below the prefix.
    Prefix,
}
