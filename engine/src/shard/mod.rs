//! All that one core owns: its watchers, and one pass over the work to do for them.
//!
//! A shard is a plain value. Its driver calls [`Shard::turn`] while it returns [`Turn::Again`], reports what happened
//! ([`Shard::subscribe`], [`Shard::writable`], [`Shard::forget`], [`Shard::drain`]) and asks which watches ended
//! ([`Shard::poll_ended`]). A turn is short: at most [`Outlet::deliveries_per_turn`] (up to twice as many
//! where a group would be cut), one page or [`crate::limits::LOOKS_PER_TURN`] looks at classes, so that the driver can
//! check its sockets and the clock between two turns. It never waits, and knows no socket: bytes go to an [`Outlet`].
//!
//! One file per concern: `table` holds the watchers, `interest` finds classes, `start` begins watches, `forming` sorts
//! events into runs, `dispatch` serves live watchers, `catchup` those that lag, `trail` knows which events those look at, `fallen` keeps the window open for
//! watches that were live a moment ago, `bookmark` has the timers, `heartbeat` serves idle watches, `evict` ends
//! watches, `drain` closes the shard; `run` is what is offered at once, `indexed_heap` keeps slots in order, `timings`
//! measures, `census` counts watches by what they watch.

mod bookmark;
mod budget;
mod catchup;
mod census;
mod dispatch;
mod drain;
mod evict;
mod fallen;
mod forming;
mod heartbeat;
mod indexed_heap;
mod interest;
mod round;
mod run;
mod start;
mod stats;
mod table;
mod timings;
mod trail;

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::encoding::{Encoding, Failure};
use crate::failpoints::{Failpoint, is_on};
use crate::feed::Feed;
use crate::hash::HashSeed;
use crate::limits::{self, SENDS_PER_TURN};
use crate::message::Message;
use crate::object::Object;
use crate::revision::{Position, Revision};
use crate::tick::Tick;
use crate::watcher::class::ClassKey;
use crate::watcher::{End, Phase, QueueState, WatcherId};

use budget::Budget;
use catchup::Page;
pub use census::{Census, PhaseCounts, PhaseName, Slow};
use drain::Drain;
use fallen::Fallen;
use heartbeat::Quiet;
use indexed_heap::IndexedHeap;
use round::{Forming, Round, Stage};
pub use run::Run;
pub use stats::Stats;
use table::Table;
pub use timings::{Lag, Memory, Timings};

/// The result of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// So many bytes were taken. If fewer than offered, there is no room for more, and the driver calls
    /// [`Shard::writable`] when there is again.
    Took(usize),
    /// The peer closed the connection. The shard forgets the watch and reports its end.
    Gone,
}

/// Anything that takes messages: the driver's connections in a server, pipes in the simulator.
///
/// An outlet may take any part of what it is offered, or always whole messages, depending on its wire. Bytes that it
/// took are never offered again.
pub trait Outlet {
    /// Offers messages to one watcher.
    fn send(&mut self, to: WatcherId, run: Run<'_>) -> Sent;

    /// Offers the same messages to several watchers and appends the result of each to `sent`, in order.
    fn send_each(&mut self, to: &[WatcherId], run: Run<'_>, sent: &mut Vec<Sent>) {
        for id in to {
            sent.push(self.send(*id, run));
        }
    }

    /// Whether some watchers are best served one after another, because their messages go out together.
    fn has_groups(&self) -> bool {
        false
    }

    /// The place of a watcher in the order in which they are best served, if there are groups: those of a group follow one
    /// another.
    fn order_of(&self, _: WatcherId) -> u64 {
        0
    }

    /// Whether two watchers that follow one another in that order are of one group.
    fn are_together(&self, _: WatcherId, _: WatcherId) -> bool {
        false
    }

    /// How many deliveries the outlet makes in the time of [`SENDS_PER_TURN`] sends: more where several go out in one.
    fn deliveries_per_turn(&self) -> usize {
        SENDS_PER_TURN
    }

    /// Sends each of them a heartbeat. They are all between two messages. A watcher without room needs none and takes 0
    /// bytes; a heartbeat that was sent in part is completed by the outlet.
    fn heartbeat(&mut self, to: &[WatcherId], sent: &mut Vec<Sent>);

    /// Ends the stream of a watcher that is between two messages. The outlet sends the end of its wire's stream itself,
    /// and returns how many bytes that is.
    fn end(&mut self, to: WatcherId) -> Sent;
}

/// A watch that is over. Its slot may be used again from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its id.
    pub id: WatcherId,
    /// Whether the outlet ended its stream, so that the connection can carry another request. Otherwise it
    /// must be closed.
    pub clean: bool,
    /// The reason.
    pub why: End,
}

