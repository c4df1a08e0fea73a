//! One world: a publisher, shards, clients and a clock that only moves when told to, driven by one seed.
//!
//! It does what a server would do, in an order that a server would rarely produce, and checks everything that can be
//! checked from outside after every turn.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use revcast_engine::encoding::Encoding;
use revcast_engine::hash::HashSeed;
use revcast_engine::limits::{DRAIN_GRACE, PAGE_SCAN, SENDS_PER_TURN};
use revcast_engine::resource::Codec;
use revcast_engine::revision::Revision;
use revcast_engine::tick::Tick;
use revcast_engine::{Ended, Feed, Publisher, RingLimits, Shard, ShardConfig, Stats, Turn, WatcherId};

use super::Profile;
use super::client::Client;
use super::coverage::Coverage;
use super::drawing::Drawing;
use super::fault::{Checked, Fault, Promise, broken};
use super::net::{Net, Port};
use super::object::{KINDS, NAMESPACES, Name, draft, spoil};
use super::oracle::Oracle;
use super::packed::{repack, respoil, schema};
use super::pager::Pager;
use super::past::Past;
use super::plan::{Action, Plan};
use super::rng::Rng;
use super::shown::{ROWS, WRAPPED, Wrapper};
use super::watch::GivenUp;
use super::wish::Wish;

/// Most turns in a row without visible effect, before it must be an endless loop: a page examines 1,024 events or
/// objects, and an id may be in a queue twice. To this come the turns of [`World::searching`].
const IDLE_TURNS_MAX: usize = 300;
/// And so many more for each watch: they look at pages by turns, and may all come to the end of the window in the last one.
const IDLE_TURNS_A_WATCH: usize = 8;

/// One shard and its driver's state.
#[derive(Debug)]
pub(crate) struct Driven {
    pub(crate) shard: Shard,
    /// When it last had nothing to do.
    slept: Tick,
    /// Turns without visible effect.
    useless: usize,
    /// Its last turn left a round that is not sorted into runs yet.
    pub(crate) paused: bool,
    /// It was abandoned.
    pub(crate) abandoned: bool,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) rng: Rng,
    /// In a world of ranges: what they are drawn from.
    pub(crate) ranges: Option<Rng>,
    /// In a world of protobuf: what decides which objects are in it.
    pub(crate) packing: Option<Rng>,
    /// In a world of history: what happened before.
    past: Option<Past>,
    pub(crate) publisher: Publisher,
    pub(crate) feed: Feed,
    pub(crate) shards: Vec<Driven>,
    pub(crate) clients: Vec<Client>,
    pub(crate) net: Net,
    /// By watch: the shard was told to close.
    pub(crate) drained: Vec<Option<Tick>>,
    pub(crate) pagers: Vec<Pager>,
}

