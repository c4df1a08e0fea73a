//! Hash maps with keys that clients choose: labels, values, namespaces.
//!
//! The engine draws no random number, so the creator of a shard passes the seed. A server draws one, so that a client
//! cannot choose names that collide. Tests and instruction counts use a fixed seed, so that they repeat exactly.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

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

/// A map by texts, as bytes, with a seed.
pub(crate) type TextMap<V> = HashMap<Box<[u8]>, V, TextSeed>;

/// The seed of a map by texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextSeed(pub(crate) HashSeed);

impl BuildHasher for TextSeed {
    type Hasher = TextHasher;

    #[inline]
    fn build_hasher(&self) -> TextHasher {
        TextHasher(self.0.build_hasher())
    }
}

/// Hashes one text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextHasher(SipHasher13);

impl Hasher for TextHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// A slice writes its length first, for what may follow it: nothing does, and the hash of the bytes has their length in it.
    #[inline]
    fn write_usize(&mut self, _: usize) {}

    #[inline]
    fn finish(&self) -> u64 {
        self.0.finish()
    }
}
