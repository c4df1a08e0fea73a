//! A seeded simulator of the engine: millions of events, faulty sockets, and an oracle with the whole history.
//!
//! One seed makes one world (`world`): a publisher with a tiny ring, some shards, a writer, clients with sockets of
//! every kind, and a clock that only the driver moves. The `oracle` keeps the whole history, and every byte that a
//! client receives is compared with it. Nothing here reads a clock, draws from anything but the seed, or starts a
//! thread: a run is the same every time, and a fault is replayed with its trace.

mod client;
mod coverage;
mod fault;
mod finale;
mod list;
mod net;
mod object;
mod oracle;
mod pager;
mod pipe;
mod plan;
pub(crate) mod rng;
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

/// Runs the world of one seed to its end.
///
/// # Errors
/// The first broken promise, with the steps before it.
///
/// # Panics
/// When the engine panics, which is a fault as well.
pub fn run(seed: u64) -> Result<Coverage, Box<Violation>> {
    let mut world = World::new(seed, false);
    if world.run().is_ok() {
        return Ok(world.net.coverage);
    }
    // The same again, with a trace.
    let mut world = World::new(seed, true);
    match world.run() {
        Ok(()) => Err(Box::new(Violation {
            seed,
            promise: Promise::Counts,
            what: "a fault that did not come again: the run depends on more than its seed".to_owned(),
            trace: Vec::new(),
        })),
        Err(fault) => Err(Box::new(Violation {
            seed,
            promise: fault.promise,
            what: fault.what,
            trace: world.net.trace.take().unwrap_or_default().into(),
        })),
    }
}
