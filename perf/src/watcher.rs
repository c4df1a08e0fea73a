//! One watch from the client's side: how far its response is, and its account. No buffer while no event is half received, no
//! allocation an event; about 100 bytes and four bytes an object. Its connection, which others may share, is the lane's.

use crate::event::{Event, Kind};
use crate::http::Refusal;
use crate::known::Known;
use crate::latency::Latency;
use crate::ledger::{Account, Due, Scope, Verdict};
use crate::media::hold;
use crate::stamp::Stamp;
use crate::tally::Tally;
use std::cmp::Ordering;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is not asked for, or it is over.
    Away,
    /// It is asked for, and no response head came.
    Asked,
    Answered,
}

#[derive(Default)]
pub(crate) struct LaneState {
    pub(crate) run: u64,
    pub(crate) tally: Tally,
    pub(crate) recent: Latency,
    /// Newest write seen, by object's rank: one row a watcher.
    pub(crate) rows: Vec<u32>,
    /// When the bytes at hand were read, ns.
    pub(crate) now_ns: u64,
    pub(crate) measure_from_ns: u64,
    /// When each window of the tally begins; it ends with the next.
    pub(crate) windows_from_ns: Vec<u64>,
    /// The newest write among the bytes at hand, by when it was meant to be sent.
    pub(crate) newest_intended_ns: u64,
    known: Known,
    /// Buffers for events that arrive in pieces, lent to watchers.
    spare: Vec<Vec<u8>>,
}

pub(crate) struct Watcher {
    pub(crate) phase: Phase,
    pub(crate) scope: u32,
    row_at: usize,
    pub(crate) account: Account,
    /// The beginning of an event that is not complete.
    held: Vec<u8>,
    /// It reads its response head and nothing after it.
    pub(crate) deaf: bool,
    /// It was away and asks again for what came after the last event that it saw.
    pub(crate) returning: bool,
}

impl LaneState {
    pub(crate) fn new(run: u64, now_ns: u64) -> Self {
        Self { run, now_ns, measure_from_ns: u64::MAX, ..Self::default() }
    }

    pub(crate) fn begin_window(&mut self, from_ns: u64) {
        self.windows_from_ns.push(from_ns);
        self.tally.windows.push(Latency::default());
    }

    pub(crate) fn is_measuring(&self) -> bool {
        self.now_ns >= self.measure_from_ns
    }

    /// A write was delivered. `stamp`: `None` when the event carries none.
    fn deliver(&mut self, stamp: Option<Stamp>) {
        self.tally.seen.delivered += 1;
        self.tally.last_delivery_ns = self.now_ns;
        self.tally.window.deliveries += u64::from(self.is_measuring());
        let Some(Stamp { intended_ns, .. }) = stamp else { return };
        let latency_ns = self.now_ns.saturating_sub(intended_ns);
        self.recent.record(latency_ns);
        self.newest_intended_ns = self.newest_intended_ns.max(intended_ns);
        if let Some(window) = self.windows_from_ns.iter().rposition(|from_ns| *from_ns <= intended_ns) {
            self.tally.windows[window].record(latency_ns);
        }
        if intended_ns >= self.measure_from_ns {
            self.tally.seen.measured += 1;
            self.tally.latency.record(latency_ns);
        }
    }
}

impl Watcher {
    pub(crate) fn new(scope: u32, start_revision: u64, row_at: usize, deaf: bool) -> Self {
        Self {
            phase: Phase::Away,
            scope,
            row_at,
            account: Account::new(start_revision),
            held: Vec::new(),
            deaf,
            returning: false,
        }
    }

    /// It is over. What was half received is gone; the account stays.
    pub(crate) fn hang_up(&mut self, lane: &mut LaneState) {
        self.held.clear();
        self.give_back(lane);
        self.phase = Phase::Away;
    }

    fn row(&self, scope: &Scope) -> Range<usize> {
        self.row_at..self.row_at + scope.objects.len()
    }

    /// Takes a part of its response's body.
    pub(crate) fn take(&mut self, data: &[u8], scope: &Scope, lane: &mut LaneState) -> Result<(), Refusal> {
        if self.deaf {
            return Ok(());
        }
        let mut held = std::mem::take(&mut self.held);
        let rest = scope.media.cut(&mut held, data, |line| self.on_line(line, scope, lane));
        self.held = held;
        if self.held.is_empty() {
            self.give_back(lane);
            if scope.media.is_filler(rest) {
                // White space between two events says that the server is there, and needs no place.
                lane.tally.window.heartbeats += u64::from(!rest.is_empty() && lane.is_measuring());
                return Ok(());
            }
            self.held = lane.spare.pop().unwrap_or_default();
        }
        hold(&mut self.held, rest)
    }

