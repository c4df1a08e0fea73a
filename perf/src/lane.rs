//! One thread and its share of the watchers: an epoll, one read buffer, one state. It opens its watches at a bounded
//! rate, reads what comes, and at the end waits for what is still on its way and closes the accounts.

mod storm;

use crate::clock::{nanos, now_ns, timeout};
use crate::http::Caller;
use crate::known::Known;
use crate::latency::Latency;
use crate::message::{Command, Cut, Finish, Plan, Report};
use crate::scope::Scope;
use crate::tally::Tally;
use crate::watcher::{LaneState, Phase, Refusal, Watcher};
use fastrand::Rng;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, read};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

const READ_BYTES: usize = 256 * 1024;
/// Watches that were asked for and not answered yet, at most, in one lane.
const PENDING_MAX: usize = 512;
const EVENTS_MAX: usize = 1024;
/// After the last expected event: how long to look for duplicates behind it.
const LINGER_NS: u64 = 250_000_000;
const SECOND_NS: u64 = 1_000_000_000;
const IDLE_NS: u64 = 20_000_000;

/// What a worker tells its lanes while they run.
#[derive(Debug)]
pub(crate) struct Signals {
    /// From when on deliveries count, ns; `u64::MAX` until known.
    pub(crate) measure_from_ns: AtomicU64,
    /// What was said since the beginning: windows and cuts.
    pub(crate) commands: RwLock<Vec<Command>>,
    pub(crate) finish: OnceLock<Finish>,
    pub(crate) abandoned: AtomicBool,
}

impl Default for Signals {
    fn default() -> Self {
        Self {
            measure_from_ns: AtomicU64::new(u64::MAX),
            commands: RwLock::default(),
            finish: OnceLock::new(),
            abandoned: AtomicBool::new(false),
        }
    }
}

/// What is left to wait for after the writes.
#[derive(Debug)]
struct Closing {
    deadline_ns: u64,
    complete_at_ns: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Lane {
    number: u32,
    plan: Arc<Plan>,
    signals: Arc<Signals>,
    reports: Sender<Report>,
    epoll: OwnedFd,
    watchers: Vec<Watcher>,
    state: LaneState,
    caller: Caller,
    wanted: usize,
    connect_interval_ns: u64,
    next_connect_ns: u64,
    first_connect_ns: u64,
    established: usize,
    next_report_ns: u64,
    next_latency_ns: u64,
    /// Who goes and comes back, and when the next one does.
    random: Rng,
    next_return_ns: u64,
    /// Of the commands that the worker got.
    commands_taken: usize,
    /// A cut to come, and the storm under way.
    cut: Option<Cut>,
    storm: Option<storm::Storm>,
}

impl Lane {
    /// The lane `number` of `plan.threads`: it takes every `plan.threads`-th watcher of the worker.
    pub(crate) fn new(
        number: u32,
        plan: Arc<Plan>,
        signals: Arc<Signals>,
        reports: Sender<Report>,
    ) -> io::Result<Self> {
        let wanted = (number..plan.watchers).step_by(plan.threads.max(1) as usize).len();
        let now = now_ns();
        Ok(Self {
            number,
            signals,
            reports,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            watchers: Vec::with_capacity(wanted),
            state: LaneState {
                run: plan.run,
                tally: Tally::default(),
                latency: Latency::new(),
                recent: Latency::new(),
                rows: Vec::new(),
                now_ns: now,
                measure_from_ns: u64::MAX,
                windows: Vec::new(),
                newest_intended_ns: 0,
                known: Known::new(),
                spare: Vec::new(),
            },
            caller: plan.caller.clone(),
            wanted,
            connect_interval_ns: plan.connect_interval_ns.saturating_mul(u64::from(plan.threads)),
            next_connect_ns: now,
            first_connect_ns: now,
            established: 0,
            next_report_ns: now + plan.report_interval_ns,
            next_latency_ns: now + SECOND_NS,
            random: Rng::with_seed(plan.run ^ u64::from(plan.first_watcher + number)),
            next_return_ns: 0,
            commands_taken: 0,
            cut: None,
            storm: None,
            plan,
        })
    }

