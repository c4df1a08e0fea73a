//! How far long work is: on a terminal a bar, elsewhere a line in the log every few seconds, and a text for `/readyz?verbose`.
//!
//! Owns the words, the rate and the interval. It decides nothing.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::bar;
use crate::log;

/// The interval of the lines.
const EVERY: Duration = Duration::from_secs(3);
/// Between two checks of the numbers. A step that takes less is not shown.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Work that may take long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Step {
    /// The state of a source is loaded.
    Loading = 1,
    /// What came after the loaded state is replayed.
    Replaying,
    /// A data directory is read and checked.
    Reading,
    /// The window is filled from a data directory.
    Restoring,
    /// Watches are ended.
    Draining,
    /// History is read that is added to the window, while the state is served.
    Backfilling,
}

impl Step {
    const ALL: [Self; 6] =
        [Self::Loading, Self::Replaying, Self::Reading, Self::Restoring, Self::Draining, Self::Backfilling];

    /// Whether nothing is served before it is done.
    const fn is_of_start(self) -> bool {
        matches!(self, Self::Loading | Self::Replaying | Self::Reading | Self::Restoring)
    }

    /// What is being done, and what is counted.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Loading => ("loading", "keys"),
            Self::Replaying => ("replaying", "revisions"),
            Self::Reading => ("reading the data directory", "records"),
            Self::Restoring => ("restoring the window", "records"),
            Self::Draining => ("draining", "watches"),
            Self::Backfilling => ("adding history to the window", "revisions"),
        }
    }
}

/// The step that is being made, if there is one. Its numbers are not of one moment: they are shown to people.
#[derive(Debug, Default)]
pub struct StepProgress {
    /// 0: none.
    step: AtomicU8,
    done: AtomicU64,
    total: AtomicU64,
    /// Whether a thread shows it. Whoever makes the steps never writes: a terminal may be stopped.
    is_watched: Mutex<bool>,
}

impl StepProgress {
    /// A step begins. The one before, if there is one, is over.
    pub fn begin(self: &Arc<Self>, step: Step) {
        let mut is_watched = self.is_watched();
        self.set(step as u8, 0, 0);
        if !*is_watched {
            let progress = Arc::clone(self);
            let watch = std::thread::Builder::new().name("progress".into()).spawn(move || progress.watch());
            // Without a thread it is not shown, but still told.
            *is_watched = watch.is_ok();
        }
    }

    /// So much of the step is done. Costs two stores to memory.
    pub fn reach(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// The same, unless another step has begun.
    pub fn reach_of(&self, step: Step, done: u64, total: u64) {
        if self.step() == Some(step) {
            self.reach(done, total);
        }
    }

    /// This step is over, unless another has begun.
    pub fn end_of(&self, step: Step) {
        if self.step() == Some(step) {
            self.end();
        }
    }

    /// The step is over.
    pub fn end(&self) {
        self.set(0, 0, 0);
    }

    /// As text: `loading: 1200 of 50000 keys`; `None`: no step is being made.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let (doing, things) = self.step()?.words();
        let (done, total) = self.numbers();
        Some(format!("{doing}: {done} of {total} {things}"))
    }

    /// The same, if the step is one that the server's start waits for: then it is why the server is not ready.
    #[must_use]
    pub fn text_of_start(&self) -> Option<String> {
        self.step().filter(|step| step.is_of_start()).and_then(|_| self.text())
    }

    /// The same, if the step is the server's end.
    #[must_use]
    pub fn text_of_end(&self) -> Option<String> {
        self.step().filter(|step| *step == Step::Draining).and_then(|_| self.text())
    }

    /// Shows one step after another, until none is being made.
    fn watch(&self) {
        let mut shown: Option<(Step, Instant, Instant)> = None;
        loop {
            std::thread::sleep(CHECK_INTERVAL);
            let mut is_watched = self.is_watched();
            let Some(step) = self.step() else {
                // A step that begins now waits for the lock, and starts another thread.
                *is_watched = false;
                drop(is_watched);
                bar::clear();
                return;
            };
            drop(is_watched);
            let (done, total) = self.numbers();
            let now = Instant::now();
            let (_, began, said) = match &mut shown {
                Some(shown) if shown.0 == step => shown,
                _ => {
                    bar::show(step.words().0);
                    shown.insert((step, now, now))
                }
            };
            let rate = rate(done, began.elapsed());
            if !bar::reach(done, total, step.words().1, rate) && said.elapsed() >= EVERY {
                *said = now;
                log::info(&format!("{}, {rate} a second", self.text().unwrap_or_default()));
            }
        }
    }

    fn step(&self) -> Option<Step> {
        let number = self.step.load(Ordering::Relaxed);
        Step::ALL.into_iter().find(|step| *step as u8 == number)
    }

    fn numbers(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    fn set(&self, step: u8, done: u64, total: u64) {
        self.reach(done, total);
        self.step.store(step, Ordering::Relaxed);
    }

    fn is_watched(&self) -> MutexGuard<'_, bool> {
        self.is_watched.lock().unwrap_or_else(PoisonError::into_inner)
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
        let progress = Arc::new(StepProgress::default());
        progress.reach(1, 2);
        assert_eq!(progress.text(), None, "no step has begun");
        progress.begin(Step::Loading);
        progress.reach(1_200, 50_000);
        assert_eq!(progress.text().as_deref(), Some("loading: 1200 of 50000 keys"));
        progress.begin(Step::Replaying);
        progress.reach(7, 9);
        assert_eq!(progress.text().as_deref(), Some("replaying: 7 of 9 revisions"));
        assert_eq!((progress.text_of_start(), progress.text_of_end()), (progress.text(), None));
        progress.begin(Step::Backfilling);
        assert_eq!((progress.text_of_start(), progress.text_of_end()), (None, None), "the state is served");
        progress.begin(Step::Draining);
        assert_eq!(
            progress.text().as_deref(),
            Some("draining: 0 of 0 watches"),
            "nothing of the step before"
        );
        assert_eq!((progress.text_of_start(), progress.text_of_end()), (None, progress.text()));
        progress.end();
        assert_eq!(progress.text(), None);
        let deadline = Instant::now() + Duration::from_secs(30);
        while *progress.is_watched() {
            assert!(Instant::now() < deadline, "its thread does not end");
            std::thread::sleep(CHECK_INTERVAL);
        }
        progress.begin(Step::Reading);
        assert!(*progress.is_watched(), "another is shown by another");
        progress.end();
        assert_eq!((rate(500, Duration::from_millis(250)), rate(5, Duration::ZERO)), (2_000, 5_000));
    }
}
