//! Which keys expire, and when.
//!
//! Owns the order of expiry only: it neither deletes keys nor reads a clock. Exact, not lazy: a lease renewed a million times
//! takes the space of one.

use std::collections::{BTreeSet, HashMap};

use revcast_engine::key::Key;

use crate::source::WallTime;

/// The keys that have a lease.
#[derive(Debug, Default)]
pub(super) struct Leases {
    /// Soonest first; keys that are due together are in key order.
    due: BTreeSet<(WallTime, Key)>,
    /// The same pairs by key.
    of: HashMap<Key, WallTime>,
}

impl Leases {
    /// Replaces the lease of `key`; `None` removes it.
    pub(super) fn set(&mut self, key: &Key, expires: Option<WallTime>) {
        let before = match expires {
            Some(at) => self.of.insert(key.clone(), at),
            None => self.of.remove(key),
        };
        if before == expires {
            return;
        }
        if let Some(before) = before {
            self.due.remove(&(before, key.clone()));
        }
        if let Some(at) = expires {
            self.due.insert((at, key.clone()));
        }
    }

    /// Removes the key that is due first, if one is due at `now`.
    pub(super) fn pop_due(&mut self, now: WallTime) -> Option<Key> {
        if self.next()? > now {
            return None;
        }
        let (_, key) = self.due.pop_first()?;
        self.of.remove(&key);
        Some(key)
    }

    /// When `key` is due, if it has a lease.
    pub(super) fn of(&self, key: &Key) -> Option<WallTime> {
        self.of.get(key).copied()
    }

    /// When the next key is due.
    pub(super) fn next(&self) -> Option<WallTime> {
        self.due.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use revcast_engine::key::ResourceId;

    fn key(name: &str) -> Key {
        Key::new(ResourceId::new(0), None, name)
    }

    fn at(ms: u64) -> WallTime {
        WallTime::from_millis(ms)
    }

    #[test]
    fn the_soonest_is_due_first_and_a_new_lease_replaces_the_old() {
        let mut leases = Leases::default();
        leases.set(&key("a"), Some(at(30)));
        leases.set(&key("b"), Some(at(20)));
        leases.set(&key("c"), Some(at(20)));
        leases.set(&key("b"), Some(at(40)));
        assert_eq!(leases.next(), Some(at(20)));
        assert_eq!(leases.pop_due(at(19)), None);
        assert_eq!(leases.pop_due(at(40)), Some(key("c")));
        assert_eq!(leases.pop_due(at(40)), Some(key("a")));
        assert_eq!(leases.pop_due(at(40)), Some(key("b")));
        assert_eq!((leases.pop_due(at(40)), leases.next()), (None, None));
    }

    #[test]
    fn a_key_without_a_lease_takes_no_room() {
        let mut leases = Leases::default();
        leases.set(&key("a"), Some(at(1)));
        leases.set(&key("a"), Some(at(1)));
        leases.set(&key("a"), None);
        leases.set(&key("a"), None);
        assert!(leases.due.is_empty() && leases.of.is_empty());
    }
}
