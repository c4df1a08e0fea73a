//! What a person sees of a run on stderr: a bar where that is a terminal, a line a second elsewhere, nothing with `--quiet`.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// How often the spinner turns: seldom, for it runs on the load generator's core.
const TICK: Duration = Duration::from_millis(200);

pub(crate) struct Progress {
    bar: ProgressBar,
    lines: bool,
}

impl Progress {
    pub(crate) fn new(quiet: bool) -> Self {
        let shown = !quiet && stderr().is_terminal();
        let bar = ProgressBar::hidden();
        if shown {
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
            bar.enable_steady_tick(TICK);
        }
        Self { bar, lines: !quiet && !shown }
    }

    /// The next phase begins: `opening watches`, so many of them; or one that ends when it ends.
    pub(crate) fn phase(&self, name: &str, count: Option<u64>) {
        let bar = if count.is_some() { " {human_pos}/{human_len} {bar:24}" } else { "" };
        let template = format!("{{spinner}} {{prefix}}{bar}  {{msg}}");
        let style = ProgressStyle::with_template(&template).expect("the templates are valid");
        self.bar.set_style(style.progress_chars("=> "));
        self.bar.set_position(0);
        count.map_or_else(|| self.bar.unset_length(), |count| self.bar.set_length(count));
        self.bar.set_prefix(name.to_owned());
        self.bar.set_message("");
    }

    pub(crate) fn reach(&self, count: u64) {
        self.bar.set_position(count);
    }

    /// The live figures, once a second: beside the bar the short text, elsewhere the whole line.
    pub(crate) fn say(&self, line: &str, figures: &str) {
        if self.lines {
            eprintln!("{line}");
        }
        self.bar.set_message(figures.to_owned());
    }
}

impl Drop for Progress {
    /// The bar goes: what comes next on the terminal is the report.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_has_a_valid_style_and_its_length() {
        let progress = Progress::new(true);
        let bar = progress.bar.clone();
        assert!(!progress.lines && bar.is_hidden(), "quiet is quiet whatever stderr is");
        progress.phase("creating objects", None);
        assert_eq!((bar.length(), bar.prefix().as_str()), (None, "creating objects"));
        progress.phase("opening watches", Some(500));
        progress.reach(120);
        assert_eq!((bar.length(), bar.position()), (Some(500), 120));
        progress.say("a line", "p99 1 ms");
        assert_eq!(bar.message(), "p99 1 ms");
        drop(progress);
        assert!(bar.is_finished());
    }
}
