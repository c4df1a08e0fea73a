//! The page: a section a group, with a legend, the plots, the tables, and the conditions under which all was measured.

use super::chart::{class_of, plots};
use super::group::{Group, groups};
use super::quantity::digits;
use super::table::tables;
use super::text::escape;
use crate::record::Record;
use crate::units::show_bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");
const SECONDS_PER_DAY: u64 = 86_400;

/// The whole page.
pub(super) fn html(title: &str, records: &[Record]) -> String {
    let title = escape(title);
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title><style>{STYLE}</style></head><body>\
         <header><h1>{title}</h1>"
    );
    let (first, last) = (
        records.iter().map(|record| record.began_unix_seconds).min().unwrap_or(0),
        records.iter().map(|record| record.began_unix_seconds).max().unwrap_or(0),
    );
    let (from, to) = (date(first), date(last));
    let when = if from == to { from } else { format!("{from} to {to}") };
    let runs = if records.len() == 1 { "1 run".to_owned() } else { format!("{} runs", records.len()) };
    let _infallible = write!(
        html,
        "<p>{runs}, {when}. Points and lines are medians of the rounds; bands and bars reach from the least to the most.</p>"
    );
    unclean(records, &mut html);
    html.push_str("</header>");
    for group in groups(records) {
        section(&group, &mut html);
    }
    conditions(records, &mut html);
    html.push_str("</body></html>\n");
    html
}

/// Runs that were not clean are told first of all: their numbers mean little.
fn unclean(records: &[Record], html: &mut String) {
    let bad: Vec<&Record> = records.iter().filter(|record| !record.clean).collect();
    if bad.is_empty() {
        html.push_str(
            "<p class=\"good\">Every run was clean: nothing was lost, repeated or out of order.</p>",
        );
        return;
    }
    let _infallible =
        write!(html, "<div class=\"bad\"><p>Not clean: {} of {} runs.</p><ul>", bad.len(), records.len());
    for record in bad {
        let (scenario, subject) = (escape(&record.scenario), escape(&record.subject));
        let watchers = digits(f64::from(record.watchers));
        let _infallible =
            write!(html, "<li>{scenario}, {subject}, {watchers} watchers, round {}</li>", record.round);
    }
    html.push_str("</ul></div>");
}

fn section(group: &Group<'_>, html: &mut String) {
    let rate = match group.write_rate_per_second {
        Some(rate) => format!("{} writes a second", digits(rate)),
        None => "as fast as it goes".to_owned(),
    };
    let size = show_bytes(group.object_bytes as u64);
    let scenario = escape(group.scenario);
    let _infallible = write!(
        html,
        "<section><h2>{scenario} <small>objects of {size}, {rate}</small></h2><ul class=\"legend\">"
    );
    for subject in &group.subjects {
        let (class, name) = (class_of(group, subject), escape(subject.name));
        let _infallible = write!(
            html,
            "<li class=\"{class}\"><svg viewBox=\"0 0 30 10\" width=\"30\" height=\"10\"><path class=\"line\" d=\"M1 5h28\"/>\
             <circle class=\"dot\" cx=\"15\" cy=\"5\" r=\"3.5\"/></svg>{name}</li>"
        );
    }
    html.push_str("</ul><div class=\"plots\">");
    for plot in plots(group) {
        let _infallible =
            write!(html, "<figure><figcaption>{}</figcaption>{}</figure>", escape(&plot.title), plot.svg());
    }
    html.push_str("</div>");
    for watchers in group.watchers() {
        tables(group, watchers, html);
    }
    html.push_str("</section>");
}

