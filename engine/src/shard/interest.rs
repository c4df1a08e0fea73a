//! Which classes may care about an event: by scope, then by what their selectors require of a field or a label.
//!
//! 5,000 watches of `spec.nodeName=X` cost an event two look-ups, not 5,000 verdicts; and 20,000 watches of as many different
//! labels cost it a look-up for each label that its object has. It only narrows: a class it names still asks its selector.
//!
//! A class is filed under one of its requirements, the one that it shares with the fewest others: under the value of a
//! field, each value of a label, or a label's key (`k`, `k>5`, a set that is too long). A selector of nothing but `!=`,
//! `notin` and `!` cannot be filed: its class is a candidate for each event of its scope.

use std::hash::Hash;
use std::sync::Arc;

use crate::attributes::Attributes;
use crate::event::Event;
use crate::hash::{HashSeed, Map};
use crate::key::Key;
use crate::limits::FILED_VALUES_MAX;
use crate::object::Object;
use crate::planted::{Bug, planted};
use crate::resource::FieldId;
use crate::selector::{Required, Selector};
use crate::watcher::Scope;
use crate::watcher::class::ClassKey;

/// One class in a list.
#[derive(Clone, Copy, Debug)]
struct Entry {
    class: u32,
    /// Which of the class's places this is.
    nth: u32,
}

/// Classes in no order, so that one leaves without a search.
type List = Vec<Entry>;

/// Classes by the value that an attribute must have.
type ByValue = Map<Box<str>, List>;

/// Where a class stands.
#[derive(Debug, Default)]
struct Place {
    /// Which of its selector's requirements it is filed under; `None`: it has none that an object must meet.
    filed: Option<usize>,
    /// Its index among all classes of its bucket, then in each list that it is filed in.
    at: Vec<u32>,
    /// The event that named it last.
    named: u64,
}

/// Where each class stands, by its number.
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

    /// Takes a class out of a list, its `nth`. True when the list is empty now.
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
    /// Whatever its value is.
    any: List,
    by_value: ByValue,
}

impl Labelled {
    fn new(seed: HashSeed) -> Self {
        Self { any: List::new(), by_value: Map::with_hasher(seed) }
    }
}

/// What is looked up of an event: the attributes before and after it.
#[derive(Clone, Copy)]
struct Looked<'a> {
    before: Option<&'a Attributes>,
    now: Option<&'a Attributes>,
}

impl<'a> Looked<'a> {
    fn new(event: &'a Event) -> Self {
        let of = |object: &'a Option<Arc<Object>>| object.as_deref().map(Object::attributes);
        let before = if planted(Bug::OldValueNotLookedUp) { None } else { of(&event.before) };
        Self { before, now: of(&event.now) }
    }

    /// Labels of the two together.
    fn labels(self) -> usize {
        let count = |attributes: Option<&Attributes>| attributes.map_or(0, |it| it.labels().len());
        count(self.before) + count(self.now)
    }

    fn label(self, key: &str) -> [Option<&'a str>; 2] {
        [self.before, self.now].map(|attributes| attributes?.label(key))
    }

    fn field(self, id: FieldId) -> [Option<&'a str>; 2] {
        [self.before, self.now].map(|attributes| Some(attributes?.field(id)))
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
    by_label: Map<Box<str>, Labelled>,
}

impl Bucket {
    fn new(seed: HashSeed) -> Self {
        Self {
            seed,
            all: List::new(),
            plain: List::new(),
            by_field: Vec::new(),
            by_label: Map::with_hasher(seed),
        }
    }

