//! Which classes an event may match: by scope, then by a field or label that their selectors require.
//!
//! 5,000 watches of `spec.nodeName=X` cost an event two look-ups, not 5,000 verdicts; and 20,000 watches of as many different
//! labels cost it a look-up for each label that its object has. It only narrows: a class that it returns still evaluates its
//! selector. Scopes that are ranges of keys are in `ranges`; while there are none they cost an event a branch.
//!
//! A class is filed under one of its requirements, the one that it shares with the fewest others: under the value of a
//! field, each value of a label, or a label's key (`k`, `k>5`, a set that is too long). A selector of only `!=`,
//! `notin` and `!` cannot be filed: its class is a candidate for each event of its scope.

mod ranges;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use crate::attributes::Attributes;
use crate::event::Event;
use crate::failpoints::{Failpoint, is_on};
use crate::hash::{HashSeed, Map, TextMap, TextSeed};
use crate::key::Key;
use crate::limits::FILED_VALUES_MAX;
use crate::object::Object;
use crate::resource::FieldId;
use crate::scope::{Objects, Scope};
use crate::selector::{Required, Selector};
use crate::watcher::class::ClassKey;
use ranges::Ranges;

/// One class in a list.
#[derive(Clone, Copy, Debug)]
struct Entry {
    class: u32,
    /// The index of this entry among those of the class.
    nth: u32,
}

/// Classes in arbitrary order, so that one can be removed without a search.
type List = Vec<Entry>;

/// Classes by the required value of an attribute.
type ByValue = TextMap<List>;

/// Where a class is filed.
#[derive(Debug, Default)]
struct Place {
    /// The requirement of its selector that it is filed under; `None`: none requires something of an object.
    filed: Option<usize>,
    /// Its index among all classes of its bucket, then in each list that it is filed in.
    at: Vec<u32>,
    /// The last event for which it was returned.
    named: u64,
}

/// Where each class is filed, by its number.
#[derive(Debug, Default)]
struct Places {
    of: Vec<Place>,
    /// Events that were looked up so far.
    events: u64,
}

impl Places {
    fn put(&mut self, list: &mut List, class: u32) {
        let place = &mut self.of[class as usize];
        list.push(Entry { class, nth: index(place.at.len()) });
        place.at.push(index(list.len() - 1));
    }

    /// Removes a class from a list, its `nth` entry. True when the list is empty now.
    fn take(&mut self, list: &mut List, class: u32, nth: usize) -> bool {
        let at = self.of[class as usize].at[nth];
        list.swap_remove(at as usize);
        if let Some(moved) = list.get(at as usize) {
            self.of[moved.class as usize].at[moved.nth as usize] = at;
        }
        list.is_empty()
    }
}

fn index(at: usize) -> u32 {
    u32::try_from(at).expect("a shard has fewer than 2^32 watchers")
}

/// The classes that are filed under one label.
#[derive(Debug)]
struct Labelled {
    /// For any value of the label.
    any: List,
    by_value: ByValue,
}

impl Labelled {
    fn new(seed: HashSeed) -> Self {
        Self { any: List::new(), by_value: TextMap::with_hasher(TextSeed(seed)) }
    }
}

/// The attributes of an event for look-ups: before and after it.
#[derive(Clone, Copy)]
struct Looked<'a> {
    before: Option<Attributes<'a>>,
    now: Option<Attributes<'a>>,
}

impl<'a> Looked<'a> {
    fn new(event: &'a Event) -> Self {
        let of = |object: &'a Option<Arc<Object>>| object.as_deref().map(Object::attributes);
        let before = if is_on(Failpoint::OldValueNotLookedUp) { None } else { of(&event.before) };
        Self { before, now: of(&event.now) }
    }

    /// The number of labels of both together.
    fn labels(self) -> usize {
        let count = |attributes: Option<Attributes<'_>>| attributes.map_or(0, Attributes::labels_len);
        count(self.before) + count(self.now)
    }

    fn label(self, key: &[u8]) -> [Option<&'a [u8]>; 2] {
        [self.before.and_then(|before| before.label(key)), self.now.and_then(|now| now.label(key))]
    }

    fn field(self, id: FieldId) -> [Option<&'a [u8]>; 2] {
        [self.before.map(|before| before.field(id)), self.now.map(|now| now.field(id))]
    }
}

/// The classes of one scope.
#[derive(Debug)]
struct Bucket {
    seed: HashSeed,
    all: List,
    /// Those that are not filed.
    plain: List,
    by_field: Vec<(FieldId, ByValue)>,
    by_label: TextMap<Labelled>,
}

