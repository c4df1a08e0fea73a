//! How many keys the next page of a range asks for.
//!
//! Owns the limit of a page, and how it follows from what became of the page before. etcd bounds a range by a number of keys
//! and never by bytes, and nothing tells the size of a value before it is read. So the first pages are small, no page asks
//! for more than twice as many keys as the one before, and an answer that is larger than it may be, or does not come in
//! time, is asked for again with an eighth of the keys, and not with more before all of those are there. It is a plain value
//! without I/O.

/// What a page is to weigh.
const PAGE_BYTES: usize = 4 << 20;
/// An answer with more bytes is not taken in, unless it is of one key.
pub(super) const PAGE_BYTES_MAX: usize = 32 << 20;
/// Keys of the first page, when nothing is known of their weight.
const KEYS_FIRST: usize = 100;
/// Keys of any page. With values of 1.5 MiB, the most that etcd takes unless it is told otherwise, this is what an answer
/// can cost etcd at worst; a much smaller limit costs it more, for it counts all keys that are left for each page.
const KEYS_MAX: usize = 1_000;
/// Keys of a page without values, where those are known to be small: etcd reads them nevertheless, before it leaves them out.
const KEYS_ALONE_MAX: usize = 10_000;
/// What the values that are left out of such a page may weigh.
const LEFT_OUT_BYTES: u64 = 256 << 20;
/// How much fewer keys are asked for after a page that failed: 1,000 keys of 1 MiB fit at the second attempt after it.
const SHRINK: usize = 8;

/// The limit of the next page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pager {
    keys: usize,
    keys_max: usize,
    /// Keys that are left of a page that failed: the heavy ones are among them, so no page grows before they are passed.
    held: usize,
}

impl Pager {
    /// For a range of which nothing is known.
    pub(super) const fn new() -> Self {
        Self { keys: KEYS_FIRST, keys_max: KEYS_MAX, held: 0 }
    }

    /// For a range without values, which weigh so many bytes on average.
    pub(super) fn of_keys(weight: u64) -> Self {
        let fits = usize::try_from(LEFT_OUT_BYTES / weight.max(1)).unwrap_or(KEYS_ALONE_MAX);
        Self { keys_max: fits.clamp(KEYS_MAX, KEYS_ALONE_MAX), ..Self::new() }
    }

    /// How many keys to ask for.
    pub(super) fn limit(self) -> i64 {
        i64::try_from(self.keys).unwrap_or(i64::MAX)
    }

    /// How many bytes its answer may have. One key cannot be asked for in parts: whatever etcd took can be read.
    pub(super) const fn bytes_max(self) -> usize {
        if self.keys == 1 { usize::MAX } else { PAGE_BYTES_MAX }
    }

    /// The page came, with so many keys and bytes.
    pub(super) fn took(&mut self, keys: usize, bytes: usize) {
        if keys == 0 {
            return;
        }
        self.held = self.held.saturating_sub(keys);
        let grown = if self.held > 0 { self.keys } else { self.keys.saturating_mul(2) };
        let fits = PAGE_BYTES / bytes.div_ceil(keys).max(1);
        self.keys = fits.clamp(1, self.keys_max).min(grown);
    }

