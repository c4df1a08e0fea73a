//! What lives on one core: the shard, its sockets, and those on this core who wait for something.
//!
//! Owns the engine's shard and hands it what happened. Tasks of the same executor share it through one `Rc`; nothing
//! is borrowed across an await.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_lite::future;
use glommio::timer::sleep;
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;
use revcast_engine::tick::Tick;
use revcast_engine::{
    End, Ended, Memory, Object, RingLimits, Shard, ShardConfig, Start, Stats, Subscription, Timings, Turn,
    WatcherId,
};
use rustix::net::{Shutdown, shutdown};

use super::admission::Admission;
use super::handoff::{ShardHandle, ShardHandles, ShardMessage, WatchHandoff};
use super::handshake_limiter::HandshakeLimiter;
use super::metrics::Ending;
use super::options::Options;
use super::reauth::ReauthTable;
use super::request_scope::AuditContext;
use super::sends::Sends;
use super::sockets::{Arrived, ReclaimedConn, SocketEvent, Sockets};
use super::uring::Polls;
use super::wake::{Notify, Oneshot};
use super::wrap::Wrap;
use crate::audit::{Audit, Stage};
use crate::clock::Clock;
use crate::serve::{App, Host, Newest, WriteError, Written};
use crate::source::command_queue::{Answer, Asker, Command, CommandQueue};
use crate::source::epoch::Epoch;
use crate::source::{Fault, SourceError, Txn};
use crate::tls;

/// How long tasks may keep the executor from its rings, where requests arrive.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long a task that has run for that long sleeps.
const GIVE_WAY: Duration = Duration::from_micros(20);

/// Pieces of long replies that are made between two turns of a shard that has work: a piece costs a fifth to a half of a turn.
const PIECES_PER_TURN: usize = 2;

/// Between two looks for the slowest watcher.
const SLOWEST_EVERY: Duration = Duration::from_secs(1);

/// The number of the question for the newest revision; those of other commands count from zero.
const QUESTION: u64 = u64::MAX;

/// What all shards of a process share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) app: App,
    pub(super) commands: Arc<CommandQueue>,
    pub(super) handles: ShardHandles,
    pub(super) watchers_max: usize,
    pub(super) options: Arc<Options>,
    pub(super) clock: Clock,
    pub(super) admission: Arc<Admission>,
    pub(super) memory: super::memory::Memory,
    /// Requests that panicked.
    pub(super) panics: AtomicU64,
    /// What TLS begins with; `None`: clients speak plain HTTP.
    pub(super) tls: Option<Arc<tls::Current>>,
    /// Set when the server closes: over what time its watches are told.
    pub(super) closing: OnceLock<Duration>,
    pub(super) shard_config: ShardConfig,
    /// Whether the source is elsewhere, and must be asked what is newest.
    pub(super) remote: bool,
    /// Where clients connect; the port is known even when the options say 0.
    pub(super) listen: SocketAddr,
    /// Where operators do.
    pub(super) admin_listen: Option<SocketAddr>,
    /// What the source is, in words.
    pub(super) source: String,
    pub(super) ring: RingLimits,
    pub(super) audit: Option<Audit>,
}

/// The shard and its sockets: what a turn needs.
#[derive(Debug)]
struct Core {
    epoch: Arc<Epoch>,
    shard: Shard,
    sockets: Sockets,
    reauth: ReauthTable,
    /// Counts of the shards of earlier epochs.
    before: (Stats, Timings),
    /// What the audit log has still to say; nothing without one.
    audit_contexts: HashMap<WatcherId, Box<AuditContext>>,
}

/// Someone who waits for a revision.
#[derive(Debug)]
struct Waiter {
    revision: Revision,
    /// Whether it came.
    promise: Rc<Oneshot<bool>>,
}

type NewestPromise = Rc<Oneshot<Result<Newest, SourceError>>>;

/// The question for the source's newest revision, which readers of this shard share.
#[derive(Debug, Default)]
struct Question {
    /// Who waits for the one under way.
    asked: Option<Vec<NewestPromise>>,
    /// Who came since, and waits for the next.
    next: Vec<NewestPromise>,
}

