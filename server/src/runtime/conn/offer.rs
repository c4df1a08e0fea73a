//! What the engine offers to a stream.

use revcast_engine::Run;

/// What is offered to a stream.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime) enum Offer<'a> {
    Messages(Run<'a>),
    Heartbeat,
}

impl Offer<'_> {
    /// Whether these bytes are the whole offer. If not, the engine offers the rest when the connection is writable.
    pub(super) fn is_all(&self, taken: usize) -> bool {
        match self {
            Self::Messages(run) => taken == run.bytes().len(),
            Self::Heartbeat => true,
        }
    }
}
