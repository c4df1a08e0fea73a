//! Who accepts connections: this process or its successor. Shards follow it; `handover` changes it.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::listener::Listener;

/// Who accepts connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// This process, if it has listeners.
    Accepts,
    /// Nobody for the moment: the listeners are being handed over.
    Pauses,
    /// The successor: this process ends its watches.
    HandedOver,
}

/// The state that all shards share.
#[derive(Debug, Default)]
pub(super) struct HandoverState {
    /// A [`Stage`].
    stage: AtomicU8,
    /// Empty until this process listens.
    listeners: Mutex<Vec<Arc<Listener>>>,
    has_listeners: OnceLock<()>,
    handed_over: Mutex<Option<(Instant, Duration)>>,
}

impl HandoverState {
    pub(super) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::Accepts,
            1 => Stage::Pauses,
            _ => Stage::HandedOver,
        }
    }

    pub(super) fn set(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Release);
    }

    /// This process has listeners for clients now.
    pub(super) fn has_now(&self) {
        let _ = self.has_listeners.set(());
    }

    /// Whether this process has, or had, listeners for clients.
    pub(super) fn has_listeners(&self) -> bool {
        self.has_listeners.get().is_some()
    }

    /// When it was handed over, if it was.
    pub(super) fn since(&self) -> Option<Instant> {
        self.handed_over().map(|(since, _)| since)
    }

    /// The time over which watches are ended because it was.
    pub(super) fn drains_over(&self) -> Option<Duration> {
        match self.stage() {
            Stage::HandedOver => self.handed_over().map(|(_, over)| over),
            Stage::Accepts | Stage::Pauses => None,
        }
    }

    pub(super) fn handed_over(&self) -> MutexGuard<'_, Option<(Instant, Duration)>> {
        self.handed_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn listeners(&self) -> MutexGuard<'_, Vec<Arc<Listener>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
