//! One thread and its share of the watchers: an epoll, one read buffer, one state. It opens its watches at a bounded
//! rate, reads what comes, and at the end waits for what is still in flight and closes the accounts.
//!
//! A worker has some of them: it takes commands from one pipe and sends their reports into another. It is a thread of the
//! coordinator, or a process (`revcast-perf worker`), because one process may have only so many descriptors.

mod storm;

use crate::child::{messages, send};
use crate::clock::{SECOND_NS, nanos, now_ns, timeout};
use crate::http::{Refusal, Responses};
use crate::ledger::{Due, Scope};
use crate::message::{Command, Cut, Finish, Plan, Report};
use crate::watcher::{LaneState, Phase, Watcher};
use fastrand::Rng;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, read};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;
use std::{io, thread};

const READ_BYTES: usize = 256 * 1024;
/// Watches that were asked for and not answered yet, at most, in one lane.
const PENDING_MAX: usize = 512;
const EVENTS_MAX: usize = 1024;
/// After the last expected event: how long to look for duplicates of it.
const LINGER_NS: u64 = 250_000_000;
const IDLE_NS: u64 = 20_000_000;
const BUSY_NS: u64 = 1_000_000;
const HUNG_UP: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

struct Beat {
    next_ns: u64,
    interval_ns: u64,
}

impl Beat {
    /// The next moment has come; then the one after it is next. A lane that is late makes up for 100 ms at most.
    fn is_due(&mut self, now: u64) -> bool {
        let is_due = now >= self.next_ns;
        if is_due {
            self.next_ns = self.next_ns.max(now.saturating_sub(100_000_000)).saturating_add(self.interval_ns);
        }
        is_due
    }
}

struct Closing {
    due: Vec<Due>,
    some_failed: bool,
    deadline_ns: u64,
    complete_at_ns: Option<u64>,
}

pub(crate) struct Lane {
    number: u32,
    plan: Arc<Plan>,
    commands: Receiver<Command>,
    reports: Sender<Report>,
    epoll: OwnedFd,
    watchers: Vec<Watcher>,
    state: LaneState,
    wanted: usize,
    connects: Beat,
    first_connect_ns: u64,
    established: usize,
    next_report_ns: u64,
    next_latency_ns: u64,
    random: Rng,
    churn: Option<Beat>,
    /// A cut to come, and the storm that follows it.
    cut: Option<Cut>,
    storm: Option<storm::Storm>,
    closing: Option<Closing>,
}

impl Lane {
    /// The lane `number` of `plan.threads`: it takes every `plan.threads`-th watcher of the worker.
    pub(crate) fn new(
        number: u32,
        plan: Arc<Plan>,
        commands: Receiver<Command>,
        reports: Sender<Report>,
    ) -> io::Result<Self> {
        let wanted = (number..plan.watchers).step_by(plan.threads.max(1) as usize).len();
        let now = now_ns();
        let connect_interval_ns = plan.connect_interval_ns.saturating_mul(u64::from(plan.threads));
        // A watcher that never reads is picked and stays: so each of the others leaves at this rate.
        let leave_per_second = plan.mixture.churn_per_second * wanted as f64;
        let leaves_after =
            (leave_per_second > 0.0).then(|| nanos(Duration::from_secs_f64(1.0 / leave_per_second)).max(1));
        Ok(Self {
            number,
            commands,
            reports,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            watchers: Vec::with_capacity(wanted),
            state: LaneState::new(plan.run, now),
            wanted,
            connects: Beat { next_ns: now, interval_ns: connect_interval_ns },
            first_connect_ns: now,
            established: 0,
            next_report_ns: now + plan.report_interval_ns,
            next_latency_ns: now + SECOND_NS,
            random: Rng::with_seed(plan.run ^ u64::from(plan.first_watcher + number)),
            churn: leaves_after.map(|interval_ns| Beat { next_ns: 0, interval_ns }),
            cut: None,
            storm: None,
            closing: None,
            plan,
        })
    }

