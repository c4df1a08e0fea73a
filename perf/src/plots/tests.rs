//! Groups, plots, tables and the page of a few records.

use super::chart::{fanout, groups, plots};
use super::page::html;
use super::page::tables;

use crate::options::FanoutValue;
use crate::record::{Machine, Record, Row};
use std::collections::BTreeMap;

const CPU: &str = "server_cpu_ns_per_delivery";

fn record(subject: &str, round: u32, watchers: u32, values: &[(&str, f64)]) -> Record {
    let mut record = Record { watchers, clean: true, ..Record::new("fanout", subject, round) };
    values.iter().for_each(|(name, value)| record.set(name, *value));
    record
}

fn measured(subject: &str, round: u32, watchers: u32) -> Record {
    let row = Row { at_seconds: f64::from(round), ..Row::default() };
    Record {
        latency: vec![(1_000_000 * u64::from(round), 99), (9_000_000, 1)].into(),
        series: vec![row, Row { at_seconds: 9.0, latency_p99_ns: Some(5), ..row }],
        ..record(subject, round, watchers, &[("deliveries_per_second", f64::from(watchers * round))])
    }
}

#[test]
fn sizes_that_are_near_are_one_group_and_rates_are_not() {
    let sized = |subject: &str, watchers, object_bytes, write_rate_per_second| Record {
        object_bytes,
        write_rate_per_second,
        ..record(subject, 1, watchers, &[])
    };
    let records = [
        sized("floor writev", 10, 1060, None),
        sized("a", 100, 1024, None),
        sized("floor send", 10, 1024, None),
        sized("a", 10, 1024, Some(20.0)),
        sized("a", 10, 4096, None),
    ];
    let all = groups(&records);
    assert_eq!(all.len(), 3);
    let names: Vec<&str> = all[0].subjects.iter().map(|subject| subject.name).collect();
    assert_eq!(names, ["a", "floor writev", "floor send"], "floors come last");
    assert_eq!(all[0].watchers(), [10, 100]);
}

#[test]
fn percentiles_are_medians_with_a_band_and_the_series_is_of_the_median_round() {
    let records: Vec<Record> = [3, 1, 2].map(|round| measured("a", round, 10)).to_vec();
    let plots = plots(&groups(&records)[0]);
    let of = |start: &str| {
        plots.iter().find(|plot| plot.title.starts_with(start)).map(|plot| plot.lines[0].points.as_slice())
    };
    let points = of("Latency percentiles, 10 watchers").expect("it is drawn");
    let half = points.iter().find(|point| point.x >= 0.5).expect("the median").y;
    let near = |ns: f64, ms: f64| (ns / 1e6 - ms).abs() < 0.01;
    assert!(near(half.median, 2.0) && near(half.least, 1.0) && near(half.most, 3.0), "{half:?}");
    let last = points.last().expect("points");
    assert!((last.x - 0.99).abs() < 1e-9, "100 deliveries have no 99.9 %: {last:?}");
    assert_eq!(of("Deliveries over time").map(|points| points[0].x), Some(2.0));
    assert_eq!(of("Latency p99 over time").map(<[_]>::len), Some(1), "gaps are left out");
    assert!(of("Server RSS over time").is_none(), "nobody knew it");
}

#[test]
fn fanout_has_the_floor_beside_it() {
    let with = |subject: &str, watchers, values: &[_]| record(subject, 1, watchers, values);
    let beside = [("server", 10, 4.0), ("server", 100, 5.0)].map(|(name, watchers, floor)| {
        with(name, watchers, &[(CPU, 6.0), ("floor_cpu_ns_per_delivery", floor)])
    });
    let subjects = [with("server", 10, &[(CPU, 5.0)]), with("floor send", 10, &[(CPU, 4.0)])];
    for (records, points) in [(&beside, 2), (&subjects, 1)] {
        let plot = fanout(records, FanoutValue::Cpu).expect("two lines");
        assert_eq!(plot.lines.iter().map(|line| line.floor).collect::<Vec<_>>(), [false, true]);
        assert!(plot.lines.iter().all(|line| line.points.len() == points), "{plot:?}");
        assert!(plot.standalone().contains("#FFFFFF"), "on white");
    }
    assert!(fanout(&[Record::new("idle", "a", 1)], FanoutValue::Rate).is_none());
}

fn table(records: &[Record]) -> String {
    tables(&groups(records)[0], 1000).into_string()
}

