//! The limits that depend on each other, in one place, with proofs that they are consistent. A limit of one module alone is
//! in that module.

use std::time::Duration;

/// Events in the ring by default.
pub const RING_EVENTS_DEFAULT: usize = 1 << 17;
/// The smallest ring that has room for a batch, a round and a lagging shard.
pub const RING_EVENTS_MIN: usize = 1 << 10;
/// The largest ring: 16 Mi slots of 8 bytes.
pub const RING_EVENTS_MAX: usize = 1 << 24;
/// Bytes of messages that the ring keeps alive by default.
pub const RING_BYTES_DEFAULT: u64 = 256 << 20;
/// Share of the ring that shards may still need before the source waits for them.
pub const BACKLOG_MAX: f64 = 0.5;
/// How long the window waits for the socket of a watch that was live. A watch that has taken what it is owed within
/// this time is never expired, however much is written meanwhile.
pub const KEEP_UP: Duration = Duration::from_millis(100);
/// Watches that begin to lag within this time form one group.
pub const KEEP_UP_STEP: Duration = Duration::from_millis(10);
/// Most snapshots of the window that are kept, for lists of past states.
pub const KEPT_SNAPSHOTS: usize = 128;
/// The interval of those, in events, in a window of so many.
pub(crate) const fn events_between_snapshots(window: usize) -> u64 {
    let every = window / KEPT_SNAPSHOTS;
    if every == 0 { 1 } else { every as u64 }
}
/// With less than one large object, no watcher that lags could catch up.
pub const RING_BYTES_MIN: u64 = 1 << 20;

/// Events that one round takes from the ring, unless a revision is larger.
pub const ROUND_EVENTS: usize = 256;
/// Bytes of messages that one round takes from the ring, unless a single event is larger: what an empty socket takes
/// whole when its send buffer is 128 KiB, a server's default (the kernel doubles it, and counts its own structures). Of
/// a longer run each socket would take a part, wait for room, and be sent the rest separately.
pub const ROUND_BYTES: usize = 192 << 10;
/// How many classes, requirements of their selectors and looked-up attributes one round looks at before it ends at the
/// end of a revision. With thousands of different selectors these looks, some 10 ns each, dominate.
pub const ROUND_REQUIREMENTS: usize = 1 << 20;
/// The same for one turn, at any point within a revision or event: the next turn continues there. So a turn is short,
/// whatever the size of a revision.
pub const LOOKS_PER_TURN: usize = 1 << 15;
/// Bytes of an object of which another message is made that count as one look. A Table row or metadata costs a parse,
/// some microseconds a KiB.
pub const MESSAGE_BYTES_A_LOOK: usize = 8;
/// A class whose run is longer than this catches up from the ring instead: joining it would cost a copy that
/// large pages do not need.
pub const RUN_BYTES: usize = 512 << 10;
/// The same for a run of more messages than this, 48 bytes each in every class: two rounds' worth, which only one large
/// revision has.
pub const RUN_MESSAGES: usize = 2 * ROUND_EVENTS;
/// A selector that allows up to this many values of a label is filed under each value; one that allows more, under the
/// label.
pub const FILED_VALUES_MAX: usize = 64;
/// Sends between two checks of the clock and of other work.
pub const SENDS_PER_TURN: usize = 64;
/// So many bytes of a delivery count as one more delivery: the output of a turn is bounded in bytes too, at 2 MiB.
pub const SEND_BYTES: usize = 32 << 10;

/// Bytes of its initial state that one watcher is sent at once, and the longest message that is copied together with
/// others.
pub const PAGE_BYTES: usize = 64 << 10;
/// Bytes of the ring that one watcher that lags is sent at once: as many as a round has, since both cost the same per
/// send.
pub const CATCHUP_PAGE_BYTES: usize = ROUND_BYTES;
/// Events or objects that are examined for one watcher that lags at once, whether they match or not.
pub const PAGE_SCAN: usize = 1024;

/// What the budget gains per second, from kube-apiserver's watch cache (`time_budget.go`).
pub const BUDGET_REFILL_PER_SECOND: Duration = Duration::from_millis(50);
/// The most that the budget holds (same source).
pub const BUDGET_CAP: Duration = Duration::from_millis(100);
/// The longest slice between two rounds.
pub const BUDGET_SLICE: Duration = Duration::from_millis(10);

/// Time between two bookmarks of a watcher (`bookmarkFrequency` in kube-apiserver's cacher).
pub const BOOKMARK_INTERVAL_DEFAULT: Duration = Duration::from_secs(60);
/// A watcher that asked for bookmarks gets one this long before its deadline (same source).
pub const BOOKMARK_BEFORE_DEADLINE: Duration = Duration::from_secs(2);
/// A watch that was sent nothing for this long gets a heartbeat, by default. It never comes later, and up to a tenth
/// and a step earlier. Load balancers and client libraries cut streams that are quiet for 30 s or more.
pub const HEARTBEAT_INTERVAL_DEFAULT: Duration = Duration::from_secs(25);
/// Steps per interval at which bookmarks and heartbeats are due. All that are due in one step need one wake-up of the
/// shard, which costs as much as a dozen sends, and hundreds of sends in a row cost less each than a few.
pub const TIMER_STEPS: u32 = 16;
/// How long a watcher that must end may take to accept its pending bytes. One within its initial state has this time
/// twice: for the state, then for the error that it did not take it.
pub const DRAIN_GRACE: Duration = Duration::from_secs(5);

/// Watches that one step of a count looks at: some 20 µs, half of a turn.
pub const CENSUS_LOOKS: usize = 1024;
/// The watches that lag most, of which a count keeps more than their number.
pub const CENSUS_SLOWEST: usize = 8;

const _: () = assert!(RING_EVENTS_MIN.is_power_of_two() && RING_EVENTS_MAX.is_power_of_two());
const _: () = assert!(RING_EVENTS_DEFAULT.is_power_of_two());
// The publisher waits for a shard that lags half a ring; a round must fit well before that.
const _: () = assert!(ROUND_EVENTS * 4 <= RING_EVENTS_MIN);
const _: () = assert!((ROUND_BYTES * 4) as u64 <= RING_BYTES_MIN);
const _: () =
    assert!(ROUND_BYTES <= RUN_BYTES && PAGE_BYTES <= CATCHUP_PAGE_BYTES && CATCHUP_PAGE_BYTES <= RUN_BYTES);
const _: () =
    assert!(ROUND_EVENTS < RUN_MESSAGES && 0 < LOOKS_PER_TURN && LOOKS_PER_TURN <= ROUND_REQUIREMENTS);
const _: () = assert!(BUDGET_SLICE.as_millis() <= BUDGET_CAP.as_millis());
