//! The sizes of blocks: sixteen for each power of two between 1 and 16 KiB.
//!
//! mimalloc has four, of which a block of any size wastes a tenth on average and a fifth at most; of sixteen, a thirtieth and a
//! sixteenth. Where mimalloc's next size is no larger than ours, ours is not used: so every power of two stays with mimalloc.

use std::alloc::Layout;

/// A size of blocks: its place among [`COUNT`] of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Size(u8);

/// Bytes; blocks are larger than this.
const MIN: usize = 1 << 10;
/// Bytes; blocks are at most so large.
const MAX: usize = 16 << 10;
/// Sizes for each power of two.
const STEPS: usize = 16;
/// mimalloc's.
const COARSE_STEPS: usize = 4;
/// How many sizes there are.
pub(super) const COUNT: usize = (MAX / MIN).ilog2() as usize * STEPS;
/// Bytes: every size is a multiple of it, and so is the address of a block.
pub(super) const ALIGNMENT: usize = MIN / STEPS;

impl Size {
    /// The size of blocks that holds this and less of which is wasted than of mimalloc's.
    #[inline]
    pub(super) const fn of(layout: Layout) -> Option<Self> {
        // One comparison for both bounds: this is asked for every allocation.
        if layout.size().wrapping_sub(MIN + 1) >= MAX - MIN || layout.align() > ALIGNMENT {
            return None;
        }
        let last = layout.size() - 1;
        let doubling = (last / MIN).ilog2() as usize;
        let step = (last - (MIN << doubling)) / (ALIGNMENT << doubling);
        if step % (STEPS / COARSE_STEPS) == STEPS / COARSE_STEPS - 1 {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "there are 64")]
        Some(Self((doubling * STEPS + step) as u8))
    }

    /// Its place among all sizes, below [`COUNT`].
    #[inline]
    pub(super) const fn place(self) -> usize {
        self.0 as usize
    }

    /// Bytes of a block.
    #[inline]
    pub(super) const fn bytes(self) -> usize {
        let (doubling, step) = (self.place() / STEPS, self.place() % STEPS);
        (MIN << doubling) + (step + 1) * (ALIGNMENT << doubling)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(size: usize) -> Option<Size> {
        Size::of(Layout::from_size_align(size, 8).expect("a layout"))
    }

    /// What mimalloc takes for a block of this size, between 1 and 16 KiB.
    fn coarse(size: usize) -> usize {
        let step = (size - 1).next_power_of_two() / 2 / COARSE_STEPS;
        size.div_ceil(step) * step
    }

    #[test]
    fn a_block_holds_what_is_asked_for_and_wastes_at_most_a_sixteenth() {
        let mut finer = 0;
        for size in 0..=2 * MAX {
            let Some(chosen) = of(size) else {
                let outside = size <= MIN || size > MAX;
                assert!(outside || coarse(size) - size < size.div_ceil(STEPS), "{size} is left to mimalloc");
                continue;
            };
            finer += 1;
            assert!(
                chosen.bytes() >= size && chosen.bytes() - size <= size / STEPS,
                "{size} in {}",
                chosen.bytes()
            );
            assert!(chosen.bytes() < coarse(size), "{size}");
            assert_eq!(chosen.bytes() % ALIGNMENT, 0);
            assert!(chosen.place() < COUNT);
        }
        assert_eq!(finer, (MAX - MIN) / 4 * 3);
    }

    #[test]
    fn larger_ones_have_larger_places() {
        let sizes: Vec<Size> = (MIN..=MAX).filter_map(of).collect();
        assert!(sizes.is_sorted());
        assert_eq!(of(MIN + 1).map(Size::place), Some(0));
    }

    #[test]
    fn powers_of_two_and_wide_alignments_are_left_to_mimalloc() {
        for size in [1024, 1280, 2048, 4096, 8192, 16384] {
            assert_eq!(of(size), None);
        }
        let aligned = |align| Size::of(Layout::from_size_align(2112, align).expect("a layout"));
        assert!(aligned(64).is_some());
        assert_eq!(aligned(128), None);
    }
}
