//! The engine: no clock, no I/O, no thread, no random number; and imports inside it run downwards only.

use std::collections::BTreeSet;

use super::code::bare;
use super::paths::{Path, paths};
use super::tree::{File, files};
use super::{Fault, lines, none};

/// What no source of the engine may name, and the alternative.
const BANNED: [(&[&str], &str); 11] = [
    (&["std", "net"], "bytes leave through an Outlet; sockets are the server's"),
    (&["std", "fs"], "take bytes as an argument; files are the server's"),
    (&["std", "thread"], "be a plain value that its owner turns; threads are the server's"),
    (&["std", "time", "Instant"], "take a Tick as an argument"),
    (&["std", "time", "SystemTime"], "take a Tick as an argument"),
    (&["std", "time", "UNIX_EPOCH"], "take a Tick as an argument"),
    (&["tokio"], "no runtime here; return what is to be done"),
    (&["glommio"], "no runtime here; return what is to be done"),
    (&["io_uring"], "no I/O here; bytes leave through an Outlet"),
    (&["rustix"], "no system calls here"),
    (&["rand"], "take the number, or a seed, as an argument"),
];

/// The engine's modules, lowest layer first. A module may name those of its own layer and of lower layers.
const LAYERS: [(&str, &[&str]); 5] = [
    (
        "vocabulary",
        &[
            "attributes",
            "change",
            "decimal",
            "gap",
            "hash",
            "histogram",
            "key",
            "key_range",
            "limits",
            "failpoints",
            "message_type",
            "other_versions",
            "resource",
            "revision",
            "scope",
            "shown",
            "tick",
        ],
    ),
    ("transformation", &["codec", "encoding", "envelope", "escape", "framing", "message", "selector"]),
    ("storage", &["event", "feed", "index", "object", "ring"]),
    ("action", &["history", "publisher", "watcher"]),
    ("scheduling", &["shard"]),
];

fn impure(file: &File) -> Vec<Fault> {
    let mut found = Vec::new();
    for path in paths(&bare(&file.text)) {
        for (parts, mend) in BANNED {
            if path.reaches(parts) {
                let rule = format!("the engine never names {}", parts.join("::"));
                found.push(Fault::new(&file.path, path.line, &rule, mend));
            }
        }
    }
    found
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|(_, modules)| modules.contains(&module))
}

/// The engine's top-level module that this file is, or is part of, and its depth: 1 for the module itself.
fn place(file: &File) -> Option<(&str, usize)> {
    let inside = file.path.strip_prefix("engine/src/")?.strip_suffix(".rs")?;
    if inside == "lib" {
        return None;
    }
    let parts = inside.split('/').filter(|part| *part != "mod");
    Some((inside.split('/').next()?, parts.count()))
}

/// The name directly below the crate that a path leads to, from a file at `depth`.
fn from_the_crate(path: &Path, depth: usize) -> Option<&str> {
    let mut parts = path.parts.iter().map(String::as_str).peekable();
    if path.parts.first().is_some_and(|first| first == "crate") {
        return Some(parts.nth(1).unwrap_or("the crate itself"));
    }
    let _ = parts.next_if_eq(&"self");
    let mut ups = 0;
    while parts.next_if_eq(&"super").is_some() {
        ups += 1;
    }
    (ups > 0 && ups >= depth + path.inner).then(|| parts.next().unwrap_or("the crate itself"))
}

fn upward(file: &File) -> Vec<Fault> {
    let Some((module, depth)) = place(file) else { return Vec::new() };
    let Some(own) = layer(module) else {
        let rule = format!("`{module}` is in no layer of the engine");
        return vec![Fault::new(&file.path, 1, &rule, "give it a place in LAYERS of tests/tidy/engine.rs")];
    };
    let mut found = Vec::new();
    for path in paths(&bare(&file.text)) {
        let Some(name) = from_the_crate(&path, depth) else { continue };
        match layer(name) {
            Some(other) if other <= own => {}
            Some(other) => {
                let rule = format!(
                    "`{module}` ({}) names `{name}` ({}): imports run downwards only",
                    LAYERS[own].0, LAYERS[other].0
                );
                found.push(Fault::new(&file.path, path.line, &rule, "move the part that both need down"));
            }
            None => {
                let rule = format!("`{name}` is not a module of the engine");
                found.push(Fault::new(&file.path, path.line, &rule, "name the module: crate::module::Item"));
            }
        }
    }
    found
}

