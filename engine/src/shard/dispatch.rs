//! A round: the newest events of the ring, to the live members of every class that cares.
//!
//! It owns the way from events to runs and from runs to sockets. The verdict is computed once a class, the run is
//! joined once a class, and a delivery is one call of the outlet. A round ends where a revision ends, so nothing
//! can come between two events of one revision.

use std::sync::Arc;

use bytes::Bytes;

use super::timings::Mark;
use super::{Outlet, Sent, Shard};
use crate::event::Event;
use crate::limits::{ROUND_BYTES, ROUND_EVENTS, ROUND_REQUIREMENTS, RUN_BYTES, SEND_BYTES, SENDS_PER_TURN};
use crate::planted::{Bug, planted};
use crate::revision::Position;
use crate::ring::Missing;
use crate::tick::Tick;
use crate::watcher::{End, Phase, WatcherId};

/// The round under way, and buffers that rounds reuse.
#[derive(Debug, Default)]
pub(super) struct Round {
    active: bool,
    /// When the newest one began.
    pub(super) began: Tick,
    /// A round ended and nothing was lent since.
    pub(super) just_ended: bool,
    pub(super) mark: Mark,
    /// Classes with a run.
    classes: Vec<u32>,
    /// The class that is being served.
    at: usize,
    /// Whether serving it has begun.
    begun: bool,
    /// Its run in one piece, when it has several frames.
    joined: Vec<u8>,
    candidates: Vec<u32>,
    ids: Vec<WatcherId>,
    sent: Vec<Sent>,
}

impl Round {
    pub(super) const fn active(&self) -> bool {
        self.active
    }

    /// Bytes that its buffers hold.
    pub(super) const fn capacity(&self) -> usize {
        self.joined.capacity()
            + size_of::<WatcherId>() * self.ids.capacity()
            + size_of::<Sent>() * self.sent.capacity()
            + size_of::<u32>() * (self.classes.capacity() + self.candidates.capacity())
    }
}

impl Shard {
    /// Takes events from the ring and sorts them into runs.
    pub(super) fn begin_round(&mut self, now: Tick) {
        // The progress is read before the head: its events are before the head.
        let progress = self.feed.ring.progress();
        let head = self.feed.ring.head();
        let mut at = self.dispatched;
        let mut revision = self.revision;
        let mut events = 0;
        let mut bytes = 0;
        let mut looked_at = 0;
        let mut unreadable = false;
        let mut arrived = None;
        while at < head {
            let event = match self.feed.ring.get(at) {
                Ok(event) => event,
                Err(Missing::NotYet) => break,
                Err(Missing::Lapped) => {
                    self.lapped(now);
                    return;
                }
            };
            at = at.next();
            revision = event.revision;
            arrived.get_or_insert(event.arrived);
            events += 1;
            bytes += event.weight();
            if let Some(refusal) = event.refusal() {
                unreadable = true;
                self.add_refusal(&event, refusal);
            } else if !(planted(Bug::SkippedEvent) && event.position.get() % 17 == 3) {
                looked_at += self.add_event(&event);
            }
            let full = events >= ROUND_EVENTS || bytes >= ROUND_BYTES || looked_at >= ROUND_REQUIREMENTS;
            if (event.ends_revision && full) || planted(Bug::SplitRevision) {
                break;
            }
        }
        self.stats.events_dispatched += at.since(self.dispatched);
        self.stats.rounds += 1;
        self.dispatched = at;
        self.revision = if at == head { revision.max(progress) } else { revision };
        self.round.active = true;
        self.round.began = now;
        self.round.just_ended = false;
        self.round.at = 0;
        self.round.begun = false;
        let heard = arrived.filter(|_| !self.round.classes.is_empty());
        self.round.mark = heard.map_or(Mark::Nothing, Mark::Begun);
        if unreadable {
            self.refuse_parked(now);
        }
    }

