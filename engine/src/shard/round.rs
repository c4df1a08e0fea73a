//! The round under way: how far it is, and buffers that rounds reuse.
//!
//! Values only: `forming` makes the runs, `dispatch` sends them.

use std::sync::Arc;

use super::Sent;
use super::run::MessageRun;
use super::timings::Mark;
use crate::event::Event;
use crate::revision::{Position, Revision};
use crate::ring::Reader;
use crate::tick::Tick;
use crate::watcher::WatcherId;

/// How far the round is.
#[derive(Debug, Default)]
pub(super) enum Stage {
    /// There is none under way.
    #[default]
    Over,
    /// Its events are being sorted into runs.
    Forming(Forming),
    /// Its runs are being served.
    Serving,
}

/// The round under way, and buffers that rounds reuse.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) stage: Stage,
    /// When the newest one began.
    pub(super) began: Tick,
    /// A round ended and nothing was granted since.
    pub(super) just_ended: bool,
    pub(super) mark: Mark,
    /// Classes with a run.
    pub(super) classes: Vec<u32>,
    /// The class that is being served.
    pub(super) at: usize,
    /// Whether serving it has begun.
    pub(super) begun: bool,
    /// Its run, as it is offered.
    pub(super) run: MessageRun,
    /// Classes that the event being sorted may mean something to.
    pub(super) candidates: Vec<u32>,
    pub(super) ids: Vec<WatcherId>,
    pub(super) sent: Vec<Sent>,
}

impl Round {
    pub(super) const fn active(&self) -> bool {
        !matches!(self.stage, Stage::Over)
    }

    /// Bytes that its buffers hold.
    pub(super) const fn capacity(&self) -> usize {
        self.run.capacity()
            + size_of::<WatcherId>() * self.ids.capacity()
            + size_of::<Sent>() * self.sent.capacity()
            + size_of::<u32>() * (self.classes.capacity() + self.candidates.capacity())
    }
}

/// A round whose events are being sorted.
#[derive(Debug)]
pub(super) struct Forming {
    /// What was published when it began: it takes nothing newer.
    pub(super) head: Position,
    pub(super) progress: Revision,
    /// The next event to take.
    pub(super) at: Position,
    /// The event that was taken last, while classes are left to ask about it.
    pub(super) event: Option<Arc<Event>>,
    /// How many of its candidates were asked.
    pub(super) asked: usize,
    /// The revision of the event that was taken last.
    pub(super) revision: Revision,
    pub(super) events: usize,
    pub(super) bytes: usize,
    /// Classes, requirements and attributes that were looked at.
    pub(super) looks: usize,
    /// It has enough, and stands where a revision ends.
    pub(super) full: bool,
    pub(super) unreadable: bool,
    /// When the source had its first event.
    pub(super) arrived: Option<Tick>,
}

impl Forming {
    /// Of what is published now after `at`, which is where the round before ended, at `revision`.
    pub(super) fn new(ring: &Reader<Event>, at: Position, revision: Revision) -> Self {
        // The progress is read before the head: its events are before the head.
        let progress = ring.progress();
        Self {
            head: ring.head(),
            progress,
            at,
            event: None,
            asked: 0,
            revision,
            events: 0,
            bytes: 0,
            looks: 0,
            full: false,
            unreadable: false,
            arrived: None,
        }
    }

    /// The next event is taken into the round.
    pub(super) fn count(&mut self, event: &Event) {
        self.at = self.at.next();
        self.revision = event.revision;
        self.arrived.get_or_insert(event.arrived);
        self.events += 1;
        self.bytes += event.weight();
        self.asked = 0;
        self.looks += 1;
        self.unreadable |= event.refusal().is_some();
    }
}
