//! One decoded change in the ring, with the frames that were made of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::encoding::{Encode, Encoding, View};
use crate::frame::{self, FrameKind};
use crate::key::Key;
use crate::limits::ENCODINGS_MAX;
use crate::object::Object;
use crate::planted::{Bug, planted};
use crate::revision::{Position, Revision};
use crate::tick::Tick;

/// A frame of an event: which kind, shown how, and whether it opens a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameName {
    pub(crate) kind: FrameKind,
    pub(crate) encoding: Encoding,
    pub(crate) first: bool,
}

impl FrameName {
    /// Its place among the frames in other encodings.
    const fn number(self) -> usize {
        let encoding = match self.encoding {
            Encoding::Json => 0,
            Encoding::Other(number) => number as usize,
        };
        encoding * 6 + self.first as usize * 3 + self.kind.index()
    }
}

/// When an event happened, on two clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) as_of_seconds: u64,
    pub(crate) arrived: Tick,
}

/// Made once by the publisher, read by every shard. The frames in other kinds or encodings than the event's own
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
    frames: [OnceLock<Bytes>; 3],
    /// By encoding, then by `first`, then by kind.
    encoded: OnceLock<Box<[OnceLock<Bytes>; ENCODINGS_MAX * 6]>>,
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
            frames: Default::default(),
            encoded: OnceLock::new(),
        }
    }

    /// Makes the frames that are there ready to be shared. Bytes that were a vector ask for their count of owners when
    /// they get a second one: now, rather than in the round of the first shard that takes the event.
    pub(crate) fn share(&self) {
        for frame in self.frames.iter().filter_map(OnceLock::get) {
            drop(frame.clone());
        }
        if let Some(now) = &self.now {
            now.share();
        }
    }

    /// What it happened to.
    pub(crate) fn key(&self) -> &Key {
        // One of the two is there: an event is a change of something.
        self.now.as_ref().or(self.before.as_ref()).map(|object| object.key()).expect("an event has a state")
    }

    /// What every watch that covers the key is told instead of this event, when the new value is unreadable.
    pub(crate) fn refusal(&self) -> Option<&Bytes> {
        self.now.as_ref().and_then(|now| now.refusal())
    }

    /// Bytes that it adds to the ring.
    pub(crate) fn weight(&self) -> usize {
        self.now.as_ref().or(self.before.as_ref()).map_or(0, |object| object.weight())
    }

    /// Whether a frame is there already.
    pub(crate) fn has_frame(&self, name: FrameName) -> bool {
        match name.encoding {
            Encoding::Json => {
                self.now.as_ref().is_some_and(|now| now.frame(name.kind).is_some())
                    || self.frames[name.kind.index()].get().is_some()
            }
            Encoding::Other(_) => self.encoded.get().is_some_and(|all| all[name.number()].get().is_some()),
        }
    }

    /// The frame that tells of this event, made now if nobody needed it before. Counts what it makes.
    ///
    /// Two shards that need the same one at the same moment: one makes it, the other waits for it, some
    /// microseconds. The event's own kind in JSON is never made here: decode made it.
    pub(crate) fn frame(&self, name: FrameName, encoder: &dyn Encode, made: &AtomicU64) -> &Bytes {
        let slot = match name.encoding {
            Encoding::Json => {
                if let Some(own) = self.now.as_ref().and_then(|now| now.frame(name.kind))
                    && !(planted(Bug::WrongDeletedObject) && name.kind == FrameKind::Deleted)
                {
                    return own;
                }
                &self.frames[name.kind.index()]
            }
            Encoding::Other(_) => {
                let all =
                    self.encoded.get_or_init(|| Box::new([const { OnceLock::new() }; ENCODINGS_MAX * 6]));
                &all[name.number()]
            }
        };
        if planted(Bug::FrameMadeTwice) && slot.get().is_some() {
            made.fetch_add(1, Ordering::Relaxed);
        }
        slot.get_or_init(|| {
            made.fetch_add(1, Ordering::Relaxed);
            self.make(name, encoder)
        })
    }

    fn make(&self, name: FrameName, encoder: &dyn Encode) -> Bytes {
        let mut gone = Vec::new();
        let json: &[u8] = match (name.kind, &self.now, &self.before) {
            (FrameKind::Deleted, now, Some(before)) => {
                let last =
                    if planted(Bug::WrongDeletedObject) { now.as_ref().unwrap_or(before) } else { before };
                let revision =
                    if planted(Bug::StaleDeletedVersion) { before.revision() } else { self.revision };
                last.write_at(&mut gone, revision);
                &gone
            }
            (_, Some(now), _) => now.json(),
            (_, None, before) => before.as_ref().map_or(&[], |before| before.json()),
        };
        let mut out = Vec::with_capacity(json.len() + 64);
        frame::event(&mut out, name.kind, |out| match name.encoding {
            Encoding::Json => out.extend_from_slice(json),
            Encoding::Other(encoding) => encoder.append(
                out,
                View {
                    encoding,
                    first: name.first,
                    resource: self.key().resource(),
                    json,
                    as_of_seconds: self.as_of_seconds,
                },
            ),
        });
        out.shrink_to_fit();
        out.into()
    }
}
