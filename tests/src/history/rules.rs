//! The rules. Each is checked separately, so one fault may violate several.

use std::collections::{BTreeMap, HashSet};

use super::log::Due;
use super::{End, Kind, Log, Object, Rule, Seen, Segment, Violation, Wants, Watcher};

/// Every violation of one watcher.
pub(super) fn judge(logs: &[Log], watcher: &Watcher<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for segment in &watcher.segments {
        let log = logs.get(segment.epoch).unwrap_or_else(|| panic!("epoch {} has no log", segment.epoch));
        let mut judge =
            Judge { watcher, epoch: segment.epoch, log, due: log.due(&watcher.keys, watcher.wants), found };
        judge.segment(segment);
        found = judge.found;
    }
    found
}

/// One stream: its beginning, its events, its end.
#[derive(Debug)]
struct Run<'a> {
    start: Start<'a>,
    /// It repeats the revision that it begins after: several events of that concern the watcher, which may have been
    /// cut off between them. Allowed here, not required: `engine/tests/shard/resume.rs` checks that revcast does it.
    again: bool,
    items: Vec<Item<'a>>,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug)]
enum Start<'a> {
    List(u64, &'a [Object]),
    Resume(u64),
}

#[derive(Clone, Copy, Debug)]
enum Item<'a> {
    Event(Kind, &'a Object),
    Bookmark(u64),
}

impl<'a> Run<'a> {
    /// Everything up to here was known before it began.
    const fn floor(&self) -> u64 {
        match self.start {
            Start::List(revision, _) | Start::Resume(revision) if self.again => revision - 1,
            Start::List(revision, _) | Start::Resume(revision) => revision,
        }
    }

    fn events(&self) -> impl Iterator<Item = (Kind, &'a Object)> {
        self.items.iter().filter_map(|item| match item {
            Item::Event(kind, object) => Some((*kind, *object)),
            Item::Bookmark(_) => None,
        })
    }

    fn bookmarks(&self) -> impl Iterator<Item = u64> {
        self.items.iter().filter_map(|item| match item {
            Item::Event(..) => None,
            Item::Bookmark(revision) => Some(*revision),
        })
    }

    /// Keys with the revisions of their events.
    fn delivered(&self) -> HashSet<(u64, &'a str)> {
        self.events().map(|(_, object)| (object.revision, object.key.as_str())).collect()
    }

    /// The newest revision that it has sent.
    fn newest(&self) -> u64 {
        let events = self.events().map(|(_, object)| object.revision);
        events.chain(self.bookmarks()).fold(self.floor(), u64::max)
    }

    /// Everything up to here must have come: a bookmark proves it, and an event proves it for the revisions before its
    /// own.
    fn proof(&self) -> u64 {
        let events = self.events().map(|(_, object)| object.revision.saturating_sub(1));
        events.chain(self.bookmarks()).fold(self.floor(), u64::max)
    }
}

/// The streams of a segment.
fn runs(seen: &[Seen]) -> Vec<Run<'_>> {
    let mut runs: Vec<Run<'_>> = Vec::new();
    for seen in seen {
        let start = match seen {
            Seen::List { revision, objects } => Start::List(*revision, objects),
            Seen::Resume(revision) => Start::Resume(*revision),
            Seen::Event(..) | Seen::Bookmark(_) | Seen::End(_) => {
                let run = runs.last_mut().filter(|run| run.end.is_none());
                let run = run.unwrap_or_else(|| panic!("{seen:?} belongs to no stream"));
                match seen {
                    Seen::Event(kind, object) => run.items.push(Item::Event(*kind, object)),
                    Seen::Bookmark(revision) => run.items.push(Item::Bookmark(*revision)),
                    Seen::End(end) => run.end = Some(*end),
                    Seen::List { .. } | Seen::Resume(_) => {}
                }
                continue;
            }
        };
        runs.push(Run { start, again: false, items: Vec::new(), end: None });
    }
    runs
}

/// What a watcher knows from the streams since its last list.
#[derive(Debug)]
struct Known<'a> {
    newest: u64,
    /// Up to here it was checked before that nothing is missing.
    proof: u64,
    delivered: HashSet<(u64, &'a str)>,
}

struct Judge<'a> {
    watcher: &'a Watcher<'a>,
    epoch: usize,
    log: &'a Log,
    /// In the order of revisions.
    due: Vec<Due<'a>>,
    found: Vec<Violation>,
}

