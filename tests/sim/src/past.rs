//! What happened before the state that a world's engine begins with: it is put into the window while watches are served.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use revcast_engine::Publisher;
use revcast_engine::history::{History, PastChange};
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;

use super::drawing::Drawing;
use super::oracle::Oracle;

/// The revisions before the state, as a source tells them.
#[derive(Debug)]
pub(crate) struct Past {
    pub(crate) history: History,
    pub(crate) revisions: Vec<(u64, Vec<PastChange>)>,
    /// The step at which it is put into the window.
    pub(crate) at: usize,
}

impl Past {
    /// Draws a history after revision `from`, and loads the state that it leads to.
    pub(crate) fn draw(
        mut drawing: Drawing<'_>,
        oracle: &mut Oracle,
        publisher: &mut Publisher,
        from: u64,
    ) -> Self {
        let mut stored: HashMap<Key, (u64, Bytes)> = HashMap::new();
        let mut revisions = Vec::new();
        let count = drawing.rng.range(0, 80);
        // What happens before it begins shows only as the states before.
        let unseen = drawing.rng.range(0, count.min(20));
        let (mut revision, mut begin) = (from, from);
        let mut changed = HashSet::new();
        for number in 0..count {
            if number == unseen {
                begin = revision;
            }
            revision += if drawing.rng.percent(20) { drawing.rng.range_u64(2, 5) } else { 1 };
            let (changes, states) = drawing.revision(oracle, revision);
            // Since when a key cannot be read is known of the newest value only.
            let again = states.iter().any(|(_, state)| {
                state.as_ref().is_some_and(|it| it.unreadable.is_some_and(|since| since < revision))
            });
            if again {
                continue;
            }
            let mut told = Vec::new();
            for change in changes {
                let before = match &change.value {
                    Some(value) => stored.insert(change.key.clone(), (revision, value.clone())),
                    None => stored.remove(&change.key),
                };
                let is_first = number >= unseen && changed.insert(change.key.clone());
                let before = before.map(|(at, value)| (Revision::new(at), value));
                let before = before.filter(|_| is_first || drawing.rng.percent(50));
                told.push(PastChange { key: change.key, value: change.value, before });
            }
            oracle.take(revision, 0, states);
            if number >= unseen {
                revisions.push((revision, told));
            }
        }
        if count == unseen {
            begin = revision;
        }
        // The state's own revision may be that of the last change, or a later one.
        revision += drawing.rng.range_u64(1, 3);
        for (key, (at, value)) in stored {
            publisher.load(key, Revision::new(at), &value);
        }
        publisher.loaded(Revision::new(revision));
        oracle.begin_with_history(begin, revision);
        let history = publisher.history(Revision::new(begin));
        // Mostly before the window has lost what it began with.
        let steps = drawing.plan.steps;
        let steps = if drawing.rng.percent(70) { steps / 20 + 1 } else { steps };
        let at = drawing.rng.below(steps);
        Self { history, revisions, at }
    }
}
