//! `report`: pictures and tables of records, as one page that needs nothing else: no script, no network, no font.
//!
//! It reads from the top: [`collect`] (files) → [`group`] (what can be compared) → [`chart`] (points) →
//! [`plot`] with [`axis`] and [`scale`] (SVG), [`table`] → [`page`]. It never measures, and never changes a record.

mod axis;
mod chart;
mod collect;
mod group;
mod page;
mod plot;
mod quantity;
mod scale;
mod table;
mod text;
#[cfg(test)]
mod xml;

use crate::args::report::Report;
use std::fs;
use std::process::ExitCode;

/// Writes the page; says what was left out.
pub(crate) fn show(args: &Report) -> ExitCode {
    let found = collect::collect(&args.paths);
    for fault in &found.faults {
        eprintln!("revcast-perf: {fault}");
    }
    if found.records.is_empty() {
        eprintln!("revcast-perf: no record was found: give what runs with --out DIR wrote");
        return ExitCode::FAILURE;
    }
    if let Err(fault) = fs::write(&args.html, page::html(&args.title, &found.records)) {
        let path = args.html.display();
        eprintln!("revcast-perf: {path} cannot be written ({fault}): give --html a file that you may write");
        return ExitCode::FAILURE;
    }
    eprintln!("{} records: {}", found.records.len(), args.html.display());
    if found.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
