//! The page: a section a group, with the plots, the tables, and the conditions under which all was measured.

use super::chart::plots;
use super::group::{Group, groups};
use super::table::tables;
use crate::record::Record;
use crate::units::{digits, show_bytes, show_rate};
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
    let rate = group.write_rate_per_second.map_or_else(|| "as fast as it goes".to_owned(), show_rate);
    html! {
        section {
            h2 {
                (group.scenario) " "
                small { "objects of " (show_bytes(group.object_bytes as u64)) ", writes: " (rate) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::record::Row;

    const HOSTILE: &str = "<script>alert('x')</script>\"&";

    fn record(subject: &str, round: u32, watchers: u32) -> Record {
        let mut record = Record::new("fanout", subject, round);
        record.watchers = watchers;
        record.clean = true;
        record.set("deliveries_per_second", f64::from(watchers) * 20.0);
        record.latency = vec![(1_000_000, 90), (4_000_000, 10)];
        record.series = vec![Row { at_seconds: 1.0, watchers: 5, ..Row::default() }; 3];
        record
    }

    fn check(html: &str) {
        assert!(html.ends_with("</body></html>"), "{html}");
        for word in ["<script", "http://", "https://", "src=", "url(", "@import", "<!--"] {
            let found = html.replace("http://www.w3.org/2000/svg", "").contains(word);
            assert!(!found, "{word} reaches outside");
        }
    }

    #[test]
    fn a_page_stands_alone_whatever_it_shows() {
        let runs = [("revcast", 100), ("revcast", 1000), ("floor", 100), ("floor", 1000)];
        let records: Vec<Record> = runs.map(|(subject, watchers)| record(subject, 1, watchers)).to_vec();
        let page = html("Night run", &records);
        check(&page);
        for part in [
            "<h1>Night run</h1>",
            "Every run was clean",
            "Deliveries over watchers",
            "Latency percentiles, 1,000 watchers",
            "to the floor",
            "Conditions",
            "prefers-color-scheme",
            "@media print",
        ] {
            assert!(page.contains(part), "{part}");
        }
        check(&html("none", &[]));
        check(&html("one", &[Record { scenario: "idle".to_owned(), ..Record::default() }]));
        check(&html("zero", &[Record { latency: vec![(0, 1)], ..record("zero", 1, 0) }]));
        check(&html("eight", &(0..8).map(|at| record(&format!("s{at}"), 1, 10)).collect::<Vec<_>>()));
        assert_eq!(date(951_825_600), "2000-02-29 12:00 UTC");
    }

    #[test]
    fn hostile_names_stay_text() {
        let mut bad = record(HOSTILE, 1, 5);
        bad.scenario = HOSTILE.to_owned();
        (bad.command, bad.server_command) = (Some(HOSTILE.to_owned()), Some(HOSTILE.to_owned()));
        bad.values.insert(HOSTILE.to_owned(), 1.0);
        let versions = BTreeMap::from([(HOSTILE.to_owned(), HOSTILE.to_owned())]);
        let (kernel, cpu_model) = (HOSTILE.to_owned(), HOSTILE.to_owned());
        bad.machine = Some(Machine { kernel, cpu_model, cores: 1, versions });
        bad.clean = false;
        let page = html(HOSTILE, &[bad]);
        check(&page);
        assert!(page.contains("Not clean: 1 of 1 runs") && page.contains("&lt;script&gt;"));
    }
}
