//! Records that can be compared: the same scenario, size and rate, every subject with its runs by number of watchers; and the plots
//! that such a group gets: latency percentiles, values over the number of watchers, the series of a round.

use super::draw::{Line, Over, Plot, Point};
use crate::options::FanoutValue;
use crate::record::{Record, Row};
use crate::table::Spread;
use crate::units::{Unit, digits, words_of};
use std::collections::{BTreeMap, BTreeSet};

/// Runs that differ in subject, watchers and round only.
pub(super) struct Group<'a> {
    pub(super) scenario: &'a str,
    pub(super) object_bytes: usize,
    pub(super) write_rate_per_second: Option<f64>,
    /// In the order of their first run; floors after the others.
    pub(super) subjects: Vec<Subject<'a>>,
}

pub(super) struct Subject<'a> {
    pub(super) name: &'a str,
    pub(super) runs: BTreeMap<u32, Vec<&'a Record>>,
}

impl Subject<'_> {
    /// What the hardware and the kernel allow, not a server.
    pub(super) fn is_floor(&self) -> bool {
        self.name == "floor" || self.name.starts_with("floor ") || self.name.starts_with("floor-")
    }

    pub(super) fn spread(&self, watchers: u32, name: &str) -> Option<Spread> {
        let runs = self.runs.get(&watchers).into_iter().flatten();
        Spread::of(runs.filter_map(|record| record.value(name)))
    }
}

impl Group<'_> {
    pub(super) fn watchers(&self) -> Vec<u32> {
        let all: BTreeSet<u32> =
            self.subjects.iter().flat_map(|subject| subject.runs.keys().copied()).collect();
        all.into_iter().collect()
    }

    /// The place of a subject among its kind: floors, or others.
    pub(super) fn place(&self, subject: &Subject<'_>) -> usize {
        let alike = self.subjects.iter().filter(|other| other.is_floor() == subject.is_floor());
        alike.take_while(|other| other.name != subject.name).count()
    }

    /// What ratios are taken to first: the first subject that is no floor.
    pub(super) fn first(&self) -> Option<&Subject<'_>> {
        self.subjects.iter().find(|subject| !subject.is_floor())
    }
}

pub(super) fn groups(records: &[Record]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for record in records {
        let same = |group: &Group<'_>| {
            group.scenario == record.scenario
                && is_near(group.object_bytes, record.object_bytes)
                && group.write_rate_per_second == record.write_rate_per_second
        };
        let group = find_or_push(&mut groups, same, || Group {
            scenario: &record.scenario,
            object_bytes: record.object_bytes,
            write_rate_per_second: record.write_rate_per_second,
            subjects: Vec::new(),
        });
        let name = record.subject.as_str();
        let new = || Subject { name, runs: BTreeMap::new() };
        let subject = find_or_push(&mut group.subjects, |subject| subject.name == name, new);
        subject.runs.entry(record.watchers).or_default().push(record);
    }
    groups.iter_mut().for_each(|group| group.subjects.sort_by_key(Subject::is_floor));
    groups
}

