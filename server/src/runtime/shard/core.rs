//! The engine's shard of one core, with its watches and their epoch.
//!
//! Owns the order of a turn: input, the engine's work, output, ended watches. A watch is begun in one place here, and closed in
//! one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use revcast_engine::limits::CENSUS_LOOKS;
use revcast_engine::revision::Revision;
use revcast_engine::tick::Tick;
use revcast_engine::{Census, End, Ended, Feed, Memory, Shard, Start, Stats, Timings, Turn, WatcherId};
use rustix::time::{ClockId, clock_gettime};

use crate::catalog::Catalog;
use crate::frontend::WatchRequest;
use crate::runtime::census::Counted;
use crate::runtime::conn::{ConnEvent, Conns, Link};
use crate::runtime::options::SendMode;
use crate::runtime::shards::{ShardHandle, WatchHandoff};
use crate::runtime::shared::Shared;
use crate::runtime::sys::polls::Polls;
use crate::runtime::sys::sends::Sends;
use crate::runtime::tally::Ending;
use crate::runtime::watch::Watches;
use crate::serve::retire;
use crate::source::epoch::Epoch;

/// Interval of the searches for the slowest watcher.
const SLOWEST_EVERY: Duration = Duration::from_secs(1);

/// A turn that is so late is made by the task that notices: hundreds may be ready before the one that drives the shard.
const LATE: Duration = Duration::from_millis(1);

/// The engine's shard, its watches and their epoch.
#[derive(Debug)]
pub(in crate::runtime) struct Core {
    number: usize,
    shared: Arc<Shared>,
    epoch: Arc<Epoch>,
    /// What is served, as far as watches here have been checked against it.
    catalog: Arc<Catalog>,
    shard: Shard,
    watches: Watches,
    /// Counts of the shards of earlier epochs.
    earlier: (Stats, Timings),
    /// When the newest turn began, and whether more work was left.
    turned: (Tick, bool),
    /// How long the engine worked in it.
    turn_took: Duration,
    /// When the slowest watcher is searched for again.
    next_look: Tick,
    /// The count of watches under way, with its number.
    counting: Option<(u64, Census)>,
    /// The number of the last one.
    counted: u64,
    /// The time over which watches are ended, if they are.
    drains: Option<Duration>,
    /// Connections whose watch has ended and that can carry another request.
    released: Vec<Link>,
}

impl Core {
    pub(super) fn new(number: usize, shared: Arc<Shared>, polls: Polls, sends: Option<Sends>) -> Self {
        let epoch = shared.app.epoch();
        let shard = Shard::new(number, epoch.feed.clone(), shared.shard_config);
        let catalog = shared.app.catalog();
        let mut watches = Watches::new(polls, sends, shared.app.guard(), shared.tls.as_deref());
        if shared.options.send_mode == SendMode::Send {
            watches.conns().share_no_pages();
        }
        Self {
            number,
            shared,
            epoch,
            catalog,
            shard,
            watches,
            earlier: Default::default(),
            turned: Default::default(),
            turn_took: Duration::ZERO,
            next_look: Tick::ZERO,
            counting: None,
            counted: 0,
            drains: None,
            released: Vec::new(),
        }
    }

    fn handle(&self) -> &ShardHandle {
        &self.shared.handles.0[self.number]
    }

    /// The epoch that is served here.
    pub(super) fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    /// The readable side of the epoch.
    pub(super) fn feed(&self) -> &Feed {
        &self.epoch.feed
    }

    /// Whether another epoch has begun.
    pub(super) fn is_outdated(&self) -> bool {
        self.epoch.number < self.shared.app.epochs().number()
    }

    /// The connections, for a task that answers a request on one of them.
    pub(in crate::runtime) const fn conns(&mut self) -> &mut Conns {
        self.watches.conns()
    }

