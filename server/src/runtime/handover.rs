//! The listeners of a process, and how they pass to its successor.
//!
//! It owns the order of the steps on this side: nothing is accepted, then the successor has the listeners, then watches are ended.
//! How the two processes speak with each other is `take_over`'s.

use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::net::getsockname;

use super::accept::{listeners, more_listeners, set_options};
use super::listener::{Listener, ListenerKind};
use super::options::Options;
use super::run_error::RunError;
use super::shards::ShardMessage;
use super::shared::Shared;
use super::stage::Stage;
use super::{Closer, spread};
use crate::serve::Life;
use crate::source::command_queue::Shards as _;

/// Listeners per shard. Each has a queue of its own, of at most 4,096 connections (`net.core.somaxconn`); overflow costs its
/// clients a second. This many accept 10,000 clients that reconnect within a fifth of a second.
const LISTENERS_PER_SHARD: usize = 4;
/// How often it is asked whether the shards have stopped to accept.
const PAUSE_POLL: Duration = Duration::from_micros(200);

/// The listeners that are bound at the start of a process that takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inherits {
    /// Whether the predecessor has the admin listener of the options: else it is bound at the start.
    pub admin: bool,
}

/// Listeners that a process has and does not accept from yet.
#[derive(Debug)]
pub struct Bound(Vec<Listener>);

/// Lets another thread hand over the listeners of a server, or receive them.
#[derive(Clone, Debug)]
pub struct Handover(Arc<Shared>);

impl Handover {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Whether its state is loaded and fresh.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let app = &self.0.app;
        app.life() == Life::Serving && app.is_fresh() != Some(false)
    }

    /// Whether the server ends.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.0.closing.get().is_some() || self.0.app.life() == Life::Closing
    }

    /// The newest revision that is served.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.0.app.epoch().feed.revision().get()
    }

    /// The etcd cluster that is served; 0: none yet, or the store is this process.
    #[must_use]
    pub fn cluster(&self) -> u64 {
        self.0.commands.stats.remote.cluster.load(Ordering::Acquire)
    }

    /// The address for clients.
    #[must_use]
    pub fn listen(&self) -> SocketAddr {
        self.0.listen
    }

    /// The address for operators.
    #[must_use]
    pub fn admin_listen(&self) -> Option<SocketAddr> {
        self.0.admin_listen
    }

    /// Watches that are open.
    #[must_use]
    pub fn watchers(&self) -> usize {
        self.0.handles.watchers()
    }

    /// Stops to accept: when this returns true, no connection is accepted and none is being accepted.
    #[must_use]
    pub fn pause(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        self.0.handover.set(Stage::Pauses);
        self.0.handles.wake_all();
        while !self.0.handles.0.iter().all(|handle| handle.is_paused.load(Ordering::Acquire)) {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(PAUSE_POLL);
        }
        true
    }

    /// Duplicates of the listening sockets: those for clients, and the one for operators.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn sockets(&self) -> std::io::Result<(Vec<OwnedFd>, Option<OwnedFd>)> {
        let (mut public, mut admin) = (Vec::new(), None);
        for listener in self.0.handover.listeners().iter() {
            let socket = listener.socket.try_clone()?;
            match listener.kind {
                ListenerKind::Public => public.push(socket),
                ListenerKind::Admin => admin = Some(socket),
            }
        }
        Ok((public, admin))
    }

    /// The successor has the listeners: watches are ended one after another, requests are answered with the end of their connections.
    pub fn hand_over(&self) {
        let over = spread(self.0.options.drain_grace);
        *self.0.handover.handed_over() = Some((Instant::now(), over));
        self.0.handover.set(Stage::HandedOver);
        self.0.app.succeed(true);
        self.0.handles.wake_all();
    }

    /// Accepts again: there is no successor, or not any more. Watches that were not ended yet stay.
    pub fn take_back(&self) {
        *self.0.handover.handed_over() = None;
        self.0.app.succeed(false);
        self.0.handover.set(Stage::Accepts);
        self.0.handles.wake_all();
    }

    /// Whether everything has ended here, or the time for it is over. Clients have most of that time to see with a reply that their
    /// connection ends.
    #[must_use]
    pub fn has_drained(&self) -> bool {
        let Some((since, over)) = *self.0.handover.handed_over() else { return false };
        let elapsed = since.elapsed();
        let is_idle = self.0.handles.are_idle();
        elapsed >= self.0.options.drain_grace
            || is_idle && (elapsed >= over || self.0.admission.connections() == 0)
    }

    /// A handle that closes the server.
    #[must_use]
    pub fn closer(&self) -> Closer {
        Closer(Arc::clone(&self.0))
    }

    /// Binds the addresses of the options.
    ///
    /// # Errors
    /// One of them cannot be bound.
    pub fn bind(&self, inherits: Inherits) -> Result<Bound, RunError> {
        // The admin address of the options was bound at the start, unless the predecessor had it.
        let admin = self.0.admin_listen.filter(|_| inherits.admin);
        Bound::bind(&self.0.options, Some(self.0.listen), admin).map(|(bound, _, _)| bound)
    }

    /// Prepares sockets of the predecessor, with the options of this process, and binds more if it has more shards.
    ///
    /// # Errors
    /// They are not listeners of its addresses, or cannot be prepared.
    pub fn inherit(&self, public: Vec<OwnedFd>, admin: Option<OwnedFd>) -> Result<Bound, RunError> {
        let (shared, options) = (&self.0, &self.0.options);
        let wrong = |what: &dyn std::fmt::Display| {
            RunError::new(format!("the listeners that were handed over cannot be used: {what}"))
        };
        let is_at = |socket: &OwnedFd, address: SocketAddr| {
            getsockname(socket).is_ok_and(|name| SocketAddr::try_from(name).is_ok_and(|name| name == address))
        };
        let mut bound = Vec::new();
        for socket in public {
            if !is_at(&socket, shared.listen) {
                return Err(wrong(&format!("one is not of {}", shared.listen)));
            }
            set_options(socket.as_fd(), options).map_err(|error| wrong(&error))?;
            bound.push(Listener { socket, kind: ListenerKind::Public });
        }
        let more = (options.cpus.len() * LISTENERS_PER_SHARD).saturating_sub(bound.len());
        let more = more_listeners(shared.listen, more, options).map_err(|error| wrong(&error))?;
        bound.extend(more.into_iter().map(|socket| Listener { socket, kind: ListenerKind::Public }));
        if let Some(socket) = admin.filter(|socket| shared.admin_listen.is_some_and(|at| is_at(socket, at))) {
            bound.push(Listener { socket, kind: ListenerKind::Admin });
        }
        Ok(Bound(bound))
    }

    /// Accepts from these listeners.
    pub fn listen_on(&self, bound: Bound) {
        listen_on(&self.0, bound);
    }
}

