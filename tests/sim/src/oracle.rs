//! The whole history: every event, every state of every key, and a model of the window.
//!
//! It forgets nothing, so it knows what any watch must be sent and what any list must show. Its window is a model of
//! the ring in plain numbers: what the real one may forget, and when.

use std::rc::Rc;

use revcast_engine::encoding::Encoding;
use revcast_engine::limits::PAGE_SCAN;

use super::object::{Name, State};
use super::wish::Wish;

/// One change of one key.
#[derive(Debug)]
pub(crate) struct Happened {
    pub(crate) revision: u64,
    pub(crate) name: usize,
    pub(crate) before: Option<Rc<State>>,
    pub(crate) now: Option<Rc<State>>,
    /// Wall seconds.
    pub(crate) at: u64,
    /// Total bytes up to and including this event.
    bytes_through: u64,
}

/// The meaning of an event for a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Added,
    Modified,
    Deleted,
    /// It is unreadable: the watch is told so, and ends.
    Unreadable,
}

impl Kind {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Unreadable => "ERROR",
        }
    }

    pub(crate) const fn number(self) -> usize {
        match self {
            Self::Added => 0,
            Self::Modified => 1,
            Self::Deleted => 2,
            Self::Unreadable => 3,
        }
    }
}

impl Happened {
    /// Whether it replaced a readable value, or none, by an unreadable one.
    pub(crate) fn unreadable(&self) -> bool {
        self.now.as_ref().is_some_and(|now| now.unreadable.is_some())
    }

    /// The state before, if it was readable.
    pub(crate) fn readable_before(&self) -> Option<&Rc<State>> {
        self.before.as_ref().filter(|before| before.unreadable.is_none())
    }

    /// The encoding of the message that the publisher makes.
    pub(crate) fn own_encoding(&self) -> Encoding {
        let packed = self.now.as_ref().or(self.before.as_ref()).is_some_and(|state| state.packed);
        if packed { Encoding::Protobuf } else { Encoding::Json }
    }