    /// Puts an event's frames into the runs of the classes that it means something to. How many of these it asked, and
    /// requirements it looked at.
    fn add_event(&mut self, event: &Arc<Event>) -> usize {
        let mut candidates = std::mem::take(&mut self.round.candidates);
        self.table.interest.candidates(event, &mut candidates);
        let mut looked_at = 0;
        for &number in &candidates {
            let Some(class) = &self.table.classes[number as usize] else { continue };
            if class.members.is_empty() || class.run.ends {
                continue;
            }
            looked_at += 1 + class.key.selector.requirements();
            let Some(kind) = class.key.verdict(event) else { continue };
            let frame = self.feed_frame(event, &class.key, kind, class.run.frames.is_empty());
            self.add_frame(number, frame, event.position);
        }
        self.round.candidates = candidates;
        looked_at
    }

    /// A value became unreadable: every class that covers its key is told so, and gets nothing more.
    fn add_refusal(&mut self, event: &Event, refusal: &Bytes) {
        if planted(Bug::UnreadableSkipped) {
            return;
        }
        let mut candidates = std::mem::take(&mut self.round.candidates);
        self.table.interest.covering(event.key(), &mut candidates);
        for &number in &candidates {
            let Some(class) = &self.table.classes[number as usize] else { continue };
            let known = || event.before.as_ref().is_some_and(|before| class.key.matches_object(before));
            if class.members.is_empty()
                || class.run.ends
                || planted(Bug::UnreadableToldBySelector) && !known()
            {
                continue;
            }
            self.add_frame(number, refusal.clone(), event.position);
            if let Some(class) = &mut self.table.classes[number as usize] {
                class.run.ends = true;
            }
        }
        self.round.candidates = candidates;
    }

    fn add_frame(&mut self, number: u32, frame: Bytes, position: Position) {
        if let Some(class) = &mut self.table.classes[number as usize] {
            if class.run.frames.is_empty() {
                self.round.classes.push(number);
            }
            class.run.push(frame, position);
        }
    }

    /// Serves members of the round under way, at most [`SENDS_PER_TURN`] of them, and fewer of long runs.
    pub(super) fn deliver(&mut self, outlet: &mut impl Outlet, now: Tick) {
        let mut sends = 0;
        while sends < SENDS_PER_TURN {
            let Some(&number) = self.round.classes.get(self.round.at) else {
                self.end_round();
                return;
            };
            if !self.round.begun && !self.begin_class(number, now) {
                self.round.at += 1;
                continue;
            }
            sends += self.serve_class(number, SENDS_PER_TURN - sends, outlet, now);
            if sends > 0 {
                self.round.mark.sent();
            }
        }
    }

    fn end_round(&mut self) {
        self.round.classes.clear();
        self.round.active = false;
        self.round.just_ended = true;
        self.round.mark.over();
        self.report();
    }

    /// Prepares the run of a class. False when there is nothing to serve.
    fn begin_class(&mut self, number: u32, now: Tick) -> bool {
        // The class may have gone with its last watcher since the round began, and its number be used again.
        let Some(class) = &mut self.table.classes[number as usize] else { return false };
        let Some(&(_, first)) = class.run.frames.first() else { return false };
        class.members.begin();
        class.served = Some(now);
        if class.run.bytes > RUN_BYTES && class.run.frames.len() > 1 {
            // Too long to be joined: the members take it from the ring, page by page.
            class.run.clear();
            let mut ids = std::mem::take(&mut self.round.ids);
            class.members.serve(usize::MAX, &mut ids);
            for &id in ids.iter().rev() {
                self.fall_behind(id, Phase::CatchingUp { cursor: first, offset: 0 });
                self.queue(id);
            }
            self.round.ids = ids;
            return false;
        }
        self.round.joined.clear();
        if class.run.frames.len() > 1 {
            for (frame, _) in &class.run.frames {
                self.round.joined.extend_from_slice(frame);
            }
        }
        self.round.begun = true;
        true
    }

