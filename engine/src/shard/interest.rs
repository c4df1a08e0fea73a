//! Which classes may care about an event: by scope, then by equality on a field or label.
//!
//! 5,000 watches of `spec.nodeName=X` cost an event two look-ups, not 5,000 verdicts. It only narrows: a class it
//! names still asks its selector.

use std::collections::HashMap;

use crate::attributes::Attributes;
use crate::event::Event;
use crate::key::Key;
use crate::planted::{Bug, planted};
use crate::resource::FieldId;
use crate::selector::Equality;
use crate::watcher::class::ClassKey;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Attribute {
    Field(FieldId),
    Label(Box<str>),
}

impl Attribute {
    fn read<'a>(&self, attributes: &'a Attributes) -> Option<&'a str> {
        match self {
            Self::Field(id) => Some(attributes.field(*id)),
            Self::Label(key) => attributes.label(key),
        }
    }
}

/// Classes by the value that an attribute must have.
type ByValue = HashMap<Box<str>, Vec<u32>>;

/// The classes of one scope.
#[derive(Debug, Default)]
struct Bucket {
    /// Classes without an equality that could be looked up.
    plain: Vec<u32>,
    by_value: Vec<(Attribute, ByValue)>,
}

impl Bucket {
    fn add(&mut self, key: &ClassKey, class: u32) {
        let Some((attribute, value)) = indexed(key) else {
            self.plain.push(class);
            return;
        };
        let at = self.by_value.iter().position(|(known, _)| *known == attribute).unwrap_or_else(|| {
            self.by_value.push((attribute, HashMap::new()));
            self.by_value.len() - 1
        });
        self.by_value[at].1.entry(value).or_default().push(class);
    }

    /// Takes a class out. True when the bucket is empty now.
    fn remove(&mut self, key: &ClassKey, class: u32) -> bool {
        match indexed(key) {
            None => self.plain.retain(|other| *other != class),
            Some((attribute, value)) => {
                if let Some(at) = self.by_value.iter().position(|(known, _)| *known == attribute) {
                    let values = &mut self.by_value[at].1;
                    if let Some(classes) = values.get_mut(&value) {
                        classes.retain(|other| *other != class);
                        if classes.is_empty() {
                            values.remove(&value);
                        }
                    }
                    if values.is_empty() {
                        self.by_value.swap_remove(at);
                    }
                }
            }
        }
        self.plain.is_empty() && self.by_value.is_empty()
    }

    fn candidates(&self, event: &Event, out: &mut Vec<u32>) {
        out.extend_from_slice(&self.plain);
        for (attribute, values) in &self.by_value {
            // A class stands under one value: the two look-ups never name it twice.
            let now = event.now.as_ref().and_then(|object| attribute.read(object.attributes()));
            let before = event.before.as_ref().and_then(|object| attribute.read(object.attributes()));
            if let Some(classes) = now.and_then(|value| values.get(value)) {
                out.extend_from_slice(classes);
            }
            if before != now
                && !planted(Bug::OldValueNotLookedUp)
                && let Some(classes) = before.and_then(|value| values.get(value))
            {
                out.extend_from_slice(classes);
            }
        }
    }

    fn all(&self, out: &mut Vec<u32>) {
        out.extend_from_slice(&self.plain);
        for (_, values) in &self.by_value {
            for classes in values.values() {
                out.extend_from_slice(classes);
            }
        }
    }
}

/// The equality that a class is looked up by: a field before a label, since fields tell objects apart better.
fn indexed(key: &ClassKey) -> Option<(Attribute, Box<str>)> {
    let mut label = None;
    for equality in key.selector.equalities() {
        match equality {
            Equality::Field(id, value) => return Some((Attribute::Field(id), value.into())),
            Equality::Label(name, value) => {
                label.get_or_insert_with(|| (Attribute::Label(name.into()), value.into()));
            }
        }
    }
    label
}

/// The scopes of one resource.
#[derive(Debug, Default)]
struct Scopes {
    all: Bucket,
    by_namespace: HashMap<Box<str>, Bucket>,
    by_name: HashMap<Box<str>, Bucket>,
    /// By `namespace/name`.
    by_path: HashMap<Box<str>, Bucket>,
}

/// From an event to the classes that may care.
#[derive(Debug)]
pub(crate) struct Interest {
    /// By row of the schema.
    resources: Vec<Scopes>,
}

impl Interest {
    pub(crate) fn new(resources: usize) -> Self {
        Self { resources: std::iter::repeat_with(Scopes::default).take(resources).collect() }
    }

    pub(crate) fn add(&mut self, key: &ClassKey, class: u32) {
        let scopes = &mut self.resources[key.scope.resource.row()];
        let bucket = match (&key.scope.namespace, &key.scope.name) {
            (None, None) => &mut scopes.all,
            (Some(namespace), None) => scopes.by_namespace.entry(namespace.clone()).or_default(),
            (None, Some(name)) => scopes.by_name.entry(name.clone()).or_default(),
            (Some(namespace), Some(name)) => {
                scopes.by_path.entry(format!("{namespace}/{name}").into()).or_default()
            }
        };
        bucket.add(key, class);
    }

    pub(crate) fn remove(&mut self, key: &ClassKey, class: u32) {
        let scopes = &mut self.resources[key.scope.resource.row()];
        let (map, at): (_, Box<str>) = match (&key.scope.namespace, &key.scope.name) {
            (None, None) => {
                scopes.all.remove(key, class);
                return;
            }
            (Some(namespace), None) => (&mut scopes.by_namespace, namespace.clone()),
            (None, Some(name)) => (&mut scopes.by_name, name.clone()),
            (Some(namespace), Some(name)) => (&mut scopes.by_path, format!("{namespace}/{name}").into()),
        };
        if map.get_mut(&at).is_some_and(|bucket| bucket.remove(key, class)) {
            map.remove(&at);
        }
    }

    /// Replaces `out` by the classes that may care, each once.
    pub(crate) fn candidates(&self, event: &Event, out: &mut Vec<u32>) {
        out.clear();
        for bucket in self.buckets(event.key()) {
            bucket.candidates(event, out);
        }
    }

    /// Replaces `out` by all classes whose scope covers a key, whatever they select, each once.
    pub(crate) fn covering(&self, key: &Key, out: &mut Vec<u32>) {
        out.clear();
        for bucket in self.buckets(key) {
            bucket.all(out);
        }
    }

    /// The scopes that cover a key.
    fn buckets(&self, key: &Key) -> impl Iterator<Item = &Bucket> {
        let found = self.resources.get(key.resource().row()).map(|scopes| {
            let namespace = key.namespace();
            [
                Some(&scopes.all),
                namespace.and_then(|namespace| scopes.by_namespace.get(namespace)),
                scopes.by_name.get(key.name()),
                namespace.and_then(|_| scopes.by_path.get(key.path())),
            ]
        });
        found.into_iter().flatten().flatten()
    }
}
