//! Selectors against a slow reference, over pseudo-random texts and objects.
//!
//! The reference shares no code with the parser: it splits a text into tokens and the tokens at outer commas, compares
//! each piece with the few shapes that a requirement has, and evaluates by walking plain lists. Every failure prints
//! its seed; `XorShift::new(seed)` replays it.

#![allow(clippy::unwrap_used)]

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{FieldSelector, LabelSelector, Required, Selector};
use crate::attributes::{AttributeTexts, OwnAttributes};
use crate::resource::{Field, FieldId, Resource};

struct XorShift(u64);

impl XorShift {
    fn new(seed: u64) -> Self {
        // Spread the small seeds: xorshift stays small for a while, and stays at zero for ever.
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// One requirement as the reference sees it.
#[derive(Clone, Debug)]
enum Term {
    Exists(String),
    Absent(String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Above(String, String),
    Below(String, String),
}

type Labels = Vec<(String, String)>;

fn reference_matches(terms: &[Term], labels: &Labels) -> bool {
    let get = |key: &String| labels.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
    let number = |text: &String| text.parse::<i64>();
    terms.iter().all(|term| match term {
        Term::Exists(k) => get(k).is_some(),
        Term::Absent(k) => get(k).is_none(),
        Term::In(k, values) => values.iter().any(|v| get(k).as_ref() == Some(v)),
        Term::NotIn(k, values) => values.iter().all(|v| get(k).as_ref() != Some(v)),
        Term::Above(k, n) => get(k).and_then(|v| number(&v).ok()).is_some_and(|v| v > number(n).unwrap()),
        Term::Below(k, n) => get(k).and_then(|v| number(&v).ok()).is_some_and(|v| v < number(n).unwrap()),
    })
}

fn reference_tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut glue = false;
    for c in text.chars() {
        let symbol = "=!(),<>".contains(c);
        let doubles = glue && c == '=' && tokens.last().is_some_and(|t| t == "=" || t == "!");
        let continues =
            glue && !symbol && tokens.last().is_some_and(|t| !t.starts_with(|c| "=!(),<>".contains(c)));
        let blank = " \t\r\n".contains(c);
        if blank {
            glue = false;
        } else if doubles || continues {
            tokens.last_mut().unwrap().push(c);
        } else {
            tokens.push(c.to_string());
            glue = true;
        }
        // "==" and "!=" take no third symbol.
        glue &= tokens.last().is_none_or(|t| t != "==" && t != "!=");
    }
    tokens
}

fn reference_value(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let ends = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63 && text.chars().all(inner) && ends(text.chars().next()) && ends(text.chars().last())
}

fn reference_key(text: &str) -> bool {
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [name] => !name.is_empty() && reference_value(name),
        [prefix, name] => {
            let small = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            let part =
                |p: &str| !p.is_empty() && p.chars().all(small) && !p.starts_with('-') && !p.ends_with('-');
            prefix.len() <= 253 && prefix.split('.').all(part) && reference_key(name)
        }
        _ => false,
    }
}

/// The terms of a label selector, or `None` if the text is not one.
fn reference_parse(text: &str) -> Option<Vec<Term>> {
    let tokens = reference_tokens(text);
    if tokens.is_empty() {
        return Some(Vec::new());
    }
    let mut pieces: Vec<Vec<&str>> = vec![Vec::new()];
    let mut depth = 0_i32;
    for token in &tokens {
        depth += i32::from(token == "(") - i32::from(token == ")");
        if token == "," && depth == 0 {
            pieces.push(Vec::new());
        } else {
            pieces.last_mut()?.push(token);
        }
    }
    pieces.iter().map(|piece| reference_term(piece)).collect()
}

fn reference_term(piece: &[&str]) -> Option<Term> {
    let key = |k: &str| reference_key(k).then(|| k.to_owned());
    let value = |v: &str| reference_value(v).then(|| v.to_owned());
    let bound = |v: &str| (reference_value(v) && v.parse::<i64>().is_ok()).then(|| v.to_owned());
    match piece {
        [k] => Some(Term::Exists(key(k)?)),
        ["!", k] => Some(Term::Absent(key(k)?)),
        [k, "=" | "=="] => Some(Term::In(key(k)?, vec![String::new()])),
        [k, "!="] => Some(Term::NotIn(key(k)?, vec![String::new()])),
        [k, "=" | "==", v] => Some(Term::In(key(k)?, vec![value(v)?])),
        [k, "!=", v] => Some(Term::NotIn(key(k)?, vec![value(v)?])),
        [k, ">", v] => Some(Term::Above(key(k)?, bound(v)?)),
        [k, "<", v] => Some(Term::Below(key(k)?, bound(v)?)),
        [k, operator @ ("in" | "notin"), "(", list @ .., ")"] => {
            let places = list.split(|token| *token == ",").map(|place| match place {
                [] => Some(String::new()),
                [v] => value(v),
                _ => None,
            });
            let values = places.collect::<Option<Vec<_>>>()?;
            let make = if *operator == "in" { Term::In } else { Term::NotIn };
            Some(make(key(k)?, values))
        }
        _ => None,
    }
}

const KEYS: &[&str] = &["a", "b", "in", "notin", "x.io/a"];
const VALUES: &[&str] = &["", "a", "b", "in", "1", "2", "10", "9223372036854775807"];

fn random_labels(random: &mut XorShift) -> Labels {
    let keys = KEYS.iter().filter(|_| random.below(2) == 0).map(|k| (*k).to_owned()).collect::<Vec<_>>();
    let extra = ["-5", "99999999999999999999", "x"];
    keys.into_iter()
        .map(|k| {
            let from = if random.below(4) == 0 { &extra[..] } else { VALUES };
            (k, random.pick(from).to_owned())
        })
        .collect()
}

fn attributes(labels: &Labels, fields: &[String]) -> OwnAttributes {
    let labels = labels.iter().map(|(k, v)| (k.as_str().into(), v.as_str().into())).collect();
    let fields = fields.iter().map(|v| v.as_str().into()).collect();
    OwnAttributes::new(&AttributeTexts::new(labels, fields))
}

/// A requirement in a random spelling.
fn spelled(term: &Term, random: &mut XorShift) -> String {
    let gap = |random: &mut XorShift| random.pick(&["", "", " ", "\t", " \n"]);
    let (g1, g2, g3) = (gap(random), gap(random), gap(random));
    let listed = |values: &[String], random: &mut XorShift| {
        let mut values = values.to_vec();
        for at in (1..values.len()).rev() {
            values.swap(at, random.below(at + 1));
        }
        if random.below(3) == 0 {
            values.push(values[0].clone());
        }
        let comma = random.pick(&[",", " ,", ", "]);
        values.join(comma)
    };
    match term {
        Term::Exists(k) => format!("{g1}{k}{g2}"),
        Term::Absent(k) => format!("{g1}!{g2}{k}{g3}"),
        Term::In(k, values) if values.len() == 1 && random.below(2) == 0 => {
            format!("{g1}{k}{g2}{}{g3}{}", random.pick(&["=", "=="]), values[0])
        }
        Term::NotIn(k, values) if values.len() == 1 && random.below(2) == 0 => {
            format!("{g1}{k}{g2}!={g3}{}", values[0])
        }
        Term::In(k, values) => format!("{g1}{k} in{g2}({}){g3}", listed(values, random)),
        Term::NotIn(k, values) => format!("{k}{g1} notin{g2}({}){g3}", listed(values, random)),
        Term::Above(k, n) => format!("{g1}{k}{g2}>{g3}{n}"),
        Term::Below(k, n) => format!("{g1}{k}{g2}<{g3}{n}"),
    }
}

fn random_terms(random: &mut XorShift) -> Vec<Term> {
    (0..random.below(4))
        .map(|_| {
            let key = random.pick(KEYS).to_owned();
            let values = (0..=random.below(3)).map(|_| random.pick(VALUES).to_owned()).collect();
            let bound = random.pick(&["0", "1", "2", "9223372036854775807"]).to_owned();
            match random.below(6) {
                0 => Term::Exists(key),
                1 => Term::Absent(key),
                2 => Term::In(key, values),
                3 => Term::NotIn(key, values),
                4 => Term::Above(key, bound),
                _ => Term::Below(key, bound),
            }
        })
        .collect()
}

fn hash(selector: &Selector) -> u64 {
    let mut hasher = DefaultHasher::new();
    selector.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn label_selectors_select_what_the_reference_selects() {
    let mut selected = 0;
    for seed in 0..20_000 {
        let random = &mut XorShift::new(seed);
        let mut terms = random_terms(random);
        let text = terms.iter().map(|t| spelled(t, random)).collect::<Vec<_>>().join(",");
        let parsed = LabelSelector::parse(&text).unwrap_or_else(|e| panic!("seed {seed}: {text:?}: {e}"));
        let selector = Selector::new(parsed, FieldSelector::default());

        terms.reverse();
        let other = terms.iter().map(|t| spelled(t, random)).collect::<Vec<_>>().join(",");
        let respelled = Selector::new(LabelSelector::parse(&other).unwrap(), FieldSelector::default());
        assert_eq!(selector, respelled, "seed {seed}: {text:?} and {other:?}");
        assert_eq!(hash(&selector), hash(&respelled), "seed {seed}: {text:?} and {other:?}");
        assert_eq!(selector.is_everything(), terms.is_empty(), "seed {seed}: {text:?}");

        for _ in 0..8 {
            let labels = random_labels(random);
            let object = attributes(&labels, &[]);
            let expected = reference_matches(&terms, &labels);
            assert_eq!(selector.matches(object.get()), expected, "seed {seed}: {text:?} on {labels:?}");
            if expected {
                selected += 1;
                for required in selector.required() {
                    let met = match required {
                        Required::Label(key, values) => object
                            .get()
                            .label(key.as_bytes())
                            .is_some_and(|has| values.iter().any(|value| value.as_bytes() == has)),
                        Required::Key(key) => object.get().label(key.as_bytes()).is_some(),
                        Required::Field(..) => false,
                    };
                    assert!(met, "seed {seed}: {required:?} of {text:?} on {labels:?}");
                }
            }
        }
    }
    assert!((20_000..140_000).contains(&selected), "both answers are common: {selected} of 160000");
}

#[test]
fn label_selectors_are_accepted_where_the_reference_accepts() {
    const TOKENS: &[&str] = &[
        "a", "b", "in", "notin", "(", ")", ",", "=", "==", "!=", "!", ">", "<", "1", " ", " in (", "-x", "é",
        "p/q", "a/b/c", ") ", ", a",
    ];
    let mut accepted = 0;
    for seed in 0..200_000 {
        let random = &mut XorShift::new(seed);
        let text = (0..=random.below(8)).map(|_| random.pick(TOKENS)).collect::<String>();
        let parsed = LabelSelector::parse(&text);
        let Some(terms) = reference_parse(&text) else {
            assert!(parsed.is_err(), "seed {seed}: {text:?} is not a selector, but {parsed:?}");
            continue;
        };
        accepted += 1;
        let parsed = parsed.unwrap_or_else(|e| panic!("seed {seed}: {text:?} is a selector: {e}"));
        for _ in 0..3 {
            let labels = random_labels(random);
            let expected = reference_matches(&terms, &labels);
            assert_eq!(
                parsed.matches(attributes(&labels, &[]).get()),
                expected,
                "seed {seed}: {text:?} on {labels:?}"
            );
        }
    }
    assert!(accepted > 10_000, "only {accepted} texts were selectors");
}

#[test]
fn field_selectors_select_what_the_reference_selects() {
    let own = vec![Field::at("spec.a"), Field::alias("spec.b", "spec.a"), Field::at("type")];
    let resource = Resource::new("v1", "Thing", true, own);
    let labels = ["metadata.name", "metadata.namespace", "spec.a", "spec.b", "type"];
    let values = ["", "a", "b", "a,b", "=", "\\", "\\,", "é", " "];
    let escape = |v: &str| v.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
    let mut selected = 0;
    for seed in 0..20_000 {
        let random = &mut XorShift::new(seed);
        let terms = (0..random.below(4))
            .map(|_| (random.below(labels.len()), random.below(2) == 0, random.pick(&values)))
            .collect::<Vec<_>>();
        let spell = |random: &mut XorShift, &(field, equal, value): &(usize, bool, &str)| {
            let operator = if equal { random.pick(&["=", "=="]) } else { "!=" };
            // A value "=..." after "=" is escaped, so that "=\=" stays one operator.
            format!("{}{operator}{}{}", labels[field], escape(value), random.pick(&["", ","]))
        };
        let text = terms.iter().map(|term| spell(random, term)).collect::<Vec<_>>().join(",");
        let other = terms.iter().rev().map(|term| spell(random, term)).collect::<Vec<_>>().join(",");
        let fields = FieldSelector::parse(&text, &resource).unwrap();
        assert_eq!(
            fields,
            FieldSelector::parse(&other, &resource).unwrap(),
            "seed {seed}: {text} and {other}"
        );
        let selector = Selector::new(LabelSelector::default(), fields.clone());

        let mut narrowed = fields;
        let name = narrowed.take_equal(FieldId::NAME);
        for _ in 0..8 {
            let mut object = (0..labels.len()).map(|_| random.pick(&values).to_owned()).collect::<Vec<_>>();
            object[3] = object[2].clone();
            let attributes = attributes(&Vec::new(), &object);
            let expected = terms.iter().all(|&(field, equal, value)| (object[field] == value) == equal);
            assert_eq!(selector.matches(attributes.get()), expected, "seed {seed}: {text:?} on {object:?}");
            let in_scope = name.as_ref().is_none_or(|name| *name == object[0]);
            assert_eq!(
                in_scope && narrowed.matches(attributes.get()),
                expected,
                "seed {seed}: {text:?} on {object:?}, narrowed to {name:?}"
            );
            if expected {
                selected += 1;
                let met = selector.required().all(|required| match required {
                    Required::Field(id, value) => attributes.get().field(id) == value.as_bytes(),
                    Required::Label(..) | Required::Key(_) => false,
                });
                assert!(met, "seed {seed}: {text:?} on {object:?}");
            }
        }
        let equal = terms.iter().filter(|(_, equal, _)| *equal).count();
        let required = selector.required().count();
        assert!(required <= equal && (required > 0) == (equal > 0), "seed {seed}: {text:?}");
    }
    assert!((20_000..140_000).contains(&selected), "both answers are common: {selected} of 160000");
}

#[test]
fn what_is_required_is_what_a_selected_object_has() {
    let pods = Resource::new("v1", "Pod", true, vec![Field::at("spec.nodeName")]);
    let node = pods.field("spec.nodeName").unwrap();
    let selector = Selector::new(
        LabelSelector::parse("b in (x),a=y,c in (y,x),d!=x,e,!f,g>1,h=,i notin (x),j<2").unwrap(),
        FieldSelector::parse("spec.nodeName=n,metadata.name!=m", &pods).unwrap(),
    );
    let [x, y]: [Box<str>; 2] = ["x".into(), "y".into()];
    let expected = [
        Required::Field(node, "n"),
        Required::Label("a", std::slice::from_ref(&y)),
        Required::Label("b", std::slice::from_ref(&x)),
        Required::Label("c", &[x.clone(), y.clone()]),
        Required::Key("e"),
        Required::Key("g"),
        Required::Label("h", &["".into()]),
        Required::Key("j"),
    ];
    assert_eq!(selector.required().collect::<Vec<_>>(), expected);
    assert_eq!(Selector::everything().required().count(), 0);
}

#[test]
fn both_parts_must_match() {
    let resource = Resource::new("v1", "ConfigMap", true, Vec::new());
    let selector = Selector::new(
        LabelSelector::parse("app=web").unwrap(),
        FieldSelector::parse("metadata.name=a", &resource).unwrap(),
    );
    let object = |app: &str, name: &str| {
        attributes(&vec![("app".to_owned(), app.to_owned())], &[name.to_owned(), "ns".to_owned()])
    };
    assert!(selector.matches(object("web", "a").get()));
    assert!(!selector.matches(object("web", "b").get()));
    assert!(!selector.matches(object("db", "a").get()));
    assert!(!selector.is_everything());
    assert!(
        Selector::everything().is_everything() && Selector::everything().matches(object("db", "b").get())
    );
}

#[test]
fn no_bytes_make_a_parser_panic() {
    let resources = [
        Resource::new("v1", "ConfigMap", true, Vec::new()),
        Resource::new("v1", "Node", false, vec![Field::at("spec.unschedulable")]),
        Resource::new("v1", "Role", false, Vec::new()),
    ];
    let common = b"a,=!()<> \\\0in\xc3\xa9\"/-.1";
    for seed in 0..100_000 {
        let random = &mut XorShift::new(seed);
        let any = random.below(2) == 0;
        let bytes = (0..random.below(40))
            .map(
                |_| if any { random.below(256).to_le_bytes()[0] } else { common[random.below(common.len())] },
            )
            .collect::<Vec<_>>();
        let text = String::from_utf8_lossy(&bytes);
        let run = || {
            let object = attributes(&random_labels(&mut XorShift::new(seed)), &["a".to_owned()]);
            if let Err(error) = LabelSelector::parse(&text).map(|selector| selector.matches(object.get())) {
                assert!(!error.to_string().is_empty(), "an error says something");
            }
            for resource in &resources {
                if let Err(error) = FieldSelector::parse(&text, resource).map(|mut fields| {
                    let _ = fields.matches(object.get());
                    fields.take_equal(FieldId::NAME)
                }) {
                    assert!(!error.to_string().is_empty(), "an error says something");
                }
            }
        };
        assert!(
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_ok(),
            "seed {seed}: {text:?} panics"
        );
    }
}
