//! The watch, and the recovery when it fails.
//!
//! Owns the order of steps: verify, load if there is a reason to, watch from a little before the revision after the last,
//! publish what the assembler returns; after any failure the same again. Each stream must prove that it continues what is
//! served: it repeats the last changes (`replay`), or else all keys are compared once it is open (`compare`). The failures and
//! their handling:
//!
//! | failure | handling |
//! |---|---|
//! | connection lost, no leader, refused, cancelled | resume from the last revision; streams stay open |
//! | a revision did not come | watch again from there; if it does not come again, the state at that one revision shows what it was |
//! | history is compacted beyond the next revision, or too far for etcd to prove itself | reload while the old state is served, then a new epoch: every watch gets 410 |
//! | another cluster, revisions that went back, a history or a state that differs from what was served | nothing is served until it is reloaded; a new epoch: every watch gets 410 |

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use etcd_client::Client;
use revcast_engine::revision::Revision;
use tokio::time::{interval, sleep, timeout};

use super::assembler::{Break, Coverage, Proof, RevisionAssembler};
use super::backoff::Backoff;
use super::context::EtcdContext;
use super::definitions::KEPT;
use super::followed::Followed;
use super::link::{Purpose, explain, is_compacted};
use super::oldest::{self, Span};
use super::options::{WarmStart, WatchWish};
use super::read_index::head;
use super::replay::{Recent, Replay};
use super::segments::Segments;
use super::stop::Stop;
use super::stream::{Keys, Messages};
use super::{load, version};
use crate::log;
use crate::source::epoch::Epoch;
use crate::source::{Fault, SourceError};

/// Interval of the checks of a watch: requests for progress, as kube-apiserver sends them, and whether it lags.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// How far a watch's progress may lag behind the cluster's revision, in time, before the watch is restarted.
const LAG_MAX: Duration = Duration::from_secs(3);
/// The longest time without progress while history is replayed: etcd reads all of it for each message.
const STALL_MAX: Duration = Duration::from_secs(10);
/// The timeout for etcd to report its version, and to create a watch: a member that is paused is left soon.
const STATUS_WITHIN: Duration = Duration::from_secs(1);
const CREATE_WITHIN: Duration = Duration::from_secs(3);
/// The timeout for a watch to repeat what it must.
const REPLAY_WITHIN: Duration = Duration::from_secs(3);
/// The timeout of the verification before a watch.
const VERIFY_WITHIN: Duration = Duration::from_secs(5);
/// A watch that lasted this long was good: the next attempt is immediate.
const GOOD: Duration = Duration::from_secs(5);

/// Keeps the engine fed as long as the thread lives.
pub(super) async fn follow(context: Rc<EtcdContext>) {
    let mut follower = Follower {
        context,
        state: None,
        abandoned: Revision::ZERO,
        breaks_of_line: 0,
        failed: 0,
        refusals: 0,
        refused: Instant::now(),
        seen: Revision::ZERO,
        warned: None,
    };
    let mut backoff = Backoff::new();
    loop {
        let began = Instant::now();
        let stop = follower.run().await;
        follower.note(&stop);
        if began.elapsed() >= GOOD || follower.advanced() {
            backoff.reset();
        }
        // The next attempt is with the next member.
        follower.context.links.rotate();
        sleep(backoff.next()).await;
    }
}

struct Follower {
    context: Rc<EtcdContext>,
    state: Option<Followed>,
    /// The newest revision of all histories that were given up.
    abandoned: Revision,
    /// How often the revisions of one cluster went back.
    breaks_of_line: u64,
    /// How often a warm start had to begin again.
    failed: u32,
    /// How often in a row a watch of the whole keyspace was refused, and when last.
    refusals: u32,
    refused: Instant,
    /// The progress of the last attempt.
    seen: Revision,
    /// When a warning was last written, so that a long outage is one line every few seconds.
    warned: Option<Instant>,
}

impl Follower {
    /// Whether something passed since the last call.
    fn advanced(&mut self) -> bool {
        let now = self.state.as_ref().map_or(Revision::ZERO, |state| state.feeder.publisher.revision());
        let advanced = now != self.seen;
        self.seen = now;
        advanced
    }

    /// One attempt: from the connection to the failure.
    async fn run(&mut self) -> Stop {
        match self.attempt().await {
            Ok(never) => match never {},
            Err(stop) => stop,
        }
    }

