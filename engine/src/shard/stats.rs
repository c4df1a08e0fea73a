//! What a shard counts. Plain integers that the hot path bumps; metrics are rendered from a copy.

/// Counts since the shard began, and gauges of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events handed to watchers whole (bookmarks and errors not counted).
    pub events_sent: u64,
    /// Bytes that sockets took.
    pub bytes_sent: u64,
    /// Bookmarks handed to watchers.
    pub bookmarks_sent: u64,
    /// Events taken from the ring.
    pub events_dispatched: u64,
    /// Rounds.
    pub rounds: u64,
    /// Watches that began.
    pub watches_started: u64,
    /// Watches that ended, however.
    pub watches_ended: u64,
    /// Watches that fell out of the window and were told 410 or cut off.
    pub evicted: u64,
    /// Sends that the socket did not take whole.
    pub blocked: u64,
    /// Watches now.
    pub watchers: u64,
    /// Watches now that have seen all that was dispatched.
    pub live: u64,
    /// Classes now.
    pub classes: u64,
}
