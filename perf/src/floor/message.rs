//! What the coordinator and its floor-sender say to each other: one JSON line a message, orders on the sender's stdin,
//! answers on its stdout.

use crate::options::Mode;
use serde::{Deserialize, Serialize};

/// One object's event as bytes on the wire, but for the places that change with each write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Prepared {
    pub(crate) object: u32,
    /// Chunk size, event, newline, end of the chunk.
    pub(crate) frame: String,
    /// Where the ten digits of the resourceVersion are.
    pub(crate) revision_at: usize,
    pub(crate) stamp_at: usize,
}

/// The first message: what to serve, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Prepare {
    pub(crate) mode: Mode,
    /// Where to run; empty: anywhere.
    pub(crate) cpus: Vec<usize>,
    pub(crate) run: u64,
    pub(crate) seed: u64,
    pub(crate) revision: u64,
    pub(crate) frames: Vec<Prepared>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Begin {
    pub(crate) start_ns: u64,
    pub(crate) measure_from_ns: u64,
    pub(crate) end_ns: u64,
    /// Between two events; 0: as fast as it goes.
    pub(crate) interval_ns: u64,
    pub(crate) events_per_write: u32,
    /// Events that there may be before an [`Order::Allow`]; `u64::MAX`: they follow a clock.
    pub(crate) allowed: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    Prepare(Prepare),
    /// All watchers are answered. The end of the pipe is the end of the sender.
    Begin(Begin),
    /// Events that there may be in all by now: the watchers got most of those before.
    Allow {
        events: u64,
    },
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
    Listening {
        port: u16,
    },
    /// The way that is used is not quite the one that was asked for.
    Note {
        text: String,
    },
    /// No more events come; those that are late are still being sent.
    Made(Made),
    Failed {
        message: String,
    },
}
