//! Blocks of one size side by side in slabs: who has room, and when a slab's memory is returned to the system.
//!
//! A slab is 256 KiB, aligned to its size, so that a block's address tells its slab. Blocks that were never handed out are
//! not touched, and so take no memory. Slabs are cut out of regions that are mapped once and never unmapped: a slab without a block
//! in use gives its memory back and waits for any size of blocks. Each size has a lock of its own, held for some instructions.
#![allow(unsafe_code)]

use std::ptr::{self, NonNull};
use std::sync::{Mutex, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

use super::sizes::{ALIGNMENT, COUNT, Size};

/// Bytes.
const SLAB: usize = 256 << 10;
/// Bytes that are mapped at once.
const REGION: usize = 16 << 20;

/// Where a slab's blocks begin: after its head.
const FIRST: usize = ALIGNMENT;
const _: () = assert!(size_of::<Head>() <= FIRST);

/// All slabs.
pub(super) struct Slabs {
    sizes: [Mutex<WithRoom>; COUNT],
    supply: Mutex<Supply>,
}

/// A slab: the address of its head.
type Slab = NonNull<Head>;

/// What stands at the start of a slab.
struct Head {
    /// Its neighbours among the slabs of its size that have room; `next` also among those that wait for a size.
    previous: Option<Slab>,
    next: Option<Slab>,
    /// The last block that was given back, which holds the address of the one before.
    returned: Option<NonNull<Returned>>,
    /// Bytes from the slab's start: blocks from there on were never handed out.
    untouched: usize,
    /// Blocks that are handed out.
    used: usize,
}

/// What stands in a block that was given back.
struct Returned {
    next: Option<NonNull<Self>>,
}

/// The slabs of one size that have room, the one that is filled next first.
struct WithRoom {
    first: Option<Slab>,
    /// One of them without a block in use: a block that comes and goes would cost two calls of the system each time.
    kept: Option<Slab>,
}

/// Slabs of no size.
struct Supply {
    waiting: Option<Slab>,
    /// The part of the newest region that was not cut up yet.
    rest: *mut u8,
    rest_bytes: usize,
}

// SAFETY: the slabs that a list leads to are read and written only under the lock that the list is behind.
unsafe impl Send for WithRoom {}
// SAFETY: the same; the rest of a region belongs to nobody else.
unsafe impl Send for Supply {}

impl Head {
    /// Whether it has a block for somebody; `bytes`: of each.
    const fn has_room(&self, bytes: usize) -> bool {
        self.returned.is_some() || self.untouched + bytes <= SLAB
    }
}

impl Slabs {
    pub(super) const fn new() -> Self {
        Self {
            sizes: [const { Mutex::new(WithRoom { first: None, kept: None }) }; COUNT],
            supply: Mutex::new(Supply { waiting: None, rest: ptr::null_mut(), rest_bytes: 0 }),
        }
    }

    /// A block; `None`: the system has no more memory.
    pub(super) fn take(&self, size: Size) -> Option<NonNull<u8>> {
        let mut list = locked(&self.sizes[size.place()]);
        let slab = match list.first {
            Some(slab) => slab,
            None => {
                let slab = locked(&self.supply).slab()?;
                // SAFETY: a slab of no size belongs to nobody else, and is memory that may be written.
                unsafe {
                    slab.write(Head { previous: None, next: None, returned: None, untouched: FIRST, used: 0 })
                };
                list.push(slab);
                slab
            }
        };
        if list.kept == Some(slab) {
            list.kept = None;
        }
        // SAFETY: the lock of its size is held; a slab with room has a returned block or an untouched one.
        let (block, is_full) = unsafe { take_from(slab, size.bytes()) };
        if is_full {
            list.remove(slab);
        }
        Some(block)
    }

    /// Gives a block back.
    ///
    /// # Safety
    /// It was taken here, as one of this size, and is not used any more.
    pub(super) unsafe fn give(&self, block: NonNull<u8>, size: Size) {
        let slab = slab_of(block);
        let mut list = locked(&self.sizes[size.place()]);
        // SAFETY: the lock of its size is held, and the block belongs to nobody.
        let (was_full, used) = unsafe { give_to(slab, block.cast(), size.bytes()) };
        if was_full {
            list.push(slab);
        }
        if used > 0 {
            return;
        }
        if list.kept.is_none() {
            list.kept = Some(slab);
            return;
        }
        list.remove(slab);
        drop(list);
        self.release(slab);
    }

    /// Returns the memory of all slabs without a block in use to the system.
    pub(super) fn give_back(&self) {
        for list in &self.sizes {
            let mut list = locked(list);
            if let Some(slab) = list.kept.take() {
                list.remove(slab);
                drop(list);
                self.release(slab);
            }
        }
    }

    /// A slab that no list leads to any more has no size from now on.
    fn release(&self, slab: Slab) {
        // SAFETY: no block in it is used, and it belongs to nobody. If the system refuses, its memory is just not returned.
        let _ = unsafe { madvise(slab.as_ptr().cast(), SLAB, Advice::LinuxDontNeed) };
        let mut supply = locked(&self.supply);
        let next = supply.waiting.replace(slab);
        // SAFETY: as above; the lock of those that wait is held.
        unsafe { slab.write(Head { previous: None, next, returned: None, untouched: FIRST, used: 0 }) };
    }
}

impl WithRoom {
    fn push(&mut self, mut slab: Slab) {
        // SAFETY: the lock that this list is behind is held, for all slabs of its size.
        unsafe {
            slab.as_mut().previous = None;
            slab.as_mut().next = self.first;
            if let Some(mut next) = self.first {
                next.as_mut().previous = Some(slab);
            }
        }
        self.first = Some(slab);
    }

    /// Takes out one that is in it.
    fn remove(&mut self, slab: Slab) {
        // SAFETY: the lock that this list is behind is held, for all slabs of its size.
        unsafe {
            let (previous, next) = (slab.as_ref().previous, slab.as_ref().next);
            if let Some(mut next) = next {
                next.as_mut().previous = previous;
            }
            match previous {
                Some(mut previous) => previous.as_mut().next = next,
                None => self.first = next,
            }
        }
    }
}

impl Supply {
    /// A slab of no size: one that waits, or a new one.
    fn slab(&mut self) -> Option<Slab> {
        if let Some(slab) = self.waiting {
            // SAFETY: the lock of those that wait is held.
            self.waiting = unsafe { slab.as_ref() }.next;
            return Some(slab);
        }
        if self.rest_bytes < SLAB {
            (self.rest, self.rest_bytes) = region()?;
        }
        let slab = NonNull::new(self.rest)?;
        // SAFETY: the rest is at least one slab long.
        self.rest = unsafe { self.rest.add(SLAB) };
        self.rest_bytes -= SLAB;
        Some(slab.cast())
    }
}

/// New memory, aligned for slabs, and its length; `None`: the system has no more.
fn region() -> Option<(*mut u8, usize)> {
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    // SAFETY: a new mapping, at an address that the system chooses.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), REGION, access, flags) }.ok()?.cast::<u8>();
    let skipped = start.align_offset(SLAB);
    // SAFETY: less than a slab is skipped, and a region is longer.
    Some((unsafe { start.add(skipped) }, REGION - skipped))
}

/// The slab that a block is in.
fn slab_of(block: NonNull<u8>) -> Slab {
    let into = block.addr().get() % SLAB;
    // SAFETY: a block is in a slab, which begins at a multiple of its length.
    unsafe { block.byte_sub(into) }.cast()
}

/// A block of a slab that has room, and whether it has none now.
///
/// # Safety
/// The lock of its size is held.
unsafe fn take_from(mut slab: Slab, bytes: usize) -> (NonNull<u8>, bool) {
    // SAFETY: the lock is held.
    let head = unsafe { slab.as_mut() };
    head.used += 1;
    let block = match head.returned {
        Some(block) => {
            // SAFETY: a block that was given back holds such an entry.
            head.returned = unsafe { block.as_ref() }.next;
            block.cast()
        }
        None => {
            let at = head.untouched;
            head.untouched += bytes;
            // SAFETY: the slab has room, so there is a block.
            unsafe { slab.cast().byte_add(at) }
        }
    };
    (block, !head.has_room(bytes))
}

/// Puts a block back; whether the slab had no room, and how many of its blocks are in use now.
///
/// # Safety
/// The lock of its size is held, and the block is one of its blocks that nobody uses.
unsafe fn give_to(mut slab: Slab, block: NonNull<Returned>, bytes: usize) -> (bool, usize) {
    // SAFETY: the lock is held.
    let head = unsafe { slab.as_mut() };
    let was_full = !head.has_room(bytes);
    // SAFETY: the block is nobody's, larger than the entry, and aligned for it.
    unsafe { block.write(Returned { next: head.returned }) };
    head.returned = Some(block);
    head.used -= 1;
    (was_full, head.used)
}

fn locked<T>(lock: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::alloc::Layout;
    use std::os::unix::fs::FileExt;

    use super::*;

    fn size(bytes: usize) -> Size {
        Size::of(Layout::from_size_align(bytes, 8).expect("a layout")).expect("finer than mimalloc's")
    }

    /// A block that is filled with its mark.
    struct Filled {
        block: NonNull<u8>,
        bytes: usize,
        mark: u8,
    }

    // SAFETY: a block may be used and given back by any thread.
    unsafe impl Send for Filled {}

    impl Filled {
        fn new(slabs: &Slabs, bytes: usize, mark: u8) -> Self {
            let block = slabs.take(size(bytes)).expect("memory");
            assert_eq!(block.addr().get() % ALIGNMENT, 0);
            // SAFETY: the block is at least so long.
            unsafe { block.write_bytes(mark, bytes) };
            Self { block, bytes, mark }
        }

        /// Checks that nobody wrote to it, and gives it back.
        fn end(self, slabs: &Slabs) {
            // SAFETY: the block is at least so long, and was filled.
            let bytes = unsafe { std::slice::from_raw_parts(self.block.as_ptr(), self.bytes) };
            assert!(bytes.iter().all(|byte| *byte == self.mark), "a block of {} was written to", self.bytes);
            // SAFETY: it was taken with this size.
            unsafe { slabs.give(self.block, size(self.bytes)) };
        }
    }

    /// The slabs that blocks of one size are in, in order, and how many pages of each take memory.
    fn resident(blocks: &[Filled]) -> Vec<(Slab, usize)> {
        let mut slabs: Vec<Slab> = blocks.iter().map(|filled| slab_of(filled.block)).collect();
        slabs.sort();
        slabs.dedup();
        slabs.into_iter().map(|slab| (slab, pages(slab))).collect()
    }

    /// Pages of a slab that take memory.
    fn pages(slab: Slab) -> usize {
        let page = rustix::param::page_size();
        let mut entries = vec![0; SLAB / page * 8];
        let map = std::fs::File::open("/proc/self/pagemap").expect("Linux has one");
        map.read_exact_at(&mut entries, (slab.addr().get() / page * 8) as u64)
            .expect("it tells of all pages");
        entries.chunks(8).filter(|entry| entry[7] & 0x80 != 0).count()
    }

    #[test]
    fn blocks_of_all_sizes_come_and_go_and_no_two_share_a_byte() {
        let (slabs, mut random) = (Slabs::new(), fastrand::Rng::with_seed(1));
        let mut held: Vec<Filled> = Vec::new();
        for step in 0..20_000_u32 {
            // It fills up, is half emptied, and so on.
            let fills = step / 4_000 % 2 == 0;
            if held.is_empty() || random.u8(..) < if fills { 170 } else { 90 } {
                let bytes = random.usize(1025..16 << 10);
                if Size::of(Layout::from_size_align(bytes, 8).expect("a layout")).is_some() {
                    held.push(Filled::new(&slabs, bytes, random.u8(..)));
                }
            } else {
                held.swap_remove(random.usize(..held.len())).end(&slabs);
            }
            if step % 3_000 == 0 {
                slabs.give_back();
            }
        }
        held.into_iter().for_each(|filled| filled.end(&slabs));
    }

    #[test]
    fn a_slab_holds_as_many_as_fit() {
        let slabs = Slabs::new();
        let fit = (SLAB - FIRST) / 2176;
        let held: Vec<Filled> = (0..3 * fit).map(|_| Filled::new(&slabs, 2150, 7)).collect();
        assert_eq!(resident(&held).len(), 3);
        held.into_iter().for_each(|filled| filled.end(&slabs));
    }

    #[test]
    fn memory_is_taken_as_blocks_are_filled_and_returned_with_the_last_one() {
        let slabs = Slabs::new();
        let mut held: Vec<Filled> = (0..600).map(|_| Filled::new(&slabs, 2150, 7)).collect();
        let filled = resident(&held);
        assert_eq!(filled.len(), 5);
        assert!(
            filled.iter().map(|(_, pages)| pages).sum::<usize>()
                <= 600 * 2176 / rustix::param::page_size() + 5 + 1
        );
        // One block stays: its slab does, and one that is kept without any.
        let last = held.pop().expect("600");
        held.into_iter().for_each(|filled| filled.end(&slabs));
        let still = |filled: &[(Slab, usize)]| filled.iter().filter(|(slab, _)| pages(*slab) > 1).count();
        assert_eq!(still(&filled), 2);
        slabs.give_back();
        assert_eq!(still(&filled), 1);
        last.end(&slabs);
        slabs.give_back();
        assert_eq!(still(&filled), 0);
        // Slabs that were given back serve any size.
        let again: Vec<Filled> = (0..100).map(|_| Filled::new(&slabs, 9000, 1)).collect();
        let again_in = resident(&again);
        assert_eq!(
            again_in.iter().filter(|(slab, _)| filled.iter().any(|(known, _)| known == slab)).count(),
            4
        );
        again.into_iter().for_each(|filled| filled.end(&slabs));
    }

    #[test]
    fn threads_give_back_what_others_took() {
        let slabs = Slabs::new();
        std::thread::scope(|scope| {
            let (senders, receivers): (Vec<_>, Vec<_>) =
                (0..4).map(|_| std::sync::mpsc::channel::<Filled>()).unzip();
            for (thread, receiver) in (0_u8..).zip(receivers) {
                let (slabs, senders) = (&slabs, senders.clone());
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(u64::from(thread));
                    for _ in 0..20_000 {
                        let filled = Filled::new(slabs, [1100, 2100, 2150, 9000][random.usize(..4)], thread);
                        // The last ones may come to a thread that has ended.
                        if let Err(filled) = senders[random.usize(..4)].send(filled) {
                            filled.0.end(slabs);
                        }
                        while let Ok(filled) = receiver.try_recv() {
                            filled.end(slabs);
                        }
                    }
                });
            }
        });
    }
}
