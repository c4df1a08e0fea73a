//! One watch from the client's side: a socket, how far its response is, and its account. No thread, no buffer while no
//! event is half received, no allocation per event; about 120 bytes and four bytes an object.

use crate::chunked::Step;
use crate::frame::{Frame, Kind};
use crate::http::{Body, HEAD_BYTES_MAX, Head, HttpFault, excerpt};
use crate::known::{Event, Known};
use crate::latency::Latency;
use crate::ledger::{Account, Verdict};
use crate::scope::Scope;
use crate::tally::Tally;
use memchr::{memchr, memmem};
use rustix::fd::OwnedFd;
use std::collections::BTreeSet;
use std::ops::Range;

/// A line of a watch stream above this ends the watch.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

#[derive(Debug)]
pub(crate) enum Phase {
    Connecting,
    Asking(usize),
    Heading,
    Streaming(Body),
    /// Refused: the rest of the body says why.
    Refused(u16, Body),
    /// It reads no more, ever: only the end of its socket is noticed.
    Deaf,
    Closed,
}

/// What a lane keeps for all its watchers together.
#[derive(Debug)]
pub(crate) struct LaneState {
    pub(crate) run: u64,
    pub(crate) tally: Tally,
    pub(crate) latency: Latency,
    pub(crate) recent: Latency,
    /// Newest write seen, by object's rank: one row a watcher.
    pub(crate) rows: Vec<u32>,
    /// When the bytes at hand were read, ns.
    pub(crate) now_ns: u64,
    pub(crate) measure_from_ns: u64,
    /// Latencies by window: each from a moment on, until the next.
    pub(crate) windows: Vec<(u64, Latency)>,
    /// The newest write among the bytes at hand, by when it was meant to be sent.
    pub(crate) newest_intended_ns: u64,
    pub(crate) known: Known,
    /// Buffers for events that arrive in pieces, lent to watchers.
    pub(crate) spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
pub(crate) enum Refusal {
    /// The server answered the watch with another status than 200.
    Status(u16, String),
    Fault(HttpFault),
    LineTooLong,
}

#[derive(Debug)]
pub(crate) struct Watcher {
    pub(crate) socket: Option<OwnedFd>,
    pub(crate) phase: Phase,
    pub(crate) scope: u32,
    row_at: usize,
    account: Account,
    /// The beginning of something that is not complete: the response head, or an event.
    part: Vec<u8>,
    /// Its first event was compared with what a JSON parser reads.
    compared: bool,
    /// It reads its response head and nothing behind it.
    pub(crate) deaf: bool,
    /// It was away and asks again for what came after the last event that it saw.
    pub(crate) returning: bool,
}

impl Watcher {
    pub(crate) fn new(socket: OwnedFd, scope: u32, start_revision: u64, row_at: usize) -> Self {
        Self {
            socket: Some(socket),
            phase: Phase::Connecting,
            scope,
            row_at,
            account: Account::new(start_revision),
            part: Vec::new(),
            compared: false,
            deaf: false,
            returning: false,
        }
    }

    /// It goes away in the middle of its stream and comes back over another socket. What it had half received is gone;
    /// its account goes on.
    pub(crate) fn come_back(&mut self, socket: OwnedFd, lane: &mut LaneState) {
        self.part.clear();
        self.give_back(lane);
        self.socket = Some(socket);
        self.phase = Phase::Connecting;
        self.returning = true;
    }

