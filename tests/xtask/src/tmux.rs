//! tmux, in which the tests of `revcast top` see a terminal: installed with apt-get if it is missing and this may.

use std::process::{Command, Stdio};

use crate::packages::run;

/// Installs it, or says why not: the tests then say that they are skipped.
pub(crate) fn install() {
    if answers() {
        return;
    }
    println!("    apt-get install -y --no-install-recommends tmux");
    let install = ["install", "-y", "--no-install-recommends", "tmux"];
    let installed = run(Command::new("apt-get").args(install).stdin(Stdio::null()).stdout(Stdio::null()));
    if let Err(problem) = installed {
        println!(
            "!!! SKIPPED: tmux: {problem}\n!!! revcast top is seen in no terminal; install tmux, or run as root"
        );
    }
}

fn answers() -> bool {
    let asked = Command::new("tmux").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}
