//! The floor-sender: a process that does the least that fan-out needs. It accepts connections, answers each request with the same
//! head, and hands prepared events to all of them. What a socket does not take is kept for it, with all that comes after: so
//! nothing is lost or repeated, and the watchers' accounts hold as with a real server.

use super::guests::{Guest, accept};
use super::log::Log;
use super::outlet::Outlet;
use crate::child::{messages, send};
use crate::clock::{now_ns, timeout};
use crate::object::Recipe;
use crate::options::Mode;
use crate::process::pin_to;
use crate::tls;
use crate::writer::{Span, Written};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Prepare {
    pub(crate) mode: Mode,
    /// Where to run; empty: anywhere.
    pub(crate) cpus: Vec<usize>,
    /// So many watches are asked for.
    pub(crate) watchers: u32,
    pub(crate) http2: bool,
    pub(crate) tls: bool,
    pub(crate) recipe: Recipe,
    /// Between two events; 0: as fast as it goes.
    pub(crate) interval_ns: u64,
    pub(crate) events_per_write: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    Prepare(Prepare),
    /// Events that there may be in all by now: the watchers got most of those before. `u64::MAX`: they follow a clock.
    Allow(u64),
    /// All watchers are answered. The end of the pipe is the end of the sender.
    Begin(Span),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// At this port; with TLS, with this certificate.
    Listening(u16, Option<String>),
    /// The way that is used is not quite the one that was asked for.
    Note(String),
    /// No more events come; those that are late are still being sent. With the writes that a socket took in part or not at all.
    Made(Box<Written>, u64),
    Failed(String),
}

const BACKLOG: i32 = 4096;
/// While more is kept for late sockets, the next batch waits for them.
const KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;
const EVENTS_MAX: usize = 1024;
const LOOK_NS: u64 = 1_000_000;
const WAIT_NS_MAX: u64 = 20_000_000;
/// So long after the end a sender that is too slow gives up on events that are still due.
const OVERTIME_NS: u64 = 10_000_000_000;

/// Runs until its orders end. What goes wrong is told to the coordinator.
pub(crate) fn run(orders: impl Read + Send + 'static, mut answers: impl Write) {
    if let Err(why) = serve(orders, &mut answers) {
        let _gone = send(&mut answers, &Answer::Failed(why));
    }
}

fn serve(orders: impl Read + Send + 'static, answers: &mut impl Write) -> Result<(), String> {
    let mut orders = messages(orders);
    let Some(Ok(Order::Prepare(prepare))) = orders.next() else {
        return Err("a floor-sender is started by revcast-perf floor, not by hand".to_owned());
    };
    pin_to(&prepare.cpus).map_err(|fault| format!("--server-cpu: not allowed: {fault}"))?;
    let allowed = Arc::new(AtomicU64::new(0));
    let (sender, begun) = channel();
    let listening = Arc::clone(&allowed);
    thread::spawn(move || {
        for order in orders {
            match order {
                // It guards no other memory: no order is needed.
                Ok(Order::Allow(events)) => listening.store(events, Ordering::Relaxed),
                Ok(Order::Begin(span)) => {
                    let _gone = sender.send(span);
                }
                Ok(Order::Prepare(_)) | Err(_) => break,
            }
        }
        // The coordinator closed the pipe, or died.
        std::process::exit(0);
    });
    let wrong = |fault: io::Error| format!("the floor-sender cannot accept: {fault}");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(wrong)?;
    rustix::net::listen(&listener, BACKLOG).map_err(|fault| wrong(fault.into()))?;
    let protocol = if prepare.http2 { tls::HTTP2 } else { tls::HTTP1 };
    let tls = prepare.tls.then(|| tls::self_signed("127.0.0.1", protocol)).transpose()?;
    let (tls, certificate) = tls.unzip();
    send(answers, &Answer::Listening(listener.local_addr().map_err(wrong)?.port(), certificate))?;
    let guests = accept(&listener, prepare.watchers, prepare.http2, tls.as_ref()).map_err(wrong)?;
    let epoll = watch_room(&guests).map_err(|fault| format!("epoll: {fault}"))?;
    let mut notes = Vec::new();
    let streams = guests.iter().map(|guest| guest.streams).max().filter(|_| prepare.http2);
    let connections = u32::try_from(guests.len()).unwrap_or(u32::MAX);
    let outlet = Outlet::new(prepare.mode, guests, |text| notes.push(text));
    for text in notes {
        send(answers, &Answer::Note(text))?;
    }
    let log = Log::new(&prepare.recipe, streams);
    let Ok(span) = begun.recv() else { return Ok(()) };
    let (live, late, made) = ((0..connections).collect(), BTreeMap::new(), Written::default());
    let (kept_bytes, event, short_writes) = (0, 0, 0);
    Sender { prepare, span, log, epoll, outlet, live, late, kept_bytes, event, made, short_writes }
        .run(&allowed, answers)
}

/// An epoll that tells by place which socket has room again, once each time.
fn watch_room(guests: &[Guest]) -> io::Result<OwnedFd> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (place, guest) in (0..).zip(guests) {
        epoll::add(&epoll, &guest.socket, EventData::new_u64(place), EventFlags::OUT | EventFlags::ET)?;
    }
    Ok(epoll)
}

/// What a late socket is to get, and how much of that it has.
type Rest = (Vec<u8>, usize);

