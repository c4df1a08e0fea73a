//! The socket of one simulated client: how many of the offered bytes it takes.

use std::time::Duration;

use revcast_engine::Run;
use revcast_engine::tick::Tick;

use super::rng::Rng;
use super::stream::Stream;

/// The kind of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Nature {
    /// Takes everything.
    Perfect,
    /// Holds this many bytes, and drains this many a millisecond.
    Slow { capacity: usize, drained_per_ms: usize },
    /// Takes any part, often exactly up to the end of a message.
    Partial,
    /// Takes nothing for a while.
    Stalled { from: Tick, until: Tick },
    /// Takes nothing any more after this many bytes.
    Dead { after: usize },
    /// Disconnects after this many bytes.
    Gone { after: usize },
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) nature: Nature,
    /// It takes whole messages only, and keeps the part of the last that its socket does not take.
    pub(crate) whole: bool,
    /// It refused bytes, and has not reported room since.
    pub(crate) full: bool,
    pub(crate) gone: bool,
    /// When it last reported room.
    pub(crate) freed: Tick,
    /// When it has room again.
    ready: Tick,
    held: usize,
    drained: Tick,
    taken: u64,
    /// Bytes of a heartbeat that were not sent yet: they are sent before all others.
    owed: usize,
}

/// What a pipe did with the bytes.
pub(crate) enum Took {
    Some(usize),
    Gone,
}

impl Pipe {
    pub(crate) const fn new(nature: Nature, whole: bool, now: Tick) -> Self {
        Self {
            nature,
            whole,
            full: false,
            gone: false,
            freed: Tick::ZERO,
            ready: Tick::ZERO,
            held: 0,
            drained: now,
            taken: 0,
            owed: 0,
        }
    }

    /// Takes as much of the messages as there is room for.
    pub(crate) fn take(&mut self, rng: &mut Rng, now: Tick, stream: &Stream, run: Run<'_>) -> Took {
        let offered = run.bytes();
        if !self.pay(rng, now) {
            return Took::Gone;
        }
        if self.owed > 0 {
            self.full = true;
            return Took::Some(0);
        }
        let Some(room) = self.room(rng, now, offered.len(), |rng| partial(rng, stream, offered)) else {
            return Took::Gone;
        };
        let taken = if self.whole && room > 0 { page(stream, run, room) } else { room };
        self.put(rng, now, taken);
        self.full = taken < offered.len();
        Took::Some(taken)
    }

    /// Takes a heartbeat of this many bytes, completely or in part; nothing of it when there is no room, or another is
    /// under way.
    pub(crate) fn beat(&mut self, rng: &mut Rng, now: Tick, bytes: usize) -> Took {
        if self.owed > 0 {
            return if self.pay(rng, now) { Took::Some(0) } else { Took::Gone };
        }
        let Some(room) = self.room(rng, now, bytes, |rng| rng.below(bytes + 1)) else { return Took::Gone };
        self.put(rng, now, room);
        if room > 0 {
            self.owed = bytes - room;
        }
        Took::Some(room)
    }

    /// Takes the end of a stream: it is sent when there is room.
    pub(crate) fn end(&mut self, bytes: usize) -> Took {
        if self.is_gone() {
            return Took::Gone;
        }
        self.taken += bytes as u64;
        Took::Some(bytes)
    }

    /// Sends the rest of a heartbeat. False: the peer has disconnected.
    fn pay(&mut self, rng: &mut Rng, now: Tick) -> bool {
        let owed = self.owed;
        if owed == 0 {
            return true;
        }
        let Some(room) = self.room(rng, now, owed, |rng| rng.below(owed + 1)) else { return false };
        self.put(rng, now, room);
        self.owed -= room;
        true
    }

    /// How many of these bytes it would take; `None`: the peer has disconnected. `partial`: a random part.
    fn room(
        &mut self,
        rng: &mut Rng,
        now: Tick,
        offered: usize,
        partial: impl FnOnce(&mut Rng) -> usize,
    ) -> Option<usize> {
        if self.is_gone() {
            return None;
        }
        let room = match self.nature {
            Nature::Perfect => offered,
            Nature::Slow { capacity, .. } => {
                self.drain(now);
                // Of whole messages the last one may exceed it.
                capacity.saturating_sub(self.held)
            }
            Nature::Partial => partial(rng),
            Nature::Stalled { from, until } => {
                if from <= now && now < until {
                    self.ready = until;
                    0
                } else {
                    offered
                }
            }
            Nature::Dead { after } | Nature::Gone { after } => after.saturating_sub(self.sent()),
        };
        Some(room.min(offered))
    }

    fn put(&mut self, rng: &mut Rng, now: Tick, taken: usize) {
        if let Nature::Partial = self.nature {
            self.ready = now.plus(Duration::from_micros(rng.range_u64(0, 20_000)));
        }
        self.held += taken;
        self.taken += taken as u64;
    }

    fn sent(&self) -> usize {
        usize::try_from(self.taken).unwrap_or(usize::MAX)
    }

    fn is_gone(&mut self) -> bool {
        if let Nature::Gone { after } = self.nature {
            self.gone |= self.sent() >= after;
        }
        self.gone
    }

    /// Whether it would take something now.
    pub(crate) fn has_room(&mut self, now: Tick) -> bool {
        match self.nature {
            Nature::Perfect | Nature::Gone { .. } => true,
            Nature::Slow { capacity, .. } => {
                self.drain(now);
                // Sockets report that they are writable when a good part is free.
                self.held * 3 <= capacity * 2
            }
            Nature::Partial | Nature::Stalled { .. } => now >= self.ready,
            Nature::Dead { .. } => false,
        }
    }

    /// It reports room.
    pub(crate) const fn free(&mut self, now: Tick) {
        self.full = false;
        self.freed = now;
    }

    /// Takes everything from now on, unless it is dead.
    pub(crate) const fn heal(&mut self) {
        if !matches!(self.nature, Nature::Dead { .. }) {
            self.nature = Nature::Perfect;
        }
    }

    fn drain(&mut self, now: Tick) {
        if let Nature::Slow { drained_per_ms, .. } = self.nature {
            let micros = usize::try_from(now.since(self.drained).as_micros()).unwrap_or(usize::MAX);
            let drained = micros.saturating_mul(drained_per_ms) / 1000;
            if drained > 0 {
                self.held = self.held.saturating_sub(drained);
                self.drained = now;
            }
        }
    }
}

/// As many whole messages as fill the room.
fn page(stream: &Stream, run: Run<'_>, room: usize) -> usize {
    let page = run.page(room);
    let enough = stream.boundaries(run.bytes()).into_iter().find(|end| *end >= room);
    assert_eq!(Some(page), enough, "the messages that fill {room} bytes");
    page
}

fn partial(rng: &mut Rng, stream: &Stream, offered: &[u8]) -> usize {
    match rng.below(6) {
        0 => 0,
        1 => rng.below(offered.len() + 1),
        2 => rng.below(offered.len().min(30) + 1),
        3 => {
            let boundaries = stream.boundaries(offered);
            if boundaries.is_empty() { offered.len() / 2 } else { *rng.pick(&boundaries) }
        }
        _ => offered.len(),
    }
}
