//! The client of the demo that writes: one request after another, at a rate.

use std::rc::Rc;
use std::time::{Duration, Instant};

use http::StatusCode;
use serde::Deserialize;
use tokio::time::MissedTickBehavior;

use super::cluster::{Change, Cluster};
use super::connection::Connection;
use super::ledger::Write;
use super::world::World;

/// Pause after a failed request.
const PAUSE: Duration = Duration::from_millis(200);

/// What a reply says of the object.
#[derive(Default, Deserialize)]
struct Reply {
    #[serde(default)]
    metadata: ReplyMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReplyMetadata {
    #[serde(default)]
    resource_version: String,
}

/// Writes into one cluster.
#[derive(Debug)]
pub(super) struct Writer {
    connection: Connection,
    /// The revision of the newest write.
    newest: u64,
}

impl Writer {
    pub(super) const fn new(connection: Connection) -> Self {
        Self { connection, newest: 0 }
    }

    /// Fills the cluster, while nobody watches.
    ///
    /// # Errors
    /// The server refuses an object.
    pub(super) async fn fill(&mut self, cluster: &mut Cluster) -> Result<usize, String> {
        let changes = cluster.fill();
        let mut made = 0;
        for mut change in changes {
            let (code, body) =
                self.connection.ask(change.method.clone(), &change.path, change.body.take()).await?;
            if !code.is_success() {
                return Err(format!("{}: {code}: {}", change.path, String::from_utf8_lossy(&body)));
            }
            made += usize::from(change.states[0].is_none());
        }
        Ok(made)
    }

    /// Writes so many times a second until it is aborted between two writes, which `is_over` says.
    pub(super) async fn run(
        mut self,
        world: &World,
        cluster: &mut Cluster,
        rate: usize,
        is_over: impl Fn() -> bool,
    ) {
        let mut ticks =
            tokio::time::interval(Duration::from_secs(1) / u32::try_from(rate).unwrap_or(u32::MAX));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !is_over() {
            ticks.tick().await;
            let mut change = cluster.next(now());
            let writes = world.expect(&change, Instant::now());
            if let Err(why) = self.write(world, cluster, &mut change, &writes).await {
                world.withdraw(&writes);
                world.fault(why);
                cluster.refused(&change, false);
                tokio::time::sleep(PAUSE).await;
                if let Ok(connection) = Connection::open(world.address).await {
                    self.connection = connection;
                }
            }
        }
    }

    async fn write(
        &mut self,
        world: &World,
        cluster: &mut Cluster,
        change: &mut Change,
        writes: &[Rc<Write>],
    ) -> Result<(), String> {
        let body = change.body.take();
        let (code, body) = self.connection.ask(change.method.clone(), &change.path, body).await?;
        if code == StatusCode::NOT_FOUND || code == StatusCode::CONFLICT {
            world.withdraw(writes);
            world.count(|counts| counts.refused += 1);
            cluster.refused(change, code == StatusCode::CONFLICT);
            return Ok(());
        }
        if !code.is_success() {
            return Err(format!("{}: {code}: {}", change.path, String::from_utf8_lossy(&body)));
        }
        // Some deletions are answered with a Status, which has none.
        let reply: Reply = serde_json::from_slice(&body).unwrap_or_default();
        match reply.metadata.resource_version.parse::<u64>() {
            // The object was that already.
            Ok(revision) if revision <= self.newest => {
                world.withdraw(writes);
                return Ok(());
            }
            Ok(revision) => {
                self.newest = revision;
                writes.iter().take(1).for_each(|write| write.revision.set(revision));
            }
            Err(_) => {}
        }
        world.count(|counts| {
            counts.writes += 1;
            counts.events += writes.len() as u64;
        });
        Ok(())
    }
}

/// The time as Kubernetes writes it.
pub(super) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
