//! Which plots a group gets: latency percentiles, values over the number of watchers, and the series of a round. It
//! turns records into points; how they look is [`Plot`]'s.

use super::group::{Group, Subject, Summary};
use super::plot::{Line, Plot, Point, Spread};
use super::quantity::{Quantity, digits};
use super::scale::{Kind, QUANTILE_MAX};
use crate::latency::Latency;
use crate::record::{Record, Row};

/// Colours that there are; more subjects begin again, with dashes.
pub(super) const COLOURS: usize = 8;
/// Numbers of watchers whose percentiles are drawn: the largest ones.
const PERCENTILE_PLOTS_MAX: usize = 4;
/// Points of a percentile line for each nine.
const POINTS_PER_NINE: u32 = 10;

/// What is drawn over the number of watchers: the value, the headline, the axis.
const OVER_WATCHERS: [(&str, &str, &str); 4] = [
    ("deliveries_per_second", "Throughput over watchers", "Deliveries"),
    ("server_cpu_ns_per_delivery", "Server CPU per delivery over watchers", "CPU time per delivery"),
    ("rss_bytes_per_watcher", "Server memory per watcher over watchers", "Resident memory per watcher"),
    ("latency_p99_ns", "Latency p99 over watchers", "Latency p99"),
];

/// One column of the series: its headline, its axis, its unit, its cell of a row.
type Column = (&'static str, &'static str, Quantity, fn(&Row) -> Option<f64>);

const SERIES: [Column; 5] = [
    ("Throughput", "Deliveries", Quantity::PerSecond, |row| Some(row.deliveries_per_second)),
    ("Latency p99", "Latency p99", Quantity::Nanoseconds, |row| row.latency_p99_ns.map(|ns| ns as f64)),
    ("Server memory", "Resident memory", Quantity::Bytes, |row| {
        row.server_rss_bytes.map(|bytes| bytes as f64)
    }),
    ("Server descriptors", "Open descriptors", Quantity::Count, |row| row.server_fds.map(|fds| fds as f64)),
    ("Server CPU", "CPU", Quantity::Share, |row| row.server_cpu_share),
];

/// The class of the subject's colour: the same in every plot and in the legend.
pub(super) fn class_of(group: &Group<'_>, subject: &Subject<'_>) -> String {
    let alike = group.subjects.iter().filter(|other| other.is_floor() == subject.is_floor());
    let at = alike.take_while(|other| other.name != subject.name).count();
    let dashes = ["", " dotted", " dashed"];
    let dashed = dashes[(if subject.is_floor() { at } else { at / COLOURS }) % dashes.len()];
    if subject.is_floor() { format!("floor{dashed}") } else { format!("s{}{dashed}", at % COLOURS) }
}

/// All plots that the group has points for.
pub(super) fn plots(group: &Group<'_>) -> Vec<Plot> {
    let watchers = group.watchers();
    let largest = watchers.iter().rev().take(PERCENTILE_PLOTS_MAX).rev();
    let percentiles = largest.map(|&watchers| percentiles(group, watchers));
    let over = OVER_WATCHERS.into_iter().map(|(name, title, label)| over_watchers(group, name, title, label));
    let series = SERIES.into_iter().map(|column| series(group, column));
    percentiles.chain(over).chain(series).filter(|plot| !plot.is_empty()).collect()
}

fn lines(group: &Group<'_>, points: impl Fn(&Subject<'_>) -> Vec<Point>) -> Vec<Line> {
    let line = |subject: &Subject<'_>| Line {
        name: subject.name.to_owned(),
        class: class_of(group, subject),
        points: points(subject),
    };
    group.subjects.iter().map(line).filter(|line| !line.points.is_empty()).collect()
}

fn percentiles(group: &Group<'_>, watchers: u32) -> Plot {
    Plot {
        title: format!("Latency percentiles, {} watchers", digits(f64::from(watchers))),
        x_label: "Percentile".to_owned(),
        x_quantity: Quantity::Quantile,
        x_kind: Kind::Percentile,
        y_label: "Latency".to_owned(),
        y_quantity: Quantity::Nanoseconds,
        spread: Spread::Band,
        lines: lines(group, |subject| {
            quantiles(subject.runs.get(&watchers).map_or(&[], |runs| runs.as_slice()))
        }),
    }
}

/// The median of the rounds at each quantile that all of them have deliveries for.
fn quantiles(runs: &[&Record]) -> Vec<Point> {
    let mut rounds: Vec<Latency> = Vec::new();
    for record in runs.iter().filter(|record| !record.latency.is_empty()) {
        let mut latency = Latency::new();
        latency.add(&record.latency);
        rounds.push(latency);
    }
    let Some(fewest) = rounds.iter().map(|latency| latency.histogram().len()).min() else {
        return Vec::new();
    };
    let steps = (0..=5 * POINTS_PER_NINE)
        .map(|step| 1.0 - 10_f64.powf(-f64::from(step) / f64::from(POINTS_PER_NINE)));
    let point = |quantile: f64| {
        let at = Summary::of(rounds.iter().map(|latency| latency.at(quantile) as f64).collect())?;
        Some(Point { x: quantile, y: at.median, least: at.least, most: at.most })
    };
    // Behind the last delivery there is nothing to see.
    let seen = |quantile: &f64| *quantile <= QUANTILE_MAX && (1.0 - quantile) * fewest as f64 >= 0.999;
    steps.filter(seen).filter_map(point).collect()
}