    /// Handles events of connections, and checks some watches' authorization again.
    pub(super) fn absorb(&mut self, now: Tick) {
        let Self { shard, watches, shared, turn_took, .. } = self;
        watches.conns().leave(shared.app.is_leaving());
        watches.conns().read_budget.earn(shard.has_work().then_some(*turn_took));
        let mut gone = Vec::new();
        for (id, event) in watches.reap(now) {
            match event {
                ConnEvent::Writable => shard.writable(id),
                ConnEvent::Gone { stalled } => gone.push((id, stalled)),
            }
        }
        for (id, stalled) in gone {
            if let Some(end) = self.shard.forget(id) {
                self.close(id, Ending::of(end, stalled), false, now);
            }
        }
        self.count_gone();
        self.follow_catalog();
        let Self { shard, watches, shared, .. } = self;
        watches.review(shared.app.guard(), shared.tls.as_deref(), |id| {
            shard.dismiss(id, End::Dismissed);
        });
        let drains = self.shared.drains_over();
        if drains != std::mem::replace(&mut self.drains, drains) {
            match drains {
                Some(over) => self.shard.drain(over, now),
                None => self.shard.stay(),
            }
        }
    }

    /// Ends the watches of what is not served any more.
    fn follow_catalog(&mut self) {
        if !self.is_catalog_outdated() {
            return;
        }
        let new = self.shared.app.catalog();
        let old = std::mem::replace(&mut self.catalog, Arc::clone(&new));
        self.shard.dismiss_where(|scope, encoding| retire::ends(&old, &new, scope, encoding));
    }

    fn is_catalog_outdated(&self) -> bool {
        self.catalog.number < self.shared.app.catalogs().number()
    }

    /// Does a bounded part of the watches' work, and passes their output to the kernel.
    pub(in crate::runtime) fn turn(&mut self, now: Tick) -> Turn {
        if let (last, true) = self.turned {
            self.handle().tally.turn_delay.observe(now.since(last));
        }
        let began = Instant::now();
        let turn = self.shard.turn(&mut self.watches, now);
        self.turned = (now, turn == Turn::Again);
        self.watches.flush();
        self.turn_took = began.elapsed();
        self.take_ended(now);
        turn
    }

    /// Makes a turn if the driver is late. Ended watches are released when it comes.
    pub(super) fn turn_if_late(&mut self, now: Tick) {
        if now.since(self.turned.0) >= LATE {
            self.turn(now);
        }
    }

    fn take_ended(&mut self, now: Tick) {
        while let Some(Ended { id, clean, why }) = self.shard.poll_ended() {
            self.close(id, Ending::of(why, false), clean, now);
        }
        self.count_gone();
    }

    /// Submits polls to the kernel, and publishes the counts. Returns what follows.
    pub(in crate::runtime) fn publish(&mut self, turn: Turn) -> Turn {
        self.watches.submit();
        let handle = &self.shared.handles.0[self.number];
        let (stats, timings) = &self.earlier;
        handle.stats.store(&stats.plus(&self.shard.stats()));
        let (now, _) = self.turned;
        handle.tally.turned(now);
        handle.tally.revision.store(self.shard.revision().get(), Ordering::Relaxed);
        let tally = &handle.tally.http2;
        self.watches.conns().take_http2_counts(|counts, codes| {
            tally.add(counts);
            codes.iter().for_each(|code| tally.failed(*code));
        });
        let due = now >= self.next_look;
        // Not in each turn: these are a hundred numbers.
        if due || turn != Turn::Again {
            handle.tally.put_timings(&timings.plus(&self.shard.timings()));
        }
        if due {
            self.look(now);
        }
        self.go_on_counting(now);
        if self.counting.is_some() { Turn::Again } else { turn }
    }

    /// Publishes what costs more than a copy.
    fn look(&mut self, now: Tick) {
        self.next_look = now.plus(SLOWEST_EVERY);
        let Memory { watchers, pages } = self.shard.memory();
        let memory = Memory { watchers: watchers + self.watches.bytes(), pages };
        let open = self.watches.conns().open_http2s();
        let handle = self.handle();
        handle.tally.http2.put(open);
        handle.tally.put_look(self.shard.lag(now), self.shard.blocked(), memory, thread_time());
    }

    /// Makes a step of the count that an operator asked for, if one did.
    fn go_on_counting(&mut self, now: Tick) {
        let wanted = self.shared.census.number();
        if self.counting.is_none() && self.counted < wanted {
            self.counting = Some((wanted, Census::default()));
        }
        let Some((_, census)) = &mut self.counting else { return };
        if !self.shard.count(census, CENSUS_LOOKS) {
            return;
        }
        let Some((number, census)) = self.counting.take() else { return };
        let slowest = self.shard.slowest(&census, now).into_iter().map(|slow| {
            let client = self.watches.peer(slow.id);
            (slow, client)
        });
        let counted = Counted { number, slowest: slowest.collect(), census };
        self.counted = number;
        self.handle().counted.store(Arc::new(counted));
        self.look(now);
    }

