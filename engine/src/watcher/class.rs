//! Watchers with equal interest: the verdict is computed once for all of them, and they share one run of messages.

use std::sync::Arc;

use bytes::Bytes;

use super::WatcherId;
use super::trail::Trail;
use crate::encoding::Encoding;
use crate::event::{Event, MessageName};
use crate::failpoints::{Failpoint, is_on};
use crate::framing::Framing;
use crate::key::Key;
use crate::limits::RUN_BYTES;
use crate::message::{Message, MessageKind};
use crate::object::Object;
use crate::revision::{Position, Revision};
use crate::scope::Scope;
use crate::selector::Selector;
use crate::tick::Tick;

/// What watchers of one class have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClassKey {
    pub(crate) scope: Scope,
    pub(crate) selector: Selector,
    pub(crate) encoding: Encoding,
    pub(crate) framing: &'static Framing,
    /// False until the first message was sent, in encodings whose first message differs.
    pub(crate) opened: bool,
}

impl ClassKey {
    /// What an event within the scope means to this class; `None`: skip.
    #[inline]
    pub(crate) fn verdict(&self, event: &Event) -> Option<MessageKind> {
        let matches =
            |object: &Option<Arc<Object>>| object.as_ref().is_some_and(|it| it.is_selected(&self.selector));
        let before = matches(&event.before);
        let now = matches(&event.now);
        if is_on(Failpoint::TransitionIgnored) {
            return match (before, now) {
                (_, true) => Some(MessageKind::Modified),
                (true, false) if event.now.is_none() => Some(MessageKind::Deleted),
                _ => None,
            };
        }
        match (before, now) {
            (false, true) => Some(MessageKind::Added),
            (true, true) => Some(MessageKind::Modified),
            (true, false) => Some(MessageKind::Deleted),
            (false, false) => None,
        }
    }

    /// The message of an event for this class; `first`: its watchers may not have had one yet.
    pub(crate) const fn message_name(&self, kind: MessageKind, first: bool) -> MessageName {
        MessageName { kind, encoding: self.encoding, first: first && !self.opened }
    }

    /// Whether the scope covers objects with this key.
    pub(crate) fn covers(&self, key: &Key) -> bool {
        self.scope.covers(key)
    }
}

/// The messages of one round for one class, in order; if they are too many to be joined, their first position in the
/// ring.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) messages: Vec<(Message, Position)>,
    /// Bytes of them, in the framing that they were made in.
    pub(crate) bytes: usize,
    /// The last message ends the watch.
    pub(crate) ends: bool,
    /// There are too many messages: the members read them from the ring, from this position on. None is kept.
    pub(crate) in_ring: Option<Position>,
}

impl Run {
    /// Adds a message. Beyond [`RUN_BYTES`] or `messages_max`, except for a single message, none is kept any more: of a run that
    /// is left to the ring the members find the end there.
    #[inline]
    pub(crate) fn push(&mut self, message: Message, position: Position, messages_max: usize) {
        self.bytes += message.framed().len();
        self.ends = message.ends();
        self.messages.push((message, position));
        if (self.bytes > RUN_BYTES || self.messages.len() > messages_max) && self.messages.len() > 1 {
            self.leave_in_ring();
        }
    }

    /// Keeps only the position of the first message. The buffer of the others is freed: otherwise each class would keep
    /// it for ever after a large revision.
    #[cold]
    fn leave_in_ring(&mut self) {
        let in_ring = self.messages.first().map(|(_, position)| *position);
        *self = Self { in_ring, ..Self::default() };
    }

    /// Whether nothing of the round is for this class.
    pub(crate) const fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.in_ring.is_none()
    }

    /// Whether the rest of the round is not for this class to send.
    pub(crate) const fn is_closed(&self) -> bool {
        self.ends || self.in_ring.is_some()
    }

    pub(crate) fn clear(&mut self) {
        self.messages.clear();
        self.bytes = 0;
        self.ends = false;
        self.in_ring = None;
    }

    /// How many of the messages are events.
    pub(crate) fn events(&self) -> usize {
        self.messages.len() - usize::from(self.ends)
    }
}