fn over_watchers(group: &Group<'_>, name: &str, title: &str, label: &str) -> Plot {
    let points = |subject: &Subject<'_>| -> Vec<Point> {
        let point = |watchers: &u32| {
            let at = subject.summary(*watchers, name)?;
            Some(Point { x: f64::from(*watchers), y: at.median, least: at.least, most: at.most })
        };
        subject.runs.keys().filter_map(point).collect()
    };
    Plot {
        title: title.to_owned(),
        x_label: "Watchers".to_owned(),
        x_quantity: Quantity::Count,
        x_kind: Kind::Log,
        y_label: label.to_owned(),
        y_quantity: Quantity::of(name),
        spread: Spread::Bars,
        lines: lines(group, points),
    }
}

/// The series of one round of each subject at the largest number of watchers that has any.
fn series(group: &Group<'_>, (title, label, quantity, cell): Column) -> Plot {
    let has = |watchers: &u32| {
        group.subjects.iter().any(|subject| {
            subject.runs.get(watchers).is_some_and(|runs| runs.iter().any(|record| !record.series.is_empty()))
        })
    };
    let watchers = group.watchers().into_iter().rev().find(has).unwrap_or(0);
    let points = |subject: &Subject<'_>| -> Vec<Point> {
        let Some(record) = subject.runs.get(&watchers).and_then(|runs| middle(runs)) else {
            return Vec::new();
        };
        let point = |row: &Row| {
            let y = cell(row).filter(|y| y.is_finite())?;
            Some(Point { x: row.at_seconds, y, least: y, most: y })
        };
        record.series.iter().filter_map(point).collect()
    };
    Plot {
        title: format!("{title} over time, {} watchers, the median round", digits(f64::from(watchers))),
        x_label: "Time since the run began".to_owned(),
        x_quantity: Quantity::Seconds,
        x_kind: Kind::Linear,
        y_label: label.to_owned(),
        y_quantity: quantity,
        spread: Spread::None,
        lines: lines(group, points),
    }
}

/// Of the rounds with a series, the one whose throughput is the median.
fn middle<'a>(runs: &[&'a Record]) -> Option<&'a Record> {
    let mut with: Vec<&Record> = runs.iter().copied().filter(|record| !record.series.is_empty()).collect();
    let rate = |record: &Record| record.value("deliveries_per_second").unwrap_or(0.0);
    with.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    with.get(with.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::super::group::groups;
    use super::*;

    fn record(subject: &str, round: u32, watchers: u32) -> Record {
        let mut record = Record::new("fanout", subject, round);
        record.watchers = watchers;
        record.set("deliveries_per_second", f64::from(watchers * round));
        record.latency = vec![(1_000_000 * u64::from(round), 99), (9_000_000, 1)];
        let row = Row { at_seconds: f64::from(round), ..Row::default() };
        record.series = vec![row, Row { at_seconds: 9.0, latency_p99_ns: Some(5), ..row }];
        record
    }

    #[test]
    fn percentiles_are_medians_with_a_band_and_end_with_the_data() {
        let records: Vec<Record> = (1..=3).map(|round| record("a", round, 10)).collect();
        let groups = groups(&records);
        let plots = plots(&groups[0]);
        let points = &plots[0].lines[0].points;
        let half = points.iter().find(|point| point.x >= 0.5).expect("the median");
        let near = |ns: f64, ms: f64| (ns / 1e6 - ms).abs() < 0.01;
        assert!(near(half.y, 2.0) && near(half.least, 1.0) && near(half.most, 3.0), "{half:?}");
        let last = points.last().expect("points");
        assert!((last.x - 0.99).abs() < 1e-9, "100 deliveries have no 99.9 %: {last:?}");
    }

    #[test]
    fn the_series_is_of_the_median_round_and_leaves_gaps_out() {
        let records: Vec<Record> = [3, 1, 2].map(|round| record("a", round, 10)).to_vec();
        let groups = groups(&records);
        let plots = plots(&groups[0]);
        let of = |start: &str| {
            plots.iter().find(|plot| plot.title.starts_with(start)).map(|plot| &plot.lines[0].points)
        };
        assert_eq!(of("Throughput over time").map(|points| points[0].x), Some(2.0));
        assert_eq!(of("Latency p99 over time").map(Vec::len), Some(1));
        assert!(of("Server memory over time").is_none(), "nobody knew it");
    }

    #[test]
    fn colours_follow_the_subject_and_the_floor_has_its_own() {
        let names: Vec<String> = (0..10).map(|at| format!("subject {at}")).collect();
        let mut records: Vec<Record> = names.iter().map(|name| record(name, 1, 10)).collect();
        records.insert(0, record("floor", 1, 10));
        let groups = groups(&records);
        let classes: Vec<String> =
            groups[0].subjects.iter().map(|subject| class_of(&groups[0], subject)).collect();
        assert_eq!(
            (classes[0].as_str(), classes[8].as_str(), classes[10].as_str()),
            ("s0", "s0 dotted", "floor")
        );
    }
}
