//! One connection that writes: PUTs at a rate (open loop: each has the moment at which it was meant to be sent, whatever the server
//! does), or as fast as it goes. Requests are pipelined, so that a slow reply does not hold the next write back. A writer owns its
//! objects: their sequence numbers are its own.

use crate::clock::{nanos, now_ns, sleep_until, timeout};
use crate::http::{Replies, excerpt};
use crate::latency::Latency;
use crate::message::Finish;
use crate::object::{Body, Recipe};
use crate::options::Load;
use crate::pace::{CLOSED_NS, Gate};
use crate::stamp::Stamp;
use crate::target::Target;
use crate::tls::{self, Stream};
use fastrand::Rng;
use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::TcpStream;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// After the last write: how long to wait for replies.
const REPLIES_NS: u64 = 10_000_000_000;
/// After so many failed writes a writer gives up.
const FAILURES_MAX: usize = 1_000;
const READ_BYTES: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Span {
    pub(crate) start_ns: u64,
    /// Writes meant to be sent from here on are measured.
    pub(crate) measure_from_ns: u64,
    /// `u64::MAX`: until they are told to stop.
    pub(crate) end_ns: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) target: Target,
    pub(crate) recipe: Recipe,
    pub(crate) writers: u32,
    pub(crate) span: Span,
    /// Between two writes of one writer; 0: as fast as it goes.
    pub(crate) interval_ns: u64,
    pub(crate) depth: usize,
    pub(crate) writes_max: u64,
    /// Numbers of the last writes (object, seq) before these.
    pub(crate) written_before: Vec<(u32, u32)>,
    pub(crate) gate: Option<Arc<Gate>>,
    /// Writes whose reply came, for the progress line.
    pub(crate) acknowledged: Arc<AtomicU64>,
    /// Set: nothing more is written.
    pub(crate) stop: Arc<AtomicBool>,
}

