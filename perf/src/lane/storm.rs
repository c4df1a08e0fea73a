//! All watches of a lane lose their connections at one moment and come back, each behind the last event that it saw.
//!
//! A watch is *answered* when its response head came. It has *caught up* when it has got an event of a write that was
//! meant to be sent after that head: events come in order, so nothing older is missing, and it is not living on what was
//! kept for it any more. So the time to catch up ends with the next write, and is late by one interval of the writes at
//! most. An attempt that fails before the answer is counted and made again; a 410 is not.

use super::{EventData, EventFlags, Lane, SECOND_NS, begin_connect, source_of};
use crate::clock::now_ns;
use crate::latency::Latency;
use crate::message::{Cut, Report, StormFound};
use crate::watcher::Phase;
use rustix::event::epoll;
use rustix::net::sockopt;
use std::collections::VecDeque;
use std::time::Duration;

/// Connects between two looks at what has arrived.
const CONNECTS_AT_ONCE: usize = 256;
/// Before an attempt that failed is made again.
const PAUSE_NS: u64 = 50_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Its connection was lost before the storm: it does not take part.
    Absent,
    Away,
    /// Its response head came, ns.
    Answered(u64),
    CaughtUp,
    /// It was told 410, or its answer ended: it does not come back.
    GivenUp,
}

#[derive(Debug)]
pub(super) struct Storm {
    cut: Cut,
    progress: Vec<Progress>,
    /// The next watcher that connects for the first time.
    next: usize,
    again: VecDeque<(u64, usize)>,
    left: usize,
    answered: Latency,
    caught_up: Latency,
    found: StormFound,
}

impl Storm {
    fn leave(&mut self, index: usize) {
        if matches!(self.progress[index], Progress::Away | Progress::Answered(_)) {
            self.progress[index] = Progress::GivenUp;
            self.left -= 1;
        }
    }
}

impl Lane {
    /// Does what a storm wants now. How long the lane may wait for events, ns; `None`: as long as always.
    pub(super) fn advance_storm(&mut self) -> Result<Option<u64>, String> {
        let now = now_ns();
        if let Some(cut) = self.cut.take_if(|cut| now >= cut.at_ns) {
            self.close_all(cut);
        }
        if self.storm.is_none() {
            return Ok(self.cut.as_ref().map(|cut| cut.at_ns.saturating_sub(now)));
        }
        let more = self.return_some()?;
        let over = self.storm.as_ref().is_none_or(|storm| {
            storm.left == 0 || now >= storm.cut.at_ns.saturating_add(storm.cut.timeout_ns)
        });
        if over {
            self.report_storm();
        }
        Ok(Some(if more { 0 } else { 1_000_000 }))
    }

    fn close_all(&mut self, cut: Cut) {
        let mut found = StormFound { lane: self.number, began_ns: now_ns(), ..StormFound::default() };
        let mut progress = vec![Progress::Absent; self.watchers.len()];
        for (watcher, progress) in self.watchers.iter_mut().zip(&mut progress) {
            let Some(socket) = &watcher.socket else { continue };
            if cut.reset {
                // Refused: then the connection ends with a FIN.
                let _kept = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
            }
            if matches!(watcher.phase, Phase::Streaming(_)) {
                self.established -= 1;
            }
            watcher.hang_up(&mut self.state);
            *progress = Progress::Away;
            found.watchers += 1;
        }
        found.closed_ns = now_ns();
        self.storm = Some(Storm {
            cut,
            progress,
            next: 0,
            again: VecDeque::new(),
            left: found.watchers as usize,
            answered: Latency::new(),
            caught_up: Latency::new(),
            found,
        });
    }

    /// Starts connects that are due. True: more are due now.
    fn return_some(&mut self) -> Result<bool, String> {
        for _ in 0..CONNECTS_AT_ONCE {
            let now = now_ns();
            let Some(storm) = &mut self.storm else { return Ok(false) };
            let again = storm.again.front().is_some_and(|&(due_ns, _)| due_ns <= now);
            let index = if again {
                storm.again.pop_front().map(|(_, index)| index)
            } else {
                let all = storm.progress.len().max(1) as u64;
                let due_ns = storm.found.began_ns + storm.cut.spread_ns / all * storm.next as u64;
                let first = Some(storm.next).filter(|&next| next < storm.progress.len() && due_ns <= now);
                storm.next += usize::from(first.is_some());
                first
            };
            let Some(index) = index else { return Ok(false) };
            if storm.progress[index] == Progress::Away {
                self.connect_again(index)?;
            }
        }
        Ok(true)
    }

