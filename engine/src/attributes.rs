//! What selectors see of an object: its labels and its selectable fields.
//!
//! Most of their texts stand in the message that announces the object, so an object keeps only their places: a table behind
//! the message, in the same allocation. What does not stand there (a default, text that JSON spells with an escape) is kept
//! between the two. Texts are compared as bytes.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// Up to this many labels are searched linearly: the lengths of their keys distinguish most of them, where a binary search
/// compares texts.
const WALKED_MAX: usize = 8;

/// Bytes of a place in a table: offset and length, of two bytes each, or of four where that is too small for one of them.
const NARROW: usize = 4;
const WIDE: usize = 8;

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

/// Labels and field values of one object as they were read, before they are kept.
#[derive(Clone, Debug, Default)]
pub struct AttributeTexts<'a> {
    /// Sorted by key.
    labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// In the order of the resource's fields; "" where the object has none.
    fields: Vec<Cow<'a, str>>,
}

impl<'a> AttributeTexts<'a> {
    /// Sorts the labels by key; the last of two equal keys wins, as in JSON decoders.
    #[must_use]
    pub fn new(mut labels: Vec<(Cow<'a, str>, Cow<'a, str>)>, fields: Vec<Cow<'a, str>>) -> Self {
        // Stores hold them sorted and without duplicates.
        if !labels.is_sorted_by(|a, b| a.0 < b.0) {
            labels.sort_by(|a, b| a.0.cmp(&b.0));
            labels.dedup_by(|next, kept| {
                let is_same = next.0 == kept.0;
                if is_same {
                    std::mem::swap(next, kept);
                }
                is_same
            });
        }
        Self { labels, fields }
    }

    /// The texts in the order of a table.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let labels = self.labels.iter().flat_map(|(key, value)| [&**key, &**value]);
        labels.chain(self.fields.iter().map(|field| &**field))
    }

    /// What keeps them beside a text, in which `place` returns where one of them may stand.
    pub(crate) fn keep(&self, text: &[u8], mut place: impl FnMut(&str) -> Option<usize>) -> KeptTexts {
        let mut keep = |attribute: &str| {
            let at = place(attribute)
                .filter(|at| text.get(*at..).is_some_and(|there| there.starts_with(attribute.as_bytes())));
            match at {
                Some(at) => KeptText::At(at..at + attribute.len()),
                None => KeptText::Apart(attribute.into()),
            }
        };
        KeptTexts {
            labels: self.labels.iter().map(|(key, value)| (keep(key), keep(value))).collect(),
            fields: self.fields.iter().map(|field| keep(field)).collect(),
        }
    }

    /// Appends to `behind`, which is behind `before` bytes: the texts that have no place, and the table. `place` returns where a
    /// text stands in the bytes before. `None`: an offset exceeds 32 bits.
    pub(crate) fn push(
        &self,
        behind: &mut Vec<u8>,
        before: usize,
        mut place: impl FnMut(&str) -> Option<usize>,
    ) -> Option<Table> {
        let mut places = Vec::with_capacity(2 * self.labels.len() + self.fields.len());
        for text in self.texts() {
            let at = match place(text) {
                _ if text.is_empty() => 0,
                Some(at) => at,
                None => {
                    behind.extend_from_slice(text.as_bytes());
                    before + behind.len() - text.len()
                }
            };
            places.push((u32::try_from(at).ok()?, u32::try_from(text.len()).ok()?));
        }
        let at = u32::try_from(before + behind.len()).ok()?;
        let table = Table::new(at, self.labels.len())?;
        let wide = table.is_wide();
        behind.reserve(places.len() * if wide { WIDE } else { NARROW });
        for (at, len) in places {
            if wide {
                behind.extend_from_slice(&at.to_le_bytes());
                behind.extend_from_slice(&len.to_le_bytes());
            } else {
                // Both are below 2^16.
                behind.extend_from_slice(&(len << 16 | at).to_le_bytes());
            }
        }
        Some(table)
    }
}

