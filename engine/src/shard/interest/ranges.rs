//! Classes that watch a range of keys which contains an event's key.
//!
//! Equal ranges share a bucket. Ranges of one key, and of one prefix, are found by hash: one look-up for each length that a
//! prefix of the resource has. All others are sorted by their start, with the furthest end of each subtree stored beside them,
//! so that the ranges around a key are found in a walk down a tree, however many there are. After a change the next event
//! rebuilds this, at the cost of a walk over all of them.

use super::{Bucket, Places, remove};
use crate::failpoints::{Failpoint, is_on};
use crate::hash::{HashSeed, Map};
use crate::key::Key;
use crate::key_range::{KeyRange, Shape};
use crate::selector::Selector;

#[derive(Debug)]
pub(super) struct Ranges {
    seed: HashSeed,
    /// By row of the schema.
    resources: Vec<Hashed>,
    others: Others,
    /// Classes of all ranges.
    classes: usize,
}

/// The ranges of one resource that are found by hash.
#[derive(Debug)]
struct Hashed {
    by_path: Map<Box<str>, Bucket>,
    by_prefix: Map<Box<str>, Bucket>,
    /// The lengths of these prefixes, and how many have each.
    lengths: Vec<(usize, usize)>,
}

impl Ranges {
    pub(super) fn new(resources: usize, seed: HashSeed) -> Self {
        let hashed = || Hashed {
            by_path: Map::with_hasher(seed),
            by_prefix: Map::with_hasher(seed),
            lengths: Vec::new(),
        };
        Self {
            seed,
            resources: std::iter::repeat_with(hashed).take(resources).collect(),
            others: Others::default(),
            classes: 0,
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.classes == 0
    }

    pub(super) fn add(&mut self, range: &KeyRange, selector: &Selector, class: u32, places: &mut Places) {
        let seed = self.seed;
        self.classes += 1;
        let bucket = match range.shape() {
            Shape::Key(id, path) if id.row() < self.resources.len() => {
                let buckets = &mut self.resources[id.row()].by_path;
                buckets.entry(path.into()).or_insert_with(|| Bucket::new(seed))
            }
            Shape::Prefix(id, prefix) if id.row() < self.resources.len() => {
                self.resources[id.row()].prefix(prefix, seed)
            }
            Shape::Key(..) | Shape::Prefix(..) | Shape::Other => self.others.bucket(range, seed),
        };
        bucket.add(selector, class, places);
    }

    pub(super) fn remove(&mut self, range: &KeyRange, selector: &Selector, class: u32, places: &mut Places) {
        self.classes -= 1;
        match range.shape() {
            Shape::Key(id, path) if id.row() < self.resources.len() => {
                let buckets = &mut self.resources[id.row()].by_path;
                if buckets.get_mut(path).is_some_and(|bucket| bucket.remove(selector, class, places)) {
                    remove(buckets, path);
                }
            }
            Shape::Prefix(id, prefix) if id.row() < self.resources.len() => {
                let hashed = &mut self.resources[id.row()];
                let bucket = hashed.by_prefix.get_mut(prefix);
                if bucket.is_some_and(|bucket| bucket.remove(selector, class, places)) {
                    hashed.let_go(prefix);
                }
            }
            Shape::Key(..) | Shape::Prefix(..) | Shape::Other => {
                self.others.remove(range, selector, class, places);
            }
        }
    }

    /// Visits the buckets of the ranges that contain a key. Returns the number of look-ups.
    pub(super) fn covering(&mut self, key: &Key, mut visit: impl FnMut(&Bucket)) -> usize {
        let mut looks = 0;
        if let Some(hashed) = self.resources.get(key.resource().row()) {
            let path = key.path();
            looks += usize::from(!hashed.by_path.is_empty()) + hashed.lengths.len();
            if !hashed.by_path.is_empty() {
                hashed.by_path.get(path).into_iter().for_each(&mut visit);
            }
            for (len, _) in &hashed.lengths {
                // A length that ends within a character of this path is not that of a prefix of it.
                let bucket = path.get(..*len).and_then(|prefix| hashed.by_prefix.get(prefix));
                bucket.into_iter().for_each(&mut visit);
            }
        }
        looks + self.others.covering(key, visit)
    }

    #[cfg(test)]
    pub(super) fn holds_nothing(&self) -> bool {
        let hashed = |it: &Hashed| it.by_path.is_empty() && it.by_prefix.is_empty() && it.lengths.is_empty();
        self.classes == 0 && self.others.sorted.is_empty() && self.resources.iter().all(hashed)
    }
}

impl Hashed {
    fn prefix(&mut self, prefix: &str, seed: HashSeed) -> &mut Bucket {
        if !self.by_prefix.contains_key(prefix) {
            match self.lengths.iter_mut().find(|(len, _)| *len == prefix.len()) {
                Some((_, count)) => *count += 1,
                None => self.lengths.push((prefix.len(), 1)),
            }
        }
        self.by_prefix.entry(prefix.into()).or_insert_with(|| Bucket::new(seed))
    }

