//! The floor-sender: a process that does the least that fan-out needs. It accepts connections, answers each request
//! with the same head, and hands prepared events to all of them. No store, no HTTP parser, no list, one thread.
//!
//! A socket that does not take a whole batch keeps its place by number of the batch and offset, and gets nothing newer
//! until it took that: so nothing is lost or repeated, and the watchers' accounts hold as with a real server.

use super::accept::Acceptor;
use super::log::Log;
use super::message::{Answer, Begin, Made, Order, Prepare};
use super::outlet::{Outlet, Took};
use crate::child::{messages, send};
use crate::clock::{now_ns, timeout};
use crate::process::pin_to;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::io::{Read, Write};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

const EVENTS_MAX: usize = 1024;
/// How soon a sender that may not go on looks again.
const LOOK_NS: u64 = 1_000_000;
/// The longest sleep: an order waits no longer.
const WAIT_NS_MAX: u64 = 20_000_000;
/// So long behind the end a sender that is too slow gives up on events that are still due.
const OVERTIME_NS: u64 = 10_000_000_000;

/// What the coordinator says while the sender is at work. Neither guards any other memory: no order is needed.
#[derive(Debug, Default)]
struct Told {
    allowed: AtomicU64,
    closed: AtomicBool,
}

/// Runs until its orders end. What goes wrong is told to the coordinator.
pub(crate) fn run(orders: impl Read + Send + 'static, mut answers: impl Write) {
    if let Err(message) = serve(orders, &mut answers) {
        let _gone = say(&mut answers, &Answer::Failed { message });
    }
}

fn serve(orders: impl Read + Send + 'static, answers: &mut impl Write) -> Result<(), String> {
    let mut orders = messages(orders);
    let Some(Ok(Order::Prepare(prepare))) = orders.next() else {
        return Err("a floor-sender is started by revcast-perf floor, not by hand".to_owned());
    };
    pin_to(&prepare.cpus).map_err(|fault| format!("--server-cpu: not allowed: {fault}"))?;
    let told = Arc::new(Told::default());
    let (sender, begins) = channel();
    let listener = Arc::clone(&told);
    // Ends with the pipe: when the coordinator closes it, or dies.
    thread::spawn(move || {
        for order in orders {
            match order {
                Ok(Order::Begin(begin)) => {
                    listener.allowed.store(begin.allowed, Ordering::Relaxed);
                    if sender.send(begin).is_err() {
                        break;
                    }
                }
                Ok(Order::Allow { events }) => listener.allowed.store(events, Ordering::Relaxed),
                Ok(Order::Prepare(_)) | Err(_) => break,
            }
        }
        listener.closed.store(true, Ordering::Relaxed);
    });
    let mut acceptor =
        Acceptor::open().map_err(|fault| format!("the floor-sender cannot listen: {fault}"))?;
    say(answers, &Answer::Listening { port: acceptor.port() })?;
    let Some(begin) = admit(&mut acceptor, &begins, &told)? else { return Ok(()) };
    let (epoll, sockets) = acceptor.close();
    let mut notes = Vec::new();
    let outlet = Outlet::new(prepare.mode, &sockets, |text| notes.push(text));
    for text in notes {
        say(answers, &Answer::Note { text })?;
    }
    Sender::new(prepare, begin, epoll, sockets, outlet).run(&told, answers)
}

/// Lets watchers in until the word to begin comes. `None`: it will not come.
fn admit(acceptor: &mut Acceptor, begins: &Receiver<Begin>, told: &Told) -> Result<Option<Begin>, String> {
    loop {
        acceptor.step(WAIT_NS_MAX).map_err(|fault| format!("the floor-sender cannot accept: {fault}"))?;
        if let Ok(begin) = begins.try_recv() {
            return Ok(Some(begin));
        }
        if told.closed.load(Ordering::Relaxed) {
            return Ok(None);
        }
    }
}

