//! Real etcds for tests: processes on free ports of the loopback, with data of their own, that can be killed, paused,
//! restored and swapped; and etcdctl, to read the true state without any cache.
//!
//! It never simulates etcd, and never installs it (`cargo xtask etcd` does). Processes end with their owner. An etcd
//! that exists while a test panics leaves its log, and prints its path.

mod auth;
mod cluster;
mod control;
mod folder;
mod follower;
mod gateway;
mod member;
mod options;
mod record;
mod release;

use std::path::Path;

pub use self::auth::{Access, Account};
pub use self::cluster::Cluster;
pub use self::control::{Control, Deleted, Listing, Op, Status};
pub use self::follower::Follower;
pub use self::gateway::{Changes, Gateway};
pub use self::options::{Options, Tls};
pub use self::record::{Change, Entry, Record};
pub use self::release::Release;

/// The id of a restored cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// The old one: only the revision shows that something happened.
    Same,
    /// Another one.
    Other,
}

/// A store of one member. Killed, and its data removed, when it goes out of scope.
#[derive(Debug)]
pub struct Etcd(Cluster);

impl Etcd {
    /// Starts one, and waits until it serves.
    ///
    /// # Panics
    /// When it does not.
    #[must_use]
    pub fn start(release: Release, options: Options) -> Self {
        Self(Cluster::start_with(release, 1, options))
    }

    /// Where clients connect: `http://127.0.0.1:PORT`, or `https`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.0.endpoint(0)
    }

    /// The same without its scheme.
    #[must_use]
    pub fn address(&self) -> String {
        self.0.address(0)
    }

    /// Its release.
    #[must_use]
    pub const fn release(&self) -> Release {
        self.0.release()
    }

    /// A control for it.
    #[must_use]
    pub fn control(&self) -> Control {
        self.0.control()
    }

    /// Its process id.
    ///
    /// # Panics
    /// When it does not run.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.pid(0)
    }

    /// Whether it runs, even if paused.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.0.is_running(0)
    }

    /// All its metrics, as text.
    ///
    /// # Panics
    /// When it does not answer.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.0.ask(0, "/metrics").expect("etcd tells its metrics")
    }

    /// A metric; `None` when it does not answer or has none of this name.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.0.metric(0, name)
    }

    /// A folder that is removed with it, for snapshots.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.0.folder()
    }

    /// Ends it at once, as a crash would. Its data stay.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&mut self) {
        self.0.kill(0);
    }

    /// Stops it gracefully. Its data stay.
    ///
    /// # Panics
    /// When it does not run, or does not end.
    pub fn stop(&mut self) {
        self.0.stop(0);
    }

    /// Starts it on the same ports and data, after stopping it gracefully if it runs.
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart(&mut self) {
        self.0.restart(0);
    }

    /// Freezes it: it keeps its connections and answers nothing.
    ///
    /// # Panics
    /// When it does not run.
    pub fn pause(&mut self) {
        self.0.pause(0);
    }

    /// Lets it continue.
    ///
    /// # Panics
    /// When it does not run.
    pub fn resume(&mut self) {
        self.0.resume(0);
    }

    /// Replaces it by another store on the same ports: empty, with another cluster id.
    ///
    /// # Panics
    /// When it does not start.
    pub fn swap(&mut self) {
        self.0.swap();
    }

    /// Restores a snapshot.
    ///
    /// # Panics
    /// When that cannot be done.
    pub fn restore(&mut self, snapshot: &Path, token: Token) {
        self.0.restore(snapshot, token);
    }
}