    fn add(&mut self, selector: &Selector, class: u32, places: &mut Places) {
        places.of[class as usize] = Place { filed: self.choose(selector), ..Place::default() };
        places.put(&mut self.all, class);
        match required(selector, places.of[class as usize].filed) {
            None => places.put(&mut self.plain, class),
            Some(Required::Field(id, value)) => {
                let at = self.by_field.iter().position(|(known, _)| *known == id).unwrap_or_else(|| {
                    self.by_field.push((id, Map::with_hasher(self.seed)));
                    self.by_field.len() - 1
                });
                places.put(self.by_field[at].1.entry(value.into()).or_default(), class);
            }
            Some(Required::Label(key, values)) if values.len() <= FILED_VALUES_MAX => {
                let seed = self.seed;
                let labelled = self.by_label.entry(key.into()).or_insert_with(|| Labelled::new(seed));
                for value in values {
                    places.put(labelled.by_value.entry(value.clone()).or_default(), class);
                }
            }
            Some(Required::Label(key, _) | Required::Key(key)) => {
                let seed = self.seed;
                let labelled = self.by_label.entry(key.into()).or_insert_with(|| Labelled::new(seed));
                places.put(&mut labelled.any, class);
            }
        }
    }

    /// The requirement with the fewest classes under it: those are asked when it is looked up.
    fn choose(&self, selector: &Selector) -> Option<usize> {
        let under = |values: &ByValue, value: &str| values.get(value).map_or(0, Vec::len);
        let beside = |required: &Required<'_>| match *required {
            Required::Field(id, value) => {
                let values = self.by_field.iter().find(|(known, _)| *known == id);
                (false, values.map_or(0, |(_, values)| under(values, value)))
            }
            Required::Label(key, values) if values.len() <= FILED_VALUES_MAX => {
                let labelled = self.by_label.get(key);
                let each = values.iter().map(|value| labelled.map_or(0, |it| under(&it.by_value, value)));
                (false, values.len() - 1 + each.sum::<usize>())
            }
            // Any value of the key finds these: only where there is nothing better.
            Required::Label(key, _) | Required::Key(key) => {
                (true, self.by_label.get(key).map_or(0, |labelled| labelled.any.len()))
            }
        };
        let least = selector.required().enumerate().min_by_key(|(_, required)| beside(required));
        least.map(|(nth, _)| nth)
    }

    /// Takes a class out. True when the bucket is empty now.
    fn remove(&mut self, selector: &Selector, class: u32, places: &mut Places) -> bool {
        match required(selector, places.of[class as usize].filed) {
            None => drop(places.take(&mut self.plain, class, 1)),
            Some(Required::Field(id, value)) => {
                if let Some(at) = self.by_field.iter().position(|(known, _)| *known == id) {
                    let values = &mut self.by_field[at].1;
                    if values.get_mut(value).is_some_and(|list| places.take(list, class, 1)) {
                        remove(values, value);
                    }
                    if values.is_empty() {
                        self.by_field.swap_remove(at);
                    }
                }
            }
            Some(Required::Label(key, values)) => {
                if let Some(labelled) = self.by_label.get_mut(key) {
                    if values.len() > FILED_VALUES_MAX {
                        places.take(&mut labelled.any, class, 1);
                    } else {
                        for (value, nth) in values.iter().zip(1..) {
                            let list = labelled.by_value.get_mut(value);
                            if list.is_some_and(|list| places.take(list, class, nth)) {
                                remove(&mut labelled.by_value, value);
                            }
                        }
                    }
                }
                self.let_go(key);
            }
            Some(Required::Key(key)) => {
                if let Some(labelled) = self.by_label.get_mut(key) {
                    places.take(&mut labelled.any, class, 1);
                }
                self.let_go(key);
            }
        }
        places.take(&mut self.all, class, 0)
    }

    /// Forgets a label that no class is filed under any more.
    fn let_go(&mut self, key: &str) {
        if self.by_label.get(key).is_some_and(|it| it.any.is_empty() && it.by_value.is_empty()) {
            remove(&mut self.by_label, key);
        }
    }

