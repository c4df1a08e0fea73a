//! What a client subscribes to, and an independent decision about which objects match.
//!
//! The selector goes to the engine as text. Whether a state matches is decided here again, from the terms, so that the
//! oracle does not depend on the engine's selectors.

use revcast_engine::encoding::Encoding;
use revcast_engine::resource::{Codec, Schema};
use revcast_engine::selector::{FieldSelector, LabelSelector, Selector};
use revcast_engine::{Objects, Scope};

use super::object::{KINDS, LABELS, NAMESPACES, Name, State, row};
use super::range::Range;
use super::rng::Rng;
use super::shown::WRAPPED;

#[derive(Clone, Debug)]
enum LabelTerm {
    In(usize, Vec<&'static str>),
    NotIn(usize, Vec<&'static str>),
    Has(usize),
    Lacks(usize),
    Above(usize, i64),
    Below(usize, i64),
}

#[derive(Clone, Debug)]
struct FieldTerm {
    label: &'static str,
    value: String,
    equal: bool,
}

/// Which objects of one kind, in which encoding.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) kind: usize,
    pub(crate) namespace: Option<&'static str>,
    pub(crate) name: Option<String>,
    labels: Vec<LabelTerm>,
    fields: Vec<FieldTerm>,
    pub(crate) encoding: Encoding,
    /// Whatever stands in this range instead.
    pub(crate) range: Option<Range>,
}

impl Wish {
    pub(crate) fn random(rng: &mut Rng, names: &[Name], encoding: Encoding) -> Self {
        let example = rng.pick(names);
        let kind = example.kind;
        let namespace = if rng.percent(35) { example.namespace } else { None };
        let name = rng.percent(15).then(|| example.name.clone());
        let labels = (0..[0, 0, 1, 1, 2][rng.below(5)]).map(|_| label_term(rng)).collect();
        let fields = (0..[0, 0, 0, 1, 1, 2][rng.below(6)]).map(|_| field_term(rng, kind, example)).collect();
        Self { kind, namespace, name, labels, fields, encoding, range: None }
    }

    /// The same for a world of ranges: mostly of a range, and mostly in an encoding that shows what it may cover.
    pub(crate) fn among_ranges(mut self, own: &mut Rng, names: &[Name]) -> Self {
        if own.percent(70) {
            self.range = Some(Range::random(own, names));
            // Fields are places in the lists of their resources.
            self.fields.clear();
            if own.percent(60) {
                self.labels.clear();
            }
        }
        if self.hides_values() && own.percent(85) {
            self.encoding = WRAPPED;
        }
        self
    }

    /// The same for a world of protobuf: half of them in it.
    pub(crate) fn among_protobuf(mut self, own: &mut Rng) -> Self {
        if own.percent(50) {
            self.encoding = Encoding::Protobuf;
        }
        self
    }

    /// Whether its encoding does not show values that may be in its scope.
    pub(crate) fn hides_values(&self) -> bool {
        let mut kinds = self.kinds();
        self.encoding != WRAPPED && kinds.any(|kind| KINDS[kind].codec == Codec::Opaque)
    }

    /// The kinds in its scope, in order.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = usize> {
        let own = self.range.is_none().then_some(self.kind);
        own.into_iter().chain(self.range.iter().flat_map(Range::kinds))
    }

    pub(crate) fn scope(&self) -> Scope {
        if let Some(range) = &self.range {
            return Scope::Keys(range.keys());
        }
        Scope::Objects(Objects {
            resource: row(self.kind),
            namespace: self.namespace.map(Into::into),
            name: self.name.as_deref().map(Into::into),
        })
    }

    pub(crate) fn selector(&self, schema: &Schema) -> Selector {
        let labels: Vec<String> = self.labels.iter().map(LabelTerm::text).collect();
        let fields = self
            .fields
            .iter()
            .map(|term| format!("{}{}{}", term.label, if term.equal { "=" } else { "!=" }, term.value));
        let fields: Vec<String> = fields.collect();
        let labels = LabelSelector::parse(&labels.join(",")).expect("a well-formed label selector");
        let fields = FieldSelector::parse(&fields.join(","), schema.get(row(self.kind)))
            .expect("a well-formed field selector");
        Selector::new(labels, fields)
    }

