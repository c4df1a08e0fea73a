//! By what right the watches of one shard were begun, so that they can be asked for it again.
//!
//! Beside the watches, not in them: only watches whose right can change are here, and a delivery never looks. When the
//! rules or tokens change, some watches a time are asked; the others wait for the next turn.

use std::collections::{HashMap, VecDeque};

use revcast_engine::WatcherId;

use crate::auth::Pass;

/// Watches that are asked in one go: a millisecond at most.
const ASKED_AT_ONCE: usize = 256;

/// The rights of watches.
#[derive(Debug, Default)]
pub(super) struct Passes {
    by_watch: HashMap<WatcherId, Box<Pass>>,
    /// The state that all were asked by, but those that are left.
    number: u64,
    left: VecDeque<WatcherId>,
}

impl Passes {
    /// A watch begins. If its right is of another state than the others', it is asked soon.
    pub(super) fn put(&mut self, id: WatcherId, pass: Box<Pass>) {
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

    /// Asks some of those that are to be asked; `end` is called for who has no right any more.
    pub(super) fn review(
        &mut self,
        number: u64,
        still: impl Fn(&Pass) -> bool,
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
