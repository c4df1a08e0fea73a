//! All sockets of the simulation and their clients: the shards' outlet.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};

use revcast_engine::tick::Tick;
use revcast_engine::{Outlet, Run, Sent, WatcherId};

use super::coverage::Coverage;
use super::fault::{Fault, Promise, broken};
use super::oracle::Oracle;
use super::pipe::Took;
use super::rng::Rng;
use super::watch::Watch;
use super::wire::Wire;

#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) oracle: Oracle,
    pub(crate) watches: Vec<Watch>,
    /// By shard, then by slot: its watch.
    pub(crate) slots: Vec<Vec<Option<usize>>>,
    pub(crate) now: Tick,
    pub(crate) coverage: Coverage,
    /// The first fault within a turn.
    pub(crate) fault: Option<Fault>,
    /// Watches that were sent an error in the turn under way.
    pub(crate) told: Vec<usize>,
    /// By shard: bytes taken.
    pub(crate) bytes: Vec<u64>,
    pub(crate) rng: Rng,
    pub(crate) hasher: DefaultHasher,
    /// The last steps, if they are recorded.
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

    /// The open watch with this `id` on a shard.
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

    /// The watch that a shard sends to: it exists, its socket is not known to be full, and it was not ended.
    fn addressed(&self, shard: usize, to: WatcherId, what: &str) -> Result<usize, Fault> {
        let fault = |promise, what: String| Err(Fault { promise, what });
        let Some(at) = self.find(shard, to) else {
            return fault(Promise::End, format!("{what} for {to:?}, which is no watch any more"));
        };
        let watch = &self.watches[at];
        if watch.pipe.full || watch.pipe.gone {
            return fault(Promise::Progress, format!("watch {at}: {what} for a socket that is full or gone"));
        }
        if watch.stream.finished() {
            return fault(Promise::Stream, format!("watch {at}: {what} after the end"));
        }
        Ok(at)
    }

    fn send(&mut self, shard: usize, to: WatcherId, run: Run<'_>) -> Result<Sent, Fault> {
        let bytes = run.bytes();
        let at = self.addressed(shard, to, "bytes")?;
        let watch = &mut self.watches[at];
        let fault =
            |fault: Fault| Fault { what: format!("watch {at} of shard {shard}: {}", fault.what), ..fault };
        if bytes.is_empty() {
            return broken(Promise::Stream, "no bytes were offered").map_err(fault);
        }
        if run.is_begun() == watch.stream.at_boundary() {
            let stands = if run.is_begun() { "between two messages" } else { "within a message" };
            return broken(Promise::Stream, format!("the shard is mistaken: it stands {stands}"))
                .map_err(fault);
        }
        let wire = watch.stream.wire();
        let took = watch.pipe.take(&mut self.rng, self.now, &watch.stream, run);
        let Took::Some(taken) = took else {
            self.coverage.gone_sends += 1;
            self.note(|_| format!("shard {shard} watch {at}: {} bytes offered, gone", bytes.len()));
            return Ok(Sent::Gone);
        };
        self.bytes[shard] += taken as u64;
        self.hasher.write_usize(at);
        self.hasher.write(&bytes[..taken.min(256)]);
        let again = watch.stream.again();
        let mut stream = std::mem::replace(&mut watch.stream, again);
        let received = stream.receive(&bytes[..taken], |line| {
            self.coverage.messages_framed_otherwise += u64::from(wire != Wire::Chunked);
            watch.message(&self.oracle, &mut self.coverage, self.now, line)
        });
        watch.stream = stream;
        if taken > 0 {
            watch.heard = self.now;
        }
        self.count_send(at, bytes.len(), taken);
        self.note(|_| format!("shard {shard} watch {at}: {taken} of {} bytes", bytes.len()));
        received.map_err(fault)?;
        let watch = &self.watches[at];
        if watch.told {
            self.told.push(at);
        }
        if watch.pipe.whole && !watch.stream.at_boundary() {
            return broken(Promise::Stream, "a page of whole messages ends within one").map_err(fault);
        }
        Ok(Sent::Took(taken))
    }

    fn count_send(&mut self, at: usize, offered: usize, taken: usize) {
        let (watch, coverage) = (&self.watches[at], &mut self.coverage);
        if taken == 0 {
            coverage.refused_sends += 1;
        } else if taken < offered {
            coverage.partial_sends += 1;
            coverage.partial_at_boundary += u64::from(watch.stream.at_boundary());
            coverage.partial_within_head += u64::from(watch.stream.is_within_head());
            coverage.partial_whole += u64::from(watch.pipe.whole);
        }
    }

    fn heartbeat(&mut self, shard: usize, to: WatcherId) -> Result<Sent, Fault> {
        let at = self.addressed(shard, to, "a heartbeat")?;
        let watch = &mut self.watches[at];
        if !watch.stream.at_boundary() {
            return broken(Promise::Stream, format!("watch {at}: a heartbeat within a message"));
        }
        watch.offer_heartbeat(self.now).map_err(|fault| Fault {
            what: format!("watch {at} of shard {shard}: {}", fault.what),
            ..fault
        })?;
        let bytes = watch.stream.wire().heartbeat();
        let Took::Some(taken) = watch.pipe.beat(&mut self.rng, self.now, bytes) else {
            self.coverage.gone_sends += 1;
            self.note(|_| format!("shard {shard} watch {at}: a heartbeat offered, gone"));
            return Ok(Sent::Gone);
        };
        self.bytes[shard] += taken as u64;
        self.hasher.write_usize(at);
        self.hasher.write_usize(taken);
        let coverage = &mut self.coverage;
        if taken == 0 {
            coverage.heartbeats_refused += 1;
        } else {
            watch.heartbeats += 1;
            coverage.heartbeats += 1;
            coverage.heartbeats_begun += u64::from(taken < bytes);
            coverage.heartbeats_parked += u64::from(watch.parked_at.is_some() && watch.messages == 0);
        }
        self.note(|_| format!("shard {shard} watch {at}: {taken} of {bytes} bytes of a heartbeat"));
        Ok(Sent::Took(taken))
    }

    fn end(&mut self, shard: usize, to: WatcherId) -> Result<Sent, Fault> {
        let at = self.addressed(shard, to, "an end")?;
        let watch = &mut self.watches[at];
        watch.stream.finish().map_err(|fault| Fault {
            what: format!("watch {at} of shard {shard}: {}", fault.what),
            ..fault
        })?;
        let bytes = watch.stream.wire().end();
        let Took::Some(taken) = watch.pipe.end(bytes) else {
            self.coverage.gone_ends += 1;
            self.note(|_| format!("shard {shard} watch {at}: its end offered, gone"));
            return Ok(Sent::Gone);
        };
        self.bytes[shard] += taken as u64;
        self.hasher.write_usize(at);
        self.note(|_| format!("shard {shard} watch {at}: its end, {taken} bytes"));
        Ok(Sent::Took(taken))
    }
}

