//! What the coordinator and its floor-sender tell each other: orders on the sender's stdin, answers on its stdout.

use crate::object::Recipe;
use crate::options::Mode;
use crate::writer::Span;
use serde::{Deserialize, Serialize};

/// What to serve, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Prepare {
    pub(crate) mode: Mode,
    /// Where to run; empty: anywhere.
    pub(crate) cpus: Vec<usize>,
    /// So many connections come, each with one request.
    pub(crate) watchers: u32,
    pub(crate) recipe: Recipe,
    /// Between two events; 0: as fast as it goes.
    pub(crate) interval_ns: u64,
    pub(crate) events_per_write: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The first message.
    Prepare(Prepare),
    /// Events that there may be in all by now: the watchers got most of those before. `u64::MAX`: they follow a clock.
    Allow(u64),
    /// All watchers are answered. The end of the pipe is the end of the sender.
    Begin(Span),
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Made {
    /// Number of the last event of each object (object, seq).
    pub(crate) finals: Vec<(u32, u32)>,
    pub(crate) measured: u64,
    pub(crate) last_ns: u64,
    /// Writes that a socket took in part or not at all.
    pub(crate) short_writes: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// At this port.
    Listening(u16),
    /// The way that is used is not quite the one that was asked for.
    Note(String),
    /// No more events come; those that are late are still being sent.
    Made(Made),
    Failed(String),
}
