//! What the tasks of one core share: its shard, the source, and what they wait for.
//!
//! Tasks of the same executor reach it through one `Rc`; nothing is borrowed across an await.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use revcast_engine::Object;
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;
use revcast_engine::tick::Tick;

use super::core::Core;
use super::handshake_limiter::HandshakeLimiter;
use super::request_gate::RequestGate;
use super::revision_waiters::RevisionWaiters;
use super::scheduling::Scheduling;
use super::source_client::{SourceClient, something_else, too_many};
use crate::frontend::{Host, Newest, WriteError};
use crate::runtime::client::Client;
use crate::runtime::conn::{Http2Timing, Link};
use crate::runtime::listener::{Listener, Listeners};
use crate::runtime::shards::{ShardHandle, ShardMessage, WatchHandoff};
use crate::runtime::shared::Shared;
use crate::runtime::stage::Stage;
use crate::runtime::sys::notify::Notify;
use crate::runtime::sys::polls::Polls;
use crate::runtime::sys::sends::Sends;
use crate::runtime::upstream::UpstreamClient;
use crate::runtime::watch::Carrying;
use crate::source::command_queue::{Answer, Asker, Command};
use crate::source::{SourceError, Txn};
use crate::upstream::{Question, UpstreamError, UpstreamReply};

/// One core's state.
#[derive(Debug)]
pub(in crate::runtime) struct Local {
    pub(in crate::runtime) number: usize,
    pub(in crate::runtime) shared: Arc<Shared>,
    pub(in crate::runtime) core: RefCell<Core>,
    /// Notified when the shard has work.
    pub(in crate::runtime) notify: Rc<Notify>,
    source: SourceClient,
    waiters: RevisionWaiters,
    scheduling: Scheduling,
    /// The queue of requests.
    requests: RequestGate,
    /// The same for new connections: however many requests wait, these are accepted.
    accepts: RequestGate,
    /// The queue of handshakes.
    pub(in crate::runtime) handshakes: Rc<HandshakeLimiter>,
    /// Draws jitter and generated names; no secret depends on it.
    random: RefCell<fastrand::Rng>,
    pub(in crate::runtime) listeners: Listeners,
    /// Listeners whose tasks are to be started.
    new_listeners: RefCell<Vec<Arc<Listener>>>,
    /// The connections to the upstream; `None`: there is none.
    pub(in crate::runtime) upstream: Option<Rc<UpstreamClient>>,
    has_stopped: Cell<bool>,
}

impl Local {
    pub(in crate::runtime) fn new(
        number: usize,
        shared: Arc<Shared>,
        polls: Polls,
        sends: Option<Sends>,
        listeners: Listeners,
    ) -> Rc<Self> {
        let clock = shared.clock;
        let notify = Rc::new(Notify::default());
        Rc::new(Self {
            number,
            core: RefCell::new(Core::new(number, Arc::clone(&shared), polls, sends)),
            source: SourceClient::new(number, Arc::clone(&shared.commands)),
            waiters: RevisionWaiters::default(),
            scheduling: Scheduling::new(clock),
            requests: RequestGate::new(Rc::clone(&notify)),
            accepts: RequestGate::new(Rc::clone(&notify)),
            handshakes: HandshakeLimiter::new(clock, Rc::clone(&notify)),
            notify,
            random: RefCell::new(fastrand::Rng::new()),
            listeners,
            new_listeners: RefCell::default(),
            upstream: shared
                .upstream
                .clone()
                .map(|current| Rc::new(UpstreamClient::new(current, shared.handles.clone(), number))),
            has_stopped: Cell::new(false),
            shared,
        })
    }

    /// Listeners that were added.
    pub(in crate::runtime) fn take_new_listeners(&self) -> Vec<Arc<Listener>> {
        self.new_listeners.take()
    }

    pub(in crate::runtime) fn handle(&self) -> &ShardHandle {
        &self.shared.handles.0[self.number]
    }

    pub(in crate::runtime) fn closing(&self) -> bool {
        self.shared.closing.get().is_some()
    }