/// The outlet of one shard.
pub(crate) struct Port<'a> {
    pub(crate) net: &'a mut Net,
    pub(crate) shard: usize,
    /// Messages, heartbeats and ends that were offered.
    pub(crate) sends: u64,
    /// The watches whose streams were ended.
    pub(crate) ended: Vec<WatcherId>,
}

impl Port<'_> {
    fn offer(&mut self, what: impl FnOnce(&mut Net, usize) -> Result<Sent, Fault>) -> Sent {
        self.sends += 1;
        if self.net.fault.is_some() {
            return Sent::Gone;
        }
        what(self.net, self.shard).unwrap_or_else(|fault| {
            self.net.fault = Some(fault);
            Sent::Gone
        })
    }
}

impl Outlet for Port<'_> {
    fn has_groups(&self) -> bool {
        true
    }

    fn order_of(&self, id: WatcherId) -> u64 {
        // As connections are, in an order of their own.
        [2, 0, 1][id.slot() % 3]
    }

    fn are_together(&self, one: WatcherId, other: WatcherId) -> bool {
        self.order_of(one) == self.order_of(other)
    }

    fn send(&mut self, to: WatcherId, run: Run<'_>) -> Sent {
        self.offer(|net, shard| net.send(shard, to, run))
    }

    fn heartbeat(&mut self, to: &[WatcherId], sent: &mut Vec<Sent>) {
        for id in to {
            sent.push(self.offer(|net, shard| net.heartbeat(shard, *id)));
        }
    }

    fn end(&mut self, to: WatcherId) -> Sent {
        self.ended.push(to);
        self.offer(|net, shard| net.end(shard, to))
    }
}