fn find_or_push<T>(all: &mut Vec<T>, is: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> &mut T {
    let at = all.iter().position(is).unwrap_or_else(|| {
        all.push(new());
        all.len() - 1
    });
    &mut all[at]
}

/// Servers add their own to an object: 1,024 and 1,060 bytes are one size.
fn is_near(a: usize, b: usize) -> bool {
    a.abs_diff(b) * 5 <= a.max(b)
}

const PERCENTILE_PLOTS_MAX: usize = 4;
/// Points of a percentile line for each nine, and the last quantile.
const POINTS_PER_NINE: u32 = 10;
const QUANTILE_MAX: f64 = 0.999_99;

const OVER_WATCHERS: [&str; 4] =
    ["deliveries_per_second", "server_cpu_ns_per_delivery", "rss_bytes_per_watcher", "latency_p99_ns"];

const SERIES: [&str; 5] =
    ["deliveries_per_second", "latency_p99_ns", "server_rss_bytes", "server_fds", "server_cpu_share"];

pub(super) fn plots(group: &Group<'_>) -> Vec<Plot> {
    let watchers = group.watchers();
    let largest = watchers.iter().rev().take(PERCENTILE_PLOTS_MAX).rev();
    let percentiles = largest.map(|&watchers| percentiles(group, watchers));
    let over = OVER_WATCHERS.into_iter().map(|name| {
        let title = format!("{} over watchers", words_of(name));
        let lines = lines(group, |subject| by_watchers(subject, name));
        Plot { title, over: Over::Watchers, y_unit: Unit::of(name), lines }
    });
    let series = SERIES.into_iter().map(|name| series(group, name));
    percentiles.chain(over).chain(series).filter(|plot| !plot.lines.is_empty()).collect()
}

/// Fan-out beside the floor. Of several sizes and rates the one that was measured with the most numbers of watchers.
pub(super) fn fanout(records: &[Record], value: FanoutValue) -> Option<Plot> {
    let (name, of_floor, title) = match value {
        FanoutValue::Cpu => (OVER_WATCHERS[1], "floor_cpu_ns_per_delivery", "CPU time of one delivery"),
        FanoutValue::Rate => (OVER_WATCHERS[0], "floor_deliveries_per_second", "Deliveries a second"),
    };
    let groups = groups(records);
    let of_fanout = groups.iter().filter(|group| group.scenario == "fanout");
    let group = of_fanout.max_by_key(|group| group.watchers().len())?;
    let mut lines = lines(group, |subject| by_watchers(subject, name));
    // A run of `fanout` has the floor beside itself, one of `compare` as a subject.
    if let Some(first) = group.first().filter(|_| lines.iter().all(|line| !line.floor)) {
        let points = by_watchers(first, of_floor);
        lines.push(Line { name: "floor".to_owned(), floor: true, place: 0, points });
    }
    lines.retain(|line| !line.points.is_empty());
    let (title, y_unit) = (title.to_owned(), Unit::of(name));
    (!lines.is_empty()).then_some(Plot { title, over: Over::Watchers, y_unit, lines })
}

fn lines(group: &Group<'_>, points: impl Fn(&Subject<'_>) -> Vec<Point>) -> Vec<Line> {
    let line = |subject: &Subject<'_>| Line {
        name: subject.name.to_owned(),
        floor: subject.is_floor(),
        place: group.place(subject),
        points: points(subject),
    };
    group.subjects.iter().map(line).filter(|line| !line.points.is_empty()).collect()
}

fn percentiles(group: &Group<'_>, watchers: u32) -> Plot {
    Plot {
        title: format!("Latency percentiles, {} watchers", digits(f64::from(watchers))),
        over: Over::Quantiles,
        y_unit: Unit::Nanoseconds,
        lines: lines(group, |subject| {
            quantiles(subject.runs.get(&watchers).map_or(&[], |runs| runs.as_slice()))
        }),
    }
}

fn quantiles(runs: &[&Record]) -> Vec<Point> {
    let rounds = || runs.iter().map(|record| &record.latency).filter(|latency| !latency.is_empty());
    let Some(fewest) = rounds().map(|latency| latency.len()).min() else { return Vec::new() };
    let step = |step: u32| 1.0 - 10_f64.powf(-f64::from(step) / f64::from(POINTS_PER_NINE));
    // Beyond the last delivery there is nothing to see.
    let seen = |quantile: &f64| *quantile <= QUANTILE_MAX && (1.0 - quantile) * fewest as f64 >= 0.999;
    let point = |x: f64| Some(Point { x, y: Spread::of(rounds().map(|latency| latency.at(x) as f64))? });
    (0..=5 * POINTS_PER_NINE).map(step).filter(seen).filter_map(point).collect()
}

fn by_watchers(subject: &Subject<'_>, name: &str) -> Vec<Point> {
    let point = |&watchers: &u32| Some(Point { x: f64::from(watchers), y: subject.spread(watchers, name)? });
    subject.runs.keys().filter_map(point).collect()
}

/// The series of one round of each subject at the largest number of watchers that has any.
fn series(group: &Group<'_>, name: &str) -> Plot {
    let has = |watchers: &u32| {
        let runs = group.subjects.iter().filter_map(|subject| subject.runs.get(watchers)).flatten();
        runs.into_iter().any(|record| !record.series.is_empty())
    };
    let watchers = group.watchers().into_iter().rev().find(has).unwrap_or(0);
    let points = |subject: &Subject<'_>| -> Vec<Point> {
        let round = subject.runs.get(&watchers).and_then(|runs| middle(runs));
        let rows = round.map_or(&[][..], |record| record.series.as_slice());
        let cell = |row: &Row| serde_json::to_value(row).ok()?[name].as_f64();
        rows.iter().filter_map(|row| Some(Point { x: row.at_seconds, y: Spread::of(cell(row))? })).collect()
    };
    Plot {
        title: format!(
            "{} over time, {} watchers, the median round",
            words_of(name),
            digits(f64::from(watchers))
        ),
        over: Over::Time,
        y_unit: Unit::of(name),
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