    /// Whether the server closes, or is about to: connections end with their next reply.
    pub(in crate::runtime) fn leaving(&self) -> bool {
        self.shared.app.is_leaving()
    }

    /// Whether another process has taken over: clients are to connect to that one.
    pub(in crate::runtime) fn has_successor(&self) -> bool {
        self.shared.handover.stage() == Stage::HandedOver
    }

    /// Accepts, or does not, as the process was told.
    fn follow_handover(&self) {
        let pauses = self.shared.handover.stage() != Stage::Accepts;
        if pauses == self.listeners.is_paused() {
            return;
        }
        if pauses {
            self.listeners.pause()
        } else {
            self.listeners.resume()
        }
        self.handle().is_paused.store(pauses, Ordering::Release);
    }

    pub(in crate::runtime) fn now(&self) -> Tick {
        self.shared.clock.now()
    }

    /// See [`Scheduling::must_look`].
    pub(in crate::runtime) fn must_look(&self) -> bool {
        self.scheduling.must_look()
    }

    /// See [`Scheduling::is_looking`].
    pub(in crate::runtime) const fn is_looking(&self) -> bool {
        self.scheduling.is_looking()
    }

    /// See [`Scheduling::has_looked`].
    pub(in crate::runtime) fn has_looked(&self) {
        self.scheduling.has_looked();
    }

    /// Waits until a request may begin, or go on after a wait for something else.
    pub(in crate::runtime) async fn pass(&self) {
        self.pass_at(&self.requests).await;
    }

    /// Waits until another connection may be accepted.
    pub(in crate::runtime) async fn pass_accepted(&self) {
        self.pass_at(&self.accepts).await;
    }

    async fn pass_at(&self, gate: &RequestGate) {
        let now = self.now();
        if !gate.is_open(now) {
            self.core.borrow_mut().turn_if_late(now);
            gate.wait().await;
        }
    }

    /// What was let through has run.
    pub(in crate::runtime) fn have_run(&self, now: Tick) {
        self.requests.have_run(now);
        self.accepts.have_run(now);
    }

    /// The shard has made a turn, which began then: some of the tasks that wait for that continue; all of those that are in the
    /// middle of a reply, if it has no work. Whether some wait for another turn.
    pub(in crate::runtime) fn let_through(&self, idle: bool, began: Tick) -> bool {
        let now = self.now();
        self.scheduling.turned(idle);
        self.handshakes.open(idle, now);
        for gate in [&self.requests, &self.accepts] {
            gate.open(now.since(began), now);
        }
        self.requests.is_waiting() || self.accepts.is_waiting()
    }

    /// Sends a watch to the shard that will carry it.
    pub(in crate::runtime) fn hand_over(&self, handoff: WatchHandoff) {
        let home = match &handoff.carrying {
            Carrying::Link(_) => self.shared.handles.place(&handoff.request.subscription.scope),
            // The connection has other streams: it stays.
            Carrying::Stream(..) => self.number,
        };
        let handle = &self.shared.handles.0[home];
        handle.watchers.fetch_add(1, Ordering::Relaxed);
        // A request may refer to an epoch that this shard has not begun: it does when it handles its messages.
        if home == self.number && handoff.request.epoch == self.core.borrow().epoch().number {
            self.core.borrow_mut().begin(handoff, self.now());
            self.notify.ring();
        } else {
            handle.send(ShardMessage::WatchHandoff(Box::new(handoff)));
        }
    }

    /// Takes over a connection whose client speaks HTTP/2, with what was read of it, from the preface on.
    pub(in crate::runtime) fn open_http2(&self, link: Link, client: Rc<Client>) {
        let options = &self.shared.options;
        let timing = Http2Timing { idle_timeout: options.idle_timeout, ping_after: options.ping_after() };
        self.core.borrow_mut().conns().open_http2(link, client, options.http2_limits(), timing, self.now());
        self.notify.ring();
    }

