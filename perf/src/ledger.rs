//! Exact accounting of one watcher: which writes of which objects it has seen. A write is identified by its object and its number
//! (1, 2, 3, ...), so a gap, a repetition and a late arrival can be told apart. When all is well a watcher costs four bytes an
//! object: the newest write seen. Gaps are ranges, kept until the missing writes come late.

use crate::media::Media;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    InOrder,
    /// New, but after one that is younger: by resourceVersion, or by the object's own sequence.
    OutOfOrder,
    Duplicated,
}

/// What one watcher has seen, apart from its row of newest writes.
pub(crate) struct Account {
    revision: u64,
    /// (object's rank, first write missing) -> last write missing.
    missing: BTreeMap<(u32, u32), u32>,
}

pub(crate) struct Due {
    /// The number of the last write, by rank.
    pub(crate) finals: Vec<u32>,
    /// Writes (rank, seq) that the server did not acknowledge: a watcher may see them, and need not.
    pub(crate) failed: BTreeSet<(u32, u32)>,
}

impl Due {
    pub(crate) fn writes(&self) -> u64 {
        self.finals.iter().map(|&last| u64::from(last)).sum()
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.writes().saturating_sub(self.failed.len() as u64)
    }
}

impl Account {
    pub(crate) const fn new(revision: u64) -> Self {
        Self { revision, missing: BTreeMap::new() }
    }

    pub(crate) const fn revision(&self) -> u64 {
        self.revision
    }

    /// An event or bookmark at `revision` came. How it compares with the newest revision before.
    pub(crate) fn advance(&mut self, revision: u64) -> Ordering {
        let order = revision.cmp(&self.revision);
        self.revision = self.revision.max(revision);
        order
    }

    /// Write number `seq` of the object with `rank` was delivered at `revision`. `row`: newest write seen, by rank.
    pub(crate) fn deliver(&mut self, row: &mut [u32], rank: u32, seq: u32, revision: u64) -> Verdict {
        let Some(newest) = row.get_mut(rank as usize) else { return Verdict::Duplicated };
        let is_newer = seq > *newest;
        if is_newer {
            if seq > *newest + 1 {
                self.missing.insert((rank, *newest + 1), seq - 1);
            }
            *newest = seq;
        } else if !self.fill(rank, seq) {
            return Verdict::Duplicated;
        }
        if self.advance(revision).is_gt() && is_newer { Verdict::InOrder } else { Verdict::OutOfOrder }
    }

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

    pub(crate) fn gaps(&self) -> u64 {
        self.missing.iter().map(|(&(_, first), &last)| u64::from(last - first) + 1).sum()
    }

    pub(crate) fn lost(&self, row: &[u32], due: &Due) -> u64 {
        let absent = |rank: u32, first: u32, last: u32| -> u64 {
            // `last` may also be u32::MAX with `first` saturated to it: then write MAX was seen.
            if first > last || first == u32::MAX {
                return 0;
            }
            let excused = due.failed.range((rank, first)..=(rank, last)).count() as u64;
            u64::from(last - first + 1) - excused
        };
        let final_of = |rank: u32| due.finals.get(rank as usize).copied().unwrap_or(0);
        let gaps = self.missing.iter();
        let within: u64 =
            gaps.map(|(&(rank, first), &last)| absent(rank, first, last.min(final_of(rank)))).sum();
        let newest = (0u32..).zip(row.iter().zip(&due.finals));
        let after: u64 =
            newest.map(|(rank, (&seen, &last))| absent(rank, seen.saturating_add(1), last)).sum();
        within + after
    }

    /// For how many objects this watcher saw a write that was never sent: a server that makes events up.
    pub(crate) fn invented(row: &[u32], due: &Due) -> u64 {
        row.iter().zip(&due.finals).filter(|(seen, last)| seen > last).count() as u64
    }
}

/// What one group of watchers watches: a namespace, perhaps narrowed by selectors, and which of the run's objects that covers, as
/// learned from a LIST with the same selectors: so what is expected is exact, and no selector is evaluated here.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Scope {
    /// Path and query of the watch, without `resourceVersion` and `timeoutSeconds`.
    pub(crate) path: String,
    /// The resourceVersion of the LIST: the watch starts after it.
    pub(crate) revision: u64,
    /// The numbers of the objects that it covers, ascending. An object's index here is its rank.
    pub(crate) objects: Vec<u32>,
    pub(crate) media: Media,
}

impl Scope {
    /// The rank of object number `object`; `None` when this scope does not cover it.
    pub(crate) fn rank(&self, object: u32) -> Option<u32> {
        // Scopes mostly cover one contiguous run of numbers: then the rank is a subtraction.
        let guess = object.checked_sub(*self.objects.first()?)?;
        if self.objects.get(guess as usize) == Some(&object) {
            return Some(guess);
        }
        self.objects.binary_search(&object).ok().and_then(|rank| u32::try_from(rank).ok())
    }

    /// What its watchers must have seen. `finals`: the number of the last write of each object of the run; `failed`: writes
    /// (object, seq) without acknowledgement.
    pub(crate) fn due(&self, finals: &[u32], failed: &[(u32, u32)]) -> Due {
        let last = |&object: &u32| finals.get(object as usize).copied().unwrap_or(0);
        let ranked = |&(object, seq): &(u32, u32)| Some((self.rank(object)?, seq));
        Due {
            finals: self.objects.iter().map(last).collect(),
            failed: failed.iter().filter_map(ranked).collect(),
        }
    }

