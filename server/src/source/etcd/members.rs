//! The version of each member of the cluster, requested once: for `revcast doctor`.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::timeout;

use super::link::{Links, Purpose, explain};
use super::options::EtcdOptions;
use super::version::tells_progress;
use crate::source::{Fault, SourceError};

/// The timeout of the request.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// One member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// As it was configured.
    pub endpoint: String,
    /// `3.5.21`, or why it is not known, in a line.
    pub version: Result<String, String>,
    /// Whether its watches report progress reliably.
    pub is_new: bool,
}

/// Asks every configured member for its version, one after another. Waits some seconds for one that does not answer.
///
/// # Errors
/// The system refuses what tokio needs.
pub fn ask_members(options: &EtcdOptions) -> std::io::Result<Vec<Member>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let links = Links::new(Rc::new(options.clone()));
    let ask = |endpoint: &String| {
        let version = runtime.block_on(version(&links)).map_err(|error| error.to_string());
        links.rotate();
        let is_new = version.as_deref().is_ok_and(tells_progress);
        Member { endpoint: endpoint.clone(), version, is_new }
    };
    Ok(options.endpoints.iter().map(ask).collect())
}

async fn version(links: &Links) -> Result<String, SourceError> {
    let mut client = links.open(Purpose::Calls).await?;
    let status = timeout(ANSWER_WITHIN, Box::pin(client.status())).await;
    let late = |_| SourceError::new(Fault::Unavailable, "no answer in time");
    let status = status.map_err(late)?.map_err(|error| explain(&error, false))?;
    Ok(status.version().to_owned())
}