/// An attribute of a text.
#[derive(Clone, Debug)]
enum KeptText {
    /// It stands there.
    At(Range<usize>),
    Apart(Box<str>),
}

/// The attributes of a text: as places in it, and those that it spells in another way.
#[derive(Clone, Debug)]
pub(crate) struct KeptTexts {
    labels: Vec<(KeptText, KeptText)>,
    fields: Vec<KeptText>,
}

impl KeptTexts {
    /// The attributes, with the text that they were kept beside.
    pub(crate) fn of<'a>(&'a self, text: &'a [u8]) -> AttributeTexts<'a> {
        let read = |kept: &'a KeptText| {
            Cow::Borrowed(match kept {
                // The same bytes were text when they were found.
                KeptText::At(at) => text.get(at.clone()).and_then(|it| str::from_utf8(it).ok()).unwrap_or(""),
                KeptText::Apart(attribute) => attribute,
            })
        };
        AttributeTexts {
            labels: self.labels.iter().map(|(key, value)| (read(key), read(value))).collect(),
            fields: self.fields.iter().map(read).collect(),
        }
    }
}

/// Where in an object's bytes its table is, up to their end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Table {
    /// All texts are before it.
    at: u32,
    /// The number of labels, and whether places are wide.
    labels: u32,
}

impl Table {
    const WIDE: u32 = 1 << 31;

    fn new(at: u32, labels: usize) -> Option<Self> {
        let labels = u32::try_from(labels).ok().filter(|labels| labels & Self::WIDE == 0)?;
        Some(Self { at, labels: if at > 0xffff { labels | Self::WIDE } else { labels } })
    }

    const fn is_wide(self) -> bool {
        self.labels & Self::WIDE != 0
    }

    const fn labels(self) -> usize {
        (self.labels & !Self::WIDE) as usize
    }

    /// The attributes in the bytes that this table ends.
    #[inline]
    pub(crate) const fn of(self, bytes: &[u8]) -> Attributes<'_> {
        Attributes { bytes, table: self }
    }
}

/// Labels and field values of one object, within what it keeps.
#[derive(Clone, Copy, Default)]
pub struct Attributes<'a> {
    bytes: &'a [u8],
    /// The places of the labels, sorted by key, each of its key and of its value, then those of the fields.
    table: Table,
}

impl<'a> Attributes<'a> {
    /// The value of label `key`.
    #[must_use]
    #[inline]
    pub fn label(self, key: &[u8]) -> Option<&'a [u8]> {
        // So are wide places.
        if self.table.labels as usize > WALKED_MAX {
            return self.search(key);
        }
        let at = self.table.at as usize;
        let labels = &self.bytes[at..at + 2 * NARROW * self.table.labels as usize];
        for label in labels.as_chunks::<{ 2 * NARROW }>().0 {
            let places = u64::from_le_bytes(*label);
            let part = |shift: u32| (places >> shift & 0xffff) as usize;
            if part(16) == key.len() && self.text(part(0), key.len()) == key {
                return Some(self.text(part(32), part(48)));
            }
        }
        None
    }

    #[inline(never)]
    fn search(self, key: &[u8]) -> Option<&'a [u8]> {
        let (mut from, mut to) = (0, self.table.labels());
        while from < to {
            let middle = usize::midpoint(from, to);
            match self.nth(2 * middle).cmp(key) {
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Equal => return Some(self.nth(2 * middle + 1)),
                std::cmp::Ordering::Greater => to = middle,
            }
        }
        None
    }

    /// The value of a selectable field; "" where the object has none.
    #[must_use]
    #[inline]
    pub fn field(self, id: FieldId) -> &'a [u8] {
        self.nth(2 * self.table.labels() + id.index())
    }

    /// The number of labels.
    #[must_use]
    pub const fn labels_len(self) -> usize {
        self.table.labels()
    }

    /// All labels, sorted by key.
    pub fn labels(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        (0..self.table.labels()).map(move |number| (self.nth(2 * number), self.nth(2 * number + 1)))
    }

    /// The values of all fields.
    fn fields(self) -> impl Iterator<Item = &'a [u8]> {
        let places = self.places().len() / if self.table.is_wide() { WIDE } else { NARROW };
        (2 * self.table.labels()..places).map(move |number| self.nth(number))
    }

    #[inline]
    fn places(self) -> &'a [u8] {
        self.bytes.get(self.table.at as usize..).unwrap_or_default()
    }

    /// The text with this number in the table; "" if there is none.
    #[inline]
    fn nth(self, number: usize) -> &'a [u8] {
        if self.table.is_wide() {
            return self.nth_wide(number);
        }
        let at = self.table.at as usize + NARROW * number;
        let Some(&[a, b, c, d]) = self.bytes.get(at..at + NARROW) else { return b"" };
        let part = |bytes| usize::from(u16::from_le_bytes(bytes));
        self.text(part([a, b]), part([c, d]))
    }

    #[inline(never)]
    fn nth_wide(self, number: usize) -> &'a [u8] {
        let place = self.places().as_chunks::<WIDE>().0.get(number).copied().unwrap_or_default();
        let [a, b, c, d, e, f, g, h] = place;
        let half = |bytes| u32::from_le_bytes(bytes) as usize;
        self.text(half([a, b, c, d]), half([e, f, g, h]))
    }

    #[inline]
    fn text(self, at: usize, len: usize) -> &'a [u8] {
        &self.bytes[at..at + len]
    }
}