    /// The kind of the message that the publisher makes.
    pub(crate) fn own_kind(&self) -> Kind {
        match (self.readable_before(), &self.now) {
            (_, Some(_)) if self.unreadable() => Kind::Unreadable,
            (_, None) => Kind::Deleted,
            (None, Some(_)) => Kind::Added,
            (Some(_), Some(_)) => Kind::Modified,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Oracle {
    pub(crate) names: Vec<Name>,
    /// Indices into `names`, in key order.
    sorted: Vec<usize>,
    /// By name: revision and the state from then on.
    states: Vec<Vec<(u64, Option<Rc<State>>)>>,
    pub(crate) events: Vec<Happened>,
    /// How many of the events happened before the state that was loaded.
    pub(crate) history: usize,
    /// Those of them from here on can be put into the window: they are newer than this revision.
    told_from: usize,
    told: u64,
    /// The revision of the loaded state.
    loaded_at: u64,
    /// The newest revision taken by the publisher.
    pub(crate) taken: u64,
    /// The newest revision that is visible.
    pub(crate) visible: u64,
    /// Events that are visible.
    pub(crate) published: usize,
    /// Events that are forgotten.
    pub(crate) oldest: usize,
    /// The newest revision that cannot be replayed.
    pub(crate) forgotten: u64,
    /// The newest revision that ever could not be replayed.
    pub(crate) ever_forgotten: u64,
    /// The newest revision with several events of which one is forgotten.
    torn: u64,
    /// Events from this index on are needed by some shard.
    needed: usize,
    /// Index of the first event of the newest revision with events.
    newest_from: usize,
    slots: usize,
    /// The last batch made the ring grow.
    pub(crate) grew: bool,
    events_max: usize,
    bytes_max: u64,
    /// How many messages the publisher made.
    pub(crate) messages_own: u64,
    /// Whether any value was ever unreadable.
    spoiled: bool,
}

impl Oracle {
    pub(crate) fn new(names: Vec<Name>, revision: u64, slots: usize, bytes_max: u64) -> Self {
        let mut sorted: Vec<usize> = (0..names.len()).collect();
        let place = |name: usize| (names[name].kind, names[name].key.path());
        sorted.sort_by(|a, b| place(*a).cmp(&place(*b)));
        Self {
            sorted,
            states: names.iter().map(|_| Vec::new()).collect(),
            names,
            events: Vec::new(),
            history: 0,
            told_from: 0,
            told: revision,
            loaded_at: revision,
            taken: revision,
            visible: revision,
            published: 0,
            oldest: 0,
            forgotten: revision,
            ever_forgotten: revision,
            torn: 0,
            needed: 0,
            newest_from: 0,
            slots: slots.max(2).next_power_of_two(),
            grew: false,
            events_max: slots.max(2).next_power_of_two(),
            bytes_max,
            messages_own: 0,
            spoiled: false,
        }
    }

    pub(crate) fn newest(&self, name: usize) -> Option<&Rc<State>> {
        self.states[name].last().and_then(|(_, state)| state.as_ref())
    }

    /// A state that existed before the first event.
    pub(crate) fn load(&mut self, state: State) {
        self.messages_own += u64::from(!state.opaque);
        self.spoiled |= state.unreadable.is_some();
        self.states[state.name].push((state.revision, Some(Rc::new(state))));
    }

    /// The loaded state is that of `revision`, and visible.
    pub(crate) fn loaded(&mut self, revision: u64) {
        self.taken = self.taken.max(revision);
        self.loaded_at = revision;
        self.forget(revision);
        self.publish();
    }

    fn forget(&mut self, revision: u64) {
        self.forgotten = self.forgotten.max(revision);
        self.ever_forgotten = self.ever_forgotten.max(revision);
    }

    /// All that was taken so far happened before the state that is loaded: it is that of `revision`. Later events may be told of
    /// what is newer than `from`.
    pub(crate) fn begin_with_history(&mut self, from: u64, revision: u64) {
        self.history = self.events.len();
        (self.oldest, self.newest_from) = (self.history, self.history);
        (self.slots, self.torn, self.grew) = (self.events_max, 0, false);
        (self.told, self.told_from) = (from, self.after(from));
        // What is in the index was loaded, and the first state of a key in the history had none before.
        let newest = self.states.iter().filter_map(|states| states.last()?.1.as_ref());
        newest.for_each(|state| state.weight.set(state.weight_added));
        self.first_told().for_each(|state| state.weight.set(state.weight_added));
        let mut bytes = 0;
        for event in &mut self.events {
            bytes += event.now.as_ref().or(event.before.as_ref()).map_or(0, |state| state.weight.get());
            event.bytes_through = bytes;
        }
        let loaded = self.states.iter().filter_map(|states| states.last()?.1.as_ref());
        self.messages_own = loaded.filter(|state| !state.opaque).count() as u64;
        self.loaded(revision);
    }

    /// The states before the first changes of the history, one a key.
    fn first_told(&self) -> impl Iterator<Item = &Rc<State>> {
        let mut seen = vec![false; self.names.len()];
        let events = self.events[self.told_from..self.history].iter();
        let first = events.filter(move |event| !std::mem::replace(&mut seen[event.name], true));
        first.filter_map(|event| event.before.as_ref())
    }

    /// The history is put into the window: how many of its events are.
    pub(crate) fn prepend(&mut self, seconds: u64) -> usize {
        let is_newest = |state: &&Rc<State>| {
            let states = &self.states[state.name];
            let loaded = states.iter().rfind(|(since, _)| *since <= self.loaded_at);
            loaded.and_then(|(_, loaded)| loaded.as_ref()).is_some_and(|loaded| Rc::ptr_eq(loaded, state))
        };
        let told = self.events[self.told_from..self.history].iter().filter_map(|event| event.now.as_ref());
        let decoded = told.filter(|state| !is_newest(state)).chain(self.first_told());
        self.messages_own += decoded.filter(|state| !state.opaque).count() as u64;
        if self.oldest != self.history || self.forgotten != self.loaded_at {
            return 0;
        }
        let slots = self.events_max.saturating_sub(self.events.len() - self.oldest);
        let bytes = self.bytes_max.saturating_sub(self.window_bytes());
        let end = self.bytes_before(self.history);
        let has_room = |first: usize| {
            let begins = first == 0 || self.events[first - 1].revision < self.events[first].revision;
            begins && self.history - first <= slots && end - self.bytes_before(first) <= bytes
        };
        let first = (self.told_from..self.history).find(|first| has_room(*first)).unwrap_or(self.history);
        for event in &mut self.events[first..self.history] {
            event.at = seconds;
        }
        self.oldest = first;
        self.forgotten = if first == self.told_from { self.told } else { self.events[first - 1].revision };
        let of_last = self.events[self.told_from..first].iter().filter(|it| it.revision == self.forgotten);
        if of_last.count() > 1 {
            self.torn = self.forgotten;
        }
        self.history - first
    }

    /// Shards need the events from this index on.
    pub(crate) const fn need(&mut self, from: usize) {
        self.needed = from;
    }

    /// The publisher took a batch.
    pub(crate) fn take(&mut self, revision: u64, at: u64, mut changes: Vec<(usize, Option<State>)>) {
        // Within one revision, unreadable ones come first.
        changes.sort_by_key(|(_, state)| state.as_ref().is_none_or(|state| state.unreadable.is_none()));
        let (first, slots) = (self.events.len(), self.slots);
        if changes.iter().any(|(name, state)| state.is_some() || self.newest(*name).is_some()) {
            self.newest_from = first;
        }
        for (name, state) in changes {
            let before = self.newest(name).cloned();
            let now = state.map(Rc::new);
            let Some(weight) = now.as_ref().or(before.as_ref()).map(|state| state.weight.get()) else {
                continue;
            };
            let gone_unseen = now.is_none() && before.as_ref().is_some_and(|it| it.unreadable.is_some());
            let opaque = now.as_ref().or(before.as_ref()).is_some_and(|it| it.opaque);
            self.messages_own += u64::from(!gone_unseen && !opaque);
            self.spoiled |= now.as_ref().is_some_and(|now| now.unreadable.is_some());
            self.states[name].push((revision, now.clone()));
            let bytes_through = self.bytes_before(self.events.len()) + weight;
            while self.events.len() - self.oldest >= self.slots {
                if self.oldest < self.kept_from() {
                    self.forget_oldest();
                } else {
                    self.slots *= 2;
                }
            }
            self.events.push(Happened { revision, name, before, now, at, bytes_through });
        }
        self.grew = self.slots > slots;
        self.taken = revision;
    }

    pub(crate) fn progress(&mut self, revision: u64) {
        self.taken = self.taken.max(revision);
    }

    pub(crate) fn publish(&mut self) {
        self.published = self.events.len();
        self.visible = self.taken;
        while self.oldest < self.kept_from()
            && (self.window_bytes() > self.bytes_max || self.events.len() - self.oldest > self.events_max)
        {
            self.forget_oldest();
        }
    }

    /// Whether the window has no more events than allowed, or one revision that is larger.
    pub(crate) fn is_within_limits(&self) -> bool {
        self.events.len() - self.oldest <= self.events_max.max(self.events.len() - self.newest_from)
    }

    fn kept_from(&self) -> usize {
        self.needed.min(self.newest_from)
    }

    pub(crate) fn compact(&mut self, revision: u64) {
        let revision = revision.min(self.taken);
        self.forget(revision);
        while self.oldest < self.kept_from() && self.events[self.oldest].revision <= revision {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let revision = self.events[self.oldest].revision;
        self.forget(revision);
        self.oldest += 1;
        if self.events.get(self.oldest).is_some_and(|next| next.revision == revision) {
            self.torn = revision;
        }
    }

    /// Whether a watch cannot begin after this revision.
    pub(crate) const fn is_expired(&self, start: u64) -> bool {
        start < self.forgotten || start > 0 && start == self.torn
    }

    /// Whether a watch after this revision begins in the history before the loaded state.
    pub(crate) fn is_within_history(&self, start: u64) -> bool {
        self.oldest < self.history && start >= self.forgotten && self.after(start) < self.history
    }

    /// Where a watch that begins after a revision continues. If the revision has several events for it, all are due
    /// again: its client may have been cut off between them.
    pub(crate) fn begin_after(&self, wish: &Wish, start: u64) -> usize {
        let cursor = self.after(start);
        let first = self.events.partition_point(|event| event.revision < start);
        let of_start = &self.events[first..cursor];
        let mine = |event: &&Happened| self.verdict(wish, event).is_some();
        let unreadable = of_start.iter().any(|event| self.verdict(wish, event) == Some(Kind::Unreadable));
        // What was not told of the history cannot be due.
        let told = first >= self.told_from;
        let again = of_start.len() > PAGE_SCAN || of_start.iter().filter(mine).count() > 1;
        if told && again && !unreadable && self.visible >= start { first } else { cursor }
    }

    fn bytes_before(&self, event: usize) -> u64 {
        event.checked_sub(1).map_or(0, |last| self.events[last].bytes_through)
    }

    pub(crate) fn window_bytes(&self) -> u64 {
        self.bytes_before(self.events.len()) - self.bytes_before(self.oldest)
    }

    /// Visible events in the window.
    pub(crate) fn window(&self) -> usize {
        self.published.saturating_sub(self.oldest)
    }

    /// The first event that is newer than `revision`.
    pub(crate) fn after(&self, revision: u64) -> usize {
        self.events.partition_point(|event| event.revision <= revision)
    }

    /// The state of one name at a revision.
    fn state_at(&self, name: usize, revision: u64) -> Option<&Rc<State>> {
        let states = &self.states[name];
        let at = states.partition_point(|(since, _)| *since <= revision);
        at.checked_sub(1).and_then(|at| states[at].1.as_ref())
    }

    /// The state at a revision, in key order.
    pub(crate) fn list(&self, kind: usize, revision: u64) -> impl Iterator<Item = &Rc<State>> {
        let names = self.sorted.iter().filter(move |name| self.names[**name].kind == kind);
        names.filter_map(move |name| self.state_at(*name, revision))
    }

    /// What there was in the scope of a wish at a revision, in key order.
    pub(crate) fn covered(&self, wish: &Wish, revision: u64) -> impl Iterator<Item = &Rc<State>> {
        let names = self.sorted.iter().filter(|name| wish.covers(&self.names[**name]));
        names.filter_map(move |name| self.state_at(*name, revision))
    }

    /// What a shard looks at for the state of a wish at a revision, in key order.
    pub(crate) fn looked_at(&self, wish: &Wish, revision: u64) -> impl Iterator<Item = &Rc<State>> {
        let names = self.sorted.iter().filter(|name| wish.looks_at(&self.names[**name]));
        names.filter_map(move |name| self.state_at(*name, revision))
    }

    /// The first unreadable object at a revision, in the scope of a wish, that was so at `since` already.
    pub(crate) fn unreadable_in(&self, wish: &Wish, revision: u64, since: u64) -> Option<&Rc<State>> {
        if !self.spoiled {
            return None;
        }
        self.covered(wish, revision).find(|it| it.unreadable.is_some_and(|began| began <= since))
    }

    pub(crate) fn verdict(&self, wish: &Wish, event: &Happened) -> Option<Kind> {
        let matches =
            |state: &Option<Rc<State>>| state.as_ref().is_some_and(|it| wish.matches(&self.names, it));
        if event.unreadable() {
            return wish.covers(&self.names[event.name]).then_some(Kind::Unreadable);
        }
        match (matches(&event.before), matches(&event.now)) {
            (false, false) => None,
            (false, true) => Some(Kind::Added),
            (true, true) => Some(Kind::Modified),
            (true, false) => Some(Kind::Deleted),
        }
    }

    /// The first visible event from index `from` on that concerns a watch.
    pub(crate) fn next_for(&self, wish: &Wish, from: usize) -> Option<(usize, Kind)> {
        (from..self.published).find_map(|at| Some((at, self.verdict(wish, &self.events[at])?)))
    }
}
