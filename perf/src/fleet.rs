//! All workers, from the coordinator's side: started, told, listened to, and ended.

use crate::latency::Latency;
use crate::message::{Command, Plan, Report, StormFound};
use crate::tally::Tally;
use crate::worker;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write, pipe};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// One worker's end of the conversation.
#[derive(Debug)]
struct Member {
    commands: Box<dyn CommandPipe>,
    child: Option<Child>,
}

trait CommandPipe: Write + Send + std::fmt::Debug {}
impl<T: Write + Send + std::fmt::Debug> CommandPipe for T {}

/// The workers of a run, and what they have said so far.
#[derive(Debug)]
pub(crate) struct Fleet {
    members: Vec<Member>,
    reports: Receiver<(u32, Option<Report>)>,
    /// Lanes that are not established yet.
    lanes_opening: u32,
    /// Lanes that are not done yet, by worker.
    lanes_left: Vec<u32>,
    /// (established, delivered) by worker and lane.
    progress: BTreeMap<(u32, u32), (u64, u64)>,
    /// Latencies since they were last taken.
    pub(crate) recent: Latency,
    /// Of the lanes that are done.
    pub(crate) tally: Tally,
    pub(crate) latency: Latency,
    /// Latencies by window, of the lanes that are done.
    pub(crate) windows: Vec<Latency>,
    /// What came of cuts, until it is taken.
    pub(crate) storms: Vec<StormFound>,
    pub(crate) first_connect_ns: u64,
    pub(crate) last_established_ns: u64,
}

impl Fleet {
    /// Starts one worker for each plan: in this process when there is one, else in a process each.
    pub(crate) fn start(plans: &[Plan]) -> Result<Self, String> {
        let (sender, reports) = channel();
        let mut fleet = Self {
            members: Vec::new(),
            reports,
            lanes_opening: plans.iter().map(|plan| plan.threads).sum(),
            lanes_left: plans.iter().map(|plan| plan.threads).collect(),
            progress: BTreeMap::new(),
            recent: Latency::new(),
            tally: Tally::default(),
            latency: Latency::new(),
            windows: Vec::new(),
            storms: Vec::new(),
            first_connect_ns: u64::MAX,
            last_established_ns: 0,
        };
        for (number, plan) in (0..).zip(plans) {
            let started =
                if plans.len() == 1 { start_thread(number, &sender) } else { start_process(number, &sender) };
            fleet.members.push(started.map_err(|fault| format!("a worker cannot be started: {fault}"))?);
            fleet.tell(fleet.members.len() - 1, &Command::Open(plan.clone()))?;
        }
        Ok(fleet)
    }

    /// The process ids of workers that are processes.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.members.iter().filter_map(|member| Some(member.child.as_ref()?.id())).collect()
    }

    /// Says the same to every worker.
    pub(crate) fn tell_all(&mut self, command: &Command) -> Result<(), String> {
        (0..self.members.len()).try_for_each(|member| self.tell(member, command))
    }

    fn tell(&mut self, member: usize, command: &Command) -> Result<(), String> {
        let mut line = serde_json::to_vec(command).map_err(|fault| fault.to_string())?;
        line.push(b'\n');
        let pipe = &mut self.members[member].commands;
        pipe.write_all(&line)
            .and_then(|()| pipe.flush())
            .map_err(|fault| format!("worker {member} is gone: {fault}"))
    }

    /// Listens until `wait` has passed or a worker said something. The error is the reason why the run cannot go on.
    pub(crate) fn listen(&mut self, wait: Duration) -> Result<(), String> {
        let (worker, report) = match self.reports.recv_timeout(wait) {
            Ok(said) => said,
            Err(RecvTimeoutError::Timeout) => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => return Err("all workers are gone".to_owned()),
        };
        match report {
            Some(Report::Progress { lane, established, delivered, latency }) => {
                self.progress.insert((worker, lane), (established, delivered));
                self.recent.add(&latency);
            }
            Some(Report::Ready { first_ns, last_ns, .. }) => {
                self.lanes_opening = self.lanes_opening.saturating_sub(1);
                self.first_connect_ns = self.first_connect_ns.min(first_ns);
                self.last_established_ns = self.last_established_ns.max(last_ns);
            }
            Some(Report::Done { tally, .. }) => {
                self.lanes_left[worker as usize] = self.lanes_left[worker as usize].saturating_sub(1);
                self.latency.add(&tally.latency);
                self.windows.resize_with(self.windows.len().max(tally.windows.len()), Latency::new);
                self.windows.iter_mut().zip(&tally.windows).for_each(|(all, one)| all.add(one));
                self.tally.add(&tally);
            }
            Some(Report::Storm(found)) => self.storms.push(found),
            Some(Report::Failed { message }) => return Err(message),
            None if self.lanes_left[worker as usize] > 0 => {
                return Err(format!("worker {worker} ended before its watchers were done"));
            }
            None => {}
        }
        Ok(())
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.lanes_opening == 0
    }

    /// Lanes of all workers that are not done.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes_left.iter().map(|&left| left as usize).sum()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.lanes_left.iter().all(|&left| left == 0)
    }

    /// Watchers open and deliveries so far, as last reported.
    pub(crate) fn totals(&self) -> (u64, u64) {
        self.progress.values().fold((0, 0), |(open, delivered), lane| (open + lane.0, delivered + lane.1))
    }
}

impl Drop for Fleet {
    /// A worker ends when its commands do.
    fn drop(&mut self) {
        for Member { commands, child } in self.members.drain(..) {
            drop(commands);
            if let Some(mut child) = child {
                let _status = child.wait();
            }
        }
    }
}

fn start_thread(number: u32, sender: &Sender<(u32, Option<Report>)>) -> io::Result<Member> {
    let (commands_in, commands_out) = pipe()?;
    let (reports_in, reports_out) = pipe()?;
    thread::spawn(move || worker::run(commands_in, reports_out));
    forward(number, reports_in, sender.clone());
    Ok(Member { commands: Box::new(commands_out), child: None })
}

fn start_process(number: u32, sender: &Sender<(u32, Option<Report>)>) -> io::Result<Member> {
    let mut child = std::process::Command::new(std::env::current_exe()?)
        .arg("worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let missing = || io::Error::other("the child has no pipe");
    let commands = child.stdin.take().ok_or_else(missing)?;
    forward(number, child.stdout.take().ok_or_else(missing)?, sender.clone());
    Ok(Member { commands: Box::new(commands), child: Some(child) })
}

/// Reads a worker's reports on a thread of its own; `None` is the end of the pipe.
fn forward(number: u32, reports: impl Read + Send + 'static, sender: Sender<(u32, Option<Report>)>) {
    thread::spawn(move || {
        for line in BufReader::new(reports).lines().map_while(Result::ok) {
            let report = serde_json::from_str(&line)
                .unwrap_or_else(|fault| Report::Failed { message: format!("worker {number}: {fault}") });
            if sender.send((number, Some(report))).is_err() {
                return;
            }
        }
        let _gone = sender.send((number, None));
    });
}