fn say(answers: &mut impl Write, answer: &Answer) -> Result<(), String> {
    send(answers, answer).map_err(|fault| fault.to_string())
}

/// How far a socket that is late got: batch, and bytes of it.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    batch: u64,
    offset: usize,
}

#[derive(Debug)]
struct Sender {
    begin: Begin,
    log: Log,
    epoll: OwnedFd,
    sockets: Vec<Option<OwnedFd>>,
    outlet: Outlet,
    /// Places of the sockets that took everything so far.
    live: Vec<u32>,
    /// By place: `None` is live, or gone.
    late: Vec<Option<Progress>>,
    late_count: usize,
    event: u64,
    made: Made,
    took: Vec<Took>,
    /// When the late ones may next be looked through for what they still need.
    next_look_ns: u64,
}

impl Sender {
    fn new(
        prepare: Prepare,
        begin: Begin,
        epoll: OwnedFd,
        sockets: Vec<Option<OwnedFd>>,
        outlet: Outlet,
    ) -> Self {
        let live = (0..).zip(&sockets).filter(|(_, socket)| socket.is_some()).map(|(place, _)| place);
        Self {
            begin,
            log: Log::new(prepare),
            epoll,
            live: live.collect(),
            late: vec![None; sockets.len()],
            late_count: 0,
            sockets,
            outlet,
            event: 0,
            made: Made::default(),
            took: Vec::new(),
            next_look_ns: 0,
        }
    }

