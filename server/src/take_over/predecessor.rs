//! The side of the server that runs: it answers whoever would take over, and gives its listeners away once.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::channel::{self, Channel, DESCRIPTORS_MAX};
use super::control_socket::ControlSocket;
use super::message::{Description, Kind, Reply, Request, Store, text};
use super::predecessor_link::PredecessorLink;
use crate::log;
use crate::notify::Manager;
use crate::runtime::Handover;

/// How long the shards may take to stop accepting.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a successor may take from one message to the next. Nothing is accepted in some of this time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How often it is looked whether everything has ended.
const DRAINED_POLL: Duration = Duration::from_millis(20);
/// Pause after an accept that failed.
const BACK_OFF: Duration = Duration::from_millis(100);

/// A server that can be succeeded.
struct Predecessor {
    control: ControlSocket,
    store: Store,
    handover: Handover,
    manager: Option<Arc<Manager>>,
    /// To its own predecessor.
    link: Arc<PredecessorLink>,
}

/// Answers successors in a thread, until the process ends.
///
/// # Errors
/// The thread cannot be started.
pub fn attend(
    control: ControlSocket,
    store: Store,
    handover: Handover,
    manager: Option<Arc<Manager>>,
    link: Arc<PredecessorLink>,
) -> std::io::Result<()> {
    let predecessor = Predecessor { control, store, handover, manager, link };
    std::thread::Builder::new().name("take-over".into()).spawn(move || predecessor.attend()).map(|_| ())
}

impl Predecessor {
    fn attend(&self) {
        loop {
            match self.control.accept() {
                Ok(channel) => {
                    if let Err(why) = self.serve(&channel) {
                        log::warn(&format!("a take-over by process {} failed: {why}", channel.process()));
                    }
                }
                Err(error) => {
                    log::warn(&format!("a process that would take over is not answered: {error}"));
                    std::thread::sleep(BACK_OFF);
                }
            }
        }
    }

    /// Answers one process, until it goes or has taken over.
    fn serve(&self, channel: &Channel) -> Result<(), String> {
        loop {
            let request = match channel.hear::<Request>(ANSWER_TIMEOUT) {
                Ok(Some((request, _))) => request,
                Ok(None) => return Ok(()),
                Err(why) => return refuse(channel, why),
            };
            match request {
                Request::Who => channel.say(&Reply::Process(Box::new(self.describe())))?,
                Request::Listeners if self.handover.is_closing() => {
                    return refuse(
                        channel,
                        "the running server is closing: start again when it has ended".to_owned(),
                    );
                }
                Request::Listeners => match &self.store {
                    Store::Etcd(_) => return self.hand_over(channel),
                    kept @ (Store::Memory | Store::DataDir(_)) => {
                        return refuse(channel, format!("{kept}: only a server over etcd can be taken over"));
                    }
                },
                Request::Ready | Request::Leaving => {
                    return refuse(channel, "it did not ask for the listeners".to_owned());
                }
            }
        }
    }

    fn describe(&self) -> Description {
        Description {
            process: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            store: self.store.clone(),
            cluster: self.handover.cluster(),
            revision: self.handover.revision(),
            admin_listen: self.handover.admin_listen(),
        }
    }

    /// Gives the listeners away, and ends when everything here has.
    fn hand_over(&self, channel: &Channel) -> Result<(), String> {
        let began = Instant::now();
        if !self.handover.pause(PAUSE_TIMEOUT) {
            self.handover.take_back();
            let why = "a shard of the running server does not turn: see its log; it goes on";
            return refuse(channel, why.to_owned());
        }
        if let Err(why) = self.give(channel).and_then(|()| expect_ready(channel)) {
            self.handover.take_back();
            return refuse(channel, why);
        }
        // From here on the successor accepts, or has died.
        self.handover.hand_over();
        let told = channel.say(&Reply::Yours);
        let paused = began.elapsed();
        self.link.leave();
        log::info(&format!(
            "handed over to process {} (nothing was accepted for {paused:.1?}): ending {} watches one after another",
            channel.process(),
            self.handover.watchers()
        ));
        if told.is_err() || self.drain(channel).is_err() {
            self.handover.take_back();
            return Err(
                "the successor died: this server accepts again, and its remaining watches go on".to_owned()
            );
        }
        // Not before: a manager would kill a server that takes its listeners back, when its time to stop is over.
        self.manager.iter().for_each(|manager| manager.stopping("closing: another process has taken over"));
        self.handover.closer().close(true);
        // The process ends with its shards.
        loop {
            std::thread::park();
        }
    }

    /// Sends the sockets, the one for successors first.
    fn give(&self, channel: &Channel) -> Result<(), String> {
        let (public, admin) = self.handover.sockets().map_err(|error| {
            format!("no descriptor is left in the running server ({error}): raise nofile (ulimit -n)")
        })?;
        let send = |kind, more, sockets: &[BorrowedFd<'_>]| {
            let sent = channel.send(&text(&Reply::Listeners { kind, more }), sockets);
            sent.map_err(|error| format!("the listeners could not be sent: {error}"))
        };
        send(Kind::TakeOver, true, &[self.control.as_fd()])?;
        if let Some(admin) = &admin {
            send(Kind::Admin, true, &[admin.as_fd()])?;
        }
        let public: Vec<BorrowedFd<'_>> = public.iter().map(|socket| socket.as_fd()).collect();
        let mut chunks = public.chunks(DESCRIPTORS_MAX).peekable();
        while let Some(sockets) = chunks.next() {
            send(Kind::Public, chunks.peek().is_some(), sockets)?;
        }
        Ok(())
    }

    /// Waits until everything has ended here.
    ///
    /// # Errors
    /// The successor died.
    fn drain(&self, channel: &Channel) -> Result<(), ()> {
        let mut has_left = false;
        while !self.handover.has_drained() {
            if has_left || self.handover.is_closing() {
                std::thread::sleep(DRAINED_POLL);
                continue;
            }
            match channel.receive(DRAINED_POLL) {
                // It ends in an orderly way, or has a successor itself.
                Ok(Some(_)) => has_left = true,
                Ok(None) => return Err(()),
                Err(error) if channel::is_late(&error) => {}
                Err(_) => return Err(()),
            }
        }
        Ok(())
    }
}

/// Waits until the successor has the listeners.
fn expect_ready(channel: &Channel) -> Result<(), String> {
    match channel.hear::<Request>(ANSWER_TIMEOUT)? {
        Some((Request::Ready, _)) => Ok(()),
        Some((other, _)) => Err(format!("it says {other:?}, and not that it is ready")),
        None => Err("it ended before it was ready; this server goes on".to_owned()),
    }
}

/// Tells a process no, and why.
fn refuse(channel: &Channel, why: String) -> Result<(), String> {
    // It may have gone.
    let _ = channel.say(&Reply::Refused { why: why.clone() });
    Err(why)
}
