//! How a round is formed: the newest events of the ring, sorted into a run for each class that may match.
//!
//! It owns the point at which it stopped: one revision may have so many events, for so many classes, that sorting it
//! takes many turns. Meanwhile nothing is sent and `dispatched` does not move: so no watch becomes live, and a watch
//! that begins is behind. A round ends at the end of a revision, so nothing can come between two events of one
//! revision.

use std::sync::Arc;

use super::round::{Forming, Stage};
use super::timings::Mark;
use super::trail::concerns;
use super::{Shard, refusal};
use crate::event::Event;
use crate::failpoints::{Failpoint, is_on};
use crate::limits::{MESSAGE_BYTES_A_LOOK, ROUND_BYTES, ROUND_EVENTS, ROUND_REQUIREMENTS};
use crate::ring::Missing;
use crate::tick::Tick;

impl Shard {
    /// Sorts events into runs until none is left for the round, or the turn is over.
    pub(super) fn form_round(&mut self, mut forming: Forming, now: Tick) {
        let pause = forming.looks + self.config.looks_per_turn.max(1);
        while forming.event.is_some() || (forming.at < forming.head && !forming.full) {
            if forming.looks >= pause {
                self.stats.rounds_paused += 1;
                self.round.stage = Stage::Forming(forming);
                return;
            }
            let event = match forming.event.take() {
                Some(event) => event,
                None => match self.feed.ring.get(forming.at) {
                    Ok(event) => {
                        forming.count(&event);
                        self.table.next_noted = forming.at;
                        forming.looks += self.find_candidates(&event);
                        event
                    }
                    Err(Missing::NotYet) => break,
                    Err(Missing::Lapped) => {
                        self.lapped(now);
                        return;
                    }
                },
            };
            // Its messages go into the runs of the classes that it matches, until the turn is over.
            let refused = event.refusal().is_some();
            while let Some(&number) = self.round.candidates.get(forming.asked)
                && forming.looks < pause
            {
                forming.asked += 1;
                forming.looks +=
                    if refused { self.add_refusal(number, &event) } else { self.add_event(number, &event) };
            }
            if forming.asked < self.round.candidates.len() && !is_on(Failpoint::PausedEventDropped) {
                forming.event = Some(event);
                continue;
            }
            let full = forming.events >= ROUND_EVENTS
                || forming.bytes >= ROUND_BYTES
                || forming.looks >= ROUND_REQUIREMENTS;
            forming.full = (event.ends_revision && full) || is_on(Failpoint::SplitRevision);
        }
        self.formed(&forming, now);
    }

    /// Looks up which classes an event may match. Returns the number of looks.
    fn find_candidates(&mut self, event: &Event) -> usize {
        let candidates = &mut self.round.candidates;
        if event.refusal().is_some() {
            candidates.clear();
            if !is_on(Failpoint::UnreadableSkipped) {
                self.table.interest.covering(event.key(), candidates);
            }
            0
        } else if is_on(Failpoint::SkippedEvent) && event.position.get() % 17 == 3 {
            candidates.clear();
            0
        } else {
            self.table.interest.candidates(event, candidates)
        }
    }

    /// Puts an event's message into the run of a class, if it matches. Returns the number of looks.
    fn add_event(&mut self, number: u32, event: &Arc<Event>) -> usize {
        let Some(class) = &mut self.table.classes[number as usize] else { return 1 };
        // A class without members gets none before the round is over. With turns in between, its number may also belong
        // to another class by now: the named one was removed, and the new one has no members either.
        if class.members.is_empty() || class.run.is_closed() {
            return if class.trail.is_kept() { self.note_event(number, event) } else { 1 };
        }
        let mut looks = 1 + class.key.selector.requirements();
        if let Some(kind) = class.key.verdict(event) {
            if class.trail.is_kept() {
                class.trail.note(event.position, self.config.run_messages);
            }
            let name = class.key.message_name(kind, class.run.is_empty());
            let (message, is_new) = event.message(name, &*self.feed.encoder, self.feed.messages_counter());
            if is_new {
                looks += event.weight() / MESSAGE_BYTES_A_LOOK;
            }
            if class.run.is_empty() {
                self.round.classes.push(number);
            }
            class.run.push(message.clone(), event.position, self.config.run_messages);
        }
        looks
    }

    /// Notes an event for a class of whose watchers none is sent it now. Returns the number of looks.
    #[cold]
    fn note_event(&mut self, number: u32, event: &Event) -> usize {
        let Some(class) = &mut self.table.classes[number as usize] else { return 1 };
        if concerns(&class.key, event) && !is_on(Failpoint::LaggingNotNoted) {
            class.trail.note(event.position, self.config.run_messages);
        }
        1 + class.key.selector.requirements()
    }

    /// A value became unreadable: a class whose scope covers its key is told so, and gets nothing more. Returns the
    /// number of looks.
    fn add_refusal(&mut self, number: u32, event: &Event) -> usize {
        let Some(class) = &mut self.table.classes[number as usize] else { return 1 };
        if class.trail.is_kept() {
            class.trail.note(event.position, self.config.run_messages);
        }
        let known = || event.before.as_ref().is_some_and(|before| before.is_selected(&class.key.selector));
        if class.members.is_empty()
            || class.run.is_closed()
            || is_on(Failpoint::UnreadableToldBySelector) && !known()
        {
            return 1;
        }
        let Some(refusal) = event.now.as_ref().and_then(|now| refusal(&self.feed, now, &class.key)) else {
            return 1;
        };
        if class.run.is_empty() {
            self.round.classes.push(number);
        }
        class.run.push(refusal, event.position, self.config.run_messages);
        1
    }

    /// Every event of the round is in the runs: they can be served.
    fn formed(&mut self, forming: &Forming, now: Tick) {
        self.stats.events_dispatched += forming.at.since(self.dispatched);
        self.stats.rounds += 1;
        self.dispatched = forming.at;
        let all = forming.at == forming.head;
        self.revision = if all { forming.revision.max(forming.progress) } else { forming.revision };
        self.round.stage = Stage::Serving;
        self.round.at = 0;
        self.round.begun = false;
        let heard = forming.arrived.filter(|_| !self.round.classes.is_empty());
        self.round.mark = heard.map_or(Mark::Nothing, Mark::Begun);
        if forming.unreadable {
            self.refuse_parked(now);
        }
    }
}
