//! The page: a section a group, with the plots, the tables, and the conditions under which all was measured.

use super::chart::{Group, Subject, groups, plots};
use crate::record::Record;
use crate::table::{Spread, Table};
use crate::units::{Unit, digits, words_of};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;
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

/// Values that people ask for first, in this order.
const FIRST: &str = "deliveries_per_second server_cpu_ns_per_delivery latency_p50_ns latency_p90_ns latency_p99_ns latency_p999_ns \
    latency_max_ns rss_bytes_per_watcher server_cpu_share lost duplicated out_of_order disconnected";

/// The place of a value among those that are asked for first; the others come after them.
fn place_of(name: &str) -> usize {
    FIRST.split(' ').position(|first| first == name).unwrap_or(usize::MAX)
}

/// The values that people ask for first; the rest can be unfolded.
pub(super) fn tables(group: &Group<'_>, watchers: u32) -> Markup {
    let runs = group.subjects.iter().filter_map(|subject| subject.runs.get(&watchers)).flatten();
    let names: BTreeSet<&str> = runs.flat_map(|record| record.values.keys().map(String::as_str)).collect();
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_by_key(|name| (place_of(name), *name));
    let caption = format!("{} watchers", digits(f64::from(watchers)));
    // A scenario of its own kind has values of its own: then those are what it is about.
    let first = names.iter().filter(|name| place_of(name) < usize::MAX).count();
    let (open, folded) = names.split_at(if first > 2 { first } else { names.len() });
    html! {
        @if open.is_empty() {
            p { (caption) ": no value was recorded." }
        } @else {
            (table(group, watchers, &caption, open))
        }
        @if !folded.is_empty() {
            details { summary { (folded.len()) " more values" } (table(group, watchers, &caption, folded)) }
        }
    }
}

fn table(group: &Group<'_>, watchers: u32, caption: &str, names: &[&str]) -> Markup {
    let measured = |subject: &&Subject<'_>| subject.runs.contains_key(&watchers);
    let subjects: Vec<&Subject<'_>> = group.subjects.iter().filter(measured).collect();
    let states: Vec<_> =
        subjects.iter().map(|subject| (subject.name.to_owned(), subject.runs[&watchers].clone())).collect();
    let over: Vec<Table> = (0..states.len()).map(|base| Table::new(Value::Null, base, &states)).collect();
    let value = |at: usize, name: &str| over[at].value(at, name);
    let ratio = |at: usize, base: Option<usize>, name: &str| {
        let ratio = base.and_then(|base| over[base].ratio(at, name));
        ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{} ×", digits(ratio.median)))
    };
    let floors = || (0..subjects.len()).filter(|&at| subjects[at].is_floor());
    // The floor that is the best at a value: with the most of it where that is good, else the least.
    let best_floor = |name: &str| {
        let sign = if name.ends_with("_per_second") { -1.0 } else { 1.0 };
        let known = floors().filter_map(|at| Some((sign * value(at, name)?.median, at)));
        known.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, at)| at)
    };
    let (first, has_floor) =
        (subjects.iter().position(|subject| !subject.is_floor()), floors().next().is_some());
    let rows = |name: &str| -> Vec<(usize, Spread)> {
        (0..subjects.len()).filter_map(|at| Some((at, value(at, name)?))).collect()
    };
    html! {
        div.wide { table {
            caption { (caption) }
            thead { tr {
                th { "Value" } th { "Subject" }
                th.n { "Median" } th.n { "Least" } th.n { "Most" } th.n { "Rounds" }
                @if let Some(first) = first { th.n { "to " (subjects[first].name) } }
                @if has_floor { th.n { "to the floor" } }
            } }
            @for name in names { tbody {
                @for (row, (at, spread)) in rows(name).into_iter().enumerate() { tr {
                    @if row == 0 { th rowspan=(rows(name).len()) title=(name) { (words_of(name)) } }
                    td { (subjects[at].name) }
                    td.n { b { (Unit::of(name).show(spread.median)) } }
                    td.n { (Unit::of(name).show(spread.least)) }
                    td.n { (Unit::of(name).show(spread.most)) }
                    td.n { (states[at].1.len()) }
                    @if first.is_some() { td.n { (ratio(at, first, name)) } }
                    @if has_floor { td.n { (ratio(at, best_floor(name), name)) } }
                } }
            } }
        } }
    }
}
