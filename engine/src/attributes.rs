//! What selectors see of an object: its labels and its selectable fields.

use crate::resource::FieldId;

/// Labels and field values of one object. Small, immutable, made once by decode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Sorted by key.
    labels: Box<[(Box<str>, Box<str>)]>,
    /// In the order of the resource's fields; "" where the object has none.
    fields: Box<[Box<str>]>,
}

impl Attributes {
    /// Sorts the labels by key; the last of two equal keys wins, as in JSON decoders.
    #[must_use]
    pub fn new(mut labels: Vec<(Box<str>, Box<str>)>, fields: Vec<Box<str>>) -> Self {
        labels.sort_by(|a, b| a.0.cmp(&b.0));
        let mut kept: Vec<(Box<str>, Box<str>)> = Vec::with_capacity(labels.len());
        for label in labels {
            match kept.last_mut() {
                Some(last) if last.0 == label.0 => *last = label,
                _ => kept.push(label),
            }
        }
        Self { labels: kept.into(), fields: fields.into() }
    }

    /// The value of label `key`.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        Some(&self.labels[at].1)
    }

    /// The value of a selectable field; "" where the object has none.
    #[must_use]
    pub fn field(&self, id: FieldId) -> &str {
        self.fields.get(id.index()).map_or("", |value| value)
    }

    /// All labels, sorted by key.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.labels.iter().map(|(k, v)| (&**k, &**v))
    }
}