    fn connect_again(&mut self, index: usize) -> Result<(), String> {
        if let Some(storm) = &mut self.storm {
            storm.found.attempts += 1;
        }
        let within = u32::try_from(index).unwrap_or(u32::MAX).saturating_mul(self.plan.threads) + self.number;
        let source = source_of(self.plan.first_watcher + within, self.plan.sources);
        match begin_connect(self.plan.address, source, None) {
            Ok(socket) => {
                epoll::add(&self.epoll, &socket, EventData::new_u64(index as u64), EventFlags::OUT)
                    .map_err(|fault| format!("epoll_ctl: {fault}"))?;
                self.watchers[index].go_on(socket);
                if let Some(storm) = &mut self.storm {
                    storm.found.connected_ns = now_ns();
                }
            }
            Err(fault) => {
                self.try_again(index, &format!("connect: {fault}"));
            }
        }
        Ok(())
    }

    /// A watch is over before its answer. True: it is one that comes back, and will try again.
    pub(super) fn try_again(&mut self, index: usize, why: &str) -> bool {
        let Some(storm) = &mut self.storm else { return false };
        if storm.progress.get(index) != Some(&Progress::Away) {
            return false;
        }
        storm.found.failed += 1;
        storm.found.first_failure.get_or_insert_with(|| why.to_owned());
        storm.again.push_back((now_ns() + PAUSE_NS, index));
        self.watchers[index].hang_up(&mut self.state);
        true
    }

    /// A watch that comes back was refused. True: that was taken care of.
    pub(super) fn refused_again(&mut self, index: usize, status: u16, words: &str) -> bool {
        if status != 410 || self.storm.is_none() {
            return self.try_again(index, &format!("answered with {status}: {words}"));
        }
        self.state.tally.seen.gone += 1;
        self.state.tally.note(|| format!("a watch that came back was answered with 410: {words}"));
        self.watchers[index].hang_up(&mut self.state);
        self.given_up(index);
        true
    }

    /// A watch ended behind its answer: it does not come back.
    pub(super) fn given_up(&mut self, index: usize) {
        if let Some(storm) = self.storm.as_mut().filter(|storm| index < storm.progress.len()) {
            storm.leave(index);
        }
    }

    /// Bytes of watcher `index` were taken. `head`: its response head came with them.
    pub(super) fn notice(&mut self, index: usize, head: bool) {
        let now = self.state.now_ns;
        let Some(storm) = &mut self.storm else { return };
        let Some(progress) = storm.progress.get_mut(index) else { return };
        let since_ns = now.saturating_sub(storm.found.began_ns);
        if head && *progress == Progress::Away {
            *progress = Progress::Answered(now);
            storm.answered.record(since_ns);
            storm.found.answered_ns = now;
        }
        if matches!(*progress, Progress::Answered(at) if self.state.newest_intended_ns >= at) {
            *progress = Progress::CaughtUp;
            storm.caught_up.record(since_ns);
            storm.found.caught_up_ns = now;
            storm.left -= 1;
        }
    }

    /// The storm is over, or took too long.
    fn report_storm(&mut self) {
        let Some(storm) = self.storm.take() else { return };
        let count =
            |wanted: fn(&Progress) -> bool| storm.progress.iter().filter(|one| wanted(one)).count() as u64;
        let tally = &self.state.tally;
        let found = StormFound {
            unanswered: count(|one| *one == Progress::Away),
            behind: count(|one| matches!(one, Progress::Answered(_))),
            answered: storm.answered.pairs(),
            caught_up: storm.caught_up.pairs(),
            gone: tally.seen.gone,
            duplicated: tally.seen.duplicated,
            out_of_order: tally.seen.out_of_order,
            disconnected: tally.seen.disconnected,
            gaps: self.watchers.iter().map(|watcher| watcher.account().gaps()).sum(),
            ..storm.found
        };
        self.report(Report::Storm(found));
        // A second storm must not find the progress line late.
        self.next_report_ns = now_ns() + SECOND_NS;
        self.report_progress(true);
    }
}
