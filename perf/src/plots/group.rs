//! Records that can be compared: the same scenario, size and rate. Every subject has its runs by number of watchers.

use crate::record::Record;
use crate::table::Spread;
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