impl World {
    pub(crate) fn new(seed: u64, profile: Profile, tracing: bool) -> Self {
        let mut rng = Rng::new(seed);
        let mut plan = Plan::new(&mut rng);
        let mut ranges = (profile == Profile::Ranges).then(|| rng.clone().fork());
        if ranges.is_some() {
            plan.kinds = KINDS.len();
            plan.encodings = true;
        }
        let is_past = profile == Profile::History;
        let packs = profile == Profile::Protobuf || is_past && seed.is_multiple_of(3);
        let mut packing = packs.then(|| rng.clone().fork().fork());
        let names = names(&mut rng, &plan);
        let limits = RingLimits { events: plan.slots, bytes: plan.bytes_max };
        let start = Revision::new(plan.start);
        let (mut publisher, feed) = Publisher::with_small_ring(
            Arc::new(schema(packs)),
            Arc::new(Wrapper),
            limits,
            plan.shards,
            start,
        );
        let mut oracle = Oracle::new(names, plan.start, plan.slots, plan.bytes_max);
        let mut coverage = Coverage::default();
        let past = is_past.then(|| {
            let (rng, packing) = (&mut rng, packing.as_mut());
            let drawing = Drawing { rng, plan: &plan, packing, coverage: &mut coverage };
            Past::draw(drawing, &mut oracle, &mut publisher, plan.start)
        });
        if plan.loaded > 0 && !is_past {
            for at in 0..oracle.names.len() {
                if rng.percent(plan.loaded) {
                    let revision = plan.start + rng.range_u64(1, 20);
                    let name = (at, &oracle.names[at]);
                    let opaque = KINDS[name.1.kind].codec == Codec::Opaque;
                    let (value, state) = if !opaque && rng.percent(plan.unreadable) {
                        respoil(packing.is_some(), name.1, spoil(&mut rng, name, revision, None))
                    } else {
                        draft(&mut rng, name, revision, false, 10)
                    };
                    let (value, state) = repack(packing.as_mut(), name.1, (value, state), false);
                    let key = oracle.names[at].key.clone();
                    publisher.load(key, Revision::new(revision), &value);
                    oracle.load(state);
                }
            }
            publisher.loaded(Revision::new(plan.start + 25));
            oracle.loaded(plan.start + 25);
        }
        let config = ShardConfig {
            bookmark_interval: plan.bookmark_interval,
            heartbeat_interval: plan.heartbeat_interval,
            looks_per_turn: plan.looks_per_turn,
            run_messages: plan.run_messages,
            hash_seed: HashSeed::FIXED,
        };
        let shards = (0..plan.shards).map(|number| Driven {
            shard: Shard::new(number, feed.clone(), config),
            slept: Tick::ZERO,
            useless: 0,
            paused: false,
            abandoned: false,
        });
        let shards = shards.collect();
        let mut wish = |rng: &mut Rng| {
            let wish = wish(rng, &plan, &oracle.names);
            match (&mut ranges, &mut packing) {
                (Some(own), _) => wish.among_ranges(own, &oracle.names),
                (None, Some(own)) => wish.among_protobuf(own),
                (None, None) => wish,
            }
        };
        let wishes: Vec<Wish> = (0..plan.alike).map(|_| wish(&mut rng)).collect();
        let clients = (0..plan.clients).map(|_| {
            let wish = if wishes.is_empty() { wish(&mut rng) } else { rng.pick(&wishes).clone() };
            Client::new(wish, rng.percent(60))
        });
        let clients = clients.collect();
        let net = Net {
            oracle,
            watches: Vec::new(),
            slots: vec![Vec::new(); plan.shards],
            now: Tick::from_nanos(rng.range_u64(0, 1_000_000)),
            coverage,
            fault: None,
            told: Vec::new(),
            bytes: vec![0; plan.shards],
            rng: rng.fork(),
            hasher: DefaultHasher::new(),
            trace: tracing.then(VecDeque::new),
        };
        let (drained, pagers) = (Vec::new(), Vec::new());
        Self { plan, rng, ranges, packing, past, publisher, feed, shards, clients, net, drained, pagers }
    }

    /// The whole life of the world.
    pub(crate) fn run(&mut self) -> Checked {
        for step in 0..self.plan.steps {
            self.net.coverage.steps += 1;
            if self.plan.abandon_at == Some(step) {
                self.abandon_some()?;
            }
            if let Some(past) = self.past.take_if(|past| past.at == step) {
                self.prepend_past(past)?;
            }
            match self.plan.action(&mut self.rng) {
                Action::Write => self.write()?,
                Action::Publish => self.publish()?,
                Action::Progress => self.progress()?,
                Action::Compact => self.compact()?,
                Action::Turn => {
                    let shard = self.rng.below(self.shards.len());
                    for _ in 0..self.rng.range(1, self.plan.turns) {
                        if self.turn(shard)? != Turn::Again {
                            break;
                        }
                    }
                }
                Action::Clock => {
                    let delay = self.plan.clock(&mut self.rng);
                    self.advance(delay);
                }
                Action::Subscribe => self.subscribe_some()?,
                Action::Sockets => self.sockets(),
                Action::Spurious => self.spurious(),
                Action::Forget => self.forget(),
                Action::List => self.list()?,
                Action::Drain => {
                    let shard = self.rng.below(self.shards.len());
                    let over = self.drain_time();
                    self.drain(shard, over);
                }
            }
        }
        self.finale()?;
        self.net.coverage.forgotten = self.net.oracle.oldest as u64;
        self.net.coverage.digest = self.net.hasher.finish();
        Ok(())
    }

    pub(crate) fn advance(&mut self, delay: Duration) {
        self.net.now = self.net.now.plus(delay);
        // A watch that was idle may join others that were just sent something, and be put off by another interval. Of a jump of the
        // clock, in which no shard turns, no more than an interval counts as its silence.
        if let Some(interval) = self.plan.heartbeat_interval {
            let beyond = delay.saturating_sub(interval);
            self.net.watches.iter_mut().for_each(|watch| watch.heard = watch.heard.plus(beyond));
        }
        self.net.note(|_| format!("the clock moves by {delay:?}"));
    }

    /// Wall time, for ages.
    pub(crate) fn seconds(&self) -> u64 {
        1_700_000_000 + self.net.now.as_nanos() / 1_000_000_000
    }

