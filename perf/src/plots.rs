//! `report`: plots and tables of records, as one page without script, network or font; or one plot of fan-out beside the floor.
//! It reads from the top: [`collect`] (files) → [`chart`] (groups and points) → [`draw`] (SVG) →
//! [`page`] with its tables. It never measures, and never changes a record.

mod chart;
mod collect;
mod draw;
mod page;
#[cfg(test)]
mod tests;

use crate::options::Report;
use std::fs;
use std::process::ExitCode;

pub(crate) fn run(args: &Report) -> ExitCode {
    let found = collect::collect(&args.paths);
    for fault in &found.faults {
        eprintln!("revcast-perf: {fault}");
    }
    if found.records.is_empty() {
        eprintln!("revcast-perf: no record was found: give what runs with --out DIR wrote");
        return ExitCode::FAILURE;
    }
    let (path, text) = match &args.fanout_svg {
        None => (&args.html, page::html(&args.title, &found.records)),
        Some(path) => match chart::fanout(&found.records, args.fanout_value) {
            Some(plot) => (path, plot.standalone()),
            None => {
                eprintln!("revcast-perf: no run of fanout among the records has that value: measure one");
                return ExitCode::FAILURE;
            }
        },
    };
    if let Err(fault) = fs::write(path, text) {
        let path = path.display();
        eprintln!("revcast-perf: {path} cannot be written ({fault}): give a file that you may write");
        return ExitCode::FAILURE;
    }
    eprintln!("{} records: {}", found.records.len(), path.display());
    if found.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
