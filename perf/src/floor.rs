//! The floor: what a machine needs to hand prepared bytes to N sockets. A bare loop in a process of its own ([`sender`]) takes
//! the server's place; the load generator, its checks and its measures are those of `fanout`.

mod beside;
mod guests;
mod log;
mod outlet;
pub mod ring;
pub(crate) mod sender;

pub(crate) use beside::{BESIDE, add_beside, events_per_write_of};
pub(crate) use log::Size;

use crate::child::Helper;
use crate::clock::nanos;
use crate::ledger::Scope;
use crate::media::Media;
use crate::options::{BadOption, Load, Mode, value_name};
use crate::pace::Gate;
use crate::process::{check_descriptors, raise_nofile};
use crate::record::{Facts, Record};
use crate::run::{Run, Writing};
use crate::target::{Target, Trouble};
use crate::writer::Written;
use sender::{Answer, Order, Prepare};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

const LISTEN_WAIT: Duration = Duration::from_secs(30);
const NAMESPACE: &str = "floor";
pub(crate) const CPU: &str = "server_cpu_ns_per_delivery";

#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// Watchers, objects, rate, times: as for `fanout`.
    pub(crate) base: Load,
    pub(crate) size: Size,
    pub(crate) events_per_write: u32,
    /// Where the sender runs; empty: anywhere.
    pub(crate) server_cpus: Vec<usize>,
}

/// One sender has all connections.
pub(crate) fn check_sender(base: &Load) -> Result<(), BadOption> {
    let limit = raise_nofile();
    check_descriptors(base.connections(base.watchers), 1, limit).map_err(|_| {
        let mend =
            format!("one sender has all connections, and {limit} open files are allowed: raise nofile");
        BadOption::new("--watchers", base.watchers, mend)
    })
}

/// Writes of fewer bytes are copied with less work than pages are shared.
const PAGES_BYTES_MIN: usize = 16 << 10;

impl Ask {
    /// Those of several modes that can be the best; a single one is what was asked for.
    pub(crate) fn worth(&self, modes: &[Mode]) -> Vec<Mode> {
        let base = &self.base;
        let (Size::Object(size) | Size::Frame(size)) = self.size;
        let watches = base.streams().unwrap_or(1).min(base.watchers.max(1)) as usize;
        let write_bytes = size.saturating_mul(watches).saturating_mul(self.events_per_write as usize);
        let is_worth = |mode: &Mode| match mode {
            Mode::Send | Mode::Uring => true,
            // What is sealed is one piece.
            Mode::Writev => !base.tls(),
            // And another one for each.
            Mode::Pages => !base.tls() && write_bytes >= PAGES_BYTES_MIN,
        };
        modes.iter().copied().filter(|mode| modes.len() == 1 || is_worth(mode)).collect()
    }
}

/// Measures some modes, as far as they are [worth](Ask::worth) it; the one with the least CPU a delivery comes first.
pub(crate) fn measure_all(ask: &Ask, modes: &[Mode]) -> Result<Vec<Record>, Trouble> {
    let found = ask.worth(modes).into_iter().map(|mode| {
        eprintln!("the floor, {}", value_name(&mode));
        measure(ask, mode)
    });
    let mut found = found.collect::<Result<Vec<_>, _>>()?;
    let cpu = |record: &Record| record.value(CPU).unwrap_or(f64::INFINITY);
    found.sort_by(|one, other| cpu(one).total_cmp(&cpu(other)));
    Ok(found)
}

