//! A range of keys, in the order of keys: by resource, then by the bytes of the path.
//!
//! It owns the bounds, and what can be told from them alone. A range may lie within one resource or span several, and need
//! not begin or end at a key that is there.

use std::ops::Bound;
use std::sync::Arc;

use crate::key::{Key, ResourceId};

/// All keys from one place to another, the end not included. Cheap to clone; ranges with equal bounds are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRange(Arc<Bounds>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Bounds {
    from: (ResourceId, Box<str>),
    /// `None`: it has no end.
    to: Option<(ResourceId, Box<str>)>,
}

/// The part of a range that lies within one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span<'a> {
    pub(crate) resource: ResourceId,
    /// Of the paths; never empty.
    pub(crate) paths: (Bound<&'a str>, Bound<&'a str>),
}

/// What an index can make of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape<'a> {
    /// It holds one path of a resource.
    Key(ResourceId, &'a str),
    /// It holds every path of a resource that begins so.
    Prefix(ResourceId, &'a str),
    Other,
}

impl KeyRange {
    /// From the place `from`, which is included, to the place `to`, which is not; `None`: to the last key of all. It is empty
    /// when it ends where it begins or before.
    #[must_use]
    pub fn new(from: (ResourceId, &str), to: Option<(ResourceId, &str)>) -> Self {
        let owned = |(resource, path): (ResourceId, &str)| (resource, path.into());
        Self(Arc::new(Bounds { from: owned(from), to: to.map(owned) }))
    }

    /// Every key there is.
    #[must_use]
    pub fn everything() -> Self {
        Self::new((ResourceId::new(0), ""), None)
    }

    /// The keys of a resource whose paths begin with `prefix`: all of them when that is "".
    #[must_use]
    pub fn prefix(resource: ResourceId, prefix: &str) -> Self {
        match end_of_prefix(prefix) {
            Some(end) => Self::new((resource, prefix), Some((resource, &end))),
            None => Self::new((resource, prefix), resource.next().map(|next| (next, ""))),
        }
    }

    /// One path of a resource.
    #[must_use]
    pub fn key(resource: ResourceId, path: &str) -> Self {
        // No text lies between a text and the same with a NUL after it.
        Self::new((resource, path), Some((resource, &format!("{path}\0"))))
    }

    /// Whether a key lies in it.
    #[must_use]
    #[inline(never)]
    pub fn contains(&self, key: &Key) -> bool {
        self.begins_by(key) && self.ends_after(key)
    }

    /// Whether it begins at a key or before.
    pub(crate) fn begins_by(&self, key: &Key) -> bool {
        let (resource, path) = &self.0.from;
        (*resource, &**path) <= (key.resource(), key.path())
    }

    /// Whether it ends after a key.
    pub(crate) fn ends_after(&self, key: &Key) -> bool {
        self.0.to.as_ref().is_none_or(|(resource, path)| (key.resource(), key.path()) < (*resource, &**path))
    }

    /// Whether it extends at least as far as another.
    pub(crate) fn reaches(&self, other: &Self) -> bool {
        match (&self.0.to, &other.0.to) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(to), Some(other)) => to >= other,
        }
    }

    /// The key where it begins, which need not be there.
    pub(crate) fn first_key(&self) -> Key {
        let (resource, path) = &self.0.from;
        Key::new(*resource, None, path)
    }

    /// Its parts in each of the first `resources` resources, starting after the key `after` if given, in key order.
    pub(crate) fn spans<'a>(
        &'a self,
        resources: usize,
        after: Option<&'a Key>,
    ) -> impl Iterator<Item = Span<'a>> + use<'a> {
        let (first, from) = &self.0.from;
        let first = after.map_or(*first, |after| after.resource().max(*first));
        let last = self.0.to.as_ref().map_or(usize::MAX, |(resource, _)| resource.row());
        let rows = first.row()..last.saturating_add(1).min(resources);
        let ids = std::iter::successors(Some(first), |id| id.next()).zip(rows).map(|(id, _)| id);
        ids.filter_map(move |resource| {
            let begin = if resource == self.0.from.0 { &**from } else { "" };
            let to = self.0.to.as_ref().filter(|(last, _)| *last == resource).map(|(_, path)| &**path);
            let after = after.filter(|after| after.resource() == resource).map(Key::path);
            let low = match after {
                Some(after) if *after >= *begin => Bound::Excluded(after),
                _ => Bound::Included(begin),
            };
            let is_empty = to.is_some_and(|to| to <= after.map_or(begin, |after| after.max(begin)));
            let high = to.map_or(Bound::Unbounded, Bound::Excluded);
            (!is_empty).then_some(Span { resource, paths: (low, high) })
        })
    }

    pub(crate) fn shape(&self) -> Shape<'_> {
        let (resource, from) = (self.0.from.0, &*self.0.from.1);
        let within = self.0.to.as_ref().filter(|(last, _)| *last == resource).map(|(_, to)| &**to);
        if within.is_some_and(|to| to.strip_prefix(from) == Some("\0")) {
            return Shape::Key(resource, from);
        }
        let is_prefix = match end_of_prefix(from) {
            Some(end) => within == Some(&*end),
            None => self.0.to.as_ref().map(|(last, to)| (*last, &**to)) == resource.next().map(|it| (it, "")),
        };
        if is_prefix { Shape::Prefix(resource, from) } else { Shape::Other }
    }
}

