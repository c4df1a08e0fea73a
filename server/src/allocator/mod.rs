//! The memory allocator: mimalloc, but for blocks of 1 to 16 KiB of which it would waste much; its options: page sizes, and when
//! freed memory is returned to the system.
//!
//! Owns the calls to mimalloc's C interface, which takes its options as bare numbers.
#![allow(unsafe_code)]

mod sizes;
mod slabs;

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::{self, NonNull};

use mimalloc::MiMalloc;

use self::sizes::Size;
use self::slabs::Slabs;

/// `mi_option_purge_delay` (mimalloc.h, versions 2 and 3).
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
/// Milliseconds; the default is a second.
const SOON: std::ffi::c_long = 10;

static SLABS: Slabs = Slabs::new();

/// The allocator of the server. Most of a cache is messages of some KiB, and their blocks should not be larger than they are.
#[derive(Clone, Copy, Debug)]
pub struct Allocator;

// SAFETY: every block is handed out by one of two allocators, each of which is sound; which of them depends on nothing but the
// layout, which is the same when the block comes back. Neither panics.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match Size::of(layout) {
            Some(size) => SLABS.take(size).map_or(ptr::null_mut(), NonNull::as_ptr),
            // SAFETY: the caller's promises are those that mimalloc wants.
            None => unsafe { MiMalloc.alloc(layout) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match (Size::of(layout), NonNull::new(block)) {
            // SAFETY: the caller promises that the block came from here, with this layout.
            (Some(size), Some(block)) => unsafe { SLABS.give(block, size) },
            // SAFETY: the same.
            _ => unsafe { MiMalloc.dealloc(block, layout) },
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if Size::of(layout).is_none() {
            // SAFETY: the caller's promises are those that mimalloc wants.
            return unsafe { MiMalloc.alloc_zeroed(layout) };
        }
        // SAFETY: the caller's promises are passed on.
        let block = unsafe { self.alloc(layout) };
        if !block.is_null() {
            // SAFETY: the block is as long as was asked for.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the new size makes a layout.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        match (Size::of(layout), Size::of(new)) {
            // SAFETY: the caller's promises are those that mimalloc wants.
            (None, None) => return unsafe { MiMalloc.realloc(block, layout, new_size) },
            (before, after) if before == after => return block,
            _ => {}
        }
        // SAFETY: the caller promises that the new size is not 0, and that the old block is as long as its layout says; the new
        // one is another, and at least as long as what is copied.
        unsafe {
            let moved = self.alloc(new);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size().min(new_size));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

/// Returns freed memory to the system within some milliseconds. For servers with a memory limit: memory that is only kept for
/// later would count against it. Must be called before other threads are started.
pub fn give_back_soon() {
    // SAFETY: a number is stored in a table of options; no pointer is passed, and no other thread sets options.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, SOON) }
}

/// Returns memory to the system that was freed long enough ago, whoever freed it. By itself mimalloc only looks when much is allocated: what a
/// start or a load needed would be kept until then, however long that is.
pub fn give_back_due() {
    // SAFETY: no pointer is passed; mimalloc collects the heap of the calling thread, which is its own, and what is free in all.
    unsafe { libmimalloc_sys::mi_collect(false) }
    SLABS.give_back();
}

/// Disables transparent huge pages for this process: mimalloc asks for them, and the kernel fills them up with unused memory
/// later. If the system refuses, they stay enabled.
pub fn refuse_huge_pages() {
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of so many bytes that was filled, moved to another size and back, and given back.
    fn moves(from: usize, to: usize) {
        let layout = |size| Layout::from_size_align(size, 8).expect("a layout");
        let common = from.min(to);
        let pattern: Vec<u8> = (0..=250).cycle().take(from).collect();
        // SAFETY: the layouts are those that the block has at each time, and it is as long as they say.
        unsafe {
            let mut block = Allocator.alloc_zeroed(layout(from));
            assert!(std::slice::from_raw_parts(block, from).iter().all(|byte| *byte == 0));
            std::slice::from_raw_parts_mut(block, from).copy_from_slice(&pattern[..from]);
            block = Allocator.realloc(block, layout(from), to);
            block = Allocator.realloc(block, layout(to), from);
            let kept = std::slice::from_raw_parts(block, common);
            assert!(
                kept.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 251),
                "{from} to {to}"
            );
            Allocator.dealloc(block, layout(from));
        }
    }

    #[test]
    fn a_block_keeps_its_bytes_when_it_grows_and_shrinks() {
        let sizes = [
            1, 100, 1024, 1025, 1088, 1089, 1280, 2048, 2100, 2150, 2176, 4096, 9000, 9001, 16_384, 16_385,
            100_000,
        ];
        for from in sizes {
            for to in sizes {
                moves(from, to);
            }
        }
    }

    #[test]
    fn huge_pages_are_refused() {
        refuse_huge_pages();
        assert!(rustix::thread::transparent_huge_pages_are_disabled().expect("Linux tells"));
    }

    #[test]
    fn the_option_is_the_one_that_is_meant() {
        // SAFETY: a number is read from a table of options.
        let get = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        let before = get();
        assert!([10, 1000].contains(&before), "the default of mimalloc's versions, not {before}");
        give_back_soon();
        assert_eq!(get(), SOON);
    }
}