struct Sender {
    prepare: Prepare,
    span: Span,
    log: Log,
    epoll: OwnedFd,
    outlet: Outlet,
    /// Places of the sockets that took everything so far.
    live: Vec<u32>,
    /// By place. A socket in neither is broken.
    late: BTreeMap<u32, Rest>,
    /// What all late ones together are to get.
    kept_bytes: usize,
    event: u64,
    made: Written,
    short_writes: u64,
}

impl Sender {
    fn run(mut self, allowed: &AtomicU64, answers: &mut impl Write) -> Result<(), String> {
        // The default slack of 50 µs would be measured as latency. Refused: so be it.
        let _slack = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut told = false;
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            let now = now_ns();
            let due_ns = if told { u64::MAX } else { self.next_due_ns(now) };
            let mut wait_ns = due_ns.saturating_sub(now).min(WAIT_NS_MAX);
            if due_ns == u64::MAX && !told {
                told = true;
                self.made.finals = self.log.finals();
                send(answers, &Answer::Made(Box::new(self.made.clone()), self.short_writes))?;
            } else if due_ns <= now {
                // Else the watchers hold it up: too much is kept for late ones, or all are behind what was sent.
                let next = self.event.saturating_add(u64::from(self.prepare.events_per_write));
                let goes_on = self.kept_bytes < KEPT_BYTES_MAX && next <= allowed.load(Ordering::Relaxed);
                wait_ns = if goes_on { 0 } else { LOOK_NS };
                if goes_on {
                    self.make(now);
                    self.sweep();
                }
            }
            if wait_ns > 0 || !self.late.is_empty() {
                events.clear();
                match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout(wait_ns))) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(fault) => return Err(format!("epoll_wait: {fault}")),
                }
                self.serve_late(&events);
            }
        }
    }

    /// When the next batch is due; `u64::MAX`: there is none.
    fn next_due_ns(&self, now: u64) -> u64 {
        let Span { start_ns, end_ns, .. } = self.span;
        let interval_ns = self.prepare.interval_ns;
        if interval_ns == 0 {
            return if now < end_ns { start_ns } else { u64::MAX };
        }
        let next_ns = start_ns + self.event * interval_ns;
        if next_ns >= end_ns || now >= end_ns.saturating_add(OVERTIME_NS) {
            return u64::MAX;
        }
        // A batch leaves when its last event is due; the last batch may have fewer.
        let last_ns = next_ns + u64::from(self.prepare.events_per_write - 1) * interval_ns;
        last_ns.min(end_ns - 1)
    }

    fn make(&mut self, now: u64) {
        let Span { start_ns, measure_from_ns, end_ns } = self.span;
        let (first, interval_ns) = (self.event, self.prepare.interval_ns);
        let moments = (first..first + u64::from(self.prepare.events_per_write))
            .map(|event| if interval_ns == 0 { now } else { start_ns + event * interval_ns })
            .take_while(|&moment_ns| moment_ns < end_ns);
        self.made.measured +=
            moments.clone().filter(|&moment_ns| moment_ns >= measure_from_ns).count() as u64;
        self.event += moments.clone().count() as u64;
        self.log.make(moments);
        self.made.last_reply_ns = now;
    }

    /// Sends the newest batch to all that are live. A socket that does not take all of it is late from here on.
    fn sweep(&mut self) {
        let batch = &self.log.batch;
        for (&place, (rest, _)) in &mut self.late {
            let bytes = self.outlet.bytes_for(place, batch);
            rest.extend_from_slice(bytes);
            self.kept_bytes += bytes.len();
        }
        let mut short = Vec::new();
        self.outlet.sweep(&self.live, batch, |at, bytes, outcome| {
            if outcome != Ok(bytes.len()) {
                short.push((at, taken(outcome).map(|taken| bytes[taken..].to_vec())));
            }
        });
        // From the end, so that places in front stay what they are.
        short.sort_unstable_by_key(|&(at, _)| std::cmp::Reverse(at));
        for (at, rest) in short {
            let place = self.live.swap_remove(at);
            if let Some(rest) = rest {
                self.short_writes += 1;
                self.kept_bytes += rest.len();
                self.late.insert(place, (rest, 0));
            }
        }
    }

    /// Sends what is missing to those late ones that have room again.
    fn serve_late(&mut self, events: &[epoll::Event]) {
        let places = events.iter().filter_map(|event| u32::try_from(event.data.u64()).ok());
        let ready: Vec<u32> = places.filter(|place| self.late.contains_key(place)).collect();
        let rest = |place: u32| self.late.get(&place).map_or(&[][..], |(rest, at)| &rest[*at..]);
        let mut took = Vec::with_capacity(ready.len());
        self.outlet.way.send_each(
            &ready,
            |at| rest(ready[at]),
            |at, outcome| took.push((ready[at], outcome)),
        );
        for (place, outcome) in took {
            let Some((rest, at)) = self.late.get_mut(&place) else { continue };
            let taken = taken(outcome);
            let left = rest.len() - *at;
            *at += taken.unwrap_or(left);
            self.kept_bytes -= taken.unwrap_or(left);
            if *at * 2 >= rest.len() {
                rest.drain(..std::mem::take(at));
            }
            if rest.is_empty() {
                self.late.remove(&place);
                self.live.extend(taken.map(|_| place));
            }
        }
    }
}

/// How many bytes a socket took; `None`: it is broken.
fn taken(outcome: Result<usize, Errno>) -> Option<usize> {
    match outcome {
        Ok(taken) => Some(taken),
        Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => Some(0),
        Err(_) => None,
    }
}