/// What clippy must ban in the engine as well: unlike a search in the text, it sees renames.
const CLIPPY: [&str; 8] = [
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::thread::sleep",
    "std::thread::spawn",
    "std::fs::File",
    "std::net::TcpStream",
    "std::sync::Mutex",
    "std::sync::RwLock",
];

fn unbanned(file: &File) -> Vec<Fault> {
    let banned = |path: &str| {
        let entry = format!("path = \"{path}\"");
        file.text.lines().any(|line| !line.trim_start().starts_with('#') && line.contains(&entry))
    };
    let missing = CLIPPY.iter().filter(|path| !banned(path));
    let rule = |path: &str| format!("clippy does not ban {path} in the engine");
    missing.map(|path| Fault::new(&file.path, 1, &rule(path), "add it, with the reason")).collect()
}

/// Names of protocols: `server/src/wire` owns how messages are sent.
const WIRES: [&str; 5] = ["http", "websocket", "gzip", "grpc", "chunked"];

/// Lines that name a wire, in code, comments or texts.
fn wired(file: &File) -> Vec<Fault> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        let lower = line.to_lowercase();
        for word in WIRES.into_iter().filter(|word| lower.contains(word)) {
            let rule = format!("the engine names no wire, and no {word}");
            found.push(Fault::new(&file.path, number, &rule, "name a framing, or tell the outlet"));
        }
    }
    found
}

fn sources() -> Vec<File> {
    files().into_iter().filter(|file| file.below("engine/src") && file.is_rust()).collect()
}

#[test]
fn the_engine_is_pure() {
    none(&sources().iter().flat_map(impure).collect::<Vec<_>>());
}

#[test]
fn the_engine_names_no_wire() {
    none(&sources().iter().flat_map(wired).collect::<Vec<_>>());
    assert_eq!(lines(&wired(&file("engine/src/x.rs", "a\n// an HTTP/1.1 chunk\nlet gzip = 1;"))), [2, 3]);
}

#[test]
fn clippy_bans_the_same() {
    let files = files();
    let bans =
        files.iter().find(|file| file.path == "engine/clippy.toml").expect("the engine has bans of its own");
    none(&unbanned(bans));
    let one_less = bans.text.replace("std::thread::sleep", "std::thread::park");
    assert_eq!(unbanned(&file("engine/clippy.toml", &one_less)).len(), 1);
}

#[test]
fn imports_run_downwards() {
    let files = sources();
    none(&files.iter().flat_map(upward).collect::<Vec<_>>());
    let there: BTreeSet<&str> = files.iter().filter_map(place).map(|(module, _)| module).collect();
    let listed: BTreeSet<&str> = LAYERS.iter().flat_map(|(_, modules)| modules.iter().copied()).collect();
    assert_eq!(there, listed, "LAYERS names the modules that are there, and no others");
}

#[cfg(test)]
fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

#[test]
fn impure_names_are_found() {
    let text = "use std::time::{Duration, Instant};\nuse std::fmt;\n// std::fs\nfn f() { std::thread::sleep(D); }\n\
                use std::{net::TcpStream, sync::Arc};\nuse tokio::time;\nfn g(rand: u8) { rand::random() }\n\
                use std::time::Duration;\nuse std::time;";
    let mut found = lines(&impure(&file("engine/src/a.rs", text)));
    found.dedup();
    assert_eq!(found, [1, 4, 5, 6, 7, 9]);
}

#[test]
fn imports_that_run_upwards_are_found() {
    let text = "use crate::key::Key;\nuse crate::{limits::A, ring::Ring};\nfn f() { crate::shard::g() }\n\
                use super::watcher::W;\nuse crate::Event;\nuse crate::*;\n\
                mod tests { use super::*; use super::super::event::E; }\n/// See [`crate::shard`].\nuse super::tick;";
    assert_eq!(lines(&upward(&file("engine/src/codec/mod.rs", text))), [2, 3, 4, 5, 6, 7]);
    let text = "use super::inner;\nuse super::super::shard::S;\nuse super::super::tick::Tick;";
    assert_eq!(lines(&upward(&file("engine/src/codec/scan.rs", text))), [2]);
    assert_eq!(lines(&upward(&file("engine/src/codec/tests/a.rs", "use super::super::x;"))), [0_usize; 0]);
    assert_eq!(lines(&upward(&file("engine/src/strange.rs", ""))), [1]);
    assert_eq!(lines(&upward(&file("engine/src/lib.rs", "pub use shard::Shard;"))), [0_usize; 0]);
}