    /// Removes a prefix that no class watches any more.
    fn let_go(&mut self, prefix: &str) {
        remove(&mut self.by_prefix, prefix);
        if let Some(at) = self.lengths.iter().position(|(len, _)| *len == prefix.len()) {
            self.lengths[at].1 -= 1;
            if self.lengths[at].1 == 0 {
                self.lengths.swap_remove(at);
            }
        }
    }
}

/// Ranges that are neither one key nor a prefix: a tree in a sorted list. The middle of the list is the root, the middles of
/// its halves are the root's children, and so on.
#[derive(Debug, Default)]
struct Others {
    sorted: Vec<(KeyRange, Box<Bucket>)>,
    /// By index of a root: the range of its subtree that ends last.
    furthest: Vec<usize>,
    /// `furthest` belongs to an earlier state of the list.
    stale: bool,
}

impl Others {
    fn bucket(&mut self, range: &KeyRange, seed: HashSeed) -> &mut Bucket {
        let at = self.sorted.binary_search_by(|(known, _)| known.cmp(range)).unwrap_or_else(|at| {
            self.sorted.insert(at, (range.clone(), Box::new(Bucket::new(seed))));
            self.stale = true;
            at
        });
        &mut self.sorted[at].1
    }

    fn remove(&mut self, range: &KeyRange, selector: &Selector, class: u32, places: &mut Places) {
        if let Ok(at) = self.sorted.binary_search_by(|(known, _)| known.cmp(range))
            && self.sorted[at].1.remove(selector, class, places)
        {
            self.sorted.remove(at);
            self.stale = true;
        }
    }

    fn covering(&mut self, key: &Key, mut visit: impl FnMut(&Bucket)) -> usize {
        if std::mem::take(&mut self.stale) {
            self.furthest.clear();
            self.furthest.resize(self.sorted.len(), 0);
            self.measure(0, self.sorted.len());
        }
        let mut looks = 0;
        self.walk(key, 0, self.sorted.len(), &mut looks, &mut visit);
        looks
    }

    /// Stores the furthest end of each subtree of a part of the list.
    fn measure(&mut self, low: usize, high: usize) -> Option<usize> {
        if low == high {
            return None;
        }
        let root = usize::midpoint(low, high);
        let mut furthest = root;
        for below in [self.measure(low, root), self.measure(root + 1, high)].into_iter().flatten() {
            if self.sorted[below].0.reaches(&self.sorted[furthest].0) {
                furthest = below;
            }
        }
        self.furthest[root] = furthest;
        Some(furthest)
    }

    /// Visits the ranges of a part of the list that contain a key.
    fn walk(&self, key: &Key, low: usize, high: usize, looks: &mut usize, visit: &mut impl FnMut(&Bucket)) {
        if low == high {
            return;
        }
        *looks += 1;
        let root = usize::midpoint(low, high);
        if !self.sorted[self.furthest[root]].0.ends_after(key) {
            return;
        }
        self.walk(key, low, root, looks, visit);
        let (range, bucket) = &self.sorted[root];
        if range.begins_by(key) {
            if range.ends_after(key) {
                visit(bucket);
            }
            if !is_on(Failpoint::LaterRangeMissed) {
                self.walk(key, root + 1, high, looks, visit);
            }
        }
    }
}