/// What a driver should do after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There is more to do now.
    Again,
    /// Nothing to do before this time, or before something happens.
    Sleep {
        /// `None`: only when something happens.
        until: Option<Tick>,
    },
}

/// Settings of a shard.
#[derive(Clone, Copy, Debug)]
pub struct ShardConfig {
    /// Time between two bookmarks of one watcher.
    pub bookmark_interval: Duration,
    /// How long a watch is idle before it gets a heartbeat; `None`: it never gets one.
    pub heartbeat_interval: Option<Duration>,
    /// How many looks a turn takes while it sorts events into runs: [`limits::LOOKS_PER_TURN`], fewer in tests.
    pub looks_per_turn: usize,
    /// Messages that are joined for one send: [`limits::RUN_MESSAGES`], fewer in tests.
    pub run_messages: usize,
    /// The seed of hash maps whose keys clients choose. A server draws it.
    pub hash_seed: HashSeed,
}

impl Default for ShardConfig {
    fn default() -> Self {
        Self {
            bookmark_interval: limits::BOOKMARK_INTERVAL_DEFAULT,
            heartbeat_interval: Some(limits::HEARTBEAT_INTERVAL_DEFAULT),
            looks_per_turn: limits::LOOKS_PER_TURN,
            run_messages: limits::RUN_MESSAGES,
            hash_seed: HashSeed::FIXED,
        }
    }
}

/// All that one core owns.
pub struct Shard {
    number: usize,
    feed: Feed,
    config: ShardConfig,
    table: Table,
    /// Everything before was dispatched (by the round under way, if there is one).
    dispatched: Position,
    /// The revision up to which everything was dispatched.
    revision: Revision,
    round: Round,
    fallen: Fallen,
    budget: Budget,
    /// Watchers that lag and can be sent something.
    behind: VecDeque<WatcherId>,
    /// Watchers that lag and whose sockets are full, by their position.
    blocked: IndexedHeap<Position>,
    /// Watchers that wait for a revision.
    parked: BTreeSet<(Revision, WatcherId)>,
    drain: Drain,
    /// The last turn went to timers or draining: the next goes to events, however many timers are due.
    tended: bool,
    /// The source's history is lost: see [`Shard::abandon`].
    abandoned: bool,
    ended: VecDeque<Ended>,
    page: Page,
    quiet: Quiet,
    stats: Stats,
    timings: Timings,
}

impl Shard {
    /// Shard `number` of those that the feed was made for, without watchers, at the newest published position.
    #[must_use]
    pub fn new(number: usize, feed: Feed, config: ShardConfig) -> Self {
        let snapshot = feed.snapshot();
        let shard = Self {
            number,
            table: Table::new(feed.schema.len(), config.hash_seed, snapshot.position()),
            dispatched: snapshot.position(),
            revision: snapshot.revision(),
            round: Round::default(),
            fallen: Fallen::default(),
            budget: Budget::new(),
            behind: VecDeque::new(),
            blocked: IndexedHeap::new(),
            parked: BTreeSet::new(),
            drain: Drain::default(),
            tended: false,
            abandoned: false,
            ended: VecDeque::new(),
            page: Page::default(),
            quiet: Quiet::default(),
            stats: Stats::default(),
            timings: Timings::default(),
            config,
            feed,
        };
        shard.feed.report(number, shard.dispatched);
        shard
    }

