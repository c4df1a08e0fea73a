//! Recently compressed pages.
//!
//! Clients that begin together get the same pages of the same state, one after another: compressing a page costs a
//! hundred times what comparing it does. Within a budget of bytes, the least recently used page is dropped first.

use std::collections::VecDeque;

/// Bytes of pages and their compressed forms that a shard keeps: a state of some MiB, so that clients that begin a
/// little later find the pages of earlier ones.
pub(super) const KEPT_BYTES_MAX: usize = 8 << 20;

#[derive(Debug)]
struct Page {
    sum: u32,
    payloads: Box<[u8]>,
    blocks: Box<[u8]>,
}

impl Page {
    fn bytes(&self) -> usize {
        self.payloads.len() + self.blocks.len()
    }
}

/// The pages, newest first.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pages: VecDeque<Page>,
    bytes: usize,
}

impl Kept {
    /// The blocks of exactly these payloads, which have this checksum.
    pub(super) fn find(&mut self, payloads: &[u8], sum: u32) -> Option<&[u8]> {
        let at = self.pages.iter().position(|page| page.sum == sum && *page.payloads == *payloads)?;
        if at > 0 {
            let page = self.pages.remove(at)?;
            self.pages.push_front(page);
        }
        self.pages.front().map(|page| &*page.blocks)
    }

    /// Keeps a page, and drops others when there are too many.
    pub(super) fn add(&mut self, payloads: &[u8], sum: u32, blocks: &[u8]) {
        let page = Page { sum, payloads: payloads.into(), blocks: blocks.into() };
        if page.bytes() > KEPT_BYTES_MAX / 4 {
            return;
        }
        self.bytes += page.bytes();
        self.pages.push_front(page);
        while self.bytes > KEPT_BYTES_MAX
            && let Some(oldest) = self.pages.pop_back()
        {
            self.bytes -= oldest.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_exact_and_bounded() {
        let mut kept = Kept::default();
        let page = |number: usize| vec![number.to_le_bytes()[0]; 60_000];
        for number in 0..200 {
            kept.add(&page(number), 7, format!("wire {number}").as_bytes());
            assert!(kept.bytes <= KEPT_BYTES_MAX, "{}", kept.bytes);
            // Used every time: never dropped.
            assert_eq!(kept.find(&page(0), 7), Some(&b"wire 0"[..]), "behind {number}");
        }
        assert_eq!(kept.find(&page(199), 7), Some(&b"wire 199"[..]));
        assert_eq!(kept.find(&page(199), 8), None, "another sum");
        assert_eq!(kept.find(&page(199)[1..], 7), None, "another page of this sum");
        assert_eq!(kept.find(&page(1), 7), None, "the least used went");
        assert_eq!(kept.bytes, kept.pages.iter().map(Page::bytes).sum::<usize>());
        kept.add(&vec![0; KEPT_BYTES_MAX], 1, b"");
        assert!(kept.pages.len() > 100, "one giant does not chase all others away");
    }
}