    /// Runs to the end and sends its reports. The error is the reason why the run cannot go on.
    pub(crate) fn run(mut self) -> Result<(), String> {
        let mut buffer = vec![0; READ_BYTES];
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut closing: Option<Closing> = None;
        let signals = Arc::clone(&self.signals);
        self.report_ready();
        loop {
            self.open_some()?;
            self.take_commands();
            let usual_ns = if self.watchers.len() < self.wanted {
                1_000_000
            } else {
                IDLE_NS.min(self.plan.report_interval_ns)
            };
            let wait_ns = self.advance_storm()?.map_or(usual_ns, |wait_ns| wait_ns.min(usual_ns));
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout(wait_ns))) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(fault) => return Err(format!("epoll_wait: {fault}")),
            }
            self.state.measure_from_ns = self.signals.measure_from_ns.load(Ordering::Acquire);
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
            if self.signals.abandoned.load(Ordering::Relaxed) {
                return Ok(());
            }
            if signals.finish.get().is_none() {
                self.churn(now)?;
            }
            if let Some(finish) = signals.finish.get() {
                let closing = closing.get_or_insert_with(|| {
                    self.state.tally.seen.expected = self.expected(finish);
                    Closing { deadline_ns: now.saturating_add(finish.drain_ns), complete_at_ns: None }
                });
                if self.is_over(closing, finish, now) {
                    self.close(finish);
                    return Ok(());
                }
            }
        }
    }

    /// Takes the commands that the worker got since the last time.
    fn take_commands(&mut self) {
        let signals = Arc::clone(&self.signals);
        let commands = signals.commands.read().unwrap_or_else(PoisonError::into_inner);
        for command in &commands[self.commands_taken..] {
            match command {
                Command::Window { from_ns } => self.state.windows.push((*from_ns, Latency::new())),
                Command::Cut(cut) => self.cut = Some(*cut),
                Command::Open(_) | Command::Measure { .. } | Command::Finish(_) => {}
            }
        }
        self.commands_taken = commands.len();
    }

    fn open_some(&mut self) -> Result<(), String> {
        while self.watchers.len() < self.wanted && self.watchers.len() < self.established + PENDING_MAX {
            let now = now_ns();
            if now < self.next_connect_ns {
                break;
            }
            if self.watchers.is_empty() {
                self.first_connect_ns = now;
            }
            // A late lane catches up by at most 100 ms of connects.
            self.next_connect_ns = self
                .next_connect_ns
                .max(now.saturating_sub(100_000_000))
                .saturating_add(self.connect_interval_ns);
            self.open_one()?;
        }
        Ok(())
    }

    fn open_one(&mut self) -> Result<(), String> {
        let index = self.watchers.len();
        let within = u32::try_from(index).unwrap_or(u32::MAX).saturating_mul(self.plan.threads) + self.number;
        let watcher = self.plan.first_watcher + within;
        let scopes = u32::try_from(self.plan.scopes.len()).unwrap_or(u32::MAX).max(1);
        let (deaf, number) = self.plan.role(watcher);
        let scope_at = number % scopes;
        let Some(scope) = self.plan.scopes.get(scope_at as usize) else {
            return Err("the plan has no scope to watch".to_owned());
        };
        let row_at = self.state.rows.len();
        let receive_buffer = self.plan.mixture.receive_buffer_bytes.filter(|_| deaf);
        let source = source_of(watcher, self.plan.sources);
        let socket = begin_connect(self.plan.address, source, receive_buffer)
            .map_err(|fault| self.connect_fault(fault))?;
        epoll::add(&self.epoll, &socket, EventData::new_u64(index as u64), EventFlags::OUT)
            .map_err(|fault| format!("epoll_ctl: {fault}"))?;
        self.state.rows.resize(row_at + scope.objects.len(), 0);
        let mut opened = Watcher::new(socket, scope_at, scope.revision, row_at);
        opened.deaf = deaf;
        self.state.tally.seen.deaf += u64::from(deaf);
        self.watchers.push(opened);
        Ok(())
    }

    fn connect_fault(&self, fault: Errno) -> String {
        let mend = match fault {
            Errno::MFILE | Errno::NFILE => "no file descriptors are left: use --processes or raise nofile",
            Errno::ADDRNOTAVAIL => "no local port is left: use --sources",
            _ => "is the server up, and does it accept this many connections?",
        };
        format!(
            "connect to {} for a watch, {} being open: {fault}; {mend}",
            self.plan.address,
            self.watchers.len()
        )
    }

    /// The socket of watcher `index` is ready. Watches are edge-triggered, which saves the kernel a second look at each
    /// socket: so what is there must be read to its end. A short read is the end, unless the peer hung up behind it.
    fn on_ready(&mut self, index: usize, flags: EventFlags, buffer: &mut [u8]) -> Result<(), String> {
        let Some(watcher) = self.watchers.get_mut(index) else { return Ok(()) };
        match watcher.phase {
            Phase::Connecting | Phase::Asking(_) => self.ask(index),
            Phase::Heading | Phase::Streaming(_) | Phase::Refused(..) => {
                let hung_up = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
                while self.receive(index, hung_up, buffer)? {}
                Ok(())
            }
            Phase::Deaf if flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) => {
                (watcher.phase, watcher.socket) = (Phase::Closed, None);
                self.state.tally.seen.deaf_ended += 1;
                Ok(())
            }
            Phase::Deaf | Phase::Closed => Ok(()),
        }
    }

    /// Lets those go and come back who are due.
    fn churn(&mut self, now: u64) -> Result<(), String> {
        if self.plan.mixture.churn_per_second <= 0.0 || now < self.state.measure_from_ns {
            return Ok(());
        }
        // Who is picked and never reads stays: so each of the others is picked at this rate.
        let picks_per_second = self.plan.mixture.churn_per_second * self.watchers.len().max(1) as f64;
        let interval_ns = nanos(Duration::from_secs_f64(1.0 / picks_per_second));
        // A late lane catches up by at most 100 ms.
        self.next_return_ns = self.next_return_ns.max(now.saturating_sub(100_000_000));
        while self.next_return_ns <= now {
            self.next_return_ns = self.next_return_ns.saturating_add(interval_ns.max(1));
            let index = self.random.usize(..self.watchers.len());
            let watcher = &mut self.watchers[index];
            if !matches!(watcher.phase, Phase::Streaming(_)) {
                continue;
            }
            let within =
                u32::try_from(index).unwrap_or(u32::MAX).saturating_mul(self.plan.threads) + self.number;
            let source = source_of(self.plan.first_watcher + within, self.plan.sources);
            let socket = begin_connect(self.plan.address, source, None)
                .map_err(|fault| format!("connect of a watcher that comes back: {fault}"))?;
            epoll::add(&self.epoll, &socket, EventData::new_u64(index as u64), EventFlags::OUT)
                .map_err(|fault| format!("epoll_ctl: {fault}"))?;
            watcher.come_back(socket, &mut self.state);
        }
        Ok(())
    }

    /// Completes the connect and sends the request, or what is left of it.
    fn ask(&mut self, index: usize) -> Result<(), String> {
        let watcher = &mut self.watchers[index];
        let Some(socket) = &watcher.socket else { return Ok(()) };
        let sent = match watcher.phase {
            Phase::Asking(sent) => sent,
            Phase::Connecting => {
                let outcome = sockopt::socket_error(socket).and_then(|outcome| outcome);
                if let Err(fault) = outcome {
                    let why = self.connect_fault(fault);
                    return if self.try_again(index, &why) { Ok(()) } else { Err(why) };
                }
                0
            }
            Phase::Heading | Phase::Streaming(_) | Phase::Refused(..) | Phase::Deaf | Phase::Closed => {
                return Ok(());
            }
        };
        let watcher = &mut self.watchers[index];
        let Some(socket) = &watcher.socket else { return Ok(()) };
        let scope = &self.plan.scopes[watcher.scope as usize];
        // After the last that it saw: at first that is what the LIST showed.
        let after = watcher.account().revision();
        let path = scope.watch_path(after, self.plan.timeout_seconds, self.plan.bookmarks);
        let mut request = self.caller.head("GET", &path, None);
        if let Some(accept) = &scope.accept {
            request = request.replacen("Accept: application/json", &format!("Accept: {accept}"), 1);
        }
        let count = match rustix::io::write(socket, &request.as_bytes()[sent..]) {
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(fault) => {
                let why = format!("sending the request of a watch: {fault}");
                return if self.try_again(index, &why) { Ok(()) } else { Err(why) };
            }
        };
        if sent + count < request.len() {
            watcher.phase = Phase::Asking(sent + count);
            return Ok(());
        }
        watcher.phase = Phase::Heading;
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        epoll::modify(&self.epoll, socket, EventData::new_u64(index as u64), flags)
            .map_err(|fault| format!("epoll_ctl: {fault}"))
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
        if self.state.now_ns >= self.state.measure_from_ns {
            self.state.tally.window.bytes += count as u64;
            self.state.tally.window.reads += 1;
        }
        let waited = matches!(watcher.phase, Phase::Heading);
        self.state.newest_intended_ns = 0;
        let scope = &self.plan.scopes[watcher.scope as usize];
        let outcome = watcher.take(&buffer[..count], scope, &mut self.state);
        if let (Phase::Deaf, Some(socket)) = (&watcher.phase, &watcher.socket) {
            let flags = EventFlags::RDHUP | EventFlags::ET;
            epoll::modify(&self.epoll, socket, EventData::new_u64(index as u64), flags)
                .map_err(|fault| format!("epoll_ctl: {fault}"))?;
        }
        let answered = waited && matches!(watcher.phase, Phase::Streaming(_) | Phase::Deaf);
        if answered && watcher.returning {
            watcher.returning = false;
            self.state.tally.seen.returned += 1;
        } else if answered {
            self.established += 1;
            if self.established == self.wanted {
                self.report_ready();
            }
        }
        self.notice(index, answered);
        match outcome {
            Ok(false) if matches!(self.watchers[index].phase, Phase::Deaf) => Ok(false),
            Ok(false) => Ok(hung_up || count == buffer.len()),
            Ok(true) => self.ended(index, "the server ended a watch before its time"),
            Err(Refusal::Status(status, words)) if self.refused_again(index, status, &words) => Ok(false),
            Err(Refusal::Status(status, words)) => {
                Err(format!("the server answered a watch with {status}: {words}"))
            }
            Err(Refusal::Fault(fault)) => {
                self.state.tally.seen.malformed += 1;
                self.ended(index, &fault.to_string())
            }
            Err(Refusal::LineTooLong) => {
                self.state.tally.seen.malformed += 1;
                self.ended(index, "the server sent an event over 16 MiB")
            }
        }
    }

    /// A watch is over before the run is. Once established that is counted; before, the run cannot begin. False, always:
    /// nothing is left to read.
    fn ended(&mut self, index: usize, why: &str) -> Result<bool, String> {
        let watcher = &mut self.watchers[index];
        let streamed = matches!(watcher.phase, Phase::Streaming(_)) || watcher.returning;
        if !streamed && self.try_again(index, why) {
            return Ok(false);
        }
        self.given_up(index);
        let watcher = &mut self.watchers[index];
        watcher.phase = Phase::Closed;
        // Closing the socket also takes it out of the epoll.
        watcher.socket = None;
        if !streamed {
            return Err(format!("{why} (watch {index} of lane {}, before its response)", self.number));
        }
        self.state.tally.seen.disconnected += 1;
        self.state.tally.note(|| why.to_owned());
        Ok(false)
    }

    fn failed_of(&self, finish: &Finish) -> Vec<BTreeSet<(u32, u32)>> {
        let of = |scope: &Scope| {
            let ranked = finish.failed.iter().filter_map(|&(object, seq)| Some((scope.rank(object)?, seq)));
            ranked.collect()
        };
        self.plan.scopes.iter().map(of).collect()
    }

    fn finals_of(&self, finish: &Finish) -> Vec<Vec<u32>> {
        let of = |scope: &Scope| {
            let last = |object: &u32| finish.finals.get(*object as usize).copied().unwrap_or(0);
            scope.objects.iter().map(last).collect()
        };
        self.plan.scopes.iter().map(of).collect()
    }

    /// Deliveries that are due to this lane: acknowledged writes times the watchers that cover them.
    fn expected(&self, finish: &Finish) -> u64 {
        let failed = self.failed_of(finish);
        let written = self.finals_of(finish);
        let due = |(finals, failed): (&Vec<u32>, &BTreeSet<(u32, u32)>)| {
            let writes: u64 = finals.iter().map(|&last| u64::from(last)).sum();
            writes.saturating_sub(failed.len() as u64)
        };
        let by_scope: Vec<u64> = written.iter().zip(&failed).map(due).collect();
        let reading = self.watchers.iter().filter(|watcher| !watcher.deaf);
        reading.map(|watcher| by_scope[watcher.scope as usize]).sum()
    }

    fn is_over(&self, closing: &mut Closing, finish: &Finish, now: u64) -> bool {
        let tally = &self.state.tally;
        if tally.seen.delivered >= tally.seen.expected && closing.complete_at_ns.is_none() {
            // A write that failed may have been done all the same: then the number alone says nothing.
            if finish.failed.is_empty() || self.balance(finish).0 == 0 {
                closing.complete_at_ns = Some(now);
            }
        }
        let lingered = closing.complete_at_ns.is_some_and(|at| now >= at.saturating_add(LINGER_NS));
        lingered || now >= closing.deadline_ns
    }

    /// Deliveries that are due and have not come, and some that nobody sent.
    fn balance(&self, finish: &Finish) -> (u64, u64) {
        let (finals, failed) = (self.finals_of(finish), self.failed_of(finish));
        let of = |watcher: &Watcher| {
            let at = watcher.scope as usize;
            watcher.balance(&self.plan.scopes[at], &self.state.rows, &finals[at], &failed[at])
        };
        let each = self.watchers.iter().map(of);
        each.fold((0, 0), |(lost, invented), one| (lost + one.0, invented + one.1))
    }

    /// Closes the accounts and sends the last report.
    fn close(&mut self, finish: &Finish) {
        let (lost, invented) = self.balance(finish);
        self.state.tally.seen.lost = lost;
        self.state.tally.seen.unexpected += invented;
        for watcher in &mut self.watchers {
            (watcher.phase, watcher.socket) = (Phase::Closed, None);
        }
        self.report_progress(true);
        let mut tally = std::mem::take(&mut self.state.tally);
        tally.latency = self.state.latency.pairs();
        tally.windows = self.state.windows.iter().map(|(_, window)| window.pairs()).collect();
        self.report(Report::Done { lane: self.number, tally });
    }

    fn report_ready(&self) {
        if self.established == self.wanted {
            let (first_ns, last_ns) = (self.first_connect_ns, self.state.now_ns);
            self.report(Report::Ready { lane: self.number, first_ns, last_ns });
        }
    }

    /// Latencies are many numbers: they do not come with every report.
    fn report_progress(&mut self, with_latency: bool) {
        let mut latency = Vec::new();
        if with_latency {
            if !self.state.recent.is_empty() {
                latency = self.state.recent.pairs();
            }
            self.state.recent.clear();
            self.next_latency_ns = now_ns() + SECOND_NS;
        }
        self.report(Report::Progress {
            lane: self.number,
            established: (self.established as u64).saturating_sub(self.state.tally.seen.disconnected),
            delivered: self.state.tally.seen.delivered,
            latency,
        });
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
