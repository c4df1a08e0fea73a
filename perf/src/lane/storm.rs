//! All watches of a lane lose their connections at one moment and return, each after the last event that it saw. A watch is
//! *answered* when its response head came. It has *caught up* when it has got an event of a write that was meant to be sent after
//! that head: events come in order, so nothing older is missing. So the time to catch up ends with the next write, late by one
//! interval of the writes at most. An attempt that fails before the answer is counted and made again; a 410 is not.

use super::{BUSY_NS, Lane, LaneState, Phase};
use crate::clock::{SECOND_NS, now_ns};
use crate::message::{Cut, Report, StormFound};
use crate::tally::Seen;
use rustix::net::sockopt;
use std::collections::BTreeSet;
use std::time::Duration;

const CONNECTS_AT_ONCE: usize = 256;
const PAUSE_NS: u64 = 50_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Away,
    Answered(u64),
    /// It has caught up, or does not return: it was told 410, its answer ended, or its connection was lost before.
    Over,
}

pub(super) struct Storm {
    cut: Cut,
    progress: Vec<Progress>,
    due: BTreeSet<(u64, usize)>,
    left: usize,
    found: StormFound,
}

impl Lane {
    /// Does what a storm wants now. How long the lane may wait for events, ns; `None`: as long as always.
    pub(super) fn advance_storm(&mut self) -> Option<u64> {
        let now = now_ns();
        if let Some(cut) = self.cut.take_if(|cut| now >= cut.at_ns) {
            self.close_all(cut);
        }
        if self.storm.is_none() {
            return self.cut.map(|cut| cut.at_ns.saturating_sub(now));
        }
        let more = (0..CONNECTS_AT_ONCE).all(|_| self.connect_next());
        let is_over = |storm: &Storm| storm.left == 0 || now >= storm.cut.at_ns + storm.cut.timeout_ns;
        if self.storm.as_ref().is_some_and(is_over) {
            self.report_storm();
        }
        Some(if more { 0 } else { BUSY_NS })
    }

    fn close_all(&mut self, cut: Cut) {
        let mut found = StormFound { began_ns: now_ns(), ..StormFound::default() };
        let mut progress = vec![Progress::Over; self.watchers.len()];
        for link in self.connections.iter_mut().filter_map(Option::take).filter(|_| cut.reset) {
            // Refused: then the connection ends with a FIN.
            let _kept = sockopt::set_socket_linger(&link.socket, Some(Duration::ZERO));
        }
        for (watcher, progress) in self.watchers.iter_mut().zip(&mut progress) {
            if watcher.phase == Phase::Away {
                continue;
            }
            self.established -= usize::from(watcher.phase == Phase::Answered);
            watcher.hang_up(&mut self.state);
            *progress = Progress::Away;
            found.counts.cut += 1;
        }
        found.closed_ns = now_ns();
        let step_ns = cut.spread_ns / progress.len().max(1) as u64;
        let due = (0..).zip(0..progress.len()).map(|(turn, index)| (found.began_ns + step_ns * turn, index));
        let due: BTreeSet<_> = due.filter(|&(_, index)| progress[index] == Progress::Away).collect();
        self.storm = Some(Storm { cut, progress, left: due.len(), due, found });
    }

    fn connect_next(&mut self) -> bool {
        let Some(storm) = &mut self.storm else { return false };
        if storm.due.first().is_none_or(|&(due_ns, _)| due_ns > now_ns()) {
            return false;
        }
        let Some((_, index)) = storm.due.pop_first() else { return false };
        storm.found.counts.attempts += 1;
        match self.open(index) {
            Ok(()) => self.storm.iter_mut().for_each(|storm| storm.found.connected_ns = now_ns()),
            Err(why) => _ = self.try_again(index, &why),
        }
        true
    }

    /// A watch is over before its answer. True: it is one that returns, and will try again.
    pub(super) fn try_again(&mut self, index: usize, why: &str) -> bool {
        let Some(storm) = &mut self.storm else { return false };
        if storm.progress.get(index) != Some(&Progress::Away) {
            return false;
        }
        storm.found.counts.failed_attempts += 1;
        storm.found.counts.note(|| Some(why.to_owned()));
        storm.due.insert((now_ns() + PAUSE_NS, index));
        self.leave(index);
        true
    }

    /// A watch that returns was refused. True: that was taken care of.
    pub(super) fn refused_again(&mut self, index: usize, status: u16, words: &str) -> bool {
        if status != 410 || self.storm.is_none() {
            return self.try_again(index, &format!("answered with {status}: {words}"));
        }
        let told = || format!("a watch that came back was answered with 410: {words}");
        self.state.tally.seen.count(|seen| &mut seen.gone, told);
        self.leave(index);
        self.given_up(index);
        true
    }

    /// A watch ended after its answer: it does not return.
    pub(super) fn given_up(&mut self, index: usize) {
        let Some(storm) = &mut self.storm else { return };
        if let Some(progress) = storm.progress.get_mut(index).filter(|one| **one != Progress::Over) {
            *progress = Progress::Over;
            storm.left -= 1;
        }
    }

    fn report_storm(&mut self) {
        let Some(storm) = self.storm.take() else { return };
        let away = storm.progress.iter().filter(|&&one| one == Progress::Away).count();
        let lost = self.watchers.iter().map(|watcher| watcher.account.gaps()).sum();
        let mut found = storm.found;
        found.seen = Seen { lost, ..self.state.tally.seen.clone() };
        (found.counts.unanswered, found.counts.behind) = (away as u64, (storm.left - away) as u64);
        self.report(Report::Storm(found));
        // A second storm must not find the progress line late.
        self.next_report_ns = now_ns() + SECOND_NS;
        self.report_progress(true);
    }
}

impl Storm {
    /// Bytes of watcher `index` were taken. `head`: its response head came with them.
    pub(super) fn notice(&mut self, index: usize, head: bool, lane: &LaneState) {
        let (now, storm) = (lane.now_ns, self);
        let Some(progress) = storm.progress.get_mut(index) else { return };
        let since_ns = now.saturating_sub(storm.found.began_ns);
        if head && *progress == Progress::Away {
            *progress = Progress::Answered(now);
            storm.found.answered.record(since_ns);
            storm.found.answered_ns = now;
        }
        if matches!(*progress, Progress::Answered(at) if lane.newest_intended_ns >= at) {
            *progress = Progress::Over;
            storm.found.caught_up.record(since_ns);
            storm.found.caught_up_ns = now;
            storm.left -= 1;
        }
    }
}
