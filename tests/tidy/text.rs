//! Module docs, lengths of files, and words that are not allowed.

use super::code::{bare, words};
use super::tree::{File, files};
use super::{Fault, lines, none};

const LINES_MAX: usize = 700;

/// Files that may be longer, with reasons.
const LONG: &[(&str, &str)] = &[];

/// Files that may contain `unsafe`, with reasons.
const UNSAFE: &[(&str, &str)] = &[
    (
        "engine/tests/allocations/counting.rs",
        "being an allocator is an unsafe trait: every call goes to the system's as it came; in tests only",
    ),
    (
        "perf/src/floor/ring.rs",
        "the floor that servers are held against sends through an io_uring: one push, waited for before its bytes are given back",
    ),
    (
        "server/src/allocator/mod.rs",
        "an allocator is an unsafe trait; and mimalloc takes its options across a C border: one call, with two numbers",
    ),
    (
        "server/src/allocator/slabs.rs",
        "blocks of memory have no type: 100,000 Pods of 2 KiB take 268 MB with them, and 309 without",
    ),
    (
        "server/src/runtime/sys/descriptor.rs",
        "glommio takes and gives descriptors as bare numbers: four conversions, each with its owner named",
    ),
    (
        "server/src/runtime/sys/sends.rs",
        "entries of an io_uring are pushed unsafely: one push, of sends that are done before their bytes are given back",
    ),
    (
        "server/src/runtime/sys/polls.rs",
        "entries of an io_uring are pushed unsafely: one push, of polls and cancels that refer to no memory",
    ),
];

/// Words that mean "not done", concatenated so that this file does not contain them.
const NOT_DONE: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];

/// Macros that mean the same.
const MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// Folders of a particular machine.
const MACHINE: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

fn length(file: &File) -> Option<Fault> {
    let count = file.text.lines().count();
    let rule = format!("{count} lines; a file has at most {LINES_MAX}");
    (count > LINES_MAX).then(|| Fault::new(&file.path, count, &rule, "split it by nouns"))
}

fn module_doc(file: &File) -> Option<Fault> {
    let in_sources = file.path.split('/').any(|part| part == "src");
    let mend = "begin with `//!`: what it owns, what it never does";
    (in_sources && !file.text.starts_with("//!"))
        .then(|| Fault::new(&file.path, 1, "every file below src/ says what it is", mend))
}

fn unfinished(file: &File) -> Vec<Fault> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let said = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        for word in said.filter(|word| NOT_DONE.contains(word)) {
            let rule = format!("`{word}` marks work that is not done");
            found.push(Fault::new(&file.path, index + 1, &rule, "do it, or write an issue and say why here"));
        }
        let doc = line.trim_start();
        let doc =
            doc.strip_prefix("///").or_else(|| doc.strip_prefix("//!")).unwrap_or_default().trim_start();
        if doc.strip_prefix("```").is_some_and(|tags| tags.split(',').any(|tag| tag.trim() == "ignore")) {
            let mend = "make it compile, or mark it `text`";
            found.push(Fault::new(&file.path, index + 1, "an example that is not run rots", mend));
        }
    }
    found
}

fn unfinished_code(file: &File) -> Vec<Fault> {
    let bare = bare(&file.text);
    let words = words(&bare);
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let next = words.get(at + 1).map(|word| word.text);
        if MACROS.contains(&word.text) && next == Some("!") {
            let rule = format!("`{}!` has no place in finished code", word.text);
            found.push(Fault::new(&file.path, word.line, &rule, "write what it stands for"));
        }
        let attribute = at.checked_sub(2).and_then(|at| words.get(at)).is_some_and(|word| word.text == "#");
        let listed =
            words[..at].iter().rev().take_while(|word| word.text != "#").any(|word| word.text == "cfg_attr")
                && matches!(next, Some("=" | ")" | ","));
        if word.text == "ignore" && (attribute || listed) {
            let mend = "fix or delete the test; slow ones take their size from the environment";
            found.push(Fault::new(&file.path, word.line, "a test that is not run proves nothing", mend));
        }
    }
    found
}

fn says_unsafe(file: &File) -> Vec<usize> {
    words(&bare(&file.text)).iter().filter(|word| word.text == "unsafe").map(|word| word.line).collect()
}

fn machine_paths(file: &File) -> Vec<Fault> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for folder in MACHINE {
            // `~/work/`, `docs/home/` and `https://a/home/` are no absolute paths of a machine.
            let absolute = |(at, _): (usize, &str)| {
                let before = &line[..at];
                before.ends_with("file://")
                    || !before.ends_with(|c: char| c.is_alphanumeric() || "_-.~}*/)>$".contains(c))
            };
            if line.match_indices(folder).any(absolute) {
                let rule = format!("`{folder}` is a folder of one machine");
                found.push(Fault::new(
                    &file.path,
                    index + 1,
                    &rule,
                    "name it from the repository's top folder",
                ));
            }
        }
    }
    found
}

