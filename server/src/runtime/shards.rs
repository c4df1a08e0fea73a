//! Messages to a shard from other threads, and which shard a watch belongs to.
//!
//! Owns the inboxes (crossbeam queues; glommio's cross-thread channels have open soundness reports) and the counts that
//! placement uses. A connection moves as a descriptor, before its first event.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use crossbeam_queue::SegQueue;
use revcast_engine::{Scope, Stats};

use super::census::Counted;
use super::listener::Listener;
use super::sys::wake::Wake;
use super::tally::Tally;
use super::watch::{Carrying, WatchRecord};
use crate::frontend::WatchRequest;
use crate::source::command_queue::{Answer, Asker, Shards};
use crate::wire::stream::WireStream;

/// How many more watches than the emptiest shard a home shard may have before its prefix spreads.
const SPREAD_MARGIN: usize = 64;

/// A request that becomes a watch.
#[derive(Debug)]
pub(super) struct WatchHandoff {
    pub(super) request: WatchRequest,
    pub(super) carrying: Carrying,
    pub(super) wire_stream: WireStream,
    pub(super) record: WatchRecord,
    /// The number of the authorities that its client's certificate was verified against.
    pub(super) authorities: u64,
}

/// A message to a shard.
#[derive(Debug)]
pub(super) enum ShardMessage {
    WatchHandoff(Box<WatchHandoff>),
    Answer(u64, Answer),
    Listen(Arc<Listener>),
}

/// One shard, as other threads see it. On its own cache lines: a shard writes its counts every turn.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct ShardHandle {
    pub(super) inbox: SegQueue<ShardMessage>,
    pub(super) wake: Wake,
    /// Watches that are open or being handed over.
    pub(super) watchers: AtomicUsize,
    /// Requests in progress.
    pub(super) requests: AtomicUsize,
    /// A copy of the shard's counts.
    pub(super) stats: Published,
    /// What its thread counts in addition.
    pub(super) tally: Tally,
    /// Its newest count of its watches.
    pub(super) counted: ArcSwap<Counted>,
    /// Turns so far, for the watchdog.
    pub(super) heartbeat: AtomicU64,
    /// Whether its thread has ended.
    pub(super) has_left: AtomicBool,
    /// Whether it accepts nothing.
    pub(super) is_paused: AtomicBool,
}

impl ShardHandle {
    pub(super) fn send(&self, message: ShardMessage) {
        self.inbox.push(message);
        self.wake.wake();
    }
}

/// A shard's counts where any thread can read them. Each is consistent; together they may be some turns apart.
#[derive(Debug, Default)]
pub(super) struct Published([AtomicU64; 16]);

impl Published {
    pub(super) fn store(&self, stats: &Stats) {
        let values = [
            stats.events_sent,
            stats.bytes_sent,
            stats.bookmarks_sent,
            stats.events_dispatched,
            stats.rounds,
            stats.watches_started,
            stats.watches_ended,
            stats.evicted,
            stats.blocked,
            stats.watchers,
            stats.live,
            stats.classes,
            stats.refused,
            stats.heartbeats_sent,
            stats.rounds_paused,
            stats.abandoned,
        ];
        for (slot, value) in self.0.iter().zip(values) {
            slot.store(value, Ordering::Relaxed);
        }
    }

    pub(super) fn load(&self) -> Stats {
        let at = |index: usize| self.0[index].load(Ordering::Relaxed);
        Stats {
            events_sent: at(0),
            bytes_sent: at(1),
            bookmarks_sent: at(2),
            events_dispatched: at(3),
            rounds: at(4),
            watches_started: at(5),
            watches_ended: at(6),
            evicted: at(7),
            blocked: at(8),
            watchers: at(9),
            live: at(10),
            classes: at(11),
            refused: at(12),
            heartbeats_sent: at(13),
            rounds_paused: at(14),
            abandoned: at(15),
        }
    }
}

/// All shards, from outside.
#[derive(Clone, Debug)]
pub(super) struct ShardHandles(pub(super) Arc<[ShardHandle]>);

impl ShardHandles {
    pub(super) fn new(shards: usize) -> std::io::Result<Self> {
        let handles: std::io::Result<Vec<ShardHandle>> = (0..shards)
            .map(|_| {
                Ok(ShardHandle {
                    inbox: SegQueue::new(),
                    wake: Wake::new()?,
                    watchers: AtomicUsize::new(0),
                    requests: AtomicUsize::new(0),
                    stats: Published::default(),
                    tally: Tally::default(),
                    counted: ArcSwap::default(),
                    heartbeat: AtomicU64::new(0),
                    has_left: AtomicBool::new(false),
                    is_paused: AtomicBool::new(false),
                })
            })
            .collect();
        Ok(Self(handles?.into()))
    }

    /// Watches on all shards.
    pub(super) fn watchers(&self) -> usize {
        self.0.iter().map(|handle| handle.watchers.load(Ordering::Relaxed)).sum()
    }

    /// Whether no shard has a request or a watch any more. Requests are checked first: one that becomes a watch of another
    /// shard is counted there before it ends here.
    pub(super) fn are_idle(&self) -> bool {
        self.0.iter().all(|handle| handle.requests.load(Ordering::Acquire) == 0)
            && self.0.iter().all(|handle| handle.watchers.load(Ordering::Acquire) == 0)
    }

    /// The shard for a watch: the home of its prefix (resource and namespace), unless that has clearly more watches than
    /// another shard. So a prefix that is too hot for one core spreads.
    pub(super) fn place(&self, scope: &Scope) -> usize {
        let mut hasher = DefaultHasher::new();
        scope.hash_placement(&mut hasher);
        let shards = self.0.len() as u64;
        let home = usize::try_from(hasher.finish() % shards).unwrap_or(0);
        let count = |handle: &ShardHandle| handle.watchers.load(Ordering::Relaxed);
        let emptiest = self.0.iter().enumerate().min_by_key(|(_, handle)| count(handle));
        match emptiest {
            Some((other, handle))
                if count(&self.0[home]) > count(handle) + count(handle) / 4 + SPREAD_MARGIN =>
            {
                other
            }
            _ => home,
        }
    }
}

impl Shards for ShardHandles {
    fn wake_all(&self) {
        for handle in self.0.iter() {
            handle.wake.wake();
        }
    }

    fn answer(&self, to: Asker, answer: Answer) {
        self.0[to.shard].send(ShardMessage::Answer(to.ticket, answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use revcast_engine::key::ResourceId;

    fn scope(namespace: &str) -> Scope {
        Scope::of_namespace(ResourceId::new(1), namespace)
    }

    #[test]
    fn a_prefix_stays_home_until_it_is_too_hot() {
        let handles = ShardHandles::new(2).expect("eventfds");
        let home = handles.place(&scope("a"));
        for _ in 0..=SPREAD_MARGIN {
            assert_eq!(handles.place(&scope("a")), home);
            handles.0[home].watchers.fetch_add(1, Ordering::Relaxed);
        }
        for _ in 0..10_000 {
            handles.0[handles.place(&scope("a"))].watchers.fetch_add(1, Ordering::Relaxed);
        }
        let counts: Vec<_> = handles.0.iter().map(|handle| handle.watchers.load(Ordering::Relaxed)).collect();
        assert!(counts.iter().all(|count| *count > 4_000), "{counts:?}");
        let homes: std::collections::HashSet<_> =
            (0..64).map(|i| ShardHandles::new(2).expect("eventfds").place(&scope(&i.to_string()))).collect();
        assert_eq!(homes.len(), 2, "prefixes have different homes");
    }
}
