//! Hash maps with keys that clients choose: labels, values, namespaces.
//!
//! The engine draws no random number, so the creator of a shard passes the seed. A server draws one, so that a client
//! cannot choose names that collide. Tests and instruction counts use a fixed seed, so that they repeat exactly.

use std::collections::HashMap;
use std::hash::BuildHasher;

use siphasher::sip::SipHasher13;

/// The key of SipHash-1-3.
#[derive(Clone, Copy)]
pub struct HashSeed(u64, u64);

impl HashSeed {
    /// The same every time: for tests and measurements. Its collisions can be computed.
    pub const FIXED: Self = Self(0x7265_7663_6173_7400, 1);

    /// A secret seed, if these numbers are random.
    #[must_use]
    pub const fn new(first: u64, second: u64) -> Self {
        Self(first, second)
    }
}

impl std::fmt::Debug for HashSeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashSeed(..)")
    }
}

impl BuildHasher for HashSeed {
    type Hasher = SipHasher13;

    #[inline]
    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, self.1)
    }
}

/// A map with a seed.
pub(crate) type Map<K, V> = HashMap<K, V, HashSeed>;