/// Entries of a list that are no longer needed.
fn stale(list: &[(&str, &str)], needed: impl Fn(&str) -> bool) -> Vec<Fault> {
    let stale = list.iter().filter(|(path, _)| !needed(path));
    let rule = |path: &str| format!("{path} is on a list of exceptions that it does not need");
    stale.map(|(path, _)| Fault::new("tests/tidy/text.rs", 1, &rule(path), "take it off the list")).collect()
}

fn listed(list: &[(&str, &str)], file: &File) -> bool {
    list.iter().any(|(path, _)| *path == file.path)
}

fn rust() -> Vec<File> {
    files().into_iter().filter(File::is_rust).collect()
}

#[test]
fn no_file_is_too_long() {
    let files = rust();
    let long: Vec<Fault> = files.iter().filter_map(length).collect();
    let unlisted = long.iter().filter(|fault| LONG.iter().all(|(path, _)| *path != fault.file));
    none(&unlisted.cloned().collect::<Vec<_>>());
    none(&stale(LONG, |path| long.iter().any(|fault| fault.file == path)));
}

#[test]
fn every_source_says_what_it_is() {
    none(&rust().iter().filter_map(module_doc).collect::<Vec<_>>());
}

#[test]
fn nothing_is_unfinished_or_skipped() {
    let readable = |file: &File| {
        let kinds = [".rs", ".toml", ".md", ".py", ".mjs", ".js", ".sh", ".yml", ".yaml", ".ci/run"];
        kinds.iter().any(|kind| file.path.ends_with(kind))
    };
    none(&files().iter().filter(|file| readable(file)).flat_map(unfinished).collect::<Vec<_>>());
    none(&rust().iter().flat_map(unfinished_code).collect::<Vec<_>>());
}

#[test]
fn unsafe_has_an_address() {
    let files = rust();
    let mut found = Vec::new();
    for file in files.iter().filter(|file| !listed(UNSAFE, file)) {
        let mend = "use a safe building block, or list the file in UNSAFE with a reason and a number";
        let rule = "`unsafe` stands only in files that a list names";
        found.extend(says_unsafe(file).into_iter().map(|line| Fault::new(&file.path, line, rule, mend)));
    }
    none(&found);
    none(&stale(UNSAFE, |path| files.iter().any(|file| file.path == path && !says_unsafe(file).is_empty())));
}

#[test]
fn no_path_of_a_machine_is_named() {
    none(&files().iter().flat_map(machine_paths).collect::<Vec<_>>());
}

#[cfg(test)]
fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

#[test]
fn long_files_are_found() {
    assert!(length(&file("a.rs", &"\n".repeat(LINES_MAX))).is_none());
    assert!(length(&file("a.rs", &"\n".repeat(LINES_MAX + 1))).is_some());
}

#[test]
fn missing_module_docs_are_found() {
    assert!(module_doc(&file("engine/src/a.rs", "use x;\n//! late")).is_some());
    assert!(module_doc(&file("engine/src/a.rs", "//! What it is.")).is_none());
    assert!(module_doc(&file("engine/tests/a.rs", "use x;")).is_none());
}

#[test]
fn unfinished_work_is_found() {
    let text = format!("// {}: later\nlet a = \"{}\";\nlet {}X = 1;", NOT_DONE[0], NOT_DONE[1], NOT_DONE[1]);
    assert_eq!(lines(&unfinished(&file("a.rs", &text))), [1, 2]);
    assert_eq!(lines(&unfinished(&file("a.rs", "/// ```rust,ignore\n/// ```text\n// ```ignore"))), [1]);
    let text = "fn f() { todo!() }\n// todo!()\nfn todo() {}\n#[test]\n#[ignore = \"slow\"]\nfn g() { dbg!(1); }\n\
                #[cfg_attr(miri, ignore)]\nfn ignore() {}\n#[cfg_attr(a, b)]\nfn h(ignore: u8) {}";
    assert_eq!(lines(&unfinished_code(&file("a.rs", text))), [1, 5, 6, 7]);
}

#[test]
fn unsafe_code_is_found() {
    let text = "#![forbid(unsafe_code)]\n// unsafe\nfn f() { unsafe { g() } }\nlet a = \"unsafe\";";
    assert_eq!(says_unsafe(&file("a.rs", text)), [3]);
}

#[test]
fn machine_paths_are_found() {
    let [one, two, three] = MACHINE;
    let text =
        format!("x = \"{one}a\"\nsee file://{two}b\ncd {three}c\n~{one} docs{three} https://a{two} b{one}");
    assert_eq!(lines(&machine_paths(&file("a.md", &text))), [1, 2, 3]);
}

#[test]
fn lists_that_outlive_their_reason_are_found() {
    assert_eq!(stale(&[("a.rs", "why"), ("b.rs", "why")], |path| path == "a.rs").len(), 1);
}