    pub(crate) fn run(mut self) -> Result<(), String> {
        let mut buffer = vec![0; READ_BYTES];
        let mut events = Vec::with_capacity(EVENTS_MAX);
        self.report_ready();
        loop {
            self.open_some()?;
            let usual_ns = if self.watchers.len() < self.wanted {
                BUSY_NS
            } else {
                IDLE_NS.min(self.plan.report_interval_ns)
            };
            let wait_ns = self.advance_storm().map_or(usual_ns, |wait_ns| wait_ns.min(usual_ns));
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout(wait_ns))) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(fault) => return Err(format!("epoll_wait: {fault}")),
            }
            if !self.take_commands() {
                return Ok(());
            }
            for event in &events {
                let (data, flags) = (event.data, event.flags);
                if let Ok(index) = usize::try_from(data.u64()) {
                    self.on_ready(index, flags, &mut buffer)?;
                }
            }
            let now = now_ns();
            if now >= self.next_report_ns {
                self.next_report_ns = now + self.plan.report_interval_ns;
                self.report_progress(now >= self.next_latency_ns);
            }
            if self.closing.is_none() {
                self.churn(now)?;
            } else if self.is_over(now) {
                self.close();
                return Ok(());
            }
        }
    }

    /// Takes the commands that came since the last time. False: nobody is there to give any.
    fn take_commands(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Measure { from_ns }) => self.state.measure_from_ns = from_ns,
                Ok(Command::Window { from_ns }) => self.state.begin_window(from_ns),
                Ok(Command::Cut(cut)) => self.cut = Some(cut),
                Ok(Command::Finish(finish)) => self.begin_closing(&finish),
                Ok(Command::Open(_)) => {}
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn open_some(&mut self) -> Result<(), String> {
        while self.watchers.len() < self.wanted && self.watchers.len() < self.established + PENDING_MAX {
            let now = now_ns();
            if !self.connects.is_due(now) {
                break;
            }
            if self.watchers.is_empty() {
                self.first_connect_ns = now;
            }
            let index = self.watchers.len();
            let scopes = u32::try_from(self.plan.scopes.len()).unwrap_or(u32::MAX).max(1);
            let (deaf, number) = self.plan.role(self.watcher_at(index));
            let scope_at = number % scopes;
            let Some(scope) = self.plan.scopes.get(scope_at as usize) else {
                return Err("the plan has no scope to watch".to_owned());
            };
            let row_at = self.state.rows.len();
            self.state.rows.resize(row_at + scope.objects.len(), 0);
            self.state.tally.seen.deaf += u64::from(deaf);
            self.watchers.push(Watcher::new(scope_at, scope.revision, row_at, deaf));
            self.connect(index)?;
        }
        Ok(())
    }

    /// The number of watcher `index` among all of the run.
    fn watcher_at(&self, index: usize) -> u32 {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        self.plan.first_watcher + index.saturating_mul(self.plan.threads) + self.number
    }

    fn connect(&mut self, index: usize) -> Result<(), String> {
        let source = source_of(self.watcher_at(index), self.plan.sources);
        let receive_buffer = self.plan.mixture.receive_buffer_bytes.filter(|_| self.watchers[index].deaf);
        let socket = begin_connect(self.plan.address, source, receive_buffer)
            .map_err(|fault| self.connect_fault(fault))?;
        epoll::add(&self.epoll, &socket, EventData::new_u64(index as u64), EventFlags::OUT)
            .map_err(|fault| format!("epoll_ctl: {fault}"))?;
        self.watchers[index].go_on(socket);
        Ok(())
    }

    fn connect_fault(&self, fault: Errno) -> String {
        let mend = match fault {
            Errno::MFILE | Errno::NFILE => "no file descriptors are left: use --processes or raise nofile",
            Errno::ADDRNOTAVAIL => "no local port is left: use --sources",
            _ => "is the server up, and does it accept this many connections?",
        };
        let (address, open) = (self.plan.address, self.watchers.len() - 1);
        format!("connect to {address} for a watch, {open} being open: {fault}; {mend}")
    }

    fn await_events(&self, index: usize, flags: EventFlags) -> Result<(), String> {
        let Some(socket) = &self.watchers[index].socket else { return Ok(()) };
        epoll::modify(&self.epoll, socket, EventData::new_u64(index as u64), flags | EventFlags::ET)
            .map_err(|fault| format!("epoll_ctl: {fault}"))
    }

    /// The socket of watcher `index` is ready. What is there must be read to its end, since watches are edge-triggered. A
    /// short read is the end, unless the peer hung up after it.
    fn on_ready(&mut self, index: usize, flags: EventFlags, buffer: &mut [u8]) -> Result<(), String> {
        let watcher = &mut self.watchers[index];
        if watcher.socket.is_none() {
            return Ok(());
        }
        let hung_up = flags.intersects(HUNG_UP);
        match watcher.phase {
            Phase::Connecting | Phase::Asking(_) => self.ask(index),
            Phase::Reading(_) => {
                while self.receive(index, hung_up, buffer)? {}
                Ok(())
            }
            Phase::Deaf => {
                if hung_up {
                    watcher.hang_up(&mut self.state);
                    self.state.tally.seen.deaf_ended += 1;
                }
                Ok(())
            }
        }
    }

    fn churn(&mut self, now: u64) -> Result<(), String> {
        while now >= self.state.measure_from_ns && self.churn.as_mut().is_some_and(|beat| beat.is_due(now)) {
            let index = self.random.usize(..self.watchers.len());
            let watcher = &mut self.watchers[index];
            if watcher.answered && !watcher.deaf {
                watcher.hang_up(&mut self.state);
                watcher.returning = true;
                self.connect(index)?;
            }
        }
        Ok(())
    }

    fn ask(&mut self, index: usize) -> Result<(), String> {
        self.send_request(index).or_else(|why| if self.try_again(index, &why) { Ok(()) } else { Err(why) })
    }

    /// Completes the connect and sends the request, or what is left of it.
    fn send_request(&mut self, index: usize) -> Result<(), String> {
        let watcher = &self.watchers[index];
        let Some(socket) = &watcher.socket else { return Ok(()) };
        let sent = if let Phase::Asking(sent) = watcher.phase {
            sent
        } else {
            let outcome = sockopt::socket_error(socket).and_then(|outcome| outcome);
            outcome.map_err(|fault| self.connect_fault(fault))?;
            0
        };
        let scope = &self.plan.scopes[watcher.scope as usize];
        // After the last that it saw: at first that is what the LIST showed.
        let after = watcher.account.revision();
        let path = scope.watch_path(after, self.plan.timeout_seconds, self.plan.bookmarks);
        let mut request = self.plan.caller.head("GET", &path, None);
        if let Some(accept) = scope.media.accept() {
            request = request.replacen("Accept: application/json", &format!("Accept: {accept}"), 1);
        }
        let sent = match rustix::io::write(socket, &request.as_bytes()[sent..]) {
            Ok(count) => sent + count,
            Err(Errno::AGAIN | Errno::INTR) => sent,
            Err(fault) => return Err(format!("sending the request of a watch: {fault}")),
        };
        if sent < request.len() {
            self.watchers[index].phase = Phase::Asking(sent);
            return Ok(());
        }
        self.watchers[index].phase = Phase::Reading(Responses::default());
        self.await_events(index, EventFlags::IN | EventFlags::RDHUP)
    }

    /// Reads once. True: there may be more.
    fn receive(&mut self, index: usize, hung_up: bool, buffer: &mut [u8]) -> Result<bool, String> {
        let watcher = &mut self.watchers[index];
        let Some(socket) = &watcher.socket else { return Ok(false) };
        let count = match read(socket, &mut *buffer) {
            Ok(count) => count,
            Err(Errno::AGAIN) => return Ok(false),
            Err(Errno::INTR) => return Ok(true),
            Err(fault) => return self.ended(index, &format!("reading a watch: {fault}")),
        };
        if count == 0 {
            return self.ended(index, "the server closed a watch without ending it");
        }
        self.state.now_ns = now_ns();
        if self.state.is_measuring() {
            self.state.tally.window.bytes += count as u64;
            self.state.tally.window.reads += 1;
        }
        let waited = !watcher.answered;
        self.state.newest_intended_ns = 0;
        let scope = &self.plan.scopes[watcher.scope as usize];
        let outcome = watcher.take(&buffer[..count], scope, &mut self.state);
        let is_deaf = matches!(watcher.phase, Phase::Deaf);
        let answered = waited && watcher.answered;
        if answered && std::mem::take(&mut watcher.returning) {
            self.state.tally.seen.returned += 1;
        } else if answered {
            self.established += 1;
            if self.established == self.wanted {
                self.report_ready();
            }
        }
        self.notice(index, answered);
        match outcome {
            Ok(false) if is_deaf => self.await_events(index, EventFlags::RDHUP).map(|()| false),
            Ok(false) => Ok(hung_up || count == buffer.len()),
            Ok(true) => self.ended(index, "the server ended a watch before its time"),
            Err(Refusal::Status(status, words)) if self.refused_again(index, status, &words) => Ok(false),
            Err(Refusal::Status(status, words)) => {
                Err(format!("the server answered a watch with {status}: {words}"))
            }
            Err(Refusal::Broken(why)) => {
                self.state.tally.seen.malformed += 1;
                self.ended(index, &why)
            }
        }
    }

    /// A watch is over before the run is. Once established that is counted; before, the run cannot begin. False, always:
    /// nothing is left to read.
    fn ended(&mut self, index: usize, why: &str) -> Result<bool, String> {
        let watcher = &self.watchers[index];
        let streamed = watcher.answered || watcher.returning;
        if !streamed && self.try_again(index, why) {
            return Ok(false);
        }
        self.watchers[index].hang_up(&mut self.state);
        self.given_up(index);
        if !streamed {
            return Err(format!("{why} (watch {index} of lane {}, before its response)", self.number));
        }
        self.state.tally.seen.count(|seen| &mut seen.disconnected, || why.to_owned());
        Ok(false)
    }

    fn begin_closing(&mut self, finish: &Finish) {
        let of_scope = |scope: &Scope| scope.due(&finish.finals, &finish.failed);
        let due: Vec<Due> = self.plan.scopes.iter().map(of_scope).collect();
        let reading = self.watchers.iter().filter(|watcher| !watcher.deaf);
        let of_watcher = |watcher: &Watcher| due[watcher.scope as usize].acknowledged();
        self.state.tally.seen.expected = reading.map(of_watcher).sum();
        self.closing = Some(Closing {
            due,
            some_failed: !finish.failed.is_empty(),
            deadline_ns: now_ns().saturating_add(finish.drain_ns),
            complete_at_ns: None,
        });
    }

    fn is_over(&mut self, now: u64) -> bool {
        let Some(mut closing) = self.closing.take() else { return false };
        let seen = &self.state.tally.seen;
        // A write that failed may have been done all the same: then the number alone says nothing.
        let is_complete =
            || seen.delivered >= seen.expected && (!closing.some_failed || self.balance(&closing.due).0 == 0);
        if closing.complete_at_ns.is_none() && is_complete() {
            closing.complete_at_ns = Some(now);
        }
        let lingered = closing.complete_at_ns.is_some_and(|at| now >= at.saturating_add(LINGER_NS));
        let is_over = lingered || now >= closing.deadline_ns;
        self.closing = Some(closing);
        is_over
    }

    /// Deliveries that are due and have not come, and some that nobody sent.
    fn balance(&self, due: &[Due]) -> (u64, u64) {
        let of = |watcher: &Watcher| {
            let at = watcher.scope as usize;
            watcher.balance(&self.plan.scopes[at], &self.state.rows, &due[at])
        };
        let each = self.watchers.iter().map(of);
        each.fold((0, 0), |(lost, invented), one| (lost + one.0, invented + one.1))
    }

    fn close(mut self) {
        let due = self.closing.take().map_or_else(Vec::new, |closing| closing.due);
        let (lost, invented) = self.balance(&due);
        self.state.tally.seen.lost = lost;
        self.state.tally.seen.unexpected += invented;
        for watcher in &mut self.watchers {
            watcher.hang_up(&mut self.state);
        }
        self.report_progress(true);
        let tally = std::mem::take(&mut self.state.tally);
        self.report(Report::Done(tally));
    }

    fn report_ready(&self) {
        if self.established == self.wanted {
            let (first_ns, last_ns) = (self.first_connect_ns, self.state.now_ns);
            self.report(Report::Ready { first_ns, last_ns });
        }
    }

    fn report_progress(&mut self, with_latency: bool) {
        let latency = with_latency.then(|| std::mem::take(&mut self.state.recent));
        if with_latency {
            self.next_latency_ns = now_ns() + SECOND_NS;
        }
        let seen = &self.state.tally.seen;
        let established = (self.established as u64).saturating_sub(seen.disconnected);
        self.report(Report::Progress { lane: self.number, established, delivered: seen.delivered, latency });
    }

    /// A coordinator that is gone needs no report: the worker notices by itself.
    fn report(&self, report: Report) {
        let _gone = self.reports.send(report);
    }
}