impl Bucket {
    fn new(seed: HashSeed) -> Self {
        Self {
            seed,
            all: List::new(),
            plain: List::new(),
            by_field: Vec::new(),
            by_label: TextMap::with_hasher(TextSeed(seed)),
        }
    }

    fn add(&mut self, selector: &Selector, class: u32, places: &mut Places) {
        places.of[class as usize] = Place { filed: self.choose(selector), ..Place::default() };
        places.put(&mut self.all, class);
        match required(selector, places.of[class as usize].filed) {
            None => places.put(&mut self.plain, class),
            Some(Required::Field(id, value)) => {
                let at = self.by_field.iter().position(|(known, _)| *known == id).unwrap_or_else(|| {
                    self.by_field.push((id, ByValue::with_hasher(TextSeed(self.seed))));
                    self.by_field.len() - 1
                });
                places.put(self.by_field[at].1.entry(value.as_bytes().into()).or_default(), class);
            }
            Some(Required::Label(key, values)) if values.len() <= FILED_VALUES_MAX => {
                let seed = self.seed;
                let labelled =
                    self.by_label.entry(key.as_bytes().into()).or_insert_with(|| Labelled::new(seed));
                for value in values {
                    places.put(labelled.by_value.entry(value.as_bytes().into()).or_default(), class);
                }
            }
            Some(Required::Label(key, _) | Required::Key(key)) => {
                let seed = self.seed;
                let labelled =
                    self.by_label.entry(key.as_bytes().into()).or_insert_with(|| Labelled::new(seed));
                places.put(&mut labelled.any, class);
            }
        }
    }

    /// The requirement with the fewest classes under it: those are evaluated when it is found.
    fn choose(&self, selector: &Selector) -> Option<usize> {
        let under = |values: &ByValue, value: &str| values.get(value.as_bytes()).map_or(0, Vec::len);
        let beside = |required: &Required<'_>| match *required {
            Required::Field(id, value) => {
                let values = self.by_field.iter().find(|(known, _)| *known == id);
                (false, values.map_or(0, |(_, values)| under(values, value)))
            }
            Required::Label(key, values) if values.len() <= FILED_VALUES_MAX => {
                let labelled = self.by_label.get(key.as_bytes());
                let each = values.iter().map(|value| labelled.map_or(0, |it| under(&it.by_value, value)));
                (false, values.len() - 1 + each.sum::<usize>())
            }
            // Any value of the key finds these: chosen only if there is nothing better.
            Required::Label(key, _) | Required::Key(key) => {
                (true, self.by_label.get(key.as_bytes()).map_or(0, |labelled| labelled.any.len()))
            }
        };
        let least = selector.required().enumerate().min_by_key(|(_, required)| beside(required));
        least.map(|(nth, _)| nth)
    }

    /// Removes a class. True when the bucket is empty now.
    fn remove(&mut self, selector: &Selector, class: u32, places: &mut Places) -> bool {
        match required(selector, places.of[class as usize].filed) {
            None => drop(places.take(&mut self.plain, class, 1)),
            Some(Required::Field(id, value)) => {
                if let Some(at) = self.by_field.iter().position(|(known, _)| *known == id) {
                    let values = &mut self.by_field[at].1;
                    if values.get_mut(value.as_bytes()).is_some_and(|list| places.take(list, class, 1)) {
                        remove(values, value.as_bytes());
                    }
                    if values.is_empty() {
                        self.by_field.swap_remove(at);
                    }
                }
            }
            Some(Required::Label(key, values)) => {
                if let Some(labelled) = self.by_label.get_mut(key.as_bytes()) {
                    if values.len() > FILED_VALUES_MAX {
                        places.take(&mut labelled.any, class, 1);
                    } else {
                        for (value, nth) in values.iter().zip(1..) {
                            let list = labelled.by_value.get_mut(value.as_bytes());
                            if list.is_some_and(|list| places.take(list, class, nth)) {
                                remove(&mut labelled.by_value, value.as_bytes());
                            }
                        }
                    }
                }
                self.let_go(key);
            }
            Some(Required::Key(key)) => {
                if let Some(labelled) = self.by_label.get_mut(key.as_bytes()) {
                    places.take(&mut labelled.any, class, 1);
                }
                self.let_go(key);
            }
        }
        places.take(&mut self.all, class, 0)
    }

    /// Removes a label that no class is filed under any more.
    fn let_go(&mut self, key: &str) {
        if self.by_label.get(key.as_bytes()).is_some_and(|it| it.any.is_empty() && it.by_value.is_empty()) {
            remove(&mut self.by_label, key.as_bytes());
        }
    }

    /// Appends the classes that an event may match, each once. Returns how many attributes it looked up.
    fn candidates(&self, looked: Looked<'_>, places: &mut Places, out: &mut Vec<u32>) -> usize {
        out.extend(self.plain.iter().map(|entry| entry.class));
        for (id, values) in &self.by_field {
            either(values, looked.field(*id), places, out);
        }
        if self.by_label.is_empty() {
            return self.by_field.len();
        }
        // The shorter of the two: the labels of the object, or those that some selector requires.
        let labels = looked.labels().min(self.by_label.len());
        if labels == self.by_label.len() {
            for (key, labelled) in &self.by_label {
                labelled.candidates(looked.label(key), places, out);
            }
        } else {
            let now = looked.now.into_iter().flat_map(Attributes::labels);
            let gone = looked.before.into_iter().flat_map(Attributes::labels);
            let gone = gone.filter(|(key, _)| looked.now.is_none_or(|now| now.label(key).is_none()));
            for (key, _) in now.chain(gone) {
                if let Some(labelled) = self.by_label.get(key) {
                    labelled.candidates(looked.label(key), places, out);
                }
            }
        }
        self.by_field.len() + labels
    }
}

