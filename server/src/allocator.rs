//! Options of the memory allocator: page sizes, and when freed memory is returned to the system.
//!
//! Owns the calls to mimalloc's C interface, which takes its options as bare numbers.
#![allow(unsafe_code)]

/// `mi_option_purge_delay` (mimalloc.h, versions 2 and 3).
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
/// Milliseconds; the default is a second.
const SOON: std::ffi::c_long = 10;

/// Returns freed memory to the system within some milliseconds. For servers with a memory limit: memory that is only kept for
/// later would count against it. Must be called before other threads are started.
pub fn give_back_soon() {
    // SAFETY: a number is stored in a table of options; no pointer is passed, and no other thread sets options.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, SOON) }
}

/// Returns memory to the system that was freed long enough ago, whoever freed it. mimalloc only looks when much is allocated: what a
/// start or a load needed would be kept until then, however long that is.
pub fn give_back_due() {
    // SAFETY: no pointer is passed; mimalloc collects the heap of the calling thread, which is its own, and what is free in all.
    unsafe { libmimalloc_sys::mi_collect(false) }
}

/// Disables transparent huge pages for this process: mimalloc asks for them, and the kernel fills them up with unused memory
/// later. If the system refuses, they stay enabled.
pub fn refuse_huge_pages() {
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

#[cfg(test)]
mod tests {
    #[test]
    fn huge_pages_are_refused() {
        super::refuse_huge_pages();
        assert!(rustix::thread::transparent_huge_pages_are_disabled().expect("Linux tells"));
    }

    #[test]
    fn the_option_is_the_one_that_is_meant() {
        // SAFETY: a number is read from a table of options.
        let get = || unsafe { libmimalloc_sys::mi_option_get(super::PURGE_DELAY) };
        let before = get();
        assert!([10, 1000].contains(&before), "the default of mimalloc's versions, not {before}");
        super::give_back_soon();
        assert_eq!(get(), super::SOON);
    }
}
