//! Threads, sockets and time: the only place that serves with glommio and io_uring.
//!
//! Owns one executor per shard, pinned unless the options say otherwise, each with its own listeners, which may come from another
//! process (`handover`), and start and end of the process. `serve` decides what requests of clients mean, `admin` those of
//! operators; the engine decides what watches are sent.

mod accept;
mod account;
mod admin;
mod admission;
mod audit_context;
mod census;
mod client;
mod conn;
mod delegation;
mod driver;
mod exchange;
mod handover;
mod http1;
mod http2;
mod listener;
mod memory;
mod memory_watch;
pub mod options;
mod reserve;
mod run_error;
mod shard;
mod shards;
mod shared;
mod stage;
mod status_stream;
mod sys;
mod tally;
mod telemetry;
mod upstream;
mod watch;
pub mod watchdog;

use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use glommio::{ExecutorJoinHandle, LocalExecutorBuilder, Placement};
use revcast_engine::hash::HashSeed;
use revcast_engine::limits::DRAIN_GRACE;
use revcast_engine::{RingLimits, ShardConfig};
use uuid::Uuid;

use crate::audit::Audit;
use crate::clock::Clock;
use crate::progress::Step;
use crate::serve::{App, Life};
use crate::source::command_queue::{CommandQueue, Shards};
use crate::tls;
use crate::upstream::{Current, Question, UpstreamError, UpstreamReply};
use account::Account;
use admission::Admission;
pub use handover::{Bound, Handover, Inherits};
use memory::Memory;
pub use options::{Http2Heartbeat, Options, SendMode};
use reserve::Reserve;
pub use run_error::RunError;
use shards::{ShardHandle, ShardHandles};
use shared::Shared;
use stage::HandoverState;
use upstream::UpstreamClient;

/// The configuration and parts that a server is started with.
#[derive(Debug)]
pub struct Plan {
    /// The operator's options.
    pub options: Arc<Options>,
    /// The clock that turns shards and stamps events.
    pub clock: Clock,
    /// The TLS files at the start; `None`: clients speak plain HTTP. Operators always do.
    pub tls: Option<Arc<tls::Current>>,
    /// The limit on watches.
    pub watchers_max: usize,
    /// The limit on resident memory, in bytes; `None`: no limit.
    pub memory_max: Option<u64>,
    /// Whether the source is remote, and must be asked for the newest revision.
    pub remote: bool,
    /// How `/status` names the source.
    pub source: String,
    /// The largest size of the window.
    pub ring: RingLimits,
    /// The audit log.
    pub audit: Option<Audit>,
    /// The API server beside this one.
    pub upstream: Option<Arc<Current>>,
    /// What a process that takes over gets from its predecessor; `None`: it takes over nothing, and binds its addresses.
    pub inherits: Option<Inherits>,
}

/// Between two checks of how many watches are left at the end.
const DRAIN_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A running server.
pub struct Running {
    /// The address for clients; the port is known even when the options say 0.
    pub listen: SocketAddr,
    /// The address for operators.
    pub admin_listen: Option<SocketAddr>,
    shared: Arc<Shared>,
    shards: Vec<ExecutorJoinHandle<Result<(), RunError>>>,
    source: JoinHandle<()>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("listen", &self.listen).finish_non_exhaustive()
    }
}

/// Lets a running server be closed from another thread.
#[derive(Clone, Debug)]
pub struct Closer(Arc<Shared>);

impl Closer {
    /// Announces that the server will close: it is not ready any more, and connections end with their next reply. Everything is
    /// still served.
    pub fn leave(&self) {
        self.0.app.advance(Life::Lingering);
    }

    /// Begins to close: no new connections; every watch gets a last bookmark and the last chunk, one after another over the
    /// grace, or with `at_once` as fast as they can be sent.
    pub fn close(&self, at_once: bool) {
        let over = if at_once { Duration::ZERO } else { spread(self.0.options.drain_grace) };
        // The first call decides.
        let _ = self.0.closing.set(over);
        self.0.app.advance(Life::Closing);
        self.0.handles.wake_all();
    }

    /// The same, and tells how far it is, until the watches have ended or the shards have left.
    pub fn close_and_tell(&self, at_once: bool) {
        let handles = &self.0.handles;
        let progress = &self.0.commands.stats.progress;
        let total = handles.watchers();
        self.close(at_once);
        let is_over = || handles.0.iter().all(|handle| handle.has_left.load(Ordering::Relaxed));
        progress.begin(Step::Draining);
        loop {
            let left = handles.watchers();
            progress.reach(total.saturating_sub(left) as u64, total as u64);
            if left == 0 || is_over() {
                progress.end();
                return;
            }
            std::thread::sleep(DRAIN_CHECK_INTERVAL);
        }
    }

    /// Authentication or authorization has changed: every shard checks its watches again.
    pub fn review(&self) {
        self.0.handles.wake_all();
    }
}

/// The part of the grace over which watches are ended: the rest is for sending what is pending for the last of them.
fn spread(grace: Duration) -> Duration {
    grace - (grace / 5).min(DRAIN_GRACE)
}

/// The health of a running server, for a monitor in another thread.
#[derive(Clone, Debug)]
pub struct Pulse(Arc<Shared>);

impl Pulse {
    /// How often each shard has turned so far. A healthy shard turns some times a second, whether it has work or not; one that
    /// has exited because the server ends counts as turning.
    #[must_use]
    pub fn turns(&self) -> Vec<u64> {
        let of = |handle: &ShardHandle| match handle.has_left.load(Ordering::Relaxed) {
            true => handle.heartbeat.fetch_add(1, Ordering::Relaxed),
            false => handle.heartbeat.load(Ordering::Relaxed),
        };
        self.0.handles.0.iter().map(of).collect()
    }