impl Order {
    pub(crate) fn new(target: &Target, base: &Load, recipe: &Recipe, span: Span) -> Self {
        let interval = |rate: f64| nanos(Duration::from_secs_f64(f64::from(base.writers) / rate)).max(1);
        Self {
            target: target.clone(),
            recipe: recipe.clone(),
            writers: base.writers,
            span,
            interval_ns: base.rate.per_second().map_or(0, interval),
            depth: base.pipeline as usize,
            writes_max: u64::MAX,
            written_before: Vec::new(),
            gate: None,
            acknowledged: Arc::default(),
            stop: Arc::default(),
        }
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Written {
    pub(crate) measured: u64,
    /// Number of the last write of each object (object, seq).
    pub(crate) finals: Vec<(u32, u32)>,
    /// Writes (object, seq) without a 2xx reply.
    pub(crate) failed: Vec<(u32, u32)>,
    pub(crate) first_fault: Option<String>,
    /// From the intended moment to the reply, of measured writes.
    pub(crate) latency: Latency,
    /// From the intended moment to the send, of measured writes: the generator's own lateness.
    pub(crate) lateness: Latency,
    pub(crate) last_reply_ns: u64,
}

impl Written {
    pub(crate) fn add(&mut self, other: Self) {
        self.measured += other.measured;
        self.finals.extend(other.finals);
        self.failed.extend(other.failed);
        self.first_fault = self.first_fault.take().or(other.first_fault);
        self.latency.add(&other.latency);
        self.lateness.add(&other.lateness);
        self.last_reply_ns = self.last_reply_ns.max(other.last_reply_ns);
    }

    /// What the watchers of so many objects are held against.
    pub(crate) fn finish(&self, objects: u32, drain: Duration) -> Finish {
        let mut finals = vec![0; objects as usize];
        for &(object, seq) in &self.finals {
            finals[object as usize] = seq;
        }
        Finish { finals, failed: self.failed.clone(), drain_ns: nanos(drain) }
    }
}

/// All writers of one part of a run: started together, ended together.
pub(crate) struct Writers {
    running: Vec<JoinHandle<Written>>,
    order: Order,
}

impl Writers {
    pub(crate) fn start(order: Order) -> Self {
        let start = |number| {
            let writer = Writer::new(order.clone(), number);
            thread::spawn(move || writer.run())
        };
        Self { running: (0..order.writers).map(start).collect(), order }
    }

    pub(crate) fn are_done(&self) -> bool {
        self.running.iter().all(JoinHandle::is_finished)
    }

    /// Writes no more, waits for the replies, and puts the accounts together.
    pub(crate) fn end(self) -> Result<Written, String> {
        self.order.stop.store(true, Ordering::Relaxed);
        let mut all = Written::default();
        for writer in self.running {
            all.add(writer.join().map_err(|_| "a writer panicked".to_owned())?);
        }
        Ok(all)
    }
}

struct Item {
    object: u32,
    seq: u32,
    head: String,
    body: Body,
}

struct Writer {
    order: Order,
    items: Vec<Item>,
    random: Rng,
    next_ns: u64,
    sent: u64,
    /// Stamps of the writes that no reply came to yet.
    under_way: VecDeque<Stamp>,
    out: VecDeque<u8>,
    written: Written,
}

impl Writer {
    /// Writer `number` owns the objects whose number is `number` modulo the number of writers.
    fn new(order: Order, number: u32) -> Self {
        let mine = (number..order.recipe.objects()).step_by(order.writers.max(1) as usize);
        let before: BTreeMap<u32, u32> = order.written_before.iter().copied().collect();
        let item = |object| {
            let body = order.recipe.body_of(object);
            let path = order.recipe.path_of(object);
            let head = order.target.caller.head("PUT", &path, Some(body.bytes().len()));
            Item { object, seq: before.get(&object).copied().unwrap_or(0), head, body }
        };
        // Writers at the same rate take turns.
        let turn = order.interval_ns / u64::from(order.writers.max(1)) * u64::from(number);
        Self {
            items: mine.map(item).collect(),
            random: Rng::with_seed(order.recipe.seed.wrapping_add(u64::from(number) << 32)),
            next_ns: order.span.start_ns + turn,
            sent: 0,
            under_way: VecDeque::new(),
            out: VecDeque::new(),
            written: Written::default(),
            order,
        }
    }

    fn run(mut self) -> Written {
        // The default slack of 50 µs would be measured as latency. Refused: so be it.
        let _slack = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        sleep_until(self.next_ns);
        while !self.is_over() {
            self.check_stop();
            if let Err(fault) = self.use_connection() {
                self.fail_under_way(format!("the connection that writes broke: {fault}"));
                // A refused connect must not spin.
                thread::sleep(Duration::from_millis(100));
            }
        }
        self.written.finals = self.items.iter().map(|item| (item.object, item.seq)).collect();
        self.written
    }

    fn check_stop(&mut self) {
        if self.order.stop.load(Ordering::Relaxed) {
            self.order.span.end_ns = self.order.span.end_ns.min(now_ns());
        }
    }

    fn is_over(&self) -> bool {
        let reached_ns = if self.order.interval_ns == 0 { now_ns() } else { self.next_ns };
        let spent = reached_ns >= self.order.span.end_ns || self.sent >= self.order.writes_max;
        (spent && self.under_way.is_empty())
            || self.written.failed.len() >= FAILURES_MAX
            || now_ns() >= self.order.span.end_ns.saturating_add(REPLIES_NS)
            || self.items.is_empty()
    }

    fn use_connection(&mut self) -> io::Result<()> {
        let socket = TcpStream::connect(self.order.target.address)?;
        socket.set_nodelay(true)?;
        let mut stream = tls::stream(socket, self.order.target.tls.as_ref())?;
        stream.socket().set_nonblocking(true)?;
        let mut replies = Replies::default();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let due_ns = self.prepare();
            self.flush(&mut *stream)?;
            if self.is_over() {
                if !self.under_way.is_empty() {
                    self.fail_under_way("no reply to a write within 10 s of the last");
                }
                return Ok(());
            }
            let has_more = !self.out.is_empty() || stream.wants_write();
            let wants = if has_more { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            let wait_ns = due_ns.saturating_sub(now_ns()).min(1_000_000_000);
            match poll(&mut [PollFd::new(stream.socket(), wants)], Some(&timeout(wait_ns))) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(fault) => return Err(fault.into()),
            }
            if self.read(&mut *stream, &mut replies, &mut buffer)? {
                // The server asked for a new connection after this reply; it did not read the writes after that.
                self.fail_under_way("the server closed the connection after a reply");
                return Ok(());
            }
        }
    }

    /// Puts the writes that are due into the send buffer. Gives the moment of the next, or `u64::MAX`: a reply first.
    fn prepare(&mut self) -> u64 {
        self.check_stop();
        loop {
            if self.under_way.len() >= self.order.depth || self.sent >= self.order.writes_max {
                return u64::MAX;
            }
            let now = now_ns();
            let intended_ns = if self.order.interval_ns == 0 { now } else { self.next_ns };
            if intended_ns >= self.order.span.end_ns {
                return u64::MAX;
            }
            if intended_ns > now {
                return intended_ns;
            }
            if self.order.gate.as_ref().is_some_and(|gate| !gate.take()) {
                return now + CLOSED_NS;
            }
            self.next_ns = intended_ns + self.order.interval_ns;
            let spot = self.random.usize(..self.items.len());
            let item = &mut self.items[spot];
            item.seq += 1;
            self.sent += 1;
            let run = self.order.recipe.run;
            let stamp = Stamp { run, object: item.object, seq: item.seq, intended_ns };
            item.body.stamp(stamp);
            self.out.extend(item.head.as_bytes());
            self.out.extend(item.body.bytes());
            self.under_way.push_back(stamp);
            if intended_ns >= self.order.span.measure_from_ns {
                self.written.lateness.record(now - intended_ns);
            }
        }
    }

    fn flush(&mut self, stream: &mut dyn Stream) -> io::Result<()> {
        while !self.out.is_empty() {
            match stream.write(self.out.as_slices().0) {
                // TLS has sealed as much as it keeps.
                Ok(0) => break,
                Ok(count) => drop(self.out.drain(..count)),
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
                Err(fault) => return Err(fault),
            }
        }
        // What TLS has sealed and the socket had no room for.
        match stream.flush() {
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => Ok(()),
            outcome => outcome,
        }
    }

    /// Reads replies. True: the server wants to close the connection.
    fn read(
        &mut self,
        stream: &mut dyn Stream,
        replies: &mut Replies,
        buffer: &mut [u8],
    ) -> io::Result<bool> {
        let count = match stream.read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(fault) if matches!(fault.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(false);
            }
            Err(fault) => return Err(fault),
        };
        let now = now_ns();
        let mut input = &buffer[..count];
        while let Some(head) = replies.next(&mut input)? {
            let Some(sent) = self.under_way.pop_front() else {
                return Err(io::Error::other("the server sent a reply without a request"));
            };
            self.on_reply(sent, head.status, replies.body(), now);
            if head.closes {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn on_reply(&mut self, sent: Stamp, status: u16, body: &[u8], now: u64) {
        self.written.last_reply_ns = now;
        if !(200..300).contains(&status) {
            return self
                .fail([sent], || format!("the server answered a write with {status}: {}", excerpt(body)));
        }
        self.order.acknowledged.fetch_add(1, Ordering::Relaxed);
        if sent.intended_ns >= self.order.span.measure_from_ns {
            self.written.measured += 1;
            self.written.latency.record(now.saturating_sub(sent.intended_ns));
        }
    }

    fn fail_under_way(&mut self, why: impl Into<String>) {
        self.out.clear();
        let lost = std::mem::take(&mut self.under_way);
        self.fail(lost, || why.into());
    }

    fn fail(&mut self, writes: impl IntoIterator<Item = Stamp>, why: impl FnOnce() -> String) {
        let before = self.written.failed.len();
        self.written.failed.extend(writes.into_iter().map(|sent| (sent.object, sent.seq)));
        if let Some(gate) = &self.order.gate {
            gate.fail((self.written.failed.len() - before) as u64);
        }
        self.written.first_fault.get_or_insert_with(why);
    }
}