    async fn attempt(&mut self) -> Result<std::convert::Infallible, Stop> {
        let context = Rc::clone(&self.context);
        let mut client = Box::pin(context.links.open(Purpose::Watch)).await?;
        self.verify().await?;
        let coverage = self.coverage(&mut client).await?;
        match &self.state {
            None => self.load(&client, coverage).await?,
            // The end of what is replayed would not be seen.
            Some(state) if !state.is_served() && !coverage.shows_progress() => {
                self.load_again(&client, coverage, "this etcd does not show how far its watch is").await?;
            }
            Some(_) => {}
        }
        loop {
            let stop = self.watch(&client, coverage).await;
            context.doubt_line();
            match stop {
                Stop::Broke(Break::Missing { after, .. }) => {
                    self.look_for_missing(&client, after, coverage).await?
                }
                Stop::Broke(Break::Compacted { revision }) if self.is_only_old(revision) => {
                    if let Some(state) = &mut self.state {
                        state.recent.forget(revision);
                    }
                }
                Stop::Broke(Break::Rewritten { .. }) | Stop::Differs(_) if self.is_unserved() => {
                    self.load_again(&client, coverage, &stop.to_string()).await?;
                }
                Stop::Broke(Break::Rewritten { .. }) | Stop::Differs(_) => {
                    self.give_up_line(&stop);
                    return Err(stop);
                }
                Stop::Broke(Break::Compacted { revision }) => {
                    let why = format!("etcd has compacted history up to {revision}, beyond what was seen");
                    self.load_again(&client, coverage, &why).await?;
                }
                Stop::Untold(_) => {
                    self.load_again(&client, coverage, &stop.to_string()).await?;
                }
                Stop::Slow => {
                    // A quarter less would not do.
                    self.failed += 1;
                    self.load_again(&client, coverage, &stop.to_string()).await?;
                }
                Stop::Lags | Stop::Ended if self.is_unserved() => {
                    self.failed += 1;
                    if self.failed >= oldest::ATTEMPTS_MAX {
                        self.state = None;
                    }
                    return Err(stop);
                }
                Stop::Failed(_) | Stop::Broke(_) | Stop::Lags | Stop::Doubt | Stop::Ended => {
                    return Err(stop);
                }
            }
        }
    }

    /// Verifies that the cluster is the served one, and has everything that is served.
    async fn verify(&mut self) -> Result<(), SourceError> {
        let head = head(&self.context, VERIFY_WITHIN).await?;
        if let Some(wanted) = self.context.options.cluster
            && wanted != head.cluster
        {
            self.give_up(head.cluster);
            // Another endpoint may be the right one.
            self.context.calls.leave();
            return Err(SourceError::new(
                Fault::Denied,
                format!(
                    "etcd's cluster is {:x}, not {wanted:x} as --etcd-cluster-id requires: name the right endpoints",
                    head.cluster
                ),
            ));
        }
        let Some(state) = &mut self.state else { return Ok(()) };
        // What was loaded before this attempt may be from an etcd that was replaced.
        state.is_fresh = false;
        let seen = state.feeder.publisher.revision();
        if head.cluster != state.cluster {
            log::warn(&format!(
                "etcd is another cluster now ({:x}, it was {:x}): nothing is served until its state is loaded; every watch must list again",
                head.cluster, state.cluster
            ));
            self.give_up(head.cluster);
        } else if head.revision < seen {
            log::warn(&format!(
                "etcd went back from revision {seen} to {}: nothing is served until its state is loaded; every watch must list again",
                head.revision
            ));
            self.give_up(head.cluster);
        }
        Ok(())
    }

    /// Whether a compaction removed only what was served, and a watch of what follows is still possible.
    fn is_only_old(&self, compacted: Revision) -> bool {
        self.state.as_ref().is_some_and(|state| compacted <= state.feeder.publisher.revision().next())
    }

    /// The last revision exists, but not what led to it: the cluster was restored and has passed it again, or its crash made it
    /// lose or repeat writes (3.5.0 to 3.5.2 do, #13766).
    fn give_up_line(&mut self, stop: &Stop) {
        let Some(state) = &self.state else { return };
        log::warn(&format!(
            "{stop}, at revision {}: it was restored, or lost or repeated writes when it broke; nothing is served until its \
             state is loaded; every watch must list again",
            state.feeder.publisher.revision()
        ));
        self.give_up(state.cluster);
    }