    /// Its row in [`LaneState::rows`].
    pub(crate) fn row(&self, scope: &Scope) -> Range<usize> {
        self.row_at..self.row_at + scope.objects.len()
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// Takes what was read from the socket. True: the response is complete, no more events will come.
    pub(crate) fn take(
        &mut self,
        mut input: &[u8],
        scope: &Scope,
        lane: &mut LaneState,
    ) -> Result<bool, Refusal> {
        loop {
            match &mut self.phase {
                Phase::Connecting | Phase::Asking(_) | Phase::Deaf | Phase::Closed => return Ok(false),
                Phase::Heading => {
                    self.part.extend_from_slice(input);
                    let Some((head, taken)) = Head::parse(&self.part).map_err(Refusal::Fault)? else {
                        return Ok(false);
                    };
                    let rest = input.len() - (self.part.len() - taken);
                    input = &input[rest..];
                    self.part.clear();
                    self.phase = match head.status {
                        100..200 => Phase::Heading,
                        200 if self.deaf => Phase::Deaf,
                        200 => Phase::Streaming(head.body),
                        status => Phase::Refused(status, head.body),
                    };
                    self.give_back(lane);
                }
                Phase::Refused(status, body) => {
                    let status = *status;
                    match body.next(&mut input).map_err(|fault| Refusal::Fault(fault.into()))? {
                        Step::Data(data) if self.part.len() < HEAD_BYTES_MAX => {
                            self.part.extend_from_slice(data)
                        }
                        Step::Data(_) => {}
                        Step::More => return Ok(false),
                        Step::End => return Err(Refusal::Status(status, excerpt(&self.part))),
                    }
                }
                Phase::Streaming(body) => {
                    match body.next(&mut input).map_err(|fault| Refusal::Fault(fault.into()))? {
                        Step::Data(data) => self.take_lines(data, scope, lane)?,
                        Step::More => return Ok(false),
                        Step::End => return Ok(true),
                    }
                }
            }
        }
    }

    /// Cuts body data into lines. An event that lies whole in `data` is read where it is.
    fn take_lines(&mut self, mut data: &[u8], scope: &Scope, lane: &mut LaneState) -> Result<(), Refusal> {
        while let Some(end) = memchr(b'\n', data) {
            let line = &data[..end];
            data = &data[end + 1..];
            if self.part.is_empty() {
                self.on_line(line, scope, lane);
            } else {
                let mut part = std::mem::take(&mut self.part);
                part.extend_from_slice(line);
                self.on_line(&part, scope, lane);
                part.clear();
                self.part = part;
                self.give_back(lane);
            }
        }
        if self.part.is_empty() && data.trim_ascii_start().is_empty() {
            // White space between two events says that the server is there, and needs no place.
            if !data.is_empty() && lane.now_ns >= lane.measure_from_ns {
                lane.tally.window.heartbeats += 1;
            }
        } else {
            if self.part.capacity() == 0 {
                self.part = lane.spare.pop().unwrap_or_default();
            }
            if self.part.len() + data.len() > LINE_BYTES_MAX {
                return Err(Refusal::LineTooLong);
            }
            self.part.extend_from_slice(data);
        }
        Ok(())
    }

    fn give_back(&mut self, lane: &mut LaneState) {
        debug_assert!(self.part.is_empty(), "only an empty buffer is lent on");
        if self.part.capacity() > 0 {
            lane.spare.push(std::mem::take(&mut self.part));
        }
    }

    fn on_line(&mut self, line: &[u8], scope: &Scope, lane: &mut LaneState) {
        let Some(event) = lane.known.read(line) else {
            lane.tally.seen.malformed += 1;
            lane.tally.note(|| format!("a line that is no watch event: {}", excerpt(line)));
            return;
        };
        if !self.compared {
            self.compared = true;
            if !Frame::scan(line).is_some_and(|frame| frame.agrees_with_parser(line)) {
                lane.tally.seen.malformed += 1;
                lane.tally
                    .note(|| format!("an event that a JSON parser reads differently: {}", excerpt(line)));
            }
        }
        match event.kind {
            Kind::Bookmark => {
                lane.tally.seen.bookmarks += 1;
                lane.tally.window.bookmarks += u64::from(lane.now_ns >= lane.measure_from_ns);
                if !self.account.bookmark(event.revision.unwrap_or(0)) {
                    lane.tally.seen.out_of_order += 1;
                    lane.tally.note(|| format!("a bookmark that goes back: {}", excerpt(line)));
                }
            }
            Kind::Error => {
                lane.tally.seen.errors += 1;
                lane.tally.seen.gone += u64::from(memmem::find(line, br#""code":410"#).is_some());
                lane.tally.note(|| format!("an ERROR event: {}", excerpt(line)));
            }
            Kind::Added | Kind::Modified | Kind::Deleted => self.on_change(event, line, scope, lane),
        }
    }

    /// An event without a stamp. Its row's first place is how many came; the last revision says which may still come.
    fn count(&mut self, event: Event, revision: u64, line: &[u8], lane: &mut LaneState) {
        let tally = &mut lane.tally;
        let before = self.account.revision();
        if event.kind != Kind::Modified {
            tally.seen.unexpected += 1;
            tally.note(|| format!("an event that this watch should not get: {}", excerpt(line)));
        } else if self.account.pass(revision) {
            lane.rows[self.row_at] += 1;
            tally.seen.delivered += 1;
            tally.last_delivery_ns = lane.now_ns;
            tally.window.deliveries += u64::from(lane.now_ns >= lane.measure_from_ns);
        } else if revision == before {
            tally.seen.duplicated += 1;
            tally.note(|| format!("revision {revision} came again"));
        } else {
            tally.seen.out_of_order += 1;
            tally.note(|| format!("revision {revision} came after {before}"));
        }
    }

    /// How many of its deliveries never came, and how many came that nobody sent. `finals`: the number of the last
    /// write, by rank; `failed`: writes that were not acknowledged.
    pub(crate) fn balance(
        &self,
        scope: &Scope,
        rows: &[u32],
        finals: &[u32],
        failed: &BTreeSet<(u32, u32)>,
    ) -> (u64, u64) {
        let row = &rows[self.row(scope)];
        if self.deaf {
            return (0, 0);
        }
        if scope.accept.is_some() {
            let sent: u64 = finals.iter().map(|&last| u64::from(last)).sum();
            let came = row.first().map_or(0, |&came| u64::from(came));
            // A write that failed may have been done all the same.
            return (
                sent.saturating_sub(failed.len() as u64).saturating_sub(came),
                came.saturating_sub(sent),
            );
        }
        (self.account.lost(row, finals, failed), Account::invented(row, finals))
    }

    fn on_change(&mut self, event: Event, line: &[u8], scope: &Scope, lane: &mut LaneState) {
        let tally = &mut lane.tally;
        let Some(revision) = event.revision else {
            tally.seen.malformed += 1;
            tally.note(|| format!("an event without resourceVersion: {}", excerpt(line)));
            return;
        };
        if scope.accept.is_some() {
            self.count(event, revision, line, lane);
            return;
        }
        let Some(stamp) = event.stamp.filter(|stamp| stamp.run == lane.run) else {
            tally.seen.foreign += 1;
            if !self.account.pass(revision) {
                tally.seen.out_of_order += 1;
                tally.note(|| format!("an event of another writer out of order: {}", excerpt(line)));
            }
            return;
        };
        let rank = scope.rank(stamp.object).filter(|_| event.kind == Kind::Modified);
        let Some(rank) = rank else {
            self.account.pass(revision);
            tally.seen.unexpected += 1;
            tally.note(|| format!("an event that this watch should not get: {}", excerpt(line)));
            return;
        };
        let before = self.account.revision();
        let range = self.row(scope);
        match self.account.deliver(&mut lane.rows[range], rank, stamp.seq, revision) {
            Verdict::Duplicated => {
                tally.seen.duplicated += 1;
                tally.note(|| format!("write {} of object {} came again", stamp.seq, stamp.object));
                return;
            }
            Verdict::OutOfOrder => {
                tally.seen.out_of_order += 1;
                tally.note(|| {
                    format!(
                        "write {} of object {} at revision {revision} after {before}",
                        stamp.seq, stamp.object
                    )
                });
            }
            Verdict::InOrder => {}
        }
        tally.seen.delivered += 1;
        tally.last_delivery_ns = lane.now_ns;
        let latency_ns = lane.now_ns.saturating_sub(stamp.intended_ns);
        lane.recent.record(latency_ns);
        lane.newest_intended_ns = lane.newest_intended_ns.max(stamp.intended_ns);
        if let Some((_, window)) =
            lane.windows.iter_mut().rev().find(|(from_ns, _)| *from_ns <= stamp.intended_ns)
        {
            window.record(latency_ns);
        }
        if lane.now_ns >= lane.measure_from_ns {
            tally.window.deliveries += 1;
        }
        if stamp.intended_ns >= lane.measure_from_ns {
            tally.seen.measured += 1;
            lane.latency.record(latency_ns);
        }
    }
}

mod again;
#[cfg(test)]
mod tests;