    /// Lends its buffer, which must be empty, to others.
    fn give_back(&mut self, lane: &mut LaneState) {
        debug_assert!(self.held.is_empty(), "only an empty buffer is lent");
        if self.held.capacity() > 0 {
            lane.spare.push(std::mem::take(&mut self.held));
        }
    }

    fn on_line(&mut self, line: &[u8], scope: &Scope, lane: &mut LaneState) {
        let event = lane.known.read(&scope.media, line);
        let is_measuring = lane.is_measuring();
        let seen = &mut lane.tally.seen;
        let Some(event) = event else {
            return seen.count_line(|seen| &mut seen.malformed, "a line that is no watch event", line);
        };
        match event.kind {
            Kind::Bookmark => {
                seen.bookmarks += 1;
                lane.tally.window.bookmarks += u64::from(is_measuring);
                // It may repeat a revision that was seen.
                if self.account.advance(event.revision.unwrap_or(0)).is_lt() {
                    seen.count_line(|seen| &mut seen.out_of_order, "a bookmark that goes back", line);
                }
            }
            Kind::Error => {
                seen.gone += u64::from(scope.media.is_gone(line));
                seen.count_line(|seen| &mut seen.errors, "an ERROR event", line);
            }
            Kind::Added | Kind::Modified | Kind::Deleted => match event.revision {
                None => seen.count_line(|seen| &mut seen.malformed, "an event without resourceVersion", line),
                Some(revision) if !scope.media.has_stamps() => self.on_bare(event.kind, revision, line, lane),
                Some(revision) => self.on_change(event, revision, line, scope, lane),
            },
        }
    }

    /// An event without a stamp. Its row's first place is how many came; the last revision says which may still come.
    fn on_bare(&mut self, kind: Kind, revision: u64, line: &[u8], lane: &mut LaneState) {
        let seen = &mut lane.tally.seen;
        if kind != Kind::Modified {
            return unexpected(lane, line);
        }
        let before = self.account.revision();
        match self.account.advance(revision) {
            Ordering::Greater => {
                lane.rows[self.row_at] += 1;
                lane.deliver(None);
            }
            Ordering::Equal => {
                seen.count(|seen| &mut seen.duplicated, || format!("revision {revision} came again"));
            }
            Ordering::Less => {
                let late = || format!("revision {revision} came after {before}");
                seen.count(|seen| &mut seen.out_of_order, late);
            }
        }
    }

    fn on_change(&mut self, event: Event, revision: u64, line: &[u8], scope: &Scope, lane: &mut LaneState) {
        let seen = &mut lane.tally.seen;
        let Some(stamp) = event.stamp.filter(|stamp| stamp.run == lane.run) else {
            seen.foreign += 1;
            if !self.account.advance(revision).is_gt() {
                let what = "an event of another writer out of order";
                seen.count_line(|seen| &mut seen.out_of_order, what, line);
            }
            return;
        };
        let Some(rank) = scope.rank(stamp.object).filter(|_| event.kind == Kind::Modified) else {
            self.account.advance(revision);
            return unexpected(lane, line);
        };
        let before = self.account.revision();
        let range = self.row(scope);
        let Stamp { seq, object, .. } = stamp;
        match self.account.deliver(&mut lane.rows[range], rank, seq, revision) {
            Verdict::Duplicated => {
                let again = || format!("write {seq} of object {object} came again");
                return seen.count(|seen| &mut seen.duplicated, again);
            }
            Verdict::OutOfOrder => {
                let late = || format!("write {seq} of object {object} at revision {revision} after {before}");
                seen.count(|seen| &mut seen.out_of_order, late);
            }
            Verdict::InOrder => {}
        }
        lane.deliver(Some(stamp));
    }

    /// How many of its deliveries never came, and how many came that nobody sent.
    pub(crate) fn balance(&self, scope: &Scope, rows: &[u32], due: &Due) -> (u64, u64) {
        let row = &rows[self.row(scope)];
        if self.deaf {
            return (0, 0);
        }
        if !scope.media.has_stamps() {
            let came = row.first().map_or(0, |&came| u64::from(came));
            // A write that failed may have been done all the same.
            return (due.acknowledged().saturating_sub(came), came.saturating_sub(due.writes()));
        }
        (self.account.lost(row, due), Account::invented(row, due))
    }
}

fn unexpected(lane: &mut LaneState, line: &[u8]) {
    let what = "an event that this watch should not get";
    lane.tally.seen.count_line(|seen| &mut seen.unexpected, what, line);
}

#[cfg(test)]
mod tests;
