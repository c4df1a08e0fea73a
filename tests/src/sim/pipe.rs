//! The socket of one simulated client: how many of the bytes that are offered it takes.

use std::time::Duration;

use revcast_engine::tick::Tick;

use super::rng::Rng;
use super::stream::Stream;

/// What kind of connection it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Nature {
    /// Takes everything.
    Perfect,
    /// Holds so many bytes, and drains so many a millisecond.
    Slow { capacity: usize, drained_per_ms: usize },
    /// Takes any part, often exactly up to the end of a frame.
    Partial,
    /// Takes nothing for a while.
    Stalled { from: Tick, until: Tick },
    /// Takes nothing any more after so many bytes.
    Dead { after: usize },
    /// Goes away after so many bytes.
    Gone { after: usize },
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) nature: Nature,
    /// It refused bytes, and nobody was told yet that it has room again.
    pub(crate) full: bool,
    pub(crate) gone: bool,
    /// When somebody was last told that it has room.
    pub(crate) freed: Tick,
    /// When it has room again.
    ready: Tick,
    held: usize,
    drained: Tick,
    pub(crate) taken: u64,
}

/// What a pipe did with the bytes.
pub(crate) enum Took {
    Some(usize),
    Gone,
}

impl Pipe {
    pub(crate) const fn new(nature: Nature, now: Tick) -> Self {
        Self {
            nature,
            full: false,
            gone: false,
            freed: Tick::ZERO,
            ready: Tick::ZERO,
            held: 0,
            drained: now,
            taken: 0,
        }
    }

    pub(crate) fn take(&mut self, rng: &mut Rng, now: Tick, stream: &Stream, offered: &[u8]) -> Took {
        let sent = usize::try_from(self.taken).unwrap_or(usize::MAX);
        let room = match self.nature {
            Nature::Perfect => offered.len(),
            Nature::Slow { capacity, .. } => {
                self.drain(now);
                capacity - self.held
            }
            Nature::Partial => partial(rng, stream, offered),
            Nature::Stalled { from, until } => {
                if from <= now && now < until {
                    self.ready = until;
                    0
                } else {
                    offered.len()
                }
            }
            Nature::Dead { after } => after.saturating_sub(sent),
            Nature::Gone { after } => {
                if sent >= after {
                    self.gone = true;
                    return Took::Gone;
                }
                after - sent
            }
        };
        let taken = room.min(offered.len());
        if let Nature::Partial = self.nature {
            self.ready = now.plus(Duration::from_micros(rng.range_u64(0, 20_000)));
        }
        self.held += taken;
        self.taken += taken as u64;
        self.full = taken < offered.len();
        Took::Some(taken)
    }

    /// Whether it would take something now.
    pub(crate) fn has_room(&mut self, now: Tick) -> bool {
        match self.nature {
            Nature::Perfect | Nature::Gone { .. } => true,
            Nature::Slow { capacity, .. } => {
                self.drain(now);
                // Sockets say that they are writable when a good part is free.
                self.held * 3 <= capacity * 2
            }
            Nature::Partial | Nature::Stalled { .. } => now >= self.ready,
            Nature::Dead { .. } => false,
        }
    }

    /// Somebody is told that it has room.
    pub(crate) const fn free(&mut self, now: Tick) {
        self.full = false;
        self.freed = now;
    }

    /// Takes everything from now on, if it is not dead for good.
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
