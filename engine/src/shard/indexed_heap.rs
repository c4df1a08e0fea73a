//! Slots in the order of a key: which timer is due first, which watcher lags most.
//!
//! A heap of four children per node with an index by slot, so that any slot can be moved or removed. It never frees
//! memory, and allocates only when it holds more slots, or a higher one, than ever before: a tree allocates every few
//! changes, and here changes come with every bookmark, heartbeat and full socket.

const CHILDREN: usize = 4;
/// The position of a slot that is not in the heap.
const NOWHERE: u32 = u32::MAX;

/// Slots, each at most once, with their keys.
#[derive(Debug)]
pub(crate) struct IndexedHeap<K> {
    /// No entry is smaller than its parent.
    heap: Vec<(K, u32)>,
    /// By slot: its position in the heap.
    place: Vec<u32>,
}

impl<K: Copy + Ord> IndexedHeap<K> {
    pub(crate) const fn new() -> Self {
        Self { heap: Vec::new(), place: Vec::new() }
    }

    /// The smallest key, and the lowest of several slots that have it.
    pub(crate) fn first(&self) -> Option<(K, u32)> {
        self.heap.first().copied()
    }

    /// How many slots there are.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Sets the key of a slot, whether it had one or not.
    pub(crate) fn put(&mut self, slot: u32, key: K) {
        let number = slot as usize;
        if self.place.len() <= number {
            self.place.resize(number + 1, NOWHERE);
        }
        let mut at = self.place[number];
        if at == NOWHERE {
            at = u32::try_from(self.heap.len()).expect("no more entries than slots");
            self.heap.push((key, slot));
        }
        self.settle(at as usize, (key, slot));
    }

    /// Removes a slot, if it is in the heap.
    pub(crate) fn remove(&mut self, slot: u32) {
        let Some(place) = self.place.get_mut(slot as usize) else { return };
        let at = std::mem::replace(place, NOWHERE) as usize;
        if at == NOWHERE as usize {
            return;
        }
        let last = self.heap.pop().expect("it is there");
        if at < self.heap.len() {
            self.settle(at, last);
        }
    }

    /// Puts an entry into the hole at `at`, or above or below where it belongs.
    fn settle(&mut self, mut at: usize, entry: (K, u32)) {
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if self.heap[parent] <= entry {
                break;
            }
            self.set(at, self.heap[parent]);
            at = parent;
        }
        loop {
            let first = at * CHILDREN + 1;
            let children = first..(first + CHILDREN).min(self.heap.len());
            let Some(least) = children.min_by_key(|&child| self.heap[child]) else { break };
            if entry <= self.heap[least] {
                break;
            }
            self.set(at, self.heap[least]);
            at = least;
        }
        self.set(at, entry);
    }

    fn set(&mut self, at: usize, entry: (K, u32)) {
        self.heap[at] = entry;
        self.place[entry.1 as usize] = u32::try_from(at).expect("no more entries than slots");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Every operation compared with a map that is searched linearly, with keys that are often equal.
    #[test]
    fn it_knows_what_a_map_knows() {
        let mut heap = IndexedHeap::new();
        let mut map: BTreeMap<u32, u64> = BTreeMap::new();
        let mut random: u64 = 1;
        let mut removed = 0;
        for step in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let slot = u32::try_from(random >> 32 & 63).expect("six bits");
            let key = random >> 40 & 15;
            match random >> 60 {
                0..=5 => {
                    removed += usize::from(map.remove(&slot).is_some());
                    heap.remove(slot);
                }
                6 => {
                    if let Some((_, first)) = heap.first() {
                        map.remove(&first);
                        heap.remove(first);
                    }
                }
                _ => {
                    map.insert(slot, key);
                    heap.put(slot, key);
                }
            }
            let least = map.iter().map(|(&slot, &key)| (key, slot)).min();
            assert_eq!(heap.first(), least, "step {step}");
            assert_eq!(heap.heap.len(), map.len());
        }
        assert!(removed > 1_000, "{removed}");
        while let Some((key, slot)) = heap.first() {
            assert_eq!(map.iter().map(|(&slot, &key)| (key, slot)).min(), Some((key, slot)));
            map.remove(&slot);
            heap.remove(slot);
        }
        assert!(map.is_empty());
        heap.remove(3);
        heap.remove(1_000);
    }
}
