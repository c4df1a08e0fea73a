//! The page: a section a group, with the plots, the tables, and the conditions under which all was measured.

use super::chart::plots;
use super::group::{Group, groups};
use super::table::tables;
use crate::record::Record;
use crate::units::{Unit, digits};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::collections::{BTreeMap, BTreeSet};

const STYLE: &str = include_str!("style.css");

pub(super) fn html(title: &str, records: &[Record]) -> String {
    let moments = records.iter().map(|record| record.began_unix_seconds);
    let (from, to) = (date(moments.clone().min().unwrap_or(0)), date(moments.max().unwrap_or(0)));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (title) }
                    p {
                        (records.len()) " runs, " (from) @if from != to { " to " (to) }
                        ". Points and lines are medians of the rounds; bands and bars reach from the least to the most."
                    }
                    (unclean(records))
                }
                @for group in groups(records) { (section(&group)) }
                (conditions(records))
            }
        }
    };
    page.into_string()
}

/// Runs that were not clean are told first of all: their numbers mean little.
fn unclean(records: &[Record]) -> Markup {
    let bad: Vec<&Record> = records.iter().filter(|record| !record.clean).collect();
    html! {
        @if bad.is_empty() {
            p.good { "Every run was clean: nothing was lost, repeated or out of order." }
        } @else {
            div.bad {
                p { "Not clean: " (bad.len()) " of " (records.len()) " runs." }
                ul { @for record in bad {
                    li {
                        (record.scenario) ", " (record.subject) ", " (digits(f64::from(record.watchers)))
                        " watchers, round " (record.round)
                    }
                } }
            }
        }
    }
}

fn section(group: &Group<'_>) -> Markup {
    let rate = group
        .write_rate_per_second
        .map_or_else(|| "as fast as it goes".to_owned(), |rate| Unit::PerSecond.show(rate));
    html! {
        section {
            h2 {
                (group.scenario) " "
                small { "objects of " (Unit::Bytes.show(group.object_bytes as f64)) ", writes: " (rate) }
            }
            div.plots { @for plot in plots(group) { figure { (PreEscaped(plot.inline())) } } }
            @for watchers in group.watchers() { (tables(group, watchers)) }
        }
    }
}

fn conditions(records: &[Record]) -> Markup {
    let (mut machines, mut versions) = (BTreeSet::new(), BTreeMap::<&str, BTreeSet<&str>>::new());
    for (record, machine) in records.iter().filter_map(|record| Some((record, record.machine.as_ref()?))) {
        let model = if machine.cpu_model.is_empty() { "CPU not named" } else { &machine.cpu_model };
        machines.insert(format!("{}, {model}, {} cores", machine.kernel, machine.cores));
        for (name, version) in &machine.versions {
            let name = if name == "server" { record.subject.as_str() } else { name };
            versions.entry(name).or_default().insert(version);
        }
    }
    let version = |(name, all): (&str, BTreeSet<&str>)| {
        format!("{name} {}", all.into_iter().collect::<Vec<_>>().join(", "))
    };
    let parts = [
        ("Machine", machines),
        ("Versions", versions.into_iter().map(version).collect()),
        ("Servers", records.iter().filter_map(|record| record.server_command.clone()).collect()),
        ("Measured by", records.iter().filter_map(|record| record.command.clone()).collect()),
    ];
    html! {
        section { h2 { "Conditions" } dl {
            @for (name, lines) in parts.iter().filter(|(_, lines)| !lines.is_empty()) {
                dt { (name) }
                @for line in lines { dd { code { (line) } } }
            }
        } }
    }
}

fn date(unix_seconds: u64) -> String {
    let moment = i64::try_from(unix_seconds).ok().and_then(|at| jiff::Timestamp::from_second(at).ok());
    moment.map_or_else(String::new, |at| at.strftime("%Y-%m-%d %H:%M UTC").to_string())
}