/// The source address of watcher number `watcher`: 127.0.0.2 and up, `sources` of them in turn.
fn source_of(watcher: u32, sources: u32) -> Option<Ipv4Addr> {
    let turn = watcher.checked_rem(sources)?;
    Some(Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + 1 + turn))
}

fn begin_connect(
    address: SocketAddr,
    source: Option<Ipv4Addr>,
    receive_buffer_bytes: Option<usize>,
) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    // Before the connect: the window that is offered first depends on it.
    if let Some(bytes) = receive_buffer_bytes {
        sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
    }
    if let Some(source) = source {
        bind(&socket, &SocketAddrV4::new(source, 0))?;
    }
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(fault) => Err(fault),
    }
}

pub(crate) fn work(commands: impl Read + Send + 'static, mut reports: impl Write) {
    let mut commands = messages(commands);
    let Some(Ok(Command::Open(plan))) = commands.next() else {
        let message = "a worker is started by revcast-perf fanout, not by hand".to_owned();
        let _gone = send(&mut reports, &Report::Failed(message));
        return;
    };
    let plan = Arc::new(plan);
    let (sender, receiver) = channel();
    let start = |number| {
        let (teller, told) = channel();
        let (plan, reports) = (Arc::clone(&plan), sender.clone());
        let lane = thread::spawn(move || {
            let lane = Lane::new(number, plan, told, reports.clone());
            let outcome = lane.map_err(|fault| format!("epoll: {fault}")).and_then(Lane::run);
            if let Err(message) = outcome {
                let _gone = reports.send(Report::Failed(message));
            }
        });
        (teller, lane)
    };
    let (tellers, lanes): (Vec<_>, Vec<_>) = (0..plan.threads).map(start).unzip();
    drop(sender);
    // Ends with the pipe: when the coordinator closes it, or dies. Then the lanes end too.
    thread::spawn(move || {
        for command in commands.map_while(Result::ok) {
            for teller in &tellers {
                let _done = teller.send(Command::clone(&command));
            }
        }
    });
    for report in receiver {
        // A coordinator that is gone has closed the other pipe too.
        let _gone = send(&mut reports, &report);
    }
    if lanes.into_iter().any(|lane| lane.join().is_err()) {
        let message = "a lane of watchers panicked: this is a bug of revcast-perf".to_owned();
        let _gone = send(&mut reports, &Report::Failed(message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_go_round() {
        assert_eq!(source_of(5, 0), None);
        assert_eq!(source_of(0, 3), Some(Ipv4Addr::new(127, 0, 0, 2)));
        assert_eq!(source_of(5, 3), Some(Ipv4Addr::new(127, 0, 0, 4)));
        assert_eq!(source_of(300, 1000), Some(Ipv4Addr::new(127, 0, 1, 46)));
    }
}