impl Labelled {
    fn candidates(&self, values: [Option<&[u8]>; 2], places: &mut Places, out: &mut Vec<u32>) {
        if values != [None, None] {
            out.extend(self.any.iter().map(|entry| entry.class));
            either(&self.by_value, values, places, out);
        }
    }
}

/// Appends the classes under the old or the new value, each once.
fn either(values: &ByValue, [before, now]: [Option<&[u8]>; 2], places: &mut Places, out: &mut Vec<u32>) {
    let now_list = now.and_then(|value| values.get(value));
    let before_list = before.filter(|_| before != now).and_then(|value| values.get(value));
    match (before_list, now_list) {
        (None, None) => {}
        (Some(list), None) | (None, Some(list)) => out.extend(list.iter().map(|entry| entry.class)),
        (Some(before), Some(now)) => {
            // A set may hold both values: its class is returned once.
            for entry in now {
                places.of[entry.class as usize].named = places.events;
                out.push(entry.class);
            }
            let others = before.iter().filter(|it| places.of[it.class as usize].named != places.events);
            out.extend(others.map(|entry| entry.class));
        }
    }
}

/// Removes an entry from a map, and shrinks the map when it is mostly empty: iterating costs its capacity.
fn remove<K, V, S, Q>(map: &mut HashMap<K, V, S>, key: &Q)
where
    K: Hash + Eq + std::borrow::Borrow<Q>,
    Q: Hash + Eq + ?Sized,
    S: BuildHasher,
{
    map.remove(key);
    if map.capacity() > 64 && map.len() < map.capacity() / 8 {
        map.shrink_to(map.len() * 2);
    }
}

fn required(selector: &Selector, filed: Option<usize>) -> Option<Required<'_>> {
    filed.and_then(|nth| selector.required().nth(nth))
}

/// The scopes of one resource.
#[derive(Debug)]
struct Scopes {
    all: Bucket,
    by_namespace: Map<Box<str>, Bucket>,
    by_name: Map<Box<str>, Bucket>,
    /// By `namespace/name`.
    by_path: Map<Box<str>, Bucket>,
}

impl Scopes {
    fn new(seed: HashSeed) -> Self {
        Self {
            all: Bucket::new(seed),
            by_namespace: Map::with_hasher(seed),
            by_name: Map::with_hasher(seed),
            by_path: Map::with_hasher(seed),
        }
    }

    /// The classes of one scope; there may be none.
    fn bucket(&mut self, scope: &Objects) -> &mut Bucket {
        let seed = self.all.seed;
        let (map, at): (_, Box<str>) = match (&scope.namespace, &scope.name) {
            (None, None) => return &mut self.all,
            (Some(namespace), None) => (&mut self.by_namespace, namespace.clone()),
            (None, Some(name)) => (&mut self.by_name, name.clone()),
            (Some(namespace), Some(name)) => (&mut self.by_path, format!("{namespace}/{name}").into()),
        };
        map.entry(at).or_insert_with(|| Bucket::new(seed))
    }