    /// What is served is not valid any more: ends it at once, before anything of the new state is known.
    fn give_up(&mut self, cluster: u64) {
        let Some(state) = self.state.take().filter(Followed::is_served) else { return };
        self.abandoned = self.abandoned.max(state.feeder.publisher.revision());
        if cluster == state.cluster {
            self.breaks_of_line += 1;
        }
        self.context.know(None);
        let number = self.context.epochs.number() + 1;
        // An engine without a state, that is not ready: readers wait, watches end.
        let (_, feed) = self.context.engine.start(Revision::ZERO);
        self.context.epochs.begin(Epoch::new(number, 0, self.abandoned, feed));
        self.context.shards.wake_all();
    }

    /// Whether there is a state that no client sees yet.
    fn is_unserved(&self) -> bool {
        self.state.as_ref().is_some_and(|state| !state.is_served())
    }

    /// The state cannot be continued: loads another. If it was not served yet, the next one begins later in history.
    async fn load_again(
        &mut self,
        client: &Client,
        coverage: Coverage,
        why: &str,
    ) -> Result<(), SourceError> {
        if self.is_unserved() {
            log::warn(&format!("{why}: loading again, from later in history"));
            self.state = None;
            self.failed += 1;
        } else {
            log::warn(&format!("{why}: reloading; every watch must list again"));
        }
        self.load(client, coverage).await
    }

    /// Whether the state that is loaded next has a history, which is wanted in this way. Only the first state has one: after it,
    /// what clients know may be from another history.
    fn wants_history(&self, way: WarmStart, coverage: Coverage) -> bool {
        let is_first = self.state.is_none() && self.context.epochs.number() == 0;
        is_first && self.context.options.warm_start == way && coverage.shows_progress()
    }

    /// The history to replay upon a load; `None`: none.
    async fn span(&mut self, client: &Client, coverage: Coverage) -> Result<Option<Span>, SourceError> {
        if !self.wants_history(WarmStart::Full, coverage) || self.failed >= oldest::ATTEMPTS_MAX {
            return Ok(None);
        }
        let newest = head(&self.context, VERIFY_WITHIN).await?.revision;
        let found = oldest::find(&self.context, client, newest, self.failed).await;
        // It answers, so the next attempt may fail in the same way.
        self.failed += u32::from(found.is_err());
        found.map(Some)
    }

    /// Loads the whole state into a new engine, and serves it; with history to replay, once that is done. The old one is served
    /// meanwhile, if there is one.
    async fn load(&mut self, client: &Client, coverage: Coverage) -> Result<(), SourceError> {
        let began = Instant::now();
        let (loaded, span) = loop {
            let span = self.span(client, coverage).await?;
            let from = span.map_or(Revision::ZERO, |span| span.from);
            match load::load(&self.context, from).await {
                Err(error) if span.is_some() && is_compacted(&error) => {
                    log::info(&format!(
                        "etcd compacted revision {from} while it was loaded: loading a later one"
                    ));
                    self.failed += 1;
                }
                loaded => break (loaded?, span),
            }
        };
        // The loaded state may be from another history than the verified one.
        let wanted = self.context.options.cluster;
        let went_back = self.state.as_ref().is_some_and(|state| {
            loaded.cluster != state.cluster || loaded.revision < state.feeder.publisher.revision()
        });
        if went_back || wanted.is_some_and(|wanted| wanted != loaded.cluster) {
            self.context.calls.leave();
            return Err(SourceError::new(
                Fault::Unavailable,
                "etcd changed while its state was loaded: trying again",
            ));
        }
        loaded.census.unread().for_each(|line| log::warn(&line));
        log::info(&format!(
            "loaded etcd cluster {:x} at revision {} in {:.1?}: {}",
            loaded.cluster,
            loaded.revision,
            began.elapsed(),
            loaded.census.text()
        ));
        // The same on all nodes over this cluster, as long as its revisions never went back.
        let line = (loaded.cluster ^ self.breaks_of_line.wrapping_mul(0x9e37_79b9_7f4a_7c15)).max(1);
        let to = span.map_or(loaded.revision, |span| span.to);
        let wants_history = self.wants_history(WarmStart::Fast, coverage);
        let mut state = Followed::new(&self.context, loaded, to, line, self.abandoned);
        if state.is_due() {
            state.serve(&self.context);
        }
        if wants_history {
            state.backfill(&self.context, coverage);
        }
        self.state = Some(state);
        Ok(())
    }

