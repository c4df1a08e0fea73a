//! Deliberate bugs, so that tests can prove that the simulator would find them.
//!
//! Without the feature `planted-bugs` every check is the constant "no" and costs nothing. With it, a test switches one
//! bug on for its own thread. A server is never built with the feature.

/// The bugs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A round forgets an event now and then.
    SkippedEvent,
    /// A watcher that caught up joins the live ones one event too early, and is sent that event again.
    DoubledFrame,
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
    FrameMadeTwice,
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
}

#[cfg(feature = "planted-bugs")]
mod switch {
    use super::Bug;
    use std::cell::Cell;

    thread_local! {
        static ACTIVE: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Switches one bug on for this thread, or all off.
    pub fn plant(bug: Option<Bug>) {
        ACTIVE.set(bug);
    }

    pub(crate) fn planted(bug: Bug) -> bool {
        ACTIVE.get() == Some(bug)
    }
}

#[cfg(feature = "planted-bugs")]
pub use switch::plant;
#[cfg(feature = "planted-bugs")]
pub(crate) use switch::planted;

/// Whether this bug is switched on: never, in this build.
#[cfg(not(feature = "planted-bugs"))]
#[inline]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}
