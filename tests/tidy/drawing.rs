//! The drawing of the server's modules in its ARCHITECTURE: every module is in it, and imports only what is on a line below.

use std::collections::BTreeMap;

use super::imports::Crate;
use super::tree::{File, files};
use super::{Fault, lines, none};

const DRAWING: &str = "server/ARCHITECTURE.md";
const SOURCES: &str = "server/src";
/// The drawing is the first block after the heading that begins so.
const HEADING: &str = "## Imports";

/// In which line each name of the drawing stands. Words in parentheses are remarks.
fn drawn(text: &str) -> BTreeMap<&str, usize> {
    let lines = text.lines().zip(1..).skip_while(|(line, _)| !line.starts_with(HEADING));
    let block = lines.skip_while(|(line, _)| !line.starts_with("```")).skip(1);
    let block = block.take_while(|(line, _)| !line.starts_with("```"));
    let names = block.flat_map(|(line, number)| {
        let names = line.split('(').next().unwrap_or_default().split_whitespace();
        names.map(move |name| (name, number))
    });
    names.collect()
}

fn faults(folder: &str, all: &[File], drawing: &str) -> Vec<Fault> {
    let drawn = drawn(drawing);
    let sources = Crate::new(folder, all);
    let mut modules: Vec<&str> = sources.modules().collect();
    modules.dedup();
    let mut found = Vec::new();
    for module in &modules {
        if !drawn.contains_key(module) {
            let rule = format!("`{module}` is not in the drawing of imports");
            found.push(Fault::new(DRAWING, 0, &rule, "put it on a line above all that it imports"));
        }
    }
    for (name, line) in &drawn {
        if !modules.contains(name) {
            let rule = format!("`{name}` is in the drawing of imports, and no module");
            found.push(Fault::new(DRAWING, *line, &rule, "take it out"));
        }
    }
    for (from, to, file, line) in sources.imports_between_modules() {
        if let (Some(above), Some(below)) = (drawn.get(from), drawn.get(to))
            && above >= below
        {
            let rule = format!("`{from}` imports `{to}`, which is not drawn below it");
            found.push(Fault::new(&file, line, &rule, "do not import it, or draw it there"));
        }
    }
    found
}

#[test]
fn the_servers_modules_import_what_is_drawn_below_them() {
    let drawing = std::fs::read_to_string(super::tree::root().join(DRAWING)).unwrap();
    none(&faults(SOURCES, &files(), &drawing));
}

#[test]
fn what_the_drawing_does_not_say_is_found() {
    let file = |(path, text): &(&str, &str)| File { path: format!("a/src/{path}"), text: (*text).to_owned() };
    let code = [("top.rs", "use crate::low;"), ("low/mod.rs", "\nuse crate::mid::X;"), ("mid.rs", "")];
    let code: Vec<File> = code.iter().map(file).collect();
    let judge = |block: &str| faults("a/src", &code, &format!("# A\n## Imports\nx\n```\n{block}\n```\n"));
    assert_eq!(judge(" top   (the first)\n low\n mid"), []);
    let wrong = judge(" top\n low mid");
    assert_eq!((lines(&wrong), wrong[0].file.as_str()), (vec![2], "a/src/low/mod.rs"), "the same line");
    assert_eq!(lines(&judge("top\nlow")), [0], "`mid` is missing");
    assert_eq!(lines(&judge("top\nlow\nmid\nold")), [8], "`old` is no module");
}