    /// The socket has room again.
    pub fn writable(&mut self, id: WatcherId) {
        if self.table.get(id).is_some_and(|watcher| watcher.place == QueueState::Blocked) {
            self.queue(id);
        }
    }

    /// The peer closed the connection: removes every trace of the watch. No end is reported; the result is the reason
    /// of the end, or `None` when there is no such watch.
    pub fn forget(&mut self, id: WatcherId) -> Option<End> {
        let end = self.remove(id)?;
        self.stats.watches_ended += 1;
        Some(end)
    }

    /// Abandons the shard: the source's history is lost (another cluster, a restore, a gap), so nothing can continue
    /// from what was published. Every watch gets 410 if it is between two messages and is cut off otherwise, and
    /// every later [`Shard::subscribe`] gets 410 immediately. Call [`Shard::turn`] until all ends are sent, and
    /// [`Shard::poll_ended`] before the next watch begins, since a watch that is cut off frees its slot here.
    ///
    /// Costs a little for every watch, at once: no watch gets another event or bookmark.
    pub fn abandon(&mut self, now: Tick) {
        if self.abandoned {
            return;
        }
        self.abandoned = true;
        self.break_off_round();
        let ids: Vec<WatcherId> = self.table.ids().collect();
        for id in ids {
            if is_on(Failpoint::LiveWatchKept)
                && self.table.get(id).is_some_and(|watcher| matches!(watcher.phase, Phase::Live))
            {
                continue;
            }
            self.give_up(id, now);
        }
    }

    /// The next watch that is over.
    pub fn poll_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    /// Does one short piece of work: see the module's documentation.
    pub fn turn(&mut self, outlet: &mut impl Outlet, now: Tick) -> Turn {
        self.budget.settle(now);
        self.fallen.set_now(now);
        self.measure(now);
        // Nothing else before the round is over: each live watcher is owed all of it, and none joins meanwhile.
        if matches!(self.round.stage, Stage::Serving) {
            self.deliver(outlet, now);
            return Turn::Again;
        }
        if let Stage::Forming(forming) = std::mem::take(&mut self.round.stage) {
            self.form_round(forming, now);
            return Turn::Again;
        }
        self.wake_parked(now);
        self.evict_lapped(now);
        self.tend_fallen();
        self.tended = !self.tended && (self.drain_some(outlet, now) | self.tend_due(outlet, now));
        if self.tended {
            return Turn::Again;
        }
        let waiting = self.feed.ring.head() > self.dispatched;
        if waiting {
            // The newest events go to live watchers first; then time is granted to those that lag.
            if self.round.just_ended
                && !self.behind.is_empty()
                && self.budget.grant(now, self.fair_slice(now))
            {
                self.catch_up_next(outlet, now);
                return Turn::Again;
            }
            self.budget.give_back();
            self.round.began = now;
            self.round.just_ended = false;
            self.form_round(Forming::new(&self.feed.ring, self.dispatched, self.revision), now);
            return Turn::Again;
        }
        self.budget.give_back();
        self.follow_progress();
        if !self.behind.is_empty() {
            // Nothing newer waits: catching up delays no watcher.
            self.catch_up_next(outlet, now);
            return Turn::Again;
        }
        if self.parked.first().is_some_and(|(floor, _)| *floor <= self.revision) {
            return Turn::Again;
        }
        let due = [self.table.next_due(), self.drain.next_due(), self.fallen.next_due()];
        match due.into_iter().flatten().min() {
            Some(due) if due <= now => Turn::Again,
            until => Turn::Sleep { until },
        }
    }

