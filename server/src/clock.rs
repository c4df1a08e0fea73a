//! The one monotonic clock of the process, for the turns of shards and the timestamps of events.

use std::time::{Duration, Instant, SystemTime};

use revcast_engine::tick::Tick;

/// Where ticks count from.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    wall: SystemTime,
}

impl Clock {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self { start: Instant::now(), wall: SystemTime::now() }
    }

    /// The time since the start, as a tick.
    #[must_use]
    pub fn now(&self) -> Tick {
        Tick::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// When it was started.
    #[must_use]
    pub const fn started(&self) -> Instant {
        self.start
    }

    /// The same as wall time.
    #[must_use]
    pub const fn started_at(&self) -> SystemTime {
        self.wall
    }

    /// The time since then.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}
