//! An allocator that counts the allocations and frees of each thread.
//!
//! It owns the counts and passes every request to the system's allocator. A test binary that includes this file
//! allocates through it; the server does not.
#![allow(unsafe_code, reason = "only an allocator sees every allocation, and being one is an unsafe trait")]
#![allow(dead_code, reason = "each test that includes this file uses a part of it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Without a destructor and without lazy initialization: it can be used within the allocator.
    static ASKED: Cell<u64> = const { Cell::new(0) };
    /// Bytes allocated minus bytes freed.
    static HELD: Cell<i64> = const { Cell::new(0) };
}

#[derive(Debug)]
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(bytes: usize, back: usize) {
    ASKED.with(|asked| asked.set(asked.get() + 1));
    hold(bytes, back);
}

fn hold(bytes: usize, back: usize) {
    // No allocation has more than `isize::MAX` bytes.
    #[allow(clippy::cast_possible_wrap)]
    HELD.with(|held| held.set(held.get() + bytes as i64 - back as i64));
}

// SAFETY: every call goes to the system's allocator as it came, and what that answers is handed back as it is; counting
// touches a number of this thread and neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps `alloc`'s contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes, layout.size());
        // SAFETY: `old` came from here, so from the system's allocator, with this layout.
        unsafe { System.realloc(old, layout, bytes) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        hold(0, layout.size());
        // SAFETY: as in `realloc`.
        unsafe { System.dealloc(old, layout) }
    }
}

/// How often this thread allocated or grew memory during `work`.
pub(crate) fn allocations(work: impl FnOnce()) -> u64 {
    let before = ASKED.with(Cell::get);
    work();
    ASKED.with(Cell::get) - before
}

/// Bytes that this thread allocated and did not free; frees by another thread are not seen.
pub(crate) fn held() -> i64 {
    HELD.with(Cell::get)
}

#[test]
fn an_allocation_is_counted() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
    let mut grown = Vec::with_capacity(1);
    assert_eq!(allocations(|| grown.extend_from_slice(std::hint::black_box(&[0_u64; 64]))), 1);
    assert_eq!(allocations(|| drop(std::hint::black_box(grown))), 0);
    let before = held();
    let kept = std::hint::black_box(vec![0_u8; 1000]);
    assert_eq!(held() - before, 1000);
    drop(kept);
    assert_eq!(held(), before);
}