    /// Watches on all shards.
    #[must_use]
    pub fn watchers(&self) -> usize {
        self.0.handles.watchers()
    }

    /// The phase of the server's life. It starts until it has listeners.
    #[must_use]
    pub fn life(&self) -> Life {
        let life = self.0.app.life();
        if life == Life::Serving && !self.0.handover.has_listeners() { Life::Starting } else { life }
    }
}

/// Starts one executor per shard, and then the thread of the source, which `source` starts with the shards that it notifies.
///
/// # Errors
/// An address that cannot be bound, or a system that refuses threads or rings; nothing runs then.
pub fn start(
    plan: &Plan,
    app: App,
    commands: Arc<CommandQueue>,
    source: impl FnOnce(Arc<dyn Shards>) -> std::io::Result<JoinHandle<()>>,
) -> Result<Running, RunError> {
    let options = &plan.options;
    let (bound, listen, admin_listen) = match plan.inherits {
        None => Bound::bind(options, Some(options.listen), options.admin_listen)?,
        Some(Inherits { admin }) => {
            let (bound, _, _) = Bound::bind(options, None, options.admin_listen.filter(|_| !admin))?;
            (bound, None, options.admin_listen)
        }
    };
    let listen = listen.unwrap_or(options.listen);
    app.advance(Life::Serving);
    let handles = ShardHandles::new(options.cpus.len())
        .map_err(|error| RunError::new(format!("no eventfd: {error}")))?;
    let shared = Arc::new(Shared {
        app,
        commands,
        handles: handles.clone(),
        watchers_max: plan.watchers_max,
        options: Arc::clone(options),
        clock: plan.clock,
        admission: Admission::new(options),
        memory: Memory::new(plan.memory_max),
        account: Account::new(plan.memory_max),
        reserve: Reserve::new(),
        panics: AtomicU64::new(0),
        census: census::CensusRequests::default(),
        status_streams: AtomicUsize::new(0),
        tls: plan.tls.clone(),
        closing: OnceLock::new(),
        handover: HandoverState::default(),
        shard_config: ShardConfig {
            bookmark_interval: options.bookmark_interval,
            heartbeat_interval: options.heartbeat_interval,
            hash_seed: hash_seed(),
            ..ShardConfig::default()
        },
        remote: plan.remote,
        listen,
        admin_listen,
        source: plan.source.clone(),
        ring: plan.ring,
        audit: plan.audit.clone(),
        upstream: plan.upstream.clone(),
    });
    let mut shards = Vec::with_capacity(options.cpus.len());
    let (ready, results) = std::sync::mpsc::channel();
    for (number, &cpu) in options.cpus.iter().enumerate() {
        let cpu = options.is_pinned.then_some(cpu);
        shards.push(driver::spawn(number, cpu, Arc::clone(&shared), ready.clone())?);
    }
    drop(ready);
    // A shard whose executor cannot start sends nothing and drops its end.
    let results = results.iter().collect::<Result<Vec<()>, RunError>>()?;
    if results.len() < options.cpus.len() {
        return Err(RunError::new("a shard's executor cannot start: run `revcast doctor`".into()));
    }
    handover::listen_on(&shared, bound);
    let source = source(Arc::new(handles)).map_err(|error| {
        RunError::new(format!("no thread for the source: {error}; raise nproc (ulimit -u)"))
    })?;
    watchdog::watch(&shared);
    memory_watch::start(&shared).map_err(|error| {
        RunError::new(format!("no thread to watch over memory: {error}; raise nproc (ulimit -u)"))
    })?;
    Ok(Running { listen, admin_listen, shared, shards, source })
}

/// Asks the upstream some questions, one after another, without a running server.
///
/// # Errors
/// No executor can be started.
pub fn ask_upstream(
    current: &Arc<Current>,
    questions: Vec<Question>,
) -> Result<Vec<Result<UpstreamReply, UpstreamError>>, String> {
    let current = Arc::clone(current);
    let handles = ShardHandles::new(1).map_err(|error| error.to_string())?;
    let asked = LocalExecutorBuilder::new(Placement::Unbound).name("questions").spawn(move || async move {
        let client = Rc::new(UpstreamClient::new(current, handles, 0));
        let mut replies = Vec::with_capacity(questions.len());
        for question in questions {
            replies.push(client.ask(question).await);
        }
        replies
    });
    asked.map_err(|error| error.to_string())?.join().map_err(|error| error.to_string())
}

/// A seed that clients cannot know.
fn hash_seed() -> HashSeed {
    let (first, second) = Uuid::new_v4().as_u64_pair();
    HashSeed::new(first, second)
}

impl Running {
    /// A handle that closes the server.
    #[must_use]
    pub fn closer(&self) -> Closer {
        Closer(Arc::clone(&self.shared))
    }

    /// A handle that hands over the server's listeners, or receives them.
    #[must_use]
    pub fn handover(&self) -> Handover {
        Handover::new(Arc::clone(&self.shared))
    }

    /// A handle that reports the server's health.
    #[must_use]
    pub fn pulse(&self) -> Pulse {
        Pulse(Arc::clone(&self.shared))
    }

    /// Waits until the server has closed.
    ///
    /// # Errors
    /// A shard or the publisher's thread failed.
    pub fn join(self) -> Result<(), RunError> {
        let mut result = Ok(());
        for shard in self.shards {
            match shard.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => result = Err(error),
                Err(error) => result = Err(RunError::new(format!("a shard failed: {error}"))),
            }
        }
        self.shared.commands.close();
        if self.source.join().is_err() {
            result = Err(RunError::new("the thread of the source panicked; its message is above".into()));
        }
        result
    }
}
