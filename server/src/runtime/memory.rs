//! The limit on the memory of the process, and what happens near it.
//!
//! Owns the decision, which is pure ([`judge`], [`window`]); `memory_watch` calls it ten times a second. First nothing new is
//! admitted that would need more; then writes are refused too, and the window is narrowed, which ends the slowest watches and
//! frees what they held. What has begun continues.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::http::status::Status;
use crate::value::show_size;

/// A window is not narrowed below this, the smallest size that may be configured.
const WINDOW_BYTES_MIN: u64 = 1 << 20;

/// How scarce memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Scarcity {
    /// Nothing is refused.
    None,
    /// At most 3/16 is left: no new watch, no new list.
    Tight,
    /// At most 1/8 is left: no writes, and the window is narrowed. Deletes, and what has begun, may need some of it.
    Full,
}

/// The limit, and how close the process is to it.
#[derive(Debug)]
pub(super) struct Memory {
    /// Bytes of resident memory; `None`: no limit.
    pub(super) max: Option<u64>,
    scarcity: AtomicU8,
}

impl Memory {
    pub(super) const fn new(max: Option<u64>) -> Self {
        Self { max, scarcity: AtomicU8::new(Scarcity::None as u8) }
    }

    /// The Status for a watch or list if there is too little memory to begin it.
    pub(super) fn refuses_reader(&self) -> Option<Box<Status>> {
        self.refuses(Scarcity::Tight)
    }

    /// The Status for a request with a body if there is too little memory for it.
    pub(super) fn refuses_writer(&self) -> Option<Box<Status>> {
        self.refuses(Scarcity::Full)
    }

    /// Sets the scarcity from now on.
    pub(super) fn note(&self, scarcity: Scarcity) {
        self.scarcity.store(scarcity as u8, Ordering::Relaxed);
    }

    fn refuses(&self, from: Scarcity) -> Option<Box<Status>> {
        if self.scarcity.load(Ordering::Relaxed) < from as u8 {
            return None;
        }
        let message = format!(
            "this server has little memory left of the {} that it may use: retry later, or raise max-memory",
            show_size(self.max.unwrap_or_default())
        );
        Some(Box::new(Status::too_many_requests(message, 1)))
    }
}

/// The scarcity for this much resident memory.
pub(super) const fn judge(resident: u64, max: u64) -> Scarcity {
    if resident >= max - max / 8 {
        Scarcity::Full
    } else if resident >= max - max / 16 * 3 {
        Scarcity::Tight
    } else {
        Scarcity::None
    }
}

/// The size of the window from now on: an eighth less than it holds while memory is full; it grows slowly to the configured
/// size when there is enough.
pub(super) fn window(scarcity: Scarcity, holds: u64, may: u64, most: u64) -> u64 {
    match scarcity {
        Scarcity::Full => {
            let now = holds.min(may);
            (now - now / 8).max(WINDOW_BYTES_MIN).min(may)
        }
        Scarcity::Tight => may,
        Scarcity::None => may.saturating_add(may / 8).min(most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 256 << 20;

    #[test]
    fn readers_are_refused_before_writers() {
        let memory = Memory::new(Some(MAX));
        let says = |resident: u64| {
            memory.scarcity.store(judge(resident, MAX) as u8, Ordering::Relaxed);
            (memory.refuses_reader().map(|it| it.code()), memory.refuses_writer().map(|it| it.code()))
        };
        assert_eq!(says(207 << 20), (None, None));
        assert_eq!(says(208 << 20), (Some(429), None));
        assert_eq!(says(223 << 20), (Some(429), None));
        assert_eq!(says(224 << 20), (Some(429), Some(429)));
        assert_eq!(says(1 << 40), (Some(429), Some(429)));
        let text = memory.refuses_writer().expect("full").to_json();
        assert!(text.contains("of the 256MiB that it may use"), "{text}");
        assert_eq!(says(0), (None, None), "and let in again");
    }

    #[test]
    fn the_window_narrows_from_what_it_holds_and_widens_again() {
        let most = 64 << 20;
        assert_eq!(
            window(Scarcity::Full, 8 << 20, most, most),
            7 << 20,
            "what it does not hold frees nothing"
        );
        assert_eq!(window(Scarcity::Full, 0, most, most), WINDOW_BYTES_MIN);
        assert_eq!(window(Scarcity::Tight, 8 << 20, 9 << 20, most), 9 << 20);
        let mut may = WINDOW_BYTES_MIN;
        let mut looks = 0;
        while may < most {
            may = window(Scarcity::None, 0, may, most);
            looks += 1;
        }
        assert_eq!((may, looks), (most, 36), "in four seconds");
        assert_eq!(window(Scarcity::Full, 1 << 10, 1 << 10, 1 << 10), 1 << 10, "never wider than it was");
    }
}