/// One core's state.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) number: usize,
    pub(super) shared: Arc<Shared>,
    core: RefCell<Core>,
    /// Rung when the shard has something to do.
    pub(super) notify: Notify,
    questions: RefCell<HashMap<u64, Rc<Oneshot<Answer>>>>,
    next_ticket: Cell<u64>,
    waiters: RefCell<Vec<Waiter>>,
    question: RefCell<Question>,
    seen: Cell<Revision>,
    random: Cell<u64>,
    /// When the executor was last made to look at its rings.
    looked: Cell<Tick>,
    /// Whether that is under way: until then nobody who can wait runs on.
    looking: Cell<bool>,
    /// When the newest turn began, and whether there was more to do.
    turned: Cell<(Tick, bool)>,
    /// When the slowest watcher is looked for again.
    next_look: Cell<Tick>,
    /// Long replies that wait for the shard to make a turn.
    fairness_queue: RefCell<VecDeque<Rc<Oneshot<()>>>>,
    /// Where handshakes wait.
    handshakes: HandshakeLimiter,
    drained: Cell<bool>,
    /// Second descriptors of the public ones, until the server closes.
    listeners: RefCell<Vec<OwnedFd>>,
}

impl Local {
    pub(super) fn new(number: usize, shared: Arc<Shared>, polls: Polls, sends: Option<Sends>) -> Rc<Self> {
        let epoch = shared.app.epoch();
        let shard = Shard::new(number, epoch.feed.clone(), shared.shard_config);
        let core = Core {
            epoch,
            shard,
            sockets: Sockets::new(polls, sends),
            reauth: ReauthTable::default(),
            before: Default::default(),
            audit_contexts: HashMap::new(),
        };
        let seed = wall_nanos() ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Rc::new(Self {
            number,
            shared,
            core: RefCell::new(core),
            notify: Notify::default(),
            questions: RefCell::default(),
            next_ticket: Cell::new(0),
            waiters: RefCell::default(),
            question: RefCell::default(),
            seen: Cell::default(),
            random: Cell::new(seed | 1),
            looked: Cell::default(),
            looking: Cell::default(),
            turned: Cell::default(),
            next_look: Cell::default(),
            fairness_queue: RefCell::default(),
            handshakes: HandshakeLimiter::default(),
            drained: Cell::new(false),
            listeners: RefCell::default(),
        })
    }

    /// Keeps a second descriptor of a listener, to stop it when the server closes.
    pub(super) fn will_stop(&self, listener: OwnedFd) {
        self.listeners.borrow_mut().push(listener);
    }

    pub(super) fn handle(&self) -> &ShardHandle {
        &self.shared.handles.0[self.number]
    }

    pub(super) fn closing(&self) -> bool {
        self.shared.closing.get().is_some()
    }

    /// Whether the server closes, or is about to: connections end with their next reply.
    pub(super) fn leaving(&self) -> bool {
        self.shared.app.is_leaving()
    }

    /// Takes no connection any more: what the kernel holds for these listeners is refused. The first time only.
    pub(super) fn stop_listening(&self) {
        for listener in self.listeners.take() {
            // One that cannot be stopped goes on, and closes what it accepts.
            let _ = shutdown(&listener, Shutdown::Both);
        }
    }

    pub(super) fn now(&self) -> Tick {
        self.shared.clock.now()
    }

    /// Whether tasks have run for so long that the executor should look at its rings. It does when no task is ready: so who
    /// asks and hears yes sleeps, until it [`has_looked`](Self::has_looked), and everybody hears yes meanwhile.
    pub(super) fn must_look(&self) -> bool {
        let now = self.now();
        if now.since(self.looked.get()) >= LOOK_EVERY {
            self.looked.set(now);
            self.looking.set(true);
        }
        self.looking.get()
    }

    /// The executor has looked at its rings.
    pub(super) fn has_looked(&self) {
        self.looking.set(false);
    }

