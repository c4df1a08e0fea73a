//! A round: the newest events of the ring, to the live members of every class that may match.
//!
//! It owns the path from runs to sockets; `forming` makes the runs. A run is joined once per class, and a delivery is
//! one call of the outlet.

use super::round::Stage;
use super::{Outlet, Run, Sent, Shard};
use crate::failpoints::{Failpoint, is_on};
use crate::limits::SEND_BYTES;
use crate::revision::Position;
use crate::tick::Tick;
use crate::watcher::{End, Phase, WatcherId};

impl Shard {
    /// Serves members of the round under way, as many as the outlet serves in a turn, and fewer of long runs. The last group of a
    /// turn is served whole, unless it is larger than that.
    pub(super) fn deliver(&mut self, outlet: &mut impl Outlet, now: Tick) {
        let mut sends = 0;
        let most = outlet.deliveries_per_turn();
        while sends < most {
            let Some(&number) = self.round.classes.get(self.round.at) else {
                self.end_round();
                return;
            };
            if !self.round.begun && !self.begin_class(number, outlet, now) {
                self.round.at += 1;
                continue;
            }
            sends += self.serve_class(number, most - sends, most, outlet, now);
        }
    }

    fn end_round(&mut self) {
        self.round.classes.clear();
        self.round.stage = Stage::Over;
        self.round.just_ended = true;
        self.round.mark.over();
        self.report();
    }

    /// Prepares the run of a class. False when there is nothing to serve.
    fn begin_class(&mut self, number: u32, outlet: &impl Outlet, now: Tick) -> bool {
        // The class may have been removed with its last watcher since the round began, and its number used again.
        let Some(class) = &mut self.table.classes[number as usize] else { return false };
        if class.run.is_empty() {
            return false;
        }
        if outlet.has_groups() && class.members.are_out_of_order() {
            let mut members = std::mem::take(&mut class.members);
            members.put_in_order(|id| outlet.order_of(id), |id, at| self.table.set_member(id, at));
            let Some(class) = &mut self.table.classes[number as usize] else { return false };
            class.members = members;
        }
        let Some(class) = &mut self.table.classes[number as usize] else { return false };
        class.members.begin(|one, other| outlet.are_together(one, other));
        class.served = Some(now);
        let (run, framing) = (&mut self.round.run, class.key.framing);
        let as_made = framing == self.feed.framing(class.key.encoding);
        run.clear();
        match &class.run.messages[..] {
            // Offered without a copy.
            [_] if as_made => {}
            messages if as_made => {
                messages.iter().for_each(|(message, _)| run.push_framed(message.framed()));
            }
            messages => messages.iter().for_each(|(message, _)| run.push(framing, message.payload())),
        }
        self.round.begun = true;
        true
    }

