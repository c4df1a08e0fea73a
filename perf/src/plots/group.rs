//! Records that can be compared: the same scenario, size and rate. In a group every subject has its runs by number of
//! watchers, and every value its median with the least and the most of the rounds.

use crate::record::Record;
use crate::spread::Spread;
use std::collections::{BTreeMap, BTreeSet};

/// Runs that differ in subject, watchers and round only.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) scenario: &'a str,
    pub(super) object_bytes: usize,
    pub(super) write_rate_per_second: Option<f64>,
    /// In the order of their first run; floors after the others.
    pub(super) subjects: Vec<Subject<'a>>,
}

#[derive(Debug)]
pub(super) struct Subject<'a> {
    pub(super) name: &'a str,
    pub(super) runs: BTreeMap<u32, Vec<&'a Record>>,
}

impl Subject<'_> {
    /// What the hardware and the kernel allow, not a server.
    pub(super) fn is_floor(&self) -> bool {
        self.name == "floor" || self.name.starts_with("floor ") || self.name.starts_with("floor-")
    }

    pub(super) fn values(&self, watchers: u32, name: &str) -> impl Iterator<Item = f64> {
        let runs = self.runs.get(&watchers).into_iter().flatten();
        runs.filter_map(move |record| record.value(name))
    }

    pub(super) fn spread(&self, watchers: u32, name: &str) -> Option<Spread> {
        Spread::of(self.values(watchers, name))
    }

    /// The ratio of a value to another subject's: the median of the rounds' ratios where both have the same rounds once,
    /// else the ratio of the medians. `None` where there is nothing to divide by.
    pub(super) fn ratio(&self, other: &Self, watchers: u32, name: &str) -> Option<f64> {
        let by_round = |subject: &Self| -> Option<BTreeMap<u32, f64>> {
            let runs = subject.runs.get(&watchers)?;
            let found: BTreeMap<u32, f64> =
                runs.iter().filter_map(|record| Some((record.round, record.value(name)?))).collect();
            (found.len() == runs.len()).then_some(found)
        };
        let divided =
            |over: f64, under: f64| Some(over / under).filter(|ratio| ratio.is_finite() && under != 0.0);
        if let (Some(mine), Some(theirs)) = (by_round(self), by_round(other))
            && mine.len() > 1
            && mine.keys().eq(theirs.keys())
        {
            let ratios: Option<Vec<f64>> =
                mine.values().zip(theirs.values()).map(|(over, under)| divided(*over, *under)).collect();
            return Spread::of(ratios?).map(|ratios| ratios.median);
        }
        divided(self.spread(watchers, name)?.median, other.spread(watchers, name)?.median)
    }
}

impl Group<'_> {
    /// Every number of watchers that was measured, ascending.
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

    /// The floor that is the best at a value: `most` of it where that is good, else the least.
    pub(super) fn floor(&self, watchers: u32, name: &str) -> Option<&Subject<'_>> {
        let floors = self.subjects.iter().filter(|subject| subject.is_floor());
        let known = floors.filter_map(|floor| Some((floor.spread(watchers, name)?.median, floor)));
        let best = |a: &(f64, _), b: &(f64, _)| a.0.total_cmp(&b.0);
        let found = if name.ends_with("_per_second") { known.max_by(best) } else { known.min_by(best) };
        found.map(|(_, floor)| floor)
    }
}

/// All groups, in the order of their first record.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn record(subject: &str, round: u32, watchers: u32, cpu: f64) -> Record {
        let mut record = Record::new("fanout", subject, round);
        (record.watchers, record.object_bytes) = (watchers, 1024);
        record.set("server_cpu_ns_per_delivery", cpu);
        record
    }

    #[test]
    fn ratios_are_those_of_the_rounds() {
        let mut records = Vec::new();
        for (round, (a, b)) in (1..).zip([(10.0, 5.0), (30.0, 10.0), (40.0, 40.0)]) {
            records.push(record("revcast", round, 100, a));
            records.push(record("floor", round, 100, b));
        }
        let all = groups(&records);
        let [group] = all.as_slice() else { panic!("one size, one rate: {all:?}") };
        let (first, floor) =
            (group.first().expect("revcast"), group.floor(100, "server_cpu_ns_per_delivery"));
        // Ratios 2, 3, 1; the ratio of the medians would be 3.
        assert_eq!(first.ratio(floor.expect("floor"), 100, "server_cpu_ns_per_delivery"), Some(2.0));
        assert_eq!(first.ratio(first, 100, "no such value"), None);
        records.push(record("floor", 1, 100, 0.0));
        records.push(record("zero", 1, 100, 0.0));
        let all = groups(&records);
        let zero = all[0].subjects.iter().find(|subject| subject.name == "zero").expect("it was added");
        let revcast = all[0].first().expect("revcast");
        assert_eq!(revcast.ratio(zero, 100, "server_cpu_ns_per_delivery"), None, "nothing to divide by");
        assert_eq!(zero.ratio(revcast, 100, "server_cpu_ns_per_delivery"), Some(0.0));
    }

    #[test]
    fn sizes_that_are_near_are_one_group_and_rates_are_not() {
        let mut near = record("floor writev", 1, 10, 1.0);
        near.object_bytes = 1060;
        let mut rated = record("a", 1, 10, 1.0);
        rated.write_rate_per_second = Some(20.0);
        let mut large = record("a", 1, 10, 1.0);
        large.object_bytes = 4096;
        let records = [near, record("a", 1, 100, 1.0), record("floor send", 1, 10, 0.5), rated, large];
        let all = groups(&records);
        assert_eq!(all.len(), 3);
        let names: Vec<&str> = all[0].subjects.iter().map(|subject| subject.name).collect();
        assert_eq!(names, ["a", "floor writev", "floor send"], "floors come last");
        assert_eq!(all[0].watchers(), [10, 100]);
        assert_eq!(
            all[0].floor(10, "server_cpu_ns_per_delivery").map(|floor| floor.name),
            Some("floor send")
        );
    }
}