    /// The shard has made a turn: some of those who wait for that may go on; all, when it has nothing to do.
    pub(super) fn let_through(&self, idle: bool) {
        let mut fairness_queue = self.fairness_queue.borrow_mut();
        let count = if idle { fairness_queue.len() } else { PIECES_PER_TURN.min(fairness_queue.len()) };
        for promise in fairness_queue.drain(..count) {
            promise.send(());
        }
        drop(fairness_queue);
        self.handshakes.open(idle, self.now());
    }

    /// Waits for the gate of handshakes. It stays shut for others until the guard goes, also when its task panics.
    pub(super) async fn enter_gate(self: &Rc<Self>) -> Inside {
        self.notify.ring();
        self.handshakes.enter().await;
        Inside(Rc::clone(self))
    }

    /// Sends a watch to the shard that is to carry it.
    pub(super) fn hand_over(&self, arrival: WatchHandoff) {
        let home = self.shared.handles.place(&arrival.wish.scope);
        let handle = &self.shared.handles.0[home];
        handle.watchers.fetch_add(1, Ordering::Relaxed);
        // A request may know an epoch that this shard has not turned to yet: it does when it takes its letters.
        if home == self.number && arrival.wish.epoch == self.core.borrow().epoch.number {
            self.begin(arrival);
            self.notify.ring();
        } else {
            handle.post(ShardMessage::WatchHandoff(Box::new(arrival)));
        }
    }

    /// Takes what came from other threads and what the sockets told. What ended with its connection still good is
    /// appended to `released`.
    pub(super) fn absorb(&self, released: &mut Vec<ReclaimedConn>) {
        if self.core.borrow().epoch.number < self.shared.app.epochs().number() {
            self.turn_over(released);
        }
        while let Some(letter) = self.handle().inbox.pop() {
            match letter {
                ShardMessage::WatchHandoff(arrival) => {
                    // An epoch that began since, or while the shard turned to the one before it.
                    if self.core.borrow().epoch.number < arrival.wish.epoch {
                        self.turn_over(released);
                    }
                    self.begin(*arrival);
                }
                ShardMessage::Answer(QUESTION, answer) => self.newest_is(answer),
                ShardMessage::Answer(ticket, answer) => {
                    if let Some(promise) = self.questions.borrow_mut().remove(&ticket) {
                        promise.send(answer);
                    }
                }
            }
        }
        {
            let now = self.now();
            let core = &mut *self.core.borrow_mut();
            let Core { shard, sockets, reauth, audit_contexts, .. } = core;
            sockets.reap(now, |id, news| match news {
                SocketEvent::Writable => shard.writable(id),
                SocketEvent::Gone { stalled } => {
                    reauth.remove(id);
                    if let Some(end) = shard.forget(id) {
                        self.count_ended(audit_contexts, id, Ending::of(end, stalled));
                    }
                }
            });
            self.count_gone(sockets);
            let guard = self.shared.app.guard();
            reauth.review(
                guard.number(),
                |pass| guard.still_allows(pass),
                |id| {
                    shard.dismiss(id, End::Dismissed);
                },
            );
        }
        self.tell_waiters();
        if let Some(over) = self.shared.closing.get().copied()
            && !self.drained.replace(true)
        {
            self.stop_listening();
            self.core.borrow_mut().shard.drain(over, self.now());
        }
    }

    /// Does a little for the watches. What ended with its connection still good is appended to `released`.
    pub(super) fn turn(&self, released: &mut Vec<ReclaimedConn>) -> Turn {
        let now = self.now();
        if let (last, true) = self.turned.get() {
            self.handle().tally.turn_delay.observe(now.since(last));
        }
        let core = &mut *self.core.borrow_mut();
        let turn = core.shard.turn(&mut core.sockets, now);
        self.turned.set((now, turn == Turn::Again));
        while let Some(Ended { id, clean, why }) = core.shard.poll_ended() {
            core.reauth.remove(id);
            self.count_ended(&mut core.audit_contexts, id, Ending::of(why, false));
            released.extend(core.sockets.part(id, clean, now));
        }
        self.count_gone(&mut core.sockets);
        turn
    }