    fn run(mut self, orders: &Told, answers: &mut impl Write) -> Result<(), String> {
        // The default slack of 50 µs would be measured as latency. Refused: so be it.
        let _slack = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut told = false;
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while !orders.closed.load(Ordering::Relaxed) {
            let now = now_ns();
            let due_ns = if told { u64::MAX } else { self.next_due_ns(now) };
            let mut wait_ns = due_ns.saturating_sub(now).min(WAIT_NS_MAX);
            if due_ns == u64::MAX && !told {
                told = true;
                self.made.finals = self.log.finals();
                say(answers, &Answer::Made(self.made.clone()))?;
            } else if due_ns <= now && self.log.has_room() && self.may_make(orders) {
                self.make(now);
                self.sweep();
                wait_ns = 0;
            } else if due_ns <= now {
                // The watchers hold it up: those that are late have all that is kept, or all are behind what was sent.
                wait_ns = LOOK_NS;
            }
            if wait_ns > 0 || self.late_count > 0 {
                events.clear();
                match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout(wait_ns))) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(fault) => return Err(format!("epoll_wait: {fault}")),
                }
                self.serve_late(&events);
            }
            self.forget(now);
        }
        Ok(())
    }

    /// When the next batch is due; `u64::MAX`: there is none.
    fn next_due_ns(&self, now: u64) -> u64 {
        let Begin { start_ns, end_ns, interval_ns, events_per_write, .. } = self.begin;
        if interval_ns == 0 {
            return if now < end_ns { start_ns } else { u64::MAX };
        }
        let next_ns = start_ns + self.event * interval_ns;
        if next_ns >= end_ns || now >= end_ns.saturating_add(OVERTIME_NS) {
            return u64::MAX;
        }
        // A batch leaves when its last event is due; the last batch may have fewer.
        let last_ns = next_ns + u64::from(events_per_write - 1) * interval_ns;
        last_ns.min(end_ns - 1)
    }

    /// Whether the watchers are near enough for one more batch.
    fn may_make(&self, orders: &Told) -> bool {
        let next = self.event.saturating_add(u64::from(self.begin.events_per_write));
        next <= orders.allowed.load(Ordering::Relaxed)
    }

    fn make(&mut self, now: u64) {
        let Begin { start_ns, measure_from_ns, end_ns, interval_ns, events_per_write, .. } = self.begin;
        let first = self.event;
        let moment = |event: u64| if interval_ns == 0 { now } else { start_ns + event * interval_ns };
        let moments = (first..first + u64::from(events_per_write))
            .map(moment)
            .take_while(|&moment_ns| moment_ns < end_ns);
        self.made.measured +=
            moments.clone().filter(|&moment_ns| moment_ns >= measure_from_ns).count() as u64;
        self.event += moments.clone().count() as u64;
        self.log.make(moments);
        self.made.last_ns = now;
    }

    /// Sends the newest batch to all that are live. Who does not take all of it is late from here on.
    fn sweep(&mut self) {
        let number = self.log.next() - 1;
        self.took.clear();
        self.outlet.sweep(&self.sockets, &self.live, self.log.batch(number), &mut self.took);
        // From the end, so that places in front stay what they are.
        self.took.sort_unstable_by_key(|took| std::cmp::Reverse(took.at));
        for Took { at, outcome } in std::mem::take(&mut self.took) {
            let place = self.live.swap_remove(at);
            match outcome {
                Ok(offset) => self.fall_behind(place, Progress { batch: number, offset }),
                Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => {
                    self.fall_behind(place, Progress { batch: number, offset: 0 });
                }
                Err(_) => self.sockets[place as usize] = None,
            }
        }
    }

    fn fall_behind(&mut self, place: u32, progress: Progress) {
        self.made.short_writes += 1;
        self.late[place as usize] = Some(progress);
        self.late_count += 1;
    }

    /// Sends what is missing to those late ones that have room again, one batch a write, until they are full or live.
    fn serve_late(&mut self, events: &[epoll::Event]) {
        let concerns = EventFlags::OUT | EventFlags::ERR | EventFlags::HUP;
        let places = events.iter().filter_map(|event| {
            let (flags, data) = (event.flags, event.data);
            u32::try_from(data.u64()).ok().filter(|_| flags.intersects(concerns))
        });
        let mut ready: Vec<u32> = places.filter(|&place| self.late[place as usize].is_some()).collect();
        while !ready.is_empty() {
            self.took.clear();
            let (log, late) = (&self.log, &self.late);
            let rest = |place: u32| {
                let Progress { batch, offset } = late[place as usize].unwrap_or_default();
                &log.batch(batch).bytes[offset..]
            };
            self.outlet.serve(&self.sockets, &ready, rest, &mut self.took);
            let mut again = Vec::new();
            for Took { at, outcome } in std::mem::take(&mut self.took) {
                if self.took_rest(ready[at], outcome) {
                    again.push(ready[at]);
                }
            }
            ready = again;
        }
    }

    /// A late socket took something. True: it may take more.
    fn took_rest(&mut self, place: u32, outcome: Result<usize, Errno>) -> bool {
        let Some(mut progress) = self.late[place as usize] else { return false };
        let taken = match outcome {
            Ok(taken) => taken,
            Err(Errno::INTR) => return true,
            Err(Errno::AGAIN | Errno::NOBUFS) => return false,
            Err(_) => {
                self.sockets[place as usize] = None;
                self.late[place as usize] = None;
                self.late_count -= 1;
                return false;
            }
        };
        progress.offset += taken;
        let whole = progress.offset >= self.log.batch(progress.batch).bytes.len();
        if whole {
            progress = Progress { batch: progress.batch + 1, offset: 0 };
        }
        let live = progress.batch == self.log.next();
        self.late[place as usize] = if live { None } else { Some(progress) };
        if live {
            self.late_count -= 1;
            self.live.push(place);
        }
        whole && !live
    }

    /// Forgets what nobody needs. While some are late that costs a pass over all: once a millisecond, and only when room
    /// is wanted.
    fn forget(&mut self, now: u64) {
        let next = self.log.next();
        if self.late_count == 0 {
            self.log.forget_below(next);
        } else if !self.log.has_room() && now >= self.next_look_ns {
            self.next_look_ns = now + LOOK_NS;
            let oldest = self.late.iter().flatten().map(|progress| progress.batch).min();
            self.log.forget_below(oldest.unwrap_or(next));
        }
    }
}
