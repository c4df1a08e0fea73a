//! One connection that writes: PUTs at a rate (open loop: each has the moment at which it was meant to be sent, and a
//! stall of the server does not move it), or as fast as the connection goes. Requests are pipelined up to a depth, so
//! that a slow reply does not hold the next write back. A writer owns its objects: their sequence numbers are its own.

use crate::clock::{now_ns, timeout};
use crate::http::{Caller, Replies, excerpt};
use crate::latency::Latency;
use crate::object::{Body, Recipe};
use crate::pace::{CLOSED_NS, Gate};
use crate::random::Random;
use crate::stamp::Stamp;
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// After the last write: how long to wait for replies.
const REPLIES_NS: u64 = 10_000_000_000;
/// After so many failed writes a writer gives up.
const FAILURES_MAX: usize = 1_000;
const READ_BYTES: usize = 64 * 1024;

/// What one writer is to do.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) address: SocketAddr,
    pub(crate) caller: Caller,
    pub(crate) recipe: Recipe,
    /// This writer's number and how many there are: it owns the objects whose number is `number` modulo `writers`.
    pub(crate) number: u32,
    pub(crate) writers: u32,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    /// Writes meant to be sent from here on are measured.
    pub(crate) measure_from_ns: u64,
    /// Between two writes of this writer; 0: as fast as it goes.
    pub(crate) interval_ns: u64,
    /// Requests under way at most.
    pub(crate) depth: usize,
    /// It stops after so many writes.
    pub(crate) writes_max: u64,
    /// Numbers of the last writes (object, seq) before these.
    pub(crate) written_before: Vec<(u32, u32)>,
}

/// What one writer did.
#[derive(Debug)]
pub(crate) struct Written {
    /// Acknowledged writes that count.
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
    /// When the last reply came.
    pub(crate) last_reply_ns: u64,
}

impl Written {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Self {
            measured: 0,
            finals: Vec::new(),
            failed: Vec::new(),
            first_fault: None,
            latency: Latency::new(),
            lateness: Latency::new(),
            last_reply_ns: 0,
        }
    }
}

/// A write under way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    intended_ns: u64,
    object: u32,
    seq: u32,
}

/// One object with the head of its request and the number of its last write.
#[derive(Debug)]
struct Item {
    object: u32,
    seq: u32,
    head: String,
    body: Body,
}

/// The writer.
#[derive(Debug)]
pub(crate) struct Writer {
    order: Order,
    acknowledged: Arc<AtomicU64>,
    /// Set: nothing more is written.
    stop: Arc<AtomicBool>,
    /// Says when a write may be sent that follows no clock.
    gate: Option<Arc<Gate>>,
    items: Vec<Item>,
    random: Random,
    next_ns: u64,
    sent: u64,
    under_way: VecDeque<Sent>,
    out: Vec<u8>,
    out_at: usize,
    written: Written,
}

impl Writer {
    /// `acknowledged` counts writes as their replies come, for the progress line.
    pub(crate) fn new(order: Order, acknowledged: Arc<AtomicU64>) -> Self {
        let mine = (order.number..order.recipe.objects()).step_by(order.writers.max(1) as usize);
        let before: BTreeMap<u32, u32> = order.written_before.iter().copied().collect();
        let items = mine
            .map(|object| {
                let body = order.recipe.body_of(object);
                let head = order.caller.head("PUT", &order.recipe.path_of(object), Some(body.bytes().len()));
                Item { object, seq: before.get(&object).copied().unwrap_or(0), head, body }
            })
            .collect();
        // Writers at the same rate take turns.
        let turn = order.interval_ns / u64::from(order.writers.max(1)) * u64::from(order.number);
        Self {
            acknowledged,
            stop: Arc::default(),
            gate: None,
            items,
            random: Random::new(order.recipe.seed.wrapping_add(u64::from(order.number) << 32)),
            next_ns: order.start_ns + turn,
            sent: 0,
            under_way: VecDeque::new(),
            out: Vec::new(),
            out_at: 0,
            written: Written::new(),
            order,
        }
    }

    /// Whoever sets `stop` ends the writes before their time.
    pub(crate) fn until(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = stop;
        self
    }

    /// Every write waits for the gate.
    pub(crate) fn behind(mut self, gate: Option<Arc<Gate>>) -> Self {
        self.gate = gate;
        self
    }