    /// A watch counts until its socket is gone, also when that is still owed the end of its stream: the server waits for it.
    fn count_gone(&self, sockets: &mut Sockets) {
        let gone = sockets.take_gone();
        if gone > 0 {
            self.handle().watchers.fetch_sub(gone, Ordering::Relaxed);
        }
    }

    /// Hands what is polled for to the kernel, and the counts to whoever reads them.
    pub(super) fn flush(&self, turn: Turn) {
        let mut core = self.core.borrow_mut();
        core.sockets.submit();
        let handle = self.handle();
        let (stats, timings) = &core.before;
        handle.stats.store(&stats.plus(&core.shard.stats()));
        let (now, _) = self.turned.get();
        handle.tally.turned(now);
        handle.tally.revision.store(core.shard.revision().get(), Ordering::Relaxed);
        let due = now >= self.next_look.get();
        // Not each turn: these are a hundred numbers.
        if due || turn != Turn::Again {
            handle.tally.put_timings(&timings.plus(&core.shard.timings()));
        }
        if due {
            self.next_look.set(now.plus(SLOWEST_EVERY));
            let Memory { watchers, pages } = core.shard.memory();
            let memory = Memory { watchers: watchers + core.sockets.bytes(), pages };
            handle.tally.put_look(core.shard.lag(now), core.shard.blocked(), memory);
        }
    }

    /// A watch is over: counted, and written down.
    fn count_ended(
        &self,
        audit_contexts: &mut HashMap<WatcherId, Box<AuditContext>>,
        id: WatcherId,
        ending: Ending,
    ) {
        self.handle().tally.ended(ending, 1);
        if let Some(audit_context) = audit_contexts.remove(&id) {
            self.end_trail(&audit_context, ending.name());
        }
    }

    fn end_trail(&self, audit_context: &AuditContext, ended: &str) {
        if let Some(audit) = &self.shared.audit {
            audit.note(&audit_context.entry, Stage::ResponseComplete, audit_context.code, Some(ended));
        }
    }

    /// The process ends: what is open is cut, and written down as that.
    pub(super) fn cut_trails(&self) {
        for (_, audit_context) in self.core.borrow_mut().audit_contexts.drain() {
            self.end_trail(&audit_context, "cut");
        }
    }

    /// Whether there is something to do now; asked between lying down and sleeping.
    pub(super) fn has_work(&self) -> bool {
        let mut core = self.core.borrow_mut();
        !self.handle().inbox.is_empty()
            || core.epoch.number < self.shared.app.epochs().number()
            || core.shard.has_work()
            || core.sockets.told()
            || core.reauth.has_work(self.shared.app.guard().number())
            || (self.seen.get() < core.epoch.feed.revision() && !self.waiters.borrow().is_empty())
            || (self.closing() && !self.drained.get())
    }

    /// How long the shard may sleep when it need not turn before `until`, as far as the clock says.
    pub(super) fn rest(&self, until: Option<Tick>) -> Option<Duration> {
        let due = [until, self.core.borrow().sockets.due()].into_iter().flatten().min();
        due.map(|due| due.since(self.now()))
    }

    /// Counts a request as under way until the guard goes, also when its task panics.
    pub(super) fn begin_request(self: &Rc<Self>) -> Busy {
        self.handle().requests.fetch_add(1, Ordering::AcqRel);
        Busy(Rc::clone(self))
    }

    fn begin(&self, arrival: WatchHandoff) {
        let WatchHandoff { socket, keys, wish, leftover, keep_alive, watch_permit, audit_context } = arrival;
        let now = self.now();
        let jitter = self.next_random().to_le_bytes()[0];
        let core = &mut *self.core.borrow_mut();
        // What was asked in another epoch is answered as from before the window of this one.
        let start = if wish.epoch == core.epoch.number { wish.start } else { Start::After(Revision::ZERO) };
        let id = core.shard.subscribe(
            Subscription {
                scope: wish.scope,
                selector: wish.selector,
                encoding: wish.encoding,
                framing: wish.wire.framing(),
                start,
                bookmarks: wish.bookmarks,
                deadline: now.plus(wish.timeout),
                jitter,
                as_of_seconds: wall_nanos() / 1_000_000_000,
            },
            now,
        );
        let wrap = Wrap::new(&wish.wire, keys);
        core.sockets.insert(id, Arrived { fd: socket, leftover, keep_alive, wrap, watch_permit });
        if let Some(audit_context) = audit_context {
            core.audit_contexts.insert(id, audit_context);
        }
        if let Some(pass) = wish.pass {
            core.reauth.put(id, pass);
        }
        if self.drained.get() {
            core.shard.dismiss(id, End::Drained);
        }
    }

