//! Revisions that the source skipped: it began again above them and never wrote one of them.
//!
//! Unlike a revision that changed nothing here (another prefix of the same store wrote it), whoever names one of these
//! has seen another history: that of a store which was lost, or went on after the copy that is served now was made.

use crate::revision::Revision;

/// A run of revisions that were skipped: those between `last` and `next`, neither included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The newest revision before it.
    pub last: Revision,
    /// Where the source began again. It changed nothing, and the first change after the gap comes after it.
    pub next: Revision,
}

impl Gap {
    /// Whether `revision` was skipped.
    #[must_use]
    pub fn contains(&self, revision: Revision) -> bool {
        self.last < revision && revision < self.next
    }
}
