//! A watchdog: says when a shard is awake and does not turn.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::local::Shared;

/// How often it looks; a shard that does not turn for two looks is reported once.
const LOOK: Duration = Duration::from_secs(2);

/// Watches over the shards until the process ends.
pub(super) fn watch(shared: &Arc<Shared>) {
    let shared = Arc::downgrade(shared);
    let watchdog = std::thread::Builder::new().name("watchdog".into()).spawn(move || {
        let mut seen: Vec<(u64, u32)> = Vec::new();
        loop {
            std::thread::sleep(LOOK);
            let Some(shared) = shared.upgrade() else { return };
            seen.resize(shared.doors.0.len(), (0, 0));
            for (number, (door, (last, looks))) in shared.doors.0.iter().zip(&mut seen).enumerate() {
                let turns = door.heartbeat.load(Ordering::Relaxed);
                if door.wake.is_asleep() || turns != *last {
                    (*last, *looks) = (turns, 0);
                    continue;
                }
                *looks += 1;
                // In case it sleeps though it should not.
                door.wake.ring();
                if *looks == 2 {
                    crate::log::warn(&format!(
                        "shard {number} has not turned for {} s: is its CPU taken by something else?",
                        LOOK.as_secs() * 2
                    ));
                }
            }
        }
    });
    if watchdog.is_err() {
        crate::log::warn("no thread for the watchdog: stalls of a shard will not be reported");
    }
}