    /// Ends every watch of the old epoch with a 410 and begins the new one. A watch whose socket is full, or that is
    /// inside a frame, is cut off instead: it never sees the new epoch as if it were the old one's.
    fn turn_over(&self, released: &mut Vec<ReclaimedConn>) {
        let now = self.now();
        let epoch = self.shared.app.epoch();
        let mut core = self.core.borrow_mut();
        let core = &mut *core;
        core.shard.abandon(now);
        while core.shard.turn(&mut core.sockets, now) == Turn::Again {}
        while let Some(Ended { id, clean, why }) = core.shard.poll_ended() {
            self.count_ended(&mut core.audit_contexts, id, Ending::of(why, false));
            released.extend(core.sockets.part(id, clean, now));
        }
        let mut stats = core.shard.stats();
        // Those whose sockets are full are cut off below.
        stats.watches_ended += stats.watchers;
        self.handle().tally.ended(Ending::Epoch, stats.watchers);
        for (_, audit_context) in core.audit_contexts.drain() {
            self.end_trail(&audit_context, Ending::Epoch.name());
        }
        (stats.watchers, stats.live, stats.classes) = (0, 0, 0);
        core.before = (core.before.0.plus(&stats), core.before.1.plus(&core.shard.timings()));
        // The old sockets are closed first: the new ring needs a descriptor. Polls of the old ring can never be taken for
        // polls of new watches.
        core.sockets.close();
        core.reauth.clear();
        self.count_gone(&mut core.sockets);
        let polls = Polls::new(self.handle().wake.descriptor());
        let polls = polls.unwrap_or_else(|error| {
            panic!(
                "shard {} cannot go on in a new epoch without an io_uring: {error}; run `revcast doctor`",
                self.number
            )
        });
        core.sockets.renew(polls);
        core.shard = Shard::new(self.number, epoch.feed.clone(), self.shared.shard_config);
        core.epoch = epoch;
        self.seen.set(Revision::ZERO);
        for waiter in self.waiters.borrow_mut().drain(..) {
            waiter.promise.send(false);
        }
    }

    fn tell_waiters(&self) {
        let revision = self.core.borrow().epoch.feed.revision();
        if self.seen.replace(revision) == revision {
            return;
        }
        self.waiters.borrow_mut().retain(|waiter| {
            let reached = waiter.revision <= revision;
            if reached {
                waiter.promise.send(true);
            }
            !reached
        });
    }

    /// Asks the publisher's thread and waits for its answer. `None`: too many wait already.
    pub(super) async fn ask(&self, command: impl FnOnce(Asker) -> Command) -> Option<Answer> {
        let ticket = self.next_ticket.replace(self.next_ticket.get() + 1);
        let promise = Rc::new(Oneshot::new());
        self.questions.borrow_mut().insert(ticket, Rc::clone(&promise));
        if self.shared.commands.submit(command(Asker { shard: self.number, ticket })).is_err() {
            self.questions.borrow_mut().remove(&ticket);
            return None;
        }
        Some(promise.received().await)
    }

