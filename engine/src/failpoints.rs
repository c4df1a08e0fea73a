//! Failpoints: places where a test can switch on a bug, to prove that the simulator would find it.
//!
//! Without the feature `failpoints` every check is the constant `false` and costs nothing. With it, a test switches one
//! failpoint on for its own thread. A server is never built with the feature.

/// What goes wrong while a failpoint is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failpoint {
    /// A round forgets an event now and then.
    SkippedEvent,
    /// A watcher that caught up joins the live ones one event too early, and is sent that event again.
    DuplicateEvent,
    /// A bookmark names the newest published revision, not the newest one sent.
    BookmarkTooEarly,
    /// DELETED by a transition carries the new object, not the last matching one.
    WrongDeletedObject,
    /// DELETED keeps the resourceVersion of the last state.
    StaleDeletedVersion,
    /// The ring returns whatever a slot holds.
    LappedReaderUnnoticed,
    /// A round, and so a bookmark, may end inside a revision.
    SplitRevision,
    /// After a partial send the message starts again from its first byte.
    PartialSendRestarted,
    /// A start older than the window is served from the window's beginning.
    ExpiredStartServed,
    /// The verdict considers the new state only.
    TransitionIgnored,
    /// After the initial events a watcher continues at the ring's head, not at its snapshot's position.
    GapAfterInitialEvents,
    /// The interest index looks up only the new value of a field.
    OldValueNotLookedUp,
    /// A message is made again for every receiver.
    MessageMadeTwice,
    /// An event whose value is unreadable is skipped.
    UnreadableSkipped,
    /// Of an unreadable value only those watches are told whose selector matched the state before.
    UnreadableToldBySelector,
    /// A start after a revision does not check whether something in its scope was unreadable by then.
    UnreadableStartServed,
    /// In one revision the events of unreadable values keep the order of the source.
    UnreadableAmongOthers,
    /// An abandoned shard does not send 410 to its live watchers.
    LiveWatchKept,
    /// A heartbeat goes out although the socket is known to be full, or within a message.
    HeartbeatAnywhere,
    /// A turn that ends while an event's classes are evaluated forgets the others.
    PausedEventDropped,
    /// A past state is undone from a kept snapshot that is older than it.
    PastFromOlderSnapshot,
    /// A watch whose deadline has passed ends within its initial state, as if the state were complete.
    EndWithinState,
    /// A watch that begins after a revision is not sent that revision's events again, of which its client may have seen
    /// only some.
    PartOfRevisionSkipped,
    /// The window forgets what shards still need when it is full.
    NeededForgotten,
    /// A shard needs the ring only for what it has not dispatched, not for watches that began to lag recently.
    FallenNotKept,
    /// Of ranges that are found by their order, those that begin later than another are not looked at.
    LaterRangeMissed,
    /// Of older events that the window has no room for, a part of a revision is put there.
    OlderRevisionSplit,
    /// What a round sorts is not noted for watchers that lag, unless others of their class are live.
    LaggingNotNoted,
    /// A watch that begins while a round is under way joins the live ones immediately.
    JoinedWithinRound,
}

#[cfg(feature = "failpoints")]
mod switch {
    use super::Failpoint;
    use std::cell::Cell;

    thread_local! {
        static ACTIVE: Cell<Option<Failpoint>> = const { Cell::new(None) };
    }

    /// Switches one failpoint on for this thread, or all off.
    pub fn set(failpoint: Option<Failpoint>) {
        ACTIVE.set(failpoint);
    }

    pub(crate) fn is_on(failpoint: Failpoint) -> bool {
        ACTIVE.get() == Some(failpoint)
    }
}

#[cfg(feature = "failpoints")]
pub(crate) use switch::is_on;
#[cfg(feature = "failpoints")]
pub use switch::set;

/// Whether this failpoint is on: never, in this build.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub(crate) const fn is_on(_: Failpoint) -> bool {
    false
}
