//! The store behind the publisher: random changes, batches, progress and compaction.

use revcast_engine::BatchError;
use revcast_engine::change::{Batch, Change};
use revcast_engine::resource::Codec;
use revcast_engine::revision::{Position, Revision};

use super::fault::{Checked, Fault, Promise, broken};
use super::object::{KINDS, draft, spoil};
use super::packed::{repack, respoil};
use super::world::World;

impl World {
    /// Some batches, and mostly their publication.
    pub(crate) fn write(&mut self) -> Checked {
        for _ in 0..self.rng.range(1, self.plan.burst) {
            if !self.batch()? {
                break;
            }
        }
        if self.rng.percent(85) { self.publish() } else { Ok(()) }
    }

    /// Writes one revision. False when the writer is to wait first.
    fn batch(&mut self) -> Result<bool, Fault> {
        let gap = if self.rng.percent(20) { self.rng.range_u64(2, 5) } else { 1 };
        let revision = self.net.oracle.taken + gap;
        let seconds = self.seconds();
        let names = self.net.oracle.names.len();
        let huge = self.plan.huge > 0 && self.rng.percent(self.plan.huge);
        let deleted = if huge { *self.rng.pick(&[10, 90]) } else { 25 };
        let size = if huge {
            names
        } else if self.rng.percent(50) {
            1
        } else {
            self.rng.range(2, self.plan.revision_max)
        };
        self.net.coverage.huge_batches += u64::from(huge);
        let mut changes = Vec::new();
        let mut states = Vec::new();
        for nth in 0..size {
            let at = if huge { nth } else { self.rng.below(names) };
            if states.iter().any(|(name, _)| *name == at) {
                continue;
            }
            let newest = self.net.oracle.newest(at);
            let exists = newest.is_some();
            let known = newest.is_some_and(|newest| newest.unreadable.is_none());
            let name = &self.net.oracle.names[at];
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
                let spoiled = spoil(&mut self.rng, (at, name), revision, before);
                let (value, state) = respoil(self.packing.is_some(), name, spoiled);
                changes.push(Change { key, value: Some(value) });
                states.push((at, Some(state)));
                self.net.coverage.unreadable_values += 1;
                continue;
            }
            let large = self.plan.large > 0 && self.rng.percent(self.plan.large);
            self.net.coverage.large_objects += u64::from(large);
            let pad = if large {
                self.rng.range(66_000, 200_000)
            } else if self.rng.percent(4) {
                1_500
            } else {
                self.rng.below(80)
            };
            let drafted = draft(&mut self.rng, (at, name), revision, known, pad);
            let (value, state) = repack(self.packing.as_mut(), name, drafted, known);
            let changed = newest.is_some_and(|newest| newest.packed != state.packed);
            self.net.coverage.protobuf_changed += u64::from(changed);
            changes.push(Change { key, value: Some(value) });
            states.push((at, Some(state)));
        }
        if self.rng.percent(2) {
            return self.refused(changes).map(|()| true);
        }
        let count = states.len();
        let batch = Batch { revision: Revision::new(revision), changes };
        if self.plan.waits && self.publisher.should_wait(self.publisher.weigh(&batch)) {
            self.net.coverage.backpressure += 1;
            return Ok(false);
        }
        self.note_needs()?;
        if let Err(error) = self.publisher.handle_batch(&batch, seconds) {
            return broken(Promise::ExactlyOnce, format!("a good batch was refused: {error}"));
        }
        let events = self.net.oracle.events.len();
        self.net.oracle.take(revision, seconds, states);
        self.net.coverage.grown += u64::from(self.net.oracle.grew);
        self.net.coverage.batches_of_many += u64::from(self.net.oracle.events.len() - events > 1);
        self.net.note(|_| format!("batch of {count} at revision {revision}"));
        Ok(true)
    }

    /// Passes the model what shards need, which cannot be more than what they have not dispatched.
    fn note_needs(&mut self) -> Checked {
        let needed = self.feed.needed_from().map_or(0, Position::get);
        let oracle = &mut self.net.oracle;
        let undispatched = self.shards.iter().map(|driven| oracle.after(driven.shard.revision().get())).min();
        let undispatched = undispatched.unwrap_or(0);
        if needed > undispatched as u64 {
            return broken(
                Promise::Window,
                format!("shards need what comes from {needed} on, but a shard stands at {undispatched}"),
            );
        }
        oracle.need(usize::try_from(needed).unwrap_or(usize::MAX));
        Ok(())
    }

    /// A batch that is not newer than the last one: nothing of it may be visible.
    fn refused(&mut self, changes: Vec<Change>) -> Checked {
        self.net.coverage.batches_refused += 1;
        let taken = self.net.oracle.taken;
        let batch = Batch { revision: Revision::new(taken - self.rng.range_u64(0, taken.min(2))), changes };
        match self.publisher.handle_batch(&batch, 0) {
            Err(BatchError::NotNewer { newest }) if newest.get() == taken => Ok(()),
            other => broken(Promise::ExactlyOnce, format!("a bad batch gave {other:?}")),
        }
    }

    pub(crate) fn publish(&mut self) -> Checked {
        self.note_needs()?;
        self.publisher.publish();
        let before = self.net.oracle.published;
        self.net.oracle.publish();
        self.net.coverage.events += (self.net.oracle.published - before) as u64;
        self.net.note(|net| {
            let oracle = &net.oracle;
            format!(
                "publish: {} events, revision {}, window from {}",
                oracle.published, oracle.visible, oracle.oldest
            )
        });
        self.check_window()
    }

    pub(crate) fn progress(&mut self) -> Checked {
        let taken = self.net.oracle.taken;
        // Sometimes an old revision.
        let revision =
            if self.rng.percent(20) { taken.saturating_sub(1) } else { taken + self.rng.range_u64(1, 4) };
        self.publisher.handle_progress(Revision::new(revision));
        self.net.oracle.progress(revision);
        self.net.coverage.progress += 1;
        self.net.note(|_| format!("progress to revision {revision}"));
        if self.rng.percent(70) { self.publish() } else { Ok(()) }
    }

    pub(crate) fn compact(&mut self) -> Checked {
        let oracle = &self.net.oracle;
        let revision = if self.rng.percent(10) {
            oracle.taken + 5
        } else {
            self.rng.range_u64(oracle.forgotten.min(oracle.taken), oracle.taken)
        };
        self.note_needs()?;
        self.publisher.compact(Revision::new(revision));
        self.net.oracle.compact(revision);
        self.net.coverage.compactions += 1;
        self.net.note(|net| format!("compact to {revision}: window from {}", net.oracle.oldest));
        if self.net.oracle.published == self.net.oracle.events.len() { self.check_window() } else { Ok(()) }
    }

    /// Compares the real window with its model. Only when nothing is staged, because staged events are not counted yet.
    fn check_window(&self) -> Checked {
        let oracle = &self.net.oracle;
        let real = (
            self.feed.window(),
            self.publisher.window_bytes(),
            self.feed.forgotten().get(),
            self.feed.revision().get(),
            self.feed.head().get(),
        );
        let model = (
            oracle.window() as u64,
            oracle.window_bytes(),
            oracle.forgotten,
            oracle.visible,
            oracle.published as u64,
        );
        if self.plan.waits && !oracle.is_within_limits() {
            return broken(Promise::Window, format!("{} events in the window", oracle.window()));
        }
        if real != model {
            return broken(
                Promise::Window,
                format!("window, bytes, forgotten, revision, head: {model:?} expected, got {real:?}"),
            );
        }
        Ok(())
    }
}