    /// Begins a watch.
    pub(super) fn begin(&mut self, handoff: WatchHandoff, now: Tick) {
        let WatchHandoff { request, carrying, wire_stream, record, authorities } = handoff;
        let WatchRequest { mut subscription, epoch, catalog, .. } = request;
        if epoch != self.epoch.number {
            // It is answered as one from before the window of this one.
            subscription.start = Start::After(Revision::ZERO);
        }
        let is_late = catalog < self.catalog.number && retire::is_late(&self.catalog, &subscription.scope);
        let id = self.shard.subscribe(subscription, now);
        self.watches.begin(id, carrying, wire_stream, record, authorities);
        if is_late {
            self.shard.dismiss(id, End::Retired);
        }
        if self.drains.is_some() {
            self.shard.dismiss(id, End::Drained);
        }
    }

    /// A watch has ended: it is counted and logged, and its connection continues, lingers or is closed.
    fn close(&mut self, id: WatcherId, ending: Ending, clean: bool, now: Tick) {
        self.handle().tally.ended(ending, 1);
        let Some(closed) = self.watches.close(id, clean, now) else { return };
        if let Some(audit) = closed.audit {
            audit.end(self.shared.audit.as_ref(), ending.name());
        }
        self.released.extend(closed.link);
    }

    /// The process ends: open watches are cut, and logged as that.
    pub(in crate::runtime) fn cut(&mut self) {
        let Self { watches, shared, .. } = self;
        watches.close_all(|audit| audit.end(shared.audit.as_ref(), "cut"));
    }

    /// Connections that can carry another request.
    pub(in crate::runtime) fn take_released(&mut self) -> Vec<Link> {
        std::mem::take(&mut self.released)
    }

    /// A watch is counted until its connection is closed, also while the end of its stream is unsent: the server waits for it.
    fn count_gone(&mut self) {
        let gone = self.watches.take_gone();
        if gone > 0 {
            self.handle().watchers.fetch_sub(gone, Ordering::Relaxed);
        }
    }

    /// Ends every watch of the old epoch with a 410 and begins the new one. A watch whose connection is full, or that is inside
    /// a message, is cut off instead: it must not receive the new epoch as a continuation of the old one.
    pub(super) fn turn_over(&mut self, now: Tick) {
        let epoch = self.shared.app.epoch();
        self.shard.abandon(now);
        while self.shard.turn(&mut self.watches, now) == Turn::Again {
            self.watches.flush();
        }
        self.watches.flush();
        self.take_ended(now);
        let mut stats = self.shard.stats();
        // Watches whose connections are full are cut off below.
        stats.watches_ended += stats.watchers;
        self.handle().tally.ended(Ending::Epoch, stats.watchers);
        (stats.watchers, stats.live, stats.classes) = (0, 0, 0);
        let (before, timings) = &self.earlier;
        self.earlier = (before.plus(&stats), timings.plus(&self.shard.timings()));
        let Self { watches, shared, .. } = self;
        watches.close_all(|audit| audit.end(shared.audit.as_ref(), Ending::Epoch.name()));
        self.count_gone();
        self.shard = Shard::new(self.number, epoch.feed.clone(), self.shared.shard_config);
        self.epoch = epoch;
        // One under way was of the old shard.
        self.counting = None;
    }

    /// Whether the engine has something to do.
    pub(super) fn is_busy(&self) -> bool {
        self.shard.has_work()
    }

    /// Whether there is something to do now.
    pub(super) fn has_work(&mut self) -> bool {
        self.is_outdated()
            || self.counted < self.shared.census.number()
            || self.is_catalog_outdated()
            || self.shard.has_work()
            || self.watches.has_events()
            || self.watches.has_review(self.shared.app.guard(), self.shared.tls.as_deref())
            || self.shared.drains_over() != self.drains
    }

    /// When the next client is due for a read.
    pub(super) fn due(&self) -> Option<Tick> {
        self.watches.due()
    }
}

/// What this thread has used of a CPU, in the process and in the kernel for it.
fn thread_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap_or(0))
}
