//! The tool that checks metrics and alert rules: found, or extracted from Debian's package below the target folder
//! without root.
//!
//! Nothing is installed into the system. `REVCAST_PROMTOOL` names another one. Without it, the test that needs it
//! prints a notice that it did not check.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::packages::{download, remade, run};
use crate::place;

const VARIABLE: &str = "REVCAST_PROMTOOL";

/// Installs it if possible: only one check depends on it, and that one reports when it did not run.
pub(crate) fn install() {
    match ensure() {
        Ok((program, version)) => {
            println!("{version}: {}", program.display());
        }
        Err(problem) => {
            println!(
                "!!! no promtool: {problem}; or name one in {VARIABLE}\n!!! metrics and alert rules will not be checked; repeat: cargo xtask promtool"
            );
        }
    }
}

fn ensure() -> Result<(PathBuf, String), String> {
    if let Some(program) = std::env::var_os(VARIABLE).map(PathBuf::from) {
        let version = version(&program).map_err(|problem| format!("{VARIABLE}: {problem}"))?;
        return Ok((program, version));
    }
    let folder = place::target().join("prometheus");
    let program = folder.join("promtool");
    for found in [program.clone(), "/usr/bin/promtool".into()] {
        if let Ok(version) = version(&found) {
            return Ok((found, version));
        }
    }
    // Built in another folder and renamed at the end: an interrupted install leaves nothing that looks complete.
    let making = folder.join(format!(".promtool-{}", std::process::id()));
    let made = remade(&making).and_then(|()| fetch(&making, &program));
    // What stays does not matter.
    let _ = fs::remove_dir_all(&making);
    made?;
    version(&program).map(|version| (program, version))
}

/// The first line of its version.
fn version(program: &Path) -> Result<String, String> {
    let said = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let said = said.map_err(|error| format!("{} does not start: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let text = if text.is_empty() { String::from_utf8_lossy(&said.stderr).into_owned() } else { text };
    let first = text.lines().next().filter(|line| line.starts_with("promtool, version "));
    first.map(str::to_owned).ok_or_else(|| format!("{} tells no version", program.display()))
}

fn fetch(making: &Path, program: &Path) -> Result<(), String> {
    for package in download(making, &["prometheus"])? {
        run(Command::new("dpkg").arg("-x").arg(package).arg(making.join("unpacked")))?;
    }
    fs::rename(making.join("unpacked/usr/bin/promtool"), program)
        .map_err(|error| format!("the package has no promtool that could be moved: {error}"))
}
