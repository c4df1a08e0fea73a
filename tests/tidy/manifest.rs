//! Which crate may depend on which, read from the `Cargo.toml`s.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::tree::root;
use super::{Fault, lines, none};

/// The engine's dependencies: exactly these.
const ENGINE: [(&str, &[&str]); 2] = [
    ("dependencies", &["arc-swap", "boxcar", "bytes", "imbl", "simd-json", "siphasher"]),
    ("target.cfg(revcast_loom).dependencies", &["loom"]),
];

/// One dependency in a manifest.
#[derive(Debug, PartialEq, Eq)]
struct Dependency {
    line: usize,
    table: String,
    name: String,
    /// Its specification.
    says: String,
}

/// Every dependency in the text of a manifest, of any kind and target. Reads the subset of TOML that cargo's manifests
/// use: tables, dotted keys, inline tables, one line each.
fn dependencies(text: &str) -> Vec<Dependency> {
    let mut table: Vec<String> = Vec::new();
    let mut found: Vec<Dependency> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split(" #").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (keys, value) = if line.starts_with('[') {
            table = dotted(line.trim_start_matches('[').trim_end_matches(']'));
            (Vec::new(), "")
        } else {
            let Some((key, value)) = line.split_once('=').filter(|(key, _)| !key.contains(['{', '[', ',']))
            else {
                continue;
            };
            (dotted(key), value.trim())
        };
        let whole: Vec<String> = table.iter().cloned().chain(keys).collect();
        let kind = whole.iter().position(|part| part.ends_with("dependencies"));
        let Some(kind) = kind.filter(|kind| whole.len() > kind + 1) else { continue };
        let (above, name) = (whole[..=kind].join("."), whole[kind + 1].clone());
        let says = format!("{} = {value}", whole[kind + 1..].join("."));
        match found.iter_mut().find(|known| known.table == above && known.name == name) {
            Some(known) => known.says = format!("{}, {says}", known.says),
            None => found.push(Dependency { line: index + 1, table: above, name, says }),
        }
    }
    found
}

/// `target.'cfg(revcast_loom)'.dependencies` in its parts.
fn dotted(key: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quote = None;
    for letter in key.trim().chars() {
        match (letter, quote) {
            ('\'' | '"', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            ('.', None) => parts.push(String::new()),
            (' ', None) => {}
            (letter, _) => parts.last_mut().unwrap().push(letter),
        }
    }
    parts
}

/// Names under which the workspace offers the server or the engine.
fn own_crates(workspace: &str) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = ["revcast".to_owned(), "revcast-engine".to_owned()].into();
    let own = |dependency: &Dependency| is_own(&dependency.says);
    names.extend(dependencies(workspace).into_iter().filter(own).map(|dependency| dependency.name));
    names
}

/// Whether the specification of a dependency leads to the server or the engine.
fn is_own(says: &str) -> bool {
    let parts: Vec<&str> = says.split(['"', '\'']).collect();
    parts.as_chunks().0.iter().any(|[key, value]| {
        // A feature may have the name of a folder.
        let is_path = key.trim_end_matches([' ', '=']).ends_with("path");
        let folder = value.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        ["revcast", "revcast-engine"].contains(value) || is_path && ["server", "engine"].contains(&folder)
    })
}

fn perf(workspace: &str, manifest: &str) -> Vec<Fault> {
    let own = own_crates(workspace);
    let found = dependencies(manifest).into_iter();
    let linked = found.filter(|dependency| own.contains(&dependency.name) || is_own(&dependency.says));
    let rule = |name: &str| format!("perf measures from outside and never links `{name}`");
    linked
        .map(|found| Fault::new("perf/Cargo.toml", found.line, &rule(&found.name), "speak to it over TCP"))
        .collect()
}

fn engine(manifest: &str) -> Vec<Fault> {
    let path = "engine/Cargo.toml";
    let allowed: BTreeMap<&str, &[&str]> = ENGINE.into();
    let there = dependencies(manifest);
    let names = |table: &str| allowed.get(table).copied().unwrap_or_default();
    let more = there.iter().filter(|found| !names(&found.table).contains(&found.name.as_str()));
    let mut faults: Vec<Fault> = more
        .map(|found| {
            let rule = format!("`{}` is not one of the engine's [{}]", found.name, found.table);
            let mend = "do without, or list it in tests/tidy/manifest.rs and in engine/DECISIONS.md";
            Fault::new(path, found.line, &rule, mend)
        })
        .collect();
    for (table, names) in ENGINE {
        let missing = names.iter().filter(|name| !there.iter().any(|d| d.table == table && d.name == **name));
        let rule = |name: &str| format!("`{name}` is listed for the engine's [{table}], and is not there");
        faults.extend(
            missing.map(|name| Fault::new(path, 1, &rule(name), "take it off the list in manifest.rs")),
        );
    }
    faults
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

#[test]
fn perf_links_neither_server_nor_engine() {
    none(&perf(&read("Cargo.toml"), &read("perf/Cargo.toml")));
}

#[test]
fn the_engine_depends_on_the_listed_crates_alone() {
    none(&engine(&read("engine/Cargo.toml")));
}

#[test]
fn dependencies_are_read() {
    let text = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\nb = { version = \"1\" } # why\n# c = 1\n\
                [target.'cfg(revcast_loom)'.dependencies]\nd = \"1\"\n[dev-dependencies.e]\npath = \"../e\"\nfeatures = []\n\
                [features]\nf = []";
    let found: Vec<(usize, String, String)> =
        dependencies(text).into_iter().map(|d| (d.line, d.table, d.name)).collect();
    let wanted = [
        (4, "dependencies", "a"),
        (5, "dependencies", "b"),
        (8, "target.cfg(revcast_loom).dependencies", "d"),
        (9, "dev-dependencies", "e"),
    ];
    assert_eq!(found, wanted.map(|(line, table, name)| (line, table.to_owned(), name.to_owned())));
}

#[test]
fn a_perf_that_links_the_server_is_found() {
    let workspace = "[workspace.dependencies]\ninside = { package = \"revcast-engine\", path = \"engine\" }\nserde = \"1\"";
    let text = "[dependencies]\nserde.workspace = true\nrevcast.workspace = true\ninside.workspace = true\n\
                [dev-dependencies]\nlib = { path = \"../server\" }\n[dependencies.other]\npackage = \"revcast\"";
    assert_eq!(lines(&perf(workspace, text)), [3, 4, 6, 7]);
    assert_eq!(lines(&perf(workspace, "[dependencies]\nserde.workspace = true")), [0_usize; 0]);
}

#[test]
fn an_engine_with_more_or_less_is_found() {
    let text = "[dependencies]\narc-swap.workspace = true\nboxcar.workspace = true\nbytes.workspace = true\nsiphasher.workspace = true\n\
                imbl.workspace = true\nlog = \"1\"\n[target.'cfg(revcast_loom)'.dependencies]\nloom.workspace = true\n\
                [build-dependencies]\ncc = \"1\"";
    let faults = engine(text);
    assert_eq!(lines(&faults), [7, 11, 1]);
    assert!(faults[2].says.contains("simd-json"));
}