/// The live members of a class, split into those that the round under way still has to serve and the others.
/// A round begins at another member each time, so that none is always served last. It goes down from there to the first
/// member, then from the last member down to where it began:
///
/// ```text
///      0            low            start           high            len
///      | to be served | served      | to be served  | served, joined |
/// ```
#[derive(Debug, Default)]
pub(crate) struct Members {
    ids: Vec<WatcherId>,
    /// How many joined since they were put in order.
    joined: usize,
    /// Where the range to be served ends, begins again and ends again: three edges in order.
    edges: [usize; 3],
    /// Where the round would have begun if there were no groups: the next one is a stride from there.
    turn: usize,
}

/// New places of members after one left; at most one member per part moved.
pub(crate) type Moved = [Option<(WatcherId, u32)>; 4];

/// From the start of one round to that of the next, as a share of the members: with the golden section the starts are
/// spread evenly over the class.
const STRIDE: f64 = 0.618_033_988_749_894_9;

impl Members {
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(crate) const fn len(&self) -> usize {
        self.ids.len()
    }

    /// Adds a member that was sent everything, including the round under way. Returns its index.
    pub(crate) fn join(&mut self, id: WatcherId) -> u32 {
        self.ids.push(id);
        self.joined += 1;
        index(self.ids.len() - 1)
    }

    /// Whether so many joined that it is worth it to put all in order.
    pub(crate) const fn are_out_of_order(&self) -> bool {
        self.joined > 0 && self.joined >= self.ids.len() / 16
    }

    /// Puts those of a group one after another. Only between rounds. Calls `moved` with the new index of each.
    pub(crate) fn put_in_order(
        &mut self,
        order_of: impl Fn(WatcherId) -> u64,
        mut moved: impl FnMut(WatcherId, u32),
    ) {
        self.joined = 0;
        self.ids.sort_by_cached_key(|id| order_of(*id));
        self.ids.iter().zip(0..).for_each(|(id, at)| moved(*id, at));
    }

    /// Removes a member. The hole is filled with the last of its part, whose hole with the last of the next, and so on.
    pub(crate) fn leave(&mut self, at: u32) -> Moved {
        let mut hole = at as usize;
        let mut moved: Moved = [None; 4];
        for (edge, moved) in self.edges.iter_mut().zip(&mut moved) {
            if hole < *edge {
                *edge -= 1;
                if hole != *edge {
                    self.ids.swap(hole, *edge);
                    *moved = Some((self.ids[hole], index(hole)));
                }
                hole = *edge;
            }
        }
        self.ids.swap_remove(hole);
        if hole < self.ids.len() {
            moved[3] = Some((self.ids[hole], index(hole)));
        }
        moved
    }

    /// A round begins: no member was served yet. It begins where no group is cut.
    pub(crate) fn begin(&mut self, are_together: impl Fn(WatcherId, WatcherId) -> bool) {
        let len = self.ids.len();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length")]
        let stride = (len as f64 * STRIDE) as usize;
        self.turn = (self.turn + stride).checked_rem(len).unwrap_or(0);
        let before = self.whole(self.turn, 0, &are_together);
        let mut after = self.turn;
        if self.is_cut(after, &are_together) {
            after = self.group_end(after, &are_together);
        }
        // The nearer end of the group: otherwise a large one would be served last in most rounds.
        let start = if self.turn - before <= after - self.turn { before } else { after };
        self.edges = [start, start, len];
    }

    /// The next `max` members to serve, and up to `more` rather than to cut a group; they count as served from now on.
    pub(crate) fn serve(
        &mut self,
        max: usize,
        more: usize,
        out: &mut Vec<WatcherId>,
        are_together: impl Fn(WatcherId, WatcherId) -> bool,
    ) {
        out.clear();
        let [mut low, start, mut high] = self.edges;
        if low > 0 {
            let from = self.whole(low.saturating_sub(max), low.saturating_sub(max + more), &are_together);
            out.extend_from_slice(&self.ids[from..low]);
            low = from;
        }
        if let rest @ 1.. = max.saturating_sub(out.len()) {
            let from = high.saturating_sub(rest).max(start);
            let from = self.whole(from, from.saturating_sub(more).max(start), &are_together);
            out.extend_from_slice(&self.ids[from..high]);
            high = from;
        }
        self.edges = [low, start, high];
    }

