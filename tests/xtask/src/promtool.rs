//! The tool that checks metrics and alert rules: found, or taken out of Debian's package below the target folder without any
//! right.
//!
//! Nothing is installed into the system. Whoever has one of his own names it in `REVCAST_PROMTOOL`. Without one the test that
//! wants it says loudly that it did not check.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::etcd::{download, remade, run};
use crate::place;

const VARIABLE: &str = "REVCAST_PROMTOOL";

/// Makes sure that it is there, if it can be had: no check but one hangs on it, and that one says when it was not made.
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
    // Made beside its place and moved there whole: an install that was broken off leaves nothing that looks right.
    let making = folder.join(format!(".promtool-{}", std::process::id()));
    let made = remade(&making).and_then(|()| fetch(&making, &program));
    // What stays behind is in nobody's way.
    let _ = fs::remove_dir_all(&making);
    made?;
    version(&program).map(|version| (program, version))
}

/// The first line of what it says of itself.
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
