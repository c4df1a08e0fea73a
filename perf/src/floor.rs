//! The floor: what a machine needs to hand prepared bytes to N sockets. A bare loop in a process of its own
//! ([`sender`]) takes the server's place; the load generator, its checks and its measures are those of `fanout`.
//! It never decides what a server's events look like: it is given sizes.

mod beside;
mod door;
mod log;
mod order;
mod outlet;
mod prepared;
mod report;
mod ring;
pub(crate) mod sender;

pub(crate) use beside::{Beside, beside_report, events_per_write_of};
pub(crate) use order::Mode;
pub(crate) use prepared::Size;

use crate::args::floor::Floor;
use crate::args::{BadOption, Fanout, Rate};
use crate::clock::{nanos, now_ns};
use crate::fanout::{Run, Span, Trouble, Writing, check_descriptors, pin, raise_nofile};
use crate::http::Caller;
use crate::object::Recipe;
use crate::pace::Gate;
use crate::random::Random;
use crate::report::Report;
use crate::scope::Scope;
use crate::writer::Written;
use order::{Answer, Begin, Load, Made, Order};
use report::FloorReport;
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::thread;
use std::time::Duration;

/// How long a sender may take to listen.
const LISTEN_WAIT: Duration = Duration::from_secs(30);
const NAMESPACE: &str = "floor";

/// One measurement of the floor.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) mode: Mode,
    /// Watchers, objects, rate, times: as for `fanout`.
    pub(crate) base: Fanout,
    pub(crate) size: Size,
    pub(crate) events_per_write: u32,
    /// Where the sender runs; empty: anywhere.
    pub(crate) server_cpus: Vec<usize>,
}

/// What it found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) report: Report,
    /// Where the kernel did not give what the mode asks for.
    pub(crate) notes: Vec<String>,
    /// Writes that a socket took in part or not at all.
    pub(crate) short_writes: u64,
}

/// Measures the modes that were asked for, round by round.
pub(crate) fn run(args: &Floor) -> Result<FloorReport, Trouble> {
    check_descriptors(args.base.watchers, args.base.processes, raise_nofile())?;
    pin(&args.base.client_cpus)?;
    let server_cpus = args.server_cpus();
    let mut report = FloorReport::new(args, &server_cpus);
    for round in 0..args.rounds {
        // Each round starts with another mode, so that none is always the first.
        for place in 0..args.modes.len() {
            let mode = args.modes[(round as usize + place) % args.modes.len()];
            eprintln!("round {} of {}, {mode}", round + 1, args.rounds);
            let ask = Ask {
                mode,
                base: args.base.clone(),
                size: Size::Object(args.base.size_bytes),
                events_per_write: args.events_per_write,
                server_cpus: server_cpus.clone(),
            };
            report.add(mode, round + 1, measure(&ask)?);
        }
    }
    report.judge();
    Ok(report)
}

/// Measures one mode once, with watchers as `fanout` has them.
pub(crate) fn measure(ask: &Ask) -> Result<Found, Trouble> {
    let limit = raise_nofile();
    check_descriptors(ask.base.watchers, 1, limit).map_err(|_| {
        let mend =
            format!("one sender has all connections, and {limit} open files are allowed: raise nofile");
        BadOption::new("--watchers", &ask.base.watchers.to_string(), mend)
    })?;
    let run = Random::new(now_ns() ^ u64::from(std::process::id()) << 48).next();
    let mut recipe = Recipe {
        resource: ask.base.resource.clone(),
        namespaces: vec![NAMESPACE.to_owned()],
        per_namespace: ask.base.objects,
        run,
        seed: ask.base.seed.unwrap_or(run >> 32),
        pad_bytes: 0,
    };
    let object_bytes = prepared::pad_for(&mut recipe, ask.size);
    let load = Load {
        mode: ask.mode,
        cpus: ask.server_cpus.clone(),
        run,
        seed: recipe.seed,
        revision: prepared::FIRST_REVISION,
        frames: prepared::prepare_all(&recipe),
    };
    let (sender, port) = Sender::start(load)?;
    let pid = sender.child.id();
    let sender = Rc::new(RefCell::new(sender));
    let scope = Scope {
        path: recipe.resource.collection(NAMESPACE),
        revision: prepared::FIRST_REVISION,
        objects: (0..recipe.objects()).collect(),
        accept: None,
    };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let caller = Caller { host: address.to_string(), token: None };
    let interval_ns = match ask.base.rate {
        Rate::Max => 0,
        Rate::PerSecond(rate) => nanos(Duration::from_secs_f64(1.0 / rate)).max(1),
    };
    let events_per_write = ask.events_per_write;
    // One write must be on its way while the watchers read the one before.
    let ahead = ask.base.ahead.max(events_per_write.saturating_mul(2));
    let base = Fanout { ahead, ..ask.base.clone() };
    let ours = Rc::clone(&sender);
    let mut report =
        Run::new(&base, address, caller, recipe, Some(pid)).measure(&[scope], |run, span, _| {
            let Span { start_ns, measure_from_ns, end_ns } = span;
            let gate = run.gate();
            let allowed = gate.as_ref().map_or(u64::MAX, |gate| gate.allowed());
            let begin = Begin { start_ns, measure_from_ns, end_ns, interval_ns, events_per_write, allowed };
            ours.borrow_mut().tell(&Order::Begin(begin))?;
            Ok(Box::new(Sending { sender: ours, gate, allowed }))
        })?;
    report.server = format!("floor:{}", ask.mode);
    report.object_bytes = object_bytes;
    let sender = sender.borrow();
    let short_writes = sender.made.as_ref().map_or(0, |made| made.short_writes);
    Ok(Found { report, notes: sender.notes.clone(), short_writes })
}

