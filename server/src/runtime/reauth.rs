//! Authorization of each watch of one shard, checked again when rules or tokens change.
//!
//! Beside the watches, not in them: only watches whose authorization can change are here, and a delivery never looks. When the
//! rules or tokens change, some watches a time are asked; the others wait for the next turn.

use std::collections::{HashMap, VecDeque};

use revcast_engine::WatcherId;

use crate::auth::Authorization;

/// Watches that are asked in one go: a millisecond at most.
const ASKED_AT_ONCE: usize = 256;

/// The authorizations of watches.
#[derive(Debug, Default)]
pub(super) struct ReauthTable {
    by_watch: HashMap<WatcherId, Box<Authorization>>,
    /// The state that all were asked by, but those that are left.
    number: u64,
    left: VecDeque<WatcherId>,
}

impl ReauthTable {
    /// A watch begins. If its right is of another state than the others', it is asked soon.
    pub(super) fn put(&mut self, id: WatcherId, pass: Box<Authorization>) {
        if pass.number() != self.number {
            self.left.push_back(id);
        }
        self.by_watch.insert(id, pass);
    }

    /// A watch is over.
    pub(super) fn remove(&mut self, id: WatcherId) {
        self.by_watch.remove(&id);
    }

    /// All watches are over.
    pub(super) fn clear(&mut self) {
        self.by_watch.clear();
        self.left.clear();
    }

    /// Whether somebody is to be asked, now that the state has this number.
    pub(super) fn has_work(&self, number: u64) -> bool {
        !self.left.is_empty() || (number != self.number && !self.by_watch.is_empty())
    }

    /// Asks some of those that are to be asked; `end` is called for a watch that is not authorized any more.
    pub(super) fn review(
        &mut self,
        number: u64,
        still: impl Fn(&Authorization) -> bool,
        mut end: impl FnMut(WatcherId),
    ) {
        if number != self.number {
            self.number = number;
            self.left.clear();
            self.left.extend(self.by_watch.keys());
        }
        for _ in 0..ASKED_AT_ONCE {
            let Some(id) = self.left.pop_front() else { return };
            if self.by_watch.get(&id).is_some_and(|pass| !still(pass)) {
                end(id);
            }
        }
    }
}
