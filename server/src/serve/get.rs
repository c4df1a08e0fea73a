//! GET of one object.

use std::sync::Arc;
use std::time::Duration;

use revcast_engine::index::Snapshot;
use revcast_engine::revision::Revision;

use super::{Call, Host, Reply};
use crate::http::options::{GetOptions, GetVersion, OptionsError};
use crate::http::status::Status;

/// How long a reader waits for a revision that is not reached yet (apiserver `cacher/watch_cache.go`).
const FRESH_WAIT: Duration = Duration::from_secs(3);
/// What `Retry-After` says when it was in vain (recording 07).
const FRESH_RETRY_SECONDS: u32 = 1;

impl<H: Host> Call<'_, H> {
    /// The state that everybody whose write was answered before this request can expect to see.
    ///
    /// The embedded store publishes before it answers a writer, so what is visible is that state already. A source
    /// that runs elsewhere would be asked for its revision here, and waited for.
    pub(super) async fn consistent(&self) -> Result<Arc<Snapshot>, Status> {
        Ok(self.app.feed.snapshot())
    }

    /// A state that is not older than `revision`.
    ///
    /// # Errors
    /// 504 when it is not reached in time (recording 07).
    pub(super) async fn not_older_than(&self, revision: Revision) -> Result<Arc<Snapshot>, Status> {
        let snapshot = self.app.feed.snapshot();
        if snapshot.revision() >= revision {
            return Ok(snapshot);
        }
        if self.host.wait_for(revision, FRESH_WAIT).await {
            return Ok(self.app.feed.snapshot());
        }
        let current = self.app.feed.revision();
        Err(Status::version_too_large(revision, current, Some(FRESH_RETRY_SECONDS)))
    }
}

/// Answers a GET of one object or of its status.
pub(super) async fn handle<H: Host>(call: &Call<'_, H>, name: &str) -> Result<Reply, Status> {
    let options = GetOptions::parse(call.query).map_err(OptionsError::status)?;
    let snapshot = match options.version {
        GetVersion::Unset => call.consistent().await?,
        GetVersion::Any => call.app.feed.snapshot(),
        GetVersion::NotOlderThan(revision) => call.not_older_than(revision).await?,
    };
    let object = snapshot.get(&call.key(name)).ok_or_else(|| call.not_found(name))?;
    Ok(call.show(200, object.json()))
}
