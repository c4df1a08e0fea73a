//! How far a load or a replay is: a line in the log every few seconds, and a text for `/readyz`.
//!
//! Owns the rate and the interval of the lines. It decides nothing.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::log;
use crate::source::command_queue::{CommandQueue, StartStep};

/// The interval of the lines.
const EVERY: Duration = Duration::from_secs(3);

/// A step that has begun.
#[derive(Clone, Copy)]
struct Begun {
    step: StartStep,
    at: Instant,
    said: Instant,
}

/// The step that is being made, if there is one.
pub(super) struct Progress {
    commands: Arc<CommandQueue>,
    begun: Cell<Option<Begun>>,
}

impl Progress {
    pub(super) const fn new(commands: Arc<CommandQueue>) -> Self {
        Self { commands, begun: Cell::new(None) }
    }

    /// A step begins.
    pub(super) fn begin(&self, step: StartStep) {
        let now = Instant::now();
        self.begun.set(Some(Begun { step, at: now, said: now }));
        self.commands.stats.remote.progress.set(step, 0, 0);
    }

    /// So much of it is done.
    pub(super) fn reach(&self, done: u64, total: u64) {
        let Some(begun) = self.begun.get() else { return };
        let progress = &self.commands.stats.remote.progress;
        progress.set(begun.step, done, total);
        if begun.said.elapsed() >= EVERY {
            let rate = rate(done, begun.at.elapsed());
            let text = progress.text().unwrap_or_default();
            log::info(&format!("{text}, {rate} a second"));
            self.begun.set(Some(Begun { said: Instant::now(), ..begun }));
        }
    }

    /// The step is over.
    pub(super) fn end(&self) {
        self.begun.set(None);
        self.commands.stats.remote.progress.set(StartStep::None, 0, 0);
    }
}

fn rate(done: u64, within: Duration) -> u64 {
    let millis = u64::try_from(within.as_millis()).unwrap_or(u64::MAX).max(1);
    done.saturating_mul(1_000) / millis
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_shown_until_it_is_over() {
        let commands = CommandQueue::new();
        let text = || commands.stats.remote.progress.text();
        let progress = Progress::new(Arc::clone(&commands));
        progress.reach(1, 2);
        assert_eq!(text(), None, "no step has begun");
        progress.begin(StartStep::Loading);
        progress.reach(1_200, 50_000);
        assert_eq!(text().as_deref(), Some("loading: 1200 of 50000 keys"));
        progress.begin(StartStep::Replaying);
        progress.reach(7, 9);
        assert_eq!(text().as_deref(), Some("replaying: 7 of 9 revisions"));
        progress.end();
        assert_eq!(text(), None);
        assert_eq!((rate(500, Duration::from_millis(250)), rate(5, Duration::ZERO)), (2_000, 5_000));
    }
}
