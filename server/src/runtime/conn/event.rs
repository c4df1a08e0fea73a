//! What a shard is told of its connections.

/// What happened to a connection; reported for each of its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum ConnEvent {
    /// It is closed: the peer disconnected or ended it.
    Gone {
        /// The peer accepted or acknowledged nothing for so long that the kernel closed it.
        stalled: bool,
    },
    /// The connection is writable again.
    Writable,
}
