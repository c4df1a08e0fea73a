//! The end of a world: all work is finished, bookmarks are sent, every watch ends, and all counts add up.

use std::time::Duration;

use revcast_engine::Turn;
use revcast_engine::limits::{BOOKMARK_BEFORE_DEADLINE, DRAIN_GRACE, LOOKS_PER_TURN, PAGE_BYTES};

use super::fault::{Checked, Promise, broken};
use super::oracle::Kind;
use super::pipe::Nature;
use super::shown::{first_differs, number};
use super::watch::Copy;
use super::world::World;

/// Turns within which shards must become idle when nothing new happens and no watcher is owed more than a few pages.
const TURNS_TO_REST_MAX: usize = 20_000;
/// The same when a turn looks at little: what a writer that never waits left to be sorted takes many turns.
const SHORT_TURNS_TO_REST_MAX: usize = 1_000_000;

impl World {
    pub(crate) fn finale(&mut self) -> Checked {
        self.net.note(|_| "the writer stops and all sockets heal".to_owned());
        self.publish()?;
        // Otherwise bookmarks would be due again and again when they are due as often as shards turn.
        self.plan.turn_cost = Duration::ZERO;
        for watch in self.net.watches.iter_mut().filter(|watch| watch.open()) {
            watch.pipe.heal();
        }
        self.rest()?;
        self.check_copies()?;
        self.check_bookmarks_come()?;
        self.end_all()?;
        self.check_counts()?;
        self.check_messages()
    }

    /// Turns until there is nothing to do.
    fn rest(&mut self) -> Checked {
        let short = self.plan.looks_per_turn < LOOKS_PER_TURN;
        let turns_max = if short { SHORT_TURNS_TO_REST_MAX } else { TURNS_TO_REST_MAX };
        // A writer that never waits for slow shards leaves windows of hundreds of large objects: a page of them is a
        // turn, and a shard that nobody watches passes them by in as many.
        let pages = usize::try_from(self.net.oracle.window_bytes()).unwrap_or(usize::MAX) / PAGE_BYTES;
        let open = self.net.watches.iter().filter(|watch| watch.open()).count();
        let turns_max = turns_max.saturating_add(pages.saturating_mul(open.max(1)));
        let mut turns = 0;
        loop {
            self.wake_sockets();
            let mut busy = false;
            for shard in 0..self.shards.len() {
                while self.turn(shard)? == Turn::Again {
                    busy = true;
                    turns += 1;
                    if turns > turns_max {
                        return broken(Promise::Progress, "the shards never come to rest");
                    }
                }
            }
            if !busy {
                return Ok(());
            }
        }
    }

    fn wake_sockets(&mut self) {
        for shard in 0..self.shards.len() {
            let open: Vec<usize> = self.net.open(shard).collect();
            for at in open {
                let now = self.net.now;
                let watch = &mut self.net.watches[at];
                if watch.pipe.full && watch.pipe.has_room(now) {
                    watch.pipe.free(now);
                    self.shards[shard].shard.writable(watch.id);
                }
            }
        }
    }

    /// Every informer's copy is the state.
    fn check_copies(&mut self) -> Checked {
        let oracle = &self.net.oracle;
        let mut compared = 0;
        for client in &self.clients {
            let Some(watch) = client.current.map(|at| &self.net.watches[at]) else { continue };
            let Some(copy) = &watch.copy else { continue };
            if watch.pipe.full || watch.parked(oracle) {
                continue;
            }
            let there = oracle.covered(&client.wish, oracle.visible);
            let there = there.filter(|state| client.wish.matches(&oracle.names, state));
            let there: Copy = there.map(|state| (state.name, state.revision)).collect();
            if *copy != there {
                let at = client.current;
                return broken(
                    Promise::ExactlyOnce,
                    format!("the client of watch {at:?} knows {copy:?}, there is {there:?}"),
                );
            }
            compared += 1;
        }
        self.net.coverage.copies_compared += compared;
        Ok(())
    }

    /// An interval later every healthy watch that asked for bookmarks has one of the newest revision.
    fn check_bookmarks_come(&mut self) -> Checked {
        let interval = self.plan.bookmark_interval;
        let late = self.net.now.plus(interval * 2).plus(BOOKMARK_BEFORE_DEADLINE + Duration::from_secs(30));
        let watches = self.net.watches.iter().enumerate().filter(|(at, watch)| {
            watch.open()
                && watch.bookmarks
                && !watch.pipe.full
                && watch.deadline > late
                && watch.start < self.net.oracle.visible
                && !matches!(watch.pipe.nature, Nature::Dead { .. })
                && self.drained[*at].is_none()
                && watch.given_up.is_none()
        });
        let watches: Vec<usize> = watches.map(|(at, _)| at).collect();
        self.advance(interval);
        self.rest()?;
        let newest = self.net.oracle.visible;
        for at in watches {
            let watch = &self.net.watches[at];
            if watch.last_bookmark != newest {
                return broken(
                    Promise::Bookmark,
                    format!(
                        "watch {at} got {} and nothing since, {newest} is the newest",
                        watch.last_bookmark
                    ),
                );
            }
        }
        Ok(())
    }