    /// Whether a turn has work that does not wait for time or for the driver.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.feed.ring.head() > self.dispatched
            || self.feed.ring.progress() > self.revision && !self.parked.is_empty()
            || self.parked.first().is_some_and(|(floor, _)| *floor <= self.revision)
            || self.round.active()
            || !self.behind.is_empty()
            || self.drain.has_work()
    }

    /// Whether a watch can still be sent anything.
    #[must_use]
    pub fn contains(&self, id: WatcherId) -> bool {
        self.table.get(id).is_some()
    }

    /// Counts so far, and current gauges.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            watchers: self.table.watchers,
            live: self.table.live,
            classes: self.table.class_count() as u64,
            ..self.stats
        }
    }

    /// The revision up to which everything was dispatched to the live watchers.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// The time that watchers that lag may claim, now that a round is over.
    fn fair_slice(&self, now: Tick) -> Duration {
        Budget::fair(now.since(self.round.began), self.table.live, self.behind.len())
    }

    /// Puts a watcher at the end of the queue of those that lag.
    fn queue(&mut self, id: WatcherId) {
        let Some(watcher) = self.table.get_mut(id) else { return };
        match std::mem::replace(&mut watcher.place, QueueState::Queued) {
            QueueState::Queued => {}
            QueueState::None => self.behind.push_back(id),
            QueueState::Blocked => {
                self.blocked.remove(id.number());
                self.behind.push_back(id);
            }
        }
    }

    /// The socket is full: the watcher waits outside the queue, where eviction checks it.
    fn block(&mut self, id: WatcherId) {
        self.stats.blocked += 1;
        let Some(watcher) = self.table.get_mut(id) else { return };
        let position = watcher.position();
        debug_assert!(watcher.place != QueueState::Blocked, "blocked twice");
        watcher.place = QueueState::Blocked;
        self.blocked.put(id.number(), position.unwrap_or(Position::new(u64::MAX)));
        if let Some(position) = position {
            self.begin_time(id, position);
        }
    }

    /// Sets why the watcher ends; the first reason stays.
    fn because(&mut self, id: WatcherId, end: End) {
        if let Some(watcher) = self.table.get_mut(id) {
            watcher.end.get_or_insert(end);
        }
    }

    /// Removes the watcher from everything. Returns why it is over; `None` when it did not exist.
    fn remove(&mut self, id: WatcherId) -> Option<End> {
        self.release(id);
        let watcher = self.table.remove(id)?;
        if watcher.place == QueueState::Blocked {
            self.blocked.remove(id.number());
        }
        if let Phase::Parked { floor } = watcher.phase {
            self.parked.remove(&(floor, id));
        }
        // The queues hold ids only; one of a removed watcher is skipped when its turn comes.
        Some(watcher.end.unwrap_or(End::Gone))
    }

    /// The watch is over: reports it to the driver.
    fn end(&mut self, id: WatcherId, clean: bool) {
        if let Some(why) = self.remove(id) {
            self.stats.watches_ended += 1;
            self.ended.push_back(Ended { id, clean, why });
        }
    }

    /// Ends the stream of a watch that is between two messages.
    fn end_stream(&mut self, id: WatcherId, outlet: &mut impl Outlet) {
        let clean = match outlet.end(id) {
            Sent::Took(taken) => {
                self.stats.bytes_sent += taken as u64;
                true
            }
            Sent::Gone => false,
        };
        self.end(id, clean);
    }

    /// A message in the framing of a class.
    fn framed(&self, message: &Message, key: &ClassKey) -> Bytes {
        if key.framing == self.feed.framing(key.encoding) {
            return message.shared();
        }
        let mut framed = Vec::new();
        key.framing.push(&mut framed, message.payload());
        framed.into()
    }
}

/// The message for a class that a value is unreadable; `None` if it is readable.
fn refusal(feed: &Feed, object: &Object, key: &ClassKey) -> Option<Message> {
    let unreadable = object.unreadable()?;
    Some(match key.encoding {
        Encoding::Json => unreadable.refusal().clone(),
        encoding @ (Encoding::Protobuf | Encoding::Other(_)) => {
            let failure = Failure::Unreadable { why: unreadable.text() };
            let message = Message::new(feed.framing(encoding), 256, |out| {
                feed.encoder.failure(out, encoding, &failure);
            });
            message.ending(true)
        }
    })
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard")
            .field("number", &self.number)
            .field("dispatched", &self.dispatched)
            .field("revision", &self.revision)
            .field("watchers", &self.table.watchers)
            .finish_non_exhaustive()
    }
}