/// Machines and command lines, each once.
fn conditions(records: &[Record], html: &mut String) {
    let mut machines = BTreeSet::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let (mut commands, mut servers) = (BTreeSet::new(), BTreeSet::new());
    for record in records {
        if let Some(machine) = &record.machine {
            let model = if machine.cpu_model.is_empty() { "CPU not named" } else { &machine.cpu_model };
            machines.insert(format!("{}, {model}, {} cores", machine.kernel, machine.cores));
            for (name, version) in &machine.versions {
                let name = if name == "server" { record.subject.as_str() } else { name };
                versions.entry(name).or_default().insert(version);
            }
        }
        commands.extend(record.command.clone());
        servers.extend(record.server_command.clone());
    }
    let versions: BTreeSet<String> = versions
        .into_iter()
        .map(|(name, all)| format!("{name} {}", all.into_iter().collect::<Vec<_>>().join(", ")))
        .collect();
    let parts = [
        ("Machine", machines, false),
        ("Versions", versions, false),
        ("Servers", servers, true),
        ("Measured by", commands, true),
    ];
    if parts.iter().all(|(_, lines, _)| lines.is_empty()) {
        return;
    }
    html.push_str("<section><h2>Conditions</h2><dl>");
    for (name, lines, code) in parts.iter().filter(|(_, lines, _)| !lines.is_empty()) {
        let _infallible = write!(html, "<dt>{name}</dt>");
        for line in lines {
            let line = escape(line);
            let _infallible = if *code {
                write!(html, "<dd><code>{line}</code></dd>")
            } else {
                write!(html, "<dd>{line}</dd>")
            };
        }
    }
    html.push_str("</dl></section>");
}

/// The day and minute in UTC: the civil calendar counted in 400-year eras from 1 March of year 0.
fn date(unix_seconds: u64) -> String {
    let days = unix_seconds / SECONDS_PER_DAY + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let seconds = unix_seconds % SECONDS_PER_DAY;
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::super::xml;
    use super::*;
    use crate::record::{Machine, Row};

    const HOSTILE: &str = "<script>alert('x')</script>\"&\u{1}";

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
        // HTML has elements without an end and texts that XML has not: what is left must be well-formed.
        let body =
            html.split_once("<body>").and_then(|(_, rest)| rest.split_once("</body>")).expect("a body").0;
        assert_eq!(xml::check(&format!("<body>{body}</body>")), Ok(()));
        for svg in html.split("<svg ").skip(1) {
            let svg = svg.split("</svg>").next().expect("a part");
            assert_eq!(xml::check(&format!("<svg {svg}</svg>")), Ok(()));
        }
        for word in ["<script", "http://", "https://", "src=", "url(", "@import"] {
            let found = html.replace("http://www.w3.org/2000/svg", "").contains(word);
            assert!(!found, "{word} reaches outside");
        }
    }

    #[test]
    fn a_page_stands_alone_and_is_well_formed() {
        let records: Vec<Record> =
            [("revcast", 1, 100), ("revcast", 2, 1000), ("floor", 1, 100), ("floor", 1, 1000)]
                .map(|(subject, round, watchers)| record(subject, round, watchers))
                .to_vec();
        let page = html("Night run", &records);
        check(&page);
        for part in [
            "<h1>Night run</h1>",
            "Every run was clean",
            "Throughput over watchers",
            "Latency percentiles, 1,000 watchers",
            "to the floor",
            "Conditions",
            "prefers-color-scheme",
            "@media print",
        ] {
            assert!(page.contains(part), "{part}");
        }
    }

    #[test]
    fn hostile_names_stay_text() {
        let mut bad = record(HOSTILE, 1, 5);
        bad.scenario = HOSTILE.to_owned();
        bad.command = Some(HOSTILE.to_owned());
        bad.server_command = Some(HOSTILE.to_owned());
        bad.values.insert(HOSTILE.to_owned(), 1.0);
        let versions = BTreeMap::from([(HOSTILE.to_owned(), HOSTILE.to_owned())]);
        bad.machine =
            Some(Machine { kernel: HOSTILE.to_owned(), cpu_model: HOSTILE.to_owned(), cores: 1, versions });
        bad.clean = false;
        let page = html(HOSTILE, &[bad]);
        check(&page);
        assert!(page.contains("Not clean: 1 of 1 runs") && page.contains("&lt;script&gt;"));
    }

    #[test]
    fn little_is_shown_too() {
        check(&html("none", &[]));
        let bare = Record { scenario: "idle".to_owned(), ..Record::default() };
        check(&html("one", &[bare]));
        let zero = Record { latency: vec![(0, 1)], ..record("zero", 1, 0) };
        check(&html("zero", &[zero]));
        check(&html("eight", &(0..8).map(|at| record(&format!("s{at}"), 1, 10)).collect::<Vec<_>>()));
    }

    #[test]
    fn days_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_825_600), "2000-02-29 12:00 UTC");
        assert_eq!(date(1_735_689_599), "2024-12-31 23:59 UTC");
    }
}
