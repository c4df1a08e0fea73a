//! The repository's files, as in a fresh clone, and what the top folder may contain.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Fault, lines, none};

/// Folders made by tools, never tracked.
const SKIPPED: [&str; 5] = [".git", "target", "node_modules", "__pycache__", ".venv"];

/// What the top folder may contain, besides names that begin with a dot.
const TOP: [&str; 11] = [
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "benches",
    "clippy.toml",
    "engine",
    "perf",
    "rustfmt.toml",
    "server",
    "target",
];

/// A text file: its path from the top folder, with `/`, and its content.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether it is `folder/...`, or the file itself.
    pub(crate) fn below(&self, folder: &str) -> bool {
        self.path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

/// Every text file, sorted by path. Files that are not UTF-8 are data.
pub(crate) fn files() -> Vec<File> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if SKIPPED.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file()
                && let Ok(text) = String::from_utf8(fs::read(&path).unwrap())
            {
                let path = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                found.push(File { path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn top(names: &[String]) -> Vec<Fault> {
    let allowed = |name: &str| name.starts_with('.') || name == "tests" || TOP.contains(&name);
    let strange = names.iter().filter(|name| !allowed(name));
    let rule = "the top folder holds the crates, README.md, LICENSE and cargo's files alone";
    strange.map(|name| Fault::new(name, 1, rule, "move it into the crate that it belongs to")).collect()
}

#[test]
fn the_top_folder_holds_the_house_alone() {
    let names = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    none(&top(&names.collect::<Vec<_>>()));
}

#[test]
fn strange_names_at_the_top_are_found() {
    let faults = top(&["engine".into(), ".ci".into(), "tests".into(), "docs".into(), "notes.md".into()]);
    assert_eq!(faults.iter().map(|fault| fault.file.as_str()).collect::<Vec<_>>(), ["docs", "notes.md"]);
    assert_eq!(lines(&faults), [1, 1]);
}

#[test]
fn the_walk_finds_this_file_and_no_build() {
    let files = files();
    assert!(files.iter().any(|file| file.path == "tests/tidy/tree.rs" && file.is_rust()));
    assert!(files.iter().any(|file| file.path == ".cargo/config.toml"), "dot folders are part of the house");
    assert!(!files.iter().any(|file| file.below("target") || file.below(".git")));
}