    /// Where the group begins that a cut at `at` would divide; not before `least`.
    #[inline]
    fn whole(&self, at: usize, least: usize, are_together: impl Fn(WatcherId, WatcherId) -> bool) -> usize {
        if at > least && self.is_cut(at, &are_together) {
            self.group_start(at, least, are_together)
        } else {
            at
        }
    }

    /// Where the group of the member at `at` begins, by halves: groups may be large. Apart from [`Self::whole`], which is called where
    /// there are no groups, too.
    #[cold]
    fn group_start(
        &self,
        at: usize,
        least: usize,
        are_together: impl Fn(WatcherId, WatcherId) -> bool,
    ) -> usize {
        let member = self.ids[at];
        least + self.ids[least..at].partition_point(|id| !are_together(*id, member))
    }

    /// Where it ends.
    #[cold]
    fn group_end(&self, at: usize, are_together: impl Fn(WatcherId, WatcherId) -> bool) -> usize {
        let member = self.ids[at];
        at + self.ids[at..].partition_point(|id| are_together(member, *id))
    }

    /// Whether a cut there divides a group.
    #[inline]
    fn is_cut(&self, at: usize, are_together: impl Fn(WatcherId, WatcherId) -> bool) -> bool {
        match (self.ids.get(at.wrapping_sub(1)), self.ids.get(at)) {
            (Some(before), Some(after)) => are_together(*before, *after),
            _ => false,
        }
    }

    pub(crate) const fn served(&self) -> bool {
        let [low, start, high] = self.edges;
        low == 0 && start == high
    }

    pub(crate) fn newest(&self) -> Option<WatcherId> {
        self.ids.last().copied()
    }
}

fn index(at: usize) -> u32 {
    u32::try_from(at).expect("a shard has fewer than 2^32 watchers")
}

/// One class of watchers on one shard.
#[derive(Debug)]
pub(crate) struct Class {
    /// Unique on the shard, while class numbers are used again.
    pub(crate) serial: u64,
    pub(crate) key: ClassKey,
    /// Watchers in any phase.
    pub(crate) watchers: u32,
    pub(crate) members: Members,
    pub(crate) run: Run,
    /// When its live members were last sent a run.
    pub(crate) served: Option<Tick>,
    /// The newest plain bookmark that was made for it.
    pub(crate) bookmark: Option<(Revision, Bytes)>,
    /// The events that concern it, while not all of its watchers are live.
    pub(crate) trail: Trail,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::BARE;

    fn id(slot: u32) -> WatcherId {
        WatcherId::new(slot, 0)
    }

    fn alone(_: WatcherId, _: WatcherId) -> bool {
        false
    }

    /// Serves a round in chunks of two; after some chunks one member leaves and another joins. Returns the served
    /// members in order.
    fn round(
        members: &mut Members,
        at: &mut std::collections::HashMap<WatcherId, u32>,
        change: Option<(usize, WatcherId, WatcherId)>,
    ) -> Vec<WatcherId> {
        members.begin(alone);
        let (mut served, mut chunk) = (Vec::new(), Vec::new());
        for step in 0.. {
            if let Some((when, leaver, joiner)) = change
                && (step == when || step < when && members.served())
            {
                for (id, index) in members.leave(at[&leaver]).into_iter().flatten() {
                    at.insert(id, index);
                }
                at.remove(&leaver);
                at.insert(joiner, members.join(joiner));
            }
            if members.served() {
                break;
            }
            members.serve(2, 2, &mut chunk, alone);
            served.append(&mut chunk);
        }
        assert_eq!(at.len(), members.ids.len());
        assert!(at.iter().all(|(id, index)| members.ids[*index as usize] == *id), "indexes are told");
        served
    }

