//! What is asked of the upstream without a request: what the cluster says about authentication, and again what open watches need.
//!
//! One task of one shard. A change is told to all shards, which check their watches as after a change of files.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glommio::timer::sleep;

use super::shard::local::Local;
use crate::auth::delegated::Delegated;
use crate::frontend::ByHost;
use crate::source::command_queue::Shards as _;
use crate::tls::ClusterAuthorities;

/// How often the ConfigMap is read. It changes when an authority of the cluster is replaced, and names both for a time then.
const CLUSTER_EVERY: Duration = Duration::from_secs(30);
/// The same, until it was read once.
const CLUSTER_FIRST: Duration = Duration::from_secs(2);

/// Asks until the server closes.
pub(super) async fn follow(local: Rc<Local>) {
    let Some(delegated) = local.shared.app.guard().delegated().map(Arc::clone) else { return };
    let upstream = ByHost(&*local);
    let reads_cluster = delegated.options().authentication;
    let mut cluster_at = Instant::now();
    let mut failed = false;
    while !local.closing() {
        let mut changed = false;
        if reads_cluster && Instant::now() >= cluster_at {
            let read = delegated.read_cluster(&upstream).await;
            if read.is_err() != failed {
                failed = read.is_err();
                match &read {
                    Err(error) => crate::log::warn(&format!("certificates of the cluster: {error}")),
                    Ok(_) => crate::log::info("certificates of the cluster: the ConfigMap was read"),
                }
            }
            changed |= matches!(read, Ok(true)) && take_cluster(&local, &delegated);
            cluster_at = Instant::now() + if read.is_err() { CLUSTER_FIRST } else { CLUSTER_EVERY };
        }
        changed |= delegated.recheck(&upstream, Instant::now()).await;
        if changed {
            local.shared.app.guard().outdate();
            local.shared.handles.wake_all();
        }
        let now = Instant::now();
        let rest = delegated.rest(now);
        sleep(if reads_cluster { rest.min(cluster_at.saturating_duration_since(now)) } else { rest }).await;
    }
}

/// Serves with the authorities that the cluster names now. True: in any case, since what counts as a front proxy may have changed.
fn take_cluster(local: &Local, delegated: &Delegated) -> bool {
    let Some(tls) = &local.shared.tls else { return true };
    let cluster = delegated.cluster();
    let taken = ClusterAuthorities::parse(&cluster.client_ca, &cluster.proxy.ca)
        .and_then(|authorities| tls.set_cluster(authorities).map_err(|fault| fault.problem));
    match taken {
        Ok(true) => crate::log::info(
            "TLS: clients' certificates are verified by the authorities that the cluster names now",
        ),
        Ok(false) => {}
        Err(problem) => crate::log::error(&format!(
            "TLS: the ConfigMap extension-apiserver-authentication cannot be used: {problem}; the earlier authorities stay in use"
        )),
    }
    true
}
