//! `cargo xtask kubernetes-types`: the table of Kubernetes' API types that the server reads protobuf with, made from the
//! kubectl of each release.
//!
//! The same packages (`kubectl_packages`) give the same table, byte for byte.

mod go_binary;
mod table;

use std::fs;
use std::process::Command;

use crate::kubectl_packages::{PACKAGES, kubectl, package, release};
use crate::place;
use go_binary::GoBinary;

/// The table, from the top folder.
const TABLE: &str = "server/src/api/protobuf/types.txt";

/// Makes the table again; or only says which packages have newer versions. Returns whether all went well.
pub(crate) fn generate(newer: bool) -> bool {
    let outcome = if newer { list_newer() } else { make() };
    outcome.map_err(|problem| println!("kubernetes-types: {problem}")).is_ok()
}

fn make() -> Result<(), String> {
    let mut releases = Vec::new();
    let mut head = "# Kubernetes' API types; made by `cargo xtask kubernetes-types`, which describes the format. From kubectl".to_owned();
    for (minor, ..) in PACKAGES {
        let program = kubectl(minor)?;
        let bytes = fs::read(&program).map_err(|error| format!("{}: {error}", program.display()))?;
        let binary = GoBinary::read(&bytes).map_err(|why| format!("{}: {why}", program.display()))?;
        let messages = table::messages(&binary).map_err(|why| format!("kubectl 1.{minor}: {why}"))?;
        let release = release(&program)?;
        println!("    kubectl {release}: {} messages", messages.len());
        head = head + " " + &release;
        releases.push((minor, messages));
    }
    let text = format!("{head}.\n{}", table::merge(&releases)?);
    let path = place::root().join(TABLE);
    fs::write(&path, &text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    println!("{TABLE}: {} lines", text.lines().count());
    Ok(())
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
