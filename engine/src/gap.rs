//! Revisions that the source skipped: it began again above them and never wrote one of them.
//!
//! A client that names such a revision has seen another history: that of a store which was lost, or which continued
//! after the copy that is served now was made. A revision that changed nothing here (another prefix of the same store
//! wrote it) is not in a gap.

use crate::revision::Revision;

/// A run of revisions that were skipped: those between `last` and `next`, neither included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The newest revision before it.
    pub last: Revision,
    /// Where the source began again. This revision changed nothing; the first change after the gap is newer.
    pub next: Revision,
}

impl Gap {
    /// Whether `revision` was skipped.
    #[must_use]
    pub fn contains(&self, revision: Revision) -> bool {
        self.last < revision && revision < self.next
    }
}
