//! Why a watch is not continued.
//!
//! Owns the texts. `follow` handles each case.

use super::assembler::Break;
use crate::source::SourceError;

/// Why following stopped.
pub(super) enum Stop {
    /// The connection, or a call, failed.
    Failed(SourceError),
    /// The stream cannot be continued.
    Broke(Break),
    /// Nothing came although something was written.
    Lags,
    /// etcd's state at the last revision differs; the first difference.
    Differs(String),
    /// etcd cannot show any more whether its state is the served one; the reason.
    Untold(String),
    /// The replay of history takes too long.
    Slow,
    /// An answer contradicted what is known.
    Doubt,
    /// etcd closed the stream.
    Ended,
}

impl From<SourceError> for Stop {
    fn from(error: SourceError) -> Self {
        Self::Failed(error)
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::Broke(broke) => broke.fmt(f),
            Self::Lags => f.write_str("the watch lags behind etcd"),
            Self::Differs(what) => write!(f, "etcd's state is another one ({what})"),
            Self::Untold(why) => {
                write!(f, "etcd cannot show whether its state is the one that is served ({why})")
            }
            Self::Slow => f.write_str("the replay of etcd's history takes too long"),
            Self::Doubt => f.write_str("etcd's answers contradict what was seen"),
            Self::Ended => f.write_str("etcd closed the watch"),
        }
    }
}