/// The floor-sender, from the coordinator's side. Dropped, it ends.
#[derive(Debug)]
struct Sender {
    child: Child,
    orders: Option<ChildStdin>,
    answers: Receiver<Answer>,
    notes: Vec<String>,
    made: Option<Made>,
}

impl Sender {
    /// Starts it; gives it with the port at which it listens.
    fn start(load: Load) -> Result<(Self, u16), String> {
        let wrong = |fault: std::io::Error| format!("the floor-sender cannot be started: {fault}");
        let program = std::env::current_exe().map_err(wrong)?;
        let mut child = Command::new(program)
            .arg("floor-sender")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(wrong)?;
        let (said, answers) = channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    let answer = serde_json::from_str(&line).unwrap_or_else(|fault| Answer::Failed {
                        message: format!("a floor-sender: {fault}"),
                    });
                    if said.send(answer).is_err() {
                        return;
                    }
                }
            });
        }
        let orders = child.stdin.take();
        let mut sender = Self { child, orders, answers, notes: Vec::new(), made: None };
        sender.tell(&Order::Load(load))?;
        match sender.answers.recv_timeout(LISTEN_WAIT) {
            Ok(Answer::Listening { port }) => Ok((sender, port)),
            Ok(Answer::Failed { message }) => Err(message),
            Ok(Answer::Note { .. } | Answer::Made(_)) => Err("the floor-sender does not listen".to_owned()),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                Err("the floor-sender does not answer".to_owned())
            }
        }
    }

    fn tell(&mut self, order: &Order) -> Result<(), String> {
        let mut line = serde_json::to_vec(order).map_err(|fault| fault.to_string())?;
        line.push(b'\n');
        let gone = || "the floor-sender is gone".to_owned();
        let pipe = self.orders.as_mut().ok_or_else(gone)?;
        pipe.write_all(&line).and_then(|()| pipe.flush()).map_err(|fault| format!("{}: {fault}", gone()))
    }

    /// Takes what it said meanwhile.
    fn listen(&mut self) -> Result<(), String> {
        loop {
            match self.answers.try_recv() {
                Ok(Answer::Note { text }) => self.notes.push(text),
                Ok(Answer::Made(made)) => self.made = Some(made),
                Ok(Answer::Failed { message }) => return Err(message),
                Ok(Answer::Listening { .. }) | Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) if self.made.is_some() => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err("the floor-sender ended early".to_owned()),
            }
        }
    }
}

/// A floor-sender in the writers' place.
#[derive(Debug)]
struct Sending {
    sender: Rc<RefCell<Sender>>,
    /// Says how far it may go when it follows no clock, as it says it to writers.
    gate: Option<Arc<Gate>>,
    /// What the sender knows of that.
    allowed: u64,
}

impl Writing for Sending {
    fn is_done(&mut self) -> Result<bool, String> {
        let mut sender = self.sender.borrow_mut();
        sender.listen()?;
        let done = sender.made.is_some();
        let events = self.gate.as_ref().map_or(self.allowed, |gate| gate.allowed());
        if events > self.allowed && !done {
            self.allowed = events;
            sender.tell(&Order::Allow { events })?;
        }
        Ok(done)
    }

    fn written(&mut self) -> Result<Vec<Written>, String> {
        let sender = self.sender.borrow();
        let Some(made) = &sender.made else { return Err("the floor-sender is not done".to_owned()) };
        let mut written = Written::new();
        written.finals.clone_from(&made.finals);
        written.measured = made.measured;
        written.last_reply_ns = made.last_ns;
        Ok(vec![written])
    }
}

impl Drop for Sender {
    /// It ends when its orders do.
    fn drop(&mut self) {
        drop(self.orders.take());
        let _status = self.child.wait();
    }
}