impl<'a> Judge<'a> {
    fn segment(&mut self, segment: &'a Segment) {
        let mut runs = runs(&segment.seen);
        for run in &mut runs {
            let from = run.floor();
            run.again = run.events().any(|(_, object)| object.revision == from)
                && self.due_in(from - 1, from).len() > 1;
        }
        let mut known: Option<Known<'a>> = None;
        let last = runs.len().saturating_sub(1);
        for (index, run) in runs.iter().enumerate() {
            let mut before = known.take();
            match run.start {
                Start::List(revision, objects) => {
                    self.list(revision, objects, before.as_ref().map(|known| known.newest));
                    before = None;
                }
                Start::Resume(revision) => self.resume(revision, before.as_ref()),
            }
            let proof = match segment.reached {
                Some(reached) if index == last => run.proof().max(reached),
                Some(_) | None => run.proof(),
            };
            self.contents(run);
            self.order(run);
            self.revisions(run);
            self.bookmarks(run);
            self.completeness(run, proof);
            let mut delivered = run.delivered();
            let (mut newest, mut proven) = (run.newest(), proof);
            if let Some(before) = before {
                delivered.extend(before.delivered);
                (newest, proven) = (newest.max(before.newest), proven.max(before.proof));
            }
            known = Some(Known { newest, proof: proven, delivered });
        }
    }

    fn breach(&mut self, rule: Rule, revision: u64, says: String) {
        let (watcher, epoch) = (self.watcher.name.clone(), self.epoch);
        self.found.push(Violation { watcher, epoch, rule, revision, says });
    }

