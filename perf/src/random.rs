//! A seeded sequence (SplitMix64, Steele, Lea and Flood 2014): the same seed writes the same objects in the same order.

/// The generator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A place in a slice of `len` elements, which is not empty.
    pub(crate) fn below(&mut self, len: usize) -> usize {
        let spot = (u128::from(self.next()) * len as u128) >> 64;
        usize::try_from(spot).unwrap_or(0)
    }
}