    /// One turn of a shard, and all checks that are possible after it.
    pub(crate) fn turn(&mut self, at: usize) -> Result<Turn, Fault> {
        self.net.now = self.net.now.plus(self.plan.turn_cost);
        let now = self.net.now;
        let driven = &mut self.shards[at];
        let (before, revision) = (driven.shard.stats(), driven.shard.revision());
        let mut port = Port { net: &mut self.net, shard: at, sends: 0, ended: Vec::new() };
        let turn = driven.shard.turn(&mut port, now);
        let Port { sends, ended, .. } = port;
        let reached = driven.shard.revision();
        self.net.note(|_| format!("shard {at} turned: {turn:?}, revision {reached}"));
        if let Some(fault) = self.net.fault.take() {
            return Err(fault);
        }
        self.note_turn(at, (before, revision), turn, sends)?;
        self.poll_ended(at)?;
        self.check_ends(at, &ended)?;
        if let Turn::Sleep { until } = turn {
            self.net.coverage.sleeps += 1;
            self.check_asleep(at, until)?;
            self.shards[at].slept = now;
        }
        Ok(turn)
    }

    /// Watches that were ended in this turn, or sent an error, are over by now.
    fn check_ends(&mut self, shard: usize, ended: &[WatcherId]) -> Checked {
        if let Some(at) = ended.iter().find_map(|id| self.net.find(shard, *id)) {
            return broken(Promise::End, format!("watch {at} was ended, and the shard does not say so"));
        }
        let told = std::mem::take(&mut self.net.told);
        match told.into_iter().find(|at| self.net.watches[*at].open()) {
            Some(at) => broken(Promise::End, format!("watch {at} was told an error, and is not ended")),
            None => Ok(()),
        }
    }

    fn poll_ended(&mut self, at: usize) -> Checked {
        while let Some(ended) = self.shards[at].shard.poll_ended() {
            self.ended(at, ended)?;
        }
        Ok(())
    }

    /// The effect of a turn, as its counts show it.
    fn note_turn(&mut self, at: usize, was: (Stats, Revision), turn: Turn, sends: u64) -> Checked {
        let driven = &mut self.shards[at];
        let (before, revision) = was;
        let (mut after, reached) = (driven.shard.stats(), driven.shard.revision());
        let oracle = &self.net.oracle;
        let lapped = reached > revision
            && after.rounds == before.rounds
            && oracle.after(revision.get()) < oracle.published;
        if lapped {
            return broken(Promise::Window, format!("shard {at} was lapped"));
        }
        let split = after.rounds > before.rounds && reached.get() < oracle.visible;
        let long = sends == 0
            && after.live < before.live
            && (after.evicted, after.abandoned) == (before.evicted, before.abandoned);
        driven.paused = after.rounds_paused > before.rounds_paused;
        let coverage = &mut self.net.coverage;
        coverage.turns += 1;
        coverage.rounds_paused += after.rounds_paused - before.rounds_paused;
        coverage.crowds += u64::from(sends >= SENDS_PER_TURN as u64);
        coverage.rounds_split += u64::from(split);
        coverage.long_runs += u64::from(long);
        // A watch that changes its class is not progress by itself.
        after.classes = before.classes;
        let useless = turn == Turn::Again && before == after;
        driven.useless = if useless { driven.useless + 1 } else { 0 };
        let watches = usize::try_from(after.watchers).unwrap_or(usize::MAX);
        let in_a_row = driven.useless;
        let most = IDLE_TURNS_MAX
            .saturating_add(IDLE_TURNS_A_WATCH.saturating_mul(watches))
            .saturating_add(self.searching(after.classes));
        if in_a_row > most {
            return broken(Promise::Progress, format!("shard {at} turns in circles"));
        }
        Ok(())
    }

    /// Turns in which this many classes may search all events for what concerns them, once each: a turn searches as many as it
    /// takes looks. Also those that are forgotten by now: they may have been searched before.
    fn searching(&self, classes: u64) -> usize {
        let turns = self.net.oracle.published.div_ceil(self.plan.looks_per_turn.clamp(1, PAGE_SCAN));
        usize::try_from(classes).unwrap_or(usize::MAX).saturating_mul(turns)
    }