/// The first text after all that begin with `prefix`; `None`: there is none. The bytes of UTF-8 are in the order of the
/// characters, so it is the prefix with its last character replaced by the next one.
fn end_of_prefix(prefix: &str) -> Option<String> {
    let last = prefix.chars().next_back()?;
    let rest = &prefix[..prefix.len() - last.len_utf8()];
    match (last..=char::MAX).nth(1) {
        Some(next) => Some(format!("{rest}{next}")),
        None => end_of_prefix(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ResourceId = ResourceId::new(0);
    const B: ResourceId = ResourceId::new(1);
    const C: ResourceId = ResourceId::new(2);

    fn key(resource: ResourceId, path: &str) -> Key {
        Key::new(resource, None, path)
    }

    #[test]
    fn what_begins_with_a_prefix_lies_in_its_range_and_nothing_else() {
        let texts = ["", "a", "a/", "a/x", "a/\u{10ffff}", "a0", "ab", "b", "\u{e9}", "\u{e9}x", "\u{ea}"];
        let odd =
            ["\u{7f}", "\u{80}", "\u{d7ff}", "\u{e000}", "\u{10ffff}", "\u{10ffff}x", "x\u{10ffff}", "y"];
        let texts: Vec<&str> = texts.into_iter().chain(odd).collect();
        for prefix in &texts {
            let range = KeyRange::prefix(B, prefix);
            assert_eq!(range.shape(), Shape::Prefix(B, prefix), "{prefix:?}");
            for text in &texts {
                assert_eq!(range.contains(&key(B, text)), text.starts_with(prefix), "{prefix:?} {text:?}");
                assert!(!range.contains(&key(A, text)) && !range.contains(&key(C, text)));
                let one = KeyRange::key(B, prefix);
                assert_eq!(one.contains(&key(B, text)), text == prefix, "{prefix:?} {text:?}");
                assert_eq!(one.shape(), Shape::Key(B, prefix));
            }
        }
        let last = ResourceId::new(u16::MAX);
        assert_eq!(KeyRange::prefix(last, "").shape(), Shape::Prefix(last, ""));
        assert!(KeyRange::prefix(last, "").contains(&key(last, "\u{10ffff}")));
        // Written down in another way it is the same range.
        assert_eq!(KeyRange::new((A, "n/"), Some((A, "n0"))), KeyRange::prefix(A, "n/"));
    }

    #[test]
    fn a_range_has_a_part_in_each_resource_that_it_reaches() {
        use Bound::{Excluded, Included, Unbounded};
        let spans = |range: &KeyRange, after: Option<&Key>| -> Vec<(usize, Bound<String>, Bound<String>)> {
            let own = |bound: Bound<&str>| bound.map(str::to_owned);
            let spans = range.spans(3, after);
            spans.map(|span| (span.resource.row(), own(span.paths.0), own(span.paths.1))).collect()
        };
        let text = |text: &str| text.to_owned();
        let whole = KeyRange::everything();
        assert_eq!(spans(&whole, None), [0, 1, 2].map(|row| (row, Included(text("")), Unbounded)));
        let across = KeyRange::new((A, "m"), Some((C, "c")));
        let all = [
            (0, Included(text("m")), Unbounded),
            (1, Included(text("")), Unbounded),
            (2, Included(text("")), Excluded(text("c"))),
        ];
        assert_eq!(spans(&across, None), all);
        assert_eq!(spans(&across, Some(&key(A, "a"))), all);
        assert_eq!(spans(&across, Some(&key(A, "m")))[0], (0, Excluded(text("m")), Unbounded));
        assert_eq!(spans(&across, Some(&key(B, "x")))[0], (1, Excluded(text("x")), Unbounded));
        assert_eq!(spans(&across, Some(&key(C, "b")))[..], [(2, Excluded(text("b")), Excluded(text("c")))]);
        assert_eq!(spans(&across, Some(&key(C, "c"))), []);
        assert_eq!(spans(&across, Some(&key(C, "d"))), []);
        // Its end is before the first key of the next resource.
        assert_eq!(spans(&KeyRange::prefix(B, ""), None), [(1, Included(text("")), Unbounded)]);
        for empty in [
            KeyRange::new((B, "x"), Some((B, "x"))),
            KeyRange::new((B, "x"), Some((B, "a"))),
            KeyRange::new((B, "x"), Some((A, "y"))),
            KeyRange::prefix(ResourceId::new(9), "x"),
        ] {
            assert_eq!(spans(&empty, None), [], "{empty:?}");
        }
        assert_eq!(KeyRange::new((B, "x"), Some((B, "x"))).shape(), Shape::Other);
        assert!(!KeyRange::new((B, "x"), Some((B, "x"))).contains(&key(B, "x")));
    }
}