    /// By closing the shards, or by deadline.
    fn end_all(&mut self) -> Checked {
        let newest = self.net.oracle.visible;
        let closing = self.rng.percent(60);
        let watches =
            self.net.watches.iter().enumerate().filter(|(_, watch)| watch.open() && !watch.pipe.full);
        let watches: Vec<usize> = watches.map(|(at, _)| at).collect();
        if closing {
            let over = self.drain_time();
            for shard in 0..self.shards.len() {
                self.drain(shard, over);
            }
            // Some end at once, some half way, the others by the end.
            self.rest()?;
            self.advance(over / 2);
            self.rest()?;
            self.advance(over / 2);
        } else {
            let last = self.net.watches.iter().filter(|watch| watch.open()).map(|watch| watch.deadline).max();
            if let Some(last) = last {
                let wait = last.since(self.net.now);
                self.advance(wait);
            }
        }
        self.rest()?;
        for at in watches {
            let watch = &self.net.watches[at];
            if matches!(watch.pipe.nature, Nature::Dead { .. }) {
                continue;
            }
            if watch.open() || !watch.stream.finished() {
                return broken(Promise::End, format!("watch {at} did not end cleanly"));
            }
            // Its own deadline may have passed before its turn came.
            let in_turn = closing && watch.deadline > self.net.now;
            if in_turn && watch.bookmarks && watch.start < newest && watch.last_bookmark != newest {
                return broken(Promise::Bookmark, format!("watch {at} was closed without a last bookmark"));
            }
        }
        // Watches that do not take their state are told so; those that do not take their end are cut.
        for _ in 0..2 {
            self.advance(DRAIN_GRACE);
            self.rest()?;
        }
        match self.net.watches.iter().position(super::watch::Watch::open) {
            Some(at) => broken(Promise::End, format!("watch {at} never ended")),
            None => Ok(()),
        }
    }

    fn check_counts(&self) -> Checked {
        for (at, driven) in self.shards.iter().enumerate() {
            let stats = driven.shard.stats();
            let watches = self.net.watches.iter().filter(|watch| watch.shard == at);
            let (mut started, mut events, mut bookmarks, mut evicted, mut refused) = (0, 0, 0, 0, 0);
            let mut heartbeats = 0;
            for watch in watches {
                started += 1;
                events += watch.events;
                bookmarks += watch.marks;
                heartbeats += watch.heartbeats;
                evicted += u64::from(watch.evicted);
                refused += u64::from(watch.unreadable);
            }
            if stats.watches_started != started
                || stats.watches_ended != started
                || (stats.watchers, stats.live, stats.classes) != (0, 0, 0)
                || stats.bytes_sent != self.net.bytes[at]
                || stats.events_sent != events
                || stats.heartbeats_sent != heartbeats
                || stats.bookmarks_sent < bookmarks
                || stats.evicted < evicted
                || stats.refused < refused
            {
                return broken(
                    Promise::Counts,
                    format!(
                        "shard {at}: {started} watches, {events} events, {bookmarks} bookmarks and {heartbeats} \
                         heartbeats in {} bytes, but it says {stats:?}",
                        self.net.bytes[at]
                    ),
                );
            }
        }
        Ok(())
    }

    /// No more messages were made than there are different ones that were owed.
    fn check_messages(&mut self) -> Checked {
        let oracle = &self.net.oracle;
        let mut wanted = vec![0_u32; oracle.events.len()];
        for watch in &self.net.watches {
            let encoding = number(watch.wish.encoding);
            let differs = first_differs(watch.wish.encoding);
            let mut first = differs && !watch.opens_with_state;
            let from = watch.first(oracle);
            let events = oracle.events.iter().zip(&mut wanted).enumerate();
            for (at, (event, wanted)) in events.take(watch.until.unwrap_or(oracle.published)).skip(from) {
                let Some(kind) = oracle.verdict(&watch.wish, event) else { continue };
                if kind == Kind::Unreadable {
                    break;
                }
                // Of the history, those that the index has announce another kind.
                let is_own = watch.wish.encoding == event.own_encoding() && kind == event.own_kind();
                if is_own && at >= oracle.history {
                    continue;
                }
                let bit = (encoding * 3 + kind.number()) * 2;
                if first {
                    *wanted |= 1 << (bit + 1);
                }
                // A bookmark may have been the first message.
                if !first || watch.bookmarks {
                    *wanted |= 1 << bit;
                }
                first = false;
            }
        }
        let shared: u64 = wanted.iter().map(|bits| u64::from(bits.count_ones())).sum();
        let (own, made) = (oracle.messages_own, self.feed.messages_made());
        if made < own || made > own + shared {
            return broken(
                Promise::MessageOnce,
                format!(
                    "{made} messages were made: {own} by the publisher, at most {shared} more were wanted"
                ),
            );
        }
        self.net.coverage.messages_shared += made - own;
        Ok(())
    }
}