    /// A revision did not come. The first time the watch is restarted from there. The second time the state at that revision
    /// shows what it was; if that is compacted too, or the revision is not known, everything is reloaded.
    async fn look_for_missing(
        &mut self,
        client: &Client,
        after: Revision,
        coverage: Coverage,
    ) -> Result<(), SourceError> {
        let Some(state) = &mut self.state else { return Ok(()) };
        if state.missing.replace(after) != Some(after) {
            log::warn(&format!("etcd's watch skipped revision {}: asking for it again", after.next()));
            return Ok(());
        }
        state.missing = None;
        if coverage != Coverage::All {
            return self.load_again(client, coverage, "etcd's watch lost an event").await;
        }
        // Only deletes are not reported; a restore usually loses more than one object.
        if let Some(gone) = state.owed.filter(|gone| *gone > 1) {
            let why = format!("etcd does not report what became of {gone} objects");
            return self.load_again(client, coverage, &why).await;
        }
        state.show(&self.context);
        match load::difference(&self.context, state.feeder.publisher.revision(), &state.feed, state.cluster)
            .await
        {
            Ok(batch) => {
                log::warn(&format!(
                    "etcd does not report what revision {} was: found {} changes by comparing states",
                    batch.revision,
                    batch.changes.len()
                ));
                state.take(&self.context, &batch).await?;
                // It will not be reported again either.
                state.recent = Recent::default();
                state.show(&self.context);
                Ok(())
            }
            Err(error) if error.fault == Fault::Broken => {
                let why = format!("revision {} is lost ({error})", after.next());
                self.load_again(client, coverage, &why).await
            }
            Err(error) => Err(error),
        }
    }

    /// Which keys to watch on this connection.
    async fn coverage(&self, client: &mut Client) -> Result<Coverage, Stop> {
        /// After this time the user may have got the missing permissions.
        const FORGIVEN: Duration = Duration::from_secs(60);
        let version = match timeout(STATUS_WITHIN, Box::pin(client.status())).await {
            Ok(Ok(status)) => status.version().to_owned(),
            Ok(Err(error)) => {
                let failure = explain(&error, false);
                if failure.fault == Fault::Unavailable {
                    return Err(Stop::Failed(failure));
                }
                String::new()
            }
            Err(_) => return Err(Stop::Lags),
        };
        let progress_on_request = version::tells_progress(&version);
        let refused = self.refusals >= 2 && self.refused.elapsed() < FORGIVEN;
        Ok(match self.context.options.watch {
            WatchWish::All => Coverage::All,
            WatchWish::Auto if !progress_on_request && !refused => Coverage::All,
            WatchWish::Auto | WatchWish::Prefix => Coverage::Prefix { progress_on_request },
        })
    }

