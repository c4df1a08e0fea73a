//! Exact accounting of one watcher: which writes of which objects it has seen. A write is identified by its object and
//! the number of the write of that object (1, 2, 3, ...), so a gap, a repetition and a late arrival can be told apart.
//!
//! When all is well a watcher costs four bytes an object: the newest write seen. Gaps are kept as ranges, only while
//! there are any, and fill again when the missing write comes late.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    InOrder,
    /// New, but after one that is younger: by resourceVersion, or by the object's own sequence.
    OutOfOrder,
    Duplicated,
}

/// What one watcher has seen, apart from its row of newest writes.
#[derive(Debug)]
pub(crate) struct Account {
    revision: u64,
    /// (object's rank, first write missing) -> last write missing.
    missing: BTreeMap<(u32, u32), u32>,
}

impl Account {
    /// A watcher that starts after `revision`.
    pub(crate) const fn new(revision: u64) -> Self {
        Self { revision, missing: BTreeMap::new() }
    }

    pub(crate) const fn revision(&self) -> u64 {
        self.revision
    }

    /// An event without a stamp of this run: only its place in the order counts. False: it came too late.
    pub(crate) fn pass(&mut self, revision: u64) -> bool {
        let grows = revision > self.revision;
        self.revision = self.revision.max(revision);
        grows
    }

    /// A bookmark: "nothing older than `revision` follows". It may repeat a revision that was seen. False: it goes back.
    pub(crate) fn bookmark(&mut self, revision: u64) -> bool {
        let holds = revision >= self.revision;
        self.revision = self.revision.max(revision);
        holds
    }

    /// Write number `seq` of the object with `rank` was delivered at `revision`. `row`: newest write seen, by rank.
    pub(crate) fn deliver(&mut self, row: &mut [u32], rank: u32, seq: u32, revision: u64) -> Verdict {
        let Some(newest) = row.get_mut(rank as usize) else { return Verdict::Duplicated };
        let grows = revision > self.revision;
        if seq > *newest {
            if seq > *newest + 1 {
                self.missing.insert((rank, *newest + 1), seq - 1);
            }
            *newest = seq;
        } else if self.fill(rank, seq) {
            self.revision = self.revision.max(revision);
            return Verdict::OutOfOrder;
        } else {
            return Verdict::Duplicated;
        }
        self.revision = self.revision.max(revision);
        if grows { Verdict::InOrder } else { Verdict::OutOfOrder }
    }

    /// Takes `seq` out of the gaps. False: it was in none.
    fn fill(&mut self, rank: u32, seq: u32) -> bool {
        let missing = &mut self.missing;
        let Some((&(_, first), &last)) = missing.range((rank, 0)..=(rank, seq)).next_back() else {
            return false;
        };
        if seq > last {
            return false;
        }
        missing.remove(&(rank, first));
        if first < seq {
            missing.insert((rank, first), seq - 1);
        }
        if seq < last {
            missing.insert((rank, seq + 1), last);
        }
        true
    }

    /// Writes that are missing in front of some that came.
    pub(crate) fn gaps(&self) -> u64 {
        self.missing.iter().map(|(&(_, first), &last)| u64::from(last - first) + 1).sum()
    }

    /// How many writes never came. `finals`: the number of the last write, by rank; `failed`: writes (rank, seq) that
    /// the server did not acknowledge, which nobody has to see.
    pub(crate) fn lost(&self, row: &[u32], finals: &[u32], failed: &BTreeSet<(u32, u32)>) -> u64 {
        let absent = |rank: u32, first: u32, last: u32| -> u64 {
            // `last` may also be u32::MAX with `first` saturated to it: then write MAX was seen.
            if first > last || first == u32::MAX {
                return 0;
            }
            let excused = failed.range((rank, first)..=(rank, last)).count() as u64;
            u64::from(last - first + 1) - excused
        };
        let gaps = self.missing.iter();
        let final_of = |rank: u32| finals.get(rank as usize).copied().unwrap_or(0);
        let within: u64 =
            gaps.map(|(&(rank, first), &last)| absent(rank, first, last.min(final_of(rank)))).sum();
        let newest = (0u32..).zip(row.iter().zip(finals));
        let after: u64 =
            newest.map(|(rank, (&seen, &last))| absent(rank, seen.saturating_add(1), last)).sum();
        within + after
    }

