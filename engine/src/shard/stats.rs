//! What a shard counts: plain integers that the hot path increments; metrics are rendered from a copy.

/// Counts since the shard began, and current gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events sent completely to watchers (bookmarks and errors not counted).
    pub events_sent: u64,
    /// Bytes that sockets took.
    pub bytes_sent: u64,
    /// Bookmarks sent to watchers.
    pub bookmarks_sent: u64,
    /// Heartbeats sent to watchers.
    pub heartbeats_sent: u64,
    /// Events taken from the ring.
    pub events_dispatched: u64,
    /// Rounds.
    pub rounds: u64,
    /// Turns that ended while a round was still being sorted into runs.
    pub rounds_paused: u64,
    /// Watches that began.
    pub watches_started: u64,
    /// Watches that ended, for any reason.
    pub watches_ended: u64,
    /// Watches that the window passed, and that got 410 or were cut off.
    pub evicted: u64,
    /// Watches whose history is lost, and that got 410 or were cut off.
    pub abandoned: u64,
    /// Watches that ended because a value in their scope is unreadable.
    pub refused: u64,
    /// Sends that the socket did not take completely.
    pub blocked: u64,
    /// Current watches.
    pub watchers: u64,
    /// Current watches that were sent all that was dispatched.
    pub live: u64,
    /// Current classes.
    pub classes: u64,
}

impl Stats {
    /// The sum of this and the counts of a later shard.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            events_sent: self.events_sent + other.events_sent,
            bytes_sent: self.bytes_sent + other.bytes_sent,
            bookmarks_sent: self.bookmarks_sent + other.bookmarks_sent,
            heartbeats_sent: self.heartbeats_sent + other.heartbeats_sent,
            events_dispatched: self.events_dispatched + other.events_dispatched,
            rounds: self.rounds + other.rounds,
            rounds_paused: self.rounds_paused + other.rounds_paused,
            watches_started: self.watches_started + other.watches_started,
            watches_ended: self.watches_ended + other.watches_ended,
            evicted: self.evicted + other.evicted,
            abandoned: self.abandoned + other.abandoned,
            refused: self.refused + other.refused,
            blocked: self.blocked + other.blocked,
            watchers: self.watchers + other.watchers,
            live: self.live + other.live,
            classes: self.classes + other.classes,
        }
    }
}
