//! Watchers with equal interest: the verdict is computed once for all of them, and they share one run of frames.

use std::sync::Arc;

use bytes::Bytes;

use super::{Scope, WatcherId};
use crate::encoding::Encoding;
use crate::event::Event;
use crate::frame::FrameKind;
use crate::key::Key;
use crate::object::Object;
use crate::planted::{Bug, planted};
use crate::revision::{Position, Revision};
use crate::selector::Selector;
use crate::tick::Tick;

/// What makes watchers equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClassKey {
    pub(crate) scope: Scope,
    pub(crate) selector: Selector,
    pub(crate) encoding: Encoding,
    /// False until the first frame was sent, in encodings whose first frame differs.
    pub(crate) opened: bool,
}

impl ClassKey {
    /// What an event within the scope means to this class; `None`: skip.
    pub(crate) fn verdict(&self, event: &Event) -> Option<FrameKind> {
        let matches =
            |object: &Option<Arc<Object>>| object.as_ref().is_some_and(|it| self.matches_object(it));
        let before = matches(&event.before);
        let now = matches(&event.now);
        if planted(Bug::TransitionIgnored) {
            return match (before, now) {
                (_, true) => Some(FrameKind::Modified),
                (true, false) if event.now.is_none() => Some(FrameKind::Deleted),
                _ => None,
            };
        }
        match (before, now) {
            (false, true) => Some(FrameKind::Added),
            (true, true) => Some(FrameKind::Modified),
            (true, false) => Some(FrameKind::Deleted),
            (false, false) => None,
        }
    }

    pub(crate) fn matches_object(&self, object: &Object) -> bool {
        object.unreadable().is_none() && self.selector.matches(object.attributes())
    }

    /// Whether an object of this key can be of interest.
    pub(crate) fn covers(&self, key: &Key) -> bool {
        self.scope.resource == key.resource()
            && self.scope.namespace.as_deref().is_none_or(|namespace| key.namespace() == Some(namespace))
            && self.scope.name.as_deref().is_none_or(|name| key.name() == name)
    }
}

/// The frames of one round for one class, in order.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) frames: Vec<(Bytes, Position)>,
    pub(crate) bytes: usize,
    /// The last frame ends the watch.
    pub(crate) ends: bool,
}

impl Run {
    pub(crate) fn push(&mut self, frame: Bytes, position: Position) {
        self.bytes += frame.len();
        self.frames.push((frame, position));
    }

    pub(crate) fn clear(&mut self) {
        self.frames.clear();
        self.bytes = 0;
        self.ends = false;
    }

    /// How many of the frames are events.
    pub(crate) fn events(&self) -> usize {
        self.frames.len() - usize::from(self.ends)
    }

    /// The frame that ends the watch, when it stands at `position`.
    pub(crate) fn refusal(&self, position: Position) -> Option<&Bytes> {
        let (last, at) = self.frames.last()?;
        (self.ends && *at == position).then_some(last)
    }

    /// Which frame the byte `taken` falls into, and how many bytes of it come before.
    pub(crate) fn locate(&self, taken: usize) -> Option<(Position, usize)> {
        let mut start = 0;
        for (frame, position) in &self.frames {
            if taken < start + frame.len() {
                return Some((*position, taken - start));
            }
            start += frame.len();
        }
        None
    }
}

/// The live members of a class, split into those that the round under way still has to serve and the others.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// `ids[..unserved]` wait for the round.
    ids: Vec<WatcherId>,
    unserved: usize,
}

/// Where members stand after one left; at most two moved.
pub(crate) type Moved = [Option<(WatcherId, u32)>; 2];

impl Members {
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Adds one that has seen everything, the round under way included. Its index.
    pub(crate) fn join(&mut self, id: WatcherId) -> u32 {
        self.ids.push(id);
        index(self.ids.len() - 1)
    }

    /// Takes one out.
    pub(crate) fn leave(&mut self, at: u32) -> Moved {
        let mut at = at as usize;
        let mut moved: Moved = [None, None];
        if at < self.unserved {
            // Keep the unserved together: fill the hole with the last of them, then close the gap behind.
            self.unserved -= 1;
            self.ids.swap(at, self.unserved);
            if at != self.unserved {
                moved[0] = Some((self.ids[at], index(at)));
            }
            at = self.unserved;
        }
        self.ids.swap_remove(at);
        if at < self.ids.len() {
            moved[1] = Some((self.ids[at], index(at)));
        }
        moved
    }

    /// A round begins: nobody was served yet.
    pub(crate) fn begin(&mut self) {
        self.unserved = self.ids.len();
    }

    /// The next `max` to serve, with the index of the first; they count as served from now on.
    pub(crate) fn serve(&mut self, max: usize, out: &mut Vec<WatcherId>) -> u32 {
        let from = self.unserved.saturating_sub(max);
        out.clear();
        out.extend_from_slice(&self.ids[from..self.unserved]);
        self.unserved = from;
        index(from)
    }

    pub(crate) const fn served(&self) -> bool {
        self.unserved == 0
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
    pub(crate) key: ClassKey,
    /// Watchers in any phase.
    pub(crate) watchers: u32,
    pub(crate) members: Members,
    pub(crate) run: Run,
    /// When its live members were sent a run for the last time.
    pub(crate) served: Option<Tick>,
    /// The newest plain bookmark that was made for it.
    pub(crate) bookmark: Option<(Revision, Bytes)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_served_twice_or_forgotten_while_members_come_and_go() {
        // Every order of one leave at each point of a round over five members, in chunks of two.
        for leave_after in 0..3 {
            for leaver in 0..5_u32 {
                let mut members = Members::default();
                let mut at: std::collections::HashMap<WatcherId, u32> =
                    (0..5).map(|i| (WatcherId::new(i, 0), members.join(WatcherId::new(i, 0)))).collect();
                members.begin();
                let mut served = Vec::new();
                let mut chunk = Vec::new();
                let mut step = 0;
                while !members.served() {
                    if step == leave_after {
                        let gone = WatcherId::new(leaver, 0);
                        for (id, index) in members.leave(at[&gone]).into_iter().flatten() {
                            at.insert(id, index);
                        }
                        at.remove(&gone);
                        at.insert(WatcherId::new(9, 0), members.join(WatcherId::new(9, 0)));
                    }
                    let from = members.serve(2, &mut chunk);
                    for (offset, id) in chunk.iter().enumerate() {
                        assert_eq!(at[id] as usize, from as usize + offset);
                    }
                    served.append(&mut chunk);
                    step += 1;
                }
                assert!(!served.contains(&WatcherId::new(9, 0)));
                for i in (0..5).filter(|i| *i != leaver) {
                    let times = served.iter().filter(|id| id.slot() == i as usize).count();
                    assert_eq!(times, 1, "member {i}, {leaver} left after {leave_after} chunks");
                }
            }
        }
    }

    #[test]
    fn a_partial_send_is_located() {
        let mut run = Run::default();
        run.push(Bytes::from_static(b"abc"), Position::new(7));
        run.push(Bytes::from_static(b"de"), Position::new(9));
        let all: Vec<_> = (0..6).map(|taken| run.locate(taken)).collect();
        let at = |p, o| Some((Position::new(p), o));
        assert_eq!(all, [at(7, 0), at(7, 1), at(7, 2), at(9, 0), at(9, 1), None]);
    }
}