    /// The events due after `after` and up to `through`.
    fn due_in(&self, after: u64, through: u64) -> Vec<Due<'a>> {
        let from = self.due.partition_point(|due| due.revision <= after);
        self.due[from..].iter().take_while(|due| due.revision <= through).copied().collect()
    }

    fn due_at(&self, revision: u64, key: &str) -> Option<Due<'a>> {
        let from = self.due.partition_point(|due| due.revision < revision);
        self.due[from..].iter().take_while(|due| due.revision == revision).find(|due| due.key == key).copied()
    }

    /// A list shows the state of its revision.
    fn list(&mut self, revision: u64, objects: &[Object], newest: Option<u64>) {
        if let Some(newest) = newest.filter(|newest| revision < *newest) {
            self.breach(Rule::Ordered, revision, format!("a list from before {newest}, which it has seen"));
        }
        let (since, last) = (self.log.since(), self.log.last());
        if !(since..=last).contains(&revision) {
            let says =
                format!("a list of a revision that etcd does not have: its log is of {since} to {last}");
            self.breach(Rule::Faithful, revision, says);
            return;
        }
        let all = self.log.state_at(revision);
        let wants: &Wants = self.watcher.wants;
        let mut missing: BTreeMap<&str, (u64, &[u8])> = all
            .iter()
            .filter(|(key, (_, value))| wants(key, value))
            .map(|(key, state)| (*key, *state))
            .collect();
        let mut shown = HashSet::new();
        for object in objects {
            let key = object.key.as_str();
            if !shown.insert(key) {
                self.breach(Rule::Unique, revision, format!("the list shows {key} twice"));
                continue;
            }
            match missing.remove(key) {
                Some((written, value)) if written == object.revision && value == object.value => {}
                Some((written, value)) => {
                    let (theirs, ours) = (quoted(value), quoted(&object.value));
                    let says = format!(
                        "the list has {key} of {} as {ours}; etcd of {written} as {theirs}",
                        object.revision
                    );
                    self.breach(Rule::Faithful, revision, says);
                }
                None if all.contains_key(key) => {
                    self.breach(
                        Rule::Filter,
                        revision,
                        format!("the list shows {key}, which does not match"),
                    );
                }
                None => {
                    self.breach(Rule::Faithful, revision, format!("the list shows {key}, which is not there"))
                }
            }
        }
        for key in missing.into_keys() {
            self.breach(Rule::Reliable, revision, format!("the list does not show {key}"));
        }
    }

    /// A resume begins where the watcher is.
    fn resume(&mut self, revision: u64, known: Option<&Known<'_>>) {
        let Some(known) = known else {
            self.breach(Rule::Resumable, revision, "a resume in an epoch that it has not listed".to_owned());
            return;
        };
        if revision > known.newest {
            let says = format!("a resume from what it never saw: it is at {}", known.newest);
            self.breach(Rule::Resumable, revision, says);
        }
        // What a proof covers was checked with it.
        for due in self.due_in(known.proof, revision.min(known.newest)) {
            if !known.delivered.contains(&(due.revision, due.key)) {
                let says =
                    format!("it resumes from {revision}, and {} of {} never came", due.kind.text(), due.key);
                self.breach(Rule::Resumable, due.revision, says);
            }
        }
    }

    /// Each event is one that is due.
    fn contents(&mut self, run: &Run<'_>) {
        for (kind, object) in run.events().filter(|(_, object)| object.revision > run.floor()) {
            let Object { key, revision, value } = object;
            match self.due_at(*revision, key) {
                Some(due) if due.kind == kind && due.value == value => {}
                Some(due) => {
                    let (ours, theirs) = ((kind.text(), quoted(value)), (due.kind.text(), quoted(due.value)));
                    let says =
                        format!("{key} is {} with {}, not {} with {}", ours.0, ours.1, theirs.0, theirs.1);
                    self.breach(Rule::Faithful, *revision, says);
                }
                None if self.log.has(*revision, key) => {
                    let says = format!("{} of {key}, which matches neither before nor after", kind.text());
                    self.breach(Rule::Filter, *revision, says);
                }
                None => {
                    let says = format!("{} of {key}, which etcd did not change then", kind.text());
                    self.breach(Rule::Faithful, *revision, says);
                }
            }
        }
    }

    /// Nothing goes back, and nothing comes twice.
    fn order(&mut self, run: &Run<'_>) {
        let floor = run.floor();
        let mut seen = HashSet::new();
        let (mut newest_event, mut newest) = (floor, floor);
        for item in &run.items {
            match item {
                Item::Event(kind, object) => {
                    let Object { key, revision, .. } = object;
                    let what = format!("{} of {key}", kind.text());
                    if !seen.insert((*revision, key)) {
                        self.breach(Rule::Unique, *revision, format!("{what} comes twice"));
                    } else if *revision <= floor {
                        let (rule, from) = match run.start {
                            Start::List(..) => (Rule::Unique, "the list of"),
                            Start::Resume(_) => (Rule::Resumable, "a resume from"),
                        };
                        self.breach(rule, *revision, format!("{what} comes after {from} {floor}"));
                    } else if *revision < newest_event {
                        self.breach(Rule::Ordered, *revision, format!("{what} comes after {newest_event}"));
                    }
                    newest_event = newest_event.max(*revision);
                    newest = newest.max(*revision);
                }
                Item::Bookmark(revision) => {
                    if *revision < newest {
                        self.breach(Rule::Ordered, *revision, format!("a bookmark comes after {newest}"));
                    }
                    newest = newest.max(*revision);
                }
            }
        }
    }

    /// A revision is sent completely before anything else, unless the connection broke inside it.
    fn revisions(&mut self, run: &Run<'_>) {
        let mut judged = HashSet::new();
        let at = |item: &Item<'_>| match item {
            Item::Event(_, object) => Some(object.revision),
            Item::Bookmark(_) => None,
        };
        for (index, item) in run.items.iter().enumerate() {
            let Some(revision) = at(item).filter(|revision| *revision > run.floor()) else { continue };
            if !judged.insert(revision) {
                continue;
            }
            let together = run.items[index..].iter().take_while(|item| at(item) == Some(revision));
            let together: HashSet<&str> = together
                .filter_map(|item| match item {
                    Item::Event(_, object) => Some(object.key.as_str()),
                    Item::Bookmark(_) => None,
                })
                .collect();
            let is_last = run.items[index..].iter().all(|item| at(item) == Some(revision));
            if is_last && matches!(run.end, None | Some(End::Cut)) {
                continue;
            }
            let mut due = self.due_in(revision - 1, revision);
            due.retain(|due| !together.contains(due.key));
            if let Some(first) = due.first() {
                let what = if is_last { "the end" } else { "something else" };
                let says = format!("{what} comes before {} of {}", first.kind.text(), first.key);
                self.breach(Rule::Atomic, revision, says);
            }
        }
    }

    /// Everything that a bookmark covers came before it.
    fn bookmarks(&mut self, run: &Run<'_>) {
        let mut delivered = HashSet::new();
        let mut judged = run.floor();
        for item in &run.items {
            match item {
                Item::Event(_, object) => {
                    delivered.insert((object.revision, object.key.as_str()));
                }
                Item::Bookmark(revision) => {
                    let last = self.log.last();
                    if *revision > last {
                        self.breach(
                            Rule::Bookmarkable,
                            *revision,
                            format!("a bookmark, and etcd is at {last}"),
                        );
                    }
                    for due in self.due_in(judged, *revision) {
                        if !delivered.contains(&(due.revision, due.key)) {
                            let says = format!(
                                "before it {} of {} at {} is missing",
                                due.kind.text(),
                                due.key,
                                due.revision
                            );
                            self.breach(Rule::Bookmarkable, *revision, says);
                        }
                    }
                    judged = judged.max(*revision);
                }
            }
        }
    }

    /// Everything up to the proof came.
    fn completeness(&mut self, run: &Run<'_>, proof: u64) {
        let delivered = run.delivered();
        for due in self.due_in(run.floor(), proof) {
            if !delivered.contains(&(due.revision, due.key)) {
                let says = format!("{} of {} never came, and {proof} is reached", due.kind.text(), due.key);
                self.breach(Rule::Reliable, due.revision, says);
            }
        }
    }
}

/// The beginning of a value, as text.
fn quoted(value: &[u8]) -> String {
    let start = &value[..value.len().min(60)];
    format!("{:?}", String::from_utf8_lossy(start))
}
