//! What the coordinator and its floor-sender tell each other: orders on the sender's stdin, answers on its stdout.

use crate::object::Recipe;
use crate::options::Mode;
use crate::writer::{Span, Written};
use serde::{Deserialize, Serialize};

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
    Prepare(Prepare),
    /// Events that there may be in all by now: the watchers got most of those before. `u64::MAX`: they follow a clock.
    Allow(u64),
    /// All watchers are answered. The end of the pipe is the end of the sender.
    Begin(Span),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Listening(u16),
    /// The way that is used is not quite the one that was asked for.
    Note(String),
    /// No more events come; those that are late are still being sent. With the writes that a socket took in part or not at all.
    Made(Box<Written>, u64),
    Failed(String),
}