    /// Writes until the end of the order and waits for the replies.
    pub(crate) fn run(mut self) -> Written {
        // The default slack of 50 µs would be measured as latency. Refused: so be it.
        let _slack = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        crate::clock::sleep_until(self.next_ns);
        while !self.is_over() {
            self.heed_stop();
            if let Err(fault) = self.converse() {
                self.fail_under_way(&format!("the connection that writes broke: {fault}"));
                // A refused connect must not spin.
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
        }
        self.written.finals = self.items.iter().map(|item| (item.object, item.seq)).collect();
        self.written
    }

    /// The end of the order has come, if somebody says so.
    fn heed_stop(&mut self) {
        if self.stop.load(Ordering::Relaxed) {
            self.order.end_ns = self.order.end_ns.min(now_ns());
        }
    }

    fn is_over(&self) -> bool {
        let reached_ns = if self.order.interval_ns == 0 { now_ns() } else { self.next_ns };
        let spent = reached_ns >= self.order.end_ns || self.sent >= self.order.writes_max;
        (spent && self.under_way.is_empty())
            || self.written.failed.len() >= FAILURES_MAX
            || now_ns() >= self.order.end_ns.saturating_add(REPLIES_NS)
            || self.items.is_empty()
    }

    /// Uses one connection until the order is done or the connection breaks.
    fn converse(&mut self) -> io::Result<()> {
        let mut stream = TcpStream::connect(self.order.address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut replies = Replies::default();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let due_ns = self.prepare();
            self.flush(&mut stream)?;
            if self.is_over() {
                if !self.under_way.is_empty() {
                    self.fail_under_way("no reply to a write within 10 s of the last");
                }
                return Ok(());
            }
            let unsent = self.out_at < self.out.len();
            let wants = if unsent { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            let ready = {
                let mut polled = [PollFd::new(&stream, wants)];
                let wait_ns = due_ns.saturating_sub(now_ns()).min(1_000_000_000);
                match poll(&mut polled, Some(&timeout(wait_ns))) {
                    Ok(_) => polled[0].revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
                    Err(rustix::io::Errno::INTR) => false,
                    Err(fault) => return Err(fault.into()),
                }
            };
            if ready && self.read(&mut stream, &mut replies, &mut buffer)? {
                // The server asked for a new connection after this reply; writes behind it were not read.
                self.fail_under_way("the server closed the connection behind a reply");
                return Ok(());
            }
        }
    }

    /// Puts the writes that are due into the send buffer. Gives the moment of the next, or `u64::MAX`: a reply first.
    fn prepare(&mut self) -> u64 {
        self.heed_stop();
        loop {
            if self.under_way.len() >= self.order.depth || self.sent >= self.order.writes_max {
                return u64::MAX;
            }
            let now = now_ns();
            let intended_ns = if self.order.interval_ns == 0 { now } else { self.next_ns };
            if intended_ns >= self.order.end_ns {
                return u64::MAX;
            }
            if intended_ns > now {
                return intended_ns;
            }
            if self.gate.as_ref().is_some_and(|gate| !gate.take()) {
                return now + CLOSED_NS;
            }
            self.next_ns = intended_ns + self.order.interval_ns;
            let spot = self.random.below(self.items.len());
            let item = &mut self.items[spot];
            item.seq += 1;
            self.sent += 1;
            item.body.stamp(Stamp {
                run: self.order.recipe.run,
                object: item.object,
                seq: item.seq,
                intended_ns,
            });
            self.out.extend_from_slice(item.head.as_bytes());
            self.out.extend_from_slice(item.body.bytes());
            self.under_way.push_back(Sent { intended_ns, object: item.object, seq: item.seq });
            if intended_ns >= self.order.measure_from_ns {
                self.written.lateness.record(now - intended_ns);
            }
        }
    }

    fn flush(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        while self.out_at < self.out.len() {
            match stream.write(&self.out[self.out_at..]) {
                Ok(count) => self.out_at += count,
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
                Err(fault) => return Err(fault),
            }
        }
        self.out.clear();
        self.out_at = 0;
        Ok(())
    }

    /// Reads replies. True: the server wants to close the connection.
    fn read(&mut self, stream: &mut TcpStream, replies: &mut Replies, buffer: &mut [u8]) -> io::Result<bool> {
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
        while let Some(head) =
            replies.next(&mut input).map_err(|fault| io::Error::other(fault.to_string()))?
        {
            let Some(sent) = self.under_way.pop_front() else {
                return Err(io::Error::other("the server sent a reply that nobody asked for"));
            };
            self.on_reply(sent, head.status, replies.body(), now);
            if head.closes {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn on_reply(&mut self, sent: Sent, status: u16, body: &[u8], now: u64) {
        self.written.last_reply_ns = now;
        if !(200..300).contains(&status) {
            self.written.failed.push((sent.object, sent.seq));
            self.count_failed(1);
            let fault = &mut self.written.first_fault;
            fault.get_or_insert_with(|| {
                format!("the server answered a write with {status}: {}", excerpt(body))
            });
            return;
        }
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        if sent.intended_ns >= self.order.measure_from_ns {
            self.written.measured += 1;
            self.written.latency.record(now.saturating_sub(sent.intended_ns));
        }
    }

    fn count_failed(&self, writes: usize) {
        if let Some(gate) = &self.gate {
            gate.fail(writes as u64);
        }
    }

    /// The outcome of what is under way will never be known.
    fn fail_under_way(&mut self, why: &str) {
        self.count_failed(self.under_way.len());
        self.written.failed.extend(self.under_way.drain(..).map(|sent| (sent.object, sent.seq)));
        self.written.first_fault.get_or_insert_with(|| why.to_owned());
        self.out.clear();
        self.out_at = 0;
    }
}
