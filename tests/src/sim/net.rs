//! All sockets of the simulation and who stands behind them: the shards' outlet.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};

use revcast_engine::tick::Tick;
use revcast_engine::{Outlet, Sent, WatcherId};

use super::coverage::Coverage;
use super::fault::{Fault, Promise};
use super::oracle::Oracle;
use super::pipe::Took;
use super::rng::Rng;
use super::stream::HEARTBEAT;
use super::watch::Watch;

#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) oracle: Oracle,
    pub(crate) watches: Vec<Watch>,
    /// By shard, then by slot: the watch that has it.
    pub(crate) slots: Vec<Vec<Option<usize>>>,
    pub(crate) now: Tick,
    pub(crate) coverage: Coverage,
    /// The first thing that went wrong within a turn.
    pub(crate) fault: Option<Fault>,
    /// By shard: bytes taken.
    pub(crate) bytes: Vec<u64>,
    pub(crate) rng: Rng,
    pub(crate) hasher: DefaultHasher,
    /// The last steps, when they are wanted.
    pub(crate) trace: Option<VecDeque<String>>,
}

impl Net {
    pub(crate) fn note(&mut self, step: impl FnOnce(&Self) -> String) {
        if self.trace.is_some() {
            let step = format!("{:>11} us  {}", self.now.as_nanos() / 1000, step(self));
            if let Some(trace) = &mut self.trace {
                if trace.len() >= 40 {
                    trace.pop_front();
                }
                trace.push_back(step);
            }
        }
    }

    /// The open watch that a shard calls `id`.
    pub(crate) fn find(&self, shard: usize, id: WatcherId) -> Option<usize> {
        let at = (*self.slots[shard].get(id.slot())?)?;
        (self.watches[at].id == id).then_some(at)
    }

    pub(crate) fn add(&mut self, watch: Watch) {
        let (shard, slot) = (watch.shard, watch.id.slot());
        let slots = &mut self.slots[shard];
        if slots.len() <= slot {
            slots.resize(slot + 1, None);
        }
        slots[slot] = Some(self.watches.len());
        self.watches.push(watch);
    }

    /// Open watches of a shard.
    pub(crate) fn open(&self, shard: usize) -> impl Iterator<Item = usize> {
        self.slots[shard].iter().filter_map(|slot| *slot)
    }

    fn send(&mut self, shard: usize, to: WatcherId, bytes: &[u8]) -> Result<Sent, Fault> {
        let fault = |promise, what: String| Fault { promise, what };
        let Some(at) = self.find(shard, to) else {
            return Err(fault(Promise::End, format!("bytes for {to:?}, which is no watch any more")));
        };
        let watch = &mut self.watches[at];
        if bytes.is_empty() {
            return Err(fault(Promise::Stream, "no bytes were offered".to_owned()));
        }
        if watch.pipe.full || watch.pipe.gone {
            return Err(fault(
                Promise::Progress,
                format!("watch {at}: bytes for a socket that is full or gone"),
            ));
        }
        let took = watch.pipe.take(&mut self.rng, self.now, &watch.stream, bytes);
        let Took::Some(taken) = took else {
            self.coverage.gone_sends += 1;
            self.note(|_| format!("shard {shard} watch {at}: {} bytes offered, gone", bytes.len()));
            return Ok(Sent::Gone);
        };
        self.bytes[shard] += taken as u64;
        self.hasher.write_usize(at);
        self.hasher.write(&bytes[..taken.min(256)]);
        let mut stream = std::mem::take(&mut watch.stream);
        let received = stream.receive(&bytes[..taken], |line| match line {
            HEARTBEAT => watch.heartbeat(self.now, &mut self.coverage),
            line => watch.line(&self.oracle, &mut self.coverage, self.now, line),
        });
        watch.stream = stream;
        if taken > 0 {
            watch.heard = self.now;
        }
        if taken == 0 {
            self.coverage.refused_sends += 1;
        } else if taken < bytes.len() {
            self.coverage.partial_sends += 1;
            self.coverage.partial_at_boundary += u64::from(watch.stream.at_boundary());
        }
        self.note(|_| format!("shard {shard} watch {at}: {taken} of {} bytes", bytes.len()));
        received.map_err(|it| fault(it.promise, format!("watch {at} of shard {shard}: {}", it.what)))?;
        Ok(Sent::Took(taken))
    }
}

/// The outlet of one shard.
pub(crate) struct Port<'a> {
    pub(crate) net: &'a mut Net,
    pub(crate) shard: usize,
    pub(crate) sends: u64,
}

impl Outlet for Port<'_> {
    fn send(&mut self, to: WatcherId, bytes: &[u8]) -> Sent {
        self.sends += 1;
        if self.net.fault.is_some() {
            return Sent::Gone;
        }
        self.net.send(self.shard, to, bytes).unwrap_or_else(|fault| {
            self.net.fault = Some(fault);
            Sent::Gone
        })
    }
}
