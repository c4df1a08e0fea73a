//! The bar on stderr, where that is a terminal, and what is written beside it.
//!
//! Owns the one bar of the process. Lines of the log are written above it. A terminal that is stopped stops who draws and who writes:
//! both are threads that do nothing else.

use std::io::{IsTerminal as _, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

static IS_WANTED: AtomicBool = AtomicBool::new(false);
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

const TEMPLATE: &str = "{prefix} {wide_bar} {human_pos} of {human_len} {msg}";

fn bar() -> MutexGuard<'static, Option<ProgressBar>> {
    BAR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on bars are shown, if stderr is a terminal that can draw one. Called by whoever writes text for people there.
pub(crate) fn allow() {
    let can_draw = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    IS_WANTED.store(can_draw && stderr().is_terminal(), Ordering::Relaxed);
}

/// A bar for this work, instead of the one before, if there can be one.
pub(crate) fn show(doing: &str) {
    clear();
    if IS_WANTED.load(Ordering::Relaxed) {
        *bar() = Some(styled(ProgressDrawTarget::stderr_with_hz(10), doing));
    }
}

fn styled(target: ProgressDrawTarget, doing: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(None, target).with_style(style.progress_chars("=> "));
    bar.set_prefix(doing.to_owned());
    bar
}

/// Moves the bar: so many `things`, so many a second. False: there is none.
pub(crate) fn reach(done: u64, total: u64, things: &str, rate: u64) -> bool {
    let bar = bar();
    let Some(bar) = bar.as_ref() else { return false };
    bar.set_message(format!("{things}, {}/s", HumanCount(rate)));
    bar.set_length(total);
    bar.set_position(done);
    true
}

/// Removes the bar.
pub(crate) fn clear() {
    if let Some(old) = bar().take() {
        old.finish_and_clear();
    }
}

/// Removes the bar at the end of the process, unless somebody waits for the terminal.
pub(crate) fn clear_at_end() {
    IS_WANTED.store(false, Ordering::Relaxed);
    if let Ok(mut bar) = BAR.try_lock()
        && let Some(old) = bar.take()
    {
        old.finish_and_clear();
    }
}

/// Writes to the terminal while the bar is not on it.
pub(crate) fn beside<T>(write: impl FnOnce() -> T) -> T {
    match bar().as_ref() {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_its_words_and_its_length() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
        let bar = styled(ProgressDrawTarget::hidden(), "loading");
        bar.set_length(9);
        bar.set_position(7);
        assert_eq!(bar.prefix().as_str(), "loading");
        assert_eq!((bar.position(), bar.length()), (7, Some(9)));
    }

    #[test]
    fn without_one_nothing_is_drawn_and_everything_written() {
        assert!(!reach(1, 2, "keys", 3), "the tests' stderr asks for none");
        assert_eq!(beside(|| 7), 7);
        clear();
    }
}
