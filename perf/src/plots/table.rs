//! The tables of a group: for each number of watchers every value with its median, spread and ratios, a row a subject.

use super::group::{Group, Subject};
use crate::spread::Spread;
use crate::table::Table;
use crate::units::{Unit, digits};
use crate::words::words_of;
use maud::{Markup, html};
use serde_json::Value;
use std::collections::BTreeSet;

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