    /// For how many objects this watcher saw a write that was never sent: a server that makes events up.
    pub(crate) fn invented(row: &[u32], finals: &[u32]) -> u64 {
        row.iter().zip(finals).filter(|(seen, last)| seen > last).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE_FAILED: BTreeSet<(u32, u32)> = BTreeSet::new();

    /// Feeds (rank, seq, revision) to a watcher of two objects.
    fn feed(events: &[(u32, u32, u64)]) -> (Account, Vec<u32>, Vec<Verdict>) {
        let (mut account, mut row) = (Account::new(100), vec![0, 0]);
        let verdicts = events
            .iter()
            .map(|&(rank, seq, revision)| account.deliver(&mut row, rank, seq, revision))
            .collect();
        (account, row, verdicts)
    }

    #[test]
    fn all_in_order() {
        let (account, row, verdicts) = feed(&[(0, 1, 101), (1, 1, 102), (0, 2, 103), (0, 3, 200)]);
        assert_eq!(verdicts, [Verdict::InOrder; 4]);
        assert_eq!(account.lost(&row, &[3, 1], &NONE_FAILED), 0);
        assert_eq!(account.lost(&row, &[5, 2], &NONE_FAILED), 3, "two and one at the end never came");
    }

    #[test]
    fn a_gap_is_lost_until_it_fills() {
        let (mut account, mut row, verdicts) = feed(&[(0, 1, 101), (0, 5, 105)]);
        assert_eq!(verdicts, [Verdict::InOrder; 2]);
        assert_eq!((account.lost(&row, &[5, 0], &NONE_FAILED), account.gaps()), (3, 3));
        assert_eq!(account.deliver(&mut row, 0, 3, 103), Verdict::OutOfOrder);
        assert_eq!(account.deliver(&mut row, 0, 3, 103), Verdict::Duplicated);
        assert_eq!(account.lost(&row, &[5, 0], &NONE_FAILED), 2);
        assert_eq!(account.deliver(&mut row, 0, 2, 102), Verdict::OutOfOrder);
        assert_eq!(account.deliver(&mut row, 0, 4, 104), Verdict::OutOfOrder);
        assert_eq!(account.lost(&row, &[5, 0], &NONE_FAILED), 0);
        assert_eq!(account.gaps(), 0);
        assert!(account.missing.is_empty(), "no memory for gaps that are filled");
    }

    #[test]
    fn a_repetition_is_duplicated_and_not_out_of_order() {
        let (_, _, verdicts) = feed(&[(0, 1, 101), (0, 1, 101), (1, 1, 102), (0, 1, 101)]);
        assert_eq!(verdicts, [Verdict::InOrder, Verdict::Duplicated, Verdict::InOrder, Verdict::Duplicated]);
    }

    #[test]
    fn two_objects_swapped_are_out_of_order_once() {
        let (account, row, verdicts) = feed(&[(1, 1, 102), (0, 1, 101), (0, 2, 103)]);
        assert_eq!(verdicts, [Verdict::InOrder, Verdict::OutOfOrder, Verdict::InOrder]);
        assert_eq!(account.lost(&row, &[2, 1], &NONE_FAILED), 0);
    }

    #[test]
    fn an_old_revision_on_a_new_write_is_out_of_order() {
        let (_, _, verdicts) = feed(&[(0, 1, 100)]);
        assert_eq!(verdicts, [Verdict::OutOfOrder], "the watch starts after revision 100");
    }

    #[test]
    fn writes_that_failed_are_not_lost() {
        let (account, row, _) = feed(&[(0, 1, 101), (0, 4, 104)]);
        let failed = BTreeSet::from([(0, 2), (0, 6), (1, 1)]);
        assert_eq!(account.lost(&row, &[6, 1], &failed), 2, "write 3 and write 5 of the first object");
    }

    #[test]
    fn a_hostile_sequence_number_costs_one_range() {
        let (account, row, _) = feed(&[(0, u32::MAX, 101)]);
        assert_eq!(account.lost(&row, &[u32::MAX, 0], &NONE_FAILED), u64::from(u32::MAX) - 1);
        assert_eq!(account.lost(&row, &[7, 0], &NONE_FAILED), 7, "only writes that were sent can be lost");
        assert_eq!(Account::invented(&row, &[7, 0]), 1);
    }

    #[test]
    fn bookmarks_may_stand_still_but_not_go_back() {
        let mut account = Account::new(100);
        assert!(account.pass(105));
        assert!(account.bookmark(105));
        assert!(account.bookmark(110));
        assert!(!account.bookmark(109));
        assert!(!account.pass(110), "an event at a revision that a bookmark had closed");
    }
}