impl PartialEq for Attributes<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.labels().eq(other.labels()) && self.fields().eq(other.fields())
    }
}

impl Eq for Attributes<'_> {}

impl fmt::Debug for Attributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes| String::from_utf8_lossy(bytes);
        f.debug_map()
            .entries(self.labels().map(|(key, value)| (text(key), text(value))))
            .entries(self.fields().enumerate().map(|(number, value)| (number, text(value))))
            .finish()
    }
}

/// Attributes of no object.
#[derive(Clone, Debug)]
pub struct OwnAttributes {
    bytes: Vec<u8>,
    table: Table,
}

impl OwnAttributes {
    /// Copies the texts.
    ///
    /// # Panics
    /// When they have 4 GiB.
    #[must_use]
    pub fn new(texts: &AttributeTexts<'_>) -> Self {
        let mut bytes = Vec::new();
        let table = texts.push(&mut bytes, 0, |_| None).expect("less than 4 GiB");
        Self { bytes, table }
    }

    /// As selectors see them.
    #[must_use]
    pub fn get(&self) -> Attributes<'_> {
        self.table.of(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_found_among_few_and_among_many() {
        for (count, long) in (0..3 * WALKED_MAX).flat_map(|count| [(count, 0), (count, 1 << 16)]) {
            let key = |number: usize| format!("k{number}");
            let labels =
                (0..count).rev().map(|number| (key(number).into(), number.to_string().into())).collect();
            let long = "x".repeat(long);
            let own = OwnAttributes::new(&AttributeTexts::new(labels, vec!["a".into(), (&*long).into()]));
            let attributes = own.get();
            for number in 0..count + 2 {
                let expected = (number < count).then(|| number.to_string());
                assert_eq!(attributes.label(key(number).as_bytes()), expected.as_deref().map(str::as_bytes));
            }
            assert_eq!(attributes.labels().count(), count);
            let fields = [0, 1, 2].map(|index| attributes.field(FieldId::new(index)));
            assert_eq!(fields, [b"a", long.as_bytes(), b""]);
        }
    }

    #[test]
    fn the_last_of_equal_keys_wins() {
        let labels = [("b", "1"), ("a", "1"), ("b", "2"), ("a", "2"), ("a", "3")];
        let labels = labels.map(|(key, value)| (key.into(), value.into())).into();
        let own = OwnAttributes::new(&AttributeTexts::new(labels, Vec::new()));
        let found: Vec<_> = own.get().labels().collect();
        assert_eq!(found, [(&b"a"[..], &b"3"[..]), (b"b", b"2")]);
    }
}
