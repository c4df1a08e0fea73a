//! All workers, from the coordinator's side: started, told, listened to, and ended.

use crate::child::Helper;
use crate::clock::now_ns;
use crate::lane;
use crate::latency::Latency;
use crate::message::{Command, Finish, Plan, Report, StormFound};
use crate::tally::Tally;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Without one more established watch for so long the opening has failed.
const OPENING_STALL_NS: u64 = 30_000_000_000;

pub(crate) struct Fleet {
    members: Vec<Helper>,
    reports: Receiver<(u32, Option<Report>)>,
    /// Kept, so that a fleet of nobody can be waited for.
    _sender: Sender<(u32, Option<Report>)>,
    watchers: u32,
    lanes_opening: u32,
    /// Lanes that are not done yet, by worker.
    lanes_left: Vec<u32>,
    /// (established, delivered) by worker and lane.
    progress: BTreeMap<(u32, u32), (u64, u64)>,
    pub(crate) recent: Latency,
    pub(crate) tally: Tally,
    /// What came of cuts, until it is taken.
    pub(crate) storms: Vec<StormFound>,
    first_connect_ns: u64,
    last_established_ns: u64,
}

impl Fleet {
    /// Starts one worker for each plan: in this process when there is one, else in a process each.
    pub(crate) fn start(plans: &[Plan]) -> Result<Self, String> {
        let (sender, reports) = channel();
        let mut fleet = Self {
            members: Vec::new(),
            reports,
            _sender: sender.clone(),
            watchers: plans.iter().map(|plan| plan.watchers).sum(),
            lanes_opening: plans.iter().map(|plan| plan.threads).sum(),
            lanes_left: plans.iter().map(|plan| plan.threads).collect(),
            progress: BTreeMap::new(),
            recent: Latency::default(),
            tally: Tally::default(),
            storms: Vec::new(),
            first_connect_ns: u64::MAX,
            last_established_ns: 0,
        };
        for (number, plan) in (0..).zip(plans) {
            let sender = sender.clone();
            let hear = move |report: Option<Result<Report, String>>| {
                let wrong = |fault| Report::Failed(format!("worker {number}: {fault}"));
                // The fleet may be gone.
                let _gone = sender.send((number, report.map(|report| report.unwrap_or_else(wrong))));
            };
            let started = if plans.len() == 1 {
                Helper::thread(lane::work, hear)
            } else {
                Helper::process(&["worker"], hear)
            };
            fleet.members.push(started.map_err(|fault| format!("a worker cannot be started: {fault}"))?);
            fleet.tell(number as usize, &Command::Open(Box::new(plan.clone())))?;
        }
        Ok(fleet)
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.members.iter().filter_map(Helper::pid).collect()
    }

    pub(crate) fn tell_all(&mut self, command: &Command) -> Result<(), String> {
        (0..self.members.len()).try_for_each(|member| self.tell(member, command))
    }

    fn tell(&mut self, member: usize, command: &Command) -> Result<(), String> {
        let told = self.members[member].send(command);
        told.map_err(|fault| format!("worker {member} is gone: {fault}"))
    }

    /// Listens until `wait` has passed or a worker said something. The error is the reason why the run cannot go on.
    pub(crate) fn listen(&mut self, wait: Duration) -> Result<(), String> {
        let Ok((worker, report)) = self.reports.recv_timeout(wait) else { return Ok(()) };
        match report {
            Some(Report::Progress { lane, established, delivered, latency }) => {
                self.progress.insert((worker, lane), (established, delivered));
                latency.iter().for_each(|latency| self.recent.add(latency));
            }
            Some(Report::Ready { first_ns, last_ns }) => {
                self.lanes_opening = self.lanes_opening.saturating_sub(1);
                self.first_connect_ns = self.first_connect_ns.min(first_ns);
                self.last_established_ns = self.last_established_ns.max(last_ns);
            }
            Some(Report::Done(tally)) => {
                self.lanes_left[worker as usize] = self.lanes_left[worker as usize].saturating_sub(1);
                self.tally.add(&tally);
            }
            Some(Report::Storm(found)) => self.storms.push(found),
            Some(Report::Failed(message)) => return Err(message),
            None if self.lanes_left[worker as usize] > 0 => {
                return Err(format!("worker {worker} ended before its watchers were done"));
            }
            None => {}
        }
        Ok(())
    }

    /// Waits until every watch is established; `step` listens once. Fails when no more come.
    pub(crate) fn await_open(
        &mut self,
        mut step: impl FnMut(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        let (mut open, mut moved_ns) = (0, now_ns());
        while !self.is_ready() {
            step(self)?;
            let now_open = self.totals().0;
            if now_open > open {
                (open, moved_ns) = (now_open, now_ns());
            }
            if now_ns() > moved_ns + OPENING_STALL_NS {
                let watchers = self.watchers;
                return Err(format!("only {open} of {watchers} watches were answered, and none for 30 s"));
            }
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self, finish: Finish) -> Result<Tally, String> {
        self.tell_all(&Command::Finish(finish))?;
        while !self.is_done() {
            self.listen_a_second()?;
        }
        Ok(std::mem::take(&mut self.tally))
    }

    pub(crate) fn listen_a_second(&mut self) -> Result<(), String> {
        self.listen(Duration::from_secs(1))
    }

    pub(crate) fn wait_until(&mut self, until_ns: u64) -> Result<(), String> {
        while now_ns() < until_ns {
            self.listen(Duration::from_nanos(until_ns.saturating_sub(now_ns())))?;
        }
        Ok(())
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.lanes_opening == 0
    }

    pub(crate) fn lanes(&self) -> usize {
        self.lanes_left.iter().map(|&left| left as usize).sum()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.lanes() == 0
    }

    /// Watchers open and deliveries so far, as last reported.
    pub(crate) fn totals(&self) -> (u64, u64) {
        self.progress.values().fold((0, 0), |(open, delivered), lane| (open + lane.0, delivered + lane.1))
    }

    /// From the first connect to the last response head.
    pub(crate) fn opening_seconds(&self) -> f64 {
        self.last_established_ns.saturating_sub(self.first_connect_ns).max(1) as f64 / 1e9
    }
}
