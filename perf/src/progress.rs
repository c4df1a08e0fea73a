//! What a person sees while a run goes on, on stderr: a bar where that is a terminal, a line a second where it is not,
//! nothing with `--quiet`. It never touches stdout, which belongs to the report.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// How often the spinner turns: seldom, for it runs on the load generator's core.
const TICK: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) enum Progress {
    Quiet,
    Lines,
    Bar(ProgressBar),
}

impl Progress {
    pub(crate) fn new(quiet: bool) -> Self {
        match (quiet, stderr().is_terminal()) {
            (true, _) => Self::Quiet,
            (false, false) => Self::Lines,
            (false, true) => {
                let bar = ProgressBar::no_length();
                bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
                bar.enable_steady_tick(TICK);
                Self::Bar(bar)
            }
        }
    }

    /// The next phase begins: `opening watches`, so many of them; or one that ends when it ends.
    pub(crate) fn phase(&self, name: &str, count: Option<u64>) {
        let counted = "{spinner} {prefix} {human_pos}/{human_len} {bar:24}  {msg}";
        self.begin(name, (if count.is_some() { counted } else { "{spinner} {prefix}  {msg}" }, count));
    }

    /// A phase of known length begins.
    pub(crate) fn timed_phase(&self, name: &str, length: Duration) {
        self.begin(name, ("{spinner} {prefix} {bar:24}  {msg}", Some(millis(length))));
    }

    fn begin(&self, name: &str, (template, length): (&str, Option<u64>)) {
        let Self::Bar(bar) = self else { return };
        let style = ProgressStyle::with_template(template).expect("the templates are valid");
        bar.set_style(style.progress_chars("=> "));
        bar.set_position(0);
        length.map_or_else(|| bar.unset_length(), |length| bar.set_length(length));
        bar.set_prefix(name.to_owned());
        bar.set_message("");
    }

    /// How many of the phase's count are done.
    pub(crate) fn reach(&self, count: u64) {
        if let Self::Bar(bar) = self {
            bar.set_position(count);
        }
    }

    /// How much of the phase's time is left.
    pub(crate) fn leave(&self, left: Duration) {
        if let Self::Bar(bar) = self {
            bar.set_position(bar.length().unwrap_or(0).saturating_sub(millis(left)));
            bar.set_prefix(format!("measuring, {} s left", left.as_secs_f64().round()));
        }
    }

    /// The live figures, once a second: beside the bar the short text, elsewhere the whole line.
    pub(crate) fn say(&self, line: &str, figures: &str) {
        match self {
            Self::Quiet => {}
            Self::Lines => eprintln!("{line}"),
            Self::Bar(bar) => bar.set_message(figures.to_owned()),
        }
    }
}

impl Drop for Progress {
    /// The bar goes: what comes next on the terminal is the report.
    fn drop(&mut self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden() -> (Progress, ProgressBar) {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        (Progress::Bar(bar.clone()), bar)
    }

    #[test]
    fn every_phase_has_a_valid_style_and_its_length() {
        let (progress, bar) = hidden();
        progress.phase("creating objects", None);
        assert_eq!((bar.length(), bar.prefix().as_str()), (None, "creating objects"));
        progress.phase("opening watches", Some(500));
        progress.reach(120);
        assert_eq!((bar.length(), bar.position()), (Some(500), 120));
        progress.timed_phase("measuring", Duration::from_secs(30));
        progress.leave(Duration::from_millis(11_800));
        assert_eq!((bar.position(), bar.prefix().as_str()), (18_200, "measuring, 12 s left"));
        progress.say("a line", "p99 1 ms");
        assert_eq!(bar.message(), "p99 1 ms");
        drop(progress);
        assert!(bar.is_finished());
    }

    #[test]
    fn quiet_is_quiet_whatever_stderr_is() {
        assert!(matches!(Progress::new(true), Progress::Quiet));
    }
}
