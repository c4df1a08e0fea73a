//! Imports run one way: no circle of files, and none of folders.
//!
//! A module and those inside it are one thing: what they import of each other is no circle. Tests import whom they test.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::code::{bare, words};
use super::paths::{Path, paths};
use super::tree::{File, files};
use super::{Fault, lines, none};

/// The crates, each by the folder of its sources.
const CRATES: [&str; 7] = [
    "engine/src",
    "perf/http1/src",
    "perf/src",
    "server/src",
    "tests/sim/src",
    "tests/src",
    "tests/xtask/src",
];

/// A module by its name and the names of those around it: `source`, `etcd`, `follow`. The crate itself has none.
type Module = Vec<String>;

/// Whom each module imports, and in which line first.
type Imports = BTreeMap<Module, BTreeMap<Module, usize>>;

/// The modules of one crate that are no tests.
#[derive(Debug, Default)]
pub(crate) struct Crate {
    folder: String,
    files: BTreeMap<Module, String>,
    imports: Imports,
}

/// Modules that import each other, directly or by way of others.
#[derive(Debug, PartialEq, Eq)]
struct Circle {
    /// The folder that all of them lie in.
    folder: String,
    fault: Fault,
}

impl Crate {
    pub(crate) fn new(folder: &str, all: &[File]) -> Self {
        let mut code = BTreeMap::new();
        let mut tests = Vec::new();
        for file in all.iter().filter(|file| file.below(folder) && file.is_rust()) {
            let module = module(&file.path[folder.len() + 1..]);
            let (text, names) = untested(&bare(&file.text));
            tests.extend(names.into_iter().map(|name| [module.as_slice(), &[name]].concat()));
            code.insert(module, (file.path.clone(), text));
        }
        code.retain(|module, _| !module.is_empty() && !tests.iter().any(|test| module.starts_with(test)));
        let mut imports = Imports::new();
        for (module, (_, text)) in &code {
            for path in paths(text) {
                let Some(named) = full(&path, module) else { continue };
                let found = (1..=named.len()).rev().map(|length| &named[..length]);
                let Some(other) = found.into_iter().find(|found| code.contains_key(*found)) else { continue };
                if !module.starts_with(other) && !other.starts_with(module) {
                    imports.entry(module.clone()).or_default().entry(other.to_vec()).or_insert(path.line);
                }
            }
        }
        let files = code.into_iter().map(|(module, (path, _))| (module, path)).collect();
        Self { folder: folder.to_owned(), files, imports }
    }

    /// The modules at the top of the crate, sorted; those that are folders several times.
    pub(crate) fn modules(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(|module| module[0].as_str())
    }

    /// Each import of a module at the top by another one: both names, the file and the line.
    pub(crate) fn imports_between_modules(&self) -> impl Iterator<Item = (&str, &str, String, usize)> {
        let all = self.imports.iter().flat_map(move |(from, others)| {
            others.iter().map(move |(to, line)| (from[0].as_str(), to[0].as_str(), self.shown(from), *line))
        });
        all.filter(|(from, to, ..)| from != to)
    }

    fn circles(&self) -> Vec<Circle> {
        let mut found: Vec<Circle> =
            circles(&self.imports).iter().map(|members| self.circle(members, &self.imports)).collect();
        let folders: BTreeSet<&[String]> =
            self.files.keys().flat_map(|module| (0..module.len()).map(|length| &module[..length])).collect();
        for folder in &folders {
            let within = within(&self.imports, folder);
            for members in circles(&within) {
                // Of files alone it was found above.
                if members.iter().any(|member| folders.contains(member.as_slice())) {
                    found.push(self.circle(&members, &within));
                }
            }
        }
        found
    }

    fn circle(&self, members: &[Module], imports: &Imports) -> Circle {
        let way = way(members, imports);
        let line = imports[&way[0]][&way[1]];
        let shown: Vec<String> = way.iter().map(|module| self.shown(module)).collect();
        let rule = format!("{} modules import in a circle: {}", members.len(), shown.join(" -> "));
        let mend = "move what both need into a file of its own below them";
        let common = (0..).take_while(|at| {
            members.iter().all(|member| member.len() > at + 1 && member[*at] == members[0][*at])
        });
        let names = members[0][..common.count()].iter().map(|name| format!("/{name}"));
        Circle {
            folder: self.folder.clone() + &names.collect::<String>(),
            fault: Fault::new(&shown[0], line, &rule, mend),
        }
    }

    fn shown(&self, module: &Module) -> String {
        let folder = || format!("{}/{}", self.folder, module.join("/"));
        self.files.get(module).cloned().unwrap_or_else(folder)
    }
}

/// The module that a file is, from its path below the crate's sources.
fn module(path: &str) -> Module {
    let names = path.trim_end_matches(".rs").split('/');
    names.filter(|name| !["mod", "lib", "main"].contains(name)).map(str::to_owned).collect()
}