    /// Appends the classes that an event may mean something to, each once. How many attributes it looked up.
    fn candidates(&self, looked: Looked<'_>, places: &mut Places, out: &mut Vec<u32>) -> usize {
        out.extend(self.plain.iter().map(|entry| entry.class));
        for (id, values) in &self.by_field {
            either(values, looked.field(*id), places, out);
        }
        // Whichever is shorter: the labels of the object, or those that somebody selects by.
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
    fn candidates(&self, values: [Option<&str>; 2], places: &mut Places, out: &mut Vec<u32>) {
        if values != [None, None] {
            out.extend(self.any.iter().map(|entry| entry.class));
            either(&self.by_value, values, places, out);
        }
    }
}

/// Appends the classes under the value before or the value now, each once.
fn either(values: &ByValue, [before, now]: [Option<&str>; 2], places: &mut Places, out: &mut Vec<u32>) {
    let now_list = now.and_then(|value| values.get(value));
    let before_list = before.filter(|_| before != now).and_then(|value| values.get(value));
    match (before_list, now_list) {
        (None, None) => {}
        (Some(list), None) | (None, Some(list)) => out.extend(list.iter().map(|entry| entry.class)),
        (Some(before), Some(now)) => {
            // A set may hold both values: its class is named once.
            for entry in now {
                places.of[entry.class as usize].named = places.events;
                out.push(entry.class);
            }
            let others = before.iter().filter(|it| places.of[it.class as usize].named != places.events);
            out.extend(others.map(|entry| entry.class));
        }
    }
}

/// Takes an entry out of a map, and gives the map's room back when it is mostly empty: walking a map costs its room.
fn remove<K: Hash + Eq + std::borrow::Borrow<str>, V>(map: &mut Map<K, V>, key: &str) {
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

    /// The classes of one scope, none yet perhaps.
    fn bucket(&mut self, scope: &Scope) -> &mut Bucket {
        let seed = self.all.seed;
        let (map, at): (_, Box<str>) = match (&scope.namespace, &scope.name) {
            (None, None) => return &mut self.all,
            (Some(namespace), None) => (&mut self.by_namespace, namespace.clone()),
            (None, Some(name)) => (&mut self.by_name, name.clone()),
            (Some(namespace), Some(name)) => (&mut self.by_path, format!("{namespace}/{name}").into()),
        };
        map.entry(at).or_insert_with(|| Bucket::new(seed))
    }

    /// The scopes that cover a key.
    fn covering(&self, key: &Key) -> impl Iterator<Item = &Bucket> {
        let namespace = key.namespace();
        let found = [
            Some(&self.all),
            namespace.and_then(|namespace| self.by_namespace.get(namespace)),
            self.by_name.get(key.name()),
            namespace.and_then(|_| self.by_path.get(key.path())),
        ];
        found.into_iter().flatten()
    }
}

/// From an event to the classes that may care.
#[derive(Debug)]
pub(crate) struct Interest {
    /// By row of the schema.
    resources: Vec<Scopes>,
    places: Places,
}

impl Interest {
    pub(crate) fn new(resources: usize, seed: HashSeed) -> Self {
        let resources = std::iter::repeat_with(|| Scopes::new(seed)).take(resources).collect();
        Self { resources, places: Places::default() }
    }

    pub(crate) fn add(&mut self, key: &ClassKey, class: u32) {
        let known = &mut self.places.of;
        known.resize_with(known.len().max(class as usize + 1), Place::default);
        let bucket = self.resources[key.scope.resource.row()].bucket(&key.scope);
        bucket.add(&key.selector, class, &mut self.places);
    }