#[test]
fn tables_have_medians_spread_and_ratios() {
    let html = table(&[
        record("revcast", 1, 1000, &[(CPU, 4000.0), ("lost", 0.0)]),
        record("revcast", 2, 1000, &[(CPU, 6000.0), ("lost", 0.0)]),
        record("floor", 1, 1000, &[(CPU, 4000.0)]),
        record("floor", 2, 1000, &[(CPU, 4000.0)]),
        record("other", 1, 1000, &[(CPU, 10_000.0)]),
    ]);
    let row = |name: &str| {
        let at = html.find(&format!("<td>{name}</td>")).unwrap_or_else(|| panic!("{name}: {html}"));
        html[at..].split("</tr>").next().expect("a row").replace(" class=\"n\"", "")
    };
    assert_eq!(
        row("revcast"),
        "<td>revcast</td><td><b>5.00 µs</b></td><td>4.00 µs</td><td>6.00 µs</td><td>2</td><td>–</td><td>1.25 ×</td>"
    );
    assert!(row("other").ends_with("<td>2.50 ×</td><td>2.50 ×</td>"), "{html}");
    assert!(row("floor").ends_with("<td>0.83 ×</td><td>–</td>"), "the median of 1 and 2/3: {html}");
}

#[test]
fn a_scenario_of_its_own_kind_shows_its_own_values() {
    let table = |values: &[(&str, f64)]| table(&[record("a", 1, 1000, values)]);
    assert_eq!(table(&[]), "<p>1,000 watchers: no value was recorded.</p>");
    let html = table(&[("all_live_seconds", 2.5), ("cpu_ns_per_event", 10_000.0)]);
    assert!(["All live", "2.50 s", "CPU per event"].iter().all(|part| html.contains(part)), "{html}");
    assert!(!html.contains("<details>"), "{html}");
    let html = table(&[("lost", 0.0), ("duplicated", 0.0), ("out_of_order", 0.0), ("odd_count", 3.0)]);
    assert!(html.contains("<summary>1 more values</summary>"), "{html}");
}

fn check(html: &str) {
    assert!(html.ends_with("</body></html>"), "{html}");
    for word in ["<script", "http://", "https://", "src=", "url(", "@import", "<!--", "NaN"] {
        let found = html.replace("http://www.w3.org/2000/svg", "").contains(word);
        assert!(!found, "{word}");
    }
}

#[test]
fn a_page_stands_alone_whatever_it_shows() {
    let runs = [("revcast", 100), ("revcast", 1000), ("floor", 100), ("floor", 1000)];
    let records: Vec<Record> = runs.map(|(subject, watchers)| measured(subject, 1, watchers)).to_vec();
    let page = html(
        "Night run",
        &[&records[..], &[Record { began_unix_seconds: 951_825_600, ..Record::default() }]].concat(),
    );
    check(&page);
    for part in [
        "<h1>Night run</h1>",
        "5 runs, 2000-02-29 12:00 UTC to ",
        "Deliveries over watchers",
        "Latency percentiles, 1,000 watchers",
        "to the floor",
        "Conditions",
        "prefers-color-scheme",
        "@media print",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(html("clean", &records).contains("Every run was clean"));
    check(&html("none", &[]));
    check(&html("one point", &records[..1]));
    let far = [1, 1_000, 1_000_000]
        .map(|watchers| record("far apart", 1, watchers, &[(CPU, f64::from(watchers).powi(2))]));
    check(&html("far apart", &far));
    check(&html("zero", &[Record { latency: vec![(0, 1)].into(), ..measured("zero", 1, 0) }]));
    check(&html("eight", &(0..8).map(|at| measured(&format!("s{at}"), 1, 10)).collect::<Vec<_>>()));
}

#[test]
fn hostile_names_stay_text() {
    let hostile = || "<script>alert('x')</script>\"&".to_owned();
    let versions = BTreeMap::from([(hostile(), hostile())]);
    let bad = Record {
        scenario: hostile(),
        command: Some(hostile()),
        server_command: Some(hostile()),
        values: BTreeMap::from([(hostile(), 1.0)]),
        machine: Some(Machine { kernel: hostile(), cpu_model: hostile(), cores: 1, versions }),
        clean: false,
        ..measured(&hostile(), 1, 5)
    };
    let page = html(&hostile(), &[bad]);
    check(&page);
    assert!(page.contains("Not clean: 1 of 1 runs") && page.contains("&lt;script&gt;"));
}