    /// Asks for the newest revision on behalf of all who wait, unless that is under way: a question serves only those
    /// who were there when it was asked.
    fn put_question(&self) {
        let mut question = self.question.borrow_mut();
        if question.asked.is_some() || question.next.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut question.next);
        let asker = Asker { shard: self.number, ticket: QUESTION };
        if self.shared.commands.submit(Command::Newest(asker)).is_ok() {
            question.asked = Some(waiting);
        } else {
            for promise in waiting {
                promise.send(Err(too_many()));
            }
        }
    }

    /// The question was answered.
    fn newest_is(&self, answer: Answer) {
        let answer = match answer {
            Answer::Newest { epoch, revision } => Ok(Newest { epoch, revision }),
            Answer::Unanswered(error) => Err(error),
            Answer::Written(..)
            | Answer::Refused(_)
            | Answer::Compacted(_)
            | Answer::NotCompacted(_)
            | Answer::Found(_) => Err(something_else()),
        };
        for promise in self.question.borrow_mut().asked.take().unwrap_or_default() {
            promise.send(answer.clone());
        }
        self.put_question();
    }

    fn next_random(&self) -> u64 {
        // xorshift64*: spreads jitter and names; no secret hangs on it.
        let mut x = self.random.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Busy(Rc<Local>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.handle().requests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A step of a handshake.
#[derive(Debug)]
pub(super) struct Inside(Rc<Local>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.handshakes.leave(self.0.now());
        // The shard lets the next one in.
        self.0.notify.ring();
    }
}

impl Host for Local {
    async fn wait_for(&self, revision: Revision, within: Duration) -> bool {
        if self.core.borrow().epoch.feed.revision() >= revision {
            return true;
        }
        let promise = Rc::new(Oneshot::new());
        self.waiters.borrow_mut().push(Waiter { revision, promise: Rc::clone(&promise) });
        let came = promise.received();
        let late = async {
            sleep(within).await;
            false
        };
        let in_time = future::or(came, late).await;
        self.waiters.borrow_mut().retain(|waiter| !Rc::ptr_eq(&waiter.promise, &promise));
        in_time
    }

    async fn write(&self, txn: Txn) -> Result<Written, WriteError> {
        match self.ask(|asker| Command::Write(txn, asker)).await {
            None => Err(WriteError::Busy),
            Some(Answer::Written(revision, objects)) => Ok(Written { revision, objects }),
            Some(Answer::Refused(error)) => Err(WriteError::Refused(error)),
            Some(_) => Err(WriteError::Closed),
        }
    }

    async fn newest(&self, within: Duration) -> Result<Newest, SourceError> {
        if !self.shared.remote {
            // The embedded store publishes before it answers a writer.
            let epoch = &self.core.borrow().epoch;
            return Ok(Newest { epoch: epoch.number, revision: epoch.feed.revision() });
        }
        let promise = Rc::new(Oneshot::new());
        self.question.borrow_mut().next.push(Rc::clone(&promise));
        self.put_question();
        let late = async {
            sleep(within).await;
            let why = format!("the source did not say its revision within {} s", within.as_secs());
            Err(SourceError::new(Fault::Unavailable, why))
        };
        let answer = future::or(promise.received(), late).await;
        // Who gave up is not kept.
        self.question.borrow_mut().next.retain(|waiting| !Rc::ptr_eq(waiting, &promise));
        answer
    }

    async fn get(&self, key: &Key) -> Result<Option<Arc<Object>>, SourceError> {
        if !self.shared.remote {
            return Ok(self.core.borrow().epoch.feed.snapshot().get(key).cloned());
        }
        match self.ask(|asker| Command::Get(key.clone(), asker)).await {
            Some(Answer::Found(object)) => Ok(object),
            Some(Answer::Unanswered(error)) => Err(error),
            Some(_) => Err(something_else()),
            None => Err(too_many()),
        }
    }

    async fn yield_now(&self) {
        if self.core.borrow().shard.has_work() {
            let promise = Rc::new(Oneshot::new());
            self.fairness_queue.borrow_mut().push_back(Rc::clone(&promise));
            promise.received().await;
        } else if self.must_look() {
            // A sleep, however short, takes the executor to its rings.
            sleep(GIVE_WAY).await;
            self.has_looked();
        } else {
            future::yield_now().await;
        }
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn random(&self) -> u64 {
        self.next_random()
    }
}

fn too_many() -> SourceError {
    SourceError::new(Fault::Unavailable, "too many requests wait for the source: try again")
}

fn something_else() -> SourceError {
    SourceError::new(Fault::Broken, "the source answered another question than was asked: this is a bug")
}

fn wall_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
