//! The store behind the publisher: random changes, batches, progress and compaction.

use std::sync::Arc;

use revcast_engine::BatchError;
use revcast_engine::change::{Batch, Change};
use revcast_engine::codec::{Decoder, Reading};
use revcast_engine::revision::{Position, Revision};

use super::drawing::Drawing;
use super::fault::{Checked, Fault, Promise, broken};
use super::past::Past;
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
        let mut drawing = Drawing {
            rng: &mut self.rng,
            plan: &self.plan,
            packing: self.packing.as_mut(),
            coverage: &mut self.net.coverage,
        };
        let (changes, states) = drawing.revision(&self.net.oracle, revision);
        if self.rng.percent(2) {
            return self.refused(changes).map(|()| true);
        }
        let count = states.len();
        let batch = Batch { revision: Revision::new(revision), changes };
        if self.plan.waits && self.publisher.should_wait(&batch) {
            self.net.coverage.backpressure += 1;
            return Ok(false);
        }
        self.note_needs()?;
        let readings = self.read(&batch);
        if let Err(error) = self.publisher.handle_batch_with(&batch, &readings, seconds) {
            return broken(Promise::ExactlyOnce, format!("a good batch was refused: {error}"));
        }
        let events = self.net.oracle.events.len();
        self.net.oracle.take(revision, seconds, states);
        self.net.coverage.grown += u64::from(self.net.oracle.grew);
        self.net.coverage.batches_of_many += u64::from(self.net.oracle.events.len() - events > 1);
        self.net.note(|_| format!("batch of {count} at revision {revision}"));
        Ok(true)
    }

    /// Of every second revision, what can be read of its values: they are published as if the publisher had read them.
    fn read(&mut self, batch: &Batch) -> Vec<Option<Arc<Reading>>> {
        if batch.revision.get().is_multiple_of(2) {
            return Vec::new();
        }
        let mut decoder = Decoder::new();
        let schema = self.feed.schema();
        let read = |change: &Change| {
            let value = change.value.as_ref()?;
            decoder.read(schema.get(change.key.resource()), value).ok().map(Arc::new)
        };
        let readings: Vec<_> = batch.changes.iter().map(read).collect();
        self.net.coverage.read_before += readings.iter().flatten().count() as u64;
        readings
    }

    /// Passes the model what shards need, which cannot be more than what they have not dispatched.
    fn note_needs(&mut self) -> Checked {
        let oracle = &mut self.net.oracle;
        let needed = self.feed.needed_from().map_or(0, |needed| needed.since(Position::FIRST));
        let needed = needed + oracle.history as u64;
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

    /// Puts the history into the window, if the state is still within it.
    pub(crate) fn prepend_past(&mut self, past: Past) -> Checked {
        let Past { mut history, revisions, .. } = past;
        let told: usize = revisions.iter().map(|(_, changes)| changes.len()).sum();
        for (revision, changes) in revisions {
            if let Err(contradiction) = history.take(Revision::new(revision), changes) {
                return broken(Promise::ExactlyOnce, format!("a sound history is refused: {contradiction}"));
            }
        }
        let seconds = self.seconds();
        let older = match history.finish(seconds, self.net.now) {
            Ok(older) => older,
            Err(contradiction) => {
                return broken(Promise::ExactlyOnce, format!("a sound history is refused: {contradiction}"));
            }
        };
        let added = self.publisher.prepend(older);
        let expected = self.net.oracle.prepend(seconds);
        if added != expected {
            return broken(Promise::Window, format!("{added} older events were taken, not {expected}"));
        }
        let coverage = &mut self.net.coverage;
        coverage.history_events += added as u64;
        coverage.history_cut += u64::from(added > 0 && added < told);
        coverage.history_late += u64::from(added == 0 && told > 0);
        self.net.note(|net| {
            format!("history: {added} of {told} older events, window from {}", net.oracle.oldest)
        });
        Ok(())
    }

    /// Compares the real window with its model. Only when nothing is staged, because staged events are not counted yet.
    fn check_window(&self) -> Checked {
        let oracle = &self.net.oracle;
        let real = (
            self.feed.window(),
            self.publisher.window_bytes(),
            self.feed.forgotten().get(),
            self.feed.revision().get(),
            self.feed.published() + oracle.history as u64,
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
