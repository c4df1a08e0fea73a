//! A watchdog: reports when a shard does not turn, and when it turns again.
//!
//! It owns the decision, which is pure ([`TurnMonitor`]), and its thread. It never ends a shard: that is for a supervisor to
//! decide.

use std::sync::Arc;
use std::time::Duration;

use super::Pulse;
use super::shared::Shared;

/// Interval of the checks. A healthy shard turns at least twice a second, also when it sleeps.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// This many checks in a row without a turn are a stall.
const CHECKS: u32 = 2;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// This shard has not turned for so many checks that it counts as stalled.
    Stalled(usize),
    /// This one was stalled, and turns again.
    Turns(usize),
}

/// Which shards turned between two checks.
#[derive(Clone, Debug, Default)]
pub struct TurnMonitor {
    /// For each shard: its turns at the last check, and the checks since it turned.
    seen: Vec<(u64, u32)>,
}

impl TurnMonitor {
    /// Compares with how often each shard has turned so far. Only changes are returned.
    pub fn look(&mut self, turns: &[u64]) -> Vec<Found> {
        let mut found = Vec::new();
        for (shard, &turns) in turns.iter().enumerate() {
            let Some((last, checks)) = self.seen.get_mut(shard) else {
                self.seen.push((turns, 0));
                continue;
            };
            if turns == *last {
                *checks = checks.saturating_add(1);
                if *checks == CHECKS {
                    found.push(Found::Stalled(shard));
                }
                continue;
            }
            if *checks >= CHECKS {
                found.push(Found::Turns(shard));
            }
            (*last, *checks) = (turns, 0);
        }
        found
    }

    /// Whether every shard turned between the last two checks.
    #[must_use]
    pub fn all_turn(&self) -> bool {
        self.seen.iter().all(|(_, checks)| *checks == 0)
    }
}

/// Monitors the shards until the process ends.
pub(super) fn watch(shared: &Arc<Shared>) {
    let shared = Arc::downgrade(shared);
    let watchdog = std::thread::Builder::new().name("watchdog".into()).spawn(move || {
        let mut monitor = TurnMonitor::default();
        loop {
            std::thread::sleep(CHECK_INTERVAL);
            let Some(shared) = shared.upgrade() else { return };
            let found = monitor.look(&Pulse(Arc::clone(&shared)).turns());
            for ((_, checks), handle) in monitor.seen.iter().zip(shared.handles.0.iter()) {
                if *checks > 0 {
                    // In case it sleeps although it should not.
                    handle.wake.ring();
                }
            }
            for found in found {
                match found {
                    Found::Stalled(shard) => {
                        shared.app.stalls().note(shard, true);
                        crate::log::warn(&format!(
                            "shard {shard} has not turned for {} s, so the server is not ready: is its CPU taken by \
                             something else?",
                            CHECK_INTERVAL.as_secs() * u64::from(CHECKS)
                        ));
                    }
                    Found::Turns(shard) => {
                        shared.app.stalls().note(shard, false);
                        crate::log::warn(&format!("shard {shard} turns again"));
                    }
                }
            }
        }
    });
    if watchdog.is_err() {
        crate::log::warn("no thread for the watchdog: stalls of a shard will not be reported");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_told_once_and_taken_back_once() {
        let mut monitor = TurnMonitor::default();
        let mut told = Vec::new();
        // The second shard is stalled from the third check to the seventh; the third one misses a single check.
        let turns = [
            [0, 0, 5],
            [10, 3, 5],
            [20, 3, 6],
            [30, 3, 7],
            [40, 3, 8],
            [50, 3, 9],
            [60, 4, 10],
            [70, 5, 11],
            [80, 5, 12],
            [90, 5, 13],
            [99, 6, 14],
        ];
        for (at, turns) in turns.iter().enumerate() {
            told.extend(monitor.look(turns).into_iter().map(|found| (at, found)));
            let still = [1, 2, 3, 4, 5, 8, 9].contains(&at);
            assert_eq!(monitor.all_turn(), !still || at == 0, "look {at}");
        }
        assert_eq!(
            told,
            [(3, Found::Stalled(1)), (6, Found::Turns(1)), (9, Found::Stalled(1)), (10, Found::Turns(1)),]
        );
    }

    #[test]
    fn one_that_never_turned_is_found() {
        let mut monitor = TurnMonitor::default();
        assert_eq!(monitor.look(&[0]), []);
        assert_eq!(monitor.look(&[0]), []);
        assert_eq!(monitor.look(&[0]), [Found::Stalled(0)]);
        assert_eq!(monitor.look(&[0]), []);
        assert!(!monitor.all_turn());
    }
}