/// Bare text without the items that only tests have, and the names of modules in files among these.
fn untested(bare: &str) -> (String, Vec<String>) {
    const MARK: &str = "#[cfg(test)]";
    let (mut text, mut names, mut rest) = (String::new(), Vec::new(), bare);
    while let Some((before, item)) = rest.split_once(MARK) {
        text.push_str(before);
        let mut depth = 0_usize;
        let end = item.char_indices().find_map(|(at, letter)| {
            match letter {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            (depth == 0 && matches!(letter, ';' | '}')).then_some(at + 1)
        });
        let (item, after) = item.split_at(end.unwrap_or(item.len()));
        let words: Vec<&str> = words(item).iter().map(|word| word.text).collect();
        if let [.., "mod", name, ";"] = words[..] {
            names.push(name.to_owned());
        }
        text.extend(item.chars().filter(|letter| *letter == '\n'));
        rest = after;
    }
    (text + rest, names)
}

/// A path that leads out of `module`, from the top of the crate.
fn full(path: &Path, module: &[String]) -> Option<Module> {
    let parts = path.parts.iter().map(String::as_str);
    let ups = parts.clone().skip_while(|part| *part == "self").take_while(|part| *part == "super").count();
    let below = if path.parts.first().is_some_and(|first| first == "crate") {
        &[]
    } else {
        let ups = ups.checked_sub(path.inner).filter(|ups| *ups > 0)?;
        &module[..module.len().checked_sub(ups)?]
    };
    let names = parts.filter(|part| !["crate", "self", "super"].contains(part)).map(str::to_owned);
    Some(below.iter().cloned().chain(names).collect())
}

/// Who imports whom of the modules directly in a folder, each with all that is inside it.
fn within(imports: &Imports, folder: &[String]) -> Imports {
    let mut found = Imports::new();
    let place = |module: &Module| {
        (module.starts_with(folder) && module.len() > folder.len()).then(|| module[..=folder.len()].to_vec())
    };
    for (module, others) in imports {
        for (other, line) in others {
            if let (Some(from), Some(to)) = (place(module), place(other))
                && from != to
            {
                found.entry(from).or_default().entry(to).or_insert(*line);
            }
        }
    }
    found
}

/// Modules that can be reached from each other, each such group once.
fn circles(imports: &Imports) -> Vec<Vec<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        imports.keys().map(|module| (module, steps(imports, module).into_keys().collect())).collect();
    let mut found: Vec<Vec<Module>> = Vec::new();
    for (module, there) in &reached {
        let back = |other: &&&Module| reached.get(**other).is_some_and(|from| from.contains(module));
        let members: Vec<Module> = there.iter().filter(back).map(|other| (*other).clone()).collect();
        if !members.is_empty() && !found.contains(&members) {
            found.push(members);
        }
    }
    found
}

/// Every module that is reached from one, with the one before it on the shortest way.
fn steps<'a>(imports: &'a Imports, from: &'a Module) -> BTreeMap<&'a Module, &'a Module> {
    let mut found = BTreeMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(module) = queue.pop_front() {
        for other in imports.get(module).into_iter().flat_map(BTreeMap::keys) {
            if !found.contains_key(other) {
                found.insert(other, module);
                queue.push_back(other);
            }
        }
    }
    found
}

/// The shortest way round from the first of the members.
fn way(members: &[Module], imports: &Imports) -> Vec<Module> {
    let steps = steps(imports, &members[0]);
    let mut way = vec![members[0].clone()];
    let mut at = steps[&members[0]];
    while *at != members[0] {
        way.push(at.clone());
        at = steps[at];
    }
    way.push(members[0].clone());
    way.reverse();
    way
}

#[test]
fn nothing_imports_in_a_circle() {
    let files = files();
    let found = CRATES.iter().flat_map(|folder| {
        let sources = Crate::new(folder, &files);
        assert!(!sources.imports.is_empty(), "{folder} is there");
        sources.circles()
    });
    let faults: Vec<Fault> = found.map(|circle| circle.fault).collect();
    none(&faults);
}

/// Circles of a crate in `a/src` with these files.
#[cfg(test)]
fn found(given: &[(&str, &str)]) -> Vec<Circle> {
    let file = |(path, text): &(&str, &str)| File { path: format!("a/src/{path}"), text: (*text).to_owned() };
    Crate::new("a/src", &given.iter().map(file).collect::<Vec<_>>()).circles()
}

#[test]
fn circles_of_files_are_found() {
    let circle = [
        ("lib.rs", "mod x; mod y; mod z;"),
        ("x.rs", "use std::fmt;\nuse crate::y::Y;"),
        ("y.rs", "fn f() { super::z::g(); }"),
        ("z.rs", "mod inner {\n use super::super::{a, x::X};\n}"),
    ];
    let found = found(&circle);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].folder.as_str(), lines(&[found[0].fault.clone()])), ("a/src", vec![2]));
    let line = found[0].fault.to_string();
    assert!(line.contains("a/src/x.rs -> a/src/y.rs -> a/src/z.rs -> a/src/x.rs"), "{line}");
}

#[test]
fn circles_of_folders_are_found() {
    let circle = [
        ("b/x/one.rs", "use crate::b::y;"),
        ("b/x/two.rs", ""),
        ("b/y/mod.rs", ""),
        ("b/y/three.rs", "use super::super::x::two::Two;"),
    ];
    let found = found(&circle);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].folder, "a/src/b");
    assert!(found[0].fault.to_string().contains("a/src/b/x -> a/src/b/y/mod.rs -> a/src/b/x"), "{found:?}");
}

#[test]
fn families_tests_and_one_way_are_no_circles() {
    let fine = [
        ("x.rs", "mod y;\nuse self::y::Y;\nuse crate::z;\nmod inner { use super::f; }"),
        ("x/y.rs", "use super::X; use crate::z;"),
        (
            "z.rs",
            "#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod more { use crate::x; fn f() { {} } }\n// crate::x::X",
        ),
        ("z/tests.rs", "use crate::x::X;"),
    ];
    assert_eq!(found(&fine), []);
}
