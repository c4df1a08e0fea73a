//! The lives of a store: each start begins one, at a revision that no life before it can have reached.
//!
//! Owns the minimum that the clock sets for the revisions of a start, and the gaps between lives. A revision in a gap was never
//! written here: a client that names it saw a store that is lost, or a continuation of this one from after the copy that is
//! served now was made. Never accesses the file and never reads a clock.

use std::fmt;

use revcast_engine::gap::Gap;
use revcast_engine::revision::Revision;

use crate::source::WallTime;

/// No store makes more than one revision per microsecond: if the clock is right, the revisions of a life are below the minimum
/// of the next.
const REVISIONS_A_MILLISECOND: u64 = 1000;
/// Above this a client that stores numbers as JavaScript does cannot distinguish two revisions.
const REVISION_MAX: u64 = 1 << 53;
/// 2024-01-01T00:00:00Z: before revcast was written.
const PLAUSIBLE_FROM: WallTime = WallTime::from_millis(1_704_067_200_000);
/// 2200-01-01T00:00:00Z.
const PLAUSIBLE_UNTIL: WallTime = WallTime::from_millis(7_258_118_400_000);

// What is written after the last minimum stays below the limit for fifty years.
const _: () = assert!(PLAUSIBLE_UNTIL.as_millis() * REVISIONS_A_MILLISECOND < REVISION_MAX / 10 * 9);

/// The revision at or above which a life begins that starts now. A clock that is wrong by centuries is ignored: the store could
/// never get rid of its revisions.
pub(super) const fn floor(now: WallTime) -> Revision {
    if now.as_millis() >= PLAUSIBLE_UNTIL.as_millis() {
        return Revision::ZERO;
    }
    Revision::new(now.as_millis() * REVISIONS_A_MILLISECOND)
}

/// A clock that does not keep a new life's revisions above those of a lost life. Displays as one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockFault {
    /// The store has reached revisions that the clock allows only later.
    Behind {
        /// The time of the clock.
        now: WallTime,
        /// The store's newest revision.
        stored: Revision,
    },
    /// It is clearly wrong.
    Implausible {
        /// The time of the clock.
        now: WallTime,
    },
}

impl ClockFault {
    /// The fault, if any, of a store that is started at `now` and has reached `stored`.
    pub(super) fn of(now: WallTime, stored: Revision) -> Option<Self> {
        if now < PLAUSIBLE_UNTIL && stored > floor(now).max(super::FRESH) {
            return Some(Self::Behind { now, stored });
        }
        (now < PLAUSIBLE_FROM || now >= PLAUSIBLE_UNTIL).then_some(Self::Implausible { now })
    }
}

impl fmt::Display for ClockFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Behind { now, .. } | Self::Implausible { now }) = self;
        match i64::try_from(now.as_millis()).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok()) {
            Some(now) => write!(f, "the clock says {now}")?,
            None => write!(f, "the clock says {} ms since 1970", now.as_millis())?,
        }
        match self {
            Self::Behind { stored, .. } => write!(
                f,
                ", which is before the store reached revision {stored}: it was set back; revisions continue from there, but a client of a store that is lost or was restored may not notice: set the clock, and restart"
            ),
            Self::Implausible { .. } => f.write_str(
                ", which is not possible: revisions may begin below those of an earlier store, whose clients then wait for ever; set the clock, and restart",
            ),
        }
    }
}

/// The gaps between the lives that history covers, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lives(Vec<Gap>);

impl Lives {
    /// As stored in the file: in order. `None`: they are invalid for a store at this revision.
    pub(super) fn new(gaps: Vec<Gap>, newest: Revision) -> Option<Self> {
        let ordered = gaps.windows(2).all(|two| two[0].next <= two[1].last);
        let whole = gaps.iter().all(|gap| gap.last < gap.next && gap.next <= newest);
        (ordered && whole).then_some(Self(gaps))
    }

    pub(super) fn gaps(&self) -> &[Gap] {
        &self.0
    }

    /// Another life begins after the newest one.
    pub(super) fn begin(&mut self, gap: Gap) {
        self.0.push(gap);
    }

    /// Forgets lives that began at `compacted` or before.
    pub(super) fn forget(&mut self, compacted: Revision) {
        self.0.retain(|gap| gap.next > compacted);
    }

    /// The revision of the first write after `revision`. The one at which a life began wrote nothing.
    pub(super) fn write_after(&self, revision: Revision) -> Revision {
        let mut newest = revision;
        for gap in &self.0[self.0.partition_point(|gap| gap.next <= revision)..] {
            if gap.last > newest {
                break;
            }
            newest = gap.next;
        }
        newest.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn rev(n: u64) -> Revision {
        Revision::new(n)
    }

    fn gap(last: u64, next: u64) -> Gap {
        Gap { last: rev(last), next: rev(next) }
    }

    #[test]
    fn the_next_write_is_found_over_gaps_and_empty_lives() {
        let lives = Lives::new(vec![gap(3, 10), gap(10, 20), gap(25, 40)], rev(50)).expect("in order");
        for (revision, next) in [
            (1, 2),
            (2, 3),
            (3, 21),
            (7, 21),
            (10, 21),
            (15, 21),
            (20, 21),
            (24, 25),
            (25, 41),
            (40, 41),
            (50, 51),
        ] {
            assert_eq!(lives.write_after(rev(revision)), rev(next), "after {revision}");
        }
        for wrong in
            [vec![gap(3, 3)], vec![gap(3, 51)], vec![gap(3, 10), gap(9, 20)], vec![gap(10, 20), gap(3, 9)]]
        {
            assert!(Lives::new(wrong.clone(), rev(50)).is_none(), "{wrong:?}");
        }
        let mut later = lives;
        later.forget(rev(20));
        assert_eq!(later.gaps(), [gap(25, 40)]);
    }

    #[test]
    fn a_clock_that_is_wrong_is_told_and_never_kept() {
        let now = WallTime::from_millis(1_790_000_000_000);
        assert_eq!(floor(now), rev(1_790_000_000_000_000));
        assert_eq!(floor(WallTime::from_millis(u64::MAX)), Revision::ZERO);
        let below = rev(1_789_999_999_999_999);
        assert_eq!([ClockFault::of(now, floor(now)), ClockFault::of(now, below)], [None, None]);
        let line = |now, stored| {
            ClockFault::of(WallTime::from_millis(now), stored).expect("it is wrong").to_string()
        };
        let behind = line(1_790_000_000_000, rev(1_790_000_000_000_001));
        let said = ["the clock says 2026-09-21T", "revision 1790000000000001", "it was set back"];
        assert!(said.iter().all(|said| behind.contains(said)) && !behind.contains('\n'), "{behind}");
        for (now, said) in
            [(0, "1970-01-01T00:00:00Z"), (u64::MAX, "18446744073709551615 ms"), (8_000_000_000_000, "2223-")]
        {
            let line = line(now, super::super::FRESH);
            assert!(line.contains(said) && line.contains("not possible") && !line.contains('\n'), "{line}");
        }
    }
}
