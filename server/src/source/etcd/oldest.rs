//! Where a warm start begins: at the oldest revision that etcd still has, or later.
//!
//! Owns the question for etcd's compacted revision, and the choice of the revision to load. It reads no object, and changes
//! nothing.

use std::time::Duration;

use etcd_client::{Client, GetOptions, WatchOptions};
use revcast_engine::revision::Revision;
use tokio::time::{Instant, timeout_at};

use super::context::EtcdContext;
use super::link::{explain, is_compacted};
use super::read_index::revision;
use super::write::number_of;
use crate::source::{Fault, SourceError};

/// How often a warm start begins again, each time later in history. Then the newest state is loaded.
pub(super) const ATTEMPTS_MAX: u32 = 4;
/// Revisions that are replayed at most. etcd's writers wait while it reads them: for up to 0.19 s with these, of 1 KiB, and 0.49 s with
/// twice as many.
const REVISIONS_MAX: u64 = 1 << 16;
/// The timeout of one question. etcd looks for watches that begin in compacted history every 100 ms.
const WITHIN: Duration = Duration::from_secs(3);

/// The history that a warm start replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The state is loaded as of this revision.
    pub(super) from: Revision,
    /// What came up to here is replayed before anything is served.
    pub(super) to: Revision,
}

/// The span up to `newest` that is worth a replay and that etcd still has; less of it with every attempt that failed.
///
/// # Errors
/// etcd does not tell.
pub(super) async fn find(
    context: &EtcdContext,
    client: &Client,
    newest: Revision,
    failed: u32,
) -> Result<Span, SourceError> {
    // Every revision has an event, though perhaps of a foreign key: more of them would not have room in the window.
    let events_max = u64::try_from(context.engine.limits.events).unwrap_or(u64::MAX);
    let useful = Revision::new(newest.get().saturating_sub(events_max.min(REVISIONS_MAX)).max(1));
    let oldest =
        if has(context, useful).await? { useful } else { compacted(context, client, useful).await? };
    Ok(span(oldest, newest, failed))
}

/// Leaves out a further part of history after every failure: a compaction that follows closely reaches each begin later.
fn span(oldest: Revision, newest: Revision, failed: u32) -> Span {
    let length = newest.get().saturating_sub(oldest.get());
    let left_out = length / u64::from(ATTEMPTS_MAX) * u64::from(failed.min(ATTEMPTS_MAX));
    Span { from: Revision::new(newest.get() - length + left_out), to: newest }
}

/// Whether etcd still has the state at a revision.
async fn has(context: &EtcdContext, at: Revision) -> Result<bool, SourceError> {
    let options = GetOptions::new().with_limit(1).with_keys_only().with_revision(number_of(at));
    let asked = context.calls.read(WITHIN, |mut client| {
        let options = options.clone();
        async move { client.get(context.layout.prefix(), Some(options)).await }
    });
    match asked.await {
        Ok(_) => Ok(true),
        Err(error) if is_compacted(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The compacted revision: etcd tells it to a watch that begins before it. The watch is of one key, which nobody writes.
async fn compacted(
    context: &EtcdContext,
    client: &Client,
    before: Revision,
) -> Result<Revision, SourceError> {
    let deadline = Instant::now() + WITHIN;
    let late = |_| SourceError::new(Fault::Unavailable, "etcd does not tell its compacted revision");
    let options = WatchOptions::new().with_start_revision(number_of(before));
    let mut watches = client.watch_client();
    let opened = timeout_at(deadline, watches.watch(context.layout.prefix(), Some(options))).await;
    let mut stream = opened.map_err(late)?.map_err(|error| explain(&error, false))?;
    loop {
        let message = timeout_at(deadline, stream.message()).await;
        let message = message.map_err(late)?.map_err(|error| explain(&error, false))?;
        match message {
            Some(message) if message.compact_revision() > 0 => {
                return Ok(revision(message.compact_revision()));
            }
            Some(message) if !message.canceled() => {}
            Some(_) | None => {
                let why = "etcd ended a watch without its compacted revision";
                return Err(SourceError::new(Fault::Unavailable, why));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attempt_begins_later_and_ends_at_the_newest_revision() {
        let from = |oldest, newest, failed| {
            let span = span(Revision::new(oldest), Revision::new(newest), failed);
            assert_eq!(span.to, Revision::new(newest));
            span.from.get()
        };
        let begins: Vec<u64> = (0..=ATTEMPTS_MAX).map(|failed| from(100, 1_100, failed)).collect();
        assert_eq!(begins, [100, 350, 600, 850, 1_100]);
        assert_eq!(from(100, 1_100, u32::MAX), 1_100);
        // History shorter than the number of attempts, and none.
        assert!((0..=ATTEMPTS_MAX).all(|failed| (7..=9).contains(&from(7, 9, failed))));
        assert_eq!(from(9, 9, 0), 9);
        assert_eq!(from(1, u64::MAX, ATTEMPTS_MAX - 1), 1 + (u64::MAX - 1) / 4 * 3);
        // What was compacted after the newest revision was asked for.
        assert_eq!(from(12, 9, 0), 9);
    }
}
