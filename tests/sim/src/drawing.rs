//! Random changes: what one revision is, for the publisher and for the model.

use revcast_engine::change::Change;
use revcast_engine::resource::Codec;

use super::coverage::Coverage;
use super::object::{KINDS, State, draft, spoil};
use super::oracle::Oracle;
use super::packed::{repack, respoil};
use super::plan::Plan;
use super::rng::Rng;

/// What changes are drawn from.
pub(crate) struct Drawing<'a> {
    pub(crate) rng: &'a mut Rng,
    pub(crate) plan: &'a Plan,
    pub(crate) packing: Option<&'a mut Rng>,
    pub(crate) coverage: &'a mut Coverage,
}

impl Drawing<'_> {
    /// The changes of one revision, and the states that they lead to; `None`: deleted.
    pub(crate) fn revision(
        &mut self,
        oracle: &Oracle,
        revision: u64,
    ) -> (Vec<Change>, Vec<(usize, Option<State>)>) {
        let names = oracle.names.len();
        let huge = self.plan.huge > 0 && self.rng.percent(self.plan.huge);
        let deleted = if huge { *self.rng.pick(&[10, 90]) } else { 25 };
        let size = if huge {
            names
        } else if self.rng.percent(50) {
            1
        } else {
            self.rng.range(2, self.plan.revision_max)
        };
        self.coverage.huge_batches += u64::from(huge);
        let mut changes = Vec::new();
        let mut states = Vec::new();
        for nth in 0..size {
            let at = if huge { nth } else { self.rng.below(names) };
            if states.iter().any(|(name, _)| *name == at) {
                continue;
            }
            let newest = oracle.newest(at);
            let exists = newest.is_some();
            let known = newest.is_some_and(|newest| newest.unreadable.is_none());
            let name = &oracle.names[at];
            let key = name.key.clone();
            let delete = if exists { self.rng.percent(deleted) } else { self.rng.percent(3) };
            if delete {
                changes.push(Change { key, value: None });
                states.push((at, None));
                continue;
            }
            let opaque = KINDS[name.kind].codec == Codec::Opaque;
            if !opaque && self.rng.percent(self.plan.unreadable) {
                let before = newest.map(|newest| &**newest);
                let spoiled = spoil(self.rng, (at, name), revision, before);
                let (value, state) = respoil(self.packing.is_some(), name, spoiled);
                changes.push(Change { key, value: Some(value) });
                states.push((at, Some(state)));
                self.coverage.unreadable_values += 1;
                continue;
            }
            let large = self.plan.large > 0 && self.rng.percent(self.plan.large);
            self.coverage.large_objects += u64::from(large);
            let pad = if large {
                self.rng.range(66_000, 200_000)
            } else if self.rng.percent(4) {
                1_500
            } else {
                self.rng.below(80)
            };
            let drafted = draft(self.rng, (at, name), revision, known, pad);
            let (value, state) = repack(self.packing.as_deref_mut(), name, drafted, known);
            let changed = newest.is_some_and(|newest| newest.packed != state.packed);
            self.coverage.protobuf_changed += u64::from(changed);
            changes.push(Change { key, value: Some(value) });
            states.push((at, Some(state)));
        }
        (changes, states)
    }
}
