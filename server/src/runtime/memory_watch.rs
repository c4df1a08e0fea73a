//! The thread that monitors the memory of the process, and gives back what is free.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::memory::{Scarcity, judge, window};
use super::shared::Shared;
use super::sys::procfs;

/// Interval of the checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The same without a limit: freed memory is given back.
const CHECK_INTERVAL_UNLIMITED: Duration = Duration::from_secs(1);
/// Interval of the log lines while there is too little.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);

/// Gives back memory until the process ends, and monitors what is in use if there is a limit.
pub(super) fn start(shared: &Arc<Shared>) -> std::io::Result<()> {
    let interval = if shared.memory.max.is_some() { CHECK_INTERVAL } else { CHECK_INTERVAL_UNLIMITED };
    let shared = Arc::downgrade(shared);
    let thread = std::thread::Builder::new().name("memory".into()).spawn(move || {
        let mut complained: Option<Instant> = None;
        loop {
            std::thread::sleep(interval);
            crate::allocator::give_back_due();
            let Some(shared) = shared.upgrade() else { return };
            let Some(max) = shared.memory.max else { continue };
            let Some((resident, _)) = procfs::memory() else { continue };
            let scarcity = judge(resident, max);
            shared.memory.note(scarcity);
            let epoch = shared.app.epoch();
            let holds = epoch.feed.window_bytes();
            let may = epoch.feed.window_bytes_max();
            let next = window(scarcity, holds, may, shared.ring.bytes);
            if next != may {
                epoch.feed.limit_window(next);
                shared.commands.wake();
            }
            if scarcity == Scarcity::Full && complained.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY) {
                complained = Some(Instant::now());
                crate::log::warn(&format!(
                    "{resident} of {max} bytes of memory are in use: new watches, lists and writes are refused with 429, and the window holds {next} bytes instead of {}; raise --max-memory, or lower --ring-bytes",
                    shared.ring.bytes
                ));
            }
        }
    });
    thread.map(drop)
}