    /// A shard has nothing to do: every watch must have everything.
    fn check_asleep(&mut self, at: usize, until: Option<Tick>) -> Checked {
        let shard = &self.shards[at].shard;
        let now = self.net.now;
        if shard.has_work() || until.is_some_and(|until| until <= now) {
            return broken(Promise::Progress, format!("shard {at} sleeps until {until:?} and has work"));
        }
        if shard.revision().get() != self.net.oracle.visible {
            return broken(
                Promise::Progress,
                format!("shard {at} sleeps at {}, {} is visible", shard.revision(), self.net.oracle.visible),
            );
        }
        let mut live = 0;
        let mut open = 0;
        let Net { watches, slots, oracle, .. } = &mut self.net;
        for number in slots[at].iter().filter_map(|slot| *slot) {
            let watch = &mut watches[number];
            open += 1;
            if watch.pipe.full {
                continue;
            }
            if let Some(silence) = watch.too_quiet(now) {
                return broken(Promise::Heartbeat, format!("watch {number} heard nothing for {silence:?}"));
            }
            let drained = self.drained[number].is_some_and(|by| by <= now);
            if watch.deadline <= now || drained || watch.given_up.is_some() {
                return broken(Promise::Progress, format!("watch {number} should have ended"));
            }
            if let Some(state) = oracle.unreadable_in(&watch.wish, oracle.visible, oracle.visible) {
                let key = &oracle.names[state.name].key;
                return broken(
                    Promise::Unreadable,
                    format!("watch {number} continues, and was not sent that {key:?} is unreadable"),
                );
            }
            if watch.parked(oracle) {
                continue;
            }
            live += 1;
            watch.settle(oracle, now).map_err(|fault| Fault {
                what: format!("shard {at} sleeps, watch {number}: {}", fault.what),
                ..fault
            })?;
        }
        let stats = shard.stats();
        if (stats.watchers, stats.live) != (open, live) {
            return broken(
                Promise::Counts,
                format!("shard {at}: {open} watchers, {live} live, but it says {stats:?}"),
            );
        }
        if stats.watches_started != stats.watches_ended + stats.watchers || stats.classes > open {
            return broken(Promise::Counts, format!("shard {at}: {stats:?}"));
        }
        Ok(())
    }

    /// A shard reports that a watch is over.
    fn ended(&mut self, shard: usize, ended: Ended) -> Checked {
        let Ended { id, clean, .. } = ended;
        let Some(at) = self.net.find(shard, id) else {
            return broken(Promise::End, format!("{id:?} of shard {shard} ended twice"));
        };
        let now = self.net.now;
        let watch = &self.net.watches[at];
        let finished = watch.stream.finished();
        self.net.note(|_| format!("shard {shard} watch {at} ended, clean {clean}"));
        let watch = &self.net.watches[at];
        let timely = watch.deadline <= now || self.drained[at].is_some();
        if clean != finished && !watch.pipe.gone {
            return broken(
                Promise::End,
                format!("watch {at}: its stream was ended: {finished}, but clean is {clean}"),
            );
        }
        if clean {
            let finishing = watch.given_up == Some(GivenUp::WithinMessage);
            if !watch.told && (!timely || watch.given_up.is_some()) && !finishing {
                return broken(Promise::End, format!("watch {at} ended for no reason, or without 410"));
            }
            watch.check_clean_end(&self.net.oracle)?;
            self.net.coverage.clean_ends += u64::from(!watch.told);
            self.net.coverage.deadlines += u64::from(!watch.told && watch.deadline <= now);
        } else {
            let behind = watch.left_behind(&self.net.oracle) && !watch.stream.at_boundary();
            let slept = self.shards[shard].slept;
            // Full until a moment ago, or the shard had no turn while the grace passed.
            let slow = watch.pipe.full || watch.pipe.freed >= slept || now.since(slept) >= DRAIN_GRACE;
            if !watch.pipe.gone && !slow && !behind {
                return broken(Promise::End, format!("watch {at} was cut off for no reason"));
            }
            self.net.coverage.cut_offs += u64::from(!watch.pipe.gone && !watch.stream.at_boundary());
        }
        self.over(at);
        Ok(())
    }

    /// The driver's part of an end.
    fn over(&mut self, at: usize) {
        let published = self.net.oracle.published;
        let watch = &mut self.net.watches[at];
        watch.until = Some(published);
        self.net.slots[watch.shard][watch.id.slot()] = None;
        self.clients[watch.client].ended(watch);
    }

