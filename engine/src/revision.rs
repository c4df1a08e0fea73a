//! The two counters of the engine: the store's clock and the ring's count.
//!
//! Both only grow. They are different types, so that one cannot be passed for the other.

use std::fmt;

/// The store's logical clock: one per atomic change, only grows (etcd's `revision`).
///
/// On the wire it is a `resourceVersion`. Zero is "before everything".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// Before every change.
    pub const ZERO: Self = Self(0);

    /// The revision numbered `n`.
    #[must_use]
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// The number itself, as in a `resourceVersion`.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The revision of the next change.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A position in the ring: it grows by one from each event to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

impl Position {
    /// The position of the first event that is published. Those before it are for events of before an engine began: see
    /// [`crate::history`].
    pub const FIRST: Self = Self(1 << 40);

    /// The position with this number.
    #[must_use]
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The next position.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// How many events lie between `earlier` and here; zero when `earlier` is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