    #[test]
    fn nobody_is_served_twice_or_forgotten_while_members_come_and_go() {
        // Every leave at each point of each of several rounds over seven members.
        for before in 0..4 {
            for leave_after in 0..4 {
                for leaver in 0..7_u32 {
                    let mut members = Members::default();
                    let mut at = (0..7).map(|i| (id(i), members.join(id(i)))).collect();
                    for _ in 0..before {
                        assert_eq!(round(&mut members, &mut at, None).len(), 7);
                    }
                    let change = Some((leave_after, id(leaver), id(9)));
                    let served = round(&mut members, &mut at, change);
                    assert!(!served.contains(&id(9)));
                    for i in (0..7).filter(|i| *i != leaver) {
                        let times = served.iter().filter(|served| **served == id(i)).count();
                        assert_eq!(times, 1, "member {i}, {leaver} left after {leave_after} chunks");
                    }
                    let mut next = round(&mut members, &mut at, None);
                    next.sort_unstable();
                    next.dedup();
                    assert_eq!(next.len(), 7);
                }
            }
        }
    }

    #[test]
    fn groups_are_served_whole_unless_they_are_large() {
        // Of ten each; that of 90 to 134 has 45.
        let group = |id: WatcherId| if id.slot() < 135 { (id.slot() / 10).min(9) } else { id.slot() / 10 };
        let are_together = |one, other| group(one) == group(other);
        let mut members = Members::default();
        for i in 0..200 {
            members.join(id(i));
        }
        let mut chunk = Vec::new();
        for _ in 0..50 {
            members.begin(are_together);
            let (mut served, mut chunks) = (Vec::new(), std::collections::HashMap::new());
            while !members.served() {
                members.serve(16, 16, &mut chunk, are_together);
                assert!(chunk.len() <= 32);
                served.extend_from_slice(&chunk);
                let mut groups: Vec<_> = chunk.iter().map(|id| group(*id)).collect();
                groups.sort_unstable();
                groups.dedup();
                groups.into_iter().for_each(|group| *chunks.entry(group).or_insert(0) += 1);
            }
            served.sort_unstable();
            assert!(served.iter().map(|id| id.slot()).eq(0..200), "each once");
            let large = chunks.remove(&9);
            assert!(large.is_some_and(|chunks| (2..=4).contains(&chunks)), "{large:?}");
            assert!(chunks.into_values().all(|chunks| chunks == 1), "none is cut");
        }
    }

    #[test]
    fn no_group_is_always_last() {
        // 30 that are alone, and 100 on one connection.
        let are_together = |one: WatcherId, other: WatcherId| one.slot() >= 30 && other.slot() >= 30;
        let mut members = Members::default();
        for i in 0..130 {
            members.join(id(i));
        }
        let (mut chunk, mut firsts) = (Vec::new(), 0);
        for _ in 0..100 {
            members.begin(are_together);
            members.serve(1, 130, &mut chunk, are_together);
            firsts += usize::from(chunk.len() == 100);
            assert!(chunk.len() == 1 || chunk.len() == 100);
        }
        assert!((25..=55).contains(&firsts), "{firsts} of 100");
    }

    #[test]
    fn nobody_is_always_last() {
        let mut members = Members::default();
        let mut at = (0..100).map(|i| (id(i), members.join(id(i)))).collect();
        let mut ranks = [0_usize; 100];
        for _ in 0..50 {
            for (rank, id) in round(&mut members, &mut at, None).into_iter().enumerate() {
                ranks[id.slot()] += rank;
            }
        }
        let mean = |slot: usize| ranks[slot] / 50;
        assert!((0..100).all(|slot| (40..60).contains(&mean(slot))), "{ranks:?}");
    }

    #[test]
    fn a_run_that_is_too_long_keeps_its_place_and_nothing_else() {
        let message = |len| Message::new(&BARE, len, |out| out.resize(out.len() + len, 0));
        let (large, one) = (message(RUN_BYTES + 1), message(3));
        for (messages, messages_max) in [(vec![one; 4], 3), (vec![large.clone(); 2], 100)] {
            let mut run = Run::default();
            for (message, at) in messages.iter().zip(7..) {
                assert!(!run.is_closed());
                run.push(message.clone(), Position::new(at), messages_max);
            }
            assert_eq!((run.in_ring, run.bytes, run.messages.capacity()), (Some(Position::new(7)), 0, 0));
            assert!(run.is_closed() && !run.is_empty());
            run.clear();
            assert!(run.is_empty() && !run.is_closed());
        }
        let mut run = Run::default();
        run.push(large, Position::new(7), 1);
        assert!(!run.is_closed(), "one message is not joined with anything");
    }
}
