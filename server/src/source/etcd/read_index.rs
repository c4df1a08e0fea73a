//! The newest revision: one read of etcd for all readers that wait.
//!
//! Owns the linearizable read that consistent reads are based on. A reader that comes while one is in progress waits for the
//! next: its answer could be older than a write that the reader knows of. An answer counts only if the watch was known to
//! follow that etcd's history for the whole time: an etcd that was restored meanwhile may report the same revision, for another
//! state. The same request is made once a second when no reader needs it, and shows how fresh the cache is, whether the watch
//! lags, and whether the cluster is still the same.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use etcd_client::{Error, GetOptions};
use revcast_engine::revision::Revision;
use tokio::time::{timeout, timeout_at};

use super::context::{ClusterState, EtcdContext};
use crate::source::command_queue::Answer;
use crate::source::{Fault, SourceError};

/// The interval of requests when no reader waits.
const EVERY: Duration = Duration::from_secs(1);
/// The timeout for a request that a reader waits for.
const ANSWER_WITHIN: Duration = Duration::from_millis(2_800);
/// The timeout when no reader waits: one that comes meanwhile waits until it is over.
const PROBE_WITHIN: Duration = Duration::from_secs(1);

/// The header of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) cluster: u64,
    pub(super) revision: Revision,
}

/// Requests the cluster's revision: linearizable, so that it is no older than any write acknowledged before.
pub(super) async fn head(context: &EtcdContext, within: Duration) -> Result<Head, SourceError> {
    context
        .calls
        .read(within, |mut client| async move {
            let options = GetOptions::new().with_limit(1).with_keys_only();
            client.get(context.layout.prefix(), Some(options)).await.and_then(|answer| {
                let header =
                    answer.header().ok_or_else(|| Error::Internal("an answer has no header".into()))?;
                Ok(Head { cluster: header.cluster_id(), revision: revision(header.revision()) })
            })
        })
        .await
}

/// The same, from the etcd whose history is followed, and what was served when it was requested. `patient`: waits while it is
/// not known which etcd that is; another state may be served by then.
async fn followed_head(
    context: &EtcdContext,
    within: Duration,
    patient: bool,
) -> Result<(Head, ClusterState), SourceError> {
    let deadline = tokio::time::Instant::now() + within;
    loop {
        let proof = match (context.proof(), patient && context.known().is_some()) {
            (None, true) => timeout_at(deadline, context.await_proof()).await.ok(),
            (proof, _) => proof,
        };
        let Some(known) = context.known() else {
            return Err(SourceError::new(Fault::Unavailable, "the state of etcd is not loaded yet"));
        };
        let Some(proof) = proof else {
            let why =
                "the watch of etcd is interrupted: whether etcd still has what is served is not known yet";
            return Err(SourceError::new(Fault::Unavailable, why));
        };
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        let head = head(context, left).await?;
        if context.proof() == Some(proof) {
            return Ok((head, known));
        }
    }
}

/// etcd's numbers are signed; none of its revisions is negative.
pub(super) fn revision(number: i64) -> Revision {
    Revision::new(u64::try_from(number).unwrap_or(0))
}

/// Answers requests as long as the thread lives.
pub(super) async fn answer(context: Rc<EtcdContext>) {
    loop {
        // No request: a second passed.
        let _ = timeout(EVERY, context.asked.notified()).await;
        let questions = std::mem::take(&mut *context.questions.borrow_mut());
        let began = Instant::now();
        let within = if questions.is_empty() { PROBE_WITHIN } else { ANSWER_WITHIN };
        let head = followed_head(&context, within, !questions.is_empty()).await;
        let stats = &context.commands.stats.remote;
        stats.questions.fetch_add(1, Ordering::Relaxed);
        let answer = match head {
            Err(error) => Answer::Unanswered(error),
            Ok((head, known)) if head.cluster != known.cluster || head.revision < known.last => {
                context.doubt.notify_one();
                let why = "another etcd, or an older state of it, answers: its state is being reloaded";
                Answer::Unanswered(SourceError::new(Fault::Unavailable, why))
            }
            Ok((head, known)) => {
                if context.known().is_some_and(|now| now.epoch == known.epoch) {
                    context.expect(head.revision, began);
                }
                Answer::Newest { epoch: known.epoch, revision: head.revision }
            }
        };
        stats.answered.fetch_add(questions.len() as u64, Ordering::Relaxed);
        for reply in questions {
            reply.send(answer.clone());
        }
    }
}
