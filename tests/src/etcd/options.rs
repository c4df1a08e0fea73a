//! Options of an etcd in tests. The others have etcd's defaults.

use std::path::PathBuf;
use std::time::Duration;

use crate::certs::{Authority, Identity};

/// The same for every member of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `--auth-token-ttl`, in whole seconds: a token that is unused for this long expires.
    pub auth_token_ttl: Option<Duration>,
    /// `--quota-backend-bytes`
    pub quota_bytes: Option<u64>,
    /// `--snapshot-count`: raft entries between two snapshots.
    pub snapshot_count: Option<u64>,
    /// `--max-request-bytes`
    pub request_bytes_max: Option<u64>,
    /// `--experimental-watch-progress-notify-interval`
    pub progress_interval: Option<Duration>,
    /// `--election-timeout`; heartbeats are ten times as frequent. By default a single member elects itself after 200
    /// ms.
    pub election_timeout: Option<Duration>,
    /// `--initial-cluster-token`: with the ports it determines the cluster's id.
    pub cluster_token: Option<String>,
    /// Ports for clients and for peers, instead of free ones. One member has one of each.
    pub ports: Option<[u16; 2]>,
    /// Clients use TLS, and present a certificate of this CA.
    pub tls: Option<Tls>,
}

/// Files for etcds with TLS.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The certificate that both sides trust.
    pub ca: PathBuf,
    /// The identity of etcd.
    pub server: Identity,
    /// The identity of etcdctl.
    pub client: Identity,
}

impl Tls {
    /// Signed by this authority.
    ///
    /// # Panics
    /// When its folder cannot be written.
    #[must_use]
    pub fn of(authority: &Authority) -> Self {
        let (server, client) = (authority.server(), authority.client("etcdctl"));
        Self { ca: authority.certificate(), server, client }
    }
}

impl Options {
    /// As arguments of etcd, without those that differ between members.
    pub(crate) fn arguments(&self, members: usize) -> Vec<String> {
        let mut arguments = Vec::new();
        let mut option = |name: &str, value: Option<String>| {
            arguments.extend(value.into_iter().flat_map(|value| [format!("--{name}"), value]));
        };
        let number = |value: Option<u64>| value.map(|value| value.to_string());
        option("auth-token-ttl", number(self.auth_token_ttl.map(|ttl| ttl.as_secs())));
        option("quota-backend-bytes", number(self.quota_bytes));
        option("snapshot-count", number(self.snapshot_count));
        option("max-request-bytes", number(self.request_bytes_max));
        let milliseconds = |time: Duration| format!("{}ms", time.as_millis());
        option("experimental-watch-progress-notify-interval", self.progress_interval.map(milliseconds));
        let alone = (members == 1).then(|| Duration::from_millis(200));
        if let Some(election) = self.election_timeout.or(alone) {
            option("election-timeout", Some(election.as_millis().to_string()));
            option("heartbeat-interval", Some((election.as_millis() / 10).max(1).to_string()));
        }
        if let Some(tls) = &self.tls {
            let path = |path: &PathBuf| Some(path.display().to_string());
            option("trusted-ca-file", path(&tls.ca));
            option("cert-file", path(&tls.server.cert));
            option("key-file", path(&tls.server.key));
            arguments.push("--client-cert-auth".to_owned());
        }
        arguments
    }
}