    /// Serves members for up to `max` sends, at least one, and for up to `more` rather than to cut a group. Returns how many sends
    /// they count as.
    fn serve_class(
        &mut self,
        number: u32,
        max: usize,
        more: usize,
        outlet: &mut impl Outlet,
        now: Tick,
    ) -> usize {
        let Some(class) = &mut self.table.classes[number as usize] else {
            self.next_class();
            return 0;
        };
        if let Some(first) = class.run.in_ring {
            return self.leave_to_ring(number, first, max);
        }
        let mut ids = std::mem::take(&mut self.round.ids);
        let mut sent = std::mem::take(&mut self.round.sent);
        sent.clear();
        let (events, ends) = (class.run.events() as u64, class.run.ends);
        let opened = class.key.opened;
        let end;
        let run = match &class.run.messages[..] {
            [(only, _)] if self.round.run.is_empty() => {
                end = [only.framed().len()];
                Run::new(only.framed(), &end, 0)
            }
            _ => self.round.run.offer(0),
        };
        let total = run.bytes().len();
        let each = 1 + total / SEND_BYTES;
        class
            .members
            .serve((max / each).max(1), more / each, &mut ids, |one, other| outlet.are_together(one, other));
        outlet.send_each(&ids, run, &mut sent);
        debug_assert_eq!(ids.len(), sent.len(), "the outlet answers for every member");
        let took_all = |what: &Sent| matches!(what, Sent::Took(taken) if *taken >= total);
        let mut whole = ids.len() as u64;
        // Of most runs every member takes all, and nothing is left to do for any.
        if ends || !opened || !sent.iter().fold(true, |all, what| all & took_all(what)) {
            whole = 0;
            // From the last to the first: a member that leaves is replaced by a later one.
            for (&id, &what) in ids.iter().zip(&sent).rev() {
                match what {
                    Sent::Took(_) if took_all(&what) => {
                        whole += 1;
                        if ends {
                            self.stats.refused += 1;
                            self.because(id, End::Refused);
                            self.end_stream(id, outlet);
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
        }
        self.stats.events_sent += whole * events;
        self.stats.bytes_sent += whole * total as u64;
        let served = ids.len() * each;
        if served > 0 {
            self.round.mark.sent();
        }
        self.round.ids = ids;
        self.round.sent = sent;
        self.close_class(number);
        served
    }

    /// The run of a class is too long to be joined: up to `max` of its members read it from the ring, page by page.
    #[cold]
    fn leave_to_ring(&mut self, number: u32, first: Position, max: usize) -> usize {
        let Some(class) = &mut self.table.classes[number as usize] else { return 0 };
        let mut ids = std::mem::take(&mut self.round.ids);
        class.members.serve(max, 0, &mut ids, |_, _| false);
        for &id in ids.iter().rev() {
            self.fall_behind(id, Phase::CatchingUp { cursor: first, offset: 0 });
            self.queue(id);
        }
        let served = ids.len();
        self.round.ids = ids;
        self.close_class(number);
        served
    }

    /// Continues with the next class when this one is finished.
    #[inline]
    fn close_class(&mut self, number: u32) {
        match &mut self.table.classes[number as usize] {
            Some(class) if !class.members.served() => {}
            Some(class) => {
                class.run.clear();
                self.next_class();
            }
            None => self.next_class(),
        }
    }

    fn next_class(&mut self) {
        self.round.at += 1;
        self.round.begun = false;
    }

    /// A member took only part of its run: it continues from there on its own.
    fn cut_short(&mut self, id: WatcherId, number: u32, taken: usize, now: Tick) {
        self.stats.bytes_sent += taken as u64;
        let Some(class) = &self.table.classes[number as usize] else { return };
        let (whole, offset) = self.round.run.locate(taken).unwrap_or((0, taken));
        let Some(&(ref message, cursor)) = class.run.messages.get(whole) else { return };
        let opened = class.key.opened || whole > 0;
        self.stats.events_sent += whole as u64;
        if class.run.ends && whole + 1 == class.run.messages.len() {
            let last = self.framed(message, &class.key);
            self.refuse_within(id, last, offset, now);
            return;
        }
        let offset = if is_on(Failpoint::PartialSendRestarted) { 0 } else { offset };
        let offset = u32::try_from(offset).expect("a message is shorter than 4 GiB");
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
            self.claim(id, cursor);
        }
        if let Some(watcher) = self.table.get_mut(id) {
            watcher.phase = phase;
        }
    }

    /// Drops what the current round has still to deliver: its members must get 410.
    pub(super) fn break_off_round(&mut self) {
        for number in std::mem::take(&mut self.round.classes) {
            if let Some(class) = &mut self.table.classes[number as usize] {
                class.run.clear();
            }
        }
        if self.round.active() {
            self.end_round();
        }
    }

    /// The shard itself was lapped: it is unknown what the live watchers missed, so all of them get 410.
    pub(super) fn lapped(&mut self, now: Tick) {
        self.break_off_round();
        for number in 0..self.table.classes.len() {
            while let Some(id) = self.table.classes[number].as_ref().and_then(|class| class.members.newest())
            {
                self.evict(id, now);
            }
        }
        let progress = self.feed.ring.progress();
        self.dispatched = self.feed.ring.head();
        self.table.restart_trails(self.dispatched);
        self.revision = self.revision.max(progress);
        self.report();
        // In the missed events a value may have become unreadable.
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
