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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Open,
    Count(u64),
    Time(Duration),
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

    /// The next phase begins: `opening watches`.
    pub(crate) fn phase(&self, name: &str, extent: Extent) {
        let Self::Bar(bar) = self else { return };
        let (template, length) = match extent {
            Extent::Open => ("{spinner} {prefix}  {msg}", None),
            Extent::Count(count) => {
                ("{spinner} {prefix} {human_pos}/{human_len} {bar:24}  {msg}", Some(count))
            }
            Extent::Time(time) => ("{spinner} {prefix} {bar:24}  {msg}", Some(millis(time))),
        };
        bar.set_style(style(template));
        bar.set_position(0);
        match length {
            Some(length) => bar.set_length(length),
            None => bar.unset_length(),
        }
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

    /// The bar goes: what comes next on the terminal is the report.
    pub(crate) fn end(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates above are valid").progress_chars("=> ")
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
        progress.phase("creating objects", Extent::Open);
        assert_eq!((bar.length(), bar.prefix().as_str()), (None, "creating objects"));
        progress.phase("opening watches", Extent::Count(500));
        progress.reach(120);
        assert_eq!((bar.length(), bar.position()), (Some(500), 120));
        progress.phase("measuring", Extent::Time(Duration::from_secs(30)));
        progress.leave(Duration::from_millis(11_800));
        assert_eq!((bar.position(), bar.prefix().as_str()), (18_200, "measuring, 12 s left"));
        progress.say("a line", "p99 1 ms");
        assert_eq!(bar.message(), "p99 1 ms");
        progress.end();
        assert!(bar.is_finished());
    }

    #[test]
    fn quiet_is_quiet_whatever_stderr_is() {
        assert!(matches!(Progress::new(true), Progress::Quiet));
    }
}