    /// The request target of a watch that starts after `revision`.
    pub(crate) fn watch_path(&self, revision: u64, timeout_seconds: u64, bookmarks: bool) -> String {
        let bookmarks = if bookmarks { "&allowWatchBookmarks=true" } else { "" };
        let join = if self.path.contains('?') { '&' } else { '?' };
        format!(
            "{}{join}watch=1&resourceVersion={revision}&timeoutSeconds={timeout_seconds}{bookmarks}",
            self.path
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Duplicated, InOrder, OutOfOrder};
    use super::*;

    /// Feeds (rank, seq, revision) to a watcher of two objects that started after revision 100.
    fn feed(events: &[(u32, u32, u64)]) -> (Account, Vec<u32>, Vec<Verdict>) {
        let (mut account, mut row) = (Account::new(100), vec![0, 0]);
        let deliver = |&(rank, seq, revision)| account.deliver(&mut row, rank, seq, revision);
        let verdicts = events.iter().map(deliver).collect();
        (account, row, verdicts)
    }

    fn due(finals: [u32; 2]) -> Due {
        Due { finals: finals.to_vec(), failed: BTreeSet::new() }
    }

    #[test]
    fn each_delivery_has_its_verdict() {
        for (events, verdicts, finals, lost) in [
            (&[(0, 1, 101), (1, 1, 102), (0, 2, 103), (0, 3, 200)][..], &[InOrder; 4][..], [3, 1], 0),
            // At the end two and one never came.
            (&[(0, 1, 101), (1, 1, 102), (0, 2, 103), (0, 3, 200)], &[InOrder; 4], [5, 2], 3),
            (
                &[(0, 1, 101), (0, 1, 101), (1, 1, 102), (0, 1, 101)],
                &[InOrder, Duplicated, InOrder, Duplicated],
                [1, 1],
                0,
            ),
            (&[(1, 1, 102), (0, 1, 101), (0, 2, 103)], &[InOrder, OutOfOrder, InOrder], [2, 1], 0),
            // The watch starts after this revision.
            (&[(0, 1, 100)], &[OutOfOrder], [1, 0], 0),
        ] {
            let (account, row, found) = feed(events);
            assert_eq!(found, verdicts, "{events:?}");
            assert_eq!(account.lost(&row, &due(finals)), lost, "{events:?}");
        }
    }

    #[test]
    fn a_gap_is_lost_until_it_fills() {
        let (mut account, mut row, verdicts) = feed(&[(0, 1, 101), (0, 5, 105)]);
        assert_eq!(verdicts, [InOrder; 2]);
        assert_eq!((account.lost(&row, &due([5, 0])), account.gaps()), (3, 3));
        for (seq, verdict, left) in
            [(3, OutOfOrder, 2), (3, Duplicated, 2), (2, OutOfOrder, 1), (4, OutOfOrder, 0)]
        {
            assert_eq!(account.deliver(&mut row, 0, seq, 100 + u64::from(seq)), verdict);
            assert_eq!((account.lost(&row, &due([5, 0])), account.gaps()), (left, left));
        }
        assert!(account.missing.is_empty(), "no memory for gaps that are filled");
    }

    #[test]
    fn only_writes_that_were_sent_and_done_can_be_lost() {
        let (account, row, _) = feed(&[(0, 1, 101), (0, 4, 104)]);
        let due = Due { finals: vec![6, 1], failed: BTreeSet::from([(0, 2), (0, 6), (1, 1)]) };
        assert_eq!(account.lost(&row, &due), 2, "write 3 and write 5 of the first object");
        assert_eq!((due.writes(), due.acknowledged()), (7, 4));
        // A hostile number costs one range.
        let (account, row, _) = feed(&[(0, u32::MAX, 101)]);
        let due = |last| Due { finals: vec![last, 0], failed: BTreeSet::new() };
        assert_eq!(account.lost(&row, &due(u32::MAX)), u64::from(u32::MAX) - 1);
        assert_eq!((account.lost(&row, &due(7)), Account::invented(&row, &due(7))), (7, 1));
    }

    #[test]
    fn ranks_and_paths() {
        let whole =
            Scope { path: "/p".to_owned(), revision: 1, objects: (20..30).collect(), media: Media::Json };
        let path = "/p?labelSelector=x".to_owned();
        let odd = Scope { path, objects: vec![21, 23, 29], ..whole.clone() };
        assert_eq!([20, 29, 19, 30].map(|object| whole.rank(object)), [Some(0), Some(9), None, None]);
        assert_eq!([21, 23, 29, 22].map(|object| odd.rank(object)), [Some(0), Some(1), Some(2), None]);
        let finals: Vec<u32> = (100..130).collect();
        let due = odd.due(&finals, &[(21, 7), (22, 8), (29, 9)]);
        assert_eq!(due.finals, [121, 123, 129]);
        assert_eq!(Vec::from_iter(due.failed), [(0, 7), (2, 9)]);
        assert_eq!(
            odd.watch_path(7, 60, false),
            "/p?labelSelector=x&watch=1&resourceVersion=7&timeoutSeconds=60"
        );
        assert_eq!(
            whole.watch_path(1, 5, true),
            "/p?watch=1&resourceVersion=1&timeoutSeconds=5&allowWatchBookmarks=true"
        );
    }
}
