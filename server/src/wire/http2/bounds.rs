//! What a peer may cost: allowances that time refills (RFC 9113, section 10.5).
//!
//! Frames without an effect are paid by one allowance, streams that end before they are answered by another. A peer that uses
//! one up is told ENHANCE_YOUR_CALM.

use std::time::Duration;

use revcast_engine::tick::Tick;

/// A sum that fills at a rate, up to a limit.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    left: u32,
    max: u32,
    per_second: u32,
}

impl Allowance {
    const fn new(max: u32, per_second: u32) -> Self {
        Self { left: max, max, per_second }
    }

    /// False: it is used up.
    const fn pay(&mut self, cost: u32) -> bool {
        let enough = self.left >= cost;
        self.left = self.left.saturating_sub(cost);
        enough
    }

    fn earn(&mut self, sum: u32) {
        self.left = self.left.saturating_add(sum).min(self.max);
    }

    fn refill(&mut self, passed: Duration) {
        let sum = passed.as_millis().saturating_mul(u128::from(self.per_second)) / 1_000;
        self.earn(u32::try_from(sum).unwrap_or(u32::MAX));
    }
}

/// Frames without an effect of a peer that is known: PING, SETTINGS, PRIORITY, WINDOW_UPDATE, empty DATA, unknown kinds. Each DATA
/// frame that is sent to it allows two more, for the windows of the stream and the connection.
const FRAMES: Allowance = Allowance::new(10_000, 1_000);
/// Of one that is not.
const FRAMES_OF_UNKNOWN: Allowance = Allowance::new(1_000, 100);
/// Streams that the peer reset before they were answered, or that this side had to reset.
const RESETS: Allowance = Allowance::new(200, 20);
/// The time after which allowances are refilled, at the earliest.
const REFILLED_AFTER: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    frames: Allowance,
    resets: Allowance,
    refilled_at: Tick,
}

impl Bounds {
    pub(super) const fn new(now: Tick) -> Self {
        Self { frames: FRAMES_OF_UNKNOWN, resets: RESETS, refilled_at: now }
    }

    /// The peer showed who it is.
    pub(super) const fn trust(&mut self) {
        if self.frames.max < FRAMES.max {
            self.frames = FRAMES;
        }
    }

    pub(super) fn refill(&mut self, now: Tick) {
        let passed = now.since(self.refilled_at);
        if passed >= REFILLED_AFTER {
            self.refilled_at = now;
            self.frames.refill(passed);
            self.resets.refill(passed);
        }
    }

    /// Counts a frame, which costs as much as so many settings. False: too many.
    pub(super) const fn take_frame(&mut self, cost: u32) -> bool {
        self.frames.pay(cost)
    }

    /// So many DATA frames are sent.
    pub(super) fn sent_data(&mut self, frames: u32) {
        self.frames.earn(frames.saturating_mul(2));
    }

    /// Counts a stream that was reset. False: too many.
    pub(super) const fn take_reset(&mut self) -> bool {
        self.resets.pay(1)
    }
}
