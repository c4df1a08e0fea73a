//! Replaying history at the start, so that the window survives a restart.

use revcast_engine::Publisher;

use super::recovery::Recovery;
use super::source::{seconds, wall_now};
use crate::progress::Step;

/// Bytes of replayed messages that become visible together: what they displace from the window is freed then.
const REPLAY_BYTES: u64 = 1 << 20;
/// Revisions that become visible together at most.
const REPLAY_REVISIONS: usize = 1024;

/// Replays the stored state and history into the publisher.
///
/// # Errors
/// The file cannot be read, or its revisions do not grow; one line either way.
pub fn replay(recovery: &Recovery, publisher: &mut Publisher) -> Result<(), String> {
    let now = seconds(wall_now());
    let progress = recovery.progress();
    progress.begin(Step::Restoring);
    let total = recovery.records().map_err(|error| error.to_string())?;
    let mut records = 0;
    let mut replayed = || {
        records += 1;
        progress.reach(records, total);
    };
    for object in recovery.base() {
        replayed();
        let object = object.map_err(|error| error.to_string())?;
        publisher.load(object.key, object.revision, &object.value);
    }
    publisher.loaded(recovery.compacted);
    let mut gaps = recovery.gaps.iter().copied().peekable();
    // A delete has no value: its message is a copy of the deleted object, which it also keeps. The window counts it.
    let (mut shown, mut revisions) = (publisher.window_bytes(), 0);
    for batch in recovery.history() {
        replayed();
        let batch = batch.map_err(|error| error.to_string())?;
        while let Some(gap) = gaps.next_if(|gap| gap.next < batch.revision) {
            publisher.skip(gap);
        }
        publisher
            .handle_batch(&batch, now)
            .map_err(|error| format!("the stored revision {} cannot be served: {error}", batch.revision))?;
        revisions += 1;
        if publisher.window_bytes() >= shown + REPLAY_BYTES || revisions >= REPLAY_REVISIONS {
            publisher.publish();
            (shown, revisions) = (publisher.window_bytes(), 0);
        }
    }
    gaps.for_each(|gap| publisher.skip(gap));
    publisher.handle_progress(recovery.revision);
    publisher.publish();
    progress.end();
    Ok(())
}