fn measure(ask: &Ask, mode: Mode) -> Result<Record, Trouble> {
    check_sender(&ask.base)?;
    // One write must be in flight while the watchers read the one before.
    let ahead = ask.base.ahead.max(ask.events_per_write.saturating_mul(2));
    let base = Load { ahead, ..ask.base.clone() };
    let mut recipe = Target::local(&base, 0, 0).recipe(&base, vec![NAMESPACE.to_owned()], base.objects);
    let http2 = base.protocol.http2;
    let object_bytes = log::pad_for(&mut recipe, ask.size, http2);
    let interval = |rate: f64| nanos(Duration::from_secs_f64(1.0 / rate)).max(1);
    let (mut sender, port, certificate) = Sender::start(Prepare {
        mode,
        cpus: ask.server_cpus.clone(),
        watchers: base.watchers,
        http2,
        tls: base.tls(),
        recipe: recipe.clone(),
        interval_ns: base.rate.per_second().map_or(0, interval),
        events_per_write: ask.events_per_write,
    })?;
    let mut target = Target::local(&base, port, sender.helper.pid().unwrap_or(0));
    target.caller.trust = certificate;
    let scope = Scope {
        path: recipe.resource.collection(NAMESPACE),
        revision: log::FIRST_REVISION,
        objects: (0..recipe.objects()).collect(),
        media: Media::Json,
    };
    let run = Run::new(&base, target, recipe, object_bytes);
    let mut record = run.measure(&[scope], |run, span, _| {
        sender.gate = run.gate();
        sender.allow(sender.gate.as_ref().map_or(u64::MAX, |gate| gate.allowed()))?;
        sender.tell(&Order::Begin(span))?;
        Ok(Box::new(&mut sender))
    })?;
    let mode = value_name(&mode);
    record.subject = base.name_asked(&format!("floor {mode}"));
    record.tell("server", format!("floor:{mode}"));
    record.tell("mode", mode.as_str());
    record.set("events_per_write", ask.events_per_write);
    record.set("short_writes", sender.made.as_ref().map(|(_, short_writes)| short_writes));
    for note in &sender.notes {
        eprintln!("floor:{mode}: {note}");
    }
    if !sender.notes.is_empty() {
        // Where the kernel did not give what the mode asks for.
        record.tell("notes", sender.notes.clone());
    }
    Ok(record)
}

/// The floor-sender, from the coordinator's side. Dropped, it ends.
struct Sender {
    helper: Helper,
    answers: Receiver<Answer>,
    notes: Vec<String>,
    made: Option<(Box<Written>, u64)>,
    /// Says how far it may go when it follows no clock, as it says it to writers.
    gate: Option<Arc<Gate>>,
    allowed: u64,
}

impl Sender {
    /// Starts it; returns it with the port at which it listens, and the certificate if there is TLS.
    fn start(prepare: Prepare) -> Result<(Self, u16, Option<String>), String> {
        let (said, answers) = channel();
        let hear = move |answer: Option<Result<Answer, String>>| {
            let wrong = |fault| Answer::Failed(format!("a floor-sender: {fault}"));
            // The coordinator may be done with it.
            let _gone = answer.map(|answer| said.send(answer.unwrap_or_else(wrong)));
        };
        let helper = Helper::process(&["floor-sender"], hear)
            .map_err(|fault| format!("the floor-sender cannot be started: {fault}"))?;
        let mut sender = Self { helper, answers, notes: Vec::new(), made: None, gate: None, allowed: 0 };
        sender.tell(&Order::Prepare(prepare))?;
        match sender.answers.recv_timeout(LISTEN_WAIT) {
            Ok(Answer::Listening(port, certificate)) => Ok((sender, port, certificate)),
            Ok(Answer::Failed(why)) => Err(why),
            Ok(Answer::Note(_) | Answer::Made(..)) | Err(_) => {
                Err("the floor-sender does not listen".to_owned())
            }
        }
    }

    fn tell(&mut self, order: &Order) -> Result<(), String> {
        self.helper.send(order).map_err(|fault| format!("the floor-sender is gone: {fault}"))
    }

    fn allow(&mut self, events: u64) -> Result<(), String> {
        self.allowed = events;
        self.tell(&Order::Allow(events))
    }

    fn listen(&mut self) -> Result<(), String> {
        loop {
            match self.answers.try_recv() {
                Ok(Answer::Note(text)) => self.notes.push(text),
                Ok(Answer::Made(made, short_writes)) => self.made = Some((made, short_writes)),
                Ok(Answer::Failed(why)) => return Err(why),
                Ok(Answer::Listening(..)) | Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) if self.made.is_some() => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err("the floor-sender ended early".to_owned()),
            }
        }
    }
}

impl Writing for &mut Sender {
    fn is_done(&mut self) -> Result<bool, String> {
        self.listen()?;
        let done = self.made.is_some();
        let events = self.gate.as_ref().map_or(self.allowed, |gate| gate.allowed());
        if events > self.allowed && !done {
            self.allow(events)?;
        }
        Ok(done)
    }

    fn end(self: Box<Self>) -> Result<(Written, Facts), String> {
        let (written, _) = self.made.clone().ok_or("the floor-sender is not done")?;
        Ok((*written, Facts::new()))
    }
}