    /// Serves members for up to `max` sends, one at least. For how many sends they count.
    fn serve_class(&mut self, number: u32, max: usize, outlet: &mut impl Outlet, now: Tick) -> usize {
        let Some(class) = &mut self.table.classes[number as usize] else {
            self.next_class();
            return 0;
        };
        let mut ids = std::mem::take(&mut self.round.ids);
        let mut sent = std::mem::take(&mut self.round.sent);
        sent.clear();
        let each = 1 + class.run.bytes / SEND_BYTES;
        class.members.serve((max / each).max(1), &mut ids);
        let frames = class.run.frames.len();
        let (events, ends) = (class.run.events() as u64, class.run.ends);
        let opened = class.key.opened;
        let total = class.run.bytes;
        match class.run.frames.first() {
            Some((only, _)) if frames == 1 => outlet.send_each(&ids, only, &mut sent),
            Some(_) => outlet.send_each(&ids, &self.round.joined, &mut sent),
            None => {}
        }
        debug_assert_eq!(ids.len(), sent.len(), "the outlet answers for every member");
        // From the last to the first: one that leaves is replaced by one behind it.
        for (&id, &what) in ids.iter().zip(&sent).rev() {
            match what {
                Sent::Took(taken) if taken >= total => {
                    self.stats.events_sent += events;
                    self.stats.bytes_sent += taken as u64;
                    if ends {
                        self.stats.refused += 1;
                        self.because(id, End::Refused);
                        self.end(id, true);
                    } else if !opened {
                        self.fall_behind(id, Phase::CatchingUp { cursor: self.dispatched, offset: 0 });
                        self.table.open(id);
                        self.queue(id);
                    }
                }
                Sent::Took(taken) => self.cut_short(id, number, taken, now),
                Sent::Gone => self.end(id, false),
            }
        }
        let served = ids.len() * each;
        self.round.ids = ids;
        self.round.sent = sent;
        match &mut self.table.classes[number as usize] {
            Some(class) if !class.members.served() => {}
            Some(class) => {
                class.run.clear();
                self.next_class();
            }
            None => self.next_class(),
        }
        served
    }

    fn next_class(&mut self) {
        self.round.at += 1;
        self.round.begun = false;
    }

    /// A member took only part of its run: it goes on from there by itself.
    fn cut_short(&mut self, id: WatcherId, number: u32, taken: usize, now: Tick) {
        self.stats.bytes_sent += taken as u64;
        let Some(class) = &self.table.classes[number as usize] else { return };
        let Some((cursor, offset)) = class.run.locate(taken) else { return };
        let whole = class.run.frames.iter().take_while(|(_, position)| *position < cursor).count();
        let opened = class.key.opened || whole > 0;
        self.stats.events_sent += whole as u64;
        if let Some(last) = class.run.refusal(cursor).cloned() {
            self.refuse_within(id, last, offset, now);
            return;
        }
        let offset = if planted(Bug::PartialSendRestarted) { 0 } else { offset };
        let offset = u32::try_from(offset).expect("a frame is shorter than 4 GiB");
        self.fall_behind(id, Phase::CatchingUp { cursor, offset });
        if opened {
            self.table.open(id);
        }
        self.block(id);
    }

    /// A live watcher leaves its class's live members for another phase.
    pub(super) fn fall_behind(&mut self, id: WatcherId, phase: Phase) {
        self.table.leave_live(id);
        if let Phase::CatchingUp { cursor, .. } = phase {
            self.fallen.add(cursor);
        }
        if let Some(watcher) = self.table.get_mut(id) {
            watcher.phase = phase;
        }
    }

    /// Forgets what the round under way has still to deliver: its members are to be told 410.
    pub(super) fn break_off_round(&mut self) {
        for number in std::mem::take(&mut self.round.classes) {
            if let Some(class) = &mut self.table.classes[number as usize] {
                class.run.clear();
            }
        }
        if self.round.active {
            self.end_round();
        }
    }

    /// The shard itself was lapped: nobody knows what the live ones missed, so all of them are told 410.
    fn lapped(&mut self, now: Tick) {
        self.break_off_round();
        for number in 0..self.table.classes.len() {
            while let Some(id) = self.table.classes[number].as_ref().and_then(|class| class.members.newest())
            {
                self.evict(id, now);
            }
        }
        let progress = self.feed.ring.progress();
        self.dispatched = self.feed.ring.head();
        self.revision = self.revision.max(progress);
        self.report();
        // Among what was missed a value may have become unreadable.
        self.refuse_parked(now);
    }

    /// Without new events the store's progress is the shard's.
    pub(super) fn follow_progress(&mut self) {
        let progress = self.feed.ring.progress();
        if self.feed.ring.head() == self.dispatched {
            self.revision = self.revision.max(progress);
        }
    }
}
