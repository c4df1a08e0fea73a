//! One thread and its share of the watchers: an epoll, one read buffer, one state, and connections that carry one watch each, or
//! several over HTTP/2. It opens its watches at a bounded rate, reads what comes, and at the end waits for what is still in flight and closes the accounts.
//!
//! A worker has some of them: it takes commands from one pipe and sends their reports into another. It is a thread of the
//! coordinator, or a process (`revcast-perf worker`), because one process may have only so many descriptors.

mod link;
mod storm;

use crate::brought::{Brought, End};
use crate::child::{messages, send};
use crate::clock::{SECOND_NS, nanos, now_ns, timeout};
use crate::http::{JSON, Request};
use crate::ledger::{Due, Scope};
use crate::message::{Command, Cut, Finish, Plan, Report};
use crate::watcher::{LaneState, Phase, Watcher};
use crate::wire::Speech;
use fastrand::Rng;
use link::Link;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt;
use std::io::{ErrorKind, Read, Write};
use std::net::Ipv4Addr;
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
    speech: Speech,
    watchers: Vec<Watcher>,
    /// `streams` watchers share the first, so many the next, and so on. `None`: it is not open.
    connections: Vec<Option<Link>>,
    streams: usize,
    /// The heads (`None`) and the ends that a read brought, by watcher, until they are seen to.
    notices: Vec<(usize, Option<End>)>,
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
    ) -> Result<Self, String> {
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
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|fault| format!("epoll: {fault}"))?,
            speech: Speech::new(&plan.caller, plan.streams.map(|_| plan.mixture.window_bytes()))?,
            watchers: Vec::with_capacity(wanted),
            connections: Vec::new(),
            streams: plan.streams.unwrap_or(1) as usize,
            notices: Vec::new(),
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
            self.open(index)?;
        }
        Ok(())
    }

    /// The number of watcher `index` among all of the run.
    fn watcher_at(&self, index: usize) -> u32 {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        self.plan.first_watcher + index.saturating_mul(self.plan.threads) + self.number
    }

    /// Asks for watch `index`, over its connection, which is begun if there is none.
    fn open(&mut self, index: usize) -> Result<(), String> {
        let (place, slot) = self.place_of(index);
        if self.connections.len() <= place {
            self.connections.resize_with(place + 1, || None);
        }
        if self.connections[place].is_none() {
            self.connections[place] = Some(self.connect(place)?);
        }
        let watcher = &mut self.watchers[index];
        watcher.phase = Phase::Asked;
        let scope = &self.plan.scopes[watcher.scope as usize];
        // After the last that it saw: at first that is what the LIST showed.
        let after = watcher.account.revision();
        let path = scope.watch_path(after, self.plan.timeout_seconds, self.plan.bookmarks);
        let accept = scope.media.accept().unwrap_or(JSON);
        let request = Request { caller: &self.speech.caller, path: &path, accept, gzip: false };
        let Some(link) = &mut self.connections[place] else { return Ok(()) };
        if let Some(why) = link.wire.leaving() {
            return Err(format!("no new watch, since {why}"));
        }
        link.wire.ask(slot, &request, !watcher.deaf);
        link.send().map_err(|fault| format!("sending the request of a watch: {fault}"))
    }

    /// The place of the connection of watcher `index`, and the watcher's number on it.
    fn place_of(&self, index: usize) -> (usize, u32) {
        (index / self.streams, u32::try_from(index % self.streams).unwrap_or(u32::MAX))
    }

    fn connect(&self, place: usize) -> Result<Link, String> {
        let source = source_of(self.watcher_at(place), self.plan.sources);
        // Over HTTP/2 it is the stream's window.
        let of_deaf = |_: &usize| self.streams == 1 && self.watchers[place].deaf;
        let receive_buffer = self.plan.mixture.receive_buffer_bytes.filter(of_deaf);
        let at = (&self.epoll, place);
        Link::connect(at, self.plan.address, source, receive_buffer, &self.speech)
            .map_err(|fault| self.connect_fault(&fault))
    }

    fn connect_fault(&self, fault: &io::Error) -> String {
        let mend = match Errno::from_io_error(fault) {
            Some(Errno::MFILE | Errno::NFILE) => "no descriptors are left: use --processes or raise nofile",
            Some(Errno::ADDRNOTAVAIL) => "no local port is left: use --sources",
            _ => "is the server up, and does it accept this many connections?",
        };
        let (address, open) = (self.plan.address, self.watchers.len() - 1);
        format!("connect to {address} for a watch, {open} being open: {fault}; {mend}")
    }

    /// The socket of the connection at `place` is ready. What is there must be read to its end. A short read is the end, unless
    /// the peer hung up after it.
    fn on_ready(&mut self, place: usize, flags: EventFlags, buffer: &mut [u8]) -> Result<(), String> {
        let hung_up = flags.intersects(HUNG_UP);
        let Some(link) = self.connections.get_mut(place).and_then(Option::as_mut) else { return Ok(()) };
        if !link.is_connected {
            if let Err(fault) = sockopt::socket_error(&link.socket).and_then(|outcome| outcome) {
                return self.lost(place, &self.connect_fault(&fault.into())).map(|_| ());
            }
            link.is_connected = true;
        }
        let mut more = if let Err(fault) = link.send() {
            self.lost(place, &format!("sending the request of a watch: {fault}"))?
        } else if link.is_deaf && hung_up {
            self.lost(place, "")?
        } else {
            !link.is_deaf && (hung_up || flags.contains(EventFlags::IN))
        };
        while more {
            more = self.receive(place, hung_up, buffer)?;
        }
        Ok(())
    }

    fn churn(&mut self, now: u64) -> Result<(), String> {
        while now >= self.state.measure_from_ns && self.churn.as_mut().is_some_and(|beat| beat.is_due(now)) {
            let index = self.random.usize(..self.watchers.len());
            let watcher = &self.watchers[index];
            if watcher.phase == Phase::Answered && !watcher.deaf {
                self.leave(index);
                self.watchers[index].returning = true;
                self.open(index)?;
            }
        }
        Ok(())
    }

    /// Reads once. True: there may be more.
    fn receive(&mut self, place: usize, hung_up: bool, buffer: &mut [u8]) -> Result<bool, String> {
        let Some(link) = &mut self.connections[place] else { return Ok(false) };
        let count = match (&link.socket).read(buffer) {
            Ok(0) => return self.lost(place, "the server closed a watch without ending it"),
            Ok(count) => count,
            Err(fault) if fault.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(fault) if fault.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(fault) => return self.lost(place, &format!("reading a watch: {fault}")),
        };
        self.state.now_ns = now_ns();
        if self.state.is_measuring() {
            self.state.tally.window.bytes += count as u64;
            self.state.tally.window.reads += 1;
        }
        let first = place * self.streams;
        let (watchers, state, notices) = (&mut self.watchers, &mut self.state, &mut self.notices);
        let (scopes, storm) = (&self.plan.scopes, &mut self.storm);
        let outcome = link.wire.take(&buffer[..count], |slot, brought| {
            let index = first + slot as usize;
            let watcher = &mut watchers[index];
            state.newest_intended_ns = 0;
            let is_head = matches!(brought, Brought::Head { .. });
            match brought {
                Brought::Head { .. } => {
                    watcher.phase = Phase::Answered;
                    notices.push((index, None));
                }
                Brought::Data(data) => {
                    if let Err(refusal) = watcher.take(data, &scopes[watcher.scope as usize], state) {
                        notices.push((index, Some(End::Broken(refusal.to_string()))));
                    }
                }
                Brought::End(end) => notices.push((index, Some(end))),
            }
            if let Some(storm) = storm {
                storm.notice(index, is_head, state);
            }
        });
        for (index, notice) in std::mem::take(&mut self.notices) {
            self.see_to(index, notice)?;
        }
        if let Err(fault) = outcome {
            self.state.tally.seen.malformed += u64::from(fault.kind() == ErrorKind::InvalidData);
            return self.lost(place, &fault.to_string());
        }
        let Some(link) = &mut self.connections[place] else { return Ok(false) };
        if let Err(fault) = link.send() {
            return self.lost(place, &format!("answering the server: {fault}"));
        }
        let of_http1 = self.watchers.get(place).filter(|_| self.plan.streams.is_none());
        if of_http1.is_some_and(|watcher| watcher.deaf && watcher.phase == Phase::Answered) {
            link.is_deaf = true;
            let (at, flags) = (EventData::new_u64(place as u64), EventFlags::RDHUP | EventFlags::ET);
            let gone = epoll::modify(&self.epoll, &link.socket, at, flags);
            return gone.map(|()| false).map_err(|fault| format!("epoll_ctl: {fault}"));
        }
        Ok(hung_up || count == buffer.len())
    }

    fn see_to(&mut self, index: usize, notice: Option<End>) -> Result<(), String> {
        match notice {
            None if std::mem::take(&mut self.watchers[index].returning) => {
                self.state.tally.seen.returned += 1;
            }
            None => {
                self.established += 1;
                self.report_ready();
            }
            Some(End::Whole) => return self.ended(index, "the server ended a watch before its time"),
            Some(End::Refused(status, words)) => {
                if !self.refused_again(index, status, &words) {
                    return Err(format!("the server answered a watch with {status}: {words}"));
                }
            }
            Some(End::Cut(why)) => return self.ended(index, &why),
            Some(End::Broken(why)) => {
                self.state.tally.seen.malformed += 1;
                return self.ended(index, &why);
            }
        }
        Ok(())
    }

    /// The connection at `place` is over, and with it its watches. False, always: nothing is left to read.
    fn lost(&mut self, place: usize, why: &str) -> Result<bool, String> {
        let link = self.connections[place].take();
        let since = link.and_then(|link| Some(format!("{why}, after {}", link.wire.leaving()?)));
        let first = place * self.streams;
        for index in first..self.watchers.len().min(first + self.streams) {
            if self.watchers[index].phase != Phase::Away {
                self.ended(index, since.as_deref().unwrap_or(why))?;
            }
        }
        Ok(false)
    }

    /// Watch `index` is left: by its stream, or with its connection.
    fn leave(&mut self, index: usize) {
        self.watchers[index].hang_up(&mut self.state);
        let (place, slot) = self.place_of(index);
        let Some(link) = &mut self.connections[place] else { return };
        // A fault of the connection is found at the next read.
        if !link.wire.cancel(slot) || link.send().is_err() {
            self.connections[place] = None;
        }
    }

    /// A watch is over before the run is. Once established that is counted; before, the run cannot begin.
    fn ended(&mut self, index: usize, why: &str) -> Result<(), String> {
        let watcher = &self.watchers[index];
        let is_silent = watcher.deaf && watcher.phase == Phase::Answered;
        let streamed = watcher.phase == Phase::Answered || watcher.returning;
        if !streamed && self.try_again(index, why) {
            return Ok(());
        }
        self.leave(index);
        self.given_up(index);
        if !streamed {
            return Err(format!("{why} (watch {index} of lane {}, before its response)", self.number));
        }
        let seen = &mut self.state.tally.seen;
        if is_silent {
            seen.deaf_ended += 1;
        } else {
            seen.count(|seen| &mut seen.disconnected, || why.to_owned());
        }
        Ok(())
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

pub(crate) fn work(commands: impl Read + Send + 'static, mut reports: impl Write) {
    let mut commands = messages(commands);
    let Some(Ok(Command::Open(plan))) = commands.next() else {
        let message = "a worker is started by revcast-perf fanout, not by hand".to_owned();
        let _gone = send(&mut reports, &Report::Failed(message));
        return;
    };
    let plan: Arc<Plan> = plan.into();
    let (sender, receiver) = channel();
    let start = |number| {
        let (teller, told) = channel();
        let (plan, reports) = (Arc::clone(&plan), sender.clone());
        let lane = thread::spawn(move || {
            let lane = Lane::new(number, plan, told, reports.clone());
            if let Err(message) = lane.and_then(Lane::run) {
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
