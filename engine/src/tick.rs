//! Monotonic time as a value. The engine reads no clock: its driver passes the time.

use std::time::Duration;

/// Nanoseconds since a start that the driver chose. Only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(u64);

impl Tick {
    /// The driver's start.
    pub const ZERO: Self = Self(0);

    /// The moment `ns` nanoseconds after the start.
    #[must_use]
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The moment `delay` later. Saturates after 584 years.
    #[must_use]
    pub fn plus(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// The moment `lead` earlier, or the start.
    #[must_use]
    pub fn minus(self, lead: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(lead.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// The time that passed since `earlier`; zero when it is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The last step of a grid by this moment; the moment itself when the grid has no steps.
    #[must_use]
    pub fn on_grid(self, step: Duration) -> Self {
        let step = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0 - self.0.checked_rem(step).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_on_a_grid() {
        let on = |at, step| Tick::from_nanos(at).on_grid(Duration::from_nanos(step)).as_nanos();
        assert_eq!([on(0, 10), on(9, 10), on(10, 10), on(29, 10), on(7, 0)], [0, 0, 10, 20, 7]);
    }
}