    /// The page was too large, or too slow: it is asked for again. Whether that can help; a page of one key cannot be made
    /// smaller.
    #[must_use]
    pub(super) const fn shrink(&mut self) -> bool {
        let can = self.keys > 1;
        self.held = self.keys;
        self.keys = if self.keys > SHRINK { self.keys / SHRINK } else { 1 };
        can
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of a store, by their weight, read page by page: what each page weighed, and the answers that were refused.
    fn read(weights: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let (mut pager, mut at, mut pages, mut refused) = (Pager::new(), 0, Vec::new(), Vec::new());
        while at < weights.len() {
            let page = &weights[at..weights.len().min(at + pager.keys)];
            let bytes = page.iter().sum();
            if bytes > pager.bytes_max() {
                refused.push(bytes);
                assert!(pager.shrink(), "a page of one key is never too large");
                continue;
            }
            pager.took(page.len(), bytes);
            pages.push(bytes);
            at += page.len();
        }
        (pages, refused)
    }

    #[test]
    fn small_keys_come_in_large_pages() {
        let (pages, refused) = read(&vec![100; 100_000]);
        assert!(pages.len() < 110 && refused.is_empty(), "{} pages", pages.len());
        let (pages, _) = read(&vec![1024; 100_000]);
        assert!(pages.len() < 110, "{} pages", pages.len());
        // Not larger than they are to be.
        let (pages, _) = read(&vec![64 << 10; 10_000]);
        assert!(pages.iter().skip(1).all(|bytes| *bytes <= PAGE_BYTES), "{pages:?}");
    }

    #[test]
    fn keys_alone_come_in_larger_pages() {
        let pages = |mut pager: Pager, keys: usize| {
            let (mut left, mut pages) = (keys, 0);
            while left > 0 {
                let page = left.min(pager.keys);
                pager.took(page, page * 60);
                (left, pages) = (left - page, pages + 1);
            }
            pages
        };
        // etcd counts what is left for each page: the fewer the better.
        assert_eq!(pages(Pager::new(), 1_000_000), 1_003);
        assert_eq!(pages(Pager::of_keys(2 << 10), 1_000_000), 106);
        // But it reads the values: of large ones not so many at once.
        assert_eq!(Pager::of_keys(64 << 10).keys_max, 4096);
        assert_eq!(Pager::of_keys(1 << 20).keys_max, 1_000);
        assert_eq!(Pager::of_keys(0).keys_max, 10_000);
    }

    #[test]
    fn large_keys_after_small_ones_are_asked_for_again_in_smaller_pages() {
        let weights = [vec![300; 12_000], vec![1 << 20; 300]].concat();
        let (pages, refused) = read(&weights);
        assert!(pages.iter().all(|bytes| *bytes <= PAGE_BYTES_MAX), "{pages:?}");
        assert!((1..=2).contains(&refused.len()), "{refused:?}");
        // A key's weight is known after the first page of them.
        assert!(pages.len() < 110, "{} pages", pages.len());
    }

    #[test]
    fn the_first_page_is_a_guess_that_is_mended() {
        let (pages, refused) = read(&vec![1_500 << 10; 100]);
        assert_eq!(refused.len(), 1);
        assert!(pages.iter().all(|bytes| *bytes <= PAGE_BYTES_MAX));
        // No key is too large to be read.
        let (pages, _) = read(&[100, 100 << 20, 100]);
        assert!(pages.contains(&(100 << 20)), "{pages:?}");
    }

    #[test]
    fn limits_double_at_most_and_have_bounds() {
        let mut pager = Pager::new();
        for _ in 0..10 {
            let _ = pager.shrink();
        }
        assert!(!pager.shrink());
        assert_eq!((pager.limit(), pager.bytes_max()), (1, usize::MAX));
        pager.took(1, 10);
        assert_eq!((pager.limit(), pager.bytes_max()), (2, PAGE_BYTES_MAX));
        // Neither nothing nor too much is asked for, whatever came.
        pager.took(0, 0);
        assert_eq!(pager.limit(), 2);
        pager.took(1, usize::MAX);
        assert_eq!(pager.limit(), 1);
        for _ in 0..20 {
            pager.took(1, 0);
        }
        assert_eq!(pager.limit(), 1_000);
    }

    /// Any order of weights up to what etcd takes: every page is within the bound, and what is refused costs a logarithm.
    #[test]
    fn any_order_of_weights_is_read_within_the_bound() {
        let mut state = 7_u64;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap_or(0) % below
        };
        for _ in 0..50 {
            let mut weights = Vec::new();
            while weights.len() < 20_000 {
                let weight = [80, 1_000, 30_000, 1_500_000][random(4)];
                weights.extend(std::iter::repeat_n(weight, 1 + random(2_000)));
            }
            let (pages, refused) = read(&weights);
            assert!(pages.iter().all(|bytes| *bytes <= PAGE_BYTES_MAX));
            assert!(refused.iter().all(|bytes| *bytes <= KEYS_MAX * 1_500_000));
            assert!(refused.len() < 120, "{} of {} pages", refused.len(), pages.len());
        }
    }
}