    /// Watches until something ends it.
    async fn watch(&mut self, client: &Client, coverage: Coverage) -> Stop {
        let context = Rc::clone(&self.context);
        let Some(state) = &mut self.state else { return Stop::Doubt };
        let last = state.feeder.publisher.revision();
        let prefix = context.layout.prefix();
        let replay = state.recent.replay(prefix, last);
        let from = replay.as_ref().map_or_else(|| last.next(), Replay::from);
        let segments = match state.replays_to() {
            // The last attempt is as simple as it can be.
            Some(to) if self.failed + 1 < oldest::ATTEMPTS_MAX => Segments::many(from, to),
            Some(_) | None => Segments::one(from),
        };
        let keys = Keys::of(prefix, coverage, false);
        let mut messages = match Messages::open(client, keys, segments, CREATE_WITHIN).await {
            Ok(messages) => messages,
            Err(stop) => return stop,
        };
        context.commands.stats.remote.watches.fetch_add(1, Ordering::Relaxed);
        let mut assembler = RevisionAssembler::new(state.cluster, coverage, last);
        state.owed = None;
        match replay {
            Some(replay) => assembler = assembler.with_replay(replay),
            // The stream is open, so what is compared now is from the etcd that it follows. What is not served yet is compared
            // before it is.
            None if state.is_served() => {
                if let Err(stop) = state.prove(&context, coverage).await {
                    return stop;
                }
            }
            None => {}
        }
        let mut is_proven = false;
        let began = Instant::now();
        let (mut advanced, mut served) = (began, began);
        let mut checks = interval(CHECK_INTERVAL);
        loop {
            if state.is_due() {
                if let Err(stop) = state.complete(&context, coverage).await {
                    return stop;
                }
                served = Instant::now();
            }
            if !is_proven
                && state.is_served()
                && assembler.is_created()
                && assembler.is_replayed()
                && state.owed.is_none()
            {
                is_proven = true;
                context.prove();
            }
            tokio::select! {
                biased;
                () = context.doubt.notified() => return Stop::Doubt,
                message = messages.received.recv() => {
                    let response = match message {
                        Some(Ok(response)) => response,
                        Some(Err(stop)) => return stop,
                        None => return Stop::Ended,
                    };
                    let mut proof = Proof::default();
                    let passed = assembler.handle(response, &mut proof);
                    if proof.progress.is_some() {
                        advanced = Instant::now();
                    }
                    let arrived = context.clock.now();
                    if let Err(stop) = state.publish(&context, proof, arrived).await {
                        return stop;
                    }
                    match passed {
                        Ok(()) => {
                            if assembler.is_created() {
                                self.refusals = 0;
                            }
                        }
                        Err(Break::Refused(why)) if coverage == Coverage::All => {
                            // Old etcds report this for a login that has expired, too: it counts only the second time in a row,
                            // each after a new login.
                            if why.contains("permission denied") {
                                self.refusals += 1;
                                self.refused = Instant::now();
                            }
                            if self.refusals == 2 && context.options.watch == WatchWish::Auto {
                                log::warn(
                                    "this etcd does not answer progress requests, and its user may not read all keys: \
                                     consistent reads will time out after writes outside the prefix; upgrade etcd to \
                                     3.4.36, 3.5.18 or later, or let the user read all keys",
                                );
                            }
                            return Stop::Broke(Break::Refused(why));
                        }
                        Err(broke) => return Stop::Broke(broke),
                    }
                }
                () = context.wanted.notified() => {
                    state.forget(&context);
                    let is_waiting = context.behind_since().is_some() || !state.is_served();
                    if is_waiting && coverage == (Coverage::Prefix { progress_on_request: true }) {
                        context.commands.stats.remote.progress_requests.fetch_add(1, Ordering::Relaxed);
                        if let Err(stop) = messages.request_progress() {
                            return stop;
                        }
                    }
                }
                _ = checks.tick() => {
                    state.unload_dropped(&context, KEPT);
                    state.take_backfill();
                    // Memory may have become scarce since.
                    if state.feeder.publisher.trim() {
                        state.show(&context);
                    }
                    if !assembler.is_created() && began.elapsed() > CREATE_WITHIN {
                        return Stop::Lags;
                    }
                    if !state.is_served() {
                        if advanced.elapsed() > STALL_MAX {
                            return Stop::Lags;
                        }
                        if state.is_overdue() {
                            return Stop::Slow;
                        }
                        context.wanted.notify_one();
                    } else if !is_proven && served.elapsed() > REPLAY_WITHIN {
                        if state.owed.is_some() {
                            return Stop::Broke(Break::Missing { after: last, found: last.next() });
                        }
                        // The next stream repeats nothing: all keys are compared.
                        state.recent = Recent::default();
                        return Stop::Lags;
                    }
                    if let Some(since) = context.behind_since() {
                        // A watch that catches up is not restarted.
                        if coverage.shows_progress() && since.elapsed() > LAG_MAX && advanced.elapsed() > LAG_MAX {
                            return Stop::Lags;
                        }
                        context.wanted.notify_one();
                    }
                }
            }
        }
    }

    /// Logs why following stopped: each kind at most once in a few seconds.
    fn note(&mut self, stop: &Stop) {
        const EVERY: Duration = Duration::from_secs(5);
        self.context.commands.stats.remote.breaks.fetch_add(1, Ordering::Relaxed);
        if self.warned.is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        self.warned = Some(Instant::now());
        let then = if self.state.is_some() { "resuming from the last revision" } else { "loading its state" };
        log::warn(&format!("following etcd was interrupted, {then}: {stop}"));
    }
}
