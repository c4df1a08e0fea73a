//! A seeded simulator of the engine: millions of events, faulty sockets, and an oracle with the whole history.
//!
//! One seed makes one world (`world`): a publisher with a tiny ring, some shards, a writer, clients with sockets of
//! every kind, and a clock that only the driver moves. The `oracle` keeps the whole history, and every byte that a
//! client receives is compared with it. Nothing here reads a clock, draws from anything but the seed, or starts a
//! thread: a run is the same every time, and a fault is replayed with its trace.

mod client;
mod coverage;
mod drawing;
mod fault;
mod finale;
mod list;
mod net;
mod object;
mod oracle;
mod packed;
mod pager;
mod past;
mod pipe;
mod plan;
mod range;
pub mod rng;
mod shown;
mod stream;
mod subscribe;
mod watch;
mod wire;
mod wish;
mod world;
mod writer;

pub use coverage::Coverage;
pub use fault::{Promise, Violation};

use world::World;

/// What a world is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Kubernetes' watches of objects in JSON. What a seed makes of it never changes: recorded ones are replayed.
    Usual,
    /// Watches of ranges of keys as well, and a kind whose values are opaque.
    Ranges,
    /// Objects in JSON and in protobuf, and watches in both.
    Protobuf,
    /// What happened before the state that the engine began with is put into the window later.
    History,
}

/// Runs the usual world of one seed to its end: see [`run_as`].
///
/// # Errors
/// The same.
///
/// # Panics
/// The same.
pub fn run(seed: u64) -> Result<Coverage, Box<Violation>> {
    run_as(Profile::Usual, seed)
}

/// Runs the world of one seed to its end.
///
/// # Errors
/// The first broken promise, with the steps before it.
///
/// # Panics
/// When the engine does, which is a fault as well.
pub fn run_as(profile: Profile, seed: u64) -> Result<Coverage, Box<Violation>> {
    let mut world = World::new(seed, profile, false);
    if world.run().is_ok() {
        return Ok(world.net.coverage);
    }
    // The same again, with notes.
    let mut world = World::new(seed, profile, true);
    match world.run() {
        Ok(()) => Err(Box::new(Violation {
            profile,
            seed,
            promise: Promise::Counts,
            what: "a fault that did not come again: the run depends on more than its seed".to_owned(),
            trace: Vec::new(),
        })),
        Err(fault) => Err(Box::new(Violation {
            profile,
            seed,
            promise: fault.promise,
            what: fault.what,
            trace: world.net.trace.take().unwrap_or_default().into(),
        })),
    }
}