    /// Visits the scopes that cover a key.
    #[inline]
    fn covering(&self, key: &Key, mut visit: impl FnMut(&Bucket)) {
        let namespace = key.namespace();
        visit(&self.all);
        if let Some(bucket) = namespace.and_then(|namespace| self.by_namespace.get(namespace)) {
            visit(bucket);
        }
        if let Some(bucket) = self.by_name.get(key.name()) {
            visit(bucket);
        }
        if let Some(bucket) = namespace.and_then(|_| self.by_path.get(key.path())) {
            visit(bucket);
        }
    }
}

/// From an event to the classes that it may match.
#[derive(Debug)]
pub(crate) struct Interest {
    /// By row of the schema.
    resources: Vec<Scopes>,
    seed: HashSeed,
    ranges: Ranges,
    places: Places,
}

impl Interest {
    pub(crate) fn new(resources: usize, seed: HashSeed) -> Self {
        let scopes = std::iter::repeat_with(|| Scopes::new(seed)).take(resources).collect();
        Self { resources: scopes, seed, ranges: Ranges::new(resources, seed), places: Places::default() }
    }

    pub(crate) fn add(&mut self, key: &ClassKey, class: u32) {
        let known = &mut self.places.of;
        known.resize_with(known.len().max(class as usize + 1), Place::default);
        match &key.scope {
            Scope::Objects(scope) => {
                let row = scope.resource.row();
                if self.resources.len() <= row {
                    // The resource was added after the shard began.
                    self.resources.resize_with(row + 1, || Scopes::new(self.seed));
                }
                let bucket = self.resources[row].bucket(scope);
                bucket.add(&key.selector, class, &mut self.places);
            }
            Scope::Keys(range) => self.ranges.add(range, &key.selector, class, &mut self.places),
        }
    }

    pub(crate) fn remove(&mut self, key: &ClassKey, class: u32) {
        let places = &mut self.places;
        let scope = match &key.scope {
            Scope::Objects(scope) => scope,
            Scope::Keys(range) => return self.ranges.remove(range, &key.selector, class, places),
        };
        let scopes = &mut self.resources[scope.resource.row()];
        let (map, at): (_, Box<str>) = match (&scope.namespace, &scope.name) {
            (None, None) => {
                scopes.all.remove(&key.selector, class, places);
                return;
            }
            (Some(namespace), None) => (&mut scopes.by_namespace, namespace.clone()),
            (None, Some(name)) => (&mut scopes.by_name, name.clone()),
            (Some(namespace), Some(name)) => (&mut scopes.by_path, format!("{namespace}/{name}").into()),
        };
        if map.get_mut(&at).is_some_and(|bucket| bucket.remove(&key.selector, class, places)) {
            remove(map, &at);
        }
    }

    /// Replaces `out` by the classes that an event may match, each once. Returns the number of look-ups.
    #[inline]
    pub(crate) fn candidates(&mut self, event: &Event, out: &mut Vec<u32>) -> usize {
        let looks = self.candidates_of_scopes(event, out);
        if self.ranges.is_empty() { looks } else { looks + self.candidates_of_ranges(event, out) }
    }

    #[inline(never)]
    fn candidates_of_scopes(&mut self, event: &Event, out: &mut Vec<u32>) -> usize {
        out.clear();
        self.places.events += 1;
        let (key, looked) = (event.key(), Looked::new(event));
        let Some(scopes) = self.resources.get(key.resource().row()) else { return 0 };
        let mut looks = 0;
        scopes.covering(key, |bucket| looks += bucket.candidates(looked, &mut self.places, out));
        looks
    }

    #[inline(never)]
    fn candidates_of_ranges(&mut self, event: &Event, out: &mut Vec<u32>) -> usize {
        let (looked, places, mut within) = (Looked::new(event), &mut self.places, 0);
        let found =
            self.ranges.covering(event.key(), |bucket| within += bucket.candidates(looked, places, out));
        found + within
    }

    /// Replaces `out` by all classes whose scope covers a key, whatever they select, each once.
    pub(crate) fn covering(&mut self, key: &Key, out: &mut Vec<u32>) {
        out.clear();
        let mut visit = |bucket: &Bucket| out.extend(bucket.all.iter().map(|entry| entry.class));
        if let Some(scopes) = self.resources.get(key.resource().row()) {
            scopes.covering(key, &mut visit);
        }
        if !self.ranges.is_empty() {
            self.ranges.covering(key, visit);
        }
    }
}

#[cfg(test)]
mod tests;