impl Bound {
    /// Binds addresses. Returns them with their ports, if these were 0.
    pub(super) fn bind(
        options: &Options,
        listen: Option<SocketAddr>,
        admin: Option<SocketAddr>,
    ) -> Result<(Self, Option<SocketAddr>, Option<SocketAddr>), RunError> {
        let mut all = Vec::new();
        let mut bind = |address: Option<SocketAddr>, count, kind| {
            let Some(address) = address else { return Ok(None) };
            let (address, sockets) =
                listeners(address, count, options).map_err(|error| refused(address, &error))?;
            all.extend(sockets.into_iter().map(|socket| Listener { socket, kind }));
            Ok(Some(address))
        };
        let listen = bind(listen, options.cpus.len() * LISTENERS_PER_SHARD, ListenerKind::Public)?;
        let admin = bind(admin, 1, ListenerKind::Admin)?;
        Ok((Self(all), listen, admin))
    }
}

/// Gives listeners to the shards, in turn; the first one answers operators.
pub(super) fn listen_on(shared: &Shared, bound: Bound) {
    let handles = &shared.handles.0;
    let mut shard = 0;
    let mut all = shared.handover.listeners();
    let mut clients = false;
    for listener in bound.0 {
        let listener = Arc::new(listener);
        all.push(Arc::clone(&listener));
        let to = match listener.kind {
            ListenerKind::Admin => 0,
            ListenerKind::Public => {
                clients = true;
                shard += 1;
                (shard - 1) % handles.len()
            }
        };
        handles[to].send(ShardMessage::Listen(listener));
    }
    if clients {
        shared.handover.has_now();
    }
}

fn refused(address: SocketAddr, error: &std::io::Error) -> RunError {
    let mend = if error.kind() == std::io::ErrorKind::AddrInUse {
        "stop what listens there, or choose another address"
    } else if error.kind() == std::io::ErrorKind::PermissionDenied {
        "choose a port above 1023, or give the right to bind it"
    } else {
        "choose an address of this machine"
    };
    RunError::new(format!("cannot listen on {address}: {error}; {mend}"))
}
