//! One decoded change in the ring, with the messages that were made of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::encoding::{Encode, Encoding, Shown, Subject};
use crate::failpoints::{Failpoint, is_on};
use crate::key::Key;
use crate::message::{Draft, Message, MessageKind};
use crate::object::Object;
use crate::revision::{Position, Revision};
use crate::ring::Entry;
use crate::tick::Tick;

/// Where the count of the window's bytes begins: there is room below it for older events.
pub(crate) const BYTES_FIRST: u64 = 1 << 56;

/// A message of an event: which kind, shown how, and whether it opens a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageName {
    pub(crate) kind: MessageKind,
    pub(crate) encoding: Encoding,
    pub(crate) first: bool,
}

/// A message that some shard asked for, and the next one: few are asked for, so they are looked through.
#[derive(Debug)]
struct Made {
    name: MessageName,
    message: OnceLock<Message>,
    next: OnceLock<Box<Self>>,
}

/// When an event happened, on two clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) as_of_seconds: u64,
    pub(crate) arrived: Tick,
}

/// Made once by the publisher, read by every shard. The messages in other kinds or encodings than the event's own
/// are made by the first shard that needs one.
#[derive(Debug)]
pub struct Event {
    pub(crate) position: Position,
    pub(crate) revision: Revision,
    /// Whether the next event belongs to another revision.
    pub(crate) ends_revision: bool,
    /// The state before, if there was one.
    pub(crate) before: Option<Arc<Object>>,
    /// The state now, if there is one. One of the two is there.
    pub(crate) now: Option<Arc<Object>>,
    /// Wall time in seconds since the Unix epoch.
    pub(crate) as_of_seconds: u64,
    /// When the source had it, on the clock of the shards.
    pub(crate) arrived: Tick,
    /// Bytes of all events up to and including this one, since the ring began.
    pub(crate) bytes_through: u64,
    /// Messages besides the one that the state has.
    made: OnceLock<Box<Made>>,
}

impl Event {
    pub(crate) fn new(
        position: Position,
        revision: Revision,
        before: Option<Arc<Object>>,
        now: Option<Arc<Object>>,
        times: Times,
        bytes_before: u64,
    ) -> Self {
        let state = now.as_ref().or(before.as_ref());
        let weight = state.map_or(0, |object| object.weight()) as u64;
        Self {
            position,
            revision,
            ends_revision: true,
            before,
            now,
            as_of_seconds: times.as_of_seconds,
            arrived: times.arrived,
            bytes_through: bytes_before + weight,
            made: OnceLock::new(),
        }
    }

    /// The state now, or the last one.
    #[inline]
    fn state(&self) -> &Arc<Object> {
        // One of the two is there: an event is a change of something.
        self.now.as_ref().or(self.before.as_ref()).expect("an event has a state")
    }

    /// What it happened to.
    #[inline]
    pub(crate) fn key(&self) -> &Key {
        self.state().key()
    }

    /// What every watch that covers the key is sent instead of this event before it ends, if the new value is unreadable.
    pub(crate) fn refusal(&self) -> Option<&Message> {
        self.now.as_ref().and_then(|now| now.refusal())
    }

    /// Bytes that it adds to the ring.
    pub(crate) fn weight(&self) -> usize {
        self.now.as_ref().or(self.before.as_ref()).map_or(0, |object| object.weight())
    }

    /// Bytes of all events before it, since the ring began.
    pub(crate) fn bytes_before(&self) -> u64 {
        self.bytes_through - self.weight() as u64
    }

    /// The message of this event, made now if it was not needed before. Counts what it makes, and says whether it did.
    ///
    /// Two shards that need the same one at the same moment: one makes it, the other waits for it, some
    /// microseconds. The event's own kind in the encoding that its state is kept in is never made here: decode made it.
    pub(crate) fn message(
        &self,
        name: MessageName,
        encoder: &dyn Encode,
        made: &AtomicU64,
    ) -> (&Message, bool) {
        if let Some(own) = self.now.as_ref().and_then(|now| now.message(name.encoding, name.kind))
            && !(is_on(Failpoint::WrongDeletedObject) && name.kind == MessageKind::Deleted)
        {
            return (own, false);
        }
        let mut is_new = false;
        let place = self.place(name);
        if is_on(Failpoint::MessageMadeTwice) && place.get().is_some() {
            made.fetch_add(1, Ordering::Relaxed);
        }
        let message = place.get_or_init(|| {
            is_new = true;
            made.fetch_add(1, Ordering::Relaxed);
            self.make(name, encoder)
        });
        (message, is_new)
    }

    /// Where a message is, or will be.
    fn place(&self, name: MessageName) -> &OnceLock<Message> {
        let mut at = &self.made;
        loop {
            let made =
                at.get_or_init(|| Box::new(Made { name, message: OnceLock::new(), next: OnceLock::new() }));
            if made.name == name {
                return &made.message;
            }
            at = &made.next;
        }
    }

    fn make(&self, name: MessageName, encoder: &dyn Encode) -> Message {
        let (object, revision) = match (name.kind, &self.before) {
            (MessageKind::Deleted, Some(before)) => {
                let last = if is_on(Failpoint::WrongDeletedObject) {
                    self.now.as_ref().unwrap_or(before)
                } else {
                    before
                };
                let stale = is_on(Failpoint::StaleDeletedVersion);
                (last, if stale { before.revision() } else { self.revision })
            }
            _ => (self.state(), self.state().revision()),
        };
        let value = object.value();
        let shown = Shown {
            kind: name.kind,
            subject: Subject::Object { key: object.key(), value },
            revision,
            as_of_seconds: self.as_of_seconds,
        };
        let capacity = value.bytes().len() + 64;
        let mut draft = Draft::new(encoder.framing(name.encoding), capacity);
        let shows = name.encoding.push(draft.payload(), encoder, shown, name.first);
        draft.finish().ending(!shows)
    }
}

impl Entry for Event {
    fn position(&self) -> Position {
        self.position
    }
    fn revision(&self) -> Revision {
        self.revision
    }
}
