//! revcast's engine: changes in, bytes out.
//!
//! It owns the semantics of watches: the window of recent events, the newest object per key, which watch is interested
//! in what, and the bytes of every message. It never does I/O, reads a clock, draws a random number or waits, except
//! that a shard may wait some microseconds for another one that makes the same message. Read
//! `ARCHITECTURE.md` beside this crate first, then `examples/one_shard.rs`.
#![forbid(unsafe_code)]

pub mod attributes;
pub mod change;
pub mod codec;
pub mod decimal;
pub mod encoding;
pub mod envelope;
pub mod escape;
mod event;
pub mod failpoints;
mod feed;
pub mod framing;
pub mod gap;
pub mod hash;
pub mod histogram;
pub mod history;
pub mod index;
pub mod key;
pub mod key_range;
pub mod limits;
pub mod message;
pub mod message_type;
mod object;
pub mod other_versions;
mod publisher;
pub mod resource;
pub mod revision;
pub mod ring;
mod scope;
pub mod selector;
pub mod shard;
pub mod shown;
pub mod tick;
mod watcher;

pub use event::Event;
pub use feed::Feed;
pub use object::{Object, Unreadable};
pub use publisher::{BatchError, Publisher, RingLimits};
pub use scope::{Objects, Scope};
pub use shard::{
    Census, Ended, Lag, Memory, Outlet, PhaseCounts, PhaseName, Run, Sent, Shard, ShardConfig, Slow, Stats,
    Timings, Turn,
};
pub use watcher::{End, Start, Subscription, WatcherId};