    /// Whether a name is in the scope, whatever the selector.
    pub(crate) fn covers(&self, name: &Name) -> bool {
        if let Some(range) = &self.range {
            return range.covers(name);
        }
        name.kind == self.kind
            && self.namespace.is_none_or(|namespace| name.namespace == Some(namespace))
            && self.name.as_ref().is_none_or(|wanted| *wanted == name.name)
    }

    /// Whether a shard looks at a name for the state of this scope: it has no index of names across namespaces.
    pub(crate) fn looks_at(&self, name: &Name) -> bool {
        let across = self.range.is_none() && self.namespace.is_none() && name.namespace.is_some();
        if across { name.kind == self.kind } else { self.covers(name) }
    }

    /// Whether a term demands that an object has something.
    fn demands_anything(&self) -> bool {
        let demands = |term: &LabelTerm| !matches!(term, LabelTerm::NotIn(..) | LabelTerm::Lacks(_));
        self.labels.iter().any(demands) || self.fields.iter().any(|term| term.equal)
    }

    /// Whether a state is one of those asked for.
    pub(crate) fn matches(&self, names: &[Name], state: &State) -> bool {
        let name = &names[state.name];
        state.unreadable.is_none()
            && self.covers(name)
            && !(state.opaque && self.demands_anything())
            && self.labels.iter().all(|term| term.admits(state))
            && self.fields.iter().all(|term| (field(name, state, term.label) == term.value) == term.equal)
    }
}

fn field<'a>(name: &'a Name, state: &'a State, label: &str) -> &'a str {
    match label {
        _ if state.opaque => "",
        "metadata.name" => &name.name,
        "metadata.namespace" => name.namespace.unwrap_or(""),
        _ => {
            let at = KINDS[name.kind].fields.iter().position(|(known, _)| *known == label);
            at.map_or("", |at| state.fields[at])
        }
    }
}

fn label_term(rng: &mut Rng) -> LabelTerm {
    let at = rng.below(LABELS.len());
    let values = LABELS[at].1;
    match rng.below(8) {
        0..=2 => LabelTerm::In(at, vec![*rng.pick(values)]),
        3 => LabelTerm::In(at, values[..2].to_vec()),
        4 => LabelTerm::NotIn(at, vec![*rng.pick(values)]),
        5 => LabelTerm::Has(at),
        6 => LabelTerm::Lacks(at),
        _ if rng.percent(50) => LabelTerm::Above(2, 4),
        _ => LabelTerm::Below(2, 12),
    }
}

fn field_term(rng: &mut Rng, kind: usize, example: &Name) -> FieldTerm {
    let equal = rng.percent(70);
    let own = KINDS[kind].fields;
    if !own.is_empty() && rng.percent(75) {
        let (label, values) = rng.pick(own);
        return FieldTerm { label, value: (*rng.pick(values)).to_owned(), equal };
    }
    if KINDS[kind].namespaced && rng.percent(50) {
        return FieldTerm { label: "metadata.namespace", value: (*rng.pick(&NAMESPACES)).to_owned(), equal };
    }
    FieldTerm { label: "metadata.name", value: example.name.clone(), equal }
}

impl LabelTerm {
    fn text(&self) -> String {
        match self {
            Self::In(at, values) if values.len() == 1 => format!("{}={}", LABELS[*at].0, values[0]),
            Self::In(at, values) => format!("{} in ({})", LABELS[*at].0, values.join(",")),
            Self::NotIn(at, values) if values.len() == 1 => format!("{}!={}", LABELS[*at].0, values[0]),
            Self::NotIn(at, values) => format!("{} notin ({})", LABELS[*at].0, values.join(",")),
            Self::Has(at) => LABELS[*at].0.to_owned(),
            Self::Lacks(at) => format!("!{}", LABELS[*at].0),
            Self::Above(at, bound) => format!("{}>{bound}", LABELS[*at].0),
            Self::Below(at, bound) => format!("{}<{bound}", LABELS[*at].0),
        }
    }

    fn admits(&self, state: &State) -> bool {
        let number = |at: usize| state.labels[at].and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(at, values) => state.labels[*at].is_some_and(|value| values.contains(&value)),
            Self::NotIn(at, values) => state.labels[*at].is_none_or(|value| !values.contains(&value)),
            Self::Has(at) => state.labels[*at].is_some(),
            Self::Lacks(at) => state.labels[*at].is_none(),
            Self::Above(at, bound) => number(*at).is_some_and(|value| value > *bound),
            Self::Below(at, bound) => number(*at).is_some_and(|value| value < *bound),
        }
    }
}