    /// Sockets that have room again report it: all of them, or some.
    pub(crate) fn sockets(&mut self) {
        let all = self.rng.percent(60);
        for shard in 0..self.shards.len() {
            let open: Vec<usize> = self.net.open(shard).collect();
            for at in open {
                let now = self.net.now;
                let watch = &mut self.net.watches[at];
                if watch.pipe.full && watch.pipe.has_room(now) && (all || self.rng.percent(50)) {
                    watch.pipe.free(now);
                    self.shards[shard].shard.writable(watch.id);
                    self.net.note(|_| format!("shard {shard} watch {at} is writable"));
                }
            }
        }
    }

    /// A socket is reported as writable that may not be, or that belongs to no watch any more.
    fn spurious(&mut self) {
        if self.net.watches.is_empty() {
            return;
        }
        let (at, now) = (self.rng.below(self.net.watches.len()), self.net.now);
        let watch = &mut self.net.watches[at];
        if watch.open() {
            watch.pipe.free(now);
        }
        self.shards[watch.shard].shard.writable(watch.id);
        self.net.note(|_| format!("watch {at} is said to be writable"));
    }

    fn forget(&mut self) {
        if self.net.watches.is_empty() {
            return;
        }
        let at = self.rng.below(self.net.watches.len());
        let watch = &self.net.watches[at];
        let (open, shard, id) = (watch.open(), watch.shard, watch.id);
        // Forgetting a watch that has ended must do nothing.
        self.shards[shard].shard.forget(id);
        self.net.note(|_| format!("shard {shard} forgets watch {at} (open: {open})"));
        if open {
            self.net.coverage.forgotten_watches += 1;
            self.net.coverage.paused_forgotten += u64::from(self.shards[shard].paused);
            self.over(at);
        }
    }

    /// The history of some shards, or of all, is lost.
    fn abandon_some(&mut self) -> Checked {
        let one = self.rng.below(self.shards.len());
        let all = self.rng.percent(50);
        for shard in 0..self.shards.len() {
            if !all && shard != one {
                continue;
            }
            self.net.coverage.paused_abandoned += u64::from(self.shards[shard].paused);
            self.shards[shard].shard.abandon(self.net.now);
            self.shards[shard].abandoned = true;
            self.shards[shard].paused = false;
            self.net.coverage.abandons += 1;
            self.net.note(|_| format!("shard {shard} is given up"));
            let open: Vec<usize> = self.net.open(shard).collect();
            for at in open {
                let watch = &mut self.net.watches[at];
                let within = !watch.stream.at_boundary();
                watch.given_up = Some(if within { GivenUp::WithinMessage } else { GivenUp::BetweenMessages });
            }
            self.poll_ended(shard)?;
        }
        Ok(())
    }

    /// Drains a shard within this time.
    pub(crate) fn drain(&mut self, shard: usize, over: Duration) {
        self.net.coverage.drains += 1;
        self.net.note(|_| format!("shard {shard} is drained within {over:?}"));
        let now = self.net.now;
        self.shards[shard].shard.drain(over, now);
        let open: Vec<usize> = self.net.open(shard).collect();
        for at in open {
            self.drained[at] = Some(now.plus(over));
            let watch = &mut self.net.watches[at];
            let grace = if over.is_zero() { DRAIN_GRACE } else { DRAIN_GRACE.min(over) };
            watch.state_by = watch.state_by.min(now.plus(grace));
        }
    }

    /// At once, or within a time that is relevant to the clock of this world.
    pub(crate) fn drain_time(&mut self) -> Duration {
        Duration::from_millis(*self.rng.pick(&[0, 0, 1, 40, 1_000, 30_000]))
    }
}

fn wish(rng: &mut Rng, plan: &Plan, names: &[Name]) -> Wish {
    let encoding = if plan.encodings {
        *rng.pick(&[Encoding::Json, Encoding::Json, ROWS, WRAPPED])
    } else {
        Encoding::Json
    };
    Wish::random(rng, names, encoding)
}

fn names(rng: &mut Rng, plan: &Plan) -> Vec<Name> {
    let (count, kinds) = (plan.names, rng.range(1, plan.kinds));
    let mut names: Vec<Name> = Vec::new();
    while names.len() < count {
        let kind = if count > 1_000 { 0 } else { rng.below(kinds) };
        let namespace = KINDS[kind].namespaced.then(|| *rng.pick(&NAMESPACES));
        let name = if rng.percent(50) {
            format!("n{}", names.len())
        } else {
            format!("{}-{}", rng.pick(&["x", "y.z", "0"]), names.len() / 2)
        };
        let candidate = Name::new(kind, namespace, name);
        if names.iter().rev().take(30).all(|known| known.key != candidate.key) {
            names.push(candidate);
        }
    }
    names
}
