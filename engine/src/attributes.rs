//! What selectors see of an object: its labels and its selectable fields.

/// Up to this many labels are searched linearly: the lengths of their keys distinguish most of them, where a binary search
/// compares texts.
const WALKED_MAX: usize = 8;

/// The index of a field among those of its resource, and in an object's attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldId(u8);

impl FieldId {
    /// `metadata.name`, which every resource has.
    pub const NAME: Self = Self(0);
    /// `metadata.namespace`, which every namespaced resource has.
    pub const NAMESPACE: Self = Self(1);

    /// The field with this index.
    pub(crate) const fn new(index: u8) -> Self {
        Self(index)
    }

    /// The index into the fields of its resource.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

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
        if self.labels.len() <= WALKED_MAX {
            return self.labels.iter().find(|(known, _)| **known == *key).map(|(_, value)| &**value);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_found_among_few_and_among_many() {
        for count in 0..3 * WALKED_MAX {
            let key = |number: usize| format!("k{number}").into_boxed_str();
            let labels = (0..count).rev().map(|number| (key(number), number.to_string().into())).collect();
            let attributes = Attributes::new(labels, Vec::new());
            for number in 0..count + 2 {
                let expected = (number < count).then(|| number.to_string());
                assert_eq!(attributes.label(&key(number)), expected.as_deref());
            }
        }
    }
}
