//! How much memory the process may take, and what happens when it is near that.
//!
//! Owns the judgement, which is pure ([`judge`], [`window`]); `memory_watch` asks for it ten times a second. First nothing
//! new is let in that would need more; then writes are refused too, and the window is narrowed, which ends the slowest watches
//! and lets go what they held. What is there goes on.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::http::status::Status;
use crate::value::show_size;

/// A window is not narrowed below this: as many bytes are the least that may be configured.
const WINDOW_BYTES_MIN: u64 = 1 << 20;

/// How scarce memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Scarcity {
    /// Everybody gets what they ask for.
    None,
    /// Three sixteenths are left: no new watch, no new list.
    Tight,
    /// An eighth is left: no write either, and the window is narrowed. What is deleted, and what is under way, may need some of it.
    Full,
}

/// The limit, and how near to it the process is.
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

    /// Whether there is too little for a watch or a list to begin; what it is told.
    pub(super) fn refuses_reader(&self) -> Option<Box<Status>> {
        self.refuses(Scarcity::Tight)
    }

    /// Whether there is too little for a body; what its sender is told.
    pub(super) fn refuses_writer(&self) -> Option<Box<Status>> {
        self.refuses(Scarcity::Full)
    }

    /// So scarce it is from now on.
    pub(super) fn note(&self, scarcity: Scarcity) {
        self.scarcity.store(scarcity as u8, Ordering::Relaxed);
    }

    fn refuses(&self, from: Scarcity) -> Option<Box<Status>> {
        if self.scarcity.load(Ordering::Relaxed) < from as u8 {
            return None;
        }
        let message = format!(
            "this server has little memory left of the {} that it may take: come back later, or raise max-memory",
            show_size(self.max.unwrap_or_default())
        );
        Some(Box::new(Status::too_many_requests(message, 1)))
    }
}

/// How scarce memory is when so much of so much is taken.
pub(super) const fn judge(resident: u64, max: u64) -> Scarcity {
    if resident >= max - max / 8 {
        Scarcity::Full
    } else if resident >= max - max / 16 * 3 {
        Scarcity::Tight
    } else {
        Scarcity::None
    }
}

/// What the window may hold from now on: an eighth less than it does while memory is full, slowly as much as is configured once
/// there is enough.
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
        assert!(text.contains("of the 256MiB that it may take"), "{text}");
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