    pub(crate) fn remove(&mut self, key: &ClassKey, class: u32) {
        let places = &mut self.places;
        let scopes = &mut self.resources[key.scope.resource.row()];
        let (map, at): (_, Box<str>) = match (&key.scope.namespace, &key.scope.name) {
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

    /// Replaces `out` by the classes that may care, each once. How many attributes it looked up for that.
    pub(crate) fn candidates(&mut self, event: &Event, out: &mut Vec<u32>) -> usize {
        out.clear();
        self.places.events += 1;
        let (key, looked) = (event.key(), Looked::new(event));
        let Some(scopes) = self.resources.get(key.resource().row()) else { return 0 };
        scopes.covering(key).map(|bucket| bucket.candidates(looked, &mut self.places, out)).sum()
    }

    /// Replaces `out` by all classes whose scope covers a key, whatever they select, each once.
    pub(crate) fn covering(&self, key: &Key, out: &mut Vec<u32>) {
        out.clear();
        let scopes = self.resources.get(key.resource().row());
        for bucket in scopes.into_iter().flat_map(|scopes| scopes.covering(key)) {
            out.extend(bucket.all.iter().map(|entry| entry.class));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Decoder;
    use crate::encoding::Encoding;
    use crate::event::Times;
    use crate::framing::BARE;
    use crate::key::ResourceId;
    use crate::resource::{Field, Resource};
    use crate::revision::{Position, Revision};
    use crate::selector::{FieldSelector, LabelSelector};
    use crate::tick::Tick;

    const PODS: ResourceId = ResourceId::new(0);

    fn pod() -> Resource {
        Resource::new("v1", "Pod", true, vec![Field::at("spec.nodeName"), Field::at("status.phase")])
    }

    fn key(scope: [Option<&str>; 2], labels: &str, fields: &str) -> ClassKey {
        let [namespace, name] = scope.map(|part| part.map(Into::into));
        let fields = FieldSelector::parse(fields, &pod()).expect("a selector");
        let labels = LabelSelector::parse(labels).expect("a selector");
        ClassKey {
            scope: Scope { resource: PODS, namespace, name },
            selector: Selector::new(labels, fields),
            encoding: Encoding::Json,
            framing: &BARE,
            opened: true,
        }
    }

    fn object(namespace: &str, name: &str, labels: &[(String, String)], fields: [&str; 2]) -> Arc<Object> {
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key:?}:{value:?}")).collect();
        let value = format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"{namespace}","labels":{{{}}}}},"spec":{{"nodeName":"{}"}},"status":{{"phase":"{}"}}}}"#,
            labels.join(","),
            fields[0],
            fields[1],
        );
        let key = Key::new(PODS, Some(namespace), name);
        Arc::new(Object::read(&mut Decoder::new(), &pod(), key, &value.into(), Revision::new(1)))
    }

    fn event(before: Option<Arc<Object>>, now: Option<Arc<Object>>) -> Event {
        let times = Times { as_of_seconds: 0, arrived: Tick::ZERO };
        Event::new(Position::new(0), Revision::new(1), before, now, times, 0)
    }

    /// An event of an object with these labels before and now.
    fn change(before: &[(&str, &str)], now: &[(&str, &str)]) -> Event {
        let own = |labels: &[(&str, &str)]| {
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<Vec<_>>()
        };
        let state = |labels| Some(object("a", "x", &own(labels), ["n", "Running"]));
        event(state(before), state(now))
    }

    /// What an event costs, and the classes that it names, in order.
    fn look(interest: &mut Interest, event: &Event) -> (usize, Vec<u32>) {
        let mut out = Vec::new();
        let looks = interest.candidates(event, &mut out);
        out.sort_unstable();
        (looks, out)
    }

    impl Bucket {
        fn is_empty(&self) -> bool {
            let Self { seed: _, all, plain, by_field, by_label } = self;
            all.is_empty() && plain.is_empty() && by_field.is_empty() && by_label.is_empty()
        }
    }

    impl Interest {
        fn is_empty(&self) -> bool {
            self.resources.iter().all(|scopes| {
                let maps = [&scopes.by_namespace, &scopes.by_name, &scopes.by_path];
                scopes.all.is_empty() && maps.iter().all(|map| map.is_empty())
            })
        }
    }

    #[test]
    fn an_event_costs_its_own_labels_however_many_are_selected_by() {
        const KEYS: u32 = 20_000;
        let mut interest = Interest::new(1, HashSeed::FIXED);
        let class = |number: u32| key([None, None], &format!("k{number}=v"), "");
        for number in 0..KEYS {
            interest.add(&class(number), number);
        }
        let labels = [("app", "web"), ("k17", "v"), ("k18", "w"), ("k19", "v")];
        let (looks, found) = look(&mut interest, &change(&labels, &labels[..3]));
        assert_eq!(found, [17, 19]);
        assert!(looks <= 7, "{looks} attributes were looked up of an event that has seven labels");
        // A few labels that somebody selects by, and an object with many: the few are looked up.
        for number in 2..KEYS {
            interest.remove(&class(number), number);
        }
        let many: Vec<(String, String)> =
            (0..1_000).map(|number| (format!("k{number}"), "v".into())).collect();
        let (looks, found) = look(&mut interest, &event(None, Some(object("a", "x", &many, ["", ""]))));
        assert_eq!((looks, found), (2, vec![0, 1]));
        let room = interest.resources[0].all.by_label.capacity();
        assert!(room < 100, "room for {room} labels is kept for two, and walked with each event");
        (0..2).for_each(|number| interest.remove(&class(number), number));
        assert!(interest.is_empty());
    }

    /// Whoever selects by several things is found by the one that fewest others have.
    #[test]
    fn a_common_requirement_finds_nobody_who_has_a_rarer_one() {
        let mut interest = Interest::new(1, HashSeed::FIXED);
        for number in 0..1_000 {
            interest.add(&key([None, None], &format!("app=web,hash=h{number}"), ""), number);
        }
        let labels = [("app", "web"), ("hash", "h7")];
        let (_, found) = look(&mut interest, &change(&labels, &labels));
        assert!(found.contains(&7) && found.len() <= 2, "{found:?}");
    }

    #[test]
    fn sets_and_keys_are_looked_up_and_what_only_excludes_is_not() {
        let long: Vec<String> = (0..=FILED_VALUES_MAX).map(|number| format!("v{number}")).collect();
        let rows = [
            ("k in (a,b)", ""),
            ("k", ""),
            ("k>5", ""),
            (&*format!("k in ({})", long.join(",")), ""),
            ("k!=a", ""),
            ("!k", ""),
            ("", "spec.nodeName=n"),
            ("", "spec.nodeName!=n"),
            ("j,k=a", ""),
        ];
        let mut interest = Interest::new(1, HashSeed::FIXED);
        for ((labels, fields), number) in rows.iter().zip(0..) {
            interest.add(&key([None, None], labels, fields), number);
        }
        // What only excludes, and the field.
        let always = [4, 5, 6, 7];
        let mut named = |before: &[(&str, &str)], now: &[(&str, &str)]| {
            let (_, mut found) = look(&mut interest, &change(before, now));
            assert!(always.iter().all(|class| found.contains(class)), "{found:?}");
            found.retain(|class| !always.contains(class));
            found
        };
        assert_eq!(named(&[], &[]), []);
        assert_eq!(named(&[], &[("k", "b")]), [0, 1, 2, 3]);
        assert_eq!(named(&[("k", "a")], &[("k", "b")]), [0, 1, 2, 3, 8], "a set with both is named once");
        assert_eq!(named(&[("k", "c")], &[]), [1, 2, 3]);
        assert_eq!(named(&[("j", "")], &[]), []);
    }

    /// Numbers from a seed (xorshift).
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 % n as u64).expect("small")
        }

        fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
            of[self.below(of.len())]
        }

        fn maybe<'a>(&mut self, of: &[&'a str]) -> Option<&'a str> {
            (self.below(2) == 0).then(|| self.pick(of))
        }
    }

    const KEYS: [&str; 3] = ["a", "b", "c.d/e"];
    const VALUES: [&str; 4] = ["", "x", "y", "7"];
    const NODES: [&str; 3] = ["", "n1", "n2"];

    fn any_class(random: &mut Random) -> ClassKey {
        let long: Vec<String> = (0..FILED_VALUES_MAX + 5).map(|number| format!("v{number}")).collect();
        let terms: Vec<String> = (0..random.below(4))
            .map(|_| {
                let (key, value, other) = (random.pick(&KEYS), random.pick(&VALUES), random.pick(&VALUES));
                match random.below(9) {
                    0 | 1 => format!("{key}={value}"),
                    2 | 3 => format!("{key} in ({value},{other})"),
                    4 => format!("{key} in ({value},{})", long.join(",")),
                    5 => format!("{key} notin ({value},{other})"),
                    6 => key.to_owned(),
                    7 => format!("!{key}"),
                    _ => format!("{key}>{}", random.below(9)),
                }
            })
            .collect();
        let fields: Vec<String> = (0..random.below(3))
            .map(|_| {
                let field = random.pick(&["spec.nodeName", "status.phase"]);
                format!("{field}{}{}", random.pick(&["=", "!="]), random.pick(&NODES))
            })
            .collect();
        let scope = [random.maybe(&["p", "q"]), random.maybe(&["o1", "o2"])];
        key(scope, &terms.join(","), &fields.join(","))
    }

    fn any_state(random: &mut Random, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let mut labels = Vec::new();
        for key in KEYS.into_iter().chain(["z1", "z2"]) {
            if random.below(3) > 0 {
                labels.push((key.to_owned(), random.pick(&VALUES).to_owned()));
            }
        }
        let fields = [random.pick(&NODES), random.pick(&NODES)];
        (random.below(4) > 0).then(|| object(namespace, name, &labels, fields))
    }

    #[test]
    fn whoever_has_a_verdict_is_named_once_while_classes_come_and_go() {
        let (mut named, mut meant) = (0, 0);
        for seed in 1..=150 {
            let random = &mut Random(0x9e37_79b9_7f4a_7c15 ^ (seed << 20));
            let mut interest = Interest::new(1, HashSeed::FIXED);
            let mut classes: Vec<Option<ClassKey>> = vec![None; 40];
            for _ in 0..200 {
                let at = random.below(classes.len());
                let number = index(at);
                if let Some(old) = classes[at].take() {
                    interest.remove(&old, number);
                }
                if random.below(3) > 0 {
                    let class = any_class(random);
                    interest.add(&class, number);
                    classes[at] = Some(class);
                }
                let (namespace, name) = (random.pick(&["p", "q", "r"]), random.pick(&["o1", "o2", "o3"]));
                let (before, now) = (any_state(random, namespace, name), any_state(random, namespace, name));
                if before.is_none() && now.is_none() {
                    continue;
                }
                let event = event(before, now);
                let of = |wanted: &dyn Fn(&ClassKey) -> bool| -> Vec<u32> {
                    let those =
                        classes.iter().zip(0..).filter(|(class, _)| class.as_ref().is_some_and(wanted));
                    those.map(|(_, number)| number).collect()
                };
                let covering = of(&|class| class.covers(event.key()));
                let meaning = of(&|class| class.covers(event.key()) && class.verdict(&event).is_some());
                let (_, found) = look(&mut interest, &event);
                assert!(found.windows(2).all(|two| two[0] != two[1]), "seed {seed}: twice in {found:?}");
                assert!(
                    meaning.iter().all(|class| found.contains(class)),
                    "seed {seed}: {meaning:?}, {found:?}"
                );
                assert!(found.iter().all(|class| covering.contains(class)), "seed {seed}: {found:?}");
                let mut all = Vec::new();
                interest.covering(event.key(), &mut all);
                all.sort_unstable();
                assert_eq!(all, covering, "seed {seed}");
                named += found.len();
                meant += meaning.len();
            }
            for (number, class) in (0..).zip(&classes) {
                if let Some(class) = class {
                    interest.remove(class, number);
                }
            }
            assert!(interest.is_empty(), "seed {seed}");
        }
        assert!(meant > 10_000 && named < meant * 3, "{named} were named, {meant} had a verdict");
    }
}