    /// Handles messages of other threads and events of connections.
    pub(in crate::runtime) fn absorb(&self) {
        if self.core.borrow().is_outdated() {
            self.turn_over();
        }
        while let Some(message) = self.handle().inbox.pop() {
            match message {
                ShardMessage::WatchHandoff(handoff) => {
                    // An epoch that began since, or while the shard began the one before it.
                    if self.core.borrow().epoch().number < handoff.request.epoch {
                        self.turn_over();
                    }
                    self.core.borrow_mut().begin(*handoff, self.now());
                }
                ShardMessage::Answer(ticket, answer) => self.source.answered(ticket, answer),
                ShardMessage::Listen(listener) => self.new_listeners.borrow_mut().push(listener),
            }
        }
        self.listeners.reap();
        self.follow_handover();
        self.core.borrow_mut().absorb(self.now());
        let revision = self.core.borrow().feed().revision();
        self.waiters.tell(revision);
        if self.closing() && !self.has_stopped.replace(true) {
            // What another process has too is not to be stopped for it.
            if !self.has_successor() {
                self.listeners.stop();
            }
        }
    }

    fn turn_over(&self) {
        self.core.borrow_mut().turn_over(self.now());
        self.waiters.give_up();
    }

    /// Whether there is work now; checked between preparing to sleep and sleeping.
    pub(in crate::runtime) fn has_work(&self) -> bool {
        let mut core = self.core.borrow_mut();
        let pauses = self.shared.handover.stage() != Stage::Accepts;
        pauses != self.listeners.is_paused()
            || !self.handle().inbox.is_empty()
            || core.has_work()
            || self.waiters.has_work(core.feed().revision())
    }

    /// How long the shard may sleep if it need not turn before `until`.
    pub(in crate::runtime) fn rest(&self, until: Option<Tick>) -> Option<Duration> {
        let due = [until, self.core.borrow().due()].into_iter().flatten().min();
        due.map(|due| due.since(self.now()))
    }

    /// Sends a command to the thread of the source and waits for its answer. `None`: too many wait already.
    pub(in crate::runtime) async fn ask(&self, command: impl FnOnce(Asker) -> Command) -> Option<Answer> {
        self.source.ask(command).await
    }
}

impl Host for Local {
    async fn wait_for(&self, revision: Revision, within: Duration) -> bool {
        let newest = self.core.borrow().feed().revision();
        newest >= revision || self.waiters.wait(revision, within).await
    }

    async fn write(&self, txn: Txn) -> Result<Revision, WriteError> {
        match self.ask(|asker| Command::Write(txn, asker)).await {
            None => Err(WriteError::Busy),
            Some(Answer::Written(revision)) => Ok(revision),
            Some(Answer::Refused(error)) => Err(WriteError::Refused(error)),
            Some(_) => Err(WriteError::Closed),
        }
    }

    async fn newest(&self, within: Duration) -> Result<Newest, SourceError> {
        if !self.shared.remote {
            // The embedded store publishes before it answers a writer.
            let core = self.core.borrow();
            return Ok(Newest { epoch: core.epoch().number, revision: core.feed().revision() });
        }
        self.source.newest(within).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Arc<Object>>, SourceError> {
        if !self.shared.remote {
            return Ok(self.core.borrow().feed().snapshot().get(key).cloned());
        }
        match self.ask(|asker| Command::Get(key.clone(), asker)).await {
            Some(Answer::Found(object)) => Ok(object),
            Some(Answer::Unanswered(error)) => Err(error),
            Some(_) => Err(something_else()),
            None => Err(too_many()),
        }
    }

    async fn ask_upstream(&self, question: Question) -> Result<UpstreamReply, UpstreamError> {
        let client = self.upstream.as_ref().ok_or(UpstreamError::Absent)?;
        // A question and its answer cost as much as a request.
        self.pass().await;
        let asked = client.ask(question).await;
        self.pass().await;
        if let Err(error) = &asked {
            self.handle().tally.upstream.failed(error);
        }
        asked
    }

    async fn yield_now(&self) {
        let busy = self.core.borrow().is_busy();
        self.scheduling.yield_now(busy).await;
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn random(&self) -> u64 {
        self.random.borrow_mut().u64(..)
    }
}
