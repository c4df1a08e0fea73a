//! How many keys the next page of a range asks for.
//!
//! Owns the limit of a page, and how it follows from the result of the previous page. etcd limits a range by a number of keys
//! and never by bytes, and the size of a value is not known before it is read. So the first pages are small, no page requests
//! more than twice as many keys as the previous one, and an answer that exceeds the limit, or does not come in time, is
//! requested again with an eighth of the keys, and not with more before all of those are there. It is a plain value without
//! I/O.

/// The intended weight of a page.
const PAGE_BYTES: usize = 4 << 20;
/// A larger answer is not accepted, unless it is of one key.
pub(super) const PAGE_BYTES_MAX: usize = 32 << 20;
/// Keys of the first page, when their weight is not known.
const KEYS_FIRST: usize = 100;
/// The largest number of keys of a page. With values of 1.5 MiB, etcd's default limit, this is what an answer can cost etcd at
/// worst; a much smaller limit costs it more, because it counts all remaining keys for each page.
const KEYS_MAX: usize = 1_000;
/// Keys of a page without values, if those are known to be small: etcd reads them nevertheless, before it leaves them out.
const KEYS_ALONE_MAX: usize = 10_000;
/// The total weight of the values that are left out of such a page.
const LEFT_OUT_BYTES: u64 = 256 << 20;
/// The reduction after a page that failed: 1,000 keys of 1 MiB fit at the second attempt after it.
const SHRINK: usize = 8;

/// The limit of the next page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pager {
    keys: usize,
    keys_max: usize,
    /// Keys that remain of a page that failed: the heavy ones are among them, so no page grows before they are read.
    held: usize,
}

impl Pager {
    /// For a range of which nothing is known.
    pub(super) const fn new() -> Self {
        Self { keys: KEYS_FIRST, keys_max: KEYS_MAX, held: 0 }
    }

    /// For a range without values, which have this many bytes on average.
    pub(super) fn of_keys(weight: u64) -> Self {
        let fits = usize::try_from(LEFT_OUT_BYTES / weight.max(1)).unwrap_or(KEYS_ALONE_MAX);
        Self { keys_max: fits.clamp(KEYS_MAX, KEYS_ALONE_MAX), ..Self::new() }
    }

    /// The number of keys to request.
    pub(super) fn limit(self) -> i64 {
        i64::try_from(self.keys).unwrap_or(i64::MAX)
    }

    /// The limit on the bytes of its answer. A single key has no limit: whatever etcd accepted can be read.
    pub(super) const fn bytes_max(self) -> usize {
        if self.keys == 1 { usize::MAX } else { PAGE_BYTES_MAX }
    }

    /// The page came, with this many keys and bytes.
    pub(super) fn took(&mut self, keys: usize, bytes: usize) {
        if keys == 0 {
            return;
        }
        self.held = self.held.saturating_sub(keys);
        let grown = if self.held > 0 { self.keys } else { self.keys.saturating_mul(2) };
        let fits = PAGE_BYTES / bytes.div_ceil(keys).max(1);
        self.keys = fits.clamp(1, self.keys_max).min(grown);
    }

    /// The page was too large, or too slow: it is requested again. Returns whether that can help; a page of one key cannot be
    /// made smaller.
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

    /// Reads the keys of a store, given by their weights, page by page: returns the weight of each page, and the number of
    /// refused answers.
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
        // Not larger than intended.
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
        // etcd counts the remaining keys for each page: the fewer pages the better.
        assert_eq!(pages(Pager::new(), 1_000_000), 1_003);
        assert_eq!(pages(Pager::of_keys(2 << 10), 1_000_000), 106);
        // But it reads the values: with large ones the pages are smaller.
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
        // Every request is within the limits, whatever came.
        pager.took(0, 0);
        assert_eq!(pager.limit(), 2);
        pager.took(1, usize::MAX);
        assert_eq!(pager.limit(), 1);
        for _ in 0..20 {
            pager.took(1, 0);
        }
        assert_eq!(pager.limit(), 1_000);
    }

    /// Any order of weights up to etcd's limit: every page is within the bound, and the number of refusals is logarithmic.
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
