//! What interest names, against what its classes mean.

use super::*;
use crate::codec::Decoder;
use crate::encoding::Encoding;
use crate::event::Times;
use crate::framing::BARE;
use crate::key::ResourceId;
use crate::key_range::KeyRange;
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
        scope: Scope::Objects(Objects { resource: PODS, namespace, name }),
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
        self.ranges.holds_nothing()
            && self.resources.iter().all(|scopes| {
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
    // A few labels that some selector requires, and an object with many: the few are looked up.
    for number in 2..KEYS {
        interest.remove(&class(number), number);
    }
    let many: Vec<(String, String)> = (0..1_000).map(|number| (format!("k{number}"), "v".into())).collect();
    let (looks, found) = look(&mut interest, &event(None, Some(object("a", "x", &many, ["", ""]))));
    assert_eq!((looks, found), (2, vec![0, 1]));
    let room = interest.resources[0].all.by_label.capacity();
    assert!(room < 100, "room for {room} labels is kept for two, and walked with each event");
    (0..2).for_each(|number| interest.remove(&class(number), number));
    assert!(interest.is_empty());
}

fn range(range: KeyRange) -> ClassKey {
    ClassKey { scope: Scope::Keys(range), ..key([None, None], "", "") }
}

/// An event costs what covers its key, and a little for each length of a prefix, however many ranges there are.
#[test]
fn many_ranges_are_not_all_looked_at() {
    const RANGES: u32 = 10_000;
    let labels = [("app", "web")];
    let among = |make: &dyn Fn(u32) -> KeyRange| {
        let mut interest = Interest::new(1, HashSeed::FIXED);
        for number in 0..RANGES {
            interest.add(&range(make(number)), number);
        }
        let (looks, found) = look(&mut interest, &change(&labels, &labels));
        for number in 0..RANGES {
            interest.remove(&range(make(number)), number);
        }
        assert!(interest.is_empty());
        (looks, found.len())
    };
    // The key is `a/x`.
    let (looks, found) = among(&|number| KeyRange::key(PODS, &format!("a/{number}")));
    assert!(looks < 5 && found == 0, "{looks} {found}");
    let (looks, found) =
        among(&|number| KeyRange::prefix(PODS, ["a/", "a/x", "b/", "a/x/y"][number as usize % 4]));
    assert!(looks < 10 && found == 5_000, "{looks} {found}");
    let (looks, found) = among(&|number| KeyRange::prefix(PODS, &format!("{number:05}/")));
    assert!(looks < 5 && found == 0, "{looks} {found}");
    let apart =
        |number: u32| KeyRange::new((PODS, &format!("{number:05}")), Some((PODS, &format!("{number:05}zz"))));
    let (looks, found) = among(&apart);
    assert!(looks < 50 && found == 0, "{looks} {found}");
    let around = |number: u32| match number % 1_000 {
        0 => KeyRange::new((PODS, &format!("a/{number:05}")), Some((PODS, "b"))),
        _ => apart(number),
    };
    let (looks, found) = among(&around);
    assert!(looks < 300 && found == 10, "{looks} {found}");
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
    let class = key(scope, &terms.join(","), &fields.join(","));
    if random.below(3) > 0 { class } else { ClassKey { scope: Scope::Keys(any_range(random)), ..class } }
}

fn any_range(random: &mut Random) -> KeyRange {
    let places = ["", "p", "p/", "p/o1", "p/o2", "q/o", "q/o2", "r/o3", "s"];
    let (one, other) = (random.pick(&places), random.pick(&places));
    let beyond = ResourceId::new(1);
    match random.below(8) {
        0 => KeyRange::key(PODS, one),
        1 | 2 => KeyRange::prefix(PODS, one),
        3 => KeyRange::new((PODS, one), None),
        4 => KeyRange::new((PODS, one), Some((beyond, other))),
        5 => KeyRange::prefix(beyond, one),
        _ => KeyRange::new((PODS, one), Some((PODS, other))),
    }
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
                let those = classes.iter().zip(0..).filter(|(class, _)| class.as_ref().is_some_and(wanted));
                those.map(|(_, number)| number).collect()
            };
            let covering = of(&|class| class.covers(event.key()));
            let meaning = of(&|class| class.covers(event.key()) && class.verdict(&event).is_some());
            let (_, found) = look(&mut interest, &event);
            assert!(found.windows(2).all(|two| two[0] != two[1]), "seed {seed}: twice in {found:?}");
            assert!(meaning.iter().all(|class| found.contains(class)), "seed {seed}: {meaning:?}, {found:?}");
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
